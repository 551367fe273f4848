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
        if history.last is None:
            return []
        kinds = {"roles": "", "control": " without a debate", "gain": ", gain by debate"}
        quantities: list[Quantity] = []
        for kind, what in kinds.items():
            for name in getattr(history.last.measures, kind):
                read = partial(estimate_of, kind, name)
                quantities.append(Quantity(title=name + what, read=read, unit=None))
        return quantities


def estimate_of(kind: str, name: str, measures: TableMeasures) -> Estimate | None:
    """The mean of this name among `roles`, `control` or `gain`."""
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
        vacant = [role for role in game.roles if role not in player_of_role]
        if vacant:
            raise ConfigError(
                f"evaluate: 'at_table' needs a player for each role, and {', '.join(vacant)} has "
                "none; set schedule: {kind: roles, roles: {ROLE: PLAYER}}"
            )

    def planned(self, run_plan: EvaluationPlan) -> Workload:
        game = run_plan.game
        times = self.samples * len(run_plan.rosters)
        prompts = [*run_plan.held_out, *_controls(game, run_plan.held_out)]
        moves = times * sum(sum(game.moves(prompt).values()) for prompt in prompts)
        judge = self.judge or run_plan.judges[0]
        matches = len(prompts) * times
        return Workload(matches, moves, [(judge, matches, len(game.seats))])

    def measure(self, arena: Arena, t: int) -> TableMeasures:
        players = arena.players_by_role(t)
        learners = arena.learners(t)
        judge = self.judge or arena.judge_of([*learners, *arena.others()][0])

        def values(prompts: Sequence[Prompt], label: str) -> Values:
            label = f"{label} ×{self.samples}/{len(prompts)}"
            played = arena.play(players, [*prompts] * self.samples, judge, t, label)
            return _values(arena.game, played, {p.id: p for p in prompts})

        of_all = values(arena.held_out, "all")
        controls = _controls(arena.game, arena.held_out)
        silent = values(controls, SILENT) if controls else {}
        means = {name: Estimate.of(mean_score(of_role)) for name, of_role in of_all.items()}
        everyone = {str(player) for player in players.values()}
        measured = map(str, learners)
        scores = {name: means[name] for name in measured if name in means}
        roles = {name: mean for name, mean in means.items() if name not in everyone}
        control: dict[str, Estimate] = {}
        gain: dict[str, Estimate] = {}
        for name in roles:
            if name in silent:
                control[name] = Estimate.of(mean_score(silent[name]))
                gain[name] = mean_gain(of_all[name], silent[name])
        return TableMeasures(
            players=sorted(everyone),
            scores=scores,
            score=mean_of(scores),
            roles=roles,
            control=control,
            gain=gain,
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
            role = game.role(seat)
            for utility, value in judgement.utilities(seat).items():
                if utility == "score":
                    values[str(player)][prompt].append(value)
                    values[role][prompt].append(value)
                else:
                    values[f"{role}, {utility}"][prompt].append(value)
    return values


def mean_gain(
    values: Mapping[str, Sequence[float]], silent: Mapping[str, Sequence[float]]
) -> Estimate:
    """The difference of the means, by prompts."""
    differences = []
    for prompt, of_prompt in values.items():
        if prompt in silent:
            differences.append(fmean(of_prompt) - fmean(silent[prompt]))
    return Estimate.of(mean_interval(differences))
