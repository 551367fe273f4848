"""One pool of local adapters and a model behind an endpoint: they duel, judge each other, and stop
at a budget.
"""

from collections.abc import Callable

import pytest
from openai_server import Fail, OpenAIServer

from equipoise.api.extending import change_settings
from equipoise.api.play_out import play_out
from equipoise.errors import ConfigError, Stopped
from equipoise.judges.base import Judge
from equipoise.models.resources import Resources
from equipoise.planning.new_run import new_run
from equipoise.planning.run_plan import plan
from equipoise.players.endpoint import Endpoint
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId, View, user

TINY = {
    "kind": "local",
    "model": "builtin",
    "max_length": 256,
    "max_new_tokens": 8,
    "lora": {"r": 2, "alpha": 4},
}


def values(url: str, calls: int | None) -> dict:
    return {
        "generations": 1,
        "players": {
            "ann": {**TINY, "learns": True},
            "ben": {**TINY, "learns": True},
            "dan": {
                "kind": "endpoint",
                "base_url": url,
                "model": "tiny",
                "api_key_env": "TEST_KEY",
                "concurrency": 2,
                "budget": {"calls": calls},
                "prices": {"input": 2.0, "output": 4.0},
            },
        },
        "prompts": {"kind": "clerk_questions", "count": 30, "per_generation": 12, "held_out": 4},
        "game": {"kind": "answers", "samples": 2},
        "schedule": "sparta",
        # The local members never learned to grade, so what they say counts as the middle and dan's
        # grades decide.
        "judge": {"kind": "peers", "text": "rubric_compact", "unreadable": "midpoint"},
        "training_ratings": "reputation",
        "loss": {"kind": "dpo", "reference": "previous"},
        "learner": {"kind": "preference", "batch_size": 4, "learning_rate": 1e-3},
        "evaluate": {"kind": "held_out", "samples": 2, "judge": "clerk"},
        "max_unjudged": 1.0,
    }


@pytest.fixture
def server(openai_server, monkeypatch):
    monkeypatch.setenv("TEST_KEY", openai_server.key or "secret")
    graded = iter(range(10**6))

    def answer(body: dict) -> str:
        asked = body["messages"][-1]["content"]
        return str(2 + next(graded) % 7) if "Grade the answer" in asked else "The vet can show you."

    openai_server.answer = answer
    return openai_server


def play(run: RunDirectory) -> None:
    league(OpenRun(run), run.config.generations)


@pytest.mark.long
def test_a_budget_stops_the_pool_and_nothing_is_paid_twice(server, tmp_path):
    folder = tmp_path / "run"
    words = r"9 calls.*resume .*run -s players\.dan\.budget\.calls="
    with (
        new_run(recipe_loader.build(values(server.url, 9), "test"), folder) as run,
        pytest.raises(Stopped, match=words),
    ):
        play_out(run)
    assert len(server.requests) == 9
    with RunDirectory.open(folder) as run:
        change_settings(run, ["players.dan.budget.calls=1000"])
        play(run)
    with RunDirectory.read(folder) as run:
        assert run.config.players["dan"].budget.calls == 1000
        spent = run.ledger.accounts()["tiny"]
        assert spent.calls == len(server.requests) == run.ledger.counts()["replies"]
        assert spent.money == pytest.approx(spent.calls * (10 * 2.0 + 5 * 4.0) / 1e6)
        bodies = [
            (seen.body["messages"][-1]["content"], seen.body.get("seed"))
            for seen in server.requests
        ]
        assert len(set(bodies)) == len(bodies)

        matches = run.ledger.matches("train", 0)
        words = run.ledger.judgements_of((match.id for match in matches), run.config.judge.name)
        for match in matches:
            sitting = {player.name for player in match.seats.values()}
            voters = {PlayerId.parse(vote.by).name for vote in words[match.id].votes}
            assert voters == {"ann", "ben", "dan"} - sitting
        costs = [vote.cost for word in words.values() for vote in word.votes if vote.by == "dan@0"]
        assert costs
        assert min(costs) > 0
        ((_, _, _, rated, _),) = run.ledger.stages("rate")
        assert {rating["name"] for rating in rated["ratings"]} == {"ann", "ben", "dan"}
        assert run.ledger.stage_facts("1/measure")["scores"].keys() == {"ann@1", "ben@1"}


@pytest.mark.long
def test_only_limits_may_change_midway(server, tmp_path):
    with new_run(recipe_loader.build(values(server.url, None), "test"), tmp_path / "run") as run:
        with pytest.raises(ConfigError, match=r"players\.dan\.model"):
            change_settings(run, ["players.dan.model=other"])
        change_settings(run, ["players.dan.timeout=9"])
        assert run.config.players["dan"].timeout == 9


