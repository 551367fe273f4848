"""`equipoise evaluate` and sets in recipes: what is asked, recorded, shown and refused."""

import json
from pathlib import Path
from types import SimpleNamespace

import counting_players
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from openai_server import Say
from small_runs import quickstart

import equipoise
from equipoise.api.measure_sets import discard_unused, run_for_model
from equipoise.errors import ConfigError, DataError, NoSignal, RunError
from equipoise.evaluation.sets.prompt_set import PromptSet
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import BenchmarkResult, Item, ItemScores
from equipoise.planning.new_run import new_run
from equipoise.prompts.row_prompts import Prompt
from equipoise.runs import recipe_loader
from equipoise.runs.choosing import best_so_far
from equipoise.runs.directory import RunDirectory
from equipoise.runs.named_sets import results as benchmarks
from equipoise.runs.named_sets.measure_set import _judge_context
from equipoise.runs.named_sets.recorded_answers import answers_of
from equipoise.runs.named_sets.set_plan import plan_sets
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId, user

SUMS = [("1+1", "2"), ("2+3", "5"), ("4+4", "8"), ("3+9", "12")]


def write(path, rows):
    lines = [json.dumps({"prompt": text, "answer": answer}) for text, answer in rows]
    path.write_text("\n".join(lines))


@pytest.fixture
def sums(tmp_path, monkeypatch):
    """A file of sums; nothing was asked yet."""
    monkeypatch.chdir(tmp_path)
    counting_players.ASKED.clear()
    write(tmp_path / "sums.jsonl", SUMS)
    return "sums.jsonl"


def nobody_learns(**more):
    """Two players that stay as they are: one adds, one guesses."""
    return {
        "name": "two players",
        "generations": 0,
        "players": {
            "adds": {"kind": "scripted", "call": "counting_players:adds"},
            "guesses": {"kind": "scripted", "call": "counting_players:guesses"},
        },
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "exact",
        "evaluate": "sets",
        **more,
    }


@pytest.fixture
def run(sums):
    return equipoise.run(nobody_learns(), out="two", progress=False)


def asked():
    """How often somebody was asked since the last time."""
    count = len(counting_players.ASKED)
    counting_players.ASKED.clear()
    return count


def scores(results):
    return {result.player: result.score.mean for result in results}


# -- asking and recording


def test_what_is_recorded_is_not_asked_again(run, sums):
    first = run.evaluate(sums, judge="exact", progress=False)
    assert asked() == 2 * len(SUMS)
    assert scores(first) == {"adds@0": 1.0, "guesses@0": 0.0}
    assert run.evaluate(sums, judge="exact", progress=False) == first
    assert not asked()
    # Another name and another judge read the recorded answers.
    other = run.evaluate(f"other={sums}", judge="shorter", progress=False)
    assert scores(other) == {"adds@0": -1.25, "guesses@0": -1.0}
    assert not asked()
    # Of a file that grew, only what is new.
    write(run.path.parent / "more.jsonl", [*SUMS, ("6+1", "7")])
    grown = run.evaluate("more.jsonl", judge="exact", progress=False)
    assert asked() == 2
    assert scores(grown) == {"adds@0": 1.0, "guesses@0": 0.2}


def test_other_facts_are_judged_anew(run, sums):
    run.evaluate(sums, judge="exact", progress=False)
    asked()
    write(run.path.parent / sums, [(text, "7") for text, _ in SUMS])
    again = run.evaluate(sums, judge="exact", progress=False)
    assert not asked()
    assert scores(again) == {"adds@0": 0.0, "guesses@0": 1.0}


def test_samples_limit_and_players(run, sums):
    [result] = run.evaluate(sums, "adds", "exact", {"samples": 3, "limit": 2}, progress=False)
    assert asked() == 6
    assert (result.n, result.answers, result.player) == (2, 6, "adds@0")


