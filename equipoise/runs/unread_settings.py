"""Settings of a run that nothing in it reads.

A setting that the user gave is refused: something else was meant. One that a recipe below sets, and
that a change of the user's left without a reader, yields: it goes back to its default, and `plan`
and the run's notes name it.

    equipoise plan mnpo -s learner=policy_gradient …      # mnpo's loss yields, and is named
    equipoise plan mnpo -s learner=policy_gradient -s loss=dpo …       # dpo is refused
"""

from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from pydantic import TypeAdapter

from equipoise.component import Settings
from equipoise.players.local_settings import LocalSettings
from equipoise.runs.config import RunConfig


def without_learners(config: RunConfig) -> str:
    return "" if config.learning else "nobody learns; a player with learns: true would"


def why_nobody_needs(config: RunConfig, *needs: str) -> str:
    """The reason why no learner learns from such examples; "" where one does."""
    trainers = {name: config.learner_of(name) for name in config.learning}
    if not trainers or any(trainer.needs in needs for trainer in trainers.values()):
        return without_learners(config)
    kinds = ", ".join(dict.fromkeys(trainer.kind for trainer in trainers.values()))
    learned = " and ".join(dict.fromkeys(FROM[trainer.needs] for trainer in trainers.values()))
    readers = " or ".join(FROM[need] for need in needs)
    return f"learner {kinds} learns from {learned}; those that learn from {readers} would read it"


def unread_loss(config: RunConfig) -> str:
    by_loss = [config.learner_of(name).by_loss for name in config.learning]
    if by_loss and not any(by_loss):
        return "the learners have an aim of their own; preference and tabular minimise a loss"
    return why_nobody_needs(config, "pairs", "game")


def unread_learner(config: RunConfig) -> str:
    kinds = {getattr(config.learners.get(name), "kind", None) for name in config.learning}
    if config.learner is not None and kinds and not kinds & {None, config.learner.kind}:
        return "all who learn have one of another kind, under learners"
    return without_learners(config)


def unread_schedule(config: RunConfig) -> str:
    if config.schedule.player_of_role or any(map(config.plays, range(config.generations))):
        return ""
    return f"nothing is played, for pairs: {config.pairs.kind} brings all examples"


def unread_training_ratings(config: RunConfig) -> str:
    if len(config.players) < 2:
        return "there is one player, and two or more are rated"
    if not config.game.symmetric:
        return f"game: {config.game.kind} has different roles, which are not rated together"
    return unread_schedule(config)


def unread_matches(config: RunConfig) -> str:
    return why_nobody_needs(config, "pairs", "answers", "episodes") or unread_schedule(config)


def unread_too_long(config: RunConfig) -> str:
    if any(isinstance(player, LocalSettings) for player in config.players.values()):
        return ""
    return "no player is a model in this process, whose room is known"


def unread_shaping(config: RunConfig) -> str:
    for shaping in config.shaping:
        role = shaping.in_game(config.game).role or ""
        player = config.schedule.player_of_role.get(role)
        if player is not None and player not in config.learning:
            return f"{shaping.kind} is for the role {role}, and its player {player} does not learn"
    return why_nobody_needs(config, "episodes")


def unread_normalise(config: RunConfig) -> str:
    if config.normalise.method == "none":
        return "normalise.method: none normalises nothing"
    return why_nobody_needs(config, "episodes")


def unread_by_evaluation(name: str) -> Callable[[RunConfig], str]:
    def why(config: RunConfig) -> str:
        if name in config.evaluate.reads(config.game):
            return ""
        return f"evaluate: {config.evaluate.kind} uses none in game {config.game.kind}"

    return why


FROM = {  # what a learner needs -> in words
    "game": "the game's rules",
    "answers": "the winners' answers",
    "pairs": "pairs",
    "episodes": "rewards",
}
UNREAD: Mapping[str, Callable[[RunConfig], str]] = {
    # a setting of a run -> the reason why nothing reads it, "" where something does
    "learner": unread_learner,
    "loss": unread_loss,
    "losses": unread_loss,
    "pairs": lambda config: why_nobody_needs(config, "pairs", "answers"),
    "truncated": unread_matches,
    "too_long": unread_too_long,
    "training_matches": unread_matches,
    "schedule": unread_schedule,
    "training_ratings": unread_training_ratings,
    "shaping": unread_shaping,
    "normalise": unread_normalise,
    "turns": without_learners,
    "keep": without_learners,
    "solver": unread_by_evaluation("solver"),
    "league_ratings": unread_by_evaluation("league_ratings"),
}


