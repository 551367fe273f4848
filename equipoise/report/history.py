"""A run's measurements as pages show them, with the records beside them and other runs'."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from equipoise.errors import ConfigError, RunError
from equipoise.evaluation.measures import (
    History,
    Measurement,
    Measures,
    Records,
    Sample,
    StageRecord,
)
from equipoise.matches.roles import Roles
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, Prompt

SAMPLE = 5_000  # matches that are read; some seconds where many judges vote


def history(
    run: RunDirectory, beside: Mapping[str, Measurement[Measures]] | None = None
) -> History[Measures]:
    """All measurements; `beside` as in `History`. RunError for one of another version."""
    config = run.config
    kind = measures_type(run)
    measurements = []
    for stage in run.ledger.stages("measure"):
        measurements.append(Measurement(stage.generation, kind.read(stage.facts)))
    schedule = config.schedule
    return History(
        learners=tuple(config.measured),
        measurements=tuple(measurements),
        game=config.game,
        judge=config.measuring_judge.name,
        utility=config.utility,
        rating_unit=config.league_ratings.kind.replace("_", " "),
        roles=schedule.roles if isinstance(schedule, Roles) else {},
        beside=beside or {},
        kind=kind,
        added=tuple(part.quantity for part in config.measures),
        learn=bool(config.learning),
    )


def measures_type(run: RunDirectory) -> type[Measures]:
    """The record that the run's evaluation makes of a measurement."""
    return run.config.evaluate.measures_in(run.config.game)


def records(run: RunDirectory, most: int = SAMPLE) -> Records:
    """The run's finished stages, a sample of about `most` matches, and their prompts."""
    matches = sample(run, most)
    asked_prompts = prompts(run, {match.prompt for match in matches.matches})
    return Records(stage_records(run), matches, asked_prompts)


def stage_records(run: RunDirectory) -> list[StageRecord]:
    """The run's finished stages."""
    return [
        StageRecord(key, generation, stage, facts)
        for key, generation, stage, facts, _ in run.ledger.stages()
    ]


def prompts(run: RunDirectory, ids: Collection[str]) -> dict[str, Prompt]:
    """The prompts of these ids."""
    every = run.ledger.records(Prompt, "SELECT record FROM prompts")
    return {prompt.id: prompt for prompt in every if prompt.id in ids}


def sample(run: RunDirectory, most: int = SAMPLE) -> Sample:
    """About `most` matches with judgements, by ids (hashes) below a bound: a random sample."""
    total = run.ledger.counts()["matches"]
    # "g" is above every hexadecimal id.
    bound = "g" if total <= most else f"{int(most / total * 16**12):012x}"
    query = "SELECT record FROM matches WHERE id < ? ORDER BY rowid"
    matches = list(run.ledger.records(Match, query, (bound,)))
    known = {match.id for match in matches}
    query = "SELECT record FROM judgements WHERE match < ? ORDER BY rowid"
    judgements = run.ledger.records(Judgement, query, (bound,))
    return Sample(
        matches,
        [judgement for judgement in judgements if judgement.match in known],
        max(total, len(matches)),
    )


def measurements_beside(
    run: RunDirectory, references: Sequence[str]
) -> dict[str, Measurement[Measures]]:
    """Title -> measurement of another run, `RUN` for its newest one or `RUN@GENERATION`.

    Raises RunError where either run does not allow it, or did not measure that generation.
    """
    if not references:
        return {}
    measurement_of(run).measures.check_beside(run.folder.name)
    named = [at_generation(reference) for reference in references]
    titles = short_names([folder for folder, _ in named])
    measurements = {}
    for title, (folder, generation) in zip(titles, named, strict=True):
        with RunDirectory.read(folder) as other:
            if measures_type(other) is not measures_type(run):
                raise RunError(
                    f"{folder.name}: is measured by '{other.config.evaluate.kind}', and "
                    f"{run.folder.name} by '{run.config.evaluate.kind}'; only runs with the "
                    "same measures can be shown beside each other"
                )
            measurement = measurement_of(other, generation)
        measurement.measures.check_beside(title)
        measurements[f"{title}@{measurement.generation}"] = measurement
    return measurements


def measurement_of(run: RunDirectory, generation: int | None = None) -> Measurement[Measures]:
    """The measurement at that generation, None: the last. Raises RunError without one."""
    measurements = {m.generation: m for m in history(run).measurements}
    if not measurements:
        raise RunError(
            f"{run.folder}: nothing has been measured yet; `equipoise resume {run.folder}`"
        )
    if generation is None:
        return measurements[max(measurements)]
    if generation not in measurements:
        raise RunError(
            f"{run.folder}: generation {generation} was not measured; measured are "
            f"{', '.join(map(str, measurements))}"
        )
    return measurements[generation]


def at_generation(
    text: str, generation: int | None = None, option: str = ""
) -> tuple[Path, int | None]:
    """The folder and the generation of `RUN` or `RUN@3`, None where none is named.

    Args: generation: what the option `option` says. A folder whose own name ends in @3 is taken as
    it is. Raises ConfigError where both name a generation.
    """
    folder, at, number = text.rpartition("@")
    if not at or not number.isdecimal() or Path(text).is_dir():
        return Path(text), generation
    if generation is not None:
        raise ConfigError(
            f"{option} {generation}: {text} already names a generation; leave one of them out"
        )
    return Path(folder), int(number)


def short_names(folders: Sequence[Path]) -> list[str]:
    """Names of runs' folders, or whole paths where different ones share a name."""
    paths = {folder: folder.resolve() for folder in folders}
    names = []
    for folder in folders:
        path = paths[folder]
        ambiguous = any(p != path and p.name == path.name for p in paths.values())
        names.append(str(folder) if ambiguous else path.name)
    return names
