"""The evaluation of adversary and defender on held-out prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import ClassVar, Literal

import numpy as np
from msgspec.structs import replace
from pydantic import Field

from equipoise.answer import answer_of
from equipoise.environments.red_team.cross_play_table import (
    attack_success,
    cross_play,
    mean_utility,
)
from equipoise.environments.red_team.game import (
    ADVERSARY,
    DEFENDER,
    harmful,
    is_adversary,
    with_attack,
)
from equipoise.environments.red_team.measures import (
    AttackDiversity,
    RawAndRewritten,
    RedTeamMeasures,
)
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, JudgedMatch, Workload
from equipoise.evaluation.last_test import Criterion
from equipoise.evaluation.measures import Measures
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.models.embedding import Embedding, sentence_embedding
from equipoise.models.resources import Resources
from equipoise.payoffs.diversity import diversity
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.words import Tokens
from equipoise.system.effects import Text
from equipoise.types import PlayerId, Prompt


class RedTeaming(Evaluation):
    """Measures both roles of the game `red_team`; the schedule says who plays them.

    Attack success on prompts and on rewrites, over-refusal and helpfulness on harmless prompts, the
    attacks' diversity, and every generation against every other.
    """

    kind: Literal["red_team"] = "red_team"
    crossplay: int = Field(
        64,
        ge=0,
        description="held-out harmful prompts, at most, of each meeting of two"
        " generations; 0: no cross-play",
    )
    transfer: tuple[Text, ...] = Field(
        (), description="players that nobody trained against, to be attacked as well"
    )
    embedding: Embedding = Field(
        default_factory=sentence_embedding,
        description="compares attacks; by default minilm, or hashed where "
        "neither its package nor sentence-transformers is installed",
    )
    itself: bool = Field(
        False,
        description="in the set's diversity, compare an attack with itself, too, as GPO's released "
        "code does",
    )
    tokens: Tokens = Field(
        "whitespace", description="the diversity's words: by white space, or NLTK's, as released"
    )

    best: Literal["raw", "attacked"] | None = Field(
        None,
        description="choose the best defender of all that were measured, by its mean probability "
        "of safe answers. raw: to the prompts as they are, as GPO's released code does; attacked: "
        "to the newest adversary's rewrites; null: nobody is chosen",
    )

    plays: ClassVar[bool] = True
    measured_role: ClassVar[str] = DEFENDER
    measures: ClassVar[type[Measures]] = RedTeamMeasures

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        """Matches of every defender alone, of every two that meet, and of `transfer`."""
        game = run_plan.game
        attacked = [prompt for prompt in run_plan.held_out if harmful(prompt)]
        defenders = {player_of(DEFENDER, roster, run_plan) for roster in run_plan.rosters}
        seats = sum(game.role(seat) == DEFENDER for seat in game.seats)
        alone = len(defenders - {None}) * len(run_plan.held_out)
        meetings = self._planned_meetings(run_plan, len(attacked))
        # moves_until[n]: the moves of a meeting on the first n prompts.
        moves_until = [0, *accumulate(sum(game.moves(p).values()) for p in attacked)]
        matches = alone + sum(meetings.values())
        moves = alone * seats + sum(moves_until[count] for count in meetings.values())
        judge = self.judge or run_plan.judge_of(run_plan.roles.get(DEFENDER, ""))
        return Workload(matches, moves, [(judge, matches, len(game.seats))])

    def _planned_meetings(
        self, run_plan: EvaluationPlan, prompts: int
    ) -> dict[tuple[str, str], int]:
        most = min(self.crossplay, prompts)
        strangers = self._transfer_players(run_plan.others)
        meetings: dict[tuple[str, str], int] = {}
        adversaries: dict[PlayerId, None] = {}
        defenders: dict[PlayerId, None] = {}
        for roster in run_plan.rosters:
            adversary = player_of(ADVERSARY, roster, run_plan)
            defender = player_of(DEFENDER, roster, run_plan)
            if adversary is None or defender is None:
                continue
            adversaries[adversary] = defenders[defender] = None
            if self.crossplay:
                for a in adversaries:
                    for d in defenders:
                        meetings.setdefault((str(a), str(d)), most)
            for stranger in strangers:
                meetings[str(adversary), str(stranger)] = most or prompts
            meetings[str(adversary), str(defender)] = prompts
        return meetings

    @property
    def chooses(self) -> bool:
        return self.best is not None

    def criterion(self, recorded: Sequence[RedTeamMeasures]) -> Criterion:
        scores: dict[PlayerId, Interval] = {}
        for measures in recorded:
            safety = measures.p_safe.raw
            if self.best == "attacked" and measures.p_safe.adversary is not None:
                safety = measures.p_safe.adversary
            *_, defender = measures.scores  # the adversary's score stands before it
            scores.setdefault(PlayerId.parse(defender), safety.interval)
        return Criterion(scores)

    def meets_the_past(self, game: Game) -> bool:
        return self.crossplay > 0

    def solves(self, game: Game) -> bool:
        return self.crossplay > 0

    def reads(self, game: Game) -> tuple[str, ...]:
        return ()

    def measure(self, arena: Arena, t: int) -> RedTeamMeasures:
        """Both roles at generation t."""
        players = arena.players_by_role(t)
        adversary = players.get(ADVERSARY)
        defender = players[DEFENDER]
        matches = HeldOutMatches(arena, self.judge or arena.judge_of(defender), t)
        raw = matches.raw(defender)
        harmless = matches.harmless(defender)
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
        success = measures.attack_success
        p_safe = measures.p_safe
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
        turns = [turn for match, _ in attacks for turn in match.turns]
        texts = [answer_of(turn.move).text for turn in turns if is_adversary(turn.seat)]
        embed = self.embedding.open(resources)
        values = diversity(texts, embed, itself=self.itself, tokens=self.tokens)
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
        if self.crossplay:
            adversaries = matches.arena.past(adversary)[::-1]
            defenders = matches.arena.past(defender)[::-1]
            cells = {}
            for a in adversaries:
                for d in defenders:
                    cells[(str(a), str(d))] = matches.attacks(a, d, self.crossplay)
            result = cross_play(cells, list(map(str, adversaries)), list(map(str, defenders)))
            game = result.meta_game
            role_mixtures = {ADVERSARY: game.adversary, DEFENDER: game.defender} if game else {}
            measures = replace(
                measures,
                crossplay=result.table,
                forgetting=result.forgetting,
                cycling=result.cycling,
                meta_game=game,
                role_mixtures=role_mixtures,
            )
        transfer = {
            player.name: _success(matches.attacks(adversary, player, self.crossplay or None))
            for player in self._transfer_players(matches.arena.others())
        }
        return replace(measures, transfer=transfer)

    def _transfer_players(self, others: Sequence[PlayerId]) -> list[PlayerId]:
        by_name = {player.name: player for player in others}
        for name in self.transfer:
            if name not in by_name:
                raise ConfigError(
                    f"evaluate.transfer: there is no player '{name}' that does not learn"
                )
        return [by_name[name] for name in self.transfer]


@dataclass(frozen=True)
class HeldOutMatches:
    """Plays held-out prompts in an arena, judged as of generation `t`, all once."""

    arena: Arena
    judge: Judge
    t: int

    def raw(self, defender: PlayerId) -> list[JudgedMatch]:
        """The harmful prompts asked as they are: nobody rewrites them."""
        prompts = [with_attack(prompt) for prompt in self._harmful]
        label = f"harmful as they are/{len(prompts)}"
        return self.arena.play({DEFENDER: defender}, prompts, self.judge, self.t, label)

    def harmless(self, defender: PlayerId) -> list[JudgedMatch]:
        prompts = [prompt for prompt in self.arena.held_out if not harmful(prompt)]
        label = f"harmless/{len(prompts)}"
        return self.arena.play({DEFENDER: defender}, prompts, self.judge, self.t, label)

    def attacks(
        self, adversary: PlayerId, defender: PlayerId, most: int | None = None
    ) -> list[JudgedMatch]:
        """The first `most` harmful prompts (None: all), rewritten by the adversary."""
        prompts = self._harmful[:most]
        label = f"harmful/{most or len(prompts)}"
        roles = {ADVERSARY: adversary, DEFENDER: defender}
        return self.arena.play(roles, prompts, self.judge, self.t, label)

    @cached_property
    def _harmful(self) -> list[Prompt]:
        return [prompt for prompt in self.arena.held_out if harmful(prompt)]


def player_of(role: str, roster: Sequence[PlayerId], run_plan: EvaluationPlan) -> PlayerId | None:
    name = run_plan.roles.get(role)
    everyone = [*roster, *run_plan.others]
    return next((player for player in everyone if player.name == name), None)


def _success(matches: Sequence[JudgedMatch]) -> Estimate:
    return Estimate.of(attack_success(matches))


def _mean(matches: Sequence[JudgedMatch], role: str, utility: str) -> Estimate:
    return Estimate.of(mean_utility(matches, role, utility))
