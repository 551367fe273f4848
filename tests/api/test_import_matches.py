"""Matches of other programs become a run that is rated, judged anew, reported and exported."""

import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import equipoise
from equipoise.api.played_elsewhere import record_matches
from equipoise.errors import DataError, RunError
from equipoise.ledger.ledger import Ledger
from equipoise.types import Message, PlayerId, user

MODELS = ("gpt-4-1106-preview", "claude-2.1", "7b/llama")  # from strong to weak


def battle(a: str, b: str, winner: str | None, question: str = "Who?", in_parts: bool = False):
    """A row as LMArena publishes it; the newest files give contents in parts."""

    def chat(model: str) -> list[dict]:
        texts = [("user", question), ("assistant", f"I am {model}.")]
        parts = lambda text: [{"type": "text", "text": text, "image": None}]  # noqa: E731
        return [{"role": r, "content": parts(text) if in_parts else text} for r, text in texts]

    return {
        "question_id": "1",
        "model_a": a,
        "model_b": b,
        "winner": winner,
        "judge": "arena_user_1",
        "conversation_a": chat(a),
        "conversation_b": chat(b),
        "language": "English",
    }


def battles(n: int = 60) -> list[dict]:
    """In each the stronger model wins, but for every fifth, a tie."""
    dice = random.Random(0)
    rows = []
    for i in range(n):
        a, b = dice.sample(range(3), 2)
        won = ("tie", "tie (bothbad)")[i % 2] if i % 5 == 0 else "model_a" if a < b else "model_b"
        rows.append(battle(MODELS[a], MODELS[b], won, f"Question {i % 20}?"))
    return rows


