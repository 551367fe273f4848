"""The tables of docs/results.md, docs/games.md, docs/planted_bugs.md and the README, made
from the raw results.

    python -m benchmarks.tables            write them
    python -m benchmarks.tables --check    exit with 1 where a page differs

A row comes from the file of its benchmark in `benchmarks/results/`. Where the raw
figures were not kept it is what `earlier.json` says was printed, with that day's date
and with what is known of its control. The order is that of `earlier.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.comparing import bounded, paired
from benchmarks.kuhn_table import COLUMNS, kuhn_claim, kuhn_rows
from equipoise.payoffs.intervals import Interval, fitted_exponent, over_seeds

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
Results = Mapping[str, Any]
# Everything between a page's two marks is this command's.
MARKS = re.compile(
    r"(?<=<!-- made by python -m benchmarks\.tables -->\n).*?(?=<!-- end -->)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Row:
    """A claim with its figure and the figure that could refute it.

    `short` is the figure for the README, with `short_what`; "" for a row that is not a
    headline.
    """

    what: str
    figure: str
    control: str
    command: str
    date: str
    short: str = ""
    short_what: str = ""

    def cells(self) -> tuple[str, ...]:
        """As docs/results.md shows it."""
        return (self.what, self.figure, self.control, self.date, f"`{self.command}`")

    def headline(self) -> tuple[str, ...]:
        """As the README shows it."""
        return (self.short_what or self.what, self.short, f"`{self.command}`")


def quickstart(results: Results) -> Row:
    """Sampled and greedy, at the start and at the end."""
    by_seed = list(results["figures"].values())

    def average(column: str) -> float:
        return float(np.mean([seed["all"][column] for seed in by_seed]))

    def mean(column: str, kind: str = "all") -> str:
        interval = bounded([seed[kind][column] for seed in by_seed])
        told = interval.low < interval.high  # a start is the same in every seed
        return interval.percent() if told else percent(interval.mean)

    def gain(ending: str, kind: str = "all") -> str:
        columns = [
            [seed[kind][when + ending] for seed in by_seed] for when in ("end", "start")
        ]
        return points(columns[0], columns[1])

    return Row(
        "the quickstart: a tiny beginner plays its own past, three generations, "
        f"{seeds_text(results)}",
        f"right answers {mean('start')} → {mean('end')}, sampled at temperature 1",
        f"greedily {mean('start, greedy')} → {mean('end, greedy')}, "
        f"{gain(', greedy')}: sums {gain(', greedy', 'sum')}, harmful questions "
        f"{gain(', greedy', 'harmful')}",
        "python -m benchmarks.quickstart",
        results["date"],
        f"{percent(average('start, greedy'))} → {mean('end, greedy')}",
        f"the quickstart, {seeds_text(results)}: right answers, greedy",
    )


def cyclic_preferences(results: Results) -> Row:
    """The cyclic games by their size, beside the uniform policy."""
    figures = results["figures"]
    gap_SGM2 = np.array(figures["gap_FSGM2"])[figures["families"].index("cyclic")]
    labels = figures["rows"]
    average_SGM = gap_SGM2[..., 1]
    columns = {
        "MNPO ½ ½": "MNPO, λ = ½ ½",
        "INPO": "INPO, τ/η = 0.05",
        "DPO online": "DPO, online",
        "uniform": "the uniform policy",
    }
    by_size, against = [], []
    uniform_SG = average_SGM[..., labels.index("the uniform policy")]
    for size, average_GM, uniform_G in zip(
        figures["sizes"], average_SGM, uniform_SG, strict=True
    ):
        means = [
            f"{name} {average_GM[:, labels.index(label)].mean():.3f}"
            for name, label in columns.items()
        ]
        by_size.append(f"{size} actions: {', '.join(means[:-1])}")
        mnpo = paired(average_GM[:, labels.index("MNPO, λ = ½ ½")], uniform_G)
        against.append(f"{size} actions: {means[-1]}, MNPO − uniform {mnpo.text()}")
    games = average_SGM.shape[1]
    updates = results["arguments"]["updates"]
    return Row(
        f"duality gap of the average policy where preferences cycle, {games} games of "
        f"each size, {updates} exact updates",
        "; ".join(by_size),
        "; ".join(against)
        + ". These intervals are not corrected for the number of comparisons",
        "python -m benchmarks.cyclic_preferences",
        results["date"],
    )


def instructions(results: Results) -> Row:
    """Every arm beside the start, greedily, and what the answers are otherwise worth."""
    from benchmarks import instructions as measuring

    rows = results["rows"]
    start = rows[measuring.START]
    arms = list(dict.fromkeys(key.rsplit("-", 1)[0] for key in rows))
    arms.remove(measuring.START)
    seeds: set[str] = set()
    figures, qualities, short = [], [], []
    for arm in arms:
        cells = [rows[key] for key in rows if measuring.of(key, arm)]
        seeds |= {key.rsplit("-", 1)[1] for key in rows if measuring.of(key, arm)}
        texts = []
        for name in start:
            by_seed = [cell[name] for cell in cells if name in cell]
            if not by_seed:
                continue
            every = [row for seed in by_seed for row in seed]
            before = measuring.mean(start[name], "strict")
            after = measuring.mean(every, "strict")
            gain = measuring.difference(by_seed, start[name], "strict")
            runs = "one seed" if len(by_seed) == 1 else f"{len(by_seed)} seeds"
            where = f"{name} ({runs}, {len(start[name])} prompts) "
            set_name = "" if name == "test" else where
            change = f"{set_name}{percent(before.mean)} → {percent(after.mean)}"
            texts.append(f"{change}, {gain} points")
            if name == "test":
                relevance = np.mean([row["relevance"] for row in every])
                repeated = np.mean([row["repetition"] for row in every])
                label = arm.upper()
                qualities.append(f"{label} {relevance:.2f}, {repeated:.2f}")
                short.append(f"{label} {percent(after.mean)} ({relevance:.2f})")
        figures.append(f"{arm.upper()} {'; '.join(texts)}")
    worth = [
        np.mean([row[name] for row in start["test"]])
        for name in ("relevance", "repetition")
    ]
    amount = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
    prompts = len(start["test"])
    what = f"instructions followed, SmolLM2-135M-Instruct with LoRA, {amount}, greedy"
    return Row(
        f"{what}, {prompts} new prompts",
        "; ".join(figures),
        "all greedy. Relevance to the question and share of repeated 4-grams: start "
        f"{worth[0]:.2f}, {worth[1]:.2f}; {'; '.join(qualities)}",
        "python -m benchmarks.instructions",
        results["date"],
        f"start {percent(measuring.mean(start['test'], 'strict').mean)} (relevance "
        f"{worth[0]:.2f}); {', '.join(short)}",
        what,
    )


def wildguard(results: Results) -> Row:
    """Sampled and greedy, beside what the labels allow."""
    by_seed = results["figures"]

    def mean(row: str, column: str) -> str:
        return bounded([seed[row][column] for seed in by_seed]).percent()

    def average(row: str) -> float:
        return float(np.mean([seed[row]["greedy"] for seed in by_seed]))

    methods = [row for row in by_seed[0] if "win_rate" in by_seed[0][row]]
    sampled = [f"{row.upper()} {mean(row, 'score')}" for row in methods]
    greedy = [f"{row.upper()} {mean(row, 'greedy')}" for row in methods]
    labels = ("SFT on the labels", "bag of words", "commoner label")
    gains = [
        f"{row.upper()} − {other.upper()}, greedy "
        + points(*([seed[arm]["greedy"] for seed in by_seed] for arm in (row, other)))
        for row, other in itertools.combinations(methods, 2)
    ]
    return Row(
        "real prompts: WildGuard, 1.2 M parameters from nothing, three generations, "
        f"{seeds_text(results)} that no setting was chosen on",
        f"right decisions {mean('sft start', 'score')} → {', '.join(sampled)}; greedily "
        f"{mean('sft start', 'greedy')} → {', '.join(greedy)}",
        "; ".join([*gains, *(f"{row} {mean(row, 'greedy')}" for row in labels)]),
        "python -m benchmarks.wildguard",
        results["date"],
        f"{percent(average('sft start'))} → {', '.join(greedy)}; bag of words "
        f"{percent(average('bag of words'))}",
        f"WildGuard's prompts, {seeds_text(results)}: right decisions, greedy",
    )


LEAGUES = "the league's"
LONGER = "best_response_400"


def longer() -> str:
    """What a fresh adversary of more updates gets; "" where none was trained."""
    file = RESULTS / f"{LONGER}.json"
    if not file.is_file():
        return ""
    results = json.loads(file.read_text())
    arms = Arms(results["figures"])
    gets = ", ".join(
        f"`{arm}` {percent(arms.mean(arm, 'best response'))}" for arm in arms.rows
    )
    updates = results["arguments"]["updates"]
    return f"; {updates} updates against it: {gets} ({seeds_text(results)})"


@dataclass(frozen=True)
class Arms:
    """The figures of arms, a row of columns for each seed, as text."""

    rows: Mapping[str, Sequence[Mapping[str, float]]]

    def column(self, arm: str, name: str) -> list[float]:
        """A value for each seed."""
        return [row[name] for row in self.rows[arm]]

    def mean(self, arm: str, name: str) -> float:
        """Over the seeds."""
        return float(np.mean(self.column(arm, name)))

    def share(self, arm: str, name: str) -> str:
        """`65.1 % (60.0 to 70.2)`; without an interval where the seeds are all alike."""
        interval = bounded(self.column(arm, name))
        alike = interval.low == interval.high
        return percent(interval.mean) if alike else interval.percent()

    def number(self, arm: str, name: str) -> str:
        """`0.742 (0.712 to 0.773)`."""
        return bounded(self.column(arm, name), high=np.inf).text()

    def each(self, name: str, *left_out: str) -> str:
        """The shares of all arms but some, and but those that a seed lacks."""
        seeds = max(map(len, self.rows.values()))
        arms = [
            arm
            for arm, rows in self.rows.items()
            if arm not in left_out and len(rows) == seeds
        ]
        return ", ".join(f"`{arm}` {self.share(arm, name)}" for arm in arms)

    def gain(self, first: str, second: str, name: str) -> str:
        """By how many points the first arm ends above the second."""
        return points(self.column(first, name), self.column(second, name))


def best_response(results: Results) -> Row:
    """Both defenders' best responses, beside what else was tried against them."""
    arms = Arms(results["figures"])
    return Row(
        "what still beats a tiny clerk's defender: a fresh adversary, "
        f"{results['arguments']['updates']} updates against it, frozen; "
        f"{seeds_text(results)}",
        f"attack success {arms.each('best response')}",
        f"before it learned {arms.each('at its start')}; the most that the run's own "
        f"adversaries had {arms.each(LEAGUES)}; over-refusal {arms.each('over-refusal')}",
        "python -m benchmarks.best_response",
        results["date"],
    )


