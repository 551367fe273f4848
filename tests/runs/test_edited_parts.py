"""A part of the user's own that is edited: what it scored is scored anew where nothing has to be
asked for it, and a run in which it changed says so wherever its numbers are shown.
"""

import sys

import pytest
from small_runs import FINITE, settings

SET = """
from typing import Literal
from equipoise.evaluation.sets.base import Benchmark
from equipoise.ledger.item_scores import Item, ItemScores
from equipoise.types import Prompt, record_id, user

class Words(Benchmark):
    kind: Literal["words"] = "words"

    @property
    def headline(self):
        return "share"

    def load(self):
        texts = ["one", "two three", "four five six"]
        return [Item(id=text, prompt=Prompt(record_id(text), (user(text),))) for text in texts]

    def score(self, items, answers, judged):
        return [
            ItemScores(item=item.id, sample=answer.sample, values={"share": VALUE})
            for item in items
            for answer in answers[item.id]
        ]
"""
JUDGE = """
from typing import Literal
from equipoise.judges.pointwise import Pointwise

class Fixed(Pointwise):
    kind: Literal["fixed"] = "fixed"
    bounds = (0.0, 1.0)

    def score(self, prompt, text):
        return {"score": VALUE}
"""
FUNCTION = "def score(prompt, text):\n    return VALUE\n"
PLAYER = """
from pathlib import Path

def answer(view, seed):
    with Path("asked.txt").open("a") as file:
        file.write(view.messages[-1].content + chr(10))
    return "an answer"
"""
RATINGS = """
from equipoise.ratings.elo import Elo

class Mine(Elo):
    kind: str = "mine"
    k: float = VALUE
"""
TARGET = "{kind: scripted, call: 'players_of_mine.py:answer'}"
JUDGED_SET = "{words: {kind: prompts, prompts: words.jsonl, judge: '%s'}}"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """own(NAME, TEXT, VALUE) writes a module of the user's, with this value in it."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)

    def write(name, text, value=""):
        (tmp_path / name).write_text(text.replace("VALUE", str(value)))

    yield write
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and "_of_mine" in name:
            del sys.modules[name]


@pytest.fixture
def measured(command, own, tmp_path):
    """measured("--on", …): the scores that `evaluate` prints, of one recorded player."""
    own("players_of_mine.py", PLAYER)
    (tmp_path / "words.jsonl").write_text('{"prompt": "one"}\n{"prompt": "two"}\n')

    def run(*arguments):
        done = command("evaluate", TARGET, "--out", "run", "--json", *arguments)
        assert done.code == 0, done.err
        return [row["metrics"][row["headline"]]["mean"] for row in done.facts]

    return run


@pytest.mark.long
@pytest.mark.parametrize("kind", ["set_of_mine:Words", "set_of_mine.py:Words"])
def test_an_edited_set_scores_the_recorded_answers_anew(own, measured, command, tmp_path, kind):
    on = ("--on", f"words={kind}")
    own("set_of_mine.py", SET, 0.375)
    assert measured(*on) == [0.375]
    asked = (tmp_path / "asked.txt").read_text()
    assert len(asked.splitlines()) == 3
    own("set_of_mine.py", SET, 0.875)
    assert measured(*on) == [0.875]
    assert measured(*on) == [0.875]
    assert (tmp_path / "asked.txt").read_text() == asked  # answers cost money
    headline = command("status", "run", "--json").facts["headlines"][-1]["value"]
    assert headline.startswith("87.5 %")
    own("set_of_mine.py", SET, 0.375)
    assert measured(*on) == [0.375]
    headline = command("status", "run", "--json").facts["headlines"][-1]["value"]
    assert headline.startswith("37.5 %")  # what was measured last, though recorded before


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "judge"),
    [
        (JUDGE, "judge_of_mine:Fixed"),
        (JUDGE, "judge_of_mine.py:Fixed"),
        (FUNCTION, "judge_of_mine:score"),
        (FUNCTION, "judge_of_mine.py"),
    ],
)
def test_an_edited_judge_of_a_set_judges_the_recorded_answers_anew(
    own, measured, tmp_path, text, judge
):
    for way in (("--on", "words.jsonl", "--judge", judge), ("--on", JUDGED_SET % judge)):
        own("judge_of_mine.py", text, 0.25)
        assert measured(*way) == [0.25]
        own("judge_of_mine.py", text, 0.75)
        assert measured(*way) == [0.75]
    assert len((tmp_path / "asked.txt").read_text().splitlines()) == 2


@pytest.mark.long
def test_a_part_that_is_edited_between_generations_is_told_wherever_numbers_are_shown(
    command, own, tmp_path
):
    own("ratings_of_mine.py", RATINGS, 8)
    own("judge_of_mine.py", FUNCTION, 0.5)
    own("players_of_mine.py", PLAYER)
    mine = settings(
        generations=1,
        training_ratings="ratings_of_mine:Mine",  # of two players, though only one plays
        players__guest="{kind: scripted, call: 'players_of_mine:answer'}",
    )
    begun = command("run", FINITE[0], *mine, "--out", "run")
    assert begun.code == 0, begun.err
    assert "was changed" not in begun.err + begun.out
    own("ratings_of_mine.py", RATINGS, 32)
    told = "your part ratings_of_mine:Mine was changed after generation 1 was measured"

    # Whatever else is done with the run says so, and uses the note up for nobody.
    judge = ("judge", "run", "--with", "judge_of_mine.py", "--part", "train")
    assert told in command(*judge).err
    assert told in command(*judge).err
    assert "was changed" not in command("status", "run").out  # nothing is mixed yet
    assert command("status", "run", "--json").facts.get("changed_parts") is None
    assert told in command("resume", "run").err
    status = command("status", "run", "--json").facts
    assert "changed_parts" not in status  # a finished run played nothing

    resumed = command("resume", "run", *settings(generations=2))
    assert told in resumed.err
    assert told in " ".join(resumed.out.split())
    status = command("status", "run", "--json").facts
    assert status["changed_parts"] == [{"part": "ratings_of_mine:Mine", "after": 1}]
    assert [line for line in status["cautions"] if line.startswith(told)]
    assert told in command("status", "run").out
    assert told in (tmp_path / "run" / "report.html").read_text()
    checked = command("check", "run")
    assert checked.code == 0
    assert "after generation 1 was measured" in checked.out

    assert command("run", FINITE[0], *mine, "--out", "other").code == 0  # by the edited part
    own("ratings_of_mine.py", RATINGS, 4)
    assert command("run", FINITE[0], *mine, "--out", "third").code == 0
    (tmp_path / "words.jsonl").write_text(ROWS)
    on = ("--on", "words.jsonl", "--judge", "shorter")
    edited = "your part ratings_of_mine:Mine was edited between these runs"
    compared = " ".join(command("compare", "run@guest", "other@guest", *on).out.split())
    assert edited not in compared
    assert compared.count(told) == 1  # in the run that changed, and not in the other
    compared = " ".join(command("compare", "run@guest", "third@guest", *on).out.split())
    assert compared.count(edited) == 1

    own("ratings_of_mine.py", RATINGS, 8)  # back again: that mixes them once more
    assert command("resume", "run", *settings(generations=3)).code == 0
    assert command("resume", "run", *settings(generations=4)).code == 0
    changes = command("status", "run", "--json").facts["changed_parts"]
    assert [change["after"] for change in changes] == [1, 2]


LOUD = "import sys\nprint('it is executed', file=sys.stderr)\n"
ROWS = '{"prompt": "one", "answer": "two"}\n{"prompt": "two", "answer": "a b c"}\n'
TELLING = LOUD + FUNCTION.replace("VALUE", "len(text)")


@pytest.mark.long
def test_what_is_run_of_the_users_own_is_said_before_it_is_executed(command, own, tmp_path):
    own("players_of_mine.py", PLAYER)
    (tmp_path / "words.jsonl").write_text(ROWS)
    assert command("run", *FINITE, "--out", "run").code == 0
    target = ("evaluate", TARGET, "--out", "answers")
    loud = {
        "set_of_mine:Words": (SET, (*target, "--on", "set=set_of_mine:Words")),
        "set_of_mine.py:Words": (SET, (*target, "--on", "set=set_of_mine.py:Words")),
        "judge_of_mine:Fixed": (
            JUDGE, (*target, "--on", "words.jsonl", "--judge", "judge_of_mine:Fixed"),
        ),
        "other_judge_of_mine.py:score": (
            FUNCTION, (*target, "--on", JUDGED_SET % "other_judge_of_mine.py"),
        ),
        "beside_of_mine:Fixed": (
            JUDGE, ("judge", "run", "--with", "beside_of_mine:Fixed", "--part", "train"),
        ),
        "ratings_of_mine:Mine": (
            RATINGS, ("rate", "run", "--by", "ratings_of_mine:Mine", "--of", "league"),
        ),
        "attacked_of_mine.py:score": (
            TELLING, ("attack-judge", "attacked_of_mine.py", "--prompts", "words.jsonl"),
        ),
    }  # fmt: skip
    for path, (text, arguments) in loud.items():
        own(f"{path.partition(':')[0].removesuffix('.py')}.py", LOUD + text, 0.5)
        err = command(*arguments).err
        note = f"note: runs code that is not Equipoise's: {path}"
        assert err.count(note) == 1, (arguments, err)
        assert err.index(note) < err.index("it is executed"), arguments
    own("compared_of_mine.py", LOUD + JUDGE, 0.5)
    both = ("run@policy@1", "run@policy@2", "--on", "words.jsonl")
    err = command("compare", *both, "--judge", "compared_of_mine:Fixed").err
    note = "note: runs code that is not Equipoise's: compared_of_mine:Fixed"
    assert err.index(note) < err.index("it is executed")
