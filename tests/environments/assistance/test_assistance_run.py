"""Runs of the assistant's game: what is measured follows from what is recorded; several turns;
normalised rewards.
"""

from statistics import fmean

import pytest
from openai_server import Fail
from small_runs import settings

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.measured_answers import (
    MeasuredAnswer,
    classes,
    correlated,
    score_per_1000_characters,
)
from equipoise.planning.new_run import new_run
from equipoise.runs.directory import RunDirectory
from equipoise.types import Prompt, user

pytestmark = pytest.mark.long  # they share a whole run


SMALL = settings(
    generations=1,
    prompts__per_generation=8,
    prompts__count=40,
    prompts__held_out=16,
    evaluate__every=1,
    learner__minibatches=1,
    players__assistant__max_new_tokens=140,
)


@pytest.fixture(scope="module")
def talked(tmp_path_factory, request):
    """A finished run of `gtalign_talk`: its folder."""
    from equipoise.api.play_out import play_out
    from equipoise.runs import recipe_loader

    folder = tmp_path_factory.mktemp("talked") / "run"
    configured = recipe_loader.load("gtalign_talk", [part for part in SMALL if part != "-s"])
    with new_run(configured, folder) as run:
        play_out(run)
    return folder


def measures(folder):
    with RunDirectory.read(folder) as run:
        return [facts for _, _, _, facts, _ in run.ledger.stages("measure")]


def test_the_measures_are_means_of_what_is_recorded(talked):
    first = measures(talked)[0]
    with RunDirectory.read(talked) as run:
        matches = run.ledger.matches("held_out", 0)
        words = run.ledger.judgements_of(match.id for match in matches)
    scores = [words[match.id].scores["assistant"] for match in matches]
    assert len(scores) == 16
    for name, utility in (("user", "user"), ("llm", "llm")):
        assert first["utilities"][name]["mean"] == pytest.approx(
            fmean(found[utility] for found in scores)
        )
    assert first["score"] == pytest.approx(fmean(found["score"] for found in scores))
    assert {tuple(point) for point in first["points"].values()} == {
        (f["user"], f["llm"]) for f in scores
    }
    assert first["rates"]["format"]["mean"] == pytest.approx(
        fmean(found["format"] for found in scores)
    )
    tokens = fmean(
        [turn.move.tokens for turn in m.turns if turn.seat == "assistant"][-1] for m in matches
    )
    assert first["length"]["tokens"] == pytest.approx(tokens)


def measured_answer(text, source="x", facts=None, **utilities):
    asked = Prompt("p", (user("what?"),), facts or {}, source)
    return MeasuredAnswer(asked, parse(text), 10, {"readable": 1.0, **utilities})


def test_the_answers_score_for_a_thousand_characters_is_of_outputs_with_a_response():
    said = "<response>a text</response>"
    answers = [
        measured_answer(said, facts={"reference": "r"}, quality_llm=0.25, quality_user=0.5),
        measured_answer(said, facts={"harmful": False}, quality_llm=1.0, safety=0.5),
        measured_answer(said, facts={"harmful": True}, quality_llm=1.0, safety=0.5),
        measured_answer(said, quality_llm=0.0, quality_user=1.0),
        measured_answer("x" * 500, readable=0.0),
    ]
    found = score_per_1000_characters(answers)
    assert found == pytest.approx(1000 * (0.5 + 0.5 + 1.0 + 0.0) / (4 * len(said)))
    assert score_per_1000_characters(answers[4:]) is None


def test_requests_are_told_apart_by_meeting_them_rightly():
    harm = {"harmful": True}
    answers = [
        measured_answer("", facts=harm, quality_llm=1.0, safety=1.0),
        measured_answer("", facts=harm, quality_llm=1.0, safety=0.5),
        measured_answer("", facts={"harmful": False}, quality_llm=1.0, safety=0.5),
        measured_answer("", facts={"ambiguous": False}, quality_llm=0.0),
        measured_answer("", facts={"ambiguous": True}, readable=0.0),
    ]
    plain, released = classes(answers), classes(answers, as_released=True)
    assert plain["harmful"] == (1, 1, 1, 2)
    assert plain["harmless"] == (1, 1, 1, 1)
    assert released["harmful"] == (0.5, 0.5, 0.5, 2)
    assert released["harmless"].recall == 0
    assert plain["clear"][:3] == plain["ambiguous"][:3] == (0, 0, 0)