def test_answers_are_read_again_as_they_were_measured_or_not_at_all(run, sums):
    [result] = run.evaluate(sums, "adds", "exact", {"samples": 2}, progress=False)
    with RunDirectory.read(run.path) as directory:
        items, answers = answers_of(directory, result)
        texts = {
            item.prompt.messages[-1].content: [answer.moves[0].text for answer in answers[item.id]]
            for item in items
        }
        assert texts == {text: [answer] * 2 for text, answer in SUMS}
        samples = [answer.sample for of_item in answers.values() for answer in of_item]
        assert samples == [0, 1] * len(SUMS)
        more = replace(result, settings={**result.settings, "samples": 3})
        with pytest.raises(RunError, match="prompts: 4 of 12 answers of adds@0 are not recorded"):
            answers_of(directory, more)


@pytest.mark.parametrize(
    ("judge", "more", "questions"),
    [
        ({"kind": "rubric", "samples": 3}, {}, 3 * 4),  # a grade an answer
        ({"kind": "rubric"}, {"samples": 2}, 2 * 4),
        ({"kind": "pairwise"}, {"reference": "answer"}, 2 * 4),  # both orders
        ("exact", {}, 0),
    ],
)
def test_a_plan_counts_the_questions_to_a_set_s_judge(sums, judge, more, questions):
    if isinstance(judge, dict):
        judge = {**judge, "model": {"kind": "scripted", "text": "5"}}
    given = {"kind": "prompts", "prompts": sums, "judge": judge, **more}
    evaluate = {"kind": "sets", "sets": {"sums": given}}
    [plan] = plan_sets(recipe_loader.build(nobody_learns(evaluate=evaluate), "test"), 3)
    assert plan.questions == 2 * questions  # of two players, whose start is measured once
    assert plan.answers == 2 * 4 * more.get("samples", 1)


@pytest.mark.parametrize("sources", [("a", "a"), ("a", "b")], ids=["one", "two"])
def test_scores_are_grouped_where_prompts_have_several_sources(sources):
    benchmark = PromptSet.model_validate({"prompts": "blank", "judge": "exact"})
    items = [
        Item(id=str(n), prompt=Prompt(str(n), (user("?"),)), group=source)
        for n, source in enumerate(sources)
    ]
    judged = [
        SimpleNamespace(
            question=SimpleNamespace(item="0", sample=1), utilities={"score": 1.0}, reason=""
        ),
        SimpleNamespace(
            question=SimpleNamespace(item="1", sample=0), utilities=None, reason="mute"
        ),
        SimpleNamespace(question=SimpleNamespace(item="1", sample=1), utilities=None, reason=""),
    ]
    rows = benchmark.score(items, {}, judged)
    assert [row.group for row in rows] == ["", "", ""] if sources[1] == "a" else ["a", "b", "b"]
    assert [(row.item, row.sample) for row in rows] == [("0", 1), ("1", 0), ("1", 1)]
    assert [row.values["score"] for row in rows] == [1.0, None, None]
    assert [row.reason for row in rows] == ["", "mute", "no score"]


def test_a_sweep_is_one_table(run, sums):
    results = run.evaluate(
        sums,
        "guesses",
        {"kind": "exact", "tolerance": 0},
        sweep={"judge.tolerance": [0, 0.5, 3]},
        progress=False,
    )
    assert asked() == len(SUMS)  # one judge after another reads the same answers
    assert [result.score.mean for result in results] == [0.0, 0.75, 1.0]
    page = run.report().read_text()
    assert "judge.tolerance = 0.5" in page


def test_a_comparing_judge_meets_the_data_s_answers_or_the_start(run, sums):
    judge = "counting_players:Larger"
    given = {"prompts": sums, "reference": "answer"}
    [result] = run.evaluate(given, "guesses", judge, progress=False)
    # 7 is larger than 2 and 5, and smaller than 8 and 12.
    assert result.headline == "win_rate"
    assert result.score.mean == 0.5
    # No player is better than itself: equal texts are a tie, without a question.
    [start] = run.evaluate(sums, "adds", judge, progress=False)
    assert start.score.mean == 0.5


def test_a_game_s_rules_may_ask(run, sums):
    settings = {"game": {"kind": "answers", "samples": 2}}
    [result] = run.evaluate(sums, "adds", "exact", settings, progress=False)
    assert result.answers == 2 * len(SUMS)
    assert result.score.mean == 1.0