def write(path: Path, rows: list[dict]) -> Path:
    """The rows as the path's suffix says."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.long
def test_an_arena_is_rated_judged_and_reported(command, tmp_path):
    write(tmp_path / "arena.json", battles())
    assert command("import-matches", "arena.json", "--from", "lmarena", "--out", "arena").code == 0
    run = equipoise.open_run("arena")
    status = run.status()
    assert status["finished"]
    assert status["records"]["matches"] == 60
    rated = run.rerate().ratings[-1]
    assert [rating.name for rating in rated] == ["gpt_4_1106_preview", "claude_2_1", "m_7b_llama"]
    done = command("judge", "arena", "--with", "shorter", "--part", "train", "--json")
    facts = json.loads(done.out)
    assert facts["beside"] == "lmarena"
    assert facts["matches"] == 60
    assert run.rerate(judge="shorter").ratings[-1][0].name == "m_7b_llama"  # the shortest name
    assert run.report().read_text().count("gpt_4_1106_preview")
    assert "claude-2.1" in run.leaderboard().read_text()
    assert command("check", "arena").code == 0


@pytest.mark.parametrize(
    "suffix", [".jsonl", *(pytest.param(s, marks=pytest.mark.long) for s in (".json", ".parquet"))]
)
def test_every_format_gives_the_same_records(tmp_path, suffix):
    in_parts = suffix == ".parquet"
    row = battle("a", "b", "tie (bothbad)", in_parts=in_parts)
    file = write(tmp_path / f"rows{suffix}", [row, battle("b", "a", "model_a", in_parts=in_parts)])
    made = record_matches([file], "lmarena", tmp_path / "run")
    assert made == {"players": 2, "matches": 2, "judged": 2}
    with Ledger.open(tmp_path / "run" / "ledger.sqlite", reading=True) as ledger:
        first, second = ledger.matches("train")
        judged = ledger.judgements_of([first.id, second.id], "lmarena")
    assert first.seats == {"1": PlayerId("a"), "2": PlayerId("b")}
    assert [(turn.view.messages, turn.move.text) for turn in first.turns] == [
        ((user("Who?"),), "I am a."),
        ((user("Who?"),), "I am b."),
    ]
    assert judged[first.id].scores == {seat: {"score": 0.5, "both_bad": 1.0} for seat in "12"}
    assert judged[second.id].scores == {"1": {"score": 1.0}, "2": {"score": 0.0}}


@pytest.mark.long
def test_without_a_vote_a_battle_is_unjudged_and_without_a_chat_it_counts(tmp_path):
    rows = [battle("a", "b", None), {"model_a": "a", "model_b": "b", "winner": "model_b"}]
    file = write(tmp_path / "rows.jsonl", rows)
    made = record_matches([file], "lmarena", tmp_path / "run")
    assert made["matches"] == 2
    assert made["judged"] == 1
    rating = equipoise.open_run(tmp_path / "run").rerate().ratings[-1][0]
    assert rating.name == "b"


@pytest.mark.long
@pytest.mark.parametrize("source", ["lmarena", "textarena"])
def test_matches_without_a_chat_are_matches_of_their_own(tmp_path, source):
    rows = [
        {"model_a": "a", "model_b": "b", "winner": "model_a"},
        {"env_id": "e", "agents": {"0": "a", "1": "b"}, "rewards": {"0": 1, "1": -1}},
    ]
    row = rows[source == "textarena"]
    record_matches([write(tmp_path / "rows.jsonl", [row] * 3)], source, tmp_path / "run")
    table = equipoise.open_run(tmp_path / "run").rerate().table
    assert table.clusters_NN[0, 1] == 3  # of one, there would be no interval


ALONE = {"agent": {"name": "a", "config": {"model": "m"}}, "nodes": [], "rewards": {}}
EPISODE = {"env": {"id": "e"}, "task": {"hash": "t"}, "ok": True}


@pytest.mark.parametrize(
    ("source", "row", "words"),
    [
        (
            "lmarena",
            {"model_a": "a", "winner": "tie"},
            ["row.jsonl:2", "lmarena", "'model_b' is missing"],
        ),
        ("lmarena", battle("a", "b", "a"), ["row.jsonl:2", "winner 'a'", "model_a"]),
        ("lmarena", battle("a", "b\n", "tie"), ["row.jsonl:2", "printable"]),
        ("lmarena", battle("a", "b", "tie", "?" * 1_000_001), ["row.jsonl:2", "characters"]),
        ("lmarena", "text", ["row.jsonl:2", "lmarena", "str"]),
        (
            "textarena",
            {"env_id": "e", "agents": {"0": "a"}, "rewards": {"1": 1}},
            ["row.jsonl:2", "seat 'player 1'"],
        ),
        (
            "textarena",
            {"env_id": "e", "agents": {"0": "a"}, "rewards": {"0": float("inf")}},
            ["row.jsonl:2", "finite"],
        ),
        ("verifiers", {"traces": []}, ["row.jsonl:2", "verifiers", "'env' is missing"]),
        (
            "verifiers",
            {**EPISODE, "traces": [{**ALONE, "nodes": [{"parent": 1}]}]},
            ["row.jsonl:2"],
        ),
        (
            "verifiers",
            {**EPISODE, "traces": [{**ALONE, "rewards": {"a": {"score": "b"}}}]},
            ["'b'"],
        ),
        ("lmarena", battle(1, "b", "tie"), ["row.jsonl:2", "printable"]),
        ("equipoise", {}, ["row.jsonl: must be a folder that `export` wrote"]),
        ("arena", {}, ["--from arena", "lmarena"]),
    ],
)
def test_a_faulty_row_is_named_and_nothing_is_left(command, tmp_path, source, row, words):
    good = {
        "lmarena": battle("a", "b", "tie"),
        "textarena": {"env_id": "e", "agents": {"0": "a"}, "rewards": {"0": 1}},
        "verifiers": {"env": {"id": "e"}, "traces": []},
    }.get(source, {})
    write(tmp_path / "row.jsonl", [good, row])
    done = command("import-matches", "row.jsonl", "--from", source, "--out", "run")
    assert done.code == 2 and all(word in done.err for word in words), done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["row.jsonl"]


def test_what_is_deeply_nested_or_has_too_few_players_is_refused(tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text("[" * 100_000 + "]" * 100_000 + "\n")
    with pytest.raises(DataError, match="nested too deeply"):
        record_matches([file], "lmarena", tmp_path / "run")
    write(file, [battle("a", "a", "tie")])
    with pytest.raises(DataError, match="1 players"):
        record_matches([file], "lmarena", tmp_path / "run")


@pytest.mark.long
def test_a_run_is_replaced_only_where_the_user_says_so(tmp_path):
    file = write(tmp_path / "rows.jsonl", [battle("a", "b", "tie")] * 2)
    record_matches([file], "lmarena", tmp_path / "run")
    with pytest.raises(RunError, match="exists"):
        record_matches([file], "lmarena", tmp_path / "run")
    assert record_matches([file], "lmarena", tmp_path / "run", 1, overwrite=True)["matches"] == 1


@pytest.mark.parametrize(
    "models",
    [
        {"a_1": "a-1", "a_1__2": "a.1"},
        {"x": "x", "x__3": "x__3", "x__2": "x~"},  # a name that a number would have made
        {"模型": "模型²", "player": "½"},  # letters of Unicode that no identifier has
    ],
)
def test_models_of_any_names_stay_players_of_their_own(tmp_path, models):
    first, *others = models.values()
    rows = [battle(first, other, "tie") for other in others]
    record_matches([write(tmp_path / "rows.jsonl", rows)], "lmarena", tmp_path / "run")
    players = equipoise.open_run(tmp_path / "run").config.players
    assert {name: player.model for name, player in players.items()} == models


@pytest.mark.long
def test_from_python(tmp_path):
    file = write(tmp_path / "rows.jsonl", [battle("a", "b", "model_b")] * 3)
    run = equipoise.import_matches(file, "lmarena", tmp_path / "run", limit=2)
    assert len(run.matches("train")) == 4
    assert run.rerate().ratings[-1][0].name == "b"
    with pytest.raises(DataError, match=r"no\.jsonl: there is no such file"):
        equipoise.import_matches([tmp_path / "no.jsonl"], "lmarena", tmp_path / "other")


@pytest.mark.long
def test_games_that_textarena_played(tmp_path):
    """The library's own loop, kept as docs/evaluate.md says."""
    textarena = pytest.importorskip("textarena")
    rows = []
    for seed in range(4):
        env = textarena.make("KuhnPoker-v0-raw")
        env.reset(num_players=2, seed=seed)
        steps, done = [], False
        while not done:
            player, observation = env.get_observation()
            observation = "\n".join(text for _, text, _ in observation)
            action = "[bet]" if "[bet]" in observation.split("Available")[-1] else "[call]"
            steps.append({"player_id": player, "observation": observation, "action": action})
            done, _ = env.step(action)
        rewards, info = env.close()
        agents = {"0": "bold", "1": "rash"} if seed % 2 else {"0": "rash", "1": "bold"}
        rows.append(
            {
                "env_id": "KuhnPoker-v0-raw",
                "agents": agents,
                "rewards": rewards,
                "game_info": info,
                "steps": steps,
            }
        )
    file = write(tmp_path / "games.jsonl", rows)
    made = record_matches([file], "textarena", tmp_path / "run")
    assert tuple(made.values()) == (2, 4, 4)
    with Ledger.open(tmp_path / "run" / "ledger.sqlite", reading=True) as ledger:
        match = ledger.matches("train")[0]
        judged = ledger.judgements_of([match.id], "textarena")[match.id]
    assert match.seats["player 0"] == PlayerId("rash")
    assert match.turns[0].move.text == "[bet]"
    assert judged.by_seat("score") == {
        f"player {seat}": float(value) for seat, value in rows[0]["rewards"].items()
    }