def test_a_judge_keeps_its_name_when_its_limits_change():
    def name(calls: int, model: str) -> str:
        model_behind = {
            "kind": "endpoint",
            "base_url": f"http://127.0.0.1:{calls}/v1",
            "model": model,
        }
        return Judge.build(
            {"kind": "rubric", "model": {**model_behind, "budget": {"calls": calls}}}
        ).name

    assert name(5, "small") == name(50, "small") != name(5, "large")
    assert Judge.build("gold").name == "gold"


@pytest.mark.long
def test_a_server_that_moves_is_not_paid_again(server, openai_server, tmp_path):
    """Identity is where the run began: models of one name on two servers stay two."""
    other, third = OpenAIServer(), OpenAIServer()
    recipe = values(server.url, None)
    recipe["players"] = {
        "ann": {"kind": "scripted", "text": "yes", "learns": False},
        "dan": recipe["players"]["dan"],
        "eve": {**recipe["players"]["dan"], "base_url": other.url},
    }
    question = [View((user("Who?"),))]

    def ask(run: RunDirectory) -> dict[str, str]:
        with OpenRun(run) as opened:
            actors = {name: opened.population.actor(PlayerId(name)) for name in ("dan", "eve")}
            return {name: actor.act(question, [1])[0].text for name, actor in actors.items()}

    def answering(name: str) -> Callable[[dict], str]:
        return lambda body: name

    server.answer, other.answer, third.answer = map(answering, ("here", "there", "elsewhere"))
    recipe |= {"generations": 0, "judge": "clerk", "schedule": "round_robin"}
    for part in ("loss", "learner", "training_ratings"):
        del recipe[part]
    folder = tmp_path / "run"
    with new_run(recipe_loader.build(recipe, "test"), folder) as run:
        assert ask(run) == {"dan": "here", "eve": "there"}
    moved = {"dan": f"[{third.url}, {server.url}]", "eve": server.url}
    for name, url in moved.items():
        with RunDirectory.open(folder) as run:
            change_settings(run, [f"players.{name}.base_url={url}"])
            assert ask(run) == {"dan": "here", "eve": "there"}
    with RunDirectory.open(folder) as run:  # now both are at one address: a question for it
        change_settings(run, [f"players.{name}.base_url={third.url}" for name in moved])
        change_settings(run, ["players.dan.replicas=[]"])
        assert ask(run) == {"dan": "elsewhere", "eve": "elsewhere"}
    assert [len(each.requests) for each in (server, other, third)] == [1, 1, 1]
    other.close()
    third.close()


def test_a_plan_says_what_endpoints_may_be_asked(server):
    prices, budget = {"input": 0.0, "output": 4.0}, {"calls": 50}
    endpoint = {"kind": "endpoint", "base_url": server.url, "model": "tiny", "prices": prices}
    endpoint |= {"max_new_tokens": 1000, "retries": 2, "budget": budget}
    recipe = {
        "generations": 0,
        "players": {"ann": {"kind": "scripted", "text": "yes"}, "dan": endpoint},
        "prompts": {"kind": "clerk_questions", "count": 8, "per_generation": 1, "held_out": 5},
        "game": "answers",
        "schedule": "round_robin",
        "judge": {"kind": "rubric", "model": {**endpoint, "structured": "none", "account": "lab"}},
        "evaluate": {"kind": "held_out", "samples": 2},
    }
    planned = plan(recipe_loader.build(recipe, "test"))
    dan, judge = planned.endpoints
    assert (dan.place, dan.account, judge.place, judge.account) == (
        "players.dan",
        "tiny",
        "judge.model",
        "lab",
    )
    assert 2 * dan.questions == planned.counts.answers > 0
    assert judge.questions == planned.counts.questions_to_judges > 0
    # attempts; formats of a JSON schema beside them
    assert (dan.requests, judge.requests) == (5 * dan.questions, 3 * judge.questions)
    assert dan.money == pytest.approx(dan.questions * 0.002)  # answers of half the length
    assert dan.money_at_most == pytest.approx(dan.questions * 0.004)
    assert dan.most_money == pytest.approx(dan.requests * 0.004)
    assert dan.text().endswith("budget: calls 50")


def test_no_row_takes_more_requests_than_the_plan_says(openai_server):
    schema = {"type": "object", "properties": {"winner": {"enum": ["A", "B"]}}}
    openai_server.refuses = {"response_format": Fail(400, "unsupported response_format")}
    openai_server.answer = lambda body: Fail(503)
    values = {"base_url": openai_server.url, "model": "tiny", "retries": 2}
    player = Endpoint.model_validate(values)
    actor = player.open(None, Resources())
    actor.act([View((user("Who?"),), schema=schema)], [1])
    assert len(openai_server.requests) == player.most_requests == 5
    actor.close()