def test_further_turns_are_asked_below_the_answers(run):
    from equipoise.api.measure_sets import measure_sets
    from equipoise.evaluation.sets.prompt_set import PromptSet
    from equipoise.runs.monitor import Silent

    class TwoTurns(PromptSet):
        def load(self):
            prompt = Prompt("p", (user("1+1"),), {"answer": "more"})
            return [Item(id="p", prompt=prompt, turns=("more",))]

    turns = TwoTurns.model_validate({"prompts": "unread.jsonl", "judge": "exact"})
    with RunDirectory.open(run.path) as opened:
        [result] = measure_sets(opened, [PlayerId("adds")], {"turns": turns}, Silent())
    assert counting_players.ASKED == [("1+1",), ("1+1", "2", "more")]
    assert result.score.mean == 1.0


# -- what is shown


@pytest.mark.long
def test_results_are_in_status_frame_export_and_report(run, sums):
    run.evaluate(sums, judge="exact", progress=False)
    labels = [line["label"] for line in run.status()["headlines"]]
    assert labels == ["sums (score) of adds@0", "sums (score) of guesses@0"]
    frame = run.benchmarks()
    assert list(frame["set"]) == ["sums", "sums"]
    assert list(frame["mean"]) == [1.0, 0.0]
    run.export("out")
    rows = pq.read_table("out/benchmark_items.parquet").to_pylist()
    assert len(rows) == 2 * len(SUMS)
    assert {row["value"] for row in rows} == {0.0, 1.0}
    assert pq.read_table("out/benchmarks.parquet").num_rows == 2
    page = run.report().read_text()
    assert 'id="benchmarks"' in page
    assert "sums (exact)" in page


def test_generations_are_compared_item_by_item_with_the_start(run):
    """Imported results, too."""

    def result(mean):
        estimate = Estimate(mean, 0.0, 1.0, 4)
        return BenchmarkResult(
            name="imported",
            benchmark="some_task",
            source="a harness 1.0",
            headline="acc",
            metrics={"acc": estimate},
            n=4,
            key="same items",
        )

    def items(*values):
        return [ItemScores(item=str(i), values={"acc": value}) for i, value in enumerate(values)]

    with RunDirectory.open(run.path) as opened:
        start, later = PlayerId("adds"), PlayerId("adds", 1)
        benchmarks.record(opened, start, result(0.25), items(0, 0, 1, 0))
        benchmarks.record(opened, later, result(0.5), items(1, 0, 1, None))
        benchmarks.record(opened, later, result(0.5), items(1, 0, 1, None))
        with pytest.raises(RunError, match="no player 'nobody'"):
            benchmarks.record(opened, PlayerId("nobody"), result(0.5))
    first, second = run.beside_start()
    assert first.start is None
    assert second.start == first.result
    difference = second.differences["acc"]  # of the three items that both have
    assert (difference.mean, difference.n) == (pytest.approx(1 / 3), 3)
    assert difference.low < 0 < difference.high  # t on 1, 0, 0


def test_no_name_among_players_stands_for_those_who_are_measured_by_default(run, sums):
    both = run.evaluate(sums, ["guesses@0", ""], "exact", progress=False)
    assert [result.player for result in both] == ["guesses@0", "adds@0"]


def test_a_start_measured_on_other_items_later_keeps_its_own(run):
    def result(mean, key):
        metrics = {"acc": Estimate(mean, mean, mean, 1)}
        settings = {"name": "a", "benchmark": "a", "source": "a harness 1.0", "headline": "acc"}
        return BenchmarkResult(**settings, metrics=metrics, n=1, key=key)

    with RunDirectory.open(run.path) as opened:
        for age, mean, key in ((0, 0.25, "all"), (1, 0.5, "all"), (0, 0.75, "few")):
            items = [ItemScores(item="i", values={"acc": mean})]
            benchmarks.record(opened, PlayerId("adds", age), result(mean, key), items)
    *_, later = run.beside_start()
    assert later.start.score.mean == 0.25
    assert later.differences["acc"].mean == 0.25


# -- sets in recipes


