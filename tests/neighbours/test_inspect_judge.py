"""Scorers of Inspect as judges. The slow tests ask the real inspect_ai, whose command
EQUIPOISE_INSPECT names.
"""

import sys
from pathlib import Path

import pytest
from equipoise_neighbours.inspect_judge import Inspect

import equipoise
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.judges.base import JudgeContext
from equipoise.models.resources import Resources
from equipoise.system.effects import effects_of
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

KIND = "equipoise_neighbours.inspect_judge:Inspect"  # what its entry point is where installed
SCORERS = Path(__file__).parent / "scorers"


@pytest.fixture(scope="module")
def python(inspect_command) -> str:
    """The interpreter of the environment that has Inspect."""
    return str(Path(inspect_command).with_name("python"))


@pytest.fixture(autouse=True)
def with_scorers(monkeypatch):
    monkeypatch.chdir(SCORERS)  # where a user's own lie


def judge(scorer: str, **settings) -> Inspect:
    context = JudgeContext(Answers(samples=2), 0, [], {}, Resources(), lambda player: None)
    return Inspect(scorer=scorer, **settings).at(context)


def match(*texts: str, question: str = "2 + 2.") -> tuple[list[Match], dict[str, Prompt]]:
    """One match, whose seats see one message more than the prompt."""
    prompt = Prompt("p", (user(question),), {"answer": ["4", "four"], "level": 3})
    view = View((*prompt.messages, user("How much?")))
    turns = [Turn(str(i), view, Move(text)) for i, text in enumerate(texts)]
    seats = {turn.seat: PlayerId("policy") for turn in turns}
    return [Match("m", 0, "train", "answers", "p", seats, 0, tuple(turns))], {"p": prompt}


def test_what_cannot_be_run_is_said():
    with pytest.raises(ConfigError, match=r"judge\.python: /no/python cannot be run"):
        judge("inspect_ai.scorer:includes", python="/no/python")


@pytest.mark.long
def test_without_inspect_the_reason_is_said():
    with pytest.raises(ConfigError, match=r"includes' cannot be made in .*No module named 'inspe"):
        judge("inspect_ai.scorer:includes", python=sys.executable)


def test_its_effects_are_declared():
    settings = {"python": "py", "model": "openai/x", "base_url": "http://127.0.0.1:1/v1"}
    notes = effects_of(Inspect(scorer="mine:one", **settings), Path()).notes()
    for words in ("scorer mine:one", "command py", "Inspect's model openai/x", "127.0.0.1:1"):
        assert any(words in note for note in notes), (words, notes)


def test_another_interpreter_is_the_same_judge():
    one, other = (Inspect(scorer="a:b", python=each) for each in ("/one", None))
    assert one.name == other.name != Inspect(scorer="a:c").name


@pytest.mark.slow
def test_a_scorer_gets_the_view_the_move_and_the_facts(python):
    [judged] = judge("odd_scorers:seen", python=python).judge(*match("four", "5"))
    more = {"messages": 3.0, "level": 3.0, "asked": 1.0}
    assert judged.scores == {"0": {"score": 1.0, **more}, "1": {"score": 0.0, **more}}
    chosen = judge("odd_scorers:seen", python=python, options={"key": "right"}, value="right")
    [judged] = chosen.judge(*match("4"))
    assert judged.scores["0"] == {"right": 1.0, "score": 1.0, **more}
    [judged] = judge("odd_scorers:seen", python=python, options={"key": "right"}).judge(*match("4"))
    assert judged.scores is None
    assert "name one of them: value: right" in judged.reason


@pytest.mark.slow
def test_what_is_unscored_stays_missing(python):
    texts = ["C", "P", "I", "N", "0.25", "none", "unscored", "broken", "list", "perhaps"]
    [judged] = judge("odd_scorers:odd", python=python).judge(*match(*texts))
    known = {seat: judged.score(seat, "score") for seat in judged.scores}
    assert known == {"0": 1.0, "1": 0.5, "2": 0.0, "3": 0.0, "4": 0.25}
    assert judged.reason.split("; ") == [
        "the scorer gave none",
        "unscored",
        "refusal",
        "it would not",
        "the scorer failed: ValueError: no such thing",
        "the scorer gives a list, which has no score",
        "'perhaps' is no number",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"scorer": "odd_scorers:missing"}, "AttributeError: .*missing"),
        ({"scorer": "odd_scorers:no_scorer"}, "makes no scorer, but int"),
        ({"scorer": "odd_scorers:seen", "options": {"kye": "a"}}, "TypeError: .*kye"),
    ],
)
def test_what_is_no_scorer_is_refused_at_once(python, settings, says):
    with pytest.raises(ConfigError, match=says):
        judge(python=python, **settings)


@pytest.mark.slow
def test_a_grading_scorer_asks_the_model_that_is_served(python, served, tmp_path):
    grading = judge(
        "inspect_ai.scorer:model_graded_qa",
        python=python,
        model="openai-api/equipoise/grader",
        base_url=served,
    )
    [judged] = grading.judge(*match("four"))
    assert judged.scores is None  # a tiny model writes no grade
    assert judged.reason.startswith("unscored; grader_failed; Grade not found in model output")


@pytest.fixture
def served(serving, monkeypatch):
    """The address of a server with the built-in tiny model."""
    from equipoise.players.local import Local
    from equipoise.serve.catalogue import Catalogue

    player = Local.model_validate({"max_new_tokens": 4})
    with serving(Catalogue.of_player("grader", player)) as address:
        monkeypatch.setenv("EQUIPOISE_API_KEY", address.token)
        yield address.url


@pytest.mark.slow
def test_a_run_learns_from_a_scorer(python, tmp_path):
    run = equipoise.run(
        "quickstart",
        {
            "generations": 1,
            "prompts": {"per_generation": 6, "held_out": 4},
            "evaluate.samples": 1,
            "judge": {"kind": KIND, "scorer": "inspect_ai.scorer:includes", "python": python},
        },
        out=tmp_path / "run",
        progress=False,
    )
    rows = run.judgements("held_out")
    assert set(rows["score"].dropna()) <= {0.0, 1.0}
    assert len(rows) >= 8
    assert set(rows["judge"].str.split("-").str[0]) == {KIND}
