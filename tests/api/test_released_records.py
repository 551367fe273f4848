"""What the releases of MNPO, SPARTA and GTAlign write becomes a run that is rated, judged anew,
reported and exported; a grade that nobody gave is none.
"""

import json

import pytest

import equipoise
from equipoise.api.released_records import read_gtalign, read_mnpo, read_sparta
from equipoise.errors import DataError
from equipoise.ledger.ledger import Ledger
from equipoise.types import PlayerId, user

ANSWERS = ["Pear a", "Pear b", "Pear c", "Pear d", "Pear e"]
SCORES = [0.25, 2.5, -1.75, 0.5, 1.125]


@pytest.fixture
def file(tmp_path):
    """Write a JSON file, or JSON lines, and give its path."""

    def write(name, content):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in content))
        else:
            path.write_text(json.dumps(content))
        return path

    return write


def scored(prompt="What is a pear?", scores=SCORES):
    turn = lambda text: [  # noqa: E731
        {"role": "user", "content": prompt},
        {"role": "assistant", "content": text},
    ]
    return {
        "prompt": prompt,
        "all_generated_responses": ANSWERS,
        "all_rm_scores": scores,
        "chosen": turn(ANSWERS[1]),
        "rejected": turn(ANSWERS[2]),
    }


def recorded(folder):
    """(matches, their prompts by id, their judgements by (match, judge)) of a run."""
    with Ledger.open(folder / "ledger.sqlite", reading=True) as ledger:
        matches = ledger.matches("train")
        prompts = {prompt.id: prompt for prompt in ledger.prompts("train")}
        given = ledger.every_judgement_of([match.id for match in matches])
        judged = {(judgement.match, judgement.judge): judgement for judgement in given}
    return matches, prompts, judged


# -- MNPO


def test_scored_answers_are_one_match_of_five_seats(file, command, tmp_path):
    path = file("scored.jsonl", [scored(), scored("And an apple?", SCORES[::-1])])
    done = command("import-matches", path, "--from", "mnpo", "--out", "run", "--json")
    assert done.facts == {"run": "run", "players": 1, "matches": 2, "judged": 2}
    (first, second), prompts, judged = recorded(tmp_path / "run")
    assert prompts[first.prompt].messages == (user("What is a pear?"),)
    assert first.seats == {str(n): PlayerId("policy") for n in range(1, 6)}
    assert [turn.move.text for turn in first.turns] == ANSWERS
    given = judged[first.id, "reward"].by_seat("score")
    assert given == dict(zip("12345", SCORES, strict=True))
    assert judged[second.id, "reward"].by_seat("score")["1"] == 1.125
    for verb in (["status"], ["report"], ["check"], ["export", "--to", "out"]):
        done = command(verb[0], "run", *verb[1:])
        assert done.code == 0, done.err


def test_answers_of_several_seeds_come_together_by_prompt_and_can_be_judged(
    file, command, tmp_path
):
    rows = [{"prompt": p, "format_prompt": f"<bos>{p}"} for p in ("One?", "Two?")]
    paths = [
        file(f"output_{seed}.json", [{**row, "generated_text": f"{seed}" * n} for row in rows])
        for n, seed in enumerate((13, 21, 42), 1)
    ]
    made = command("import-matches", *paths, "--from", "mnpo", "--out", "run")
    assert made.code == 0
    assert "2 matches of 1 players, 0 judged" in made.out
    assert "judge run --with" in made.out
    (first, _), _, judged = recorded(tmp_path / "run")
    assert [turn.move.text for turn in first.turns] == ["13", "2121", "424242"]
    assert judged[first.id, "reward"].reason == "no score is recorded"
    done = command("judge", "run", "--with", "shorter", "--part", "train", "--json")
    assert done.code == 0
    assert json.loads(done.out)["matches"] == 2


def test_two_reward_models_judge_the_same_answers(file):
    files = [
        file("armo.json", [scored()]),
        file("skywork.json", [scored(scores=[5, 4, 3, 2, float("nan")])]),
    ]
    [(_, record)] = read_mnpo(files).records
    assert len(record.turns) == 5
    assert list(record.judged) == ["armo", "skywork"]
    assert record.judged["skywork"] == {
        seat: {"score": float(n)} for seat, n in zip("1234", (5, 4, 3, 2), strict=True)
    }, "a score that is no number is none"


