"""What a run remembers of its earlier generations: every text of a role, and the
attacks that succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.data.shaping import Term
from equipoise.models.resources import Resources
from equipoise.run.config import RunConfig
from equipoise.run.ledger import Ledger


class Memory:
    """Read from the ledger a generation at a time, so that a resumed run remembers the
    same.
    """

    def __init__(self, config: RunConfig, ledger: Ledger) -> None:
        self._config, self._ledger = config, ledger
        self._terms: list[Term] | None = None
        self._read = self._scanned = (
            0  # generations whose texts the terms have, and whose attacks are known
        )
        self._attacks: list[str] = []

    def terms(self, t: int, resources: Resources) -> list[Term]:
        """The shapings at work in generation t: they have every text of the generations
        before.
        """
        if self._terms is None:
            self._terms = [shaping.open(resources) for shaping in self._config.shaping]
        roles = {term.role for term in self._terms}
        for g in range(self._read, t if roles else 0):
            texts: dict[str, list[str]] = {role: [] for role in roles}
            for match in self._ledger.matches("train", g):
                for turn in match.turns:
                    if (
                        role := self._config.game.role(turn.seat)
                    ) in roles and turn.move.finish != "error":
                        texts[role].append(turn.move.text)
            for term in self._terms:
                term.add(texts[term.role])
        self._read = max(self._read, t)
        return self._terms

    def attacks(self, t: int) -> list[str]:
        """The attacks of the generations before t that got a harmful answer, each as
        often as it did, oldest first.
        """
        for g in range(self._scanned, t):
            matches = self._ledger.matches("train", g)
            won = self._won([match.id for match in matches])
            self._attacks += [
                turn.move.text.strip()
                for match in matches
                for turn in match.turns
                if (match.id, turn.seat) in won
            ]
        self._scanned = max(self._scanned, t)
        return self._attacks

    def _won(self, matches: Sequence[str]) -> set[tuple[str, str]]:
        """(match, seat) of every success, by the judges that teach: whoever spoke later
        on has no say.
        """
        judges = {self._config.judge_of(name).name for name in self._config.learning}
        judgements = [
            judgement
            for name in judges
            for judgement in self._ledger.judgements_of(matches, name).values()
        ]
        return {
            (judgement.match, seat)
            for judgement in judgements
            for seat, success in judgement.by_seat("success").items()
            if success > 0
        }