def pool(results: Results) -> Row:
    """Greedily and sampled, like with like: mean with mean, best with best."""
    arms = Arms(results["figures"])
    mean, best = "mean after, greedy", "best after, greedy"
    start = percent(arms.mean("sparta", "mean before, greedy"))
    best_start = percent(arms.mean("sparta", "best before, greedy"))
    base = percent(arms.mean("sparta", "base, greedy"))
    generations = results["arguments"].get("generations", 3)
    return Row(
        f"SPARTA, six tiny clerks on one base, {generations} generations, "
        f"{seeds_text(results)}: right answers",
        f"pool's mean, greedily, {start} → {arms.each(mean)}",
        f"base without adapters, greedily {base}. sparta − alone, greedily "
        f"{arms.gain('sparta', 'alone', mean)}; their best members {best_start} → "
        f"{arms.share('sparta', best)} and {arms.share('alone', best)}; sampled, mean "
        f"{arms.share('sparta', 'mean after')} and {arms.share('alone', 'mean after')}",
        "python -m benchmarks.pool",
        results["date"],
    )


def red_team(results: Results) -> Row:
    """The worst of all adversaries, greedily and sampled."""
    arms = Arms(results["figures"])
    worst = arms.each("worst, greedy")
    seeds = seeds_text(results)
    return Row(
        f"GPO, a tiny clerk attacked by a tiny adversary, {seeds}",
        f"worst attack success of any adversary, defenders decoded greedily: {worst}",
        f"sampled: {arms.each('worst')}{longer()}; of an adversary trained against the finished "
        f"defender {arms.each('best response')}; over-refusal {arms.each('over-refusal')}",
        "python -m benchmarks.red_team",
        results["date"],
        arms.each("worst, greedy", "start") + longer(),
        f"GPO, built-in world, {seeds}: worst attack success, greedy",
    )


