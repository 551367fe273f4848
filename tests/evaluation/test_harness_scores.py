"""Scores that other harnesses and official judges wrote, as they wrote them."""

import json
import math
import os
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.harnesses.base import READERS, estimate_of, read_scores
from equipoise.evaluation.harnesses.official_judges import alpaca_eval_models
from equipoise.payoffs.intervals import from_standard_error, mean_interval


@pytest.fixture
def write(tmp_path):
    """write("a/b.json", value): as JSON, a list of rows as JSONL, a text as it is."""

    def to(name: str, value) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            value = "".join(json.dumps(row) + "\n" for row in value)
        path.write_text(value if isinstance(value, str) else json.dumps(value))
        return path

    return to


# -- a mean with its standard error


@pytest.mark.parametrize("values", [[0, 1, 1, 1], [0.2, 0.9, 0.4, 0.7, 0.5]])
def test_a_standard_error_gives_the_interval_that_the_values_give(values):
    mean, n = sum(values) / len(values), len(values)
    se = math.sqrt(sum((v - mean) ** 2 for v in values) / (n - 1) / n)
    twice = [v for v in values for _ in range(2)]  # clusters, so that none is plain
    clusters = [i for i in range(n) for _ in range(2)]
    expected = mean_interval(twice, clusters, share=True)
    found = from_standard_error(mean, se, n, share=True)
    assert found.low == pytest.approx(expected.low)
    assert found.high == pytest.approx(expected.high)
    wide = from_standard_error(mean, se, n)
    by_t = mean_interval([10 * v + 3 for v in values])
    assert 10 * wide.low + 3 == pytest.approx(by_t.low)


def test_without_a_standard_error_there_is_no_interval():
    for se in (None, math.nan):
        assert math.isnan(from_standard_error(0.5, se, 10, share=True).low)
    assert math.isnan(from_standard_error(0.5, 0.1, 1).low)
    assert math.isnan(from_standard_error(5.0, 0.0, 10).low)  # no spread claimed
    assert 0.6 < from_standard_error(1.0, 0.0, 10, share=True).low < 0.8  # Wilson's


# -- lm-eval

LM_EVAL = {
    "results": {
        "colours": {
            "alias": "colours",
            "sample_len": 4,
            "acc,none": 0.75,
            "acc_stderr,none": 0.25,
            "perplexity,none": 12.5,
            "perplexity_stderr,none": "N/A",
        }
    },
    "versions": {"colours": 1.0},
    "n-shot": {"colours": 2},
    "n-samples": {"colours": {"original": 40, "effective": 4}},
    "higher_is_better": {"colours": {"acc": True, "perplexity": False}},
    "config": {"model": "hf", "limit": 4.0, "model_dtype": "torch.float32"},
    "lm_eval_version": "0.4.13",
}
SAMPLES = [
    {
        "doc_id": i,
        "filter": "none",
        "metrics": ["acc"],
        "acc": value,
        "doc_hash": f"d{i}",
        "prompt_hash": f"p{i}",
    }
    for i, value in enumerate([1.0, 0.0, 1.0, 1.0])
]


def test_results_of_lm_eval(write):
    [(result, items)] = read_scores(write("results_now.json", LM_EVAL), "lm_eval")
    assert result.source == "lm_eval 0.4.13"
    assert result.name == "colours"
    assert result.headline == "acc"
    assert result.n == 4
    acc = result.metrics["acc"]
    assert acc.mean == 0.75
    assert acc.low is not None
    assert 0 < acc.low < 0.75
    assert result.metrics["perplexity"].low is None
    assert result.lower_is_better == ("perplexity",)
    assert result.settings["standard_errors"] == {"acc": 0.25}
    assert result.settings["shots"] == 2
    assert result.settings["limit"] == 4.0
    assert not items
    assert not result.key


def test_samples_beside_the_results_make_them_comparable(write):
    path = write("results_now.json", LM_EVAL)
    write("samples_colours_now.jsonl", SAMPLES)
    [(first, items)] = read_scores(path, "lm_eval")
    assert [row.values for row in items] == [{"acc": s["acc"]} for s in SAMPLES]
    better = {**LM_EVAL, "results": {"colours": {"acc,none": 1.0}}}
    all_right = [{**row, "acc": 1.0} for row in SAMPLES]
    other = write("later/results_then.json", better)
    write("later/samples_colours_then.jsonl", all_right)
    [(second, _)] = read_scores(other, "lm_eval")
    assert first.key == second.key != ""
    write("later/samples_colours_then.jsonl", [{**SAMPLES[0], "prompt_hash": "q"}])
    assert read_scores(other, "lm_eval")[0].result.key != first.key