def unread_by_reason(config: RunConfig) -> dict[str, list[str]]:
    """Reason -> the settings that are not their defaults and that, for it, nothing here reads.

    A run of no generations only measures, and may keep what its recipe says of training.
    """
    by_reason: dict[str, list[str]] = {}
    for name, why in UNREAD.items():
        if not config.generations and name not in ("solver", "league_ratings"):
            continue
        if getattr(config, name) == default_value(name):
            continue
        reason = why(config)
        if reason:
            by_reason.setdefault(reason, []).append(name)
    return by_reason


def unread_settings(config: RunConfig) -> Iterator[str]:
    """A fault for the settings that nothing in this run reads."""
    for reason, names in unread_by_reason(config).items():
        away = " ".join(f"-s {name}{taken_away(name)}" for name in names)
        these = "it" if len(names) == 1 else "them"
        yield (
            f"{', '.join(names)}: nothing reads {these}: {reason}. "
            f"Take away what is not meant: {away}"
        )


def without_unread(config: RunConfig, own: Set[str]) -> RunConfig:
    """The configuration without what nothing reads and the user, whose `own` settings stay, did
    not set; `RunConfig.yielded` names it.
    """
    defaults: dict[str, Any] = {}
    notes = list(config.yielded)
    for reason, names in unread_by_reason(config).items():
        unread = [name for name in names if name not in own]
        if not unread:
            continue
        defaults |= {name: default_value(name) for name in unread}
        verb = "is" if len(unread) == 1 else "are"
        notes.append(f"{', '.join(unread)}: what the recipe sets {verb} left out: {reason}")
    if not notes:
        return config
    schedules = config.by_generation
    for part in ("learner", "loss"):
        if part in defaults:
            schedules = {
                name: values for name, values in schedules.items() if not name.startswith(part)
            }
    changed = config.model_copy(update={**defaults, "by_generation": schedules})
    changed.note_yielded(notes)
    return changed


def without_idle_entries(
    values: Mapping[str, Any], own: Set[str]
) -> tuple[dict[str, Any], list[str]]:
    """Plain settings without judges, learners, losses and turns of players that do not learn here,
    where the user, whose `own` settings stay, did not set them; and a note for each.
    """
    players = values.get("players")
    filled = dict(values)
    turns = values.get("turns")
    steps = turns.get("steps") if isinstance(turns, Mapping) else None
    notes: list[str] = []
    if not isinstance(players, Mapping):
        return filled, notes
    learning = {
        name
        for name, player in players.items()
        if isinstance(player, Mapping) and player.get("learns")
    }
    for setting, entries in {
        "judges": values.get("judges"),
        "learners": values.get("learners"),
        "losses": values.get("losses"),
        "turns.steps": steps,
    }.items():
        if not isinstance(entries, Mapping):
            continue
        idle = []
        for name in entries:
            is_own = setting in own if "." in setting else f"{setting}.{name}" in own
            if name not in learning and not is_own:
                idle.append(name)
        if not idle:
            continue
        kept = {name: entries[name] for name in entries if name not in idle}
        if setting == "turns.steps":
            assert isinstance(turns, Mapping), "its steps were read"
            filled["turns"] = {**turns, "steps": kept} if kept else "everyone"
        else:
            filled[setting] = kept
        notes.append(
            f"{setting}: what the recipe sets for {', '.join(idle)} is left out: "
            "no such player learns"
        )
    return filled, notes


def default_value(name: str) -> Any:
    """The value of a setting that is not given."""
    field = RunConfig.model_fields[name]
    default = field.get_default(call_default_factory=True)
    if isinstance(default, str) and isinstance(field.annotation, type):
        return TypeAdapter(field.annotation).validate_python(default)
    return default


def taken_away(name: str) -> str:
    """The end of `-s NAME…` that sets a setting to its default."""
    default = RunConfig.model_fields[name].get_default(call_default_factory=True)
    if isinstance(default, Settings):  # `normalise`, whose other settings this one makes idle
        return ".method=none"
    return "=" + {None: "null", (): "[]"}.get(default, str(default))
