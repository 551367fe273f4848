"""The Python door: play a recipe, open a run, plan one, list the recipes."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.api.handle import Run
from equipoise.api.play_out import play_out
from equipoise.blocks.terminal import show_notes
from equipoise.errors import ConfigError, RunBusy, UserError
from equipoise.models.device import Hardware
from equipoise.planning import run_plan as planning
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader as library
from equipoise.runs.named_sets.sets import Sweep
from equipoise.system.given_functions import MODULE, give_all


def run(
    recipe: library.Recipe,
    settings: library.Overrides | None = None,
    out: str | Path | None = None,
    *,
    overwrite: bool = False,
    progress: bool = True,
) -> Run:
    """Play a recipe, train its learners, and return the finished run.

    Args: recipe: a packaged recipe's name, a YAML file, or a mapping like one (it may have
    `extends`); settings: over the recipe's, as `{"generations": 2, "policy.model": …, "prompts":
    {"held_out": 50}}`; a component may be a kind, a mapping, a component or its class, a judge or a
    measure also a function, and prompts a list of texts or rows, or a data frame; out: the run's
    folder, None: runs/ and the recipe's name; overwrite: replace an earlier run there.

    Raises ConfigError and DataError before anything is played, RunError where a run is there
    already, and Stopped on Ctrl-C, which leaves a run that can be resumed.
    """
    config = library.load_announced(recipe, settings or (), show_notes)
    folder = _folder(recipe, config.name) if out is None else Path(out)
    command = command_text(recipe, settings or (), folder)
    with new_run(config, folder, overwrite, command, announce=show_notes) as opened:
        played = play_out(opened, progress=progress)
    return Run(folder, played, trust=True)


def evaluate(
    target: str | Path | Run | Mapping[str, Any],
    on: Any,
    judge: Any = None,
    settings: library.Overrides = (),
    out: str | Path | None = None,
    *,
    players: str | Sequence[str] = (),
    player_settings: library.Overrides = (),
    sweep: Sweep = (),
    trained: bool = False,
    trust: bool = False,
    progress: bool = True,
) -> Run:
    """Measure a run's players, a model or an endpoint on named sets, and return the run that holds
    the results (`Run.benchmarks()`), which `compare` takes as it is; nothing is trained.

    Args: target: a run's folder or a `Run`, a model's folder, hub id or packaged name, an
    endpoint's address (`http://…/v1#MODEL`), or a player's settings (`{"base_url": …, "model":
    …}`); on: sets as `Run.evaluate` takes them; out: the folder of the run that is made for a
    model, None: runs/evaluate and the model's name; player_settings: of the model, `{"batch_size":
    8}`; trust: as `open_run` takes it; the others as `Run.evaluate`.

    Raises what `Run.evaluate` raises, and RunError where `out` holds another model.
    """
    with run_to_measure(target, out, player_settings, trust=trust) as run:
        run.evaluate(on, players, judge, settings, sweep=sweep, trained=trained, progress=progress)
        return run


@contextmanager
def run_to_measure(
    target: str | Path | Run | Mapping[str, Any],
    out: str | Path | None = None,
    player_settings: library.Overrides = (),
    *,
    trust: bool = False,
    option: str = "--out",
) -> Iterator[Run]:
    """The run that `evaluate` measures: the given one, or one made for a model or an endpoint,
    whose folder goes again where an error of the user's comes before anything is measured.

    `option`: with which the user named `out`, for messages.
    """
    from equipoise.api.measure_sets import discard_unused, run_for_model
    from equipoise.runs.directory import is_run

    is_model = isinstance(target, Mapping) or not (isinstance(target, Run) or is_run(target))
    if is_model:
        model = target if isinstance(target, Mapping) else str(target)
        run = Run(run_for_model(model, out, player_settings, option))
        try:
            yield run
        except UserError as error:
            if not isinstance(error, RunBusy):
                discard_unused(run.path)
            raise
        return
    if out is not None or player_settings:
        raise ConfigError(f"{target}: is a run; out and settings of a player are for a model")
    yield target if isinstance(target, Run) else Run(str(target), trust=trust)


def open_run(
    path: str | Path, *, trust: bool = False, functions: Sequence[Callable[..., Any]] = ()
) -> Run:
    """The run in a folder, to read it or go on with it.

    `trust`: parts of the run's own may be imported and executed, also to read it, and its keys may
    be sent, whoever began it. `functions`: those that the run was begun with from Python, which a
    new process is given again. Raises RunError where there is no run.
    """
    give_all(functions)
    return Run(path, trust=trust)


def plan(
    recipe: library.Recipe, settings: library.Overrides | None = None, on: str = ""
) -> planning.RunPlan:
    """Plan a run: its counts, and an estimate of its memory and time; no model is loaded.

    `on`: accelerators that it is planned for, as `8xH100-80GB` or `GPUS,MEMORY,TFLOPS,BANDWIDTH`
    (GB, dense bfloat16, GB/s); "": this machine. Raises ConfigError.
    """
    hardware = Hardware.read(on) if on else None
    return planning.plan(library.load_announced(recipe, settings or (), show_notes), hardware)


def recipes() -> dict[str, str]:
    """The packaged recipes: name -> what it is."""
    return library.recipe_descriptions()


def command_text(recipe: library.Recipe, settings: library.Overrides, folder: Path) -> str:
    """The command that makes the same run; none for a recipe that is a mapping."""
    if isinstance(recipe, Mapping):
        return ""
    texts = settings
    if isinstance(settings, Mapping):
        plain = library.plain_values(settings)
        if MODULE in json.dumps(plain):  # a function that only this process has
            return ""
        texts = [f"{key}={json.dumps(value)}" for key, value in plain.items()]
    options = [part for text in texts for part in ("-s", text)]
    return shlex.join(["equipoise", "run", str(recipe), *options, "--out", str(folder)])


def _folder(recipe: library.Recipe, name: str) -> Path:
    return Path("runs") / (name if isinstance(recipe, Mapping) else Path(recipe).stem)
