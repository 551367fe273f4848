"""The worth of an output to the user who reads it and to the provider who pays for it.

    user = ε + 0.5·Q_user + 0.2·B(words of the response)
             + 0.3·exp(−characters before it / 500)
    llm  = ε + 0.4·Q_llm + 0.2·B(words of the output) + 0.2·format + 0.2·matrix
    B(n; a, b) = σ(s·(n − a)) · σ(s·(b − n)): about 1 inside [a, b], 0 far outside

Source: GTAlign (arXiv 2510.08872), section 4 and its released code. A second published variant pays
the model besides where <analyze> names an action of the true frontier:

    llm = ε + 0.35·Q_llm + 0.05·B + 0.2·format + 0.2·matrix + 0.2·named

Both published variants read an output as the released code does (`blocks.parse_as_released`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, sqrt
from typing import Literal

from pydantic import Field, field_validator

from equipoise.component import Settings
from equipoise.environments.assistance.blocks import ParsedOutput
from equipoise.environments.assistance.payoff_matrix import matrix_contrast, undominated
from equipoise.environments.assistance.responses import named_on_frontier

Variant = Literal["corrected", "as_released", "frontier", "choice"]
Window = tuple[float, float]


class RewardTerms(Settings):
    """Weights and windows of the reward. The defaults are the published ones."""

    epsilon: float = Field(1e-4, ge=0, description="added to both utilities: no product is 0")
    user_quality: float = Field(0.5, ge=0, description="weight of the quality to the user")
    user_length: float = Field(0.2, ge=0, description="weight of a response of fitting length")
    user_wait: float = Field(0.3, ge=0, description="weight of little text before the response")
    llm_quality: float = Field(0.4, ge=0, description="weight of the quality to the model")
    llm_length: float = Field(0.2, ge=0, description="weight of an output of fitting length")
    llm_format: float = Field(0.2, ge=0, description="weight of well-formed blocks")
    llm_matrix: float = Field(
        0.2, ge=0, description="weight of a matrix that tells the user and the model apart"
    )
    llm_frontier: float = Field(
        0.0, ge=0, description="weight of the grade of <analyze>: does it name the frontier?"
    )
    needs_analyze: bool = Field(
        False, description="an output without <analyze> is worth 0, as one without a matrix"
    )
    round_cost: float = Field(0.0, ge=0, description="off the user's utility per further turn")
    response_words: Window = Field((20, 500), description="window of the response's words")
    output_words: Window = Field((500, 1000), description="window of the whole output's words")
    steepness: float = Field(0.005, gt=0, description="of the windows' edges, per word")
    wait: float = Field(
        500.0, gt=0, description="characters before the response at which its value is 1/e"
    )

    @field_validator("response_words", "output_words")
    @classmethod
    def _in_order(cls, window: Window) -> Window:
        if window[0] >= window[1]:
            raise ValueError(
                f"the window begins at {window[0]:g} and must end above it, not at {window[1]:g}"
            )
        return window


_FIRST = RewardTerms.model_validate({})
_SECOND = RewardTerms.model_validate({"llm_quality": 0.35, "llm_length": 0.05, "llm_frontier": 0.2})
# The first variant where the second's code runs it: on the sets out of domain.
OUT_OF_DOMAIN = _FIRST.model_copy(update={"needs_analyze": True})
VARIANTS: dict[str, RewardTerms] = {
    "corrected": _FIRST,
    "as_released": _FIRST,
    "frontier": _SECOND.model_copy(update={"needs_analyze": True}),
    "choice": _SECOND,
}


@dataclass(frozen=True, slots=True)
class Reward:
    """The worth of an output to either side, with its `parts`, each before its weight."""

    user: float
    llm: float
    parts: dict[str, float] = field(default_factory=dict)

    @property
    def welfare(self) -> float:
        """√(user · llm), the published reward."""
        return sqrt(max(self.user, 0.0) * max(self.llm, 0.0))


def reward(
    parsed: ParsedOutput,
    quality_user: float | None,
    quality_llm: float | None,
    variant: Variant = "corrected",
    *,
    frontier: float | None = None,
    terms: RewardTerms | None = None,
    earlier: Sequence[ParsedOutput] = (),
) -> Reward | None:
    """The utilities of an output with these qualities in [0, 1], or None where one is missing.

    An output without a response or a readable matrix is worth 0 to both. The published code has 0
    in place of a missing quality, which on a harmful prompt *pays* the user.

    Args: frontier: the grade of <analyze>, 0, ½ or 1; None: by the text rule `named_on_frontier`.
    terms: in place of the variant's. earlier: the assistant's outputs before in the match, whose
    length and waiting count. Raises ValueError for an unknown variant.
    """
    if variant not in VARIANTS:
        raise ValueError(f"variant: unknown variant {variant!r}; known: {', '.join(VARIANTS)}")
    terms = terms or VARIANTS[variant]
    if not is_paid(parsed, terms):
        return Reward(0.0, 0.0, {})
    if quality_user is None or quality_llm is None:
        return None
    parts = {"quality_user": quality_user, "quality_llm": quality_llm}
    # The counted parts of the reward: length and waiting of all outputs, the form of the last
    outputs = [*earlier, parsed]
    last = outputs[-1]
    response_words = sum(len((output.response or "").split()) for output in outputs)
    output_words = sum(len(output.text.split()) for output in outputs)
    waiting = sum(output.before for output in outputs)
    parts |= {
        "response_length": length_score(response_words, terms.response_words, terms),
        "output_length": length_score(output_words, terms.output_words, terms),
        "wait": exp(-waiting / terms.wait),
        "format": float(last.well_formed and last.matrix is not None),
        "matrix": 0.0 if last.matrix is None else matrix_contrast(last.matrix),
    }
    if terms.llm_frontier:
        parts["frontier"] = frontier_grade(parsed) if frontier is None else frontier
    user = (
        terms.epsilon
        + terms.user_quality * parts["quality_user"]
        + terms.user_length * parts["response_length"]
        + terms.user_wait * parts["wait"]
        - terms.round_cost * len(earlier)
    )
    llm = (
        terms.epsilon
        + terms.llm_quality * parts["quality_llm"]
        + terms.llm_length * parts["output_length"]
        + terms.llm_format * parts["format"]
        + terms.llm_matrix * parts["matrix"]
    )
    if terms.llm_frontier:
        llm += terms.llm_frontier * parts["frontier"]
    return Reward(user, llm, parts)


def frontier_grade(parsed: ParsedOutput) -> float:
    """The text rule's grade: 1, ½ or 0 as <analyze> names an action of the matrix's frontier."""
    if parsed.matrix is None:
        return 0.0
    return named_on_frontier(parsed.analyze, undominated(parsed.matrix))


def is_paid(parsed: ParsedOutput, terms: RewardTerms) -> bool:
    """True if an output is worth anything: readable, and with <analyze> where that is needed."""
    return is_readable(parsed) and not (terms.needs_analyze and parsed.analyze is None)


def is_readable(parsed: ParsedOutput) -> bool:
    """True if an output can be paid: a response and, unless blocks were not asked for, a matrix."""
    return parsed.response is not None and (parsed.matrix is not None or not parsed.faults)


def length_score(count: float, window: Window, terms: RewardTerms) -> float:
    """B(n; a, b) = σ(s·(n − a)) · σ(s·(b − n)) of n words, in (0, 1)."""
    low, high = window
    long_enough = sigmoid(terms.steepness * (count - low))
    short_enough = sigmoid(terms.steepness * (high - count))
    return long_enough * short_enough


def sigmoid(value: float) -> float:
    if value >= 0:
        return 1 / (1 + exp(-value))
    return exp(value) / (1 + exp(value))
