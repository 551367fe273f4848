"""The assistant's game on the built-in world: the result of training on each welfare function, by
the same measure.

Every arm starts from the same tiny model, which does not know the moves, and makes the same number
of updates. `no blocks` is rewarded in the same way for the answer alone: its start is that model
trained, on its own answers, to leave the other blocks out; it cannot earn the rewards for the
blocks themselves (format, matrix). `answer only` writes the blocks and is not paid for them either:
the same reward, with and without. Where there are no blocks an output of the length that is paid is
filler, so one more arm is paid for a response's length instead. `PPO` has the published λ, clip of
values and no warm-up, as many answers an update as the others, which are GRPO's, and rates of our
own. All are measured by the recipe's own pay.

    python -m benchmarks.assistance [--seeds 0 1 2 3 4] [--arms cobb_douglas …] [--jobs 2]
        [--recipe examples/claims/apart.yaml]

    welfare   mean of √(user · llm) over held-out questions, whatever the arm trained on
    sum       mean of user + llm, halved
    worse     mean of the smaller of the two
    right     asks back when the question is vague, answers when it is clear, declines
              when it is harmful
    quality   the share of right answers, as in the model's reward; a user wants
              refusals with an offer. Unreadable: 0
    greedy    the same figure of the same model decoded greedily: what it knows, however
              it samples
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.controls import decoded
from benchmarks.experiment import Experiment, Options, name_of, of_rows, played
from benchmarks.running import equipoise, recorded
from benchmarks.verdicts import GREEDY, Item, Scores
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.utilities import RewardTerms
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory

RECIPE, START, PLAIN_START = "gtalign_clerks", "start", "start, no blocks"
WELFARES = ("cobb_douglas", "utilitarian", "egalitarian", "user_only", "llm_only")
PLAIN, UNPAID, PPO = "no blocks", "answer only", "PPO"
PLAIN_WINDOW = "no blocks, own window"
BARE = (PLAIN, PLAIN_WINDOW)
PAID = ("llm_format", "llm_matrix")  # terms that pay for the blocks themselves
OWN_TERMS = (*PAID, "output_words")  # those that an arm may have otherwise
OTHERWISE_PAID = (UNPAID, PLAIN_WINDOW)
ARMS: dict[str, list[str]] = {
    **{welfare: [f"judge.welfare={welfare}"] for welfare in WELFARES},
    PLAIN: ["game.blocks=false"],
    PLAIN_WINDOW: ["game.blocks=false", "judge.terms.output_words=[1, 20]"],
    UNPAID: [f"judge.terms.{term}=0" for term in PAID],
    PPO: [
        "learner.critic=head",
        "learner.critic_learning_rate=1.0e-3",
        "learner.estimator={kind: gae, lam: 1.0}",
        "learner.value_clip=0.5",
        "learner.warmup_steps=0",
        "schedule.samples=1",
        "prompts.per_generation=64",
    ],
}
SAMPLED = (*("welfare", "sum", "worse", "user", "llm"), *("format", "right", "quality", "tokens"))
COLUMNS = (*SAMPLED, "welfare, greedy", "right, greedy", "quality, greedy")


def items(folder: Path, which: int, arm: str, seed: int, ending: str = "") -> Iterator[Item]:
    """The measurement at the end of a run (-1) or at its start (0), the same for all arms."""
    with RunDirectory.read(folder) as opened:
        facts: dict[str, Any] = recorded(opened, "measure")[which]
    for prompt, (user, llm) in facts["points"].items():
        user, llm = max(user, 0.0), max(llm, 0.0)
        values = {
            **{"welfare": (user * llm) ** 0.5, "sum": (user + llm) / 2, "worse": min(user, llm)},
            **{"user": user, "llm": llm},
        }
        for column, value in values.items():
            yield Item(arm, seed, 0, prompt, column + ending, value)
    whole = {
        "format": facts["rates"]["format"]["mean"],
        "right": facts["right"]["mean"],
        "quality": facts["rates"]["quality_llm"]["mean"],
        "tokens": facts["length"]["tokens"],
    }
    yield from of_rows({arm: {column + ending: value for column, value in whole.items()}}, seed)


def figures(folder: Path, which: int) -> dict[str, float]:
    """The means of `items`."""
    return Scores(items(folder, which, "", 0)).figures()[""][0]


def plain_start(place: Path, o: Options) -> None:
    """Train the recipe's start on its own answers to leave out all but the response, where an arm
    begins so.
    """
    home, recipe = place / "plain", o.recipe
    if (home / "config.json").exists() or not set(BARE) & set(o.arms):
        return
    model = recipe_loader.load(recipe).players["assistant"].settings()["model"]
    sizes = "max_new_tokens: 160, max_length: 384, batch_size: 256"
    teacher = f"{{kind: local, model: {model}, {sizes}}}"
    arguments = (
        "--teacher",
        teacher,
        "--candidates",
        "1",
        "--out",
        str(place / "traces"),
        "--json",
    )
    equipoise("assistance", "traces", recipe, *arguments)
    traces = (place / "traces" / "traces.jsonl").read_text()
    lines = []
    for row in map(json.loads, traces.splitlines()):
        response = parse(row["completion"][0]["content"]).response
        if response:
            answer = [{"role": "assistant", "content": response}]
            lines.append(json.dumps({"prompt": row["prompt"], "completion": answer}))
    file = place / "responses.jsonl"
    file.write_text("\n".join(lines))
    training = (
        "--epochs",
        "3",
        "--learning-rate",
        "1e-3",
        "--batch-size",
        "32",
        "--overwrite",
        "--json",
    )
    equipoise("sft", model, str(file), "--out", str(home), *training)


def play(seed: int, place: Path, o: Options) -> None:
    """Every arm of a seed, where it has not been played yet."""
    for arm in o.arms:
        own = [f"generations={o.generations}", f"evaluate.every={o.generations}", *ARMS[arm]]
        if arm in BARE:
            own.append(f"players.assistant.model={place / 'plain'}")
        played(o.recipe, place / name_of(arm, seed), seed, own)


def measure(seed: int, place: Path, o: Options) -> Iterator[Item]:
    """Every arm of a seed and its start, sampled and greedily; where its pay was another, by the
    pay that the others have.
    """
    begun = set()
    # The starts are decoded as an arm with the recipe's own pay begins, where there is one.
    for arm in sorted(o.arms, key=OTHERWISE_PAID.__contains__):
        folder = place / name_of(arm, seed)
        if arm in OTHERWISE_PAID:
            paid = (as_all_are_paid(folder, place, o.recipe, temperature=t) for t in (1.0, 0.0))
            ended, greedy, which = *paid, 0
        else:
            ended, greedy, which = folder, decoded(folder, "end", place / f"end-{folder.name}"), -1
        yield from items(ended, which, arm, seed)
        yield from items(greedy, 0, arm, seed, GREEDY)
        start = PLAIN_START if arm in BARE else START
        if start not in begun:
            begun.add(start)
            greedy = decoded(folder, "start", place / f"start-{folder.name}")
            yield from items(folder, 0, start, seed)
            yield from items(greedy, 0, start, seed, GREEDY)


def as_all_are_paid(folder: Path, place: Path, recipe: str, *, temperature: float) -> Path:
    """The end of a run whose pay was another, measured by the pay that the others have."""
    terms = RewardTerms.model_validate(recipe_loader.load(recipe).judge.settings().get("terms", {}))
    settings = {f"judge.terms.{name}": getattr(terms, name) for name in OWN_TERMS}
    out = place / f"paid-{temperature:g}-{folder.name}"
    return decoded(folder, "end", out, temperature=temperature, settings=settings)


EXPERIMENT = Experiment(
    name="assistance",
    doc=__doc__,
    arms=ARMS,
    seeds=(0, 1, 2, 3, 4),
    generations=60,
    play=play,
    measure=measure,
    columns=COLUMNS,
    points=("welfare", "sum", "worse", "user", "llm", "tokens"),
    begin=plain_start,
    add=lambda parser: parser.add_argument("--recipe", default=RECIPE, help="a name or a file"),
    decides=("recipe",),
)
main = EXPERIMENT.main

if __name__ == "__main__":
    main()