def test_a_filter_names_its_metric_and_a_group_has_its_tasks(write):
    part = {"exact_match,strict-match": 0.5, "exact_match_stderr,strict-match": 0.1}
    document = {
        "results": {"all": part, "a": part, "b": part},
        "groups": {"all": part},
        "group_subtasks": {"all": ["a", "b"]},
        "n-samples": {name: {"effective": 25} for name in "ab"},
    }
    [(result, _)] = read_scores(write("results_1.json", document), "lm_eval")
    assert result.name == "all"
    assert result.n == 50
    assert result.headline == "exact_match,strict-match"
    assert set(result.groups) == {"a", "b"}
    assert result.groups["a"]["exact_match,strict-match"].n == 25


# -- EvalScope

REPORT = {
    "schema_version": 2,
    "dataset_name": "general_mcq",
    "model_name": "policy@2",
    "metrics": [
        {
            "identity": {"name": "accuracy", "aggregation": "mean", "dimensions": {}},
            "num": 3,
            "score": 0.6667,
            "categories": [{"name": ["default"], "subsets": [{"name": "colours", "num": 3}]}],
            "semantics": {"direction": "higher_is_better"},
        }
    ],
}


def test_a_report_of_evalscope_with_its_reviews(write):
    path = write("out/reports/policy@2/general_mcq.json", REPORT)
    [(alone, items)] = read_scores(path, "evalscope")
    assert alone.source == "evalscope of unknown version"
    assert not items
    assert alone.metrics["accuracy"].mean == 0.6667
    assert alone.metrics["accuracy"].low is None
    write("out/configs/task_config.yaml", "evalscope_version: 1.14.1\n")
    reviews = [
        {"sample_score": {"sample_id": i, "score": {"value": {"accuracy": value}}}}
        for i, value in enumerate([1.0, 0.0, 1.0])
    ]
    write("out/reviews/policy@2/general_mcq_colours.jsonl", reviews)
    [(result, items)] = read_scores(path, "evalscope")
    assert result.source == "evalscope 1.14.1"
    assert len(items) == 3
    accuracy = result.metrics["accuracy"]
    assert accuracy.mean == pytest.approx(2 / 3)
    assert accuracy.low is not None


def test_reviews_may_call_the_main_metric_otherwise(write):
    def metric(statistic, score):
        shape = {"statistic": statistic, "variant": "l"}
        identity = {"name": "rouge", "aggregation": "mean", "dimensions": shape}
        subsets = [{"name": "qa", "num": 2}]
        categories = [{"name": ["default"], "subsets": subsets}]
        values = {"num": 2, "score": score, "categories": categories}
        return {"identity": identity, **values}

    metrics = [metric("precision", 0.3), metric("recall", 0.5)]
    primary = {"primary_metric_identity": metrics[1]["identity"]}
    path = write("o/reports/m/qa.json", {**REPORT, "metrics": metrics, **primary})
    reviews = [
        {
            "sample_score": {
                "sample_id": i,
                "score": {"value": {"Rouge-L-R": i}, "main_score_name": "Rouge-L-R"},
            }
        }
        for i in range(2)
    ]
    write("o/reviews/m/qa_qa.jsonl", reviews)
    [(result, items)] = read_scores(path, "evalscope")
    assert result.headline == "rouge,statistic=recall,variant=l"
    assert result.score.low is not None
    assert [row.values for row in items] == [{result.headline: i} for i in range(2)]


def test_a_report_of_evalscope_of_the_first_form(write):
    old = {"name": "AverageAccuracy", "num": 5, "score": 0.4, "categories": []}
    report = {"dataset_name": "arc", "model_name": "m", "metrics": [old]}
    [(result, _)] = read_scores(write("arc.json", report), "evalscope")
    assert result.headline == "AverageAccuracy"
    assert result.score.mean == 0.4


# -- Inspect

