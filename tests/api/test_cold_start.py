"""Traces of a teacher: which matches are planned, and which of its moves are kept."""

import json
from types import SimpleNamespace

import pytest
from hostile_files import Outside

from equipoise.api import cold_start
from equipoise.api.cold_start import TeacherMatches, Trace, teacher_named, write_rows
from equipoise.errors import ConfigError, DataError
from equipoise.learners.sft_learner import SFT
from equipoise.runs import recipe_loader
from equipoise.runs.monitor import Silent
from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, user


@pytest.fixture(scope="module")
def config():
    """A recipe in which one player with a role learns."""
    return recipe_loader.load("gtalign_clerks", [])


@pytest.fixture
def matches(config):
    return TeacherMatches(config, teacher_named("clerk"), 3, 2)


@pytest.mark.long
def test_matches_are_planned_by_the_teacher_and_its_settings(config, matches):
    planned = matches.plan_matches()
    assert len(matches.prompts) == 2
    assert len(planned) == 6
    assert [plan.prompt.id for plan in planned] == [p.id for p in matches.prompts for _ in range(3)]
    assert len({plan.id for plan in planned}) == len({plan.seed for plan in planned}) == 6
    assert all(PlayerId(cold_start.TEACHER) in plan.seats.values() for plan in planned)
    again = TeacherMatches(config, teacher_named("clerk"), 2, 1).plan_matches()
    assert [plan.id for plan in again] == [plan.id for plan in planned[:2]]
    other = TeacherMatches(config, teacher_named("{kind: scripted, text: a}"), 2, 1)
    assert not {plan.id for plan in other.plan_matches()} & {plan.id for plan in planned}
    whole = TeacherMatches(config, teacher_named("clerk"), 1)
    assert len(whole.prompts) > 2
    assert whole.prompts[:2] == matches.prompts


def test_a_recipe_without_a_single_learner_of_a_role_has_no_traces():
    for recipe in ("rock_paper_scissors", "gpo_clerks"):
        with pytest.raises(ConfigError, match="traces: need a recipe with schedule: roles"):
            TeacherMatches(recipe_loader.load(recipe, []), teacher_named("clerk"), 1)


def judged(matches, config, prompt, *answers, reason="", **scores):
    """A match in which the teacher answered; its utilities, or None."""
    game = config.game
    seats = {seat: matches._players[game.role(seat)] for seat in game.seats_for(prompt)}
    own = next(seat for seat in seats if game.role(seat) == matches._role)
    turns = tuple(Turn(own, View((user(f"ask {n}"),)), Move(a)) for n, a in enumerate(answers))
    played = Match("m", 0, "train", game.kind, prompt.id, seats, 0, turns)
    given = {own: {config.utility if k == "utility" else k: v for k, v in scores.items()}}
    return played, Judgement("j", "m", "judge", given if scores else None, reason)


def test_the_best_play_on_each_prompt_is_kept(config, matches):
    one, two = matches.prompts
    plays = [
        judged(matches, config, one, "low", utility=1.0),
        judged(matches, config, one, "best", " ", "last", utility=2.0, format=1.0),
        judged(matches, config, one, "equal", utility=2.0),
        judged(matches, config, one, "odd", utility=9.0, format=0.5),
        judged(matches, config, one, "unjudged", reason="none"),
        judged(matches, config, two, "other", other=3.0),
        judged(matches, config, two, "just", utility=0.5),
    ]
    kept = matches.select_traces(plays, 0.5)
    best = {config.utility: 2.0, "format": 1.0}
    assert [(t.messages[0].content, t.text, t.source, t.scores) for t in kept] == [
        ("ask 0", "best", one.source, best),
        ("ask 2", "last", one.source, best),
        ("ask 0", "just", two.source, {config.utility: 0.5}),
    ]
    assert len(matches.select_traces(plays, 0.75)) == 2
    with pytest.raises(DataError) as refused:
        matches.select_traces(plays, 9.5)
    said = "none of the 7 matches is good enough: 4 are well formed, and --least is 9.5"
    assert said in str(refused.value)
    rows = matches.rows(plays)
    assert rows[1]["written"] == ["best", " ", "last"]
    assert rows[1]["scores"] == best
    assert rows[4]["scores"] is rows[5]["scores"] is None
    assert rows[4]["reason"] == "none"
    assert rows[6]["prompt"][0]["content"] == two.messages[0].content


