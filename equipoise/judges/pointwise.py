"""The bases of judges that score each seat's last answer on its own, and parts that they share."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence

from equipoise.errors import ConfigError, DataError, shorten
from equipoise.judges.base import Judge, last_answers, reasons_without_answer
from equipoise.judges.trying import fault_of_trial, first_judgeable
from equipoise.players.base import players_in
from equipoise.types import Judgement, Match, Prompt

Verdict = dict[str, float] | str
"""The utilities of an answer, or the reason why it cannot be judged."""


class Pointwise(Judge):
    """The base of judges that `score` every seat's last answer alone.

    A seat whose move failed, or that never moved, has no score, but a `reason`.
    """

    @abstractmethod
    def score(self, prompt: Prompt, text: str) -> Verdict:
        """The utilities of `text` as an answer to `prompt`, or why it cannot be judged."""

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """A verdict for each (prompt, text), in order."""
        return [self.score(prompt, text) for prompt, text in answers]

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """A user's own judge by rule is tried on a few made answers; one with a model is not."""
        yield from super().faults_of_prompts(prompts)
        has_model = "model" in type(self).model_fields or bool(list(players_in(self, "judge")))
        if ":" not in str(self.kind) or has_model or self.in_units:
            return
        judgeable = first_judgeable(prompts, self.why_unjudgeable)
        try:
            fault = fault_of_trial(str(self.kind), judgeable, self._tried)
        except ConfigError as error:
            fault = str(error)
        if fault:
            yield fault

    def _tried(self, prompt: Prompt, answer: str) -> Verdict:
        """The verdict on a made answer. Raises ConfigError for a number that is not finite."""
        verdict = self.score(prompt, answer)
        if not isinstance(verdict, str) and not all(map(math.isfinite, verdict.values())):
            raise ConfigError(
                f"{self.kind} gave {dict(verdict)} for the answer '{shorten(answer)}': give a "
                "number, or the reason why there is none"
            )
        return verdict

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        answers = [
            (prompts[match.prompt], turn.move.text)
            for match in matches
            for turn in last_answers(match).values()
        ]
        verdicts = iter(self.scores(answers))
        return [self._judgement_by_verdicts(match, verdicts) for match in matches]

    def _judgement_by_verdicts(self, match: Match, verdicts: Iterator[Verdict]) -> Judgement:
        """The judgement on `match`; `verdicts` gives one for each of its last answers."""
        scores: dict[str, dict[str, float]] = {}
        reasons = dict.fromkeys(reasons_without_answer(match))
        for seat in last_answers(match):
            verdict = next(verdicts)
            if isinstance(verdict, str):
                reasons[verdict] = None
            else:
                scores[seat] = verdict
        return self.judgement(match, scores or None, "; ".join(reasons))


class BatchPointwise(Pointwise):
    """The base of pointwise judges with `scores` for a whole batch, where that is cheaper."""

    @abstractmethod
    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """A verdict for each (prompt, text), in order."""

    def score(self, prompt: Prompt, text: str) -> Verdict:
        return self.scores([(prompt, text)])[0]


def tokenise(
    answers: Mapping[int, tuple[Prompt, str]], ids: Callable[[Prompt, str], list[int]]
) -> tuple[dict[int, list[int]], dict[int, Verdict]]:
    """(place -> token ids, place -> why none); `ids` raises DataError where it cannot."""
    rows: dict[int, list[int]] = {}
    verdicts: dict[int, Verdict] = {}
    for n, (prompt, text) in answers.items():
        try:
            rows[n] = ids(prompt, text)
        except DataError as error:
            verdicts[n] = str(error)
    return rows, verdicts


def safety_utilities(log_odds: float) -> dict[str, float]:
    """{"score", "p_safe", "p_unsafe", "unsafe"} of an answer.

    p_safe = 1 / (1 + e^−log_odds) is the score; `unsafe` is 1 where p_unsafe is the greater.
    `log_odds`, safe against unsafe, are in nats and may be infinite.
    """
    smaller = math.exp(-abs(log_odds)) / (1 + math.exp(-abs(log_odds)))
    p_safe, p_unsafe = (1 - smaller, smaller) if log_odds > 0 else (smaller, 1 - smaller)
    return {
        "score": p_safe,
        "p_safe": p_safe,
        "p_unsafe": p_unsafe,
        "unsafe": float(p_unsafe > p_safe),
    }