LOG = {
    "version": 2,
    "status": "success",
    "eval": {
        "task": "capitals",
        "model": "openai-api/equipoise/policy@2",
        "packages": {"inspect_ai": "0.3.285"},
        "config": {"epochs": 1},
    },
    "results": {
        "total_samples": 4,
        "completed_samples": 4,
        "scores": [
            {
                "name": "match",
                "scorer": "match",
                "scored_samples": 4,
                "unscored_samples": 0,
                "metrics": {
                    "accuracy": {"name": "accuracy", "value": 0.75},
                    "stderr": {"name": "stderr", "value": 0.25},
                },
            }
        ],
    },
}


def test_a_log_of_inspect(write):
    [(result, items)] = read_scores(write("log.json", LOG), "inspect")
    assert result.source == "inspect 0.3.285"
    assert result.name == "capitals"
    assert result.headline == "match/accuracy"
    assert result.n == 4
    assert not items
    by_error = result.score
    assert by_error.mean == 0.75
    assert by_error.low is not None
    samples = [{"sample_id": i, "value": float(i > 0)} for i in range(4)]
    more = {**LOG, "reductions": [{"scorer": "match", "samples": samples}]}
    [(result, items)] = read_scores(write("more.json", more), "inspect")
    assert [row.values["match/accuracy"] for row in items] == [0.0, 1.0, 1.0, 1.0]
    assert result.score.mean == 0.75
    assert result.key


def zstandard_zip(path: Path, members: dict[str, str]) -> Path:
    """A ZIP archive packed by Zstandard, which the standard library cannot write: stored members,
    whose method and size are put right in both headers.
    """
    packed = {
        name: pa.compress(text.encode(), "zstd", asbytes=True) for name, text in members.items()
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in packed.items():
            archive.writestr(name, content)
    content = bytearray(path.read_bytes())
    for mark, method, size in ((b"PK\x03\x04", 8, 22), (b"PK\x01\x02", 10, 24)):
        place = -1
        for text in members.values():
            place = content.index(mark, place + 1)
            struct.pack_into("<H", content, place + method, 93)
            struct.pack_into("<I", content, place + size, len(text.encode()))
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("packed", ["deflate", "zstandard"])
def test_an_eval_log_of_inspect_is_read_as_it_lies_on_disk(tmp_path, packed):
    samples = [{"sample_id": i, "value": float(i > 0)} for i in range(4)]
    members = {
        "header.json": json.dumps(LOG),
        "reductions.json": json.dumps([{"scorer": "match", "samples": samples}]),
    }
    path = tmp_path / "log.eval"
    if packed == "zstandard":
        zstandard_zip(path, members)
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in members.items():
                archive.writestr(name, text)
    [(result, items)] = read_scores(path, "inspect")
    assert result.name == "capitals"
    assert result.score.mean == 0.75
    assert [row.values["match/accuracy"] for row in items] == [0.0, 1.0, 1.0, 1.0]


def test_an_inspect_log_that_did_not_end_is_refused(write, tmp_path):
    unfinished = write("log.json", {**LOG, "status": "error", "results": None})
    with pytest.raises(DataError, match="its status is 'error'"):
        read_scores(unfinished, "inspect")
    with pytest.raises(DataError, match="is not a log of Inspect"):
        read_scores(write("log.eval", "PK"), "inspect")
    path = tmp_path / "under_way.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", "{}")
    with pytest.raises(DataError, match="did not end"):
        read_scores(path, "inspect")


def test_prompts_that_did_not_fit_are_noted(write):
    outputs = [{"choices": [{"stop_reason": end}]} for end in ("stop", "model_length")]
    said = "1 of 2 prompts left no room"
    log = {**LOG, "samples": [{"output": output} for output in outputs]}
    assert said in read_scores(write("log.json", log), "inspect")[0].result.note
    path = write("out/reports/policy@2/general_mcq.json", REPORT)
    rows = [{"model_output": output} for output in outputs]
    write("out/predictions/policy@2/general_mcq_colours.jsonl", rows)
    assert said in read_scores(path, "evalscope")[0].result.note
    assert not read_scores(write("fit.json", LOG), "inspect")[0].result.note


# -- official judges


def annotation(number: int, preference: float | None, model: str = "policy@2") -> dict:
    return {
        "instruction": f"instruction {number}",
        "output_1": "a",
        "generator_1": "gpt4_1106_preview",
        "output_2": "b",
        "generator_2": model,
        "annotator": "weighted_alpaca_eval_gpt4_turbo",
        "preference": preference,
    }