def test_a_preference_models_row_says_which_is_best_and_which_is_worst(file):
    row = scored()
    del row["all_rm_scores"]
    [(_, record)] = read_mnpo([file("pairrm.json", [row])]).records
    assert record.judged == {"reward": {"2": {"score": 1.0}, "3": {"score": 0.0}}}


def test_files_of_several_folders_are_of_several_players(file):
    rows = [{"prompt": "One?", "generated_text": "1"}]
    files = [file("armo/output_13.json", rows), file("athene/output_13.json", rows)]
    [(_, record)] = read_mnpo(files).records
    assert record.players == {"1": "armo", "2": "athene"}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"prompt": "One?"}, r"row 1: is no record of mnpo: 'generated_text' is missing"),
        ({"generated_text": "1"}, r"'prompt' is missing"),
        (scored(scores=[1.0, 2.0]), r"2 scores of 5 answers in all_rm_scores"),
        (scored(scores=["high"] * 5), r"could not convert string"),
    ],
)
def test_what_is_no_record_of_mnpo_is_named(file, row, message):
    with pytest.raises(DataError, match=message):
        read_mnpo([file("odd.json", [row])])


# -- SPARTA


def rounds(*scores, error=None):
    replies = {"response_0": "{}", "response_1": "{}", "error_0": None, "error_1": error}
    return {"rounds": [{"scores": list(pair), "responses": replies} for pair in scores]}


def duel(first, second, judges, instruction="Add 2 and 3."):
    return {
        "instruction": instruction,
        "models": [first, second],
        "responses": [f"{first} says 5", f"{second} says 6"],
        "judges": judges,
    }


DUELS = [
    duel("code", "math", {"flan": rounds((8, 3), (6, 4)), "oasst": rounds((9, 1))}),
    duel("flan", "oasst", {"code": rounds((5, 5), error="Failed to extract score")}, "Why?"),
    duel("math", "flan", {"code": rounds((2, 7)), "oasst": rounds((5, 5), error="no")}),
]
INFO = {
    name: {"score": score, "deviation": 0.5}
    for name, score in {"code": 104.0, "math": 96.5, "flan": 130.0, "oasst": 65.0}.items()
}


def test_duels_keep_their_judges_votes_and_weigh_them_by_reputation(file, command, tmp_path):
    pairs = file("iteration_2_judge_pairs.json", DUELS)
    info = file("iteration_2/model_info.json", INFO)
    done = command("import-matches", pairs, info, "--from", "sparta", "--out", "run", "--json")
    assert done.facts == {"run": "run", "players": 4, "matches": 3, "judged": 2}
    (first, second, third), _, judged = recorded(tmp_path / "run")
    assert first.seats == {"1": PlayerId("code"), "2": PlayerId("math")}
    given = judged[first.id, "sparta"]
    assert given.by_seat("score") == pytest.approx(
        {"1": (7 * 130 + 9 * 65) / 195, "2": (3.5 * 130 + 1 * 65) / 195}
    )
    assert [(vote.by, vote.seat, vote.value) for vote in given.votes] == [
        ("flan@0", "1", 7.0),
        ("flan@0", "2", 3.5),
        ("oasst@0", "1", 9.0),
        ("oasst@0", "2", 1.0),
    ]
    unread = judged[second.id, "sparta"]
    assert unread.scores is None
    assert "could be read" in unread.reason
    assert unread.votes[0].value is None
    assert unread.votes[0].reason.startswith("Failed")
    assert judged[third.id, "sparta"].by_seat("score") == {"1": 2.0, "2": 7.0}
    with Ledger.open(tmp_path / "run" / "ledger.sqlite", reading=True) as ledger:
        kept = ledger.stage_facts("0/reputations")
    assert kept["recorded"] == {"code": 104.0, "math": 96.5, "flan": 130.0, "oasst": 65.0}
    run = equipoise.open_run("run")
    assert run.rerate(by="reputation").ratings
    assert run.report().is_file()
    assert command("check", "run").code == 0