def test_what_is_correlated_is_the_grade():
    """Of requests the grade itself; of writing the larger of grade and BLEU."""
    harm, ideal = {"harmful": True}, {"reference": "r"}
    answers = [
        measured_answer("", facts=harm, score=0.0, quality_llm=0.0, safety=0.0),
        measured_answer("", facts=harm, score=0.25, quality_llm=1.0, safety=0.5),
        measured_answer("", facts=harm, score=0.5, quality_llm=1.0, safety=1.0),
        measured_answer("", facts=ideal, score=0.375, quality_llm=0.25, quality_user=0.75),
    ]
    assert correlated(answers)["welfare, answer"] == pytest.approx((1, 1, 1))


def test_the_scores_of_answers_are_correlated(talked):
    found = measures(talked)[0]["correlations"]
    assert set(found) >= {"welfare, user", "welfare, model", "user, answer"}
    assert all(-1 <= value <= 1 for values in found.values() for value in values)
    assert found["welfare, model"][0] > 0.5


def test_a_measurement_may_be_greedy_where_the_player_samples(tmp_path):
    from equipoise.api.play_out import play_out
    from equipoise.runs import recipe_loader

    answers = {}
    for temperature in ("0", "null"):
        held = ("prompts.held_out=6", "prompts.count=40", "evaluate.samples=2", "generations=0")
        own = ("players.assistant.max_new_tokens=100", f"evaluate.temperature={temperature}")
        configured = recipe_loader.load("gtalign_clerks", [*held, *own])
        with new_run(configured, tmp_path / temperature) as run:
            play_out(run)
            matches = run.ledger.matches("held_out", 0)
        by_prompt = {}
        for match in matches:
            by_prompt.setdefault(match.prompt, set()).add(match.turns[0].move.text)
        assert len(matches) == 12
        assert len(by_prompt) == 6
        answers[temperature] = [len(texts) for texts in by_prompt.values()]
    assert answers["0"] == [1] * 6
    assert 2 in answers["null"]


def test_shares_of_moves_are_shares_and_both_kinds_of_question_were_asked(talked):
    for facts in measures(talked):
        assert set(facts["actions"]) == {"detailed", "vague"}
        for shares in facts["actions"].values():
            assert sum(shares[name] for name in ("DA", "CQ", "AQ", "none")) == pytest.approx(1)
        assert sum(shares["n"] for shares in facts["actions"].values()) == 16


def test_what_beats_a_generation_is_an_earlier_one(talked):
    found = measures(talked)
    assert found[0]["beaten"] == {}
    assert set(found[-1]["beaten"]) == {"assistant@0"}
    assert found[-1]["exploitability"] == max(found[-1]["beaten"].values())


def test_a_question_back_was_answered_by_the_user(talked):
    with RunDirectory.read(talked) as run:
        longer = [match for match in run.ledger.matches("held_out") if len(match.turns) == 4]
    assert longer
    for match in longer:
        assert [turn.seat for turn in match.turns] == ["user", "assistant", "user", "assistant"]