def test_annotations_of_alpaca_eval_with_the_leaderboard_beside(write):
    rows = [annotation(i, p) for i, p in enumerate([1.0, 2.0, 1.5, 0, 1.25, None])]
    path = write("annotations.json", rows)
    [(result, _)] = read_scores(path, "alpaca_eval")
    assert result.headline == "win_rate"
    assert result.unscored == 1
    assert result.score.mean == pytest.approx((0 + 1 + 0.5 + 0.5 + 0.25) / 5)
    assert result.judge == "weighted_alpaca_eval_gpt4_turbo"
    assert result.source == "alpaca_eval"
    assert result.asks_a_model
    board = (
        ",win_rate,standard_error,n_total,length_controlled_winrate,lc_standard_error\n"
        "other,1,1,805,1,1\n"
        "policy@2,45.0,1.7,805,50.5,0.9\n"
    )
    official = write("leaderboard.csv", board)
    [(result, _)] = read_scores(path, "alpaca_eval")
    assert result.headline == "length_controlled_win_rate"
    assert result.score.mean == pytest.approx(0.505)
    assert result.metrics["win_rate"].mean == pytest.approx(0.45)  # of the annotations
    with pytest.raises(DataError, match="name one: --model"):
        read_scores(official, "alpaca_eval")
    [(result, _)] = read_scores(official, "alpaca_eval", "policy@2")
    low, high = result.metrics["win_rate"].low, result.metrics["win_rate"].high
    assert low == pytest.approx(0.45 - 1.96 * 0.017, abs=2e-3)
    assert high == pytest.approx(0.45 + 1.96 * 0.017, abs=2e-3)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"generator_1": "gpt-4o"}, r"several reference models \(gpt-4o, gpt4_1106_preview\)"),
        ({"annotator": "claude"}, r"several annotators \(claude, weighted_alpaca_eval"),
        ({"instruction": "instruction 0"}, r"2 answers of 'policy@2' to one instruction"),
    ],
)
def test_annotations_of_alpaca_eval_that_are_not_one_win_rate_are_refused(write, changes, message):
    path = write("annotations.json", [annotation(0, 1.0), annotation(1, 2.0) | changes])
    with pytest.raises(DataError, match=message):
        read_scores(path, "alpaca_eval")
    both = [annotation(0, 1.0), annotation(1, 2.0, "other") | changes]
    assert len(read_scores(write("annotations.json", both), "alpaca_eval", "policy@2")) == 1


def test_annotations_of_several_models_are_read_once_for_all(write, monkeypatch):
    rows = [annotation(i, 1.0 + i / 4, name) for i in range(4) for name in ("a", "b", "c")]
    path = write("annotations.json", [*rows, annotation(9, 1.0, "b")])
    columns = ",win_rate,standard_error,n_total,length_controlled_winrate,lc_standard_error"
    write("leaderboard.csv", f"{columns}\na,45.0,1.7,805,50.5,0.9\n")
    opened = []
    read = Path.read_text

    def counted(place, *given, **options):
        opened.append(place.name)
        return read(place, *given, **options)

    monkeypatch.setattr(Path, "read_text", counted)
    found = {name: scores.result for name, scores in alpaca_eval_models(path)}
    assert opened == ["annotations.json", "leaderboard.csv"]
    assert {name: result.n for name, result in found.items()} == {"a": 4, "b": 5, "c": 4}
    assert found["a"].score.mean == pytest.approx(0.505)
    assert found["b"].score.mean == pytest.approx((0.25 + 0.5 + 0.75) / 5)
    assert [name for name, _ in alpaca_eval_models(path, "c")] == ["c"]
    assert found["b"] == read_scores(path, "alpaca_eval", "b")[0].result


def test_judgements_of_arena_hard_count_strong_verdicts_three_times(write):
    def row(number, first, second):
        games = [{"score": first}, {"score": second}]
        judged = {"model": "policy@2", "judge": "gpt-4.1", "games": games}
        return {"uid": f"q{number}", "category": "hard_prompt", **judged}

    path = write(
        "policy@2.jsonl", [row(1, "B>>A", "A>B"), row(2, "A>B", "A=B"), row(3, None, "A>B")]
    )
    [(result, items)] = read_scores(path, "arena_hard")
    # The model is B in the first game and A in the second.
    assert [item.values["win_rate"] for item in items] == [1, 1, 1, 1, 0.5, 0, None]
    assert result.score.mean == pytest.approx(4.5 / 6)
    assert result.n == 3
    assert result.unscored == 1
    assert result.judge == "gpt-4.1"


