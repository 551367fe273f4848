"""GTAlign's released normalisations, measures and edits beside ours, for
`benchmarks.gtalign_oracle`. Each is run as it lies in the checkout.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import random
import re
import runpy
import sys
import tempfile
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.normalising import Method, normalise
from equipoise.environments.assistance.measured_answers import (
    MeasuredAnswer,
    classes,
    score_per_1000_characters,
)
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, undominated
from equipoise.environments.assistance.pricing import Pricing
from equipoise.environments.assistance.steering import largest_products
from equipoise.payoffs import pareto
from equipoise.payoffs.judge_agreement import correlations

Logged = tuple[dict[str, Any], MeasuredAnswer]
"""What the release reports of an output, in the form of its logs, and our measured answer."""
Figures = dict[str, Any]
SINGLE = 1e-4  # the normalisations there are in single precision, with 1e-6 in denominators
EXACT = 1e-9
DIGITS = 12
EPS = 0.05
METHODS: Mapping[str, Method] = {
    "zscore": "z_score",
    "minmax": "min_max",
    "robustz": "tanh",
    "cdf": "cdf",
    "quantile": "quantile",
    "james": "james_stein",
    "decentralize": "decentralise",
    "selfadapt": "self_adapt",
}
SCORES = {"utility": "score", "llm_reward": "llm", "user_reward": "user"}
# Source -> the logs that its script of the basic metrics reads, and prints in this order.
BASIC = {
    "wildguard": ["0911_wildguard_user/30"],
    "medium": ["0910_medium_user/85"],
    "math-hard": ["0910_math_user/110"],
    "ambig_qa": ["0910_abgqa_cobb/60", "0910_abgqa_user/60"],
}


def compared(ours: Sequence[float], theirs: Sequence[float], tolerance: float) -> Figures:
    """Numbers, differences beyond the tolerance, and the largest one."""
    apart_N = np.abs(np.array(ours, float) - np.array(theirs, float))
    assert len(apart_N) and np.isfinite(apart_N).all(), (ours, theirs)
    differences = int((apart_N > tolerance).sum())
    return {"numbers": len(apart_N), "differences": differences, "largest": float(apart_N.max())}


@contextlib.contextmanager
def silent_in(folder: Path) -> Iterator[io.StringIO]:
    """Run in this folder; what is printed is kept."""
    before, printed = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(printed):
            yield printed
    finally:
        os.chdir(before)


# -- normalisations


class Batch(list[Any]):
    """A batch as the reward manager takes it."""

    def __init__(self, scores: Sequence[float], sources: Sequence[str]) -> None:
        import torch

        truths = [{"reward_model": {"ground_truth": score}} for score in scores]
        super().__init__(types.SimpleNamespace(non_tensor_batch=truth) for truth in truths)
        tokens = torch.zeros(len(scores), 1, dtype=torch.long)
        self.batch = {"prompts": tokens, "responses": tokens}
        self.non_tensor_batch = {"data_source": list(sources)}


def reward_manager(release: Path, mended: bool) -> Any:
    """The module of the release's reward managers, without its framework.

    `mended`: without the imports inside a function that hide numpy from its other branches.
    """
    stand_ins: dict[str, dict[str, Any]] = {
        "verl": {"DataProto": object},
        "verl.utils": {},
        "verl.utils.reward_score": {"default_compute_score": None},
        "verl.workers": {},
        "verl.workers.reward_manager": {"register": lambda name: lambda kind: kind},
    }
    for name, contents in stand_ins.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        sys.modules[name] = module
    path = release / "verl" / "workers" / "reward_manager" / "gamellm.py"
    text = path.read_text(encoding="utf-8")
    if mended:
        text = re.sub(r"^ +import numpy as np\n", "", text, flags=re.MULTILINE)
    module = types.ModuleType("released_reward_manager")
    exec(compile(text, path.name, "exec"), vars(module))  # the release's own
    return module


def normalised(module: Any, method: str, scores: list[float], sources: list[str]) -> list[float]:
    """The scores of a batch as the release's manager would train on them."""
    manager = object.__new__(module.GameLLMRewardNormalizeManager)
    texts = [""] * len(scores)
    manager.tokenizer = types.SimpleNamespace(batch_decode=lambda *_, **__: texts)
    manager.reward_fn_key, manager.normalize_method = "data_source", method
    manager.judge_client = None

    def score(source: str, text: str, truth: float, *_: Any) -> Figures:
        return {"score": truth, "source": source}

    manager.compute_score = score
    with contextlib.redirect_stdout(io.StringIO()):
        return manager.verify(Batch(scores, sources))["ppo_score"]


