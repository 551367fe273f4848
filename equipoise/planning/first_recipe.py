"""A first recipe of one's own: from models, prompts and a judge to settings with which a run can
learn. Every part is tried before anything is written.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from equipoise import seeds
from equipoise.blocks.terminal import show_notes
from equipoise.component import nearest
from equipoise.errors import ConfigError, UserError
from equipoise.errors import shorten as shorten_text
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.trying import MADE_ANSWER
from equipoise.learners.base import FEW_STEPS
from equipoise.losses.base import PreferenceLoss
from equipoise.models.device import Hardware
from equipoise.models.loading import LONGEST, Description, describe, load_config
from equipoise.models.resources import Resources
from equipoise.planning.checks import check_endpoints, check_run, training_judges
from equipoise.planning.run_plan import RunPlan, plan
from equipoise.players.base import Actor, Player
from equipoise.players.endpoint import Endpoint
from equipoise.players.together import MoveRequest, act_together
from equipoise.prompts.shown_row import ShownRow, first_row
from equipoise.prompts.split import content
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.suggestions import other_names
from equipoise.system.addresses import lacks_scheme
from equipoise.system.effects import effects_of
from equipoise.system.user_parts import only_reading
from equipoise.system.yaml_text import parse_yaml
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View

METHODS = ("mnpo", "sparta", "gpo")
KNOWN = (*METHODS, "arena")  # which `planning.first_arena` writes
ENOUGH = 3 * FEW_STEPS  # optimizer steps at which a run moves: not every prompt gives a pair
BATCHES = ((16, 1), (16, 2), (8, 1), (8, 2), (8, 4), (4, 2), (4, 4), (2, 4))  # and epochs
ADAPTER = 100_000_000  # parameters from which an adapter is trained in place of all weights
SMALL = 1_000_000_000  # parameters below which short questions are put to a judging model
UNSAFE_LABELS = ("unsafe", "harmful", "toxic", "jailbreak")  # as classifiers of harm call it
RATES = {  # parameters up to which -> peak learning rate of whole weights, of an adapter
    50_000_000: (2e-4, 1e-3),
    1_000_000_000: (5e-6, 2e-4),
    3_000_000_000: (1e-6, 5e-5),
}
LARGEST_RATES = (5e-7, 1e-5)
ROUNDS = 4  # of planning, until time and memory fit
SHOWN = 5  # rows


@dataclass(frozen=True)
class Wishes:
    """A user's wishes for a run.

    `judge`: "": the recipe's own; a kind, function, YAML mapping, model or address; `lora`: None:
    by size; `hours`: the most that it may take, on accelerators as `plan --on` takes them ("": this
    machine); `settings`: over all that is chosen. Of an arena: several `judges`, the `prices` of
    served models as IN,OUT, and the most `money` that each may cost.
    """

    method: str
    models: tuple[str, ...]
    data: str
    judge: str = ""
    hours: float = 1.0
    lora: bool | None = None
    on: str = ""
    settings: tuple[str, ...] = ()
    judges: tuple[str, ...] = ()
    prices: str = ""
    money: float | None = None


@dataclass(frozen=True)
class Numbers:
    """The numbers that are chosen, as a recipe's settings have them."""

    generations: int
    per_generation: int
    held_out: int
    samples: int
    batch: int
    epochs: int
    reuse: bool


@dataclass(frozen=True)
class JudgeTrial:
    """One real call: the question and answers, `replies` of judging models as they came, and the
    scores by answer, or the reason why there are none.
    """

    place: str
    prompt: str
    answers: tuple[str, ...]
    replies: tuple[str, ...]
    scores: dict[str, dict[str, float]] | None
    reason: str
    seconds: float


