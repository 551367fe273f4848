"""GTAlign's released code beside ours, by execution: rewards, normalisations, steering, measures.

    python -m benchmarks.gtalign_oracle --release DIR [--data ../shared/data/gtalign]
        [--outputs 1000] [--out benchmarks/results/gtalign_oracle.json]

DIR is a checkout of the release (ulab-uiuc/GTAlign); nothing is fetched. Of every data source each
published row is met at least once, with an output of its own: four blocks with made-up contents,
most of them damaged (`benchmarks.gtalign_outputs`). Both sides are given the same grades in place
of a judging model's. A difference is more than 1e-9 in any number that the release reports of an
output, 1e-4 in its normalisations, which round to single precision. Rows without a ground truth are
judged there against "None" and left out here. What the release's code stops at with an error is
counted as its reward manager has it: 0.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import random
import re
import sys
import types
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

from benchmarks.gtalign_numbers import Logged, measures, normalisations, steering
from benchmarks.gtalign_outputs import outputs
from benchmarks.running import write_results
from equipoise.environments.assistance.blocks import parse_as_released
from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.environments.assistance.judge import AssistanceJudge
from equipoise.environments.assistance.measured_answers import MeasuredAnswer
from equipoise.judges.base import JudgeContext
from equipoise.models.resources import Resources
from equipoise.payoffs.welfare import Welfare
from equipoise.prompts.row_prompts import to_prompt
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View

OUT = Path("benchmarks/results/gtalign_oracle.json")
DATA = Path("../shared/data/gtalign")
Row = dict[str, Any]
Reported = dict[str, float]  # what a reward module says of an output

# folder -> its module of the reward, the form of its judge's reply, and the grades
MODULES: Mapping[str, tuple[str, str, tuple[float, ...]]] = {
    "math-hard": ("math_hard", "\\boxed{{{:g}}}", (0, 1)),
    "ambig_qa": ("abgqa_v2", "<abg>{:g}</abg>", (0, 1)),
    "medium": ("medium", "\\boxed{{{:g}}}", (0, 1, 2, 3, 4)),
    "wildguard": ("wildguard", "\\boxed{{{:g}}}", (0, 0.5, 1)),
    "minerva": ("minerva", "\\boxed{{{:g}}}", (0, 1)),
    "abg_coqa": ("abg_coqa", "<abg>{:g}</abg>", (0, 1)),
    "advbench": ("advbench", "\\boxed{{{:g}}}", (0, 0.5, 1)),
}
OUTSIDE = ("minerva", "abg_coqa", "advbench")
FIRST, SECOND = "recipe.gamellm.tasks", "recipe.gamellm.tasks_ablation"
BASELINES = {
    "recipe.gamellm.tasks_linear_comb": "utilitarian",
    "recipe.gamellm.tasks_baseline_user": "user_only",
    "recipe.gamellm.tasks_baseline_llm": "llm_only",
}
NAMED = (0.0, 0.5, 1.0)  # grades for naming the frontier
ABOUT_FRONTIER = "You check whether an analysis"  # how our question of that begins
TOLERANCE = 1e-9


class Said:
    """The judging model of both sides: it says the grades that are set."""

    def __init__(self) -> None:
        self.grade, self.named, self.form = 0.0, 0.0, ""
        self.chat = types.SimpleNamespace(completions=self)

    def create(self, messages: Sequence[Mapping[str, str]], **_: Any) -> Any:
        """The reply in the release's forms, as its client has it."""
        of_frontier = "pareto_frontiers = " in messages[-1]["content"]
        text = f"<po>{self.named:g}</po>" if of_frontier else self.form.format(self.grade)
        message = types.SimpleNamespace(message=types.SimpleNamespace(content=text))
        return types.SimpleNamespace(choices=[message])


SAID = Said()


def our_grader(view: View, seed: int) -> str:
    """The reply to our own questions, which give a code to be repeated."""
    question = view.messages[-1].content
    code = re.search(r"<<\w[\w ]* (\w+)>>", question)
    assert code is not None
    grade = SAID.named if question.startswith(ABOUT_FRONTIER) else SAID.grade
    return json.dumps({"reason": "", "score": grade, "code": code[1]})