def assistance(results: Results) -> Row:
    """Right moves and welfare, greedily and sampled."""
    arms = Arms(results["figures"])
    ours, start, right = "cobb_douglas", "start", "right, greedy"
    left_out = (ours, start, "start, no blocks")
    welfare = [
        f"{way}{percent(arms.mean(start, f'right{ending}'))} → "
        f"{arms.share(ours, f'right{ending}')} of moves right, welfare "
        f"{arms.mean(start, f'welfare{ending}'):.3f} → "
        f"{arms.number(ours, f'welfare{ending}')}"
        for way, ending in (("greedily ", ", greedy"), ("sampled ", ""))
    ]
    seeds = seeds_text(results)
    what = f"GTAlign (by GRPO), a tiny clerk that writes four blocks, {seeds}"
    others = [
        f"`{arm}` {arms.number(arm, 'welfare, greedy')}"
        for arm in arms.rows
        if arm not in left_out
    ]
    return Row(
        what,
        welfare[0],
        f"{welfare[1]}; greedily, other arms: moves right {arms.each(right, *left_out)}; "
        f"welfare {', '.join(others)}",
        "python -m benchmarks.assistance",
        results["date"],
        f"{percent(arms.mean(start, right))} → {arms.share(ours, right)}",
        f"GTAlign, built-in world, {seeds}: right moves, greedy",
    )


