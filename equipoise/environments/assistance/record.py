"""Recorded numbers of a measured generation of the assistant, field by field."""

import msgspec

from equipoise.environments.assistance.payoff_matrix import Cell
from equipoise.evaluation.measures import Measures, no_default
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.judge_agreement import ClassScore, Correlations

QUESTIONS = ("detailed", "vague", "unknown")  # what is known of a question


class Utilities(msgspec.Struct, frozen=True):
    """Worth of the answers to either side."""

    user: Estimate
    llm: Estimate


class Rates(msgspec.Struct, frozen=True):
    """Parts of the reward in [0, 1]; an output that cannot be read counts as 0."""

    quality_llm: Estimate
    quality_user: Estimate
    format: Estimate
    readable: Estimate
    matrix: Estimate


class ActionShares(msgspec.Struct, frozen=True):
    """Share of each action, in [0, 1]; `none`: no response was given; `n` answers."""

    AQ: float
    CQ: float
    DA: float
    none: float
    n: float


class AnswerLengths(msgspec.Struct, frozen=True):
    """Means of all answers: tokens, the response's share of characters, quality per 1,000; that per
    1,000 characters over the answers with a response.
    """

    tokens: float | None = None
    response_share: float | None = None
    quality_per_1000_tokens: float | None = None
    quality_per_1000_characters: float | None = None


class ActualPay(msgspec.Struct, frozen=True, array_like=True):
    """True worth of an action to either side, and the number of times it was taken."""

    user: float
    llm: float
    count: float


class WrittenGames(msgspec.Struct, frozen=True):
    """The matrices that were written.

    matrices    how many could be read means       question -> cell -> the mean of what was written
    chosen      cell -> how often it was chosen; "none": <analyze> names no cell typed       share
    of the choices that are of the question's true type paid        question -> action -> what it
    was really worth consistent  solution -> share of the choices that it names in that very game
    """

    matrices: int = 0
    means: dict[str, dict[str, Cell]] = {}
    chosen: dict[str, int] = {}
    typed: float | None = None
    paid: dict[str, dict[str, ActualPay]] = {}
    consistent: dict[str, float] = {}


class SourceMeasures(msgspec.Struct, frozen=True):
    """The main numbers of one data set; fields as in the other records.

    classes: kind of request -> how well it was told from the other by meeting it rightly.
    """

    welfare: Estimate
    user: Estimate
    llm: Estimate
    quality_llm: Estimate
    quality_user: Estimate
    format: Estimate
    right: Estimate
    tokens: float | None
    response_share: float | None
    quality_per_1000_tokens: float | None
    quality_per_1000_characters: float | None = None
    classes: dict[str, ClassScore] = {}


class AssistanceRecord(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers about one generation of the assistant on held-out prompts.

    welfare      mean welfare of an answer; `score` is its mean alone
    right        share of questions that were met by the right action: asked back where
                 vague, answered where clear
    actions      question ("detailed", "vague", "unknown") -> the actions taken
    sources      data set -> its main numbers
    points       prompt id -> (user, llm), the mean over its answers
    front        prompts whose points no other point outdoes
    hypervolume  area above (0, 0) that the points dominate
    correlations two scores, to read -> their correlations over the answers
    unjudged     share of the answers without a judgement
    beaten       earlier generation -> share of the prompts at which it did better by
                 one side and no worse by the other; `exploitability` is the largest
    """

    players: list[str] = no_default()
    scores: dict[str, Estimate] = no_default()
    score: float | None = no_default()
    exploitability: float | None = no_default()
    welfare: Estimate
    utilities: Utilities
    rates: Rates
    right: Estimate
    actions: dict[str, ActionShares]
    length: AnswerLengths
    written: WrittenGames
    sources: dict[str, SourceMeasures]
    points: dict[str, Cell]
    unjudged: float | None
    beaten: dict[str, float]
    front: list[str] = msgspec.field(default_factory=list)
    hypervolume: float | None = None
    correlations: dict[str, Correlations] = msgspec.field(default_factory=dict)

    @property
    def user(self) -> Estimate:
        """The utility to the user, under the name that it has of a single data set."""
        return self.utilities.user

    @property
    def llm(self) -> Estimate:
        """The utility to the model."""
        return self.utilities.llm

    @property
    def quality_user(self) -> Estimate:
        """Quality of the response to the user."""
        return self.rates.quality_user

    @property
    def quality_llm(self) -> Estimate:
        """Quality of the response to the model."""
        return self.rates.quality_llm

    @property
    def format(self) -> Estimate:
        """Share of well-formed outputs."""
        return self.rates.format

    @property
    def tokens(self) -> float | None:
        """Mean tokens of an output."""
        return self.length.tokens

    @property
    def response_share(self) -> float | None:
        """The response's mean share of an output's characters."""
        return self.length.response_share

    @property
    def quality_per_1000_tokens(self) -> float | None:
        """Quality to the model for a thousand tokens."""
        return self.length.quality_per_1000_tokens

    @property
    def quality_per_1000_characters(self) -> float | None:
        """The answers' score for a thousand characters, over outputs with a response."""
        return self.length.quality_per_1000_characters
