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

    python -m benchmarks.assistance [--seeds 0 1 2] [--arms cobb_douglas …] [--jobs 2]
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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks import arms
from benchmarks.comparing import bounded
from benchmarks.controls import Decoded, decoded
from benchmarks.running import equipoise, recorded
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
GREEDY = ("welfare, greedy", "right, greedy", "quality, greedy")
COLUMNS = (*SAMPLED, *GREEDY)
SHARES = ("format", "right", "quality", "right, greedy", "quality, greedy")


def figures(folder: Path, which: int) -> dict[str, float]:
    """The measurement at the end of a run (-1) or at its start (0), the same for all arms."""
    with RunDirectory.read(folder) as opened:
        facts: dict[str, Any] = recorded(opened, "measure")[which]
    point_N2 = np.clip(np.array(list(facts["points"].values()), float), 0, None)
    return {
        "welfare": float(np.sqrt(point_N2.prod(1)).mean()),
        "sum": float(point_N2.mean()),
        "worse": float(point_N2.min(1).mean()),
        "user": float(point_N2[:, 0].mean()),
        "llm": float(point_N2[:, 1].mean()),
        "format": facts["rates"]["format"]["mean"],
        "right": facts["right"]["mean"],
        "quality": facts["rates"]["quality_llm"]["mean"],
        "tokens": facts["length"]["tokens"],
    }


def plain_start(place: Path, recipe: str) -> None:
    """The recipe's start, trained on its own answers to leave out all but the response."""
    home = place / "plain"
    if (home / "config.json").exists():
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


def seed_runs(
    seed: int, chosen: list[str], place: Path, generations: int, recipe: str
) -> dict[str, dict[str, float]]:
    """Every arm of a seed."""
    by_arm: dict[str, dict[str, float]] = {}
    for arm in chosen:
        plain = arm in BARE
        own = [*ARMS[arm]]
        if plain:
            own.append(f"players.assistant.model={place / 'plain'}")
        folder = arms.played(
            recipe,
            place / arms.name_of(arm, seed),
            seed,
            [f"generations={generations}", f"evaluate.every={generations}", *own],
        )
        by_arm.setdefault(PLAIN_START if plain else START, figures(folder, 0))
        by_arm[arm] = figures(folder, -1)
        if arm in OTHERWISE_PAID:
            by_arm[arm] = as_all_are_paid(folder, place, recipe, temperature=1.0)
    return by_arm


def as_all_are_paid(
    folder: Path, place: Path, recipe: str, *, temperature: float
) -> dict[str, float]:
    """The end of a run whose pay was another, measured by the pay that the others have."""
    terms = RewardTerms.model_validate(recipe_loader.load(recipe).judge.settings().get("terms", {}))
    settings = {f"judge.terms.{name}": getattr(terms, name) for name in OWN_TERMS}
    out = place / f"paid-{temperature:g}-{folder.name}"
    again = decoded(folder, "end", out, temperature=temperature, settings=settings)
    return figures(again, 0)


def greedy(folder: Path, which: Decoded, place: Path) -> dict[str, float]:
    """The greedy columns of a run's start or end."""
    again = figures(decoded(folder, which, place / f"{which}-{folder.name}"), 0)
    return greedy_columns(again)


def greedy_columns(again: Mapping[str, float]) -> dict[str, float]:
    """The columns of figures that are of greedy answers."""
    return {name: again[name.removesuffix(", greedy")] for name in GREEDY}


