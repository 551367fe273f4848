"""From YAML and overrides to a `RunConfig` of typed components. An unknown key is an
error that suggests the nearest.

A recipe names kinds and settings; `extends: other` starts from another recipe,
`player_defaults` lie below every player of the same kind, and a player that is null is
taken away. `-s key.path=value` sets one setting (the value is YAML); a path that starts
with a player's name means that player: `-s policy.model=…`. A component given as a bare
word is that kind with its defaults: `-s loss=dpo`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from equipoise.component import Component, Settings, nearest
from equipoise.data.base import PairMaker
from equipoise.data.normalising import Normalising
from equipoise.data.shaping import Shaping
from equipoise.errors import ConfigError
from equipoise.evaluate.base import Evaluation
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.learners.base import Learner
from equipoise.losses.base import PreferenceLoss
from equipoise.matches.base import Schedule
from equipoise.players.base import Player
from equipoise.prompts.base import Prompts
from equipoise.ratings.base import Ratings
from equipoise.run.turns import Turns
from equipoise.solvers.base import Solver

P = TypeVar("P", bound=Component)


class RunConfig(Settings):
    """Everything that a run is made from. The resolved form is the run directory's
    `config.yaml`.
    """

    name: str = Field(
        "run", min_length=1, description="the run's title, in reports and trackers"
    )
    seed: int = Field(
        0, ge=0, description="the one seed; every choice derives its own from it"
    )
    generations: int = Field(3, ge=1, description="turns of the loop")
    players: dict[str, Player] = Field(
        min_length=1, description="name -> player; those with `learns` are trained"
    )
    prompts: Prompts
    game: Game
    schedule: Schedule = Field(default="self_play")  # type: ignore[assignment]
    judge: Judge
    judges: dict[str, Judge] = Field(
        default_factory=dict,
        description="a learner's own judge by its name, not `judge`",
    )
    max_unjudged: float = Field(
        0.2,
        ge=0,
        le=1,
        description="a stage with a larger unjudged share stops the run",
    )
    utility: str = Field(
        "score", description="which of the judge's utilities is played for"
    )
    standing: Ratings = Field(
        default="bradley_terry",  # type: ignore[assignment]
        description="rates the players by their matches, for schedules, for peers' weights and for the report",
    )
    lessons: Literal["all", "own"] = Field(
        "all",
        description="a learner is taught by all matches, or by those it sat in itself",
    )
    pairs: PairMaker = Field(default="best_worst")  # type: ignore[assignment]
    shaping: tuple[Shaping, ...] = Field(
        (), description="added to the rewards of episodes: diversity, penalties"
    )
    normalise: Normalising = Field(
        default_factory=lambda: Normalising.model_validate({}),
        description="how rewards of episodes from several data sources are made comparable",
    )
    learner: Learner
    learners: dict[str, Learner] = Field(
        default_factory=dict,
        description="a learner's own trainer by its name; what it does not say is as `learner` says",
    )
    turns: Turns = Field(
        default="everyone", description="who learns in which generation"
    )  # type: ignore[assignment]
    loss: PreferenceLoss | None = None
    evaluate: Evaluation = Field(default="held_out")  # type: ignore[assignment]
    solver: Solver = Field(default="zero_sum")  # type: ignore[assignment]
    ratings: Ratings = Field(
        default="bradley_terry",  # type: ignore[assignment]
        description="rates the league, every generation of every player, by the held-out pay-offs",
    )
    keep: Literal["all"] | int = Field(
        "all", description="generations whose weights stay: all, or the newest n"
    )
    commit_every: int = Field(
        256,
        ge=1,
        description="matches played and recorded together; also the unit of resuming",
    )
    report_to: tuple[Literal["trackio", "wandb", "tensorboard", "mlflow"], ...] = Field(
        (), description="trackers"
    )

    def judge_of(self, player: str) -> Judge:
        """The judge that teaches a player, by the player's name."""
        return self.judges.get(player, self.judge)

    def learner_of(self, player: str) -> Learner:
        """What trains a player, by the player's name."""
        return self.learners.get(player, self.learner)

    @property
    def learning(self) -> list[str]:
        """The names of the players that learn, in order."""
        return [name for name, player in self.players.items() if player.learns]

    @model_validator(mode="before")
    @classmethod
    def _default_kinds(cls, values: Any) -> Any:
        """Settings given without a kind are settings of the default kind: `evaluate:
        {samples: 8}`.
        """
        filled = dict(values)
        for name, field in cls.model_fields.items():
            if isinstance(field.default, str) and isinstance(filled.get(name), Mapping):
                filled[name] = {"kind": field.default, **filled[name]}
        return filled

    @model_validator(mode="after")
    def _fits_together(self) -> RunConfig:
        for name in self.players:
            if not name.isidentifier():
                raise ValueError(
                    f"players: '{name}' is no name; use letters, digits and underscores"
                )
        if not self.learning:
            raise ValueError(
                "players: nobody learns; set `learns: true` on one of them"
            )
        for trainer in map(self.learner_of, self.learning):
            self._suits(trainer)
        if self.evaluate.plays and not self.prompts.held_out:
            raise ValueError(
                f"prompts.held_out: is 0, so evaluate: {self.evaluate.kind} has nothing to measure"
            )
        for setting, names in (
            ("judges", self.judges),
            ("learners", self.learners),
            ("turns", self.turns.named()),
        ):
            for name in names:
                if name not in self.learning:
                    raise ValueError(
                        f"{setting}: '{name}' does not learn; {nearest(name, self.learning)}"
                    )
        self.schedule.check(self.game, list(self.players))
        self._apart()
        self._shaped()
        if (
            self.evaluate.judge is None
            and len({self.judge_of(name).compares for name in self.learning}) > 1
        ):
            raise ValueError(
                "judges: some score and some compare, so nothing measures all; set evaluate.judge"
            )
        if self.prompts.test and not self.evaluate.selects:
            raise ValueError(
                f"prompts.test: evaluate: {self.evaluate.kind} chooses no player to test"
            )
        for tracker in self.report_to:
            if find_spec(tracker) is None:
                raise ValueError(
                    f"report_to: '{tracker}' is not installed; pip install {tracker}"
                )
        if self.keep != "all" and self.evaluate.meets_the_past:
            raise ValueError(
                "keep: cross-play meets every measured generation, so all must be kept; or set crossplay: 0"
            )
        if (
            self.keep != "all"
            and self.loss is not None
            and self.loss.memory > self.keep
        ):
            raise ValueError(
                f"keep: the loss meets {self.loss.memory} past generations, but only {self.keep} are kept"
            )
        return self

    def _suits(self, trainer: Learner) -> None:
        """Raises ValueError unless the rest of the configuration gives the trainer what
        it learns from.
        """
        if trainer.needs in ("pairs", "game") and self.loss is None and trainer.by_loss:
            raise ValueError(
                f"loss: the learner '{trainer.kind}' needs one, e.g. loss: mnpo"
            )
        if trainer.needs == "game" and self.game.payoff_AM() is None:
            raise ValueError(
                f"learner: '{trainer.kind}' needs a finite game; '{self.game.kind}' is none"
            )

    def _apart(self) -> None:
        """Raises ValueError where players of several roles start from one adapter, and
        nobody said that it is meant.
        """
        from equipoise.matches.roles import Roles
        from equipoise.players.local import Local

        if not isinstance(self.schedule, Roles) or self.schedule.shared:
            return
        whose: dict[str, str] = {}
        for name in dict.fromkeys(self.schedule.roles.values()):
            player = self.players[name]
            if (
                name in self.learning
                and isinstance(player, Local)
                and player.adapter is not None
            ):
                packaged = player.adapter.startswith("builtin/")
                home = (
                    player.adapter
                    if packaged
                    else str(Path(player.adapter).expanduser().resolve())
                )
                other = whose.setdefault(home, name)
                if other != name:
                    raise ValueError(
                        f"players.{name}.adapter: '{player.adapter}' is where '{other}' starts too; give each role an "
                        "adapter of its own, or set schedule.shared: true if one start for both is meant"
                    )

    def _shaped(self) -> None:
        """Raises ValueError for rewards that nobody is paid, read or added to."""
        paid = [
            name for name in self.learning if self.learner_of(name).needs == "episodes"
        ]
        if self.shaping and not paid:
            raise ValueError(
                f"shaping: the learner '{self.learner.kind}' has no rewards to add to; policy_gradient has"
            )
        if self.normalise.method != "none" and not paid:
            raise ValueError(
                f"normalise: the learner '{self.learner.kind}' has no rewards to normalise; policy_gradient has"
            )
        for name in self.turns.named() if self.turns.by_rewards else ():
            if name not in paid:
                raise ValueError(
                    f"turns: '{self.turns.kind}' goes by rewards, and the learner '{self.learner_of(name).kind}' of "
                    f"'{name}' has none; policy_gradient has"
                )
        for shaping in self.shaping:
            if shaping.role not in self.game.roles:
                raise ValueError(
                    f"shaping.role: '{shaping.role}' is no role of game '{self.game.kind}'; "
                    f"{nearest(shaping.role, list(self.game.roles))}"
                )

    def yaml(self) -> str:
        """The resolved configuration; loading it gives this configuration again."""
        return yaml.safe_dump(
            self.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120
        )