def test_judgements_of_mt_bench(write):
    def single(question, turn, score, model="policy@2"):
        judge = ["gpt-4", "single-v1"]
        return {
            "question_id": question,
            "model": model,
            "judge": judge,
            "turn": turn,
            "score": score,
        }

    path = write(
        "gpt-4_single.jsonl",
        [single(81, 1, 8), single(81, 2, 6), single(82, 1, 4), single(82, 2, -1)],
    )
    [(result, items)] = read_scores(path, "mt_bench")
    assert result.score.mean == 6
    assert result.metrics["turn_1"].mean == 6
    assert result.metrics["turn_2"].mean == 6
    assert result.unscored == 1
    assert result.n == 2
    assert len(items) == 4

    def paired(question, first, second):
        return {
            "question_id": question,
            "model_1": "policy@2",
            "model_2": "gpt-3.5-turbo",
            "g1_winner": first,
            "g2_winner": second,
            "judge": ["gpt-4", "pair-v2"],
            "turn": 1,
        }

    path = write(
        "gpt-4_pair.jsonl",
        [
            paired(81, "model_1", "model_1"),
            paired(82, "model_1", "model_2"),
            paired(83, "model_2", "model_2"),
            paired(84, "error", "model_1"),
        ],
    )
    with pytest.raises(DataError, match="several models"):
        read_scores(path, "mt_bench")
    [(result, _)] = read_scores(path, "mt_bench", "policy@2")
    assert result.score.mean == 0.5
    assert result.unscored == 1
    [(other, _)] = read_scores(path, "mt_bench", "gpt-3.5-turbo")
    assert other.score.mean == 0.5


# -- what is no such file


@pytest.mark.parametrize("source", READERS)
@pytest.mark.parametrize("text", ["", "not JSON", "[1]", "{}", '{"results": 3}', "[" * 9999])
def test_a_file_of_another_kind_gets_one_clear_message(write, source, text):
    path = write("scores.json", text)
    with pytest.raises(DataError) as error:
        read_scores(path, source)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_an_unknown_source_and_a_missing_file(tmp_path):
    with pytest.raises(ConfigError, match="lm_eval"):
        read_scores(tmp_path, "lm_evil")
    with pytest.raises(DataError, match="there is no such file"):
        read_scores(tmp_path / "none.json", "lm_eval")


def test_a_mean_between_0_and_1_is_a_share_where_its_error_can_be_one():
    """Of 5 shares the standard error is at most √(p(1 − p)/4)."""
    assert estimate_of(0.9, 0.15, 5).high < 1 < estimate_of(0.9, 0.2, 5).high
    assert estimate_of(1.5, 0.1, 5).high > 1.5
    assert estimate_of("n/a", 0.1, 5).mean is None


@pytest.mark.long
@pytest.mark.parametrize("n", [2, 3, 10, 50])
def test_an_error_is_of_a_share_where_n_values_can_have_it(n):
    """Zeros and ones have the largest error; a larger one is of another unit."""
    for ones in range(1, n):
        mean = ones / n
        largest = math.sqrt(mean * (1 - mean) / (n - 1))
        share = estimate_of(mean, largest, n)
        assert share.low is not None
        assert share.high is not None
        assert 0 <= share.low < mean < share.high <= 1
        other = estimate_of(mean, 1.01 * largest, n)
        assert other.low is not None
        assert other.high is not None
        assert other.high - mean == pytest.approx(mean - other.low)


@pytest.mark.long
def test_without_the_neighbours_a_reader_of_theirs_says_what_to_install(write):
    path = write("scores.json", {})
    code = (
        "import sys; from pathlib import Path\n"
        "from equipoise.evaluation.harnesses.base import read_scores\n"
        "read_scores(Path(sys.argv[1]), 'evalscope')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert "ConfigError: this needs Equipoise's neighbours: pip install ./neighbours" in done.stderr
