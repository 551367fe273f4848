"""Verdicts, computed from raw results: what a claim's difference is, whether the dose that it needs
was given, and the word that follows.
"""

from __future__ import annotations

import gc
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

from benchmarks.claims import ASKED, CLAIMS, DESIGNED, REAL_MODELS, TABLE_GAMES, TRIALS, Claim, Dose
from benchmarks.comparing import FEW, Word, crossed_difference, word_of
from benchmarks.running import slope_of_logarithms
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.told_apart import crossed, sign_flip

RESULTS = Path(__file__).parent / "results"
GREEDY = ", greedy"
AT = " @ "  # between an arm and the swept settings that it has
ALIKE = 1e-3  # by how much two values differ that rounding alone parts
# Of a judged answer: its utilities, and what it is otherwise worth.
ANSWERED = ("strict", "loose", "all_strict", "all_loose", "relevance", "repetition", "tokens")
ANSWERED += ("cut", "start_logprob", "welfare")
# A verdict on a page, with the claim that it is of, and its difference where one follows.
WORD = r"(shown|refuted|not\s+shown|not\s+tested|equal|fails?)"
SAID = re.compile(
    rf"\*\*{WORD}\*\*(?:<!--([\w.]+)-->)?"
    r"(?:[,:]\s+([+−]?[\d.]+)"
    r"(?:(?:\s+points)?\s+\(([+−]?[\d.]+)\s+to\s+([+−]?[\d.]+)\)|\s+points))?",
    re.I,
)
# … that is in no such form.
OTHERWISE = re.compile(rf"\*+(?![\s)])[^*()]{{0,40}}\b{WORD}\b[^*()]{{0,40}}(?<![\s(])\*+", re.I)

# After figures of a page, where they come from: file, column, and an arm for each, or the arm that it
# exceeds another by: `<!--FILE:COLUMN:ARM;ARM−ARM-->`, with + for spaces.
SOURCE = re.compile(r"<!--(\w+):([^:<>]+):([^<>]+?)-->")
FIGURE = re.compile(
    r"([+−]?\d*\.?\d+)(?:\s+(?:%|points))?(?:\s+\(([+−]?[\d.]+)\s+to\s+([+−]?[\d.]+)\))?"
)

# Name -> claim: those of the table of claims, and those that other pages speak of.
KNOWN = {
    claim.name: claim
    for trial in (TABLE_GAMES | REAL_MODELS | DESIGNED).values()
    for claim in trial.claims
} | CLAIMS


class Item(NamedTuple):
    """A score: of an arm and seed, after so many generations, on a prompt ("": of the whole run),
    under the name of the figure that it belongs to, which ends in ", greedy" where it is.
    """

    arm: str
    seed: int
    generation: int
    prompt: str
    column: str
    value: float


Cells = list[tuple[int, str, float]]