def test_rewards_are_normalised_by_source_and_the_pay_off_stays(command, tmp_path):
    done = command(
        "run",
        "gtalign_clerks",
        *SMALL,
        *settings(normalise__method="rank", players__assistant__max_new_tokens=24),
        "--out",
        "r",
    )
    assert done.code == 0, done.err
    with RunDirectory.read(tmp_path / "r") as run:
        from equipoise.types import PlayerId

        episodes = run.ledger.episodes(PlayerId("assistant", 0))
    assert sum(one.reward for one in episodes) / len(episodes) == pytest.approx(0.5)
    assert all(
        one.parts["score"] + one.parts["normalised"] == pytest.approx(one.reward)
        for one in episodes
    )


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"judge__welfare": "nash"}, "nash_bargaining"),
        ({"judge__by": "llm"}, "by: llm needs the model that judges"),
        ({"judge__variant": "published"}, "corrected"),
        ({"game__text": "absent.txt"}, "cannot be read"),
        ({"game__turns": 2}, "set simulated: true"),
        ({"normalise__apart": True}, "welfare: is given where, and only where"),
        ({"schedule__roles__assistant": "nobody"}, "there is no player 'nobody'"),
        ({"judge__terms__wait": 0}, "greater than 0"),
    ],
)
def test_a_setting_that_does_not_fit_is_one_message(command, overrides, said):
    done = command("run", "gtalign_clerks", *SMALL, *settings(**overrides), "--out", "r")
    assert done.code == 2
    assert said in done.err
    assert len(done.err.strip().splitlines()) <= 2


def judged_at(url: str) -> list[str]:
    grader = f"{{kind: endpoint, base_url: '{url}', model: j, retries: 0}}"
    return settings(judge__tasks__clerk=f"{{kind: safety, by: llm, grader: {grader}}}")


def test_a_dead_judge_is_told_before_anything_is_played(command, tmp_path):
    done = command("run", "gtalign_clerks", *SMALL, *judged_at("http://127.0.0.1:9/v1"))
    assert done.code == 2
    assert not (tmp_path / "runs").exists()
    assert "judge.tasks.clerk.grader: http://127.0.0.1:9/v1: cannot be reached" in done.err


def test_a_judge_that_fails_later_stops_the_run_and_pays_nobody(command, tmp_path, openai_server):
    openai_server.answer = lambda body: Fail(404)
    done = command("run", "gtalign_clerks", *SMALL, *judged_at(openai_server.url), "--out", "r")
    assert done.code != 0
    assert "no model 'j' there" in done.err
    with RunDirectory.read(tmp_path / "r") as run:
        assert run.ledger.counts()["episodes"] == 0


def test_what_a_move_was_worth_is_the_mean_of_what_it_was_paid(talked):
    first = measures(talked)[0]["written"]
    paid = [values for moves in first["paid"].values() for values in moves.values()]
    assert sum(count for *_, count in paid) <= 16
    assert all(0 <= user <= 1.01 and 0 <= llm <= 1.01 for user, llm, _ in paid)
    assert 0 <= first["typed"] <= 1


def test_the_report_sets_what_was_written_beside_what_it_was_worth(talked):
    from equipoise.blocks.html import render
    from equipoise.report.page import page

    with RunDirectory.read(talked) as run:
        text = render(page(run))
    assert "What was written against what it was worth" in text


def test_an_output_that_cannot_be_read_counts_as_nothing_in_every_rate(talked):
    with RunDirectory.read(talked) as run:
        matches = run.ledger.matches("held_out", 0)
        words = run.ledger.judgements_of(match.id for match in matches)
    scores = [words[match.id].scores["assistant"] for match in matches]
    assert any(not found["readable"] for found in scores)
    rates = measures(talked)[0]["rates"]
    for name in ("quality_llm", "format", "matrix"):
        assert rates[name]["n"] == 16
        assert rates[name]["mean"] == pytest.approx(fmean(found.get(name, 0.0) for found in scores))


def test_an_output_that_cannot_be_read_made_no_right_move(talked):
    with RunDirectory.read(talked) as run:
        matches = run.ledger.matches("held_out", 0)
        words = run.ledger.judgements_of(match.id for match in matches)
    scores = [words[match.id].scores["assistant"] for match in matches]
    right = measures(talked)[0]["right"]
    assert right["n"] == 16
    assert right["mean"] == pytest.approx(fmean(found.get("right_action", 0.0) for found in scores))
