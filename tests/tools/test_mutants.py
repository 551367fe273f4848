"""The drawing of planted bugs: operators, seeds, and which tests are picked."""

import ast
import json
import re
import sqlite3

import pytest
import yaml

from tools import mutants
from tools.mutants import Coverage, Mutation, Operators, draw, page, rates


def changes(source: str) -> dict[str, list[str]]:
    """operator -> the sources that it makes."""
    operators = Operators("room/file.py", source)
    operators.visit(ast.parse(source))
    made: dict[str, list[str]] = {}
    for mutation in operators.found:
        made.setdefault(mutation.operator, []).append(mutation.planted(source.encode()).decode())
    return made


@pytest.mark.parametrize(
    ("source", "operator", "changed"),
    [
        ("a < b", "a comparison turned", "a <= b"),
        ("a + b", "arithmetic", "a - b"),
        ("a and b", "and for or", "(a or b)"),
        ("not a", "a sign or not dropped", "a"),
        ("x = 3", "off by one", "x = 4"),
        ("x = True", "a constant", "x = False"),
        ("f(a, b)", "arguments exchanged", "f(b, a)"),
        ("f(a, axis=1)", "an axis", "f(a, axis=0)"),
        ("x_KB[k, b]", "an index", "x_KB[0, b]"),
        ("seeds.child(s, 'x', t)", "a seed's part dropped", "seeds.child(s, 'x')"),
        ("loss * mask_BT", "a mask dropped", "loss"),
        ("if a:\n    raise E", "a guard left out", "if False:\n    raise E"),
        ("write(a)", "a statement dropped", "pass"),
        ("é = a < b", "a comparison turned", "é = a <= b"),
        ("f(len(a), len(b))", "arguments exchanged", "f(len(b), len(a))"),
        ("f(x['a'], x['b'])", "arguments exchanged", "f(x['b'], x['a'])"),
        ("f(top=a, low=b)", "arguments exchanged", "f(top=b, low=a)"),
        ("seeds.generator(s, 'x', *y)", "a seed's part dropped", "seeds.generator(s, 'x')"),
        ("seeds.child(s, 'x')", "a seed reused", "s"),
        ("f(run, t)", "a generation before", "f(run, max(0, t - 1))"),
        ("f(player.generation)", "a generation before", "f(max(0, player.generation - 1))"),
        (
            "def f(xs, ys):\n    for n, x in enumerate(xs):\n        g(x, ys[n])",
            "the first for all",
            "def f(xs, ys):\n    for n, x in enumerate(xs):\n        g(x, ys[0])",
        ),
        (
            "x = [f(y) for y in ys]",
            "the first for all",
            "x = [f(y) for y in (lambda every: every[:1] * len(every))([*(ys)])]",
        ),
        (
            "def f(a: int, b: int):\n    return a",
            "names exchanged",
            "def f(a: int, b: int):\n    return b",
        ),
    ],
)
def test_an_operator_changes_what_it_says(source, operator, changed):
    assert changed in changes(source)[operator]


@pytest.mark.parametrize(
    "source",
    [
        "f(len(a), sum(b))",
        "f(x['a'], y['b'])",
        "for t in range(t):\n    pass",
        "x = [f(y) for y in ys if y]",
        "def f(xs, n):\n    return xs[n]",
    ],
)
def test_what_is_not_of_one_kind_is_left_alone(source):
    new = {"arguments exchanged", "a generation before", "the first for all", "a seed reused"}
    assert not new & changes(source).keys()


def test_the_first_for_all_is_the_first_as_often_as_there_are_others():
    [planted] = changes("x = [y + y for y in 'abc']")["the first for all"]
    made = {}
    exec(planted, made)
    assert made["x"] == ["aa", "aa", "aa"]


def test_the_operators_of_whole_modules_make_sources_that_compile():
    """What is one thing for another, and not a sign or a number, is found in them all."""
    kinds = {"a generation before", "a seed reused", "the first for all", "arguments exchanged"}
    found = set()
    for file in ("runs/play_matches.py", "judges/listwise.py", "judges/peers.py"):
        path = mutants.PACKAGE / file
        source = path.read_bytes()
        own = [each for each in mutants.candidates(path) if each.operator in kinds]
        assert len(own) > 5, file
        for mutation in own:
            compile(mutation.planted(source), file, "exec")
            found.add(mutation.operator)
    assert found == kinds