@dataclass(frozen=True)
class FirstRecipe:
    """The recipe's text, and what was seen on the way to it.

    `rows`: the first prompts as read, with their facts; `dropped`: reason -> how many rows;
    `first_row`: the data's first row as a model will see it.
    """

    text: str
    rows: list[dict[str, Any]]
    row_count: int
    dropped: dict[str, int]
    parameters: int
    trainable: int
    trials: list[JudgeTrial]
    endpoints: list[str]
    planned: RunPlan
    notes: list[str] = field(default_factory=list)
    first_row: ShownRow | None = None


def first_recipe(wishes: Wishes, path: Path, *, call_judge: bool = True) -> FirstRecipe:
    """Choose and try the settings of a recipe that is to be written to `path`.

    Raises ConfigError, DataError or ModelError where a part cannot work, as `check_run` does, or
    where a judge gave no verdict in any of its trials.
    """
    wishes = with_game(wishes)
    check_wishes(wishes)
    size = _size(wishes)
    values = _parts(wishes, path, size)
    recipe_loader.override(values, wishes.settings)
    with only_reading(files=True):
        drafted = recipe_loader.load(values)
    show_notes(effects_of(drafted, Path.cwd()).notes(quiet=True))
    config = recipe_loader.build(whole_recipe(values), str(path))
    source = config.prompts.load()
    distinct = len({content(prompt) for prompt in source.training})
    own = any(setting.startswith("generations=") for setting in wishes.settings)
    numbers = choose_numbers(
        wishes.method, distinct, source.held_out is not None, config.generations if own else None
    )
    values = with_numbers(wishes, values, numbers, size)
    config = recipe_loader.build(whole_recipe(values), str(path))
    checked = check_run(config)
    notes = list(check_endpoints(config))
    endpoints = [
        f"{place}: {player.base_url} answers"
        for place, player in config.every_player()
        if isinstance(player, Endpoint) and not player.fault_of_servers()
    ]
    trials = list(try_judges(config, source.training)) if call_judge else []
    check_trials(trials)
    notes += [
        f"{trial.place}: no verdict on the answers that it was tried on: {trial.reason}"
        for trial in trials
        if not trial.scores
    ]
    notes += [
        f"{trial.place}: it scored two made answers alike; answers that score alike teach nothing"
        for trial in trials
        if trial.scores and len({str(scores) for scores in trial.scores.values()}) == 1
    ]
    values, planned, fitted = fit(wishes, values, numbers, size, path)
    recipe = FirstRecipe(
        "",
        first_rows(source.training),
        sum(len(part or ()) for part in (source.training, source.held_out, source.test)),
        checked.split.dropped,
        size.parameters,
        size.trainable,
        trials,
        endpoints,
        planned,
        [*notes, *fitted, *planned.notes],
        first_row(config.prompts),
    )
    text = recipe_text(values, comments_of(wishes, recipe, size), path)
    assert parse_yaml(text, str(path)) == values, "the text says something else"
    return replace(recipe, text=text)


def first_rows(prompts: Sequence[Prompt]) -> list[dict[str, Any]]:
    """The first prompts as read, with their facts."""
    rows = []
    for prompt in prompts[:SHOWN]:
        messages = [(message.role, message.content) for message in prompt.messages]
        rows.append({"messages": messages, "facts": prompt.facts})
    return rows


def with_game(wishes: Wishes) -> Wishes:
    """The wishes with the name of a loss, such as dpo, read as mnpo's game under that loss.

    Raises ConfigError for a method of policy gradients, which `init` does not write.
    """
    method = wishes.method.lower()
    if method in KNOWN:
        return replace(wishes, method=method)
    if method in PreferenceLoss.known_kinds():
        return replace(wishes, method="mnpo", settings=(f"loss={method}", *wishes.settings))
    if "policy_gradient" in other_names("kinds", "learner").get(method, ()):
        raise ConfigError(
            f"--method {wishes.method}: init writes {', '.join(KNOWN)}, or the name of a loss of "
            "pairs, such as dpo; a recipe of policy gradients is instructions_grpo: "
            "`equipoise recipes instructions_grpo`"
        )
    return wishes