def normalisations(release: Path, batches: int) -> dict[str, Figures]:
    """Method of the release -> differences, and the error that its code stops with, if any."""
    plain, mended = reward_manager(release, False), reward_manager(release, True)
    found = {}
    for theirs, method in METHODS.items():
        dice, stopped = random.Random(theirs), ""
        ours_N: list[float] = []
        theirs_N: list[float] = []
        for _ in range(batches):
            # In 64ths single precision is exact, and there are ties.
            scores = [dice.randrange(65) / 64 for _ in range(dice.choice([1, 2, 7, 64]))]
            sources = [dice.choice(["math-hard", "medium", "wildguard"]) for _ in scores]
            try:
                expected = normalised(plain, theirs, scores, sources)
            except UnboundLocalError as error:
                stopped = type(error).__name__
                expected = normalised(mended, theirs, scores, sources)
            pairs = list(zip(sources, scores, strict=True))
            for pair, mine, other in zip(
                pairs, normalise(scores, sources, method), expected, strict=True
            ):
                # By min–max a source of one value is ½ here and 0 there.
                if method != "min_max" or len({s for k, s in pairs if k == pair[0]}) > 1:
                    ours_N.append(float(mine))
                    theirs_N.append(float(other))
        found[theirs] = {"ours": method, **compared(ours_N, theirs_N, SINGLE)}
        found[theirs]["stops with"] = stopped
    return found


# -- measures


def measures(release: Path, logged: Mapping[str, Sequence[Logged]]) -> dict[str, Figures]:
    """Script of the release -> differences, on what was reported of our outputs."""
    scripts = release.resolve() / "recipe" / "gamellm" / "experiments"
    found: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found["wildguard.py"] = _classes(scripts, folder, logged, "wildguard")
        found["abgqa.py"] = _classes(scripts, folder, logged, "ambig_qa")
        found["basic_metrics.py"] = _basic(scripts, folder, logged)
        found["correlation/test.py"] = _correlations(scripts, folder, logged["medium"])
    for script, measure in (("pareto_ratio.py", _compared), ("comprehensive.py", _fronts)):
        module = runpy.run_path(str(scripts / script))
        numbers = [measure(module, rows) for rows in logged.values()]
        ours, theirs = ([value for pair in numbers for value in pair[side]] for side in (0, 1))
        found[script] = compared(ours, theirs, EXACT)
    return found


def _write(folder: Path, name: str, rows: Sequence[Logged]) -> None:
    path = folder / "verl" / f"{name}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record, _ in rows), encoding="utf-8")


def _run(script: Path, folder: Path) -> tuple[dict[str, Any], str]:
    """The script's names and what it prints, run in the folder."""
    sys.path.insert(0, str(script.parent))
    try:
        with silent_in(folder) as printed:
            return runpy.run_path(str(script), run_name="__main__"), printed.getvalue()
    finally:
        sys.path.remove(str(script.parent))


