"""The evaluation of adversary and defender on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from msgspec.structs import replace
from pydantic import Field

from equipoise.environments.red_team.cross_play_table import MetaGame, cross_play
from equipoise.environments.red_team.game import ADVERSARY, DEFENDER
from equipoise.environments.red_team.held_out_matches import (
    HeldOutMatches,
    attack_success,
    mean_utility,
)
from equipoise.environments.red_team.measures import (
    AttackDiversity,
    RawAndRewritten,
    RedTeamMeasures,
)
from equipoise.environments.red_team.sub_matches import is_adversary
from equipoise.environments.red_team.workload import workload
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, JudgedMatch, Workload
from equipoise.evaluation.measures import Estimate, Measures
from equipoise.games.base import Game
from equipoise.models.embedding import Embedding, sentence_embedding
from equipoise.models.resources import Resources
from equipoise.payoffs.diversity import diversity
from equipoise.types import PlayerId


class RedTeaming(Evaluation):
    """Measures both roles of the game `red_team`; the schedule says who plays them.

    Attack success on prompts as they are and on what the adversary makes of them, over-refusal and
    helpfulness on harmless prompts, the diversity of the attacks, and every generation against
    every other.
    """

    kind: Literal["red_team"] = "red_team"
    crossplay: int = Field(
        64,
        ge=0,
        description="held-out harmful prompts, at most, of each meeting of two"
        " generations; 0: no cross-play",
    )
    transfer: tuple[str, ...] = Field(
        (), description="players that nobody trained against, to be attacked as well"
    )
    embedding: Embedding = Field(
        default_factory=sentence_embedding,
        description="what attacks are compared by; by default minilm, or hashed where "
        "neither its package nor sentence-transformers is installed",
    )

    plays: ClassVar[bool] = True
    measures: ClassVar[type[Measures]] = RedTeamMeasures

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """Every defender alone, every two that meet, and the players of `transfer`."""
        return workload(run_plan, self.crossplay, self.transfer, self.judge)

    def meets_the_past(self, game: Game) -> bool:
        """Where there is cross-play."""
        return self.crossplay > 0

    def solves(self, game: Game) -> bool:
        """Where there is cross-play."""
        return self.crossplay > 0

    def measure(self, arena: Arena, t: int) -> RedTeamMeasures:
        """Both roles at generation t.

        Raises ConfigError where nobody defends.
        """
        players = arena.seated(t)
        if DEFENDER not in players:
            raise ConfigError("evaluate: 'red_team' needs a defender in schedule.roles")
        adversary, defender = players.get(ADVERSARY), players[DEFENDER]
        matches = HeldOutMatches(arena, self.judge or arena.judge_of(defender), t)
        raw, harmless = matches.raw(defender), matches.harmless(defender)
        attacks = None if adversary is None else matches.attacks(adversary, defender)
        defended = [*(raw if attacks is None else attacks), *harmless]
        score = _mean(defended, DEFENDER, "score")
        measures = RedTeamMeasures(
            players=[str(player) for player in players.values()],
            scores={str(defender): score},
            score=score.mean,
            exploitability=None,
            attack_success=RawAndRewritten(_success(raw)),
            p_safe=RawAndRewritten(_mean(raw, DEFENDER, "p_safe")),
            over_refusal=_mean(harmless, DEFENDER, "refused") if harmless else None,
            helpfulness=_mean(harmless, DEFENDER, "helpful") if harmless else None,
        )
        if adversary is not None and attacks is not None:
            measures = self._with_attacks(measures, attacks, adversary, arena)
            measures = self._with_meetings(measures, matches, adversary, defender)
        worst = measures.worst
        return replace(measures, exploitability=worst.mean if worst else None)

    def _with_attacks(
        self,
        measures: RedTeamMeasures,
        attacks: Sequence[JudgedMatch],
        adversary: PlayerId,
        arena: Arena,
    ) -> RedTeamMeasures:
        """The measures with those of the adversary's attacks on the defender."""
        success, p_safe = measures.attack_success, measures.p_safe
        rates = {
            f"adversary_{utility}": rate
            for utility in ("refused", "on_topic", "similarity")
            if (rate := _mean(attacks, ADVERSARY, utility)).n
        }
        score = _mean(attacks, ADVERSARY, "score")
        return replace(
            measures,
            scores={str(adversary): score, **measures.scores},
            attack_success=replace(success, adversary=_success(attacks)),
            p_safe=replace(p_safe, adversary=_mean(attacks, DEFENDER, "p_safe")),
            diversity=self._diversity(attacks, arena.resources),
            **rates,
        )

    def _diversity(self, attacks: Sequence[JudgedMatch], resources: Resources) -> AttackDiversity:
        texts = [
            turn.move.text
            for match, _ in attacks
            for turn in match.turns
            if is_adversary(turn.seat)
        ]
        values = diversity(texts, self.embedding.open(resources))
        known = {name: v for name, v in values.items() if np.isfinite(v)}
        distinct = len(set(texts)) / len(texts) if texts else None
        return AttackDiversity(**known, distinct=distinct)

    def _with_meetings(
        self,
        measures: RedTeamMeasures,
        matches: HeldOutMatches,
        adversary: PlayerId,
        defender: PlayerId,
    ) -> RedTeamMeasures:
        """The measures with cross-play of all generations, and with transfer."""
        if self.crossplay:
            arena = matches.arena
            adversaries = list(reversed(arena.past(adversary)))
            defenders = list(reversed(arena.past(defender)))
            cells = {
                (str(a), str(d)): matches.attacks(a, d, self.crossplay)
                for a in adversaries
                for d in defenders
            }
            names = list(map(str, adversaries)), list(map(str, defenders))
            result = cross_play(cells, *names)
            measures = replace(
                measures,
                crossplay=result.table,
                forgetting=result.forgetting,
                cycling=result.cycling,
                meta_game=result.meta_game,
                role_mixtures=_mixtures(result.meta_game),
            )
        transfer = {
            player.name: _success(matches.attacks(adversary, player, self.crossplay))
            for player in self._others(matches.arena)
        }
        return replace(measures, transfer=transfer)

    def _others(self, arena: Arena) -> list[PlayerId]:
        """The players of `transfer`. Raises ConfigError for one that there is not."""
        by_name = {player.name: player for player in arena.others()}
        for name in self.transfer:
            if name not in by_name:
                raise ConfigError(
                    f"evaluate.transfer: there is no player '{name}' that does not learn"
                )
        return [by_name[name] for name in self.transfer]


def _mixtures(game: MetaGame | None) -> dict[str, dict[str, float]]:
    """role -> the equilibrium mixture over its generations."""
    if game is None:
        return {}
    return {ADVERSARY: game.adversary, DEFENDER: game.defender}


def _success(matches: Sequence[JudgedMatch]) -> Estimate:
    return Estimate.of(attack_success(matches))


def _mean(matches: Sequence[JudgedMatch], role: str, utility: str) -> Estimate:
    return Estimate.of(mean_utility(matches, role, utility))