def recipes() -> dict[str, str]:
    """Packaged recipes: name -> the first comment line of the file."""
    folder = resources.files("equipoise.recipes")
    files = {
        f.name.removesuffix(".yaml"): f
        for f in folder.iterdir()
        if f.name.endswith(".yaml")
    }
    return {
        name: files[name].read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        for name in sorted(files)
    }


def load(recipe: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """The configuration of a packaged recipe's name or a YAML file, with
    `key.path=value` overrides.

    Raises ConfigError naming the file (or the override), the key, and the nearest valid
    one.
    """
    values = read(recipe)
    return build(values, str(recipe), override(values, overrides))


def override(values: dict[str, Any], overrides: Sequence[str]) -> dict[str, str]:
    """Put `key.path=value` overrides into plain values; returns which setting came from
    which of them.
    """
    origin: dict[str, str] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ConfigError(f"-s {text}: write it as -s key.path=value")
        path = _full_path(key.split("."), values)
        try:
            _put(values, path, yaml.safe_load(value))
        except yaml.YAMLError as error:
            raise ConfigError(f"-s {text}: the value is not YAML ({error})") from error
        origin[".".join(path)] = f"-s {text}"
    return origin


def part(room: type[P], text: str, overrides: Sequence[str], flag: str) -> P:
    """One component from a kind's name, a YAML file or YAML text, as a command's option
    `flag` gives it.
    """
    values: Any = {"kind": text}
    try:
        if text.endswith((".yaml", ".yml")):
            values = yaml.safe_load(Path(text).read_text(encoding="utf-8"))
        elif "{" in text:
            values = yaml.safe_load(text)
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{flag} {text}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{flag} {text}: a part is a mapping of settings with a kind")
    origin = override(values, overrides)
    try:
        return TypeAdapter(room).validate_python(values)
    except ValidationError as error:
        lines = dict.fromkeys(_explain(fault, flag, origin) for fault in _causes(error))
        raise ConfigError("\n".join(lines)) from error


def build(
    values: Mapping[str, Any], source: str, origin: Mapping[str, str] | None = None
) -> RunConfig:
    """A RunConfig from plain values; errors say where in `source` (or in which
    override) the fault lies.
    """
    try:
        return RunConfig.model_validate(_populated(values))
    except ValidationError as error:
        lines = dict.fromkeys(
            _explain(fault, source, origin or {}) for fault in _causes(error)
        )
        raise ConfigError("\n".join(lines)) from error


def read(recipe: str | Path) -> dict[str, Any]:
    """The plain values of a recipe, with what it `extends` merged in below it."""
    path, packaged = (
        Path(recipe),
        resources.files("equipoise.recipes") / f"{recipe}.yaml",
    )
    if path.suffix in (".yaml", ".yml"):
        if not path.is_file():
            raise ConfigError(f"{path}: no such file")
        text = path.read_text(encoding="utf-8")
    elif packaged.is_file():
        text = packaged.read_text(encoding="utf-8")
    else:
        raise ConfigError(
            f"no recipe '{recipe}'; {nearest(str(recipe), list(recipes()))} (or give a .yaml file)"
        )
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{recipe}: not YAML: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{recipe}: a recipe is a mapping of settings")
    base = values.pop("extends", None)
    if base is None:
        return values
    parent = path.parent / base if str(base).endswith((".yaml", ".yml")) else base
    return merge(read(parent), values)


def merge(below: dict[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """`above` over `below`; a component of another kind replaces the one below it
    whole.
    """
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if (
            isinstance(old, dict)
            and isinstance(value, Mapping)
            and value.get("kind", old.get("kind")) == old.get("kind")
        ):
            merged[key] = merge(old, value)
        else:
            merged[key] = value
    return merged


def _populated(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with `player_defaults` below every player of the same kind, and
    without players that are null.

    So does `learner` lie below each of `learners` that is not null.
    """
    filled = dict(values)
    below = filled.pop("player_defaults", None) or {}
    players = filled.get("players")
    if isinstance(players, Mapping):
        kept = {
            name: {"kind": player} if isinstance(player, str) else player
            for name, player in players.items()
        }
        filled["players"] = {
            name: merge(below, player)
            if below and isinstance(player, Mapping) and _same_kind(below, player)
            else player
            for name, player in kept.items()
            if player is not None
        }
    base, own = filled.get("learner"), filled.get("learners")
    base = {"kind": base} if isinstance(base, str) else base
    if isinstance(base, Mapping) and isinstance(own, Mapping):
        filled["learners"] = {
            name: merge(dict(base), {"kind": one} if isinstance(one, str) else one)
            if isinstance(one, (str, Mapping))
            and _same_kind(base, {"kind": one} if isinstance(one, str) else one)
            else one
            for name, one in own.items()
            if one is not None
        }
    return filled


def _same_kind(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    return above.get("kind", below.get("kind")) == below.get("kind")


def _full_path(path: list[str], values: Mapping[str, Any]) -> list[str]:
    known = path[0] in RunConfig.model_fields
    return (
        ["players", *path]
        if not known and path[0] in values.get("players", {})
        else path
    )


def _put(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    here = values
    for key in path[:-1]:
        inner = here.get(key)
        if not isinstance(inner, dict):
            inner = {"kind": inner} if isinstance(inner, str) else {}
        here[key] = dict(inner)
        here = here[key]
    here.update(merge({path[-1]: here.get(path[-1])}, {path[-1]: value}))


def _causes(error: ValidationError) -> list[Any]:
    """The faults, without defaults that could not be made because of them."""
    return [
        fault
        for fault in error.errors()
        if fault["type"] != "default_factory_not_called"
    ]


def _explain(fault: Any, source: str, origin: Mapping[str, str]) -> str:
    named = [
        str(part)
        for part in fault["loc"]
        if "[" not in str(part) and part not in ("str", "int", "float", "bool")
    ]
    path = ".".join(named)  # without the arms of a union
    fully = (
        ".".join([*named, fault["ctx"]["key"]])
        if fault["type"] == "unknown_key"
        else path
    )
    where = next(
        (
            text
            for key, text in origin.items()
            if fully == key or key.startswith(f"{fully}.")
        ),
        source,
    )
    if fault["type"] == "missing" or fault.get("input", "") is None:
        message = f"is required; set it with -s {path}=…" if path else "is empty"
    else:
        message = fault["msg"].removeprefix("Value error, ")
        shown = repr(fault["input"])
        if (
            fault["type"] not in ("unknown_key", "unknown_kind", "kind", "value_error")
            and len(shown) < 60
        ):
            message += f" (got {shown})"
    return f"{where}: {path}: {message}" if path else f"{where}: {message}"