class Scores:
    """Items, by arm and column; of each arm and seed those of the last generation count."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = list(items)
        self._of: dict[tuple[str, str], list[Item]] = {}
        for item in self.items:
            self._of.setdefault((item.arm, item.column), []).append(item)

    @property
    def arms(self) -> list[str]:
        """In the order of the items."""
        return list(dict.fromkeys(arm for arm, _ in self._of))

    def cells(self, arm: str, column: str) -> Cells:
        """(seed, prompt, value) of an arm; "ARM:COLUMN" is another column. Raises ValueError where
        there is none.
        """
        name, _, other = arm.partition(":")
        own = self._of.get((name, other or column))
        if not own:
            raise ValueError(f"{name} has no {other or column}")
        last: dict[int, int] = {}
        for item in own:
            last[item.seed] = max(item.generation, last.get(item.seed, 0))
        return [(i.seed, i.prompt, i.value) for i in own if i.generation == last[i.seed]]

    def mean(self, arm: str, column: str) -> Interval:
        """Over seeds and prompts."""
        return crossed(self.cells(arm, column))

    def difference(self, first: str, second: str, column: str) -> Interval:
        """Arm `first` less arm `second`, paired by seed, and by prompt where both have them; less a
        number "=0.5".
        """
        if second.startswith("="):
            number = float(second[1:])
            return crossed((s, p, value - number) for s, p, value in self.cells(first, column))
        sides = [self.cells(arm, column) for arm in (first, second)]
        if not all(prompt for side in sides for _, prompt, _ in side):
            sides = [_of_seeds(side) for side in sides]
        return crossed_difference(*sides)

    def shared(self, arms: Sequence[str], column: str) -> Scores:
        """The scores of the seeds at which each of `arms` has a value in `column`."""
        seeds = set.intersection(*({seed for seed, _, _ in self.cells(a, column)} for a in arms))
        return Scores(item for item in self.items if item.seed in seeds)

    def without(self, seed: int) -> Scores:
        """The scores of all other seeds."""
        return Scores(item for item in self.items if item.seed != seed)

    def shared_seeds(self, first: str, second: str, column: str) -> list[int]:
        """The seeds at which both arms have a value; a number "=0.5" has one at each."""
        seeds = {seed for seed, _, _ in self.cells(first, column)}
        if not second.startswith("="):
            seeds &= {seed for seed, _, _ in self.cells(second, column)}
        return sorted(seeds)

    def at(self, seed: int) -> Scores:
        """The scores of one seed."""
        return Scores(item for item in self.items if item.seed == seed)

    def changed(self, first: str, second: str, column: str) -> float:
        """The share of the seeds and prompts of both arms whose value is another."""
        own, other = (
            {(seed, prompt): value for seed, prompt, value in self.cells(arm, column)}
            for arm in (first, second)
        )
        both = own.keys() & other.keys()
        return fmean(abs(own[cell] - other[cell]) > ALIKE for cell in both) if both else 0.0

    def figures(self) -> dict[str, dict[int, dict[str, float]]]:
        """Arm -> seed -> column -> the mean over its items."""
        found: dict[str, dict[int, dict[str, float]]] = {}
        for arm, column in self._of:
            for seed, _, value in _of_seeds(self.cells(arm, column)):
                found.setdefault(arm, {}).setdefault(seed, {})[column] = value
        return found


def _of_seeds(side: Cells) -> Cells:
    by_seed: dict[int, list[float]] = defaultdict(list)
    for seed, _, value in side:
        by_seed[seed].append(value)
    return [(seed, "", fmean(values)) for seed, values in by_seed.items()]


@dataclass(frozen=True)
class Verdict:
    """The word, the difference where there is one, and why nothing was tested or shown.

    sign_flip: the exact p-value of the seeds' signs, where there are at most `FEW` seeds.
    """

    word: Word
    gap: Interval | None
    why: str = ""
    sign_flip: float | None = None

    def text(self, claim: Claim) -> str:
        """`**shown**: +4.1 points (1.0 to 7.2), sign-flip p = .031`."""
        margin = claim.margin * (100 if claim.share else 1)
        word = f"equal within {margin:g}" if self.word == "equal" else self.word
        gap = told_gap(claim, self.gap) if self.gap else ""
        test = ""
        if self.sign_flip is not None:
            test = f"sign-flip p = {self.sign_flip:.3f}".replace("0.", ".")
        return f"**{word}**: {', '.join(filter(None, (self.why, gap, test)))}"


def told_gap(claim: Claim, gap: Interval) -> str:
    """`+4.1 points (1.0 to 7.2)`."""
    scale, unit, digits = (100, " points", 1) if claim.share else (1, "", 3)
    mean, low, high = (f"{scale * value:+.{digits}f}" for value in (gap.mean, gap.low, gap.high))
    bounds = f"({low} to {high})" if gap.low == gap.low else "(no interval)"
    return f"{mean}{unit} {bounds}".replace("-", "−")


def verdict(claim: Claim, scores: Scores, told: Mapping[str, Any]) -> Verdict:
    """What scores say of a claim; `told` are the arguments that they were made with."""
    if failed := [text for dose in claim.doses if (text := missed(dose, scores, told))]:
        return Verdict("not tested", None, claim.withdrawn or "; ".join(failed))
    try:
        gap = scores.difference(claim.first, claim.second, claim.column)
    except ValueError:
        return Verdict("not tested", None, "not every arm of it has been played")
    word = word_of(gap, claim.claimed, claim.margin)
    if (len(claim.learners) > 1 or word == "refuted") and (why := unfair(claim, told)):
        return Verdict("not tested", gap, why)
    seeds = scores.shared_seeds(claim.first, claim.second, claim.column)
    if not 1 < len(seeds) <= FEW:  # of more, one cannot carry the interval
        return Verdict(word, gap)
    test = None
    if claim.claimed != "equal":
        sides = (claim.first, claim.second, claim.column)
        test = sign_flip([scores.at(seed).difference(*sides).mean for seed in seeds])
    turning = []
    if word in ("shown", "refuted"):
        turning = seeds_that_turn(claim, scores, word, seeds)
    if turning:
        plural = "s" if len(turning) > 1 else ""
        why = f"hangs on seed{plural} {', '.join(map(str, turning))}"
        return Verdict("not shown", gap, why, test)
    return Verdict(word, gap, "", test)


def seeds_that_turn(claim: Claim, scores: Scores, word: Word, seeds: Sequence[int]) -> list[int]:
    """The seeds without any one of which the verdict would be another word.

    Of two seeds one is left, which has no interval over seeds, so that the verdict hangs on either.
    """
    turning = []
    for seed in seeds:
        rest = scores.without(seed).difference(claim.first, claim.second, claim.column)
        if word_of(rest, claim.claimed, claim.margin) != word:
            turning.append(seed)
    return turning


def unfair(claim: Claim, told: Mapping[str, Any]) -> str:
    """Why the arms of a claim that learn have not each the best of the same steps; "" where they do,
    or where the claim names its step.
    """
    if claim.step:
        return ""
    best = {arm: told.get("swept", {}).get(arm) for arm in claim.learners}
    steps = {arm: tried(claim.file, arm) for arm in best}
    if any(step not in steps[arm] for arm, step in best.items()):
        worse = [arm for arm, step in best.items() if steps[arm] and step is None]
        return f"worse step ({', '.join(worse)})" if worse else "unswept step"
    ends = [arm for arm, step in best.items() if step in (steps[arm][0], steps[arm][-1])]
    return f"last step tried ({', '.join(ends)})" if ends else ""


@cache
def tried(file: str, arm: str) -> list[str]:
    """The labels at which the sweep of a raw result played an arm, in their order."""
    sweep, trial = RESULTS / f"{file}_sweep.json", (TRIALS | DESIGNED).get(file)
    if not trial or not trial.swept or not sweep.exists():
        return []
    played = json.loads(sweep.read_text())["figures"]
    return [label for label in trial.swept if arm + AT + label in played]


def missed(dose: Dose, scores: Scores, told: Mapping[str, Any]) -> str:
    """Why a dose was not given; "" where it was."""
    if dose.kind == "given":
        return ""
    try:
        if dose.kind == "found":
            gap = scores.difference(dose.arm, dose.other, dose.column)
            low = gap.mean if np.isnan(gap.low) else gap.low  # every unit is alike
            return "" if low > dose.least else f"{dose.what} is not found"
        if dose.kind == "told":
            value = float(told.get(dose.column, 0))
        elif dose.kind == "changed":
            value = scores.changed(dose.arm, dose.other, dose.column)
        else:
            value = fmean(value for _, _, value in scores.cells(dose.arm, dose.column))
        if dose.kind == "least" and dose.other:
            value -= fmean(value for _, _, value in scores.cells(dose.other, dose.column))
    except ValueError:
        return f"{dose.what} was not measured"
    return "" if abs(value) >= dose.least else f"{dose.what} {value:.3g}, not {dose.least:g}"


def from_figures(results: Mapping[str, Any]) -> list[Item]:
    """The items of results that hold an arm's figures seed by seed; each is of a whole run."""
    told = results["arguments"]
    items = []
    for arm, rows in results["figures"].items():
        for seed, row in zip(told["seeds"], rows, strict=False):
            # Older files name no seed with a row.
            number = int(row.get("seed", seed))
            items += [
                Item(arm, number, 0, "", name, float(value))
                for name, value in row.items()
                if name != "seed" and isinstance(value, int | float)
            ]
    return items


