"""GTAlign on a real model: the welfare of its answers, and whether a matrix steers them.

The recipe `smollm2_gtalign`: to everyday requests, harmful ones, clear ones and vague ones, the
model may answer, decline or ask back. Every arm begins with the same taught start
(`equipoise warm-start assistance`), samples as much, and is measured by 120 requests about places
of which none is trained on.

    python -m benchmarks.real_welfare --model FOLDER-OR-ID --starts FOLDER [--seeds 1 2 …]
        [--arms product "user alone"] [--blocks 4] [--out DIR] --json FILE

    welfare       √(user · model) of each held-out answer, whatever was trained
    user, model   the worth to either side
    right         the quality to the model: declined, asked back, or answered to the point
    words         of the response

The arms are `product`, which is paid the welfare, and `user alone`, the user's worth; `start` is the
start itself. Arms are trained without blocks. With `--blocks`, of a start that learned them,
`product`'s last weights are asked for blocks and steered as they are served: the matrix is edited,
the best cell chosen, and the answer goes on from there.

    blocks        share of outputs in four blocks
    asks          share of answers that ask something, of outputs whose matrix can be read: in the
                  arm `equal costs`, where every move costs 5 on either side, and in `dear
                  questions`, where asking alone does
    follows       share of those answers that do what the chosen cell says
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path

from benchmarks import taught_starts
from benchmarks.controls import newest_weights
from benchmarks.experiment import Experiment, Options, name_of
from benchmarks.taught_starts import need_start, taught
from benchmarks.verdicts import Item
from equipoise import seeds
from equipoise.api.warm_start import WarmStart
from equipoise.environments.assistance.assistance_start import follows, with_blocks
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.game import ASSISTANT
from equipoise.environments.assistance.responses import response_action
from equipoise.environments.assistance.steering import Steering
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.players.local_actor import LocalActor
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt, View

START, PRODUCT = "start", "product"
ARMS: dict[str, list[str]] = {PRODUCT: [], "user alone": ["judge.welfare=user_only"]}
COST = 5.0  # as much as the best cell of a taught matrix is worth to a side
COSTS = {
    "equal costs": {"AQ": COST, "CQ": COST, "DA": COST},
    "dear questions": {"AQ": COST, "CQ": COST, "DA": 0.0},
}
COLUMNS = ("welfare", "user", "model", "right", "words", "blocks", "asks", "follows")
BLOCKS = {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 220, "max_length": 320}


def start_of(o: Options) -> WarmStart:
    """The start, with blocks where its answers are to be steered."""
    return WarmStart.build({"kind": "assistance", "blocks": o.blocks})


def begin(place: Path, o: Options) -> None:
    """Teach the start, or read the one that was taught; ends where a gate is not met."""
    need_start(start_of(o), o)


def common(arm: str, place: Path, o: Options) -> list[str]:
    """The model and the start that all arms share, measured at the end alone."""
    start = taught(start_of(o), o)
    adapter = start.adapters[ASSISTANT].resolve()
    return [
        f"assistant.model={o.model}",
        f"assistant.adapter={adapter}",
        f"evaluate.every={o.generations}",
    ]


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """The start and the end of every arm of a seed, and the steering of the first arm's end."""
    for arm in o.arms:
        folder = place / name_of(arm, seed)
        with RunDirectory.read(folder) as run:
            last = run.config.generations
            matches = list(run.ledger.matches("held_out"))
            judgements = run.ledger.judgements_of(match.id for match in matches)
            prompts = run.config.prompts.load().held_out or []
            player = run.config.players[ASSISTANT]
        for match in matches:
            generation = match.seats[ASSISTANT].generation
            if generation not in (0, last) or (not generation and arm != o.arms[0]):
                continue
            scores = judgements[match.id].utilities(ASSISTANT)
            if "user" in scores:
                name = arm if generation else START
                text = match.turns[-1].move.text
                yield from answer_items(name, seed, generation, match.prompt, scores, text)
        if arm == PRODUCT and o.blocks:
            assert isinstance(player, Local)
            heated = Local.model_validate({**player.model_dump(), **BLOCKS})
            actor = heated.open(newest_weights(folder, ASSISTANT), Resources())
            yield from steered_items(actor, prompts[: o.steered], seed, last)
            actor.close()


def answer_items(
    arm: str, seed: int, generation: int, prompt: str, scores: dict[str, float], text: str
) -> Iterator[Item]:
    """One answer's figures."""
    user, model = max(scores["user"], 0.0), max(scores["llm"], 0.0)
    figures = {
        "welfare": sqrt(user * model),
        "user": user,
        "model": model,
        "right": scores.get("quality_llm", 0.0),
        "words": float(len(text.split())),
    }
    for column, value in figures.items():
        yield Item(arm, seed, generation, prompt, column, value)


def steered_items(
    actor: LocalActor, prompts: Sequence[Prompt], seed: int, generation: int
) -> Iterator[Item]:
    """What the model answers once its matrix has these costs."""
    views = [View(with_blocks(prompt)) for prompt in prompts]
    own_seeds = [seeds.child(seed, "steered", row) for row in range(len(views))]
    outputs = [parse(move.text) for move in actor.act(views, own_seeds)]
    for prompt, output in zip(prompts, outputs, strict=True):
        yield Item(PRODUCT, seed, generation, prompt.id, "blocks", float(output.well_formed))
    for arm, costs in COSTS.items():
        steering = Steering.model_validate(
            {"pricing": {"kind": "costs", "user": costs, "llm": costs}, "question": "written"}
            | {"by": "sum", "level": True}
        )
        rows, begun, cells = [], [], []
        for row, output in enumerate(outputs):
            if output.matrix is None:
                continue
            choice = steering.choose(output.matrix, output.thinking, row)
            if choice is not None:
                rows.append(row)
                begun.append(steering.continuation(output.text, choice))
                cells.append(choice.cell)
        answers = actor.continued([views[row] for row in rows], begun, [own_seeds[n] for n in rows])
        for row, text, cell in zip(rows, answers, cells, strict=True):
            asks = response_action(parse(text).response or "") != "DA"
            identity = prompts[row].id
            yield Item(arm, seed, generation, identity, "asks", float(asks))
            yield Item(arm, seed, generation, identity, "follows", float(follows(text, cell)))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the model, where its start is kept, and how many requests are steered."""
    taught_starts.add_options(parser)
    parser.add_argument("--blocks", type=int, default=0, help="of the start; 0: nothing is steered")
    parser.add_argument("--steered", type=int, default=36, help="held-out requests, with --blocks")


EXPERIMENT = Experiment(
    name="real_welfare",
    doc=__doc__,
    arms=ARMS,
    seeds=(1, 2, 3, 4),
    generations=12,
    recipe="smollm2_gtalign",
    begin=begin,
    common=common,
    measure=measure,
    columns=COLUMNS,
    points=("words",),
    add=add_options,
    decides=("model", "blocks", "steered"),
    beside={PRODUCT: START, "user alone": PRODUCT, "dear questions": "equal costs"},
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