def test_a_file_that_was_moved_is_named_where_it_lies(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path)
    for place in ("old/here.py", "new/moved.py", "new/two.py", "other/two.py"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("")
    names = ["old/here.py", "old/moved.py", "old/two.py", "old/gone.py"]
    assert [mutants.here(name) for name in names] == [
        "old/here.py",
        "new/moved.py",
        "old/two.py (no longer there)",
        "old/gone.py (no longer there)",
    ]


def test_prose_annotations_and_messages_are_left_alone():
    source = 'x: Literal[1] = Field(2, description="3")\nraise E(f"{a < b}", 4)'
    source += (
        "\nx = zip(a, strict=True)\n@dataclass(frozen=True)\nclass A(B, slots=True):\n    pass"
    )
    source += "\nRow = dict[str, Any]"
    assert changes(source) == {"off by one": [source.replace("Field(2", "Field(3")]}


def test_a_seed_draws_two_bugs_in_every_module():
    first = draw(1, 2, ["solvers"])
    assert first == draw(1, 2, ["solvers"]) != draw(2, 2, ["solvers"])
    modules = [
        path
        for path in mutants.PACKAGE.glob("solvers/*.py")
        if path.read_bytes().count(b"\n") >= mutants.LEAST_LINES
    ]
    per_module = {str(path.relative_to(mutants.PACKAGE)): 0 for path in modules}
    for mutation in first:
        per_module[mutation.file] += 1
    assert set(per_module.values()) == {2}
    assert len({mutation.digest for mutation in first}) == len(first)


def test_the_tests_of_a_line_come_quickest_first(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path)
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    for name in "abcd":
        (tmp_path / "tests" / f"{name}.py").write_text("import equipoise.room.file" * (name == "d"))
    (tmp_path / mutants.DECLARED).write_text("")
    with sqlite3.connect(tmp_path / "coverage") as db:
        db.execute("CREATE TABLE file (id INTEGER, path TEXT)")
        db.execute("CREATE TABLE context (id INTEGER, context TEXT)")
        db.execute("CREATE TABLE line_bits (file_id INTEGER, context_id INTEGER, numbits BLOB)")
        db.execute("INSERT INTO file VALUES (1, ?)", (str(mutants.PACKAGE / "room/file.py"),))
        names = ["tests/a.py::slow|run", "tests/a.py::quick|run", "tests/b.py::shared|setup"]
        for n, name in enumerate(names):
            db.execute("INSERT INTO context VALUES (?, ?)", (n, name))
            lines = bytes([0b100000 if n < 2 else 0b1000000])  # line 5, line 6
            db.execute("INSERT INTO line_bits VALUES (1, ?, ?)", (n, lines))
    (tmp_path / "room").mkdir()
    source = "LEAST = 2\ndef first(\n    a=1,\n):\n    a += 1\n    a += 2\n    return a\n"
    (tmp_path / "room" / "file.py").write_text(source)
    (tmp_path / "room" / "other.py").write_text(source)
    (tmp_path / "durations.txt").write_text(
        "2.00s call     tests/a.py::slow\n0.10s call     tests/a.py::quick\n"
        "0.50s setup    tests/b.py::shared\n0.20s call     tests/b.py::other\n"
        "0.30s call     tests/c.py::red\nFAILED tests/c.py::red - because\n"
        "3.00s call     tests/d.py::user\n0.40s call     tests/d.py::no_user\n"
        f"4.00s call     {mutants.DECLARED}::all\n"
    )
    fixtures = {"tests/b.py::shared": ["made"], "tests/d.py::user": ["made"]}
    listed = {"long": ["tests/a.py::quick"], "fixtures": fixtures}
    (tmp_path / "tests.json").write_text(json.dumps(listed))
    coverage = Coverage(tmp_path)

    def at(line):
        return coverage.tests(Mutation("room/file.py", "", line, 0, 0, "", ""))

    every = ["tests/a.py::quick", "tests/b.py::shared", "tests/a.py::slow"]
    assert at(5) == ["tests/a.py::quick", "tests/a.py::slow"]
    within = mutants._within(coverage, Mutation("room/file.py", "", 5, 0, 0, "", ""), 90)
    assert within == ["tests/a.py::slow", "tests/a.py::quick"], "what is marked long comes last"
    within = mutants._within(coverage, Mutation("room/file.py", "", 5, 0, 0, "", ""), 1)
    assert within == ["tests/a.py::quick"], "the dearest is left out"
    shared = ["tests/b.py::other", "tests/b.py::shared", "tests/d.py::user"]
    assert at(6) == shared, "a fixture may be shared"
    declared = [f"{mutants.DECLARED}::all", *every]
    assert at(1) == at(3) == declared, "what is run at import shows wherever the module is used"
    naming = ["tests/d.py::no_user", "tests/d.py::user"]
    of_module = sorted({*every, *naming}, key=coverage.seconds)
    assert at(7) == of_module, "a process of its own may run the line"
    assert coverage.tests(Mutation("room/other.py", "", 7, 0, 0, "", "")) == []


ROW = {"file": "a/b.py", "line": 1, "operator": "o", "old": "x", "new": "y", "digest": "d"}
TRIED = [{**ROW, "room": "a", "verdict": verdict, "by": "why"} for verdict in mutants.VERDICTS]


def test_a_bug_that_no_test_runs_counts_as_unnoticed():
    assert rates(TRIED) == [[room, "1", "1", "1", "1", "33% (6% to 79%)"] for room in ("a", "all")]


def test_what_lives_and_is_argued_for_is_equivalent(tmp_path, monkeypatch):
    monkeypatch.setattr(mutants, "EQUIVALENT", tmp_path / "why.yaml")
    mutants.EQUIVALENT.write_text("d: of no account\n")
    verdicts = [(row["verdict"], row["by"]) for row in mutants.argued(TRIED)]
    same = ("equivalent", "of no account")
    assert verdicts == [("killed", "why"), ("equivalent", "why"), same, same]


def test_the_page_says_what_was_noticed_and_of_which_modules_nothing_was_tried(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(mutants, "PACKAGE", tmp_path)
    (tmp_path / "a").mkdir()
    for name in "bc":
        (tmp_path / "a" / f"{name}.py").write_text("")
    told = {"command": "c", "commit": "0", "date": "d", "drawn": {"a/b.py": 4, "a/c.py": 2}}
    text = page({**told, "rows": [*TRIED, {**TRIED[0], "long": True, "by": "t"}]})
    assert "5 of 6 drawn bugs" in text
    place = "d a/b.py:1 o: 'x' -> 'y'"
    parts = dict(part.split("\n\n", 1) for part in text.split("## ")[1:])
    assert {title: body.strip().split("\n") for title, body in parts.items()} == {
        "Unnoticed": [f"* `{place}`"] * 2,
        "Noticed by long tests alone": [f"* `{place}`: `t`"],
        "Equivalent": [f"* `{place}`: why"],
        "By module": ["* a/b.py: 2 killed, 1 equivalent, 1 alive, 1 uncovered"],
        "Modules of which none was tried": ["* a/c.py"],
        "Planted by hand": parts["Planted by hand"].strip().split("\n"),
    }


def test_what_was_planted_by_hand_is_counted_by_room():
    bugs = [
        {"file": "serve/a.py", "bug": "one", "noticed": "tests/t.py::test_a"},
        {"file": "serve/b.py", "bug": "two", "added": "tests/t.py::test_b"},
        {"file": "runs/c.py", "bug": "three", "added": "tests/t.py::test_c"},
    ]
    text = "\n".join(mutants.planted_by_hand(bugs))
    assert "1 were noticed, 33% (6% to 79%)" in text
    assert "By room: runs 0 of 1, serve 1 of 2." in text
    assert "two: unnoticed; now `tests/t.py::test_b`" in text


def test_every_bug_that_was_planted_has_a_test_that_is_there():
    bugs = yaml.safe_load(mutants.PLANTED.read_text())
    assert len(bugs) == 30
    for bug in bugs:
        (test,) = (bug[name] for name in ("noticed", "added") if name in bug)
        file, _, name = test.partition("::")
        assert f"def {name}(" in (mutants.ROOT / file).read_text(), test


def test_the_page_is_that_of_its_raw_results():
    seed = re.findall(r"--seed (\d+)", mutants.PAGE.read_text())[0]
    raw = json.loads((mutants.ROOT / f"benchmarks/results/mutants_{seed}.json").read_text())
    told = {**raw, "rows": mutants.argued(raw["rows"])}
    assert mutants.PAGE.read_text() == page(told)
