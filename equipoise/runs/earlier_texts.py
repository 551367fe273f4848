"""The texts of a run's earlier generations: every text of a role, and the texts that succeeded."""

from collections.abc import Sequence

from equipoise.answer import public_match
from equipoise.data.shaping import Term
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources
from equipoise.runs.config import RunConfig
from equipoise.types import Judgement, Match


class EarlierTexts:
    """Texts of earlier generations, read from the ledger, so that a resumed run has the same."""

    def __init__(self, config: RunConfig, ledger: Ledger) -> None:
        self._config = config
        self._ledger = ledger
        self._terms: list[Term] | None = None
        self._generations_read = 0  # whose texts the terms have
        self._generations_searched = 0  # for successful texts
        self._successful_texts: list[str] = []

    def terms(self, t: int, resources: Resources) -> list[Term]:
        """The shaping terms in generation t; they know every text of the generations before."""
        if self._terms is None:
            game = self._config.game
            self._terms = [
                shaping.in_game(game).open(resources) for shaping in self._config.shaping
            ]
        roles = {term.role for term in self._terms}
        for g in range(self._generations_read, t if roles else 0):
            texts: dict[str, list[str]] = {role: [] for role in roles}
            for match in self._matches(g):
                for turn in match.turns:
                    role = self._config.game.role(turn.seat)
                    if role in roles and turn.move.finish != "error":
                        texts[role].append(turn.move.text)
            for term in self._terms:
                term.add(texts[term.role])
        self._generations_read = max(self._generations_read, t)
        return self._terms

    def _matches(self, t: int) -> list[Match]:
        """The training matches of a generation, without thoughts unless the game reads them."""
        matches = self._ledger.matches("train", t)
        if self._config.game.raw_moves:
            return list(matches)
        return [public_match(match) for match in matches]

    def successful_texts(self, t: int) -> list[str]:
        """Texts before t that succeeded by the game's rule, with repeats, oldest first."""
        for g in range(self._generations_searched, t):
            matches = self._matches(g)
            judgements = self._judgements([match.id for match in matches])
            for match in matches:
                self._successful_texts += self._config.game.successful_texts(
                    match, judgements[match.id]
                )
        self._generations_searched = max(self._generations_searched, t)
        return self._successful_texts

    def _judgements(self, matches: Sequence[str]) -> dict[str, list[Judgement]]:
        """match -> its judgements by the judges that teach, without later re-judgements."""
        judges = {self._config.judge_of(name).name for name in self._config.learning}
        judgements: dict[str, list[Judgement]] = {match: [] for match in matches}
        for judge in judges:
            for match, judgement in self._ledger.judgements_of(matches, judge).items():
                judgements[match].append(judgement)
        return judgements