def with_greedy(
    by_arm: dict[str, dict[str, float]], seed: int, place: Path, recipe: str
) -> dict[str, dict[str, float]]:
    """A seed's rows with their greedy columns; the starts are decoded once, as an arm with the
    recipe's own pay begins, where there is one.
    """
    learned = [arm for arm in by_arm if arm not in (START, PLAIN_START)]
    for arm in learned:
        folder = place / arms.name_of(arm, seed)
        if arm in OTHERWISE_PAID:
            again = as_all_are_paid(folder, place, recipe, temperature=0.0)
            by_arm[arm] |= greedy_columns(again)
        else:
            by_arm[arm] |= greedy(folder, "end", place)
    bare = [arm for arm in learned if arm in BARE]
    starts = {START: [arm for arm in learned if arm not in bare], PLAIN_START: bare}
    for start, its_arms in starts.items():
        if start in by_arm:
            first = min(its_arms, key=OTHERWISE_PAID.__contains__)
            by_arm[start] |= greedy(place / arms.name_of(first, seed), "start", place)
    return by_arm


def main() -> None:
    """Print the table, and write the figures behind it as JSON with --json."""
    parser = arms.parser(__doc__, ARMS, seeds=[0, 1, 2], generations=60)
    parser.add_argument("--recipe", default=RECIPE, help="the name or the file of one like it")
    o = parser.parse_args()
    by_arm = arms.over_seeds(
        o,
        lambda seed, place: seed_runs(seed, o.arms, place, o.generations, o.recipe),
        lambda seed, place, played: with_greedy(played, seed, place, o.recipe),
        lambda row: "  ".join(f"{name} {row[name]:.3f}" for name in COLUMNS),
        begin=lambda place: plain_start(place, o.recipe) if set(BARE) & set(o.arms) else None,
        recipe=o.recipe,
    )
    arms.show(table(by_arm), verdicts(by_arm))


def table(by_arm: Mapping[str, list[arms.Row]]) -> Table:
    """A row for each arm: mean over seeds with its interval."""
    seeds = len(next(iter(by_arm.values())))
    shown = Table(title=f"{seeds} seeds, mean and 95 % interval")
    for column in ("", *COLUMNS):
        shown.add_column(column, justify="left" if not column else "right")
    order = [START, *ARMS, PLAIN_START]
    for arm in sorted(by_arm, key=order.index):
        cells = [interval_of([row[name] for row in by_arm[arm]], name) for name in COLUMNS]
        shown.add_row(arm, *(cell.replace(" (", "\n(") for cell in cells))
    return shown


def interval_of(values: list[float], column: str) -> str:
    """The mean over seeds as text; points and tokens have no upper bound in every recipe."""
    highest = 1.0 if column in SHARES else np.inf
    return bounded(values, high=highest).text("%" if column in SHARES else "")


def verdicts(by_arm: Mapping[str, list[arms.Row]]) -> list[str]:
    """Whether Cobb–Douglas raises welfare over the start, and which published orderings show."""
    if "cobb_douglas" not in by_arm:
        return []
    rise = arms.difference(by_arm, "cobb_douglas", START, "welfare")
    lines = [f"cobb_douglas raises welfare over the start by {rise}"]
    for column in GREEDY:
        rise = arms.difference(by_arm, "cobb_douglas", START, column)
        lines.append(f"cobb_douglas over the start, {column}: {rise}")
    for other in list(ARMS)[1:]:
        if other not in by_arm:
            continue
        gap = arms.difference(by_arm, "cobb_douglas", other, "welfare")
        shows = "does not show"
        if gap.low > 0:
            shows = "shows"
        elif gap.high < 0:
            shows = "is reversed"
        published = f"; the published ordering {shows}" if other in WELFARES else ""
        lines.append(f"welfare of cobb_douglas over {other}: {gap}{published}")
        gap = arms.difference(by_arm, "cobb_douglas", other, "welfare, greedy")
        lines.append(f"... greedily: {gap}")
    for bare in BARE:
        if {UNPAID, bare} <= by_arm.keys():
            for column in ("quality", "quality, greedy"):
                gap = arms.difference(by_arm, UNPAID, bare, column)
                lines.append(f"right answers ({column}), {UNPAID} over {bare}: {gap}")
    return lines


if __name__ == "__main__":
    main()
