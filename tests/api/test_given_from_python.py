"""Functions, lists and data frames as judges, measures and prompts, and how a run records them."""

import functools
import linecache
import sys

import pytest

import equipoise
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.report.page import page
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.system import given_functions

PLAYERS = {
    "ann": {"kind": "scripted", "text": "It is 7."},
    "bob": {"kind": "scripted", "text": "No idea, sorry."},
}
QUESTIONS = [f"What is {n} plus {7 - n}?" for n in range(6)]
CELL = "def score(prompt, text):\n    return float('7' in text)\n"


def in_a_cell(source, name="score"):
    """The function that a notebook's cell defines."""
    file = f"<cell {len(linecache.cache)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"__name__": "__main__"}
    exec(compile(source, file, "exec"), space)
    return space[name]


@pytest.fixture(autouse=True)
def new_process(monkeypatch):
    """No function was given yet."""
    monkeypatch.delitem(sys.modules, given_functions.MODULE, raising=False)


def arena(**more):
    return {"players": PLAYERS, "prompts": QUESTIONS, **more}


def test_a_function_of_a_module_is_named_and_another_is_kept_with_its_hash():
    path, source = given_functions.give(in_a_cell)
    assert path == f"{__name__}:in_a_cell"
    assert source == ""
    path, source = given_functions.give(in_a_cell(CELL))
    assert given_functions.given_name(path) == "score"
    assert source == CELL.strip()
    other, _ = given_functions.give(in_a_cell(CELL.replace("7", "8")))
    assert other != path

    def at_least(most):
        return lambda prompt, text: float(len(text) > most)

    first, second = (given_functions.give(at_least(most))[0] for most in (3, 4))
    assert first != second  # one source with other values around it
    with pytest.raises(ConfigError, match="has no source text to record"):
        given_functions.give(eval("lambda prompt, text: 1.0"))
    with pytest.raises(
        ConfigError, match=r"has no source text .* another one makes, .* or a class"
    ):
        given_functions.give(functools.partial(at_least, 3))


@pytest.mark.long
def test_judge_measures_and_prompts_from_a_notebook(tmp_path, capsys):
    words = "def words(prompt, text):\n    return float(len(text.split()))\n"
    settings = arena(judge=in_a_cell(CELL), measures=[in_a_cell(words, "words"), "length"])
    run = equipoise.run("arena", settings, tmp_path / "run", progress=False)
    config = run.config
    assert config.judge.title == "score"
    assert config.judge.source == CELL.strip()
    assert config.prompts.kind == "given"
    frame = run.measures()
    assert list(frame.columns).count("words") == 1
    assert len(run.matches("held_out")) == 2 * len(QUESTIONS)

    sys.modules.pop(given_functions.MODULE)  # as in a new process
    opened = equipoise.open_run(tmp_path / "run")
    assert opened.status()["finished"]
    with pytest.raises(ConfigError, match=r"'score' was given from Python and is needed again"):
        opened.resume(progress=False)
    edited = in_a_cell(CELL.replace("7", "8"))
    with pytest.raises(ConfigError, match="'score' is not the one that this was begun with"):
        equipoise.open_run(tmp_path / "run", functions=[edited]).resume(progress=False)
    same = [in_a_cell(CELL), in_a_cell(words, "words")]
    assert equipoise.open_run(tmp_path / "run", functions=same).resume(progress=False)


@pytest.mark.long
def test_a_run_is_evaluated_on_rows_by_a_function(tmp_path):
    run = equipoise.run("arena", arena(judge="shorter"), tmp_path / "run", progress=False)
    rows = [{"prompt": "What is 3 plus 4?"}, {"prompt": "Name a number."}]
    again = equipoise.evaluate(run, rows, judge=in_a_cell(CELL), progress=False)
    assert again is run  # so that it can be chained
    scores = {row.player: row.mean for row in run.benchmarks().itertuples()}
    assert scores["ann@0"] == 1.0
    assert scores["bob@0"] == 0.0


def test_prompts_are_a_list_rows_or_a_data_frame():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"prompt": ["a?", "b?"], "answer": ["1", None]})
    for given, facts in (
        (["a?", "b?"], [{}, {}]),
        ([{"prompt": "a?", "answer": "1"}, {"prompt": "b?"}], [{"answer": "1"}, {}]),
        (frame, [{"answer": "1"}, {}]),
        ({"rows": frame, "held_out": 2}, [{"answer": "1"}, {}]),
        (frame["prompt"], [{}, {}]),
    ):
        config = recipe_loader.load(
            "arena", {"players": PLAYERS, "judge": "shorter", "prompts": given}
        )
        prompts = config.prompts.load().training
        assert [prompt.messages[-1].content for prompt in prompts] == ["a?", "b?"]
        assert [dict(prompt.facts) for prompt in prompts] == facts
    again = recipe_loader.build(recipe_loader.parse_yaml(config.yaml(), "again"), "again")
    assert again.prompts == config.prompts
    with pytest.raises(ConfigError, match="a prompt is a text or a mapping, and this is int"):
        recipe_loader.load("arena", arena(judge="shorter") | {"prompts": [3]})


@pytest.mark.long
def test_a_report_of_models_that_nobody_trains_speaks_of_no_learning(tmp_path):
    panel = {"kind": "panel", "judges": {"alice": "shorter", "bob": in_a_cell(CELL)}}
    run = equipoise.run("arena", arena(judge=panel), tmp_path / "run", progress=False)
    with RunDirectory.read(run.path, trust=True) as opened:
        shown = page(opened)
    names = {section.name for section in shown.sections}
    assert not names & {"learning", "training", "standing"}
    text = run.report().read_text()
    for absent in ("gap of each learner", "generation 0 of 0", "ann@0:", "panel-"):
        assert absent not in text
    assert "mean of alice, bob" in text
    headline = next(section for section in shown.sections if section.name == "headline")
    for tile in headline.blocks[0].tiles:
        assert tile.value.partition(" ")[0] not in tile.note  # a number is shown once
    board = run.leaderboard().read_text()
    assert f"By {len(QUESTIONS)} prompts, on which mean of alice, bob compared" in board


@pytest.mark.long
def test_a_run_in_which_nobody_learns_has_scores_and_no_start(tmp_path):
    run = equipoise.run("arena", arena(judge=in_a_cell(CELL)), tmp_path / "run", progress=False)
    text = repr(run)
    assert "; ann scores 100.0 % (61.0 to 100.0); bob scores 0.0 %" in text
    assert "at the start" not in text + run._repr_html_()
    assert "generations" not in text


def test_a_panel_has_another_name_when_a_members_file_changes(tmp_path):
    file = tmp_path / "mine.py"
    mine = {"kind": "call", "function": f"{file}:score"}
    tried = {**mine, "tried_on": ["a", "bc"]}

    def names(member):
        panel = {"kind": "panel", "judges": {"mine": member, "short": "shorter"}}
        first = {"kind": "first_place", "judge_of_answers": member}
        built = [recipe_loader.component(Judge, each, (), "--judge") for each in (panel, first)]
        return [judge.as_it_is().name for judge in built]

    file.write_text("def score(prompt, text):\n    return len(text)\n")
    before = names(mine)
    assert names(tried) == before  # what it is tried on changes no verdict
    file.write_text("def score(prompt, text):\n    return -len(text)\n")
    after = names(mine)
    assert len({*before, *after}) == 4
