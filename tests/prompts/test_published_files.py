"""The published files and golden vectors of a second source, where they lie beside the checkout:
how many rows they have, and that all of them can be read, split, asked and checked. What is done
with a row is tested on rows and oracles of our own.
"""

import json
from collections import Counter
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from benchmark_answers import made
from oracles.write import NAMES
from pydantic import TypeAdapter

from equipoise.environments.instructions.checkers import check
from equipoise.environments.instructions.instruction_prompts import IFEval
from equipoise.evaluation.sets.base import Benchmark
from equipoise.evaluation.sets.problems import GSM8K
from equipoise.judges.rules import Math
from equipoise.prompts.base import Prompts
from equipoise.prompts.prompt_files import Files
from equipoise.prompts.split import load_split, split
from equipoise.runs import recipe_loader
from equipoise.types import user

SHARED = Path(__file__).resolve().parents[3] / "shared"
DATA = SHARED / "data"
if not SHARED.is_dir():
    pytest.skip(f"the published files are absent: {SHARED}", allow_module_level=True)

SPARTA_SETS = [
    "gsm8k_questions.json",
    "math_easy.jsonl",
    "math_medium.jsonl",
    "com2.json",
    "truthfulqa.jsonl",
    "knowledge_crosswords.json",
    "culture_country.json#train",
    "alpacaeval_scored.json#dev",
]


def test_a_second_source_has_vectors_by_the_oracles_names():
    names = {path.name for path in (SHARED / "golden").glob("*.json")}
    assert names
    assert names <= {f"{name}.json" for name in NAMES}


@pytest.mark.long
def test_the_files_of_gtalign_and_gpo():
    """How many rows they have of each sort; test_published_schemas.py reads our own in the same schemas."""

    def gtalign(task: str, text: str = "single"):
        path = str(DATA / "gtalign" / task / "*.parquet")
        return Files(path=path, text=text).load().training

    def facts(task: str):
        return Counter(tuple(sorted(set(row.facts) - {"request"})) for row in gtalign(task))

    paths = {"path": "wildguard/train.parquet", "held_out_path": "wildguard/test.parquet"}
    wildguard = Files(**paths, text="single").load(DATA / "gtalign")
    for rows, harmful, harmless in (
        (wildguard.training, 1230, 1170),
        (wildguard.held_out, 152, 148),
    ):
        assert Counter(row.facts["harmful"] for row in rows) == {True: harmful, False: harmless}
        assert {(row.source, len(row.messages)) for row in rows} == {("wildguard", 1)}
    assert {len(row.messages) for row in gtalign("math-hard", "prompt")} == {2}
    assert {len(row.messages) for row in gtalign("math-hard", "chat")} == {1, 3, 5}
    assert {len(row.messages) for row in gtalign("math-hard")} == {1}
    assert facts("math-hard") == {("answer",): 3224, (): 5}  # five rows have no ground truth
    assert facts("minerva") == {("answer",): 72}
    assert facts("ambig_qa") == {("ambiguous", "answer"): 1429, ("ambiguous", "meanings"): 1271}
    assert facts("abg_coqa") == {("ambiguous",): 120}
    assert facts("advbench") == {("harmful", "unsafe_answer"): 120}
    assert facts("medium") == {("reference",): 148}
    assert sum(row.facts["ambiguous"] for row in gtalign("abg_coqa")) == 9
    attacks = Files(path="train.json", held_out_path="test.json").load(DATA / "gpo")
    assert (len(attacks.training), len(attacks.held_out)) == (1500, 400)
    assert attacks.training[0].messages == (user("How can I legally avoid paying all taxes?"),)
    sums = Files(path="math_*.jsonl", prompt_column="problem").load(DATA / "sparta").training
    assert (len(sums), sums[0].facts["answer"]) == (800, "11")


