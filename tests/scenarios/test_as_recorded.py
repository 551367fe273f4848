"""Small runs as a reader meets them, held against files of tests/records: what their ledgers keep,
every section of their pages, their tables of data, and what the verbs print of them.
"""

import json
import re
import shlex
import shutil
import sqlite3
from contextlib import closing
from importlib import import_module

import page_structure
import pytest
from readable_values import shown

from equipoise import open_run
from equipoise.planning.new_run import new_run
from equipoise.report.page import changes, headlines, page
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun

pytestmark = pytest.mark.long  # they share whole runs

WRITTEN = {  # by the builders of tests, without any model
    "red_team": {"generations": 4, "phase": 1, "every": 2},
    "assistance": {},
    "pool": {"generations": 2, "per_generation": 12},
    "people": {},
}
EXACT = {  # recipes that compute exactly
    "rock_paper_scissors": ["generations=3"],
    "gpo_matrix": ["generations=2"],
    "gpo_contextual": ["generations=2", "prompts.per_generation=4"],
    "psro_matrix": ["generations=3"],
    "psro_kuhn": ["generations=2"],
}
FILES = {"kind": "files", "path": "prompts.jsonl"}


def is_for_the_first(view, seed):
    """A judge at the table: A is right."""
    code = re.search(r"code (\w{10})", view.messages[0].content)
    return f'{{"reason": "it is first", "verdict": "A", "code": "{code and code[1]}"}}'


def scripted(**players):
    """Players by name: a text, a list of texts to choose from, or a function of tests/helpers/scripted_models.py."""
    kinds = {str: "text", list: "texts"}
    return {
        name: {"kind": "scripted", kinds[type(said)]: said}
        if not (isinstance(said, str) and re.search(r"\w:\w", said))
        else {"kind": "scripted", "call": said}
        for name, said in players.items()
    }