def from_instructions(results: Mapping[str, Any]) -> list[Item]:
    """A prompt counts as often as it has instructions; the start answers alike in every seed."""
    seeds = sorted({int(key.rsplit("-", 1)[1]) for key in results["rows"] if key[-1].isdigit()})
    return [
        item
        for key, sets in results["rows"].items()
        for arm, _, seed in [key.rpartition("-")]
        for number in ([int(seed)] if seed.isdigit() else seeds)
        for name, rows in sets.items()
        for item in of_answers(arm if seed.isdigit() else "start", number, name, rows)
    ]


def of_answers(
    arm: str, seed: int, name: str, rows: Iterable[Mapping[str, Any]], generation: int = 0
) -> Iterator[Item]:
    """The figures of judged answers to a set's prompts, "test" or another. A prompt counts as often
    as it has instructions for shares of instructions: IFEval's accuracy of single ones.
    """
    place = "" if name == "test" else f"{name} "
    for row in rows:
        for column in ANSWERED:
            if column in row:
                often = row["instructions"] if column in ("strict", "loose") else 1
                value, figure = float(row[column]), place + column + GREEDY
                yield from [Item(arm, seed, generation, row["prompt"], figure, value)] * often


def from_nash_gap(results: Mapping[str, Any]) -> list[Item]:
    """The exponents of T in each game where both step at once; arms "average" and "last" are those
    where the defender sees the prompt and the KL weighs prompts as they are played.
    """
    gaps: dict[tuple[str, int, str], list[tuple[int, float]]] = defaultdict(list)
    for row in results["figures"]:
        if row["turns"] == "both at once":
            for policies in ("average", "last"):
                place = (f"{row['game']}, {row['variant']}", row["seed"], policies)
                gaps[place].append((row["rounds"], row[policies]))
    items = []
    for (arm, game, policies), rows in gaps.items():
        rounds_R, gap_R = np.array(sorted(rows)).T
        slope = slope_of_logarithms(rounds_R, np.maximum(gap_R, np.finfo(float).eps))
        items.append(Item(arm, game, 0, "", policies, slope))
        if arm == "contextual, played":
            items.append(Item(policies, game, 0, "", "exponent", slope))
            items.append(Item("−½", game, 0, "", "exponent", -0.5))
    return items