def nash_gap(results: Results) -> Row:
    """The fitted exponents of the plain algorithm's averages, both players at once."""
    figures = results["figures"]
    gap_GR2 = np.array(figures["gap_GRV2"])[:, :, 0]

    def exponents(which: int) -> Interval:
        fits = [fitted_exponent(figures["rounds"], g[:, which]) for g in gap_GR2]
        return over_seeds([slope for slope, *_ in fits])

    return Row(
        f"duality gap of GPO's averaged policies against T, {len(gap_GR2)} random games",
        f"exponent {exponents(0).text()}",
        "exact games, nothing is learned from samples; of the last policies "
        f"{exponents(1).text()}",
        "python -m benchmarks.nash_gap",
        results["date"],
    )


def steering(results: Results) -> Row:
    """Clarifying questions, steered and not."""
    figures = results["figures"]
    asked = {arm: percent(said["said"]["CQ"]) for arm, said in figures.items()}
    return Row(
        f"steering what is served, {results['arguments']['prompts']} questions",
        f"clarifying questions {asked['per_token']} where the user pays per token, "
        f"{asked['user_effort']} where being asked costs the user",
        f"the matrix as written: {asked['none']}; with costs that are the same for every "
        f"action {asked['constant llm −2']}",
        "python -m benchmarks.steering",
        results["date"],
    )


def serving(results: Results) -> Row:
    """Replies under load."""
    figures = results["figures"]
    clients, seconds = results["arguments"]["clients"], figures["seconds"]
    return Row(
        f"{clients} clients for {seconds:.0f} s at `equipoise serve`, two cores shared "
        "with them",
        f"{figures['answered']:,} replies, {figures['dropped']} dropped, "
        f"{figures['different']} other than the model's answer alone; first byte within "
        f"{np.median(figures['first']):.2f} s for half of them",
        "every reply beside what the model answers alone at the same seed",
        "python -m benchmarks.serving",
        results["date"],
    )