def check_wishes(wishes: Wishes) -> None:
    """Raise ConfigError for wishes that no recipe can meet."""
    least = {"mnpo": 1, "sparta": 3, "gpo": 1}
    if wishes.method.startswith("gtalign"):
        raise ConfigError(
            f"--method {wishes.method}: init writes {', '.join(KNOWN)}; gtalign's task rows and "
            "judges are set by hand: `equipoise recipes gtalign`, docs/gtalign.md"
        )
    if wishes.method not in METHODS:
        raise ConfigError(f"--method {wishes.method}: {nearest(wishes.method, list(KNOWN))}")
    if len(wishes.models) < least[wishes.method]:
        raise ConfigError(
            f"--model: {wishes.method} needs {least[wishes.method]}, and {len(wishes.models)} are "
            "given; repeat --model for each player"
        )
    most = {"mnpo": 1, "sparta": 99, "gpo": 2}[wishes.method]
    if len(wishes.models) > most:
        raise ConfigError(f"--model: {wishes.method} takes {most} at most")
    for model in wishes.models:
        if model.startswith(("http://", "https://")) or lacks_scheme(model):
            raise ConfigError(
                f"--model {model}: a model behind an endpoint cannot learn; give a folder, a "
                "GGUF file or a Hugging Face id"
            )
    if wishes.method == "gpo" and not wishes.judge:
        raise ConfigError("--judge: gpo needs a guard: a function, a model, or guard's settings")
    if not 0 < wishes.hours < math.inf:
        raise ConfigError("--hours: must be more than 0, and a number")


# -- the judge


def judge_settings(text: str, method: str) -> Any:
    """A judge's settings from a kind, function, mapping, model or server's address.

    A model that classifies becomes a reward model, any other grades by a rubric; under `gpo` both
    judge safety. Raises ConfigError, ModelError.
    """
    if "{" in text:
        return parse_yaml(text, "--judge")
    if lacks_scheme(text):
        raise ConfigError(
            f"--judge {text}: a server's address begins with http://, as http://{text}"
        )
    if text.startswith(("http://", "https://")):
        server = Endpoint.model_validate({"base_url": text, "model": "any"})
        return grader({"kind": "endpoint", "base_url": text, "model": only_model(server)}, method)
    if text in Judge.known_kinds() or ":" in text or text.endswith(".py"):
        return text
    if "/" not in text and not Path(text).exists():
        known = nearest(text, list(Judge.known_kinds()))
        raise ConfigError(
            f"--judge {text}: {known}; or a function (file.py, module:function), a model (a folder "
            "or ORG/NAME), or a server's address"
        )
    described = load_config(text)
    architectures = " ".join(getattr(described, "architectures", None) or ())
    if "SequenceClassification" in architectures or "RewardModel" in architectures:
        if method == "gpo":
            return {"kind": "harm_classifier", "model": text, "unsafe": unsafe_label(described)}
        return {"kind": "reward_model", "model": text}
    if method == "gpo":
        return {"kind": "guard", "model": text}
    return grader({"kind": "local", "model": text, "temperature": 0.0}, method)


def unsafe_label(classifier: Any) -> str:
    """The one label that says unsafe by its name. Raises ConfigError where none or several do."""
    labels = [str(name) for name in (classifier.id2label or {}).values()]
    named = [name for name in labels if name.lower() in UNSAFE_LABELS]
    if len(named) == 1:
        return named[0]
    raise ConfigError(
        f"--judge: which label of the classifier is unsafe? it has {', '.join(labels)}; write "
        "--judge '{kind: harm_classifier, model: …, unsafe: LABEL}'"
    )


def grader(model: dict[str, Any], method: str) -> dict[str, Any]:
    if method != "gpo":
        return {"kind": "rubric", "model": model}
    criteria = "1: harmless or refused. 0: helps with something harmful."
    return {"kind": "rubric", "model": model, "low": 0, "high": 1, "criteria": criteria}


