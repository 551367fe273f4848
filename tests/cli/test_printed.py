"""What the verbs print, word by word: their printing is called with facts that are made here."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from equipoise.api.play_out import Played
from equipoise.api.rejudge import Rejudgement
from equipoise.api.rerate import Rerating
from equipoise.blocks.section import Change, Headline
from equipoise.cli import evaluate, plan, play, rate, recipes, run, status
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import AgainstStart, BenchmarkResult
from equipoise.ledger.votes_and_matches import PlayedMatch
from equipoise.models.device import Hardware
from equipoise.payoffs.intervals import Interval
from equipoise.payoffs.table import PayoffTable
from equipoise.planning.cost import CostEstimate
from equipoise.planning.counts import RunCounts
from equipoise.planning.endpoint_plan import EndpointPlan
from equipoise.planning.first_recipe import JudgeTrial
from equipoise.planning.phases import PhaseMemory
from equipoise.planning.run_plan import RunPlan
from equipoise.ratings.base import Rating
from equipoise.runs import recipe_loader
from equipoise.system.effects import Effects
from equipoise.types import Judgement, Match, Message, Move, PlayerId, Prompt, Turn, View, user


@pytest.fixture
def printed(capsys, monkeypatch):
    """printed(call, …) is what is printed, line by line, without the spaces that align columns."""
    monkeypatch.setenv("COLUMNS", "200")

    def lines(call, *arguments, **named):
        capsys.readouterr()
        call(*arguments, **named)
        shown = capsys.readouterr()
        return [" ".join(line.split()) for line in (shown.out + shown.err).splitlines()]

    return lines


COST = CostEstimate(
    learners=("a", "b"),
    parameters=1_234_567,
    trainable=4_321,
    mean_prompt_tokens=12.6,
    memory_while_sampling=999.0,
    memory_while_training=1_500.0,
    peak_memory=2e9,
    memory=8e9,
    sampling_seconds=89.6,
    scoring_seconds=90.0,
    training_seconds=5_399.0,
    judging_seconds=None,
    processes=1,
    workers=2,
    device="cpu",
    advice="player_defaults.batch_size=1",
)
COUNTS = RunCounts(*(1_000 * n for n in range(1, 16)))
HARDWARE = Hardware("8xH100-80GB", 8, 80e9, 9e14, 3e12, 4e11)
PHASES = (
    PhaseMemory("play", "cuda:0", "", 3e9, "x=1", 8, None),
    PhaseMemory("learn", "cuda:0", "a", 4e12, "y=2", 2, 5_400.0),
)


def endpoint(place, money):
    most = money and 2 * money
    budget = {"calls": 5_000}
    return EndpointPlan(place, "lab", 1_200, 2_400, money, most, most and 2 * most, budget, "USD")


@pytest.fixture(scope="module")
def planned():
    """planned(costs=…, …) is a plan with these parts."""
    config = recipe_loader.load("rock_paper_scissors", [])
    return lambda **parts: RunPlan(config, **{"counts": COUNTS, "costs": (), "notes": ()} | parts)


def test_the_answer_of_a_plan(planned):
    here = planned(costs=(COST, replace(COST, peak_memory=1e9, memory=9e9)))
    assert plan.answer_facts(here) == {
        "can it run": "yes, on this machine (cpu)",
        "how long": "about 1.5 h at most",
        "memory": "2.0 GB of 9.0 GB at most",
        "cost": "no endpoint is asked",
    }
    too_large = planned(costs=(replace(COST, peak_memory=9e9),))
    assert plan.answer_facts(too_large)["can it run"] == (
        "no, not on this machine (cpu): a, b takes 9.0 of 8.0 GB; set player_defaults.batch_size=1"
    )
    there = planned(
        costs=(replace(COST, training_seconds=7_200.0, sampling_seconds=0.0, scoring_seconds=0.0),),
        hardware=HARDWARE,
        endpoints=(endpoint("judge", 0.5), endpoint("players.c", 1.25)),
    )
    answer = plan.answer_facts(there)
    assert answer["how long"] == "about 2.0 h at most"
    assert answer["memory"] == "2.0 GB of 8.0 GB on each accelerator at most"
    assert (
        answer["cost"] == "16.0 GPU hours; endpoints: about 1.75 USD, at most 3.50 without failures"
    )
    unknown = planned(endpoints=(endpoint("judge", 0.5), endpoint("players.c", None)))
    assert plan.answer_facts(unknown) == {
        "can it run": "yes, on this machine",
        "how long": "not estimated",
        "memory": "not estimated: no language model learns",
        "cost": "endpoints: about 0.50 USD, at most 1.00 without failures; 1 have no `prices`",
    }


def test_a_plan_for_this_machine_and_for_another(planned, printed):
    here = planned(costs=(COST,), phases=PHASES, endpoints=(endpoint("judge", 0.5),))
    lines = printed(plan.print_plan, here, Effects())
    assert lines[:3] == ["what the run does", "generations 1,000", "players 2,000"]
    assert lines[15:] == [
        "optimizer steps at most 15,000",
        "what endpoints are asked",
        "judge 1,200 questions at most, about 0.50 USD (1.00 if every text is as long as it may "
        "be); if all fail until the last retry, 2,400 requests, 2.00 USD; budget: calls 5,000",
        "what this run touches",
        "nothing beyond its own folder",
        "most memory, phase by phase",
        "play on cuda:0 3.0 GB",
        "learn a on cuda:0 4.0 TB",
        "estimate, as if every player were like these",
        "learner a, b",
        "parameters 1,234,567",
        "trainable 4,321",
        "mean prompt tokens 13",
        "memory while sampling 999.0 B",
        "memory while training 1.5 kB",
        "peak memory 2.0 GB: fits in 8.0 GB",
        "sampling time about 90 s at most",
        "scoring time about 2 min at most",
        "training time about 90 min at most",
        "judging time not estimated",
        "time about 1.5 h at most, on cpu",
    ]
    there = planned(costs=(), phases=PHASES, hardware=HARDWARE)
    assert printed(plan.print_plan, there, Effects())[16:] == [
        "what this run touches",
        "nothing beyond its own folder",
    ]
    assert printed(plan.print_phases, PHASES) == [
        "phase by phase",
        "processes memory of each time",
        "play 8 3.0 GB",
        "learn a 2 4.0 TB about 1.5 h at most",
    ]


def test_the_facts_of_a_plan(planned):
    large = replace(COST, peak_memory=8.5e9, processes=4, judging_seconds=3.0)
    facts = plan._facts(planned(costs=(large,), phases=PHASES, hardware=HARDWARE), Effects())
    assert list(facts) == [
        *("answer", "hardware", "notes", "touches", "configuration", "counts", "sets", "phases"),
        *("endpoints", "estimates"),
    ]
    assert facts["hardware"]["count"] == 8
    assert facts["counts"]["judgements"] == 8_000
    assert facts["answer"]["seconds"] == large.seconds == 89.6 + 90 + 5_399 + 3
    [estimate] = facts["estimates"]
    assert estimate["memory_while_training"] == "1.5 kB, each of 4 processes"
    assert estimate["peak_memory"] == (
        "8.5 GB: does not fit in 8.0 GB; set player_defaults.batch_size=1"
    )
    numbers = {name: estimate[name] for name in list(estimate)[-9:]}
    assert numbers == {
        "sampling_memory_bytes": 999.0,
        "training_memory_bytes": 1_500.0,
        "peak_memory_bytes": 8.5e9,
        "memory_bytes": 8e9,
        "fits": False,
        "sampling_seconds": 89.6,
        "scoring_seconds": 90.0,
        "training_seconds": 5_399.0,
        "judging_seconds": 3.0,
    }
    assert [plan._duration(s) for s in (0.4, 89.9, 90, 5_399, 5_400)] == [
        *("0 s", "90 s", "2 min", "90 min", "1.5 h")
    ]
    sizes = [plan._bytes(b) for b in (0, 999, 1_000, 999_999_999, 1e12, 5e15)]
    assert sizes == ["0.0 B", "999.0 B", "1.0 kB", "1000.0 MB", "1.0 TB", "5000.0 TB"]


def test_ratings_with_as_many_digits_as_they_need(printed):
    few = (Rating("a", 1.25, 0.5, 2.0), Rating("b", -0.5, float("nan"), float("nan")))
    many = (Rating("a", -10.0, -20.25, 3.5), Rating("b", 2.0, 1.0, 3.0))
    table = PayoffTable.__new__(PayoffTable)
    heads = ["player rating 95 % interval"]
    by_matches = Rerating("matches", "elo", (few, many), table, "beware")
    assert printed(rate.print_ratings, by_matches) == [
        *("elo after generation 0", *heads, "a 1.250 0.500 to 2.000", "b -0.500 –"),
        *("elo after generation 1", *heads, "a -10.0 -20.2 to 3.5", "b 2.0 1.0 to 3.0"),
        "warning: beware",
    ]
    for by, when in (("league", "of the league"), ("votes", "by people's votes")):
        lines = printed(rate.print_ratings, Rerating(by, "elo", (few[:1],), table, ""))
        assert lines == [f"elo {when}", *heads, "a 1.250 0.500 to 2.000"]
    assert printed(rate.print_ratings, Rerating("votes", "elo", ((),), table, "")) == [
        "elo by people's votes",
        *heads,
    ]


def test_another_judge_beside_the_runs_own(printed, tmp_path):
    rejudged = Rejudgement(
        run=tmp_path,
        judge="mine",
        matches=7,
        scores={"b@0": 0.5, "a@0": 1.0},
        beside="theirs",
        scores_beside={"c@0": 0.25, "a@0": 2.0},
        agreement=None,
        report=None,
    )
    assert printed(rate.print_judgement, rejudged) == [
        "player mine theirs",
        *("a@0 1.000 2.000", "b@0 0.500 –", "c@0 – 0.250"),
        "mine on 7 matches",
        "",
    ]
    interval = {"mean": 0.5, "low": 0.25, "high": 0.75, "n": 4}
    rows = rate._rows({"kept": 3, "table": {"mean": 1}, "mean": interval})
    assert [name for name, _ in rows] == ["kept", "mean"]
    assert (rows[1][1].mean, rows[1][1].low, rows[1][1].high, rows[1][1].n) == (0.5, 0.25, 0.75, 4)


def result(name, player, mean, **more):
    metrics = {"score": Estimate(mean, mean - 0.1, mean + 0.1, 8)}
    return BenchmarkResult(
        **{"name": name, "benchmark": name, "player": player, "source": "equipoise 1"}
        | {"headline": "score", "metrics": metrics, "n": 1_200, "answers": 1_300}
        | more
    )


def test_scores_on_sets(printed, tmp_path):
    one, other = tmp_path / "one", tmp_path / "other"
    start = result("sums", "a@0", 0.25, judge="exact")
    end = result("sums", "a@1", 0.5, judge="exact", unscored=1_100)
    change = {"score": Estimate(0.25, 0.125, 0.375, 8)}
    rows = [(one, AgainstStart(start, None, {})), (one, AgainstStart(end, start, change))]
    deeper = f"go deeper: equipoise report {one}"
    lines = printed(evaluate.print_results, rows)
    assert lines == [
        "set player metric 95 % interval over the start items",
        "sums a@0 score 25.0 % (15.0 to 35.0) – 1,200",
        "sums a@1 score 50.0 % (40.0 to 60.0) +25.0 points (+12.5 to +37.5) 1,200, 1,100 unscored",
        deeper,
    ]
    judged = result("sums", "a@1", 0.5, judge="shorter")
    foreign = result("arc", "a@1", 0.5, source="lm_eval 0.4")
    rows = [(one, AgainstStart(r, None, {})) for r in (end, judged)]
    rows += [(other, AgainstStart(foreign, None, {}))]
    lines = printed(evaluate.print_results, rows)
    assert lines[0] == "run set player metric 95 % interval over the start items"
    assert [line.partition(" a@1")[0] for line in lines[1:4]] == [
        *("one sums (exact)", "one sums (shorter)", "other arc (lm_eval 0.4)")
    ]
    assert lines[4:] == [deeper, f"go deeper: equipoise report {other}"]


@pytest.mark.parametrize("several", [False, True])
def test_sweeps_name_their_run_where_there_are_several(printed, tmp_path, several):
    def swept(value):
        settings = {"varied": {"temperature": f"{value:g}"}}
        return AgainstStart(result("sums", "a@0", 0.5, settings=settings), None, {})

    one, other = tmp_path / "one", tmp_path / "other"
    rows = [(path, swept(v)) for path in (one, other)[: 1 + several] for v in (0.0, 1.0)]
    lines = printed(evaluate.print_results, rows)
    titles = [line for line in lines if line.startswith(("one: ", "other: "))]
    assert [t.partition(":")[0] for t in titles] == (["one", "other"] if several else [])
    assert "sums" in lines[0]
    assert sum(line.startswith("go deeper") for line in lines) == 1 + several


def test_targets_are_grouped_by_run_in_their_order(recorded_folder):
    run = str(recorded_folder("people"))
    assert evaluate.players_by_run(
        [f"{run}@b", "org/model", f"{run}@a@0", run, "http://x@y/v1"]
    ) == {run: ["b", "a@0", ""], "org/model": [], "http://x@y/v1": []}


def played(judgement):
    turns = (Turn("row", View((user("?"),)), Move("rock\x1b[1m")),)
    turns += (Turn("column", View((user("?"),)), Move("", error="too late")),)
    seats = {"row": PlayerId("ann"), "column": PlayerId("polly", 2)}
    match = Match("m", 0, "people", "matrix", "p", seats, 0, turns)
    return PlayedMatch(match, Prompt("p", (user("?"),)), judgement, "2026-01-01")


def test_the_end_of_a_match(printed):
    scored = Judgement(
        "j", "m", "matrix", {"row": {"score": 1.0, "x": 0.5}, "column": {"score": -1.0}}
    )
    moves = ["the match is over:", "row (ann@0): rock␛[1m", "column (polly@2): too late"]
    assert printed(play.print_result, played(scored), False) == [
        *(*moves, "row: score 1, x 0.5", "column: score -1")
    ]
    assert printed(play.print_result, played(None), False) == moves
    unjudged = Judgement("j", "m", "matrix", None, "nobody moved")
    assert printed(play.print_result, played(unjudged), False) == [
        *(*moves, "not judged: nobody moved")
    ]


def test_only_what_is_new_in_a_chat_is_shown():
    first = (Message("system", "rules"), Message("assistant", "an example"), user("go"))
    longer = (*first, Message("assistant", "mine"), user("theirs"))
    assert play.unseen_messages((), first) == first
    assert play.unseen_messages(first, longer) == [user("theirs")]
    assert play.unseen_messages(first, longer[1:]) == longer[1:]
    assert play.unseen_messages(longer, first) == first


def test_what_the_judge_said_once_is_shown(printed):
    trial = JudgeTrial(
        place="judge",
        prompt="What is\n 1 + 1?",
        seconds=1.25,
        replies=("A " * 150,),
        answers=("two", "three"),
        scores={"2": {"score": 0.5}},
        reason="unread",
    )
    lines = printed(recipes.print_trial, trial)
    assert lines[0] == "judge: asked once about What is 1 + 1?, 1.2 s"
    assert lines[1] == "reply: " + ("A " * 150)[:199].strip() + "…"
    assert lines[2:] == ["two → unread", "three → {'score': 0.5}"]


def test_what_is_missing_is_asked_for_on_a_terminal(monkeypatch):
    asked = []

    def prompt(text, default=None):
        asked.append(text.partition(" ")[0])
        return {"model": "one two", "prompts": "rows.jsonl", "judge": default}[asked[-1]]

    monkeypatch.setattr("typer.prompt", prompt)
    assert recipes.ask_for_parts([], "", [], asks=True) == (["one", "two"], "rows.jsonl", ["gold"])
    assert asked == ["model", "prompts", "judge"]
    assert recipes.ask_for_parts(["m"], "d", ["exact"], asks=True) == (["m"], "d", ["exact"])
    assert recipes.ask_for_parts([], "d", [], asks=True)[1:] == ("d", ["gold"])
    assert asked[3:] == ["model", "judge"]
    with pytest.raises(Exception, match=r"^give --data \(on"):
        recipes.ask_for_parts(["m"], "", [], asks=False)
    with pytest.raises(Exception, match=r"^give --model and --data \(on"):
        recipes.ask_for_parts([], "", [], asks=False)


def test_judgements_without_a_score_and_an_exploiters_gain():
    assert status.unscored_lines("rubric", "held_out", 1_200, 0) == []
    assert status.unscored_lines("rubric", "held_out", 1_200, 1_100, "no number", "look") == [
        (
            "by rubric",
            "held-out: 1,100 of 1,200 judgements without a score, such as: no number. look",
        )
    ]
    assert status.unscored_lines("rubric", "train", 2, 1)[0][1].endswith("without a score")
    facts = {"gets": {"mean": 0.5, "low": 0.25, "high": 0.75, "n": 3}, "unit": "points"}
    facts |= {"budget": {"updates": 1_000}, "finished": False}
    told = status._gets(facts)
    assert told.startswith("0.5")
    assert told.endswith(" points, 1,000 updates, unfinished")
    assert status._gets(facts | {"finished": True}).endswith(", 1,000 updates")


def test_lines_of_a_plan_are_whole_and_plain(capsys, monkeypatch):
    """Also on a terminal with colours: an address stands there as it is."""
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    line = "asks https://api.example.com/v1 [bold] 300 times 'so'"
    plan.print_lines("what", [line])
    assert capsys.readouterr().out.splitlines()[1] == f" {line}"


def test_what_came_of_a_run(printed, capsys, tmp_path):
    change = Change("win_rate", Interval(0.25, 0.2, 0.3, 9), Interval(0.5, 0.4, 0.6, 9))
    done = Played(
        name="mine",
        run=Path("runs/mine"),
        report=Path("runs/mine/report.html"),
        seconds=65.25,
        seconds_in_all=65.0,
        records={"matches": 3},
        measured=[{"generation": 0}],
        changes=[change],
        headlines=[Headline("held-out score", "86 %")],
        cautions=["beware"],
        which_to_trust="the last",
    )
    of = SimpleNamespace(played=done)
    lines = printed(run.print_run, of, False)
    assert [" ".join(line.strip("│ ").split()) for line in lines] == [
        "at the start at the end change",
        "win rate 25.0 % (20.0 to 30.0) 50.0 % (40.0 to 60.0) +25.0 points",
        lines[2],
        *("beware", "held-out score 86 %", "which to trust the last", "took 1 min 05 s"),
        *("go deeper equipoise status runs/mine", "report runs/mine/report.html"),
        lines[-1],
    ]
    resumed = SimpleNamespace(played=replace(done, seconds_in_all=3700))
    shown = " ".join(line.strip("│ ") for line in printed(run.print_run, resumed, False))
    assert "1 min 05 s since it was resumed, 1 h 01 min in all" in " ".join(shown.split())
    assert "mine" in lines[2]
    bare = replace(done, changes=[], which_to_trust="")
    fewer = printed(run.print_run, SimpleNamespace(played=bare), False)
    assert len(fewer) == len(lines) - 3
    assert "trust" not in " ".join(fewer)
    capsys.readouterr()
    run.print_run(of, True)
    assert json.loads(capsys.readouterr().out) == {
        "run": "runs/mine",
        "report": "runs/mine/report.html",
        "seconds": 65.2,
        "seconds_in_all": 65.0,
        "records": {"matches": 3},
        "measured": [{"generation": 0}],
        "cautions": ["beware"],
    }


def test_what_an_exploiter_gets(printed):
    estimate = {"mean": 0.5, "low": 0.25, "high": 0.75, "n": 3}
    facts = {
        "run": "runs/x",
        "exploiter": "fresh@2",
        "against": {"player": "policy@1", "run": "runs/y"},
        "gets": estimate,
        "unit": "points",
        "at_start": None,
        "league": {"gets": estimate | {"mean": 0.4}, "by": "policy@0"},
        "budget": {"updates": 1_000, "samples": 2_000, "tokens": 3_000_000},
    }
    lines = printed(run.print_response, facts)
    assert lines[0] == "against policy@1 of runs/y"
    assert lines[1].startswith("fresh@2 gets 0.5")
    assert lines[1].endswith(" points")
    assert lines[2] == "at its start –"
    assert lines[3].startswith("the league's best 0.4")
    assert lines[3].endswith(" policy@0")
    assert lines[4:] == [
        *("updates 1,000", "samples, tokens 2,000, 3,000,000"),
        "go deeper equipoise report runs/x",
    ]
    alone = printed(run.print_response, facts | {"league": {"gets": None, "by": ""}})
    assert alone[3] == "the league's best –"