def diversity(results: Results) -> Row:
    """The most texts that were stored."""
    most = max(timing["stored"] for timing in results["figures"])
    last = {t["name"]: t for t in results["figures"] if t["stored"] == most}
    ratios = [
        f"{name} {timing['direct'] / timing['ours']:,.0f} ×"
        for name, timing in last.items()
    ]
    differ = max(timing["differ"] for timing in last.values())
    return Row(
        f"64 attacks against {most:,} stored texts, beside the direct computation",
        ", ".join(ratios),
        f"equal to {differ:.0e}",
        "python -m benchmarks.diversity",
        results["date"],
    )


def ledger(results: Results) -> Row:
    """Writing, and `status` on a long run."""
    figures = results["figures"]
    return Row(
        f"ledger; `status` on {figures['total']:,} records",
        f"{figures['ours']:,.0f} records/s; {figures['status']:.1f} s",
        f"{figures['ours'] / figures['bare']:.2f} of bare SQLite",
        f"python -m benchmarks.ledger --records {results['arguments']['records']}",
        results["date"],
    )


def policy_gradient(results: Results) -> Row:
    """GRPO beside trl's, at two shapes."""
    figures = results["figures"]
    return Row(
        "policy gradients beside trl 1.16's `GRPOTrainer`, CPU, the built-in model (0.7 M "
        "parameters)",
        f"{figures['speed_ratio']:.1f} × the samples per second, "
        f"{figures['memory_ratio']:.2f} × the memory",
        f"at SmolLM2's shape: {at_smollm2('policy_gradient')}",
        "python -m benchmarks.policy_gradient speed",
        results["date"],
    )


def preference_training(results: Results) -> Row:
    """DPO beside trl's, at two shapes."""
    figures = results["figures"]
    parameters = figures["runs"]["ours"][0]["parameters"] / 1e6
    ratios = f"{figures['speed_ratio']:.1f} ×", f"{figures['memory_ratio']:.2f} ×"
    other = at_smollm2("preference_training")
    what = "preference training beside trl's `DPOTrainer`, CPU"
    return Row(
        f"{what}, {parameters:.1f} M parameters of which most are a vocabulary of 32 k",
        f"{ratios[0]} the tokens per second, {ratios[1]} the memory",
        "a vocabulary this large beside so few layers makes the logits dear, which is where "
        f"the difference lies. At SmolLM2's shape: {other}",
        "python -m benchmarks.preference_training",
        results["date"],
        f"tokens/s {ratios[0]}, memory {ratios[1]} at {parameters:.1f} M parameters; "
        f"{other} at SmolLM2's shape",
        what,
    )


def sampling(results: Results) -> Row:
    """Sampling beside raw `generate`, at two shapes."""
    ratios = [_median(ways) for ways in results["figures"].values()]
    return Row(
        "sampling beside raw `generate`, CPU, a toy shape",
        f"{min(ratios):.1f} to {max(ratios):.1f} ×",
        "a toy's head and choice of tokens weigh more than a pretrained model's. At "
        f"SmolLM2's shape: {at_smollm2('sampling')}",
        "python -m benchmarks.sampling",
        results["date"],
    )


def kuhn(results: Results) -> Row:
    """NashConv of the last policies and of the averages, by whom they met."""
    return Row(*kuhn_claim(results), "python -m benchmarks.kuhn", results["date"])


def seeds_text(results: Results) -> str:
    """`3 seeds`."""
    count = len(results["arguments"]["seeds"])
    return "one seed" if count == 1 else f"{count} seeds"


def percent(share: float) -> str:
    """`41.8 %`."""
    return f"{100 * share:.1f} %"


def points(after: Sequence[float], before: Sequence[float]) -> str:
    """`+4.1 points (1.0 to 7.2)`, paired over the seeds."""
    gain = paired([100 * value for value in after], [100 * value for value in before])
    if np.isnan(gain.low):
        return f"{gain.mean:+.1f} points"
    return f"{gain.mean:+.1f} points ({gain.low:+.1f} to {gain.high:+.1f})"


