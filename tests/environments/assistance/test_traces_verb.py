"""`equipoise assistance traces`: a teacher plays, the best plays are kept; nothing is played or paid for
twice.
"""

import json

import pytest
from openai_server import Fail
from small_runs import settings

from equipoise.environments.assistance.blocks import parse
from equipoise.environments.clerk import assistance_players
from equipoise.types import Message, View

pytestmark = pytest.mark.long  # they share a whole run


CLERK = (
    "assistance",
    "traces",
    "gtalign_clerks",
    *settings(players__assistant__model="builtin"),
    "--teacher",
    "clerk",
)


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_best_of_several_plays_is_kept_in_trls_format(command, tmp_path):
    done = command(*CLERK, "--count", 12, "--candidates", 3, "--out", "t", "--json")
    assert done.code == 0, done.err
    assert (done.facts["prompts"], done.facts["played"], done.facts["kept"]) == (12, 36, 12)
    played = lines(tmp_path / "t" / "candidates.jsonl")
    for trace in lines(tmp_path / "t" / "traces.jsonl"):
        assert parse(trace["completion"][0]["content"]).well_formed
        rivals = [row["scores"]["score"] for row in played if row["prompt"] == trace["prompt"]]
        assert trace["score"] == max(rivals)
    assert (
        command("sft", "builtin", "t/traces.jsonl", "--out", "m", "--max-length", 4).code == 2
    )  # it is read as data


def test_asked_again_it_plays_nothing_anew(command, tmp_path, openai_server):
    openai_server.answer = lambda body: assistance_players.teacher(
        View(tuple(Message(m["role"], m["content"]) for m in body["messages"])), 1
    )
    teacher = f"{{kind: endpoint, base_url: '{openai_server.url}', model: t, send_seed: false}}"
    asked = (*CLERK[:-1], teacher, "--count", 4, "--candidates", 2, "--out", "t", "--json")
    first = command(*asked)
    assert first.code == 0, first.err
    paid = len(openai_server.requests)
    again = command(*asked)
    assert again.facts == first.facts
    assert len(openai_server.requests) == paid


def test_held_out_questions_are_never_taught(command, tmp_path):
    command(
        *CLERK,
        "--candidates",
        1,
        *settings(prompts__count=80, prompts__held_out=40),
        "--out",
        "t",
        "--json",
    )
    from equipoise.runs.recipe_loader import load

    held_out = load(
        "gtalign_clerks",
        ["prompts.held_out=40", "prompts.count=80", "players.assistant.model=builtin"],
    )
    texts = {prompt.messages[-1].content for prompt in held_out.prompts.load().held_out or ()}
    assert texts
    assert not texts & {
        row["prompt"][-1]["content"] for row in lines(tmp_path / "t" / "traces.jsonl")
    }


def test_a_teacher_that_writes_nothing_fit_leaves_its_plays_to_be_looked_at(command, tmp_path):
    done = command(*CLERK[:-1], "{kind: scripted, text: '19'}", "--count", 3, "--out", "t")
    assert done.code == 2
    assert "none of the 27 matches" in done.err
    assert [row["written"] for row in lines(tmp_path / "t" / "candidates.jsonl")] == [["19"]] * 27


def test_a_dead_judge_stops_it_before_anything_is_kept(command, tmp_path, openai_server):
    openai_server.answer = lambda body: Fail(500)
    grader = f"{{kind: endpoint, base_url: '{openai_server.url}', model: j, retries: 0}}"
    judge = f"{{kind: safety, by: llm, grader: {grader}}}"
    done = command(*CLERK, *settings(judge__tasks__clerk=judge), "--count", 3, "--out", "t")
    assert done.code != 0
    assert "max_unjudged" in done.err
    assert not (tmp_path / "t" / "traces.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("assistance", "traces", "quickstart", "--teacher", "clerk"),
            "need a recipe with schedule: roles",
        ),
        ((*CLERK[:-1], "{kind: tutor}"), "tutor"),
        (
            ("assistance", "traces", "gtalign_clerk", "--teacher", "clerk"),
            "did you mean 'gtalign_clerks'",
        ),
    ],
)
def test_what_cannot_be_taught_is_said_in_one_message(command, arguments, said):
    done = command(*arguments, "--out", "t")
    assert done.code == 2
    assert said in done.err


@pytest.mark.slow
def test_a_model_is_trained_on_them(command, tmp_path):
    training = ("--train", "builtin/assistant", "--learning-rate", "1e-3", "--batch-size", 8)
    done = command(*CLERK, "--count", 24, "--candidates", 1, *training, "--out", "t", "--json")
    assert done.code == 0, done.err
    assert (tmp_path / "t" / "model" / "model.safetensors").exists()