@pytest.mark.long
def test_an_export_comes_back(tmp_path):
    file = write(tmp_path / "rows.jsonl", battles(10))
    record_matches([file], "lmarena", tmp_path / "first")
    equipoise.open_run(tmp_path / "first").export(tmp_path / "tables")
    made = record_matches([tmp_path / "tables"], "equipoise", tmp_path / "again")
    assert tuple(made.values()) == (3, 10, 10)
    with (
        Ledger.open(tmp_path / "first" / "ledger.sqlite", reading=True) as before,
        Ledger.open(tmp_path / "again" / "ledger.sqlite", reading=True) as after,
    ):
        for old, new in zip(before.matches("train"), after.matches("train"), strict=True):
            assert [turn.move.text for turn in old.turns] == [t.move.text for t in new.turns]
            assert old.turns[0].view == new.turns[0].view
            (was,) = before.every_judgement_of([old.id])
            (now,) = after.every_judgement_of([new.id])
            assert was.scores == now.scores
            assert now.judge == "lmarena"


def episode(models: dict[str, str], rewards: dict[str, float], task: str = "t", ok: bool = True):
    """A line of traces.jsonl, as far as it is read."""
    asked = {"message": {"role": "user", "content": "Move."}}
    traces = [
        {
            "agent": {"name": name, "config": {"model": model}},
            "nodes": [
                asked,
                {
                    "message": {"role": "assistant", "content": f"[{model}]"},
                    "parent": 0,
                    "sampled": True,
                },
            ],
            "rewards": {"payoff": {"score": rewards[name], "weight": 0.5}, "other": None},
        }
        for name, model in models.items()
    ]
    return {"env": {"id": "kuhn"}, "task": {"hash": task}, "ok": ok, "traces": traces}