def our_judge(variant: str) -> AssistanceJudge:
    """Our judge of this variant, ready to judge."""
    game = Assistance.model_validate({"text": "none"})
    grader = {"kind": "scripted", "call": f"{our_grader.__module__}:our_grader"}
    settings = {"variant": variant, "by": "llm", "grader": grader}
    context = JudgeContext(
        game=game,
        seed=0,
        pool=[],
        ratings={},
        resources=(resources := Resources()),
        actor=lambda player: player.open(player.start, resources),  # type: ignore[union-attr]
    )
    return AssistanceJudge.model_validate(settings).at(context)


def ours(judge: AssistanceJudge, prompt: Prompt, output: str) -> Mapping[str, float] | None:
    """Our utilities of an output; None where it is unjudged."""
    turn = Turn(ASSISTANT, View(prompt.messages), Move(output))
    seats = {ASSISTANT: PlayerId("a")}
    match = Match("m", 0, "train", "assistance", prompt.id, seats, 0, (turn,))
    (judgement,) = judge.judge([match], {prompt.id: prompt})
    return None if judgement.scores is None else judgement.utilities(ASSISTANT)


def released(module: Any, row: Row, output: str) -> tuple[Reported, str]:
    """What a module of the release reports of an output; "" or the kind of its error."""
    truth = row["reward_model"]["ground_truth"]
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return module.compute_score(output, truth, SAID, row["extra_info"]), ""
        except Exception as error:  # noqa: BLE001  # as its reward manager: worth 0
            zeros = ("score", "answer_reward", "format_reward", "user_reward", "llm_reward")
            return dict.fromkeys((*zeros, "pareto_score", "payoff_reward"), 0.0), type(
                error
            ).__name__


def as_logged(prompt: Prompt, output: str, found: Mapping[str, float]) -> Reported:
    """Our utilities of an output under the names that the release reports."""
    answer = MeasuredAnswer(prompt, parse_as_released(output), 0, found)
    paid = answer.readable and found["score"] > 0
    form, matrix = (found[name] if paid else 0.0 for name in ("format", "matrix"))
    score = answer.answer_score if paid else 0.0
    return {
        "user_reward": found["user"],
        "llm_reward": found["llm"],
        "score": found["score"],
        "answer_reward": found["safety"] if paid and "safety" in found else score,
        "format": form,
        "payoff_reward": matrix,
        "pareto_score": found.get("frontier", 0.0),
    }


def differs(mine: Reported, reported: Reported, second: bool) -> bool:
    """True if a number that the release reports of an output is another one here."""
    mine = dict(mine)
    form = mine.pop("format")
    first_form = 0.1 * form + 0.15 * mine["payoff_reward"]
    mine["format_reward"] = form if second else first_form
    return any(
        not isclose(reported[name], value, abs_tol=TOLERANCE, rel_tol=0)
        for name, value in mine.items()
        if name in reported
    )