def from_permuted_games(results: Mapping[str, Any]) -> list[Item]:
    """Of each answer whether it follows its matrix; beside it a guess."""
    names: dict[str, str] = {
        "cobb_douglas": "product",
        "utilitarian": "sum",
        "egalitarian": "minimum",
    }
    items = []
    for key, row in results["figures"].items():
        arm, _, seed = str(key).partition("-")
        for column in ("as written, choice", "permuted, choice", "permuted, response", "stays"):
            for place, value in enumerate(row[column]):
                for who, right in ((names.get(arm, arm), float(value)), ("a third", 1 / 3)):
                    items.append(Item(who, int(seed or 0), 0, f"{key} {place}", column, right))
    return items


READ = {
    "instructions": from_instructions,
    "nash_gap": from_nash_gap,
    "permuted_games": from_permuted_games,
}


@cache
def raw(name: str) -> tuple[Scores, dict[str, Any]]:
    """The scores of a raw result, and the arguments that they were made with."""
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return Scores([]), {}
    results = json.loads(path.read_text())
    return Scores(read_items(path)), results.get("arguments", results)


@cache
def found(claim: Claim) -> Verdict:
    """The verdict on a claim by its raw result."""
    return verdict(claim, *raw(claim.file))


def rows() -> list[tuple[str, str, str]]:
    """(claim, where it was tested, verdict) of all claims, as the lab shows them."""
    made, before = [], ""
    for claim in CLAIMS.values():
        world = "" if claim.world == before else claim.world
        made.append((claim.text, world, _verdict_text(claim)))
        before = claim.world
    return made


def asked_rows() -> list[tuple[str, str, str]]:
    """(question, where it was tested, verdict) of those that a reader asks about."""
    return [
        (question, world_of(name), _verdict_text(CLAIMS[name])) for name, question in ASKED.items()
    ]


def world_of(name: str) -> str:
    """Where a claim was tested: its own world, or that of the claims of its trial before it."""
    world = ""
    for each, claim in CLAIMS.items():
        world = claim.world or world
        if each == name:
            break
    return world


def _verdict_text(claim: Claim) -> str:
    text = found(claim).text(claim).replace(" points (", " (")
    return text + ("" if over_prompts(claim) else "¹")


def over_prompts(claim: Claim) -> bool:
    """Whether no interval, or one over prompts, too, stands beside its verdict."""
    scores, _ = raw(claim.file)
    try:
        cells = [scores.cells(arm, claim.column) for arm in (claim.first, claim.second)]
    except ValueError:
        return True
    return claim.withdrawn != "" or all(prompt for side in cells for _, prompt, _ in side)


def wrong_words(text: str) -> list[str]:
    """The verdicts of a page that its raw results do not bear out: bold words that are followed by
    `<!--CLAIM-->` and say another word, by another difference than the claim's, or by nothing.
    """
    wrong = []
    for bold, name, *figures in SAID.findall(text):
        told = [figure for figure in figures if figure]
        word = " ".join(bold.lower().split())
        claim = KNOWN.get(name)
        scale = 100 if claim and claim.share else 1
        if claim is None:
            wrong.append(f"{word}: of no claim" if not name else f"{word}: no claim is {name}")
        elif (true := found(claim).word) != word:
            wrong.append(f"{name}: {word}, by its raw result {true}")
        elif told and (own := written(found(claim).gap, told, scale)) != list(map(bare, told)):
            wrong.append(f"{name}: {' '.join(told)}, by its raw result {' '.join(own)}")
    others = OTHERWISE.finditer(SAID.sub("", text))
    return wrong + [f"{match[0]}: not a verdict" for match in others]