def _classes(
    scripts: Path, folder: Path, logged: Mapping[str, Sequence[Logged]], source: str
) -> Figures:
    script, log, positive, negative = {
        "wildguard": ("wildguard.py", "0911_wildguard_user/120", "harmful", "harmless"),
        "ambig_qa": ("abgqa.py", "0910_abgqa_user/130", "clear", "ambiguous"),
    }[source]
    _write(folder, log, logged[source])
    theirs, _ = _run(scripts / script, folder)
    ours = classes([answer for _, answer in logged[source]], as_released=True)
    names = [f"{part}_{sign}" for sign in ("pos", "neg") for part in ("prec", "rec", "f1")]
    numbers = [*ours[positive][:3], *ours[negative][:3]]
    macro = (ours[positive].f1 + ours[negative].f1) / 2
    return compared([*numbers, macro], [theirs[n] for n in (*names, "macro_f1")], EXACT)


def _basic(scripts: Path, folder: Path, logged: Mapping[str, Sequence[Logged]]) -> Figures:
    ours = []
    for source, logs in BASIC.items():
        for log in logs:
            _write(folder, log, logged[source])
            ours.append(score_per_1000_characters([answer for _, answer in logged[source]]) or 0.0)
    _, printed = _run(scripts / "basic_metrics.py", folder)
    theirs = re.findall(r"Answer Score per Total Token: (\S+)", printed)
    return compared(ours, [float(value) for value in theirs], EXACT)


def _correlations(scripts: Path, folder: Path, rows: Sequence[Logged]) -> Figures:
    # Rewards that are equal but for the order of their terms' addition are equal in rank, too.
    names = (*SCORES, "answer_reward")
    rounded = [
        (record | {name: round(record[name], DIGITS) for name in names}, answer)
        for record, answer in rows
    ]
    _write(folder, "0910_medium_cobb/100", rounded)
    theirs, _ = _run(scripts / "correlation" / "test.py", folder)
    columns = {
        name: [answer.utilities[utility] for _, answer in rows] for name, utility in SCORES.items()
    }
    columns["answer_reward"] = [answer.answer_score for _, answer in rows]
    ours_N, theirs_N = [], []
    for one in columns:
        for other in set(columns) - {one}:
            found = correlations(*(np.round(columns[name], DIGITS) for name in (one, other)))
            ours_N += [*found]
            tables = ("pearson_corr", "spearman_corr", "kendall_corr")
            theirs_N += [float(theirs[table].loc[one, other]) for table in tables]
    return compared(ours_N, theirs_N, EXACT)


def _halves(rows: Sequence[Logged]) -> tuple[np.ndarray, np.ndarray]:
    """The outputs' points as those of two runs on the same inputs, [N, 2] each."""
    points = [(answer.utilities["user"], answer.utilities["llm"]) for _, answer in rows]
    half = len(points) // 2
    return np.array(points[:half]), np.array(points[half : 2 * half])