@pytest.mark.long
def test_a_recipe_measures_its_sets_and_chooses_by_a_dev_set(sums):
    evaluate = {"sets": {"sums": {"kind": "prompts", "prompts": sums, "judge": "exact"}}}
    with pytest.raises(ConfigError, match="'sums' is a test set"):
        equipoise.plan(nobody_learns(evaluate={"kind": "sets", "select_by": "sums", **evaluate}))
    with pytest.raises(ConfigError, match=r"'sum'.*'sums'"):
        equipoise.plan(nobody_learns(evaluate={"kind": "sets", "select_by": "sum", **evaluate}))
    evaluate["sets"]["sums"]["part"] = "dev"
    recipe = nobody_learns(
        prompts={"kind": "files", "path": sums, "held_out": 3},
        evaluate={"kind": "held_out", "samples": 1, "select_by": "sums", **evaluate},
    )
    [planned] = equipoise.plan(recipe).sets
    assert (planned.items, planned.answers) == (4, 8)
    assert not asked()
    run = equipoise.run(recipe, out="chosen", progress=False)
    facts = run.status()
    labels = {line["label"]: line["value"] for line in facts["headlines"]}
    assert "chosen: adds@0" in labels
    assert facts["finished"]
    frame = run.measures()
    assert dict(zip(frame["player"], frame["score"], strict=True)) == {
        "adds@0": 1.0,
        "guesses@0": 0.0,
    }
    assert "its score on sums" in run.report().read_text()


@pytest.mark.long
def test_players_that_do_not_learn_may_play_a_tournament(sums):
    recipe = nobody_learns(
        generations=2,
        prompts={"kind": "files", "path": sums, "per_generation": 1, "held_out": 1, "reuse": True},
        schedule="round_robin",
        game={"kind": "answers", "samples": 2},
        evaluate={"samples": 2},
    )
    run = equipoise.run(recipe, out="tournament", progress=False)
    assert run.status()["finished"]
    assert len(run.matches("train")) == 4
    ratings = run.ratings()
    last = ratings[(ratings["by"] == "matches") & (ratings["generation"] == 1)]
    assert list(last["name"]) == ["adds", "guesses"]


# -- what is refused


@pytest.mark.parametrize(
    ("on", "judge", "error", "message"),
    [
        ("absent.jsonl", "exact", DataError, "absent: .*no such file"),
        ("sums.jsonl", None, ConfigError, "'prompts'.*judge"),
        ("sums.jsonl", {"kind": "exact", "fact": "gold"}, ConfigError, "'exact' .*'gold'"),
        ("no_such_kind:NoSuch", "exact", ConfigError, "cannot import"),
        ({"kind": "gsm"}, None, ConfigError, "'gsm'.*'gsm8k'"),
        (["sums.jsonl", "sums.jsonl"], "exact", ConfigError, "two sets are called 'sums'"),
        (
            {"prompts": "sums.jsonl", "game": "red_team"},
            "exact",
            ConfigError,
            "has the roles adversary, defender",
        ),
        (
            {"prompts": "sums.jsonl", "reference": "gold"},
            "exact",
            DataError,
            "no text in the fact 'gold'",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(run, on, judge, error, message):
    with pytest.raises(error, match=message):
        run.evaluate(on, judge=judge, progress=False)
    assert not asked()


OWN_SET = """
from typing import ClassVar, Literal
from equipoise.evaluation.sets.base import Benchmark
from equipoise.ledger.item_scores import Item, ItemScores
from equipoise.types import Prompt, user

PROMPT = Prompt("p", (user("2+3"),))
ITEM = Item(id="a", prompt=PROMPT)
ROW = ItemScores(item="a", values={{"points": 1.0}})

class Own(Benchmark):
    kind: Literal["own"] = "own"
    {headline}

    def load(self):
        return {load}

    def score(self, items, answers, judged):
        return {score}
"""
GIVEN = {"headline": 'headline: ClassVar = "points"', "load": "[ITEM]", "score": "[ROW]"}


@pytest.mark.filterwarnings("ignore:Field name")  # of a headline that is written as a setting
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"headline": 'headline = "points"'},
            r"`headline = 'points'` without a type; write .*own.py, line",
        ),
        ({"headline": 'headline: str = "points"'}, "own.py:Own: its headline is None and must"),
        ({"headline": "def headline(self): return 1"}, "own.py:Own: its headline is <bound method"),
        (
            {"headline": 'headline: ClassVar = "score"'},
            "headline is 'score', and score gives points;",
        ),
        (
            {"load": "[ITEM, PROMPT]"},
            r"own.py:Own: load returned a list with Prompt\(.* in place 1; ",
        ),
        ({"load": "{'a': ITEM}"}, r"own.py:Own: load returned \{'a': Item.* \(dict\); it must"),
        ({"load": "[Item(id='a', prompt='2+3')]"}, r"an item whose prompt is '2\+3' \(str\); it"),
        ({"load": "[Item(id=7, prompt=PROMPT)]"}, r"an item whose id is 7 \(int\); it must"),
        (
            {"score": "{'points': [1.0]}"},
            r"own.py:Own: score returned \{'points': .* \(dict\); it must",
        ),
        (
            {"score": "[1.0]"},
            r"own.py:Own: score returned a list with 1.0 \(float\) in place 0; it",
        ),
        ({"score": "None"}, "own.py:Own: score returned None; it must"),
    ],
)
def test_a_set_of_ones_own_that_breaks_its_contract_is_named(run, tmp_path, wrong, message):
    (tmp_path / "own.py").write_text(OWN_SET.format(**GIVEN | wrong))
    with pytest.raises((ConfigError, DataError), match=message):
        run.evaluate("own.py:Own", "adds", progress=False)