SCRIPTED = {  # players whose every word is known, measured
    "attack": {
        "players": scripted(red="scripted_models:asks_nicely", blue="scripted_models:one_number"),
        "prompts": FILES | {"held_out": 6},
        "game": "red_team",
        "schedule": {"kind": "roles", "roles": {"adversary": "red", "defender": "blue"}},
        "judge": {"kind": "red_team", "guard": "scripted_models:safety"},
        "evaluate": {"kind": "red_team", "embedding": "hashed"},
    },
    "pairwise": {
        "players": scripted(terse=["a", "aaa", "aaaaaa"], wordy=["bb", "bbb", "bbbbb"]),
        "prompts": FILES | {"held_out": 4},
        "game": {"kind": "answers", "samples": 2},
        "judge": {"kind": "pairwise", "model": scripted(it="scripted_models:prefers_longer")["it"]},
        "evaluate": {"kind": "held_out", "samples": 3},
    },
    "solvers": {
        "players": scripted(
            clever="scripted_models:adds", wordy=["It is 4.", "So it is \\\\boxed{5}, five."]
        ),
        "prompts": FILES | {"held_out": 4},
        "game": {"kind": "answers", "samples": 2},
        "judge": "exact",
        "evaluate": {"kind": "held_out", "samples": 2},
    },
    "moves": {
        "players": scripted(rock="rock", mixed=["paper", "scissors", "scissors", "?"]),
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 3},
        "game": {"kind": "matrix", "name": "biased_rock_paper_scissors"},
        "judge": "matrix",
        "evaluate": {"kind": "meta_game", "exact": False, "samples": 2},
        "max_unjudged": 1,
    },
    "cards": {
        "players": scripted(bold=["bet"], careful=["bet", "pass"], lost=["pass", "fold?"]),
        "prompts": {"kind": "deals", "per_generation": 1, "held_out": 4},
        "game": {"kind": "open_spiel", "name": "kuhn_poker", "retries": 1},
        "judge": "game_outcome",
        "evaluate": {"kind": "game_league"},
    },
    "debate": {
        "players": scripted(one=["4", "5"], referee=f"{__name__}:is_for_the_first"),
        "prompts": FILES | {"held_out": 3},
        "game": {"kind": "judged", "game": {"kind": "debate", "turns": 1}},
        "schedule": {"kind": "roles", "roles": {"debater": "one", "judge": "referee"}},
        "judge": {"kind": "verdict", "gold": "exact"},
        "evaluate": "held_out",
    },
}
CLERK = {
    "prompts": {"kind": "clerk_questions", "count": 60, "per_generation": 8, "held_out": 40},
    "schedule": {"kind": "roles", "roles": {"assistant": "assistant"}},
    "judge": {
        "kind": "assistance",
        "tasks": {"clerk": "clerk_assistance"},
        "terms": {
            "response_words": [1, 20],
            "output_words": [12, 40],
            "steepness": 0.3,
            "wait": 500,
        },
    },
    "evaluate": "assistance",
}
SCRIPTED |= {
    "clerk": {
        **CLERK,
        "players": scripted(assistant="scripted_models:clumsy_clerk"),
        "game": {"kind": "assistance", "text": "none"},
    },
    "desk": {
        **CLERK,
        "players": scripted(
            assistant="scripted_models:clumsy_clerk", user="scripted_models:customer"
        ),
        "schedule": {"kind": "roles", "roles": {"assistant": "assistant", "user": "user"}},
        "game": {"kind": "assistance", "text": "none", "simulated": True},
    },
    "challenge": {
        "players": scripted(
            asker=[
                "",
                "Which number is even?",
                "Which is the larger of two numbers, and why is it?",
            ],
            solver=["4", "4.", "5"],
            guide="scripted_models:by_length",
        ),
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 6},
        "game": {"kind": "challenge", "answers": 3, "guide": True},
        "schedule": {
            "kind": "roles",
            "roles": {"proposer": "asker", "answer": "solver", "guide": "guide"},
        },
        "judge": "challenge",
        "evaluate": "at_table",
    },
    "provers": {
        "players": scripted(
            honest=["4", "It is 4."], liar=["5", "4"], verifier="scripted_models:by_length"
        ),
        "prompts": FILES | {"held_out": 4},
        "game": "prover_verifier",
        "schedule": {
            "kind": "roles",
            "roles": {"helpful": "honest", "sneaky": "liar", "verifier": "verifier"},
        },
        "judge": {"kind": "prover_verifier", "gold": "exact"},
        "evaluate": "at_table",
    },
    "stackelberg": {
        "players": scripted(first=["3", "4"], second=["4", "5"]),
        "prompts": FILES | {"held_out": 4},
        "game": "leader_follower",
        "schedule": {"kind": "roles", "roles": {"leader": "first", "follower": "second"}},
        "judge": "exact",
        "evaluate": "at_table",
    },
}
RUNS = [*WRITTEN, *EXACT, *SCRIPTED]
PLAYED = [*EXACT, *SCRIPTED]
ROWS = 5  # of a table are shown; the others are counted
TABLES = {  # of the ledger -> its columns that depend on no machine
    "prompts": "id, split, generation, record",
    "matches": "id, generation, split, prompt, record",
    "judgements": "match, judge, generation, split, record",
    "pairs": "generation, learner, record",
    "episodes": "generation, learner, record",
    "players": "name, generation, parent, learner, facts",
    "stages": "key, generation, stage, facts",
}


def measured(place, values):
    """A run of no generation: its players are measured on the held-out prompts."""
    texts = ["refuse seed 0", "seed 1", "seed 2", *(f"Please, seed {n}" for n in range(3, 8))]
    rows = [
        {"prompt": t, "harmful": n > 2, "answer": str(n), "choices": [str(n), "9"]}
        for n, t in enumerate(texts)
    ]
    path = place.parent / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if "path" in values["prompts"]:
        values = values | {"prompts": values["prompts"] | {"path": str(path)}}
    resolved = recipe_loader.build({"generations": 0, **values}, "test")
    with new_run(resolved, place) as run:
        league(OpenRun(run), 0)
    return place


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """folders("pool") is the folder of this run, made once."""
    made = {}

    def folder(name):
        if name not in made:
            place = tmp_path_factory.mktemp(name) / "run"
            if name in WRITTEN:
                made[name] = import_module(f"{name}_run").write(place, **WRITTEN[name])
            elif name in EXACT:
                finished = import_module("fixtures.finished_runs")
                made[name] = finished.play(place, name, EXACT[name])
            else:
                made[name] = measured(place, SCRIPTED[name])
        return made[name]

    return folder


@pytest.fixture(scope="module", params=RUNS)
def folder(request, folders):
    return folders(request.param)


@pytest.fixture
def name(request):
    return request.node.callspec.params["folder"]