class Source:
    """One data source: its rows, its modules of the release, and what was counted."""

    def __init__(self, name: str, rows: Sequence[Row], judges: Mapping[str, AssistanceJudge]):
        self.name, self.rows, self.judges = name, rows, judges
        module, SAID.form, self.grades = MODULES[name]
        places = [SECOND] if name in OUTSIDE else [FIRST, SECOND, *BASELINES]
        self.modules = {place: importlib.import_module(f"{place}.{module}") for place in places}
        self.counts: Counter[str] = Counter(
            dict.fromkeys(("left out", "paid", "errors", "default", *places), 0)
        )
        self.logged: list[Logged] = []

    def meet(self, row: Row, output: str, dice: random.Random) -> None:
        """Have both sides judge an output to a row, and count the differences."""
        SAID.grade, SAID.named = dice.choice(self.grades), dice.choice(NAMED)
        prompt = to_prompt(row, self.name, self.name, "prompt")
        found = {name: ours(judge, prompt, output) for name, judge in self.judges.items()}
        if not all(found.values()):
            assert not row["reward_model"]["ground_truth"], "a row with a truth is judged"
            self.counts["left out"] += 1
            return
        mine = {name: as_logged(prompt, output, of or {}) for name, of in found.items()}
        reports = {place: released(of, row, output) for place, of in self.modules.items()}
        trained = "as_released" if self.name in OUTSIDE else "frontier"
        self.counts[SECOND] += differs(mine[trained], reports[SECOND][0], True)
        plain, variant = (reports.get(FIRST) or reports[SECOND])[0], mine["as_released"]
        self.counts["paid"] += plain["score"] > 0
        self.counts["errors"] += any(error for _, error in reports.values())
        self.counts["default"] += abs(mine["corrected"]["score"] - plain["score"]) > TOLERANCE
        if FIRST in reports:
            self.counts[FIRST] += differs(variant, plain, False)
            for place, kind in BASELINES.items():
                worth = Welfare.build(kind).value(variant["user_reward"], variant["llm_reward"])
                self.counts[place] += abs(reports[place][0]["score"] - float(worth)) > TOLERANCE
        record = {**plain, "utility": plain["score"], "source": self.name, "output": output}
        record["gts"] = row["reward_model"]["ground_truth"]
        answer = MeasuredAnswer(prompt, parse_as_released(output), 0, found["as_released"] or {})
        self.logged.append((record, answer))


def rewards(data: Path, count: int) -> tuple[dict[str, Any], dict[str, list[Logged]]]:
    """Source -> rows, outputs and differences by module; and what was reported of each output."""
    judges = {name: our_judge(name) for name in ("as_released", "frontier", "corrected")}
    figures, logged = {}, {}
    for name in MODULES:
        files = sorted((data / name).glob("*.parquet"))
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        source, dice = Source(name, rows, judges), random.Random(name)
        made, total = outputs(dice), max(count, len(rows))
        for n in range(total):
            source.meet(rows[n % len(rows)], next(made), dice)
        figures[name] = {"rows": len(rows), "outputs": total, **source.counts}
        logged[name] = source.logged
    return figures, logged


def show(figures: Mapping[str, Any]) -> None:
    """Print the numbers of differences."""
    console = Console()
    table = Table("source", "rows", "outputs", "paid", "first", "second", "baselines", box=None)
    for name, of in figures["rewards"].items():
        first = str(of[FIRST]) if FIRST in of else "–"
        baselines = str(sum(of[place] for place in BASELINES)) if FIRST in of else "–"
        cells = (of["rows"], of["outputs"], of["paid"], first, of[SECOND], baselines)
        table.add_row(name, *map(str, cells))
    console.print("Differences of the rewards, as released", table, sep="\n")
    for part in ("normalisations", "measures", "steering"):
        table = Table(part, "numbers", "differences", "largest", "", box=None)
        for name, of in figures[part].items():
            note = of.get("stops with", "")
            cells = (str(of["numbers"]), str(of["differences"]), f"{of['largest']:.1e}")
            table.add_row(name, *cells, note and f"the release stops with {note}")
        console.print(table)


def main() -> None:
    """Compare, write the figures and print the numbers of differences."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gtalign_oracle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--release", type=Path, required=True, help="a checkout of the release")
    parser.add_argument("--data", type=Path, default=DATA, help="its data, a folder a source")
    parser.add_argument("--outputs", type=int, default=1000, help="to each source at least")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    for folder in (options.release / "recipe" / "gamellm", options.data / "minerva"):
        if not folder.is_dir():
            parser.error(f"{folder} is not there")
    sys.path.insert(0, str(options.release.resolve()))
    warnings.simplefilter("ignore")  # NLTK's on short texts
    figures: dict[str, Any] = {}
    figures["rewards"], logged = rewards(options.data, options.outputs)
    figures["normalisations"] = normalisations(options.release, batches=60)
    figures["measures"] = measures(options.release, logged)
    figures["steering"] = steering(games=1000)
    write_results(options.out, figures, outputs=options.outputs)
    show(figures)


if __name__ == "__main__":
    main()
