"""The settings of a run, and what its parts demand of one another."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, PrivateAttr, field_validator, model_validator

from equipoise.component import Component, Settings, nearest, settings_in
from equipoise.data.normalising import Normalising
from equipoise.data.pairs import PairMaker
from equipoise.data.shaping import Shaping
from equipoise.data.truncation import TooLong, Truncated
from equipoise.evaluation.base import Evaluation
from equipoise.evaluation.measure import JudgeScore, Measure
from equipoise.evaluation.sets.lm_eval_set import LmEvalSet
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.learners.base import Learner
from equipoise.losses.base import PreferenceLoss
from equipoise.matches.base import Schedule
from equipoise.matches.roles import Roles
from equipoise.players.base import Player, players_in
from equipoise.players.scripted import Recorded
from equipoise.prompts.base import Prompts
from equipoise.ratings.base import Ratings
from equipoise.runs.by_generation import CHANGING, part_at, schedule_fault, separate_schedules
from equipoise.runs.by_generation import Schedule as GenerationSchedule
from equipoise.runs.executors.base import Executor, short_form
from equipoise.runs.turns import Turns
from equipoise.solvers.base import Solver
from equipoise.system.effects import SHOWS, WRITES, DeclaredEffect, Text
from equipoise.system.user_parts import is_only_read
from equipoise.system.yaml_text import yaml_text
from equipoise.types import PlayerId

MOST_GENERATIONS = 10_000
SET_NAME = re.compile(r"[\w][\w.-]*")


class RunConfig(Settings):
    """The settings of a run. The resolved form is the run directory's `config.yaml`."""

    name: Text = Field("run", min_length=1, description="the run's title, in reports and trackers")
    seed: int = Field(0, ge=0, description="the one seed; every choice derives its own from it")
    generations: int = Field(
        3,
        ge=0,
        le=MOST_GENERATIONS,
        description="turns of the loop; 0: the players are only measured",
    )
    players: dict[Text, Player] = Field(
        min_length=1, description="name -> player; those with `learns` are trained"
    )
    prompts: Prompts = Field(description="where the prompts come from, and how many of them")
    game: Game = Field(description="the rules of a match")
    schedule: Schedule = Field(
        default="self_play",  # type: ignore[assignment]
        description="who meets whom on each prompt",
    )
    judge: Judge = Field(description="scores the matches that are learned from")
    judges: dict[Text, Judge] = Field(
        default_factory=dict, description="learner -> the judge that teaches it in place of `judge`"
    )
    max_unjudged: float = Field(
        0.2, ge=0, le=1, description="a stage with a larger unjudged share stops the run"
    )
    utility: Text = Field(
        "score", description="the one of the judge's utilities that is played for"
    )
    training_ratings: Ratings = Field(
        default="bradley_terry",  # type: ignore[assignment]
        description="rates the players by their matches, for schedules, for peers' "
        "weights and for the report",
    )
    training_matches: Literal["all", "own"] = Field(
        "all", description="a learner is taught by all matches, or by those it played in itself"
    )
    pairs: PairMaker = Field(
        default="best_worst",  # type: ignore[assignment]
        description="which judged answers become pairs of a preferred and a rejected one",
    )
    truncated: Truncated = Field(
        "keep",
        description="answers that were cut at max_new_tokens. keep: learned from "
        "without an end token, which they never sampled; drop: not learned from; "
        "keep_with_end: learned from as if they had ended",
    )
    too_long: TooLong = Field(
        "drop",
        description="prompts that leave no room for an answer within max_length, and pairs of "
        "given answers that do not fit. drop: left out, counted and said; stop: an error; "
        "cut_prompt: prompts lose their first tokens, beyond the player's max_prompt; cut_answer: "
        "given answers lose their end, and prompts without room are left out",
    )
    shaping: tuple[Shaping, ...] = Field(
        (), description="added to the rewards of episodes: diversity, penalties"
    )
    normalise: Normalising = Field(
        default_factory=lambda: Normalising.model_validate({}),
        description="how rewards of episodes from several data sources are made comparable",
    )
    learner: Learner | None = Field(
        None, description="trains the players that learn; null where nobody does"
    )
    learners: dict[Text, Learner] = Field(
        default_factory=dict,
        description="learner -> its own trainer; settings that it leaves out are "
        "those of `learner`",
    )
    turns: Turns = Field(default="everyone", description="who learns in which generation")  # type: ignore[assignment]
    loss: PreferenceLoss | None = Field(
        None, description="the loss on pairs; null where nobody learns from pairs"
    )
    losses: dict[Text, PreferenceLoss] = Field(
        default_factory=dict,
        description="learner -> its own loss; settings that it leaves out are those of `loss`",
    )
    by_generation: dict[Text, dict[Text, GenerationSchedule]] = Field(
        default_factory=dict,
        description="part (loss, losses.NAME, learner, learners.NAME) -> numeric setting -> "
        "generation -> its value from there on; `loss: {ratio: {0: 0.3, 2: 0.8}}` is "
        "short for it",
    )
    evaluate: Evaluation = Field(
        default="held_out",  # type: ignore[assignment]
        description="what is measured of each generation",
    )
    measures: tuple[Measure, ...] = Field(
        (), description="numbers of every measured player beside those of `evaluate`"
    )
    solver: Solver = Field(
        default="zero_sum",  # type: ignore[assignment]
        description="finds the equilibrium of the league's pay-offs",
    )
    league_ratings: Ratings = Field(
        default="bradley_terry",  # type: ignore[assignment]
        description="rates the league, every generation of every player, by the held-out pay-offs",
    )
    keep: Literal["all"] | int = Field(
        "all", description="generations whose weights stay: all, or the newest n"
    )
    commit_every: int = Field(
        256,
        ge=1,
        description="matches played and recorded together, as many answers where a match has fewer "
        "seats, and in evaluations four batches of a local player; also the unit of resuming",
    )
    ledger: Annotated[str | None, WRITES] = Field(
        None,
        description="the ledger's file, where it is to lie on a disk of this machine "
        "apart from the weights; null: in the run's folder",
    )
    readable_by_others: Annotated[bool, SHOWS] = Field(
        False,
        description="whether other users of the machine may read the run's folder (755) and its "
        "ledger (644), as far as the umask lets them; false: its owner alone (700, 600). It holds "
        "for a folder that is made, and is not looked at later",
    )
    executor: Executor = Field(
        default="local",  # type: ignore[assignment]
        description="where sampling, log-probabilities, model judges and training are "
        "computed: local, {processes: n}, ray",
    )
    unit_rows: int = Field(
        256,
        ge=1,
        description="rows of a unit of model work; the same for every executor, since "
        "a unit's rows are computed together",
    )
    report_to: Annotated[
        tuple[Literal["trackio", "wandb", "tensorboard", "mlflow"], ...],
        DeclaredEffect("sends", "hands numbers and names to the tracker {}", quiet=True),
    ] = Field((), description="trackers")

    _yielded: tuple[str, ...] = PrivateAttr(())

    @property
    def yielded(self) -> tuple[str, ...]:
        """Notes on settings of a recipe below that nothing reads after the user's changes."""
        return self._yielded

    def note_yielded(self, notes: Sequence[str]) -> None:
        """Keep such notes, for a plan and the run's record."""
        self._yielded = tuple(notes)

    # -- per player and generation

    def judge_of(self, player: str) -> Judge:
        """The judge that teaches a player, by the player's name."""
        return self.judges.get(player, self.judge)

    @property
    def teachers(self) -> dict[str, Judge]:
        """The judges that teach somebody, by name; where nobody learns, all.

        The first one's judgements rate the players (`training_ratings`).
        """
        return {judge.name: judge for judge in map(self.judge_of, self.measured)}

    def judged_players(self) -> dict[str, set[str]]:
        """A teacher's name -> the players whose training matches it judges.

        The first one judges everybody's, since it rates. Where learners are taught by their own
        matches alone, a further one judges only those in which a learner of its own sits.
        """
        judged = {name: set(self.players) for name in self.teachers}
        if self.training_matches == "own":
            for teacher in list(judged)[1:]:
                own = (name for name in self.measured if self.judge_of(name).name == teacher)
                judged[teacher] = set(own)
        return judged

    def learner_of(self, player: str) -> Learner:
        """The learner that trains a player, by the player's name."""
        trainer = self.learners.get(player, self.learner)
        assert trainer is not None, f"nothing trains {player}"
        return trainer

    @property
    def measured(self) -> list[str]:
        """Names of the players that are measured: the learners, or everybody if nobody learns."""
        return self.learning or list(self.players)

    @property
    def measuring_judge(self) -> Judge:
        """The judge whose scores are measured, of the first player where several are."""
        return self.evaluate.judge or self.judge_of(self.measured[0])

    @property
    def every_judge(self) -> list[Judge]:
        """The judges that teach or measure, those of named sets too."""
        of_sets = (named_set.judge for named_set in self.evaluate.sets.values())
        measuring = (part.judge for part in self.measures if isinstance(part, JudgeScore))
        judges = (self.judge, *self.judges.values(), self.evaluate.judge, *measuring, *of_sets)
        return [judge for judge in judges if judge is not None]

    @property
    def currency(self) -> str:
        """The currency of all prices of the run; "" where nothing has a price."""
        return next(iter(self._currencies()), "")

    def _currencies(self) -> set[str]:
        priced = [getattr(player, "prices", None) for _, player in self.every_player()]
        return {prices.currency for prices in priced if prices is not None}

    @property
    def judge_titles(self) -> dict[str, str]:
        """A judge's name in the ledger -> what readers call it; of equal titles the names stay."""
        titles = {judge.name: judge.title for judge in self.every_judge}
        shown = {}
        for name, title in titles.items():
            is_taken = list(titles.values()).count(title) > 1
            shown[name] = name if is_taken else title
        return shown

    def title_of(self, player: PlayerId) -> str:
        """The player as readers know it: a model that played elsewhere by that model's name, and
        without a generation where nobody learns.
        """
        settings = self.players.get(player.name)
        if isinstance(settings, Recorded):
            return settings.model
        return str(player) if self.learning else player.name

    def every_player(self) -> Iterator[tuple[str, Player]]:
        """(place, player) of every player in the settings, those that judges ask among them."""
        for name in type(self).model_fields:
            yield from players_in(getattr(self, name), name)

    def every_part(self) -> Iterator[BaseModel]:
        """All parts of the run and the groups of settings in it, and those within them."""
        for name in type(self).model_fields:
            yield from settings_in(getattr(self, name))

    @property
    def has_devices(self) -> bool:
        """True if any part has a setting `device`."""
        return any("device" in type(part).model_fields for part in self.every_part())

    def loss_of(self, player: str) -> PreferenceLoss | None:
        """The loss that a learner minimises in the first generation, by the player's name."""
        return self.losses.get(player, self.loss)

    def loss_at(self, player: str, t: int) -> PreferenceLoss | None:
        """The loss that a learner minimises in generation t, by the player's name."""
        loss = self.loss_of(player)
        if loss is None:
            return None
        part = f"losses.{player}" if player in self.losses else "loss"
        return part_at(loss, self.by_generation.get(part, {}), t)

    @property
    def loss_memory(self) -> int:
        """The most past generations that a loss meets."""
        begins = {0}
        for part, schedules in self.by_generation.items():
            if part.startswith("loss"):
                begins.update(*schedules.values())
        most = 0
        for t in begins:
            for name in self.learning if t < self.generations else ():
                loss = self.loss_at(name, t)
                if loss is not None:
                    most = max(most, loss.memory)
        return most

    def learner_at(self, player: str, t: int) -> Learner:
        """The learner of a player in generation t, by the player's name."""
        part = f"learners.{player}" if player in self.learners else "learner"
        return part_at(self.learner_of(player), self.by_generation.get(part, {}), t)

    @property
    def playing(self) -> dict[str, Player]:
        """The players as they play: those that learn in their learner's precision."""
        return {
            name: player.carrying(self.learner_of(name).resolve_auto(player).carried_precision())
            if player.learns
            else player
            for name, player in self.players.items()
        }

    @property
    def learning(self) -> list[str]:
        """The names of the players that learn, in order."""
        return [name for name, player in self.players.items() if player.learns]

    def plays(self, t: int) -> bool:
        """True if generation t has matches; False where the data brings all its examples."""
        trainers = map(self.learner_of, self.learning)
        by_pairs = all(trainer.needs in ("pairs", "answers") for trainer in trainers)
        return not by_pairs or self.pairs.plays(t)

    def yaml(self) -> str:
        """The resolved configuration; loading it gives this configuration again."""
        return yaml_text(self.model_dump(mode="json"))

    # -- checks

    @field_validator("measures", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        """A list of measures; one alone is a list of one."""
        return (value,) if isinstance(value, str | Mapping | Measure) else value

    @model_validator(mode="before")
    @classmethod
    def _write_out(cls, values: Any) -> Any:
        """Write out what is short for more: settings without their kind (`evaluate: {samples: 8}`),
        and settings that change by generation.
        """
        filled = dict(values)
        if "executor" in filled:
            filled["executor"] = short_form(filled["executor"])
        if isinstance(filled.get("report_to"), str | None):  # as transformers writes it
            tracker = filled.get("report_to") or "none"
            several = tuple(name.strip() for name in tracker.split(","))
            filled["report_to"] = () if tracker == "none" else several
        for name, field in cls.model_fields.items():
            if isinstance(field.default, str) and isinstance(filled.get(name), Mapping):
                filled[name] = {"kind": field.default, **filled[name]}
        changing = {name: filled.pop(name) for name in CHANGING if name in filled}
        return filled | separate_schedules(changing)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if is_only_read():  # it was checked when the run began
            return self
        self._check_names()
        self._check_cuts()
        self._check_schedules()
        for name in self.learning:
            self._check_learner(name)
        self.schedule.check(self.game, list(self.players))
        self._check_ratings()
        self._check_measures()
        self._check_adapters()
        self._check_rounding()
        self._check_rewards()
        self._check_kept()
        self._check_prices()
        for tracker in self.report_to:
            if find_spec(tracker) is None:
                raise ValueError(f"report_to: '{tracker}' is not installed; pip install {tracker}")
        return self

    def _check_cuts(self) -> None:
        """Raises ValueError for a player's `max_prompt` where no prompt is to be cut."""
        for name, player in self.players.items():
            if getattr(player, "max_prompt", None) and self.too_long != "cut_prompt":
                raise ValueError(
                    f"players.{name}.max_prompt: is where prompts are cut; set too_long: "
                    "cut_prompt, or leave it out"
                )

    def _check_prices(self) -> None:
        """Raises ValueError for prices in several currencies, which cannot be added up."""
        known = self._currencies()
        if len(known) > 1:
            names = " and ".join(sorted(known))
            raise ValueError(f"prices: are in {names}; those of one run are in one currency")

    def _check_names(self) -> None:
        """Raises ValueError for faulty names of players, and where no such player learns."""
        for name in self.players:
            if not name.isidentifier():
                raise ValueError(
                    f"players: '{name}' is not a valid name; use letters, digits and underscores"
                )
        for name in self.learning:
            if self.learner is None and name not in self.learners:
                raise ValueError(f"learner: is missing, and '{name}' learns")
        named = {
            "judges": self.judges,
            "learners": self.learners,
            "losses": self.losses,
            "turns": self.turns.named_players(),
        }
        for setting, names in named.items():
            for name in names:
                if name not in self.learning:
                    raise ValueError(
                        f"{setting}: '{name}' does not learn; {nearest(name, self.learning)}"
                    )

    def _check_schedules(self) -> None:
        """Raises ValueError for schedules by generation that cannot be followed."""
        parts: dict[str, Component | None] = {
            "loss": self.loss,
            "learner": self.learner,
            **{f"learners.{name}": part for name, part in self.learners.items()},
            **{f"losses.{name}": part for name, part in self.losses.items()},
        }
        for name, schedules in self.by_generation.items():
            part = parts.get(name)
            if part is None:
                known = [known for known, part in parts.items() if part is not None]
                hint = nearest(name, known)
                raise ValueError(f"by_generation: there is no '{name}'; {hint}")
            message = schedule_fault(name, part, schedules)
            if message:
                raise ValueError(message)
        begins = {0}
        for schedules in self.by_generation.values():
            begins.update(*schedules.values())
        for t in sorted(t for t in begins if t < self.generations):
            for name in self.learning:
                self.loss_at(name, t)
                trainer = self.learner_at(name, t)
                if trainer.needs == "episodes" and trainer != self.learner_of(name):
                    raise ValueError(
                        f"by_generation: the learner of '{name}' stays in memory, with "
                        "the settings that it began with; only those that begin anew "
                        "in each generation can change"
                    )

    def _check_learner(self, name: str) -> None:
        """Raises ValueError where a player's trainer lacks what it learns from."""
        trainer = self.learner_of(name)
        needs_loss = trainer.needs in ("pairs", "game") and trainer.by_loss
        if needs_loss and self.loss_of(name) is None:
            raise ValueError(f"loss: the learner '{trainer.kind}' needs one, e.g. loss: mnpo")
        if trainer.needs == "game" and self.game.payoff_AM() is None:
            raise ValueError(
                f"learner: '{trainer.kind}' needs a finite game; '{self.game.kind}' is not one"
            )

    def _check_ratings(self) -> None:
        """Raises ValueError for ratings that cannot be computed of what will be played."""
        for setting in ("training_ratings", "league_ratings"):
            if fault := getattr(self, setting).fault(list(self.players)):
                raise ValueError(f"{setting}.{fault}")
        instead = "set it to bradley_terry, elo or openskill, which rate by who won"
        if not self.league_ratings.by_outcomes:
            raise ValueError(
                f"league_ratings: '{self.league_ratings.kind}' needs the grades that players gave "
                f"each other, and a league is rated by its held-out outcomes; {instead}"
            )
        plays = any(map(self.plays, range(self.generations)))
        rated = len(self.players) > 1 and self.game.symmetric and plays
        judge = next(iter(self.teachers.values()))
        if rated and not self.training_ratings.by_outcomes and not judge.by_players:
            raise ValueError(
                f"training_ratings: '{self.training_ratings.kind}' needs grades that players gave "
                f"each other, and judge '{judge.kind}' scores otherwise; {instead}, or set "
                "judge: peers"
            )

    def _check_measures(self) -> None:
        """Raises ValueError where there is nothing to measure on, or nothing to measure with."""
        evaluation = self.evaluate
        if evaluation.plays and not self.prompts.held_out:
            raise ValueError(
                f"prompts.held_out: is 0, so evaluate: {evaluation.kind} has nothing to measure"
            )
        comparing = {self.judge_of(name).compares for name in self.measured}
        if evaluation.judge is None and len(comparing) > 1:
            raise ValueError(
                "judges: some score and some compare, so none can measure every player; "
                "set evaluate.judge"
            )
        if self.prompts.test and not evaluation.selects:
            raise ValueError(f"prompts.test: evaluate: {evaluation.kind} chooses no player to test")
        evaluation.check(
            self.game,
            self.schedule.player_of_role,
            [self.judge_of(name) for name in self.measured],
            tests=self.prompts.test > 0,
        )
        if self.schedule.by_mixture and not evaluation.solves(self.game):
            raise ValueError(
                f"schedule: '{self.schedule.kind}' draws from the league's mixture, and "
                f"evaluate: {evaluation.kind} finds none in game '{self.game.kind}'; "
                "set evaluate: meta_game"
            )
        self._check_sets()
        names = [part.name for part in self.measures]
        taken = evaluation.measures_in(self.game).taken_names()
        for place, part in enumerate(self.measures):
            if not self.prompts.held_out:
                raise ValueError(
                    f"prompts.held_out: is 0, so measures.{place} has nothing to measure"
                )
            if part.name.lower().replace(" ", "_") in taken:
                raise ValueError(
                    f"measures.{place}: '{part.name}' is what evaluate: {evaluation.kind} calls a "
                    "number of its own; give it another title"
                )
            if names.index(part.name) < place:
                raise ValueError(
                    f"measures.{place}: another measure is called '{part.name}'; give it a title"
                )
            if isinstance(part, JudgeScore) and part.judge.compares:
                raise ValueError(
                    f"measures.{place}: '{part.judge.kind}' only compares answers; take a judge "
                    "that scores one alone, or set evaluate.judge"
                )

    def _check_sets(self) -> None:
        """Raises ValueError for names of sets unfit for a path, and sets unfit to choose by."""
        evaluation = self.evaluate
        for name in evaluation.sets:
            if not SET_NAME.fullmatch(name):
                raise ValueError(
                    f"evaluate.sets: '{name}' is not a valid name; use letters, digits, "
                    "underscores, points and hyphens"
                )
        by = evaluation.select_by
        if by is None:
            return
        if by not in evaluation.sets:
            known = list(evaluation.sets)
            hint = nearest(by, known) if known else "evaluate.sets names none"
            raise ValueError(f"evaluate.select_by: there is no set '{by}'; {hint}")
        chosen_by = evaluation.sets[by]
        if isinstance(chosen_by, LmEvalSet) and not chosen_by.has_one_task:
            raise ValueError(
                f"evaluate.select_by: '{by}' has several tasks of lm-eval, each with a score of "
                "its own; choose by a set of a single task"
            )
        if chosen_by.part != "dev":
            raise ValueError(
                f"evaluate.select_by: '{by}' is a test set, and what chooses a player no "
                f"longer tests it; choose by another, or set evaluate.sets.{by}.part: dev"
            )

    def _check_adapters(self) -> None:
        """Raises ValueError where roles start from one adapter without `schedule.shared`."""
        from equipoise.players.local import Local

        if not isinstance(self.schedule, Roles) or self.schedule.shared:
            return
        starts: dict[str, str] = {}
        for name in dict.fromkeys(self.schedule.roles.values()):
            player = self.players[name]
            if name not in self.learning or not isinstance(player, Local):
                continue
            if player.adapter is None:
                continue
            start = player.adapter
            if not start.startswith("builtin/"):
                start = str(Path(start).expanduser().resolve())
            other = starts.setdefault(start, name)
            if other != name:
                raise ValueError(
                    f"players.{name}.adapter: '{other}' starts from "
                    f"'{player.adapter}', too; give each role an adapter of its own, "
                    "or set schedule.shared: true if one start for both is meant"
                )

    def _check_rounding(self) -> None:
        for name in self.learning:
            rounds = self.learner_of(name).carried_precision() == "bf16_weights"
            if rounds and getattr(self.players[name], "lora", None) is not None:
                raise ValueError(
                    f"learner.rounding: rounds whole weights, but '{name}' trains an "
                    "adapter (lora), which stays float32; set rounding: none"
                )

    def _check_rewards(self) -> None:
        rewarded = [name for name in self.learning if self.learner_of(name).needs == "episodes"]
        if self.truncated == "keep_with_end" and rewarded:
            raise ValueError(
                "truncated: keep_with_end adds a token to texts, and the learner of "
                f"'{rewarded[0]}' learns from the tokens that were sampled; keep or drop"
            )
        for name in self.turns.named_players() if self.turns.by_rewards else ():
            if name not in rewarded:
                raise ValueError(
                    f"turns: '{self.turns.kind}' goes by rewards, and the learner "
                    f"'{self.learner_of(name).kind}' of "
                    f"'{name}' has none; policy_gradient has"
                )
        for shaping in (shaping.in_game(self.game) for shaping in self.shaping):
            if shaping.role is None:
                raise ValueError(
                    f"shaping.role: name one; no role of game '{self.game.kind}' rewrites prompts"
                )
            if shaping.role not in self.game.roles:
                raise ValueError(
                    f"shaping.role: game '{self.game.kind}' has no role '{shaping.role}'; "
                    f"{nearest(shaping.role, list(self.game.roles))}"
                )

    def _check_kept(self) -> None:
        """Raises ValueError where weights are deleted that are needed later."""
        if self.keep == "all":
            return
        if self.keep < 1:
            raise ValueError(f"keep: is {self.keep}; 1 or more of the newest stay, or all")
        if self.evaluate.meets_the_past(self.game):
            raise ValueError(
                f"keep: evaluate: {self.evaluate.kind}, as it is set, lets measured "
                "generations play again, "
                "so all must be kept"
            )
        if self.schedule.generations > self.keep:
            most = self.schedule.generations
            raise ValueError(
                f"keep: schedule: {self.schedule.kind} lets earlier generations play again, so "
                f"{'all' if most == math.inf else most} must be kept"
            )
        if self.loss_memory > self.keep:
            raise ValueError(
                f"keep: the loss meets {self.loss_memory} past generations, but only {self.keep} "
                "are kept"
            )