@pytest.mark.long
def test_matches_of_which_none_is_judged_have_no_leaderboard(command, tmp_path):
    row = episode({"first": "x", "second": "y"}, {"first": 2, "second": -2}, ok=False)
    row["traces"][0]["errors"] = [{"type": "ProviderError", "message": "no answer"}]
    write(tmp_path / "traces.jsonl", [row])
    done = command("import-matches", "traces.jsonl", "--from", "verifiers", "--out", "run")
    assert done.code == 0
    assert "0 judged" in done.out
    for verb in (("report", "run", "--leaderboard"), ("rate", "run")):
        done = command(*verb)
        assert done.code == 2
        assert "'verifiers' scored no match of two players" in done.err
    assert not (tmp_path / "run" / "leaderboard.html").exists()
    said = " ".join(command("status", "run").out.split())
    assert "the episode failed: ProviderError: no answer" in said
    assert command("judge", "run", "--with", "shorter", "--part", "train").code == 0
    assert command("report", "run", "--leaderboard", "--judge", "shorter").code == 0


def test_matches_of_each_with_itself_advise_nothing_that_imports_lack(tmp_path):
    rows = [battle(model, model, "tie") for model in MODELS]
    record_matches([write(tmp_path / "rows.jsonl", rows)], "lmarena", tmp_path / "run")
    with pytest.raises(RunError, match=r"no two different players met in training$"):
        equipoise.open_run(tmp_path / "run").leaderboard()


def test_episodes_of_several_agents_and_of_one(tmp_path):
    rows = [
        episode({"first": "x", "second": "y"}, {"first": 2, "second": -2}),
        episode({"first": "y", "second": "x"}, {"first": 1, "second": -1}, ok=False),
        episode({"agent": "x"}, {"agent": 1.0}, "u"),
        episode({"agent": "y"}, {"agent": 0.0}, "u"),
        episode({"agent": "y"}, {"agent": 1.0}, "v"),
    ]
    file = write(tmp_path / "traces.jsonl", rows)
    made = record_matches([file], "verifiers", tmp_path / "run")
    assert tuple(made.values()) == (2, 4, 3)
    with Ledger.open(tmp_path / "run" / "ledger.sqlite", reading=True) as ledger:
        matches = ledger.matches("train")
        judged = ledger.judgements_of([match.id for match in matches])
    assert [judged[m.id].by_seat("score") for m in matches] == [
        {"first": 1.0, "second": -1.0},
        {},
        {"1": 0.5, "2": 0.0},
        {"1": 0.5},
    ]
    assert judged[matches[1].id].reason == "the episode failed"
    (turn,) = matches[3].turns
    assert turn.view.messages == (Message("user", "Move."),)
    assert turn.move.text == "[y]"