MADE: dict[str, Callable[[Results], Row]] = {
    "quickstart": quickstart,
    "cyclic_preferences": cyclic_preferences,
    "instructions": instructions,
    "best_response": best_response,
    "kuhn": kuhn,
    "wildguard": wildguard,
    "pool": pool,
    "red_team": red_team,
    "assistance": assistance,
    "nash_gap": nash_gap,
    "steering": steering,
    "serving": serving,
    "diversity": diversity,
    "ledger": ledger,
    "policy_gradient": policy_gradient,
    "preference_training": preference_training,
    "sampling": sampling,
}


def at_smollm2(name: str) -> str:
    """The ratios of a row at SmolLM2's shape, from `NAME_smollm2.json`; "" where they were not
    measured.
    """
    file = RESULTS / f"{name}_smollm2.json"
    if not file.is_file():
        return ""
    results = json.loads(file.read_text())
    figures = results["figures"]
    if "speed_ratio" in figures:
        return f"{figures['speed_ratio']:.1f} ×, {figures['memory_ratio']:.2f} ×"
    return "; ".join(f"{what}: {_median(ways):.2f} ×" for what, ways in figures.items())


def _median(ways: Mapping[str, Sequence[float]]) -> float:
    pairs = zip(ways["ours"], ways["generate"], strict=True)
    return float(np.median([ours / theirs for ours, theirs in pairs]))


def all_rows() -> list[Row]:
    """Every claim in the order of `earlier.json`.

    Raises ValueError for a raw result that no row is made of.
    """
    earlier = json.loads((RESULTS / "earlier.json").read_text())
    rows = []
    for told in earlier["rows"]:
        name = told.pop("name")
        file = RESULTS / f"{name}.json"
        if not file.is_file():
            if ratios := at_smollm2(name):
                told["control"] += f". At SmolLM2's shape: {ratios}"
                if told.get("short"):
                    told["short"] += f"; {ratios} at SmolLM2's shape"
            rows.append(Row(**told))
        elif name in MADE:
            rows.append(MADE[name](json.loads(file.read_text())))
        else:
            raise ValueError(f"{file.name}: benchmarks/tables.py makes no row of it")
    return rows


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as the pages hold it."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def planted_bugs() -> str:
    """How many planted bugs the tests notice, by room."""
    results = json.loads((RESULTS / "mutants.json").read_text())
    verdicts = ("killed", "equivalent", "alive", "not run")
    rooms: dict[str, Mapping[str, int]] = results["rooms"]
    totals = {v: sum(counts.get(v, 0) for counts in rooms.values()) for v in verdicts}
    rows = []
    for room, counts in {**rooms, "all": totals}.items():
        cells = [str(counts.get(verdict, 0)) for verdict in verdicts]
        real = counts.get("killed", 0) + counts.get("alive", 0)
        rate = percent(counts.get("killed", 0) / real) if real else "–"
        rows.append((room, str(sum(counts.values())), *cells, rate))
    table = markdown(("room", "planted", *verdicts, "rate"), rows)
    return f"Measured on {results['date']} at {results['commit']}.\n\n{table}"


def pages() -> dict[Path, str]:
    """Page -> what it should say, from the results as they are.

    Raises ValueError for a page without the two marks.
    """
    rows = all_rows()
    columns = ("what", "figure", "what could refute it", "measured", "command")
    short = [row.headline() for row in rows if row.short]
    poker = json.loads((RESULTS / "kuhn.json").read_text())
    tables = {
        ROOT / "docs" / "results.md": markdown(columns, [row.cells() for row in rows]),
        ROOT / "README.md": markdown(("what", "figure", "command"), short),
        ROOT / "docs" / "games.md": markdown(COLUMNS, kuhn_rows(poker)),
        ROOT / "docs" / "planted_bugs.md": planted_bugs(),
    }
    made = {}
    for page, table in tables.items():
        text = page.read_text()
        if not MARKS.search(text):
            raise ValueError(f"{page.name}: has no place for the table of results")
        made[page] = MARKS.sub(lambda match, table=table: table, text)
    return made


def main() -> None:
    """Write the pages, or say which are not what the results say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for page, text in pages().items():
        if page.read_text() != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(text)
    print(f"{'differ' if check else 'written'}: {', '.join(stale) or 'none'}")
    sys.exit(bool(stale) and check)


if __name__ == "__main__":
    main()
