"""Measurements of other runs, to be shown on a run's page beside its own."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.errors import RunError
from equipoise.evaluation.measures import Measurement, Measures
from equipoise.runs.directory import RunDirectory
from equipoise.runs.reading.history import history, measures_type
from equipoise.runs.reference import at_generation, short_names


def measurements_beside(
    run: RunDirectory, references: Sequence[str]
) -> dict[str, Measurement[Measures]]:
    """Title -> the measurement of another run, for each of `references`: `RUN` for its newest one,
    or `RUN@GENERATION`.

    Raises RunError where the run's own page, or the other run, does not allow it, or where that
    generation was not measured.
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
    """What the run measured at that generation; None: at the last one that it measured.

    Raises RunError where this was not measured.
    """
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