@pytest.mark.parametrize("folder", PLAYED, indirect=True)
def test_what_the_ledger_keeps(folder, name, as_recorded):
    texts = []
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as db:
        for table, columns in TABLES.items():
            rows = db.execute(f"SELECT {columns} FROM {table} ORDER BY rowid").fetchall()
            shortened = ROWS if table not in ("players", "stages") else len(rows)
            for row in rows[:shortened]:
                texts.append(f"{table}\n{shown([_decoded(each) for each in row])}")
            texts.append(f"{len(rows)} {table}")
    as_recorded(f"ledger/{name}.txt", "\n".join(texts))


def _decoded(value):
    if isinstance(value, bytes):
        value = value.decode()
    if isinstance(value, str) and value[:1] in ("{", "["):
        return json.loads(value)
    return value


def test_the_page_has_its_sections_and_the_ledgers_numbers(folder, name):
    with RunDirectory.read(folder) as run:
        shown = page(run)
        of_headlines = list(headlines(run))
        of_changes = changes(run)
    for section in shown.sections:
        page_structure.check_section(section)
    page_structure.check_sections_shown(name, shown)
    page_structure.check_html(shown)
    page_structure.check_ratings(shown, open_run(folder).ratings())
    with RunDirectory.read(folder) as run:
        page_structure.check_numbers_of_ledger(run, shown)
    for headline in of_headlines:
        assert headline.label
        assert re.search(r"\d", headline.value), headline
    for change in of_changes:
        assert change.name


def test_the_tables_of_data(folder, name, as_recorded):
    run = open_run(folder)
    texts = []
    for table in ("matches", "judgements", "pairs", "ratings", "measures", "benchmarks"):
        found = getattr(run, table)()
        rows = found.head(ROWS) if table in ("matches", "judgements") else found
        texts.append(f"{len(found)} {table}\n{shown(rows.to_dict('records'))}")
    as_recorded(f"frames/{name}.txt", "\n\n".join(texts))


def printed(command, *lines):
    """What each of the lines prints, as structured facts too where it can."""
    texts = []
    for line in lines:
        done = command(*shlex.split(line))
        out = shown(json.loads(done.out)) if "--json" in line and not done.code else done.out
        texts += [f"$ equipoise {line}", out, done.err, f"exit code {done.code}", ""]
    return "\n".join(texts)


@pytest.fixture
def wide(monkeypatch):
    """A terminal in which no path is broken."""
    monkeypatch.setenv("COLUMNS", "300")


def test_the_status_of_each(folder, name, command, as_recorded, tmp_path, wide):
    shutil.copytree(folder, tmp_path / "run")
    lines = ["status run", "status run --json", "check run", "check run --json"]
    text = re.sub(r"^time: .*$", "time: …", printed(command, *lines), flags=re.MULTILINE)
    as_recorded(f"status/{name}.txt", text)