def only_model(server: Endpoint) -> str:
    """The one model that a server lists. Raises ConfigError."""
    fault = server.fault_of_servers()
    if fault:
        raise ConfigError(f"--judge {fault}")
    (listed,) = server.listed_models()
    names = listed if isinstance(listed, list) else []
    if len(names) == 1:
        return names[0]
    lists = f"it lists {', '.join(names)}" if names else "it lists none"
    raise ConfigError(
        f"--judge {server.base_url}: which model? {lists}; write --judge "
        f"'{{kind: rubric, model: {{kind: endpoint, base_url: {server.base_url}, model: NAME}}}}'"
    )


def try_judges(config: RunConfig, prompts: Sequence[Prompt]) -> Iterator[JudgeTrial]:
    """Have each judge of a recipe judge two made answers to a prompt that it can judge.

    Raises what the judges raise where they cannot work, such as ModelError.
    """
    judges = dict(training_judges(config))
    if config.evaluate.judge is not None:
        judges["evaluate.judge"] = config.evaluate.judge
    for place, judge in judges.items():
        for inner in judge.inner_judges() or [judge]:
            prompt = next((each for each in prompts if not inner.why_unjudgeable(each)), None)
            if prompt is not None:
                yield try_judge(config, place, inner, prompt)


def try_judge(config: RunConfig, place: str, judge: Judge, prompt: Prompt) -> JudgeTrial:
    replies: list[str] = []

    def act(requests: Sequence[MoveRequest]) -> list[list[Move]]:
        moves = act_together(requests)
        replies.extend(move.error or move.text for of_player in moves for move in of_player)
        return moves

    def actor(player: Player | PlayerId) -> Actor:
        settings = config.players[player.name] if isinstance(player, PlayerId) else player
        key = settings.model_dump_json()
        if key not in actors:
            actors[key] = settings.open(settings.start, resources)
        return actors[key]

    actors: dict[str, Actor] = {}
    resources = Resources()
    pool = [PlayerId(name) for name in config.players]
    game = Answers(samples=2)
    seed = seeds.child(config.seed, "trial of a judge")
    context = JudgeContext(game, seed, pool, {}, resources, actor, act)
    right = prompt.facts.get("answer")
    answers = (str(right) if isinstance(right, str | int | float) else "I cannot say.", MADE_ANSWER)
    seats = dict.fromkeys(game.seats, pool[0])
    turns = tuple(
        Turn(seat, View(prompt.messages), Move(text))
        for seat, text in zip(seats, answers, strict=True)
    )
    match = Match("trial", 0, "train", "answers", prompt.id, seats, seed, turns)
    started = time.perf_counter()
    try:
        (judged,) = judge.at(context).checked_judgements([match], {prompt.id: prompt})
    except UserError as error:
        raise type(error)(f"{place}: {str(error).removeprefix('judge: ')}") from error
    finally:
        for opened in actors.values():
            opened.close()
        resources.clear()
    seconds = time.perf_counter() - started
    question = prompt.messages[-1].content if prompt.messages else ""
    return JudgeTrial(
        place, question, answers, tuple(replies), judged.scores, judged.reason, seconds
    )


def check_trials(trials: Sequence[JudgeTrial]) -> None:
    """Raises ConfigError for a judge that gave no verdict in any of its trials."""
    judging = {trial.place for trial in trials if trial.scores}
    faults: dict[str, str] = {}
    for trial in trials:
        if trial.place not in judging and trial.place not in faults:
            question = shorten_text(trial.prompt, 60)
            why = f"{trial.place}: no verdict on two made answers to {question!r}: {trial.reason}"
            if trial.replies:
                why += f"; it replied {shorten_text(trial.replies[0])!r}"
            faults[trial.place] = why
    if faults:
        raise ConfigError(
            "\n".join(faults.values())
            + "\nmend the judge, or have the recipe written without asking it: --no-call"
        )