def test_traces_are_written_for_trl(tmp_path):
    trace = Trace((user("Ł?"),), "so", "file", {"mutual": 0.5})
    write_rows([trace.row(), trace.row()], tmp_path / "traces.jsonl")
    text = (tmp_path / "traces.jsonl").read_text()
    assert "Ł" in text
    assert text.count("\n") == 2
    assert json.loads(text.splitlines()[0]) == {
        "prompt": [{"role": "user", "content": "Ł?"}],
        "completion": [{"role": "assistant", "content": "so"}],
        **{"source": "file", "mutual": 0.5},
    }


def test_a_recipe_gets_the_model_that_it_leaves_open(capsys):
    for given, train, model in (
        ([], None, "builtin"),
        ([], "mine", "mine"),
        (["assistant.model=other"], "mine", "other"),
    ):
        loaded = cold_start.load("gtalign", [*given, "prompts.path=none.parquet"], train)
        assert loaded.players["assistant"].model == model
    with pytest.raises(ConfigError, match=r"no such recipe|has no players|nothing"):
        cold_start.load("nothing", [])


@pytest.mark.long
def test_traces_lie_where_they_are_asked_for_and_are_not_played_twice(command, tmp_path):
    line = "assistance traces gtalign_clerks --teacher clerk --count 2 --candidates 2 --out a/b"
    first, again = (command(*line.split(), "--json") for _ in range(2))
    assert first.code == again.code == 0, first.err
    assert first.facts == again.facts
    rows = (tmp_path / "a" / "b" / "candidates.jsonl").read_text().splitlines()
    assert len(rows) == 4
    assert (tmp_path / "a" / "b" / "traces.jsonl").is_file()


@pytest.mark.long
def test_links_in_the_folder_of_traces_are_not_followed(command, tmp_path):
    line = "assistance traces gtalign_clerks --teacher clerk --count 2 --candidates 1 --out t"
    outside = Outside(tmp_path / "outside")
    (tmp_path / "t").mkdir()
    for name in ("traces.jsonl", "candidates.jsonl"):
        (tmp_path / "t" / name).symlink_to(outside.file)
    (tmp_path / "t" / "model").symlink_to(outside.folder)
    refused = command(*line.split(), "--train", "builtin")
    assert refused.code == 2
    assert "t/model: is a link" in refused.err
    (tmp_path / "t" / "model").unlink()
    done = command(*line.split())
    assert done.code == 0, done.err
    assert outside.changes() == []
    for name in ("traces.jsonl", "candidates.jsonl"):
        assert not (tmp_path / "t" / name).is_symlink()
        assert len((tmp_path / "t" / name).read_text().splitlines()) == 2


@pytest.mark.long
def test_a_model_learns_the_traces_as_the_recipe_says(config, tmp_path, monkeypatch):
    """What the training is given; that it learns, the tests of `fine_tune` say."""
    given = {}

    def note(model, data, out, settings, **more):
        given.update(model=model, data=data, out=out, settings=settings, **more)
        return SimpleNamespace(model=out / "here", notes=lambda: ())

    monkeypatch.setattr(cold_start, "fine_tune", note)
    training, monitor = SFT.model_validate({"epochs": 2}), Silent()
    started = cold_start.cold_start(
        config,
        teacher_named("clerk"),
        tmp_path,
        candidates=2,
        count=2,
        train="builtin",
        training=training,
        monitor=monitor,
    )
    assert started.model == tmp_path / "model" / "here"
    assert started.kept == len(given["data"]) > 0
    lines = [json.loads(line) for line in started.traces.read_text().splitlines()]
    assert [text for _, text in given["data"]] == [row["completion"][0]["content"] for row in lines]
    assert (given["model"], given["out"]) == ("builtin", tmp_path / "model")
    assert given["settings"] is training
    assert given["monitor"] is monitor
    assert given["seed"] == config.seed
    assert given["overwrite"] is True
    player = config.players[config.learning[0]]
    for setting in ("max_length", "template", "template_options"):
        assert given[setting] == getattr(player, setting)
