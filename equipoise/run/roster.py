"""Whose turn it is to learn, and so how old every learner is; decided once a
generation, and recorded.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.run.ledger import Ledger
from equipoise.run.turns import Taken, Turns
from equipoise.types import PlayerId


def foreseen(
    turns: Turns, names: Sequence[str], generations: int
) -> list[tuple[list[PlayerId], tuple[str, ...]]]:
    """(every learner as old as it is when generation t begins, who learns in it), as
    far as it is known beforehand.

    One more than there are generations: of the last, in which nobody learns, the ages
    are those at the end.
    """
    ages, found = dict.fromkeys(names, 0), []
    for learn in [*turns.expected(names, generations), ()]:
        found.append(([PlayerId(name, age) for name, age in ages.items()], learn))
        ages = {name: age + (name in learn) for name, age in ages.items()}
    return found


class Roster:
    """The learners of a run through the generations of its loop."""

    def __init__(self, turns: Turns, names: Sequence[str], ledger: Ledger) -> None:
        self._rule, self._names, self._ledger = turns, tuple(names), ledger
        self._taken: list[
            Taken
        ] = []  # of the generations before the one that was decided last
        self._turns: list[tuple[str, ...]] = []
        self._ages: list[dict[str, int]] = [
            dict.fromkeys(self._names, 0)
        ]  # when each generation begins

    def turn(self, t: int) -> tuple[str, ...]:
        """The names of those who learn in generation t; every generation before it has
        been learned from.
        """
        while len(self._turns) <= t:
            g = len(self._turns)
            found = self._ledger.finished(f"{g}/turn")
            if g:
                self._taken.append(
                    Taken(self._turns[-1], self._rewards(g - 1, self._turns[-1]))
                )
            names = (
                tuple(found["learn"])
                if found
                else self._rule.who(self._names, self._taken)
            )
            if not found:
                self._ledger.finish(f"{g}/turn", g, "turn", {"learn": names}, 0.0)
            self._turns.append(names)
            self._ages.append(
                {name: age + (name in names) for name, age in self._ages[-1].items()}
            )
        return self._turns[t]

    def at(self, t: int) -> list[PlayerId]:
        """Every learner, as old as it is when generation t begins."""
        if t:
            self.turn(t - 1)
        return [PlayerId(name, self._ages[t][name]) for name in self._names]

    def _rewards(self, t: int, names: Sequence[str]) -> dict[str, float]:
        """What they were paid on average in generation t, where they are paid."""
        found = {name: self._ledger.finished(f"{t}/episodes/{name}") for name in names}
        return {name: facts["reward"] for name, facts in found.items() if facts}