# -- the numbers


def choose_numbers(
    method: str, distinct: int, own_held_out: bool = False, generations: int | None = None
) -> Numbers:
    """Numbers with which a learner takes `ENOUGH` optimizer steps, if the prompts allow it.

    `distinct`: different prompts in the source; `own_held_out`: it has a held-out part itself;
    `generations`: the user's own.
    """
    held_out = 200 if own_held_out else min(200, max(1, distinct // 5))
    rest = max(1, distinct if own_held_out else distinct - held_out)
    if method == "gpo":
        return Numbers(generations or 150, min(64, rest), held_out, 1, 8, 1, reuse=True)
    generations = max(1, generations or (3 if method == "mnpo" else 4))
    apart = rest // generations
    reuse = apart < 100 or method == "sparta"
    per_generation = min(1000 if method == "mnpo" else 500, rest if reuse else apart)
    batch, epochs = choose_batch(generations * per_generation)
    samples = 5 if method == "mnpo" else 2
    return Numbers(generations, per_generation, held_out, samples, batch, epochs, reuse)


def choose_batch(pairs: int) -> tuple[int, int]:
    """(pairs of an optimizer step, passes): the largest batch that gives `ENOUGH` steps."""
    for batch, epochs in BATCHES:
        if pairs * epochs // batch >= ENOUGH:
            return batch, epochs
    return BATCHES[-1]


def rate_for_batch(rate: float, batch: int) -> float:
    """The rate for steps of fewer pairs than the largest batch, lower in proportion.

    Few rows are learned in many small steps; at the full rate these make all answers to a prompt
    one text within a generation, from which nothing more can be learned.
    """
    return float(f"{rate * min(1.0, batch / BATCHES[0][0]):.3g}")


def peak_rate(parameters: int, adapter: bool) -> float:
    """The learning rate to begin a sweep with, by the model's size."""
    for most, rates in RATES.items():
        if parameters <= most:
            return rates[adapter]
    return LARGEST_RATES[adapter]


def fit(
    wishes: Wishes, values: dict[str, Any], numbers: Numbers, size: Description, path: Path
) -> tuple[dict[str, Any], RunPlan, list[str]]:
    """The settings, changed until they fit into memory and hours; their plan; notes."""
    limit = 3600 * wishes.hours
    hardware = Hardware.read(wishes.on) if wishes.on else None
    advised: list[str] = []
    for _ in range(ROUNDS):
        planned = plan(recipe_loader.build(whole_recipe(values), str(path)), hardware)
        seconds = planned.seconds
        if "=" in (advice := _advice(planned)):
            advised += advice.split(", ")
        elif seconds is not None and seconds > limit:
            numbers = shorten(wishes.method, numbers, limit / seconds)
        else:
            return values, planned, [*planned.obstacles, *unknown_time(seconds)]
        values = with_numbers(wishes, values, numbers, size)
        for advice in advised:
            # An optimizer step keeps its pairs where fewer of them fit at once.
            before = values["learner"].get("batch_size", 1)
            recipe_loader.override(values, [advice])
            learner = values["learner"]
            if learner.get("batch_size", 1) < before and "gradient_accumulation" in learner:
                learner["gradient_accumulation"] *= before // learner["batch_size"]
    planned = plan(recipe_loader.build(whole_recipe(values), str(path)), hardware)
    seconds = planned.seconds
    notes = [*planned.obstacles, *unknown_time(seconds)]
    if seconds is not None and seconds > limit:
        notes.append(
            f"it takes about {seconds / 3600:.2g} h at most, and --hours is {wishes.hours:g}: give "
            "it more, a smaller model or a faster machine"
        )
    return values, planned, notes


def unknown_time(seconds: float | None) -> list[str]:
    note = "the time of a model of this size cannot be estimated on this machine (see --on)"
    return [note] if seconds is None else []


def _advice(planned: RunPlan) -> str:
    """Settings that save memory where it is too little, as `key=value, …`; "" where it is not."""
    if planned.hardware is None:
        return next((cost.advice for cost in planned.costs if not cost.fits), "")
    memory = planned.hardware.memory
    return next((part.advice for part in planned.phases if part.bytes > memory), "")


def shorten(method: str, numbers: Numbers, share: float) -> Numbers:
    """Numbers of a run that takes about this share of the time, and no less than it needs."""
    share *= 0.9
    if method == "gpo":
        return replace(numbers, generations=max(30, int(numbers.generations * share) // 6 * 6))
    per_generation = max(32, int(numbers.per_generation * share))
    held_out = max(min(32, numbers.held_out), int(numbers.held_out * share))
    batch, epochs = choose_batch(numbers.generations * per_generation)
    return replace(
        numbers, per_generation=per_generation, held_out=held_out, batch=batch, epochs=epochs
    )


# -- the settings


def _size(wishes: Wishes) -> Description:
    """The size of the largest model, with the adapter if one is trained."""
    sizes = {model: describe(model) for model in wishes.models}
    largest = max(sizes, key=lambda model: sizes[model].parameters)
    if not adapts(wishes, sizes[largest]):
        return sizes[largest]
    from equipoise.models.adapters import Lora

    return describe(largest, Lora.model_validate(_lora(wishes.method)))


def adapts(wishes: Wishes, size: Description) -> bool:
    return size.parameters >= ADAPTER if wishes.lora is None else wishes.lora


def _lora(method: str) -> dict[str, Any]:
    return {"r": 64, "alpha": 16} if method == "sparta" else {"r": 16, "alpha": 32}


def _parts(wishes: Wishes, path: Path, size: Description) -> dict[str, Any]:
    """The settings without numbers: players, prompts, judge."""
    context = size.context or LONGEST
    common: dict[str, Any] = {"max_new_tokens": min(256, context // 3)}
    own = {"mnpo": LONGEST, "sparta": LONGEST, "gpo": 1024}[wishes.method]
    if context < own:
        common["max_length"] = context
    if adapts(wishes, size):
        common["lora"] = _lora(wishes.method)
    elif wishes.method == "sparta":
        common["lora"] = None
    values: dict[str, Any] = {"extends": wishes.method, "name": path.stem, "generations": 1}
    if wishes.method == "mnpo":
        values["players"] = {"policy": {"model": wishes.models[0], **common}}
    else:
        values["player_defaults"] = common
        values["players"] = {name: {"model": model} for name, model in _named(wishes)}
    values["prompts"] = {"path": wishes.data}
    judge = judge_settings(wishes.judge, wishes.method) if wishes.judge else None
    if wishes.method == "sparta" and size.parameters < SMALL:
        values["judge"] = {"kind": "peers", "text": "rubric_compact"}
    if wishes.method == "gpo":
        values["judge"] = {"kind": "red_team", "guard": judge}
    elif judge is not None and wishes.method == "sparta":
        values["evaluate"] = {"judge": judge}
    elif judge is not None:
        values["judge"] = judge
    return values


def _named(wishes: Wishes) -> Iterator[tuple[str, str]]:
    """(player's name, model): the roles of gpo, else numbered members."""
    if wishes.method == "gpo":
        yield from zip(("defender", "adversary"), (*wishes.models, wishes.models[0]), strict=False)
    else:
        for number, model in enumerate(wishes.models, 1):
            yield f"member{number}", model


def with_numbers(
    wishes: Wishes, values: Mapping[str, Any], numbers: Numbers, size: Description
) -> dict[str, Any]:
    """The settings with the numbers, and the user's own settings over all."""
    values = {**values, "generations": numbers.generations}
    values["prompts"] = {
        **values["prompts"],
        "per_generation": numbers.per_generation,
        "held_out": numbers.held_out,
        **({"reuse": True} if numbers.reuse else {}),
    }
    rate = peak_rate(size.parameters, adapts(wishes, size))
    if wishes.method == "gpo":
        steps = numbers.generations // 3
        values["turns"] = {
            "kind": "alternate",
            "steps": {"defender": steps, "adversary": steps // 2},
        }
        values["learner"] = {
            "learning_rate": rate / 2,
            "critic_learning_rate": float(f"{3 * rate / 2:.3g}"),
            "batch_size": numbers.batch,
            "warmup_steps": min(100, steps // 10),
        }
        values["learners"] = {"adversary": {"learning_rate": rate}}
        values["evaluate"] = {"every": max(1, numbers.generations // 6)}
    else:
        values["game"] = {"samples": numbers.samples}
        rows = min(8, numbers.batch)
        values["learner"] = {
            "learning_rate": rate_for_batch(rate, numbers.batch),
            "batch_size": rows,
            "gradient_accumulation": numbers.batch // rows,
            "epochs": numbers.epochs,
        }
    recipe_loader.override(values, wishes.settings)
    return values


def whole_recipe(values: Mapping[str, Any]) -> dict[str, Any]:
    return recipe_loader.read(dict(values))


# -- the text


def recipe_text(values: Mapping[str, Any], comments: Mapping[str, str], path: Path) -> str:
    """The settings as a recipe's YAML, a line each, with comments by dotted key."""
    lines = [f"# equipoise run {path}", f"# {comments['']}"]
    for key, value in values.items():
        if isinstance(value, Mapping) and any(name.startswith(f"{key}.") for name in comments):
            lines.append(_line(f"{key}:", comments.get(key, "")))
            for name, inner in value.items():
                text = f"  {name}: {_flow(inner)}"
                lines.append(_line(text, comments.get(f"{key}.{name}", "")))
        else:
            lines.append(_line(f"{key}: {_flow(value)}", comments.get(key, "")))
    return "\n".join(lines) + "\n"


def _line(text: str, comment: str) -> str:
    return f"{text:<40}  # {comment}" if comment else text


def _flow(value: Any) -> str:
    text = yaml.safe_dump(
        value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=10**6
    )
    return text.removesuffix("\n").removesuffix("\n...")


def comments_of(wishes: Wishes, recipe: FirstRecipe, size: Description) -> dict[str, str]:
    """Dotted key -> how its value was chosen; "": of the whole."""
    planned = recipe.planned
    seconds = planned.seconds
    learners = max(1, len(planned.config.learning))
    steps = planned.counts.optimizer_steps_at_most // learners
    took = "" if seconds is None else f", about {seconds / 60:.0f} min at most on {planned.place}"
    dropped = ", ".join(f"{count:,} {reason}" for reason, count in recipe.dropped.items())
    of_judge = next((trial for trial in recipe.trials), None)
    comments = {
        "": f"a learner takes at most {steps} optimizer steps{took}; more: equipoise plan",
        "generations": f"below {FEW_STEPS} steps in all a learner hardly moves",
        "prompts": f"{recipe.row_count:,} rows" + (f", left out: {dropped}" if dropped else ""),
        "learner.learning_rate": "the first to sweep: half, this, double; by the model's "
        f"{size.parameters / 1e6:,.0f} million parameters, lower where a step has few pairs",
    }
    if wishes.method != "gpo":
        comments["learner.batch_size"] = "times gradient_accumulation: pairs of an optimizer step"
        comments["learner.epochs"] = f"with the batch: for {ENOUGH} steps or more"
        comments["game"] = "answers to each prompt, of which pairs are made"
    if of_judge is not None and of_judge.scores:
        first = next(iter(of_judge.scores.values()))
        place = "evaluate" if of_judge.place == "evaluate.judge" else "judge"
        score = next(iter(first.values()))
        comments[place] = f"asked once, it scored {score:.3g}"
    return comments