def wrong_figures(text: str) -> list[str]:
    """The figures before each `SOURCE` of a page that are not those of its raw result, in per cent but
    for those that begin with a point.
    """
    wrong = []
    for source in SOURCE.finditer(text):
        file, column, arms = (part.replace("+", " ") for part in source.groups())
        scores, _ = raw(file)
        before = [m for m in FIGURE.finditer(text, 0, source.start()) if m[1].strip("+−")]
        named = arms.split(";")
        for arm, match in zip(named, before[-len(named) :], strict=True):
            told = [figure for figure in match.groups() if figure]
            first, _, second = arm.partition("−")
            own = scores.difference(first, second, column) if second else scores.mean(arm, column)
            scale = 1 if told[0].lstrip("+−").startswith(".") else 100
            if (true := written(own, told, scale)) != list(map(bare, told)):
                wrong.append(f"{arm}: {' '.join(told)}, by {file} {' '.join(true)}")
    return wrong


def written(own: Interval | None, told: Sequence[str], scale: int) -> list[str]:
    """A figure, and its bounds where they are told, with as many digits as those."""
    values = () if own is None else (own.mean, own.low, own.high)
    digits = [len(figure.partition(".")[2]) for figure in told]
    return [
        bare(f"{scale * value:.{count}f}") for value, count in zip(values, digits, strict=False)
    ]


def bare(figure: str) -> str:
    """A figure without a plus and without a nought before its point."""
    return re.sub(r"^(−?)0\.", r"\1.", figure.lstrip("+").replace("-", "−"))


def unsaid(page: str, text: str) -> list[str]:
    """The claims of a method that its page gives no verdict on."""
    said = {name for _, name, *_ in SAID.findall(text)}
    return [name for name in CLAIMS if name.startswith(f"{page}.") and name not in said]


def torn(path: Path) -> str:
    """How an experiment's figures differ from the items beside them; "" where they do not."""
    results = json.loads(path.read_text())
    told = results.get("arguments", {})
    if not path.with_suffix(".parquet").exists() or not (told.keys() & {"seeds", "games"}):
        return ""
    scores = Scores(read_items(path))
    own = scores.figures()
    if "seeds" in told and (seeds := sorted({s for rows in own.values() for s in rows})) != sorted(
        told["seeds"]
    ):
        return f"its items are of the seeds {seeds}"
    for arm, rows in results["figures"].items():
        for row in rows if isinstance(rows, list) else [rows]:
            for column, value in row.items() if isinstance(row, dict) else ():
                if column == "seed":
                    continue
                if "seed" in row:
                    true = own.get(arm, {}).get(row["seed"], {}).get(column, math.nan)
                elif "games" in told:
                    true = scores.mean(arm, column).mean
                else:
                    continue
                if not (abs(true - value) <= 1e-6 or (value != value and true != true)):
                    return f"{column} of {arm}, seed {row.get('seed')}, is {true} by its items"
    if "seeds" in told and (more := own.keys() - results["figures"].keys()):
        return f"its items are of {', '.join(more)}, too"
    return ""


def read_items(path: Path) -> list[Item]:
    """Those beside a file of figures; of its figures where there are none."""
    items = path.with_suffix(".parquet")
    if not items.exists():
        return READ.get(path.stem, from_figures)(json.loads(path.read_text()))
    from pyarrow import parquet

    columns = parquet.read_table(items, columns=list(Item._fields)).to_pydict()
    gc.disable()  # else it looks again and again at rows that hold no cycle: four fifths of the time
    try:
        return list(map(Item._make, zip(*columns.values(), strict=True)))
    finally:
        gc.enable()


def write_items(path: Path, items: Iterable[Item]) -> None:
    """One row an item, beside a file of figures."""
    import pyarrow
    from pyarrow import parquet

    columns = dict(zip(Item._fields, zip(*items, strict=True), strict=True))
    table = pyarrow.table(columns)
    parquet.write_table(table, path.with_suffix(".parquet"), compression="zstd")
