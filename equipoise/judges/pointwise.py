"""The base of judges that look at one answer at a time: each seat's last answer, scored
on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from equipoise.errors import DataError
from equipoise.judges.base import Judge
from equipoise.types import Judgement, Match, Move, Prompt

Verdict = dict[str, float] | str


def last_moves(match: Match) -> dict[str, Move]:
    """Each seat's last move, in the order of the seats; a seat that never moved is
    absent.
    """
    moves = {turn.seat: turn.move for turn in match.turns}
    return {seat: moves[seat] for seat in match.seats if seat in moves}


class Pointwise(Judge):
    """Scores every seat's last answer; a part of it defines `score`, or `scores` where
    a batch is cheaper.

    A seat whose move failed, or that never moved, has no score. `reason` says why of
    all seats without one.
    """

    def score(self, prompt: Prompt, text: str) -> Verdict:
        """Utilities of `text` as an answer to `prompt`, or the reason why it cannot be
        judged.
        """
        raise TypeError(f"{type(self).__name__} must define score()")

    def scores(self, answers: Sequence[tuple[Prompt, str]]) -> list[Verdict]:
        """A verdict for each (prompt, text), in order."""
        return [self.score(prompt, text) for prompt, text in answers]

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""
        moves = [last_moves(match) for match in matches]
        answers = [
            (prompts[match.prompt], move.text)
            for match, by_seat in zip(matches, moves, strict=True)
            for move in by_seat.values()
            if move.finish != "error"
        ]
        verdicts = iter(self.scores(answers))
        return [
            self._word(match, by_seat, verdicts)
            for match, by_seat in zip(matches, moves, strict=True)
        ]

    def _word(
        self, match: Match, moves: Mapping[str, Move], verdicts: Iterator[Verdict]
    ) -> Judgement:
        scores: dict[str, dict[str, float]] = {}
        reasons: dict[str, None] = {}
        for seat in match.seats:
            move = moves.get(seat)
            if move is None:
                reasons["no answer was given"] = None
            elif move.finish == "error":
                reasons[f"the move failed: {move.error}"] = None
            elif isinstance(verdict := next(verdicts), str):
                reasons[verdict] = None
            else:
                scores[seat] = verdict
        return self.judgement(match, scores or None, "; ".join(reasons))


def tokenised(
    answers: Mapping[int, tuple[Prompt, str]], ids: Callable[[Prompt, str], list[int]]
) -> tuple[dict[int, list[int]], dict[int, Verdict]]:
    """(place -> token ids, place -> why there are none): `ids` raises DataError for
    what cannot be read.
    """
    rows: dict[int, list[int]] = {}
    verdicts: dict[int, Verdict] = {}
    for n, (prompt, text) in answers.items():
        try:
            rows[n] = ids(prompt, text)
        except DataError as error:
            verdicts[n] = str(error)
    return rows, verdicts