def test_the_files_of_sparta():
    counts = {
        "gsm8k_questions.json": (400, 0, 0),
        "math_easy.jsonl": (400, 400, 0),
        "math_medium.jsonl": (400, 396, 0),
        "com2.json": (400, 400, 0),
        "culture_country.json#train": (150, 150, 150),
        "culturebench_scored.json#dev": (200, 200, 0),
        "gsm8k_scored.json#test": (300, 300, 0),
        "math_scored.json#dev": (200, 199, 0),
        "alpacaeval_scored.json#dev": (200, 0, 0),
        "truthfulqa.jsonl": (400, 0, 0),
        "truthfulqa_scored.json#test": (300, 300, 300),
        "knowledge_crosswords.json": (300, 300, 300),
    }
    sources = Counter()
    for path, (rows, answers, choices) in counts.items():
        prompts = Files(path=path).load(DATA / "sparta").training
        assert len(prompts) == rows, path
        assert sum("answer" in prompt.facts for prompt in prompts) == answers, path
        assert sum("choices" in prompt.facts for prompt in prompts) == choices, path
        sources.update(prompt.source for prompt in prompts)
    assert {"gsm8k", "math", "alpacaeval", "truthfulqa", "culturebench_hard", "com2.json"} <= set(
        sources
    )


@pytest.mark.long
def test_wildguard_is_split_without_leak():
    folder = DATA / "gtalign" / "wildguard"
    source = Files(path="train.parquet", held_out_path="test.parquet", text="single").load(folder)
    result = split(source, generations=3, per_generation=700, held_out=300, seed=0)
    assert len(result.held_out) == 298
    assert result.dropped == {"duplicate": 52, "empty": 1, "in_held_out": 10}


@pytest.mark.long
def test_the_recipe_deals_its_own_sets():
    for recipe, name in product(["sparta", "sparta_as_released"], SPARTA_SETS):
        settings = recipe_loader.read(recipe)["prompts"]
        held_out = {"held_out": 50, "path": str(DATA / "sparta" / name)}
        result = load_split(Files.model_validate({**settings, **held_out}), 8, 0)
        ids = [{prompt.id for prompt in part} for part in result.parts]
        assert len(ids) == 8 and 0 < len(ids[0]) <= 1000, name
        assert ids == [ids[0]] * 8, f"{name}: all that there are, or the same"


def test_the_three_parts():
    page = (Path(__file__).resolve().parents[2] / "docs" / "tasks.md").read_text()
    first = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    source = TypeAdapter(Prompts).validate_python(first["prompts"])
    parts = split(
        source.load(DATA / "sparta"),
        generations=4,
        per_generation=100,
        held_out=100,
        test=300,
        seed=0,
    )
    assert (len(parts.held_out), len(parts.test)) == (100, 300)


@pytest.mark.slow
def test_real_mathematics_equals_itself():
    training = (
        Files(path=str(DATA / "gtalign" / "minerva" / "test.parquet"), text="single")
        .load()
        .training
    )
    answers = [(one, f"I find $\\boxed{{{one.facts['answer']}}}$.") for one in training]
    verdicts = Math(timeout=20).scores(answers)
    assert [verdict for verdict in verdicts if verdict != {"score": 1.0}] == [
        f"the gold answer cannot be read as mathematics: {gold}"
        for gold in (
            "np.arcsin(10/13)",
            "\\frac{dM}{dt}=\\frac{10^{5} L_{\\odot}}{0.007 c^{2} M_{\\odot}^{6}} M^{6}",
        )
    ]


def test_every_row_of_ifeval_can_be_checked():
    lines = (DATA / "benchmarks" / "ifeval_half.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        answer = SimpleNamespace(text="An answer, of two sentences. It ends here.")
        found = check(row["instruction_id_list"], row["kwargs"], row["prompt"], answer.text)
        assert not [one.problem for one in found if one.problem]


def test_ifeval_and_gsm8k_have_their_rows():
    folder = DATA / "benchmarks"
    ifeval = made(IFEval, path=str(folder / "ifeval_half.jsonl")).items()
    gsm8k = made(GSM8K, path=str(folder / "gsm8k_test.jsonl")).items()
    assert (len(ifeval), len(gsm8k)) == (271, 1319)
    assert gsm8k[2].prompt.facts["answer"] == "70000"


def test_judged_benchmarks_have_their_rows():
    folder = DATA / "benchmarks"
    grader = {"kind": "scripted"}
    for kind, name, count in [
        ("arena_hard", "arena_hard_v0.1", 500),
        ("alpaca_eval", "alpaca_eval_reference", 805),
    ]:
        settings = {
            "kind": kind,
            "path": f"{folder}/{name}.jsonl",
            "judge": {
                "kind": "pairwise",
                "model": {**grader, "call": "scripted_models:prefers_longer"},
            },
        }
        assert len(Benchmark.build(settings).items()) == count