def test_a_set_of_ones_own_is_named_by_its_file(run, tmp_path):
    (tmp_path / "sets").mkdir()
    (tmp_path / "sets" / "own.py").write_text(OWN_SET.format(**GIVEN))
    measured = run.evaluate("sets/own.py:Own", "adds", progress=False)
    assert [(result.name, result.score.mean) for result in measured] == [("Own", 1.0)]
    for file, message in (
        ("sets/own.py", "name the class in the file, as 'sets/own.py:Own'"),
        ("sets/none.py", "no such file"),
    ):
        with pytest.raises(ConfigError, match=f"--on {file}: .*{message}"):
            run.evaluate(file, "adds", progress=False)


def test_players_that_are_not_there(run, sums):
    with pytest.raises(RunError, match=r"'add'.*'adds'"):
        run.evaluate(sums, "add", "exact", progress=False)
    with pytest.raises(RunError, match=r"'3' of adds.* 0"):
        run.evaluate(sums, "adds@3", "exact", progress=False)


def test_a_set_of_which_nothing_is_scored_is_an_error(run, sums):
    judge = {"kind": "rubric", "model": {"kind": "scripted", "text": "no verdict"}}
    with pytest.raises(NoSignal, match=r"sums: no answer has a score\. 4 × "):
        run.evaluate(sums, "adds", judge, progress=False)


@pytest.mark.long
def test_a_model_s_run_is_used_again_for_the_same_model_alone(sums):
    with pytest.raises(DataError, match="no such file"):
        equipoise.evaluate("builtin", "absent.jsonl", "exact", out="model")
    first = equipoise.evaluate(
        "builtin", sums, "exact", out="model", player_settings={"max_new_tokens": 2}, progress=False
    )
    again = equipoise.evaluate(
        "builtin",
        sums,
        "exact",
        {"limit": 2},
        out="model",
        player_settings={"max_new_tokens": 2},
        progress=False,
    )
    assert again.path == first.path
    assert len(again.matches()) == len(SUMS)
    with pytest.raises(RunError, match="holds a run of other settings"):
        equipoise.evaluate("builtin", sums, "exact", out="model", progress=False)
    with pytest.raises(ConfigError, match="needs the model's name there"):
        equipoise.evaluate("http://127.0.0.1:9/v1", sums, "exact", progress=False)


def test_an_endpoint_is_asked_once(sums, openai_server):
    """Also where a set grows: what was answered is not paid for again."""
    openai_server.script(*(Say(answer) for _, answer in SUMS), Say("9"))
    player = {"model": "tiny", "concurrency": 1}
    address = openai_server.url

    def measured(on):
        run = equipoise.evaluate(
            address, on, "exact", out="paid", player_settings=player, progress=False
        )
        return run.beside_start()[-1].result.score.mean, len(openai_server.requests)

    assert measured(sums) == measured(sums) == (1.0, 4)
    write(Path("more.jsonl"), [*SUMS, ("4+5", "9")])
    assert measured("more.jsonl") == (1.0, 5)