def test_iterations_are_players_of_their_own_and_a_history_has_ratings_too(file):
    history = {"iteration": 1, "total_pairs": 1, "history": [], "final_ratings": INFO}
    files = [
        file("iteration_0_judge_pairs.json", DUELS[:1]),
        file("iteration_1_judge_pairs.json", DUELS[:1]),
        file("iteration_1_rating_history.json", history),
    ]
    released = read_sparta(files)
    (_, start), (_, later) = released.records
    assert start.players == {"1": "code@0", "2": "math@0"}
    assert later.players["1"] == "code@1"
    assert start.judged["sparta"]["1"]["score"] == 8.0, "equal weights where none are known"
    assert later.judged["sparta"]["1"]["score"] == pytest.approx((7 * 130 + 9 * 65) / 195)
    assert released.ratings["flan@1"] == 130.0


def test_averages_serve_where_rounds_were_left_out(file):
    row = duel("code", "math", {"flan": {"ave_scores": [6.5, 2.0]}})
    [(_, record)] = read_sparta([file("judged_pairs.json", [row])]).records
    assert record.judged == {"sparta": {"1": {"score": 6.5}, "2": {"score": 2.0}}}


def test_what_is_no_record_of_sparta_is_named(file):
    with pytest.raises(DataError, match=r"row 1: is no record of sparta: 'judges' is missing"):
        row = duel("code", "math", {})
        del row["judges"]
        read_sparta([file("judged_pairs.json", [row])])
    with pytest.raises(DataError, match="none of the files has duels"):
        read_sparta([file("model_info.json", INFO)])
    with pytest.raises(DataError, match="a duel has two models"):
        row = {**DUELS[0], "models": ["code"]}
        read_sparta([file("judged_pairs.json", [row])])


# -- GTAlign


def line(question, output, step, score, user_reward, llm_reward, **more):
    return {
        "input": question,
        "output": output,
        "gts": "unharmful",
        "score": score,
        "step": step,
        "user_reward": user_reward,
        "llm_reward": llm_reward,
        "source": "wildguard",
        **more,
    }


def test_outputs_of_two_steps_to_one_input_are_one_match(file, command, tmp_path):
    first = file("val/0.jsonl", [line("Hi?", "a", 0, 0.2, 0.1, 0.4), line("Ho?", "b", 0, 1, 1, 1)])
    later = file("val/50.jsonl", [line("Hi?", "c", 50, 0.6, 0.7, 0.5)])
    done = command("import-matches", first, later, "--from", "gtalign", "--out", "run", "--json")
    assert done.facts == {"run": "run", "players": 2, "matches": 2, "judged": 2}
    (both, alone), prompts, judged = recorded(tmp_path / "run")
    assert both.seats == {"1": PlayerId("step_0"), "2": PlayerId("step_50")}
    assert judged[both.id, "gtalign"].scores == {
        "1": {"score": 0.2, "user": 0.1, "llm": 0.4},
        "2": {"score": 0.6, "user": 0.7, "llm": 0.5},
    }
    asked = prompts[alone.prompt]
    assert asked.source == "wildguard"
    assert asked.facts == {"ground_truth": "unharmful"}
    ratings = equipoise.open_run("run").rerate().ratings[-1]
    assert ratings[0].name == "step_50"
    assert command("report", "run").code == 0


def test_folders_are_runs_and_repeated_inputs_meet_in_order(file):
    rows = [line("Hi?", text, 5, n, 0, 0) for n, text in enumerate("ab")]
    files = [file(f"{run}/5.jsonl", rows[:size]) for run, size in (("mine", 2), ("theirs", 1))]
    (_, first), (_, second) = read_gtalign(files).records
    assert first.players == {"1": "mine@5", "2": "theirs@5"}
    assert second.players == {"1": "mine@5"}
    assert second.turns[0].move.text == "b"


def test_a_line_without_a_score_is_named(file):
    row = line("Hi?", "a", 0, 0.2, 0.1, 0.4)
    del row["score"]
    with pytest.raises(DataError, match=r"1: is no record of gtalign: 'score' is missing"):
        read_gtalign([file("0.jsonl", [row])])


@pytest.mark.parametrize("source", ["mnpo", "sparta", "gtalign"])
def test_a_file_that_is_not_there_or_empty_writes_nothing(source, command, tmp_path, file):
    done = command("import-matches", "none.json", "--from", source, "--out", "run")
    assert done.code == 2
    assert "there is no such file" in done.err
    done = command("import-matches", file("no.json", []), "--from", source, "--out", "run")
    assert done.code == 2
    assert done.err.count("error:") == 1
    assert not (tmp_path / "run").exists()