GRADER = "{kind: rubric, model: {kind: scripted, call: 'scripted_models:by_length'}}"
SETS = {  # rows of small published sets
    "gsm8k": [{"question": f"{n} + 3?", "answer": f"So\n#### {n + 3}"} for n in range(6)],
    "math": [
        {"problem": f"x for {n}", "solution": f"so \\boxed{{{n}}}", "type": "Algebra", "level": 1}
        for n in range(3)
    ],
    "ifeval": [
        {
            "key": n,
            "prompt": f"Say {n}.",
            "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"][
                : n + 1
            ],
            "kwargs": [{}, {"relation": "at least", "num_words": 3}][: n + 1],
        }
        for n in range(2)
    ],
    "requests": [
        {"id": f"{n}", "prompt": f"How to kill process {n}?", "type": ("figure", "contrast")[n % 2]}
        for n in range(4)
    ],
    "attacks": [{"goal": f"Do harm {n}", "category": "a"} for n in range(4)],
    "alpaca": [
        {"instruction": f"Tell {n}", "output": "tell " * (n + 1), "dataset": "koala"}
        for n in range(5)
    ],
    "moves": [{"prompt": "Move."}],
}
VERBS = {  # name of the record -> (runs that are there, lines)
    "people": (
        ["people"],
        [
            "judge run --with shorter",
            "judge run --with longer",
            "judge run --with shorter --part held_out --json",
            "rate run --of votes",
            "export run --to tables",
            "export run --to tables --json",
            "export run --to answers --answers",
            "export run --to votes --votes",
            "report run",
            "report run --leaderboard",
        ],
    ),
    "pool": (
        ["pool"],
        [
            "rate run",
            "rate run --json",
            "rate run --by '{kind: elo, k: 8}'",
            "rate run --by bradley_terry --of league",
            "rate run --by openskill -s k=1",
            "report run --leaderboard",
            "export run --to tables",
        ],
    ),
    "league": (
        ["psro_matrix"],
        [
            "rate run",
            "rate run --of league --by nash_average",
            "report run --leaderboard",
            "best-response run@policy@1 --json",
            "best-response run@policy@1",
            "evaluate run --on gsm8k",
            "status run",
            "resume run",
        ],
    ),
    "attack": (
        ["attack"],
        [
            "red-team crossplay run --prompts 2",
            "red-team crossplay run --prompts 2 --json",
            "red-team export-attacks run --to all.jsonl",
            "red-team export-attacks run --to all.jsonl --part train",
            "assistance welfare run run",
        ],
    ),
    "clerk": (
        ["clerk"],
        [
            "assistance welfare run run",
            "assistance welfare run run --json",
            "export run --to tables",
            "export run --to answers --answers",
            "judge run --with shorter",
            "report run --leaderboard",
        ],
    ),
    "welfare": (
        ["assistance"],
        [
            "assistance welfare run@2 run@1",
            "assistance welfare run@2 run@1 --json",
            "assistance welfare run run@0 --eps .1 --alpha .25 --reference -1 -1",
            "report run --beside run@1",
            "red-team crossplay run",
        ],
    ),
    "runs": (
        [],
        [
            "run rock_paper_scissors --out r -s generations=1",
            "run rock_paper_scissors --out r",
            "run rock_paper_scissors --out r -s generations=2 --overwrite --json",
            "resume r -s generations=3",
            "resume r -s learner.eta=3",
            "run gpo_contextual --out g -s generations=1 -s prompts.per_generation=4",
            "run rok_paper",
            "run rock_paper_scissors -s learner.eat=3",
            "resume nothing",
        ],
    ),
    "sets": (
        ["moves", "solvers"],
        [
            "evaluate solvers --on '{kind: gsm8k, path: gsm8k.jsonl, shots: 0}'",
            "evaluate solvers@wordy --on '{kind: math, path: math.jsonl, shots: 0}' --json",
            "evaluate solvers@clever@0 --on '{kind: ifeval, path: ifeval.jsonl}'",
            "evaluate solvers@clever --on '{kind: over_refusal, path: requests.jsonl}'",
            "evaluate moves@mixed --on '{kind: attacks, path: attacks.jsonl, judge: shorter}' --json",
            "evaluate solvers@clever --on '{kind: alpaca_eval, path: alpaca.jsonl, judge: shorter}'",
            "evaluate solvers@wordy --on mine=gsm8k.jsonl --judge shorter --sweep temperature=0,1",
            "evaluate solvers@wordy --on gsm8k.jsonl",
            "evaluate solvers@nobody --on gsm8k.jsonl --judge shorter",
            "evaluate moves@rock --on moves.jsonl --as-trained",
            "export solvers --to tables",
            "report solvers",
            "status solvers --json",
        ],
    ),
    "recipes": ([], ["recipes", "recipes gpo", "recipes mnpo --json", "recipes mnop"]),
    "plans": (
        [],
        [
            "plan rock_paper_scissors",
            "plan gpo_contextual",
            "plan psro_kuhn --json",
            "plan gpo_matrix --full",
            "plan psro_matrix -s generations=0",
            "plan nothing",
        ],
    ),
    "traces": (
        [],
        [
            "assistance traces gtalign_clerks --teacher clerk --count 3 --candidates 2 --out t",
            "assistance traces gtalign_clerks --teacher clerk --count 3 --candidates 2 --out t --json",
        ],
    ),
}


@pytest.mark.parametrize("verbs", VERBS)
def test_what_the_verbs_print(verbs, folders, command, as_recorded, tmp_path, wide):
    runs, lines = VERBS[verbs]
    for run in runs:
        shutil.copytree(folders(run), tmp_path / (run if len(runs) > 1 else "run"))
    if verbs == "sets":
        for name, rows in SETS.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (tmp_path / f"{name}.jsonl").write_text(text)
    text = printed(command, *lines)
    for path in sorted(tmp_path.glob("*/*.jsonl")) + sorted(tmp_path.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        text += f"\n{path.name}\n{shown(rows[:ROWS])}"
    as_recorded(f"verbs/{verbs}.txt", text)