def test_a_judges_dice_are_the_sets_own_whoever_is_judged(recorded_folder):
    def of_set(**settings):
        return PromptSet.model_validate({"prompts": "blank", "judge": "exact", **settings})

    with RunDirectory.read(recorded_folder("people")) as directory, OpenRun(directory) as run:

        def dice(benchmark):
            return _judge_context(run, benchmark).seed

        assert dice(of_set()) == dice(of_set(seed=0, samples=3)) == dice(of_set(judge="shorter"))
        assert len({dice(of_set(seed=seed)) for seed in range(5)}) == 5
        plain = _judge_context(run, of_set())
        assert plain.game.kind == of_set().game_played.kind
        played = _judge_context(run, of_set(game={"kind": "answers", "samples": 2}))
        assert played.game.kind == "answers"
        assert played.game.samples == 2
        own = dice(of_set())
        directory.config = directory.config.model_copy(update={"seed": directory.config.seed + 1})
        assert dice(of_set()) != own


def test_scores_of_a_harness_outlive_a_refused_command(tmp_path):
    place = run_for_model("builtin/beginner", tmp_path / "model", ())
    half = {"acc": Estimate(0.5, 0.4, 0.6, 10)}
    told = BenchmarkResult(
        name="arc", benchmark="arc", headline="acc", metrics=half, n=10, source="lm_eval 1"
    )
    with RunDirectory.open(place, trust=True) as run:
        benchmarks.record(run, PlayerId("model"), told)
    discard_unused(place)
    assert place.is_dir()


def test_whom_a_set_would_choose_keeps_its_weights(tmp_path):
    """And another measurement that is called so has no say."""
    asked = {"kind": "clerk_questions", "count": 40, "per_generation": 8, "held_out": 8}
    dev = {"kind": "prompts", "part": "dev", "judge": "clerk", "prompts": asked}
    chosen = {"evaluate__sets__dev": dev, "evaluate__select_by": "dev", "prompts__test": 8}
    config = quickstart(loss="dpo", keep=1, **chosen)
    own = config.evaluate.sets["dev"].settings()
    measured = [(0, 0.1, own), (1, 0.9, own), (2, 0.5, own), (2, 1.0, {})]
    with new_run(config, tmp_path / "run") as run:
        opened = OpenRun(run)
        assert best_so_far(opened) == set()
        for n, (age, mean, settings) in enumerate(measured):
            result = BenchmarkResult(
                name="dev",
                benchmark="prompts",
                player=f"policy@{age}",
                headline="score",
                metrics={"score": Estimate(mean, 0.0, 1.0, 8)},
                n=8,
                settings=settings,
                source="equipoise",
            )
            run.ledger.finish(f"benchmark/dev/{n}", age, "benchmark", result.facts(), 0.0)
        assert [str(player) for player in best_so_far(opened)] == ["policy@1"]


def test_a_set_that_is_asked_again_shows_what_it_had(run, sums):
    """Though another measurement has its name meanwhile."""
    first = run.evaluate(sums, judge="exact", settings={"limit": 2})
    run.evaluate(sums, judge="exact", settings={"limit": 1})
    again = run.evaluate(sums, judge="exact", settings={"limit": 2})
    assert scores(again) == scores(first)
    assert [row.result for row in run.beside_start(again)] == again


def test_an_edited_judge_judges_anew(run, sums, tmp_path):
    def judged(body):
        (tmp_path / "edited_judge.py").write_text(f"def mine(prompt, text):\n    return {body}\n")
        results = run.evaluate(sums, judge=str(tmp_path / "edited_judge.py"))
        return {each.score.mean for each in results}, {each.judge for each in results}

    (zeros, first), (ones, second), (again, third) = map(judged, ("0.0", "1.00", "0.0"))
    assert (zeros, ones, again) == ({0.0}, {1.0}, {0.0})
    assert first == third != second


@pytest.mark.parametrize("judge", [3, ["exact"]], ids=["number", "list"])
def test_a_judge_that_is_neither_named_nor_one_is_refused(run, sums, judge):
    for ask in (lambda: run.evaluate(sums, judge=judge), lambda: run.rejudge(judge)):
        with pytest.raises(
            ConfigError, match=r"a component or its class, or a function, and this is of type"
        ):
            ask()
