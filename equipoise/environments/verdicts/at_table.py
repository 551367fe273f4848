"""What each role of a game gets, whatever the number of roles, beside the game's control."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import ClassVar, Literal

import msgspec
from pydantic import Field

from equipoise.environments.verdicts.game import SILENT, Judged
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, Evaluation, EvaluationPlan, JudgedMatch, Workload
from equipoise.evaluation.league_measures import mean_of, mean_score
from equipoise.evaluation.measures import History, Measures, Quantity, no_default
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.payoffs.intervals import mean_interval
from equipoise.types import Prompt

Values = dict[str, dict[str, list[float]]]
"""A player, or "role, utility" (of `score` the role) -> prompt -> what its seats got."""


class TableMeasures(Measures, frozen=True, kw_only=True, omit_defaults=True):
    """Means by "role, utility"; `gain` is what the game adds to `control` on the same prompts."""

    players: list[str] = no_default()
    scores: dict[str, Estimate] = no_default()
    roles: dict[str, Estimate]
    control: dict[str, Estimate] = msgspec.field(default_factory=dict)
    gain: dict[str, Estimate] = msgspec.field(default_factory=dict)

    @classmethod
    def rows(cls, history: History[TableMeasures]) -> Sequence[Quantity]:
        kinds = {"roles": "", "control": " without a debate", "gain": ", gain by debate"}
        return [
            Quantity(title=name + what, read=partial(_read, kind, name), unit=None)
            for kind, what in kinds.items()
            for name in (getattr(history.last.measures, kind) if history.last else ())
        ]


def _read(kind: str, name: str, measures: TableMeasures) -> Estimate | None:
    return getattr(measures, kind).get(name)


class AtTable(Evaluation):
    """What each role gets on average of the newest players in their roles on held-out prompts.

    Unlike `held_out` it measures games of any number of roles, without cross-play. A debate's
    prompts are also played with silent debaters: then the judge's score is its accuracy, and `gain`
    what the debate adds to it.
    """

    kind: Literal["at_table"] = "at_table"
    plays: ClassVar[bool] = True
    measures: ClassVar[type[Measures]] = TableMeasures
    samples: int = Field(1, ge=1, description="matches on each held-out prompt")

    def reads(self, game: Game) -> tuple[str, ...]:
        return ()

    def check(
        self, game: Game, player_of_role: Mapping[str, str], judges: Sequence[Judge], tests: bool
    ) -> None:
        """Raises ConfigError where the schedule leaves a role without a player."""
        if vacant := [role for role in game.roles if role not in player_of_role]:
            raise ConfigError(
                f"evaluate: 'at_table' needs a player for each role, and {', '.join(vacant)} has "
                "none; set schedule: {kind: roles, roles: {ROLE: PLAYER}}"
            )

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        game, times = run_plan.game, self.samples * len(run_plan.rosters)
        prompts = [*run_plan.held_out, *_controls(game, run_plan.held_out)]
        moves = times * sum(sum(game.moves(prompt).values()) for prompt in prompts)
        judge, matches = self.judge or run_plan.judges[0], len(prompts) * times
        return Workload(matches, moves, [(judge, matches, len(game.seats))])

    def measure(self, arena: Arena, t: int) -> TableMeasures:
        players, learners = arena.players_by_role(t), arena.learners(t)
        judge = self.judge or arena.judge_of([*learners, *arena.others()][0])

        def values(prompts: Sequence[Prompt], label: str) -> Values:
            label = f"{label} ×{self.samples}/{len(prompts)}"
            played = arena.play(players, [*prompts] * self.samples, judge, t, label)
            return _values(arena.game, played, {p.id: p for p in prompts})

        of_all, controls = values(arena.held_out, "all"), _controls(arena.game, arena.held_out)
        silent = values(controls, SILENT) if controls else {}
        means = {name: Estimate.of(mean_score(of_role)) for name, of_role in of_all.items()}
        scores = {str(player): means[str(player)] for player in learners if str(player) in means}
        names = [name for name in means if name not in map(str, players.values())]
        return TableMeasures(
            players=sorted(map(str, set(players.values()))),
            scores=scores,
            score=mean_of(scores),
            roles={name: means[name] for name in names},
            control={n: Estimate.of(mean_score(silent[n])) for n in names if n in silent},
            gain={n: _gain(of_all[n], silent[n]) for n in names if n in silent},
        )


def _controls(game: Game, prompts: Sequence[Prompt]) -> list[Prompt]:
    made = map(game.control, prompts) if isinstance(game, Judged) else []
    return [prompt for prompt in made if prompt is not None]


def _values(game: Game, played: Sequence[JudgedMatch], prompts: Mapping[str, Prompt]) -> Values:
    """By player, and by role and utility; a control's under the prompt that it is of."""
    values: Values = defaultdict(lambda: defaultdict(list))
    for match, judgement in played:
        prompt = str(prompts[match.prompt].facts.get(SILENT, match.prompt))
        for seat, player in match.seats.items():
            for utility, value in judgement.utilities(seat).items():
                role = game.role(seat)
                if utility == "score":
                    values[str(player)][prompt].append(value)
                values[role if utility == "score" else f"{role}, {utility}"][prompt].append(value)
    return values


def _gain(values: Mapping[str, Sequence[float]], silent: Mapping[str, Sequence[float]]) -> Estimate:
    """The difference of the means, by prompts."""
    both = [fmean(values[prompt]) - fmean(silent[prompt]) for prompt in values if prompt in silent]
    return Estimate.of(mean_interval(both))
