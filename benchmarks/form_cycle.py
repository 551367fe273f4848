"""Why a game: SmolLM2 where preferences go in a circle, by several members of one family.

The recipe `smollm2_cycle`: a majority prefers bullets to titles, titles to plain
sentences, plain sentences to bullets, and the only policy that nobody can exploit draws each with
one chance in three.
Every arm begins with the same taught start (`equipoise warm-start forms`), samples as much, and is
measured by 200 questions about topics of which none is trained on.

    python -m benchmarks.form_cycle --model FOLDER-OR-ID --starts FOLDER [--seeds 1 2 …]
        [--arms dpo optimistic …] [--out DIR] --json FILE

    last          exploitability of the last policy, exact from its shares of forms: 0, by nobody, to ½
    largest       the largest share that any form has; ⅓ at the equilibrium
    went          share of held-out answers in other forms than the start's, of all together
    went at most  the same of training answers, at the generation that is farthest from the first
    relevance     of held-out answers, 0 to 1

`played …` are the shares of each generation's training answers, which the picture follows; `start`
is the start itself, measured alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.experiment import Experiment, Options, name_of
from benchmarks.taught_starts import add_options, need_start, taught
from benchmarks.verdicts import Item
from equipoise.answer import answer_of
from equipoise.api.warm_start import WarmStart
from equipoise.environments.forms.answer_forms import FORMS, NONE, exploitability, form_of
from equipoise.runs.directory import RunDirectory
from equipoise.types import Match

POLICY, START = "policy", "start"
ALL = (*FORMS, NONE)
STEP = 0.7  # a squared loss's target is 1/(2η) nats, an optimistic one's twice as much
ARMS: dict[str, list[str]] = {
    "dpo": ["loss={kind: dpo, reference: previous, beta: 0.5}"],
    "ipo": [f"loss={{kind: ipo, reference: previous, tau: {STEP}}}"],
    "mnpo, one": [f"loss={{kind: mnpo, target: constant, eta: {STEP}, weights: [1], ratio: 0}}"],
    "mnpo, two": [f"loss={{kind: mnpo, target: constant, eta: {STEP}, weights: [1, 1], ratio: 0}}"],
    "mnpo, three": [
        f"loss={{kind: mnpo, target: constant, eta: {STEP}, weights: [1, 1, 1], ratio: 0}}"
    ],
    "optimistic": [],
    "extragradient": [f"loss={{kind: extragradient, target: constant, eta: {STEP}}}"],
}
COLUMNS = ("last", "largest", "went", "went at most", "relevance")
COLOURS = ("#c0392b", "#1f6fb2", "#3a7d44", "#8e5ea2", "#b7791f", "#444444", "#17888f")


def begin(place: Path, o: Options) -> None:
    """Teach the start, or read the one that was taught; ends where a gate is not met."""
    need_start(WarmStart.build("forms"), o)


def common(arm: str, place: Path, o: Options) -> list[str]:
    """The model and the start that all arms share."""
    start = taught(WarmStart.build("forms"), o)
    return [f"policy.model={o.model}", f"policy.adapter={start.adapters[POLICY].resolve()}"]


def forms_of(matches: list[Match]) -> list[tuple[str, str]]:
    """(prompt, form) of every answer."""
    rows = []
    for match in matches:
        rows += [(match.prompt, form_of(answer_of(turn.move).text)) for turn in match.turns]
    return rows


def shares_of(forms: list[tuple[str, str]]) -> np.ndarray:
    """[F]: the share of each of the three forms, and of none."""
    names = [form for _, form in forms]
    return np.array([names.count(form) / len(names) for form in ALL])


def distance(first_F: np.ndarray, second_F: np.ndarray) -> float:
    """The share of answers that must change form to get from one policy to the other."""
    return float(np.abs(first_F - second_F).sum() / 2)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """The start and the end of every arm of a seed, and the way between."""
    for arm in o.arms:
        with RunDirectory.read(place / name_of(arm, seed)) as run:
            last = run.config.generations
            played = list(run.ledger.matches("train"))
            held_out = [
                match
                for match in run.ledger.matches("held_out")
                if len(set(match.seats.values())) == 1
            ]
            judgements = run.ledger.judgements_of(match.id for match in held_out)
        path_GF = []
        for t in range(last):
            path_GF.append(shares_of(forms_of([m for m in played if m.generation == t])))
            for form, share in zip(ALL, path_GF[-1], strict=True):
                yield Item(arm, seed, t, "", f"played {form}", float(share))
        farthest = max(distance(share_F, path_GF[0]) for share_F in path_GF)
        yield Item(arm, seed, last, "", "went at most", farthest)
        answered = {
            t: [m for m in held_out if {p.generation for p in m.seats.values()} == {t}]
            for t in (0, last)
        }
        first_F = shares_of(forms_of(answered[0]))
        for t, name in ((0, START), (last, arm)):
            if name == START and arm != o.arms[0]:
                continue
            forms = forms_of(answered[t])
            share_F = shares_of(forms)
            yield Item(name, seed, t, "", "last", exploitability(share_F))
            yield Item(name, seed, t, "", "largest", float(share_F[:-1].max()))
            yield Item(name, seed, t, "", "went", distance(share_F, first_F))
            for prompt, form in forms:
                for each in ALL:
                    yield Item(name, seed, t, prompt, each, float(form == each))
            for match in answered[t]:
                for seat in match.seats:
                    score = judgements[match.id].score(seat, "score")
                    if score is not None:
                        yield Item(name, seed, t, match.prompt, "relevance", float(score))


EXPERIMENT = Experiment(
    name="form_cycle",
    doc=__doc__,
    arms=ARMS,
    seeds=(1, 2, 3, 4, 5, 6),
    generations=10,
    recipe="smollm2_cycle",
    begin=begin,
    common=common,
    measure=measure,
    columns=COLUMNS,
    points=("last",),
    add=add_options,
    decides=("model",),
    beside={arm: "dpo" for arm in ARMS if arm != "dpo"},
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