def _compared(module: Mapping[str, Any], rows: Sequence[Logged]) -> tuple[list, list]:
    """Ours and theirs: dominance, coverage, regret, welfare, spread, hypervolume."""
    first_N2, second_N2 = _halves(rows)
    names = ("user_reward", "llm_reward")
    records = [
        [{"input": str(n), **dict(zip(names, point, strict=True))} for n, point in enumerate(run)]
        for run in (first_N2.tolist(), second_N2.tolist())
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        theirs = module["compute_metrics"](*records, eps=EPS)
    ours = pareto.compare(first_N2, second_N2, EPS)
    counts = [ours.first_dominates, ours.second_dominates, ours.equal, ours.incomparable]
    basic, (low, high) = theirs["basic_compare"], zip(ours.range_user, ours.range_llm, strict=True)
    mine: list[float] = [*counts, *low, *high]
    kinds = ("file1_dominates_file2", "file2_dominates_file1", "equal", "incomparable")
    other = [basic[kind] for kind in kinds]
    other += [theirs["ranges"][name] for name in ("u_min", "l_min", "u_max", "l_max")]
    runs = (("file1", ours.first, first_N2), ("file2", ours.second, second_N2))
    for name, side, point_N2 in runs:
        mine += [side.coverage, side.regret, side.nash_welfare, side.cobb_douglas]
        keys = ("epsilon_coverage", "avg_regret_Linf", "NSW_avg", "CobbDouglas_avg")
        other += [theirs[key][name] for key in keys]
        mine += [side.spread_user, side.spread_llm, side.spread]
        spread = theirs["coverage_spread"][name]
        other += [spread[key] for key in ("u_cov", "l_cov", "mean_cov")]
        mine.append(pareto.hypervolume(point_N2, low, as_released=True))
        other.append(theirs["hypervolume_ref_(u_min,l_min)"][name])
    return mine, other


def _fronts(module: Mapping[str, Any], rows: Sequence[Logged]) -> tuple[list, list]:
    """Ours and theirs: the front's points, ε-indicator, scalarisation regret, constrained AUC."""
    first_N2, second_N2 = _halves(rows)
    both_M2 = np.concatenate([first_N2, second_N2])
    first_F2, second_F2 = (points[pareto.front(points)] for points in (first_N2, second_N2))
    theirs_front = module["pareto_front"](first_N2)
    np.random.seed(0)  # what the release draws its weights from
    weight_W = [np.random.dirichlet([1, 1])[0] for _ in range(1000)]
    np.random.seed(0)
    mean, (median, ninetieth) = module["scalarization_regret"](first_F2, both_M2)
    mine = [*first_F2.sum(axis=0), *pareto.scalarisation_regret(first_F2, both_M2, weight_W)]
    other = [*theirs_front.sum(axis=0), mean, median, ninetieth]
    mine.append(pareto.epsilon_indicator(first_F2, second_F2, as_released=True))
    other.append(module["epsilon_indicator"](first_F2, second_F2))
    levels = np.linspace(0, 1, 20)
    for mode, held in (("llm", "llm"), ("other", "user")):
        mine.append(
            pareto.constrained_area(first_F2, both_M2, held, levels, as_released=True)  # type: ignore[arg-type]
        )
        other.append(module["constrained_auc"](first_F2, both_M2, levels, mode=mode))
    return mine, other


# -- steering


def steering(games: int) -> dict[str, Figures]:
    """The edits, the largest products and the frontier of written matrices."""
    module = importlib.import_module("recipe.gamellm.inference.inference_v2")
    form = importlib.import_module("recipe.gamellm.tasks.format")
    edit = module.GameLLMOrchestrator.transform_payoffs
    dice = random.Random(0)
    edits: tuple[list[float], list[float]] = ([], [])
    named: dict[str, tuple[list[float], list[float]]] = {
        "largest products": ([], []),
        "frontier": ([], []),
    }
    for _ in range(games):
        matrix = {
            name: Cell(round(dice.uniform(-5, 5), 1), round(dice.uniform(-5, 5), 1))
            for name in CELLS
        }
        written = {name: {"LLM": cell.llm, "user": cell.user} for name, cell in matrix.items()}
        llm, user = dice.choice([(0, 0), (-2, 0), (0, -0.5), (1.5, 2), (0, 3)])
        mine = Pricing.build({"kind": "released", "llm": llm, "user": user}).edit(matrix)
        theirs = edit(written, scale_llm=llm, scale_user=user)
        for name in CELLS:
            edits[0].extend(mine[name])
            edits[1].extend((theirs[name]["user"], theirs[name]["LLM"]))
        chosen = {
            "largest products": (largest_products(matrix), module.pareto_optimal_keys(written)),
            "frontier": (undominated(matrix), form.pareto_frontier_from_json(written)),
        }
        for what, sides in chosen.items():
            for side, names in zip(named[what], sides, strict=True):
                side.extend(float(name in names) for name in CELLS)
    found = {"edits": compared(*edits, EXACT)}
    return found | {what: compared(*sides, EXACT) for what, sides in named.items()}
