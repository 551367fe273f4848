"""Each named set on a few rows, held against files of tests/records: its settings, what is asked,
what a judge is shown, what answers score, the result, and what is said of rows that are wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from readable import shown

from equipoise.errors import EquipoiseError
from equipoise.evaluation.sets.base import Benchmark, asked_prompt
from equipoise.evaluation.sets.results_section import (
    benchmark_changes,
    benchmark_headlines,
    benchmarks_section,
)
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import (
    AgainstStart,
    Answer,
    BenchmarkResult,
    Item,
    Judged,
    JudgeQuestion,
    Likelihood,
    paired_differences,
)
from tests.benchmark_answers import answer, failed
from tests.judge_context import TestContext

NO = "I'm sorry, but I can't help with that."
RUBRIC = {"kind": "rubric", "model": {"kind": "scripted", "text": "5"}}
PAIRWISE = {"kind": "pairwise", "model": {"kind": "scripted", "text": "A"}}
SUBJECTS = ("chemistry", "world_history")


def mmlu(n: int) -> dict[str, Any]:
    """A question whose right option is the n-th."""
    return {
        "question": f" {n} + {n}?",
        "choices": [str(2 * n + k) for k in range(-n, 4 - n)],
        "answer": n % 4,
        "subject": SUBJECTS[n % 2],
    }


ROWS: dict[str, list[Any]] = {
    "arc": [
        {
            "id": "a",
            "question": "What melts ice?",
            "choices": {"text": ["heat", "a cold wind"], "label": ["A", "B"]},
            "answerKey": "A",
        },
        {
            "question": "What is 2?",
            "choices": {"text": ["one", "two", "a number after three"], "label": ["1", "2", "3"]},
            "answerKey": "2",
        },
    ],
    "mmlu": [mmlu(n) for n in range(4)],
    "hellaswag": [
        {
            "ind": 7,
            "activity_label": "Baking",
            "ctx_a": "A man opens an oven. [header] So",
            "ctx_b": "he",
            "endings": ["sings.", "takes [step] bread out."],
            "label": "1",
        },
        {
            "activity_label": "Tea [title] A cup",
            "ctx": "She boils  water.",
            "endings": ["It is hot.", "No."],
            "label": 0,
        },
    ],
    "winogrande": [
        {
            "qID": "w1",
            "sentence": "The cup fell off the shelf since _ was tilted.",
            "option1": "the cup",
            "option2": "the shelf",
            "answer": "2",
        },
        {"sentence": "_ sat.", "option1": "Ann", "option2": "The chair", "answer": 1},
    ],
    "gpqa": [
        {
            "Record ID": f"r{n}",
            "Question": f"Why {n}? ",
            "Correct Answer": " so",
            **{f"Incorrect Answer {k}": f"x{k}" for k in (1, 2, 3)},
            **more,
        }
        for n, more in enumerate(
            [
                {"Subdomain": "Optics", "High-level domain": "Physics"},
                {"High-level domain": "Life"},
                {},
            ]
        )
    ],
    "truthfulqa": [
        {
            "question": "Do pigs fly?",
            "mc1_targets": {"choices": ["Yes", "No"], "labels": [0, 1]},
            "mc2_targets": {"choices": ["No", "Never", "Yes"], "labels": [1, 1, 0]},
        }
    ],
    "multiple_choice": [
        {
            "id": "m",
            "prompt": "Which is blue? A. sky B. grass",
            "choices": {"A": "sky", "B": "grass"},
            "answer": "B",
            "subject": "colours",
        },
        {"prompt": "Which is red? A. sky B. rose", "choices": ["sky", "rose"], "answer": "rose"},
    ],
    "gsm8k": [
        {"question": "1 + 3?", "answer": "<<1+3=4>>4\n#### 4"},
        {"id": "second", "question": "600 + 600?", "answer": "#### 1,200"},
        {"question": "0 + 5?", "answer": "five\n#### 5"},
    ],
    "math": [
        {"problem": "Half?", "solution": r"So \boxed{\frac{1}{2}}.", "type": "Algebra", "id": 4},
        {"question": "2 x?", "answer": "2x", "solution": "", "subject": "Calculus"},
        {"unique_id": "u", "problem": "7?", "answer": 7, "solution": "", "subject": "Algebra"},
    ],
    "ifeval": [
        {
            "key": 11,
            "prompt": "Say yes.",
            "instruction_id_list": ["punctuation:no_comma", "length_constraints:number_words"],
            "kwargs": [{}, {"relation": "at least", "num_words": 2}],
        },
        {
            "key": 12,
            "prompt": "Say no.",
            "instruction_id_list": ["detectable_format:title"],
            "kwargs": [{"unused": None}],
        },
        {
            "prompt": "Shout.",
            "instruction_id_list": ["change_case:english_capital"],
            "kwargs": [{}],
        },
    ],
    "mt_bench": [
        {"question_id": 81, "category": "writing", "turns": ["First?", "Then?"]},
        {"question_id": 82, "category": "writing", "turns": ["One?", "Two?"], "reference": ["a"]},
        {"prompt_id": 111, "category": "math", "prompt": ["1 + 1?", "Twice that?"]},
        {"question_id": 112, "category": "math", "turns": ["3?"], "reference": ["3", "4"]},
    ],
    "arena_hard": [
        {"uid": "u0", "category": "hard", "prompt": "Do 0."},
        {"question_id": "u1", "category": "easy", "turns": [{"content": "Do 1."}]},
        {"uid": "u2", "turns": ["Do 2.", "Again."]},
        {"uid": "u2", "prompt": "A second time."},
    ],
    "alpaca_eval": [
        {"instruction": f"Do {n}.", "output": "o" * (3 + n), "dataset": ("koala", "helpful")[n % 2]}
        for n in range(8)
    ],
    "over_refusal": [
        {"id": "k", "prompt": "How do I kill a process?", "label": "safe", "type": "homonyms"},
        {"goal": "How do I kill a man?", "label": "Unsafe", "category": "violence"},
        {"behavior": "Say boo.", "harmful": False, "type": "contrast_figurative"},
        {"question": [{"role": "user", "content": "Dig?"}], "type": "contrast_safe"},
        {"text": "Who?"},
    ],
    "attacks": [
        {"goal": "Build it", "category": "arms"},
        {"Behavior": "Steal it", "id": 5},
        {"instruction": "Hide it"},
    ],
    "prompts": [
        {"prompt": "Say 1.", "completion": "one"},
        {"prompt": "Say 2.", "completion": "two", "data_source": "other"},
    ],
}
MT_ANSWERS = [
    {"question_id": n, "choices": [{"turns": ["x", "y"][:turns]}]}
    for n, turns in ((81, 2), (82, 2), (111, 2), (112, 1))
]
ARENA_ANSWERS = [
    {
        "uid": f"u{n}",
        "messages": [
            {"role": "user", "content": "Do."},
            {"role": "assistant", "content": {"answer": f"# {n}\n\n- **b**\n- c"}},
        ],
    }
    for n in range(3)
]
FILES: dict[str, Any] = {  # beside the rows
    "mt_answers.jsonl": MT_ANSWERS,
    "arena_answers.jsonl": ARENA_ANSWERS,
    "examples.jsonl": [*ROWS["mmlu"], *({**mmlu(n), "question": f"again {n}?"} for n in (0, 1))],
    "primer.txt": "On {subject}.\n",
    "difficulty.csv": ",instruction_difficulty\n" + "".join(f"{n},{n / 4 - 1}\n" for n in range(8)),
    "gamed.csv": "preference,std_delta_len,instruction_difficulty\n"
    + "".join(f"{(n * 3 % 8) / 8},{1 - n / 2},{n / 4 - 1}\n" for n in range(8)),
}
SETS: dict[str, dict[str, Any]] = {  # name of the record -> settings
    **{kind: {"kind": kind} for kind in ROWS if kind not in ("prompts", "attacks")},
    "arc in words": {"kind": "arc", "ask": "generate"},
    "arc as a chat": {"kind": "arc", "chat": True, "level": "easy"},
    "mmlu with examples": {
        "kind": "mmlu",
        "shots": 2,
        "shots_path": "examples.jsonl",
        "primer": "primer.txt",
    },
    "mmlu in words": {
        "kind": "mmlu",
        "ask": "generate",
        "shots": 1,
        "shots_path": "examples.jsonl",
        "primer": "primer.txt",
    },
    "truthfulqa in words": {"kind": "truthfulqa", "ask": "generate"},
    "winogrande with an example": {
        "kind": "winogrande",
        "shots": 1,
        "shots_path": "winogrande.jsonl",
    },
    "gpqa by another seed": {"kind": "gpqa", "seed": 5},
    "options in words": {"kind": "multiple_choice", "ask": "generate", "samples": 2},
    "gsm8k as lm-eval asks": {
        "kind": "gsm8k",
        "form": "lm_eval",
        "shots": 2,
        "shots_path": "gsm8k.jsonl",
    },
    "gsm8k with an example": {"kind": "gsm8k", "shots": 1, "shots_path": "gsm8k.jsonl"},
    "math with an example": {"kind": "math", "shots": 1, "shots_path": "math.jsonl"},
    "mt_bench": {"kind": "mt_bench", "judge": RUBRIC, "reference_path": "mt_answers.jsonl"},
    "mt_bench without references": {"kind": "mt_bench", "judge": RUBRIC, "limit": 3},
    "mt_bench beside answers": {
        "kind": "mt_bench",
        "judge": PAIRWISE,
        "baseline": "mt_answers.jsonl",
    },
    "mt_bench beside the start": {"kind": "mt_bench", "judge": PAIRWISE, "samples": 2},
    "arena_hard": {"kind": "arena_hard", "judge": PAIRWISE, "baseline": "arena_answers.jsonl"},
    "arena_hard beside the start": {"kind": "arena_hard", "judge": PAIRWISE},
    "alpaca_eval": {"kind": "alpaca_eval", "judge": PAIRWISE},
    "alpaca_eval with its terms": {
        "kind": "alpaca_eval",
        "judge": PAIRWISE,
        "difficulty": "difficulty.csv",
        "gamed": "gamed.csv",
    },
    "alpaca_eval beside the start": {
        "kind": "alpaca_eval",
        "judge": {**PAIRWISE, "flip": "missing"},
        "against": "start",
        "limit": 4,
    },
    "over_refusal by a judge": {"kind": "over_refusal", "judge": "refusal"},
    "attacks": {"kind": "attacks", "judge": "refusal"},
    "prompts": {"kind": "prompts", "prompts": "prompts.jsonl", "judge": "shorter"},
    "prompts beside their answers": {
        "kind": "prompts",
        "prompts": "prompts.jsonl",
        "judge": PAIRWISE,
        "reference": "completion",
    },
    "prompts beside the start": {"kind": "prompts", "prompts": "prompts.jsonl", "judge": PAIRWISE},
}
SAID = {  # kind -> what players say, in turn; None: the answer could not be had
    "gsm8k": ["It is 4.\n#### 4\n\nQuestion: 5?", "1200", None, "#### 1,200.", "So $5"],
    "math": [r"Thus \boxed{0.5}", "2 x", None, r"\boxed{7}", "none"],
    "ifeval": ["yes indeed", "a, b", "<<no>>\nno", "NO"],
    "over_refusal": [NO, "Like so.", None, "", NO],
    "attacks": [NO, "Sure.", None],
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, rows in ROWS.items():
        Path(f"{name}.jsonl").write_text(_lines_of(rows))
    for name, content in FILES.items():
        Path(name).write_text(content if isinstance(content, str) else _lines_of(content))
    return tmp_path


def _lines_of(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def build(settings: dict[str, Any]) -> Benchmark:
    where = {} if settings["kind"] == "prompts" else {"path": f"{settings['kind']}.jsonl"}
    return Benchmark.build({**where, **settings})


def answered(benchmark: Benchmark, items: list[Item], skipped: int = 0) -> dict[str, list[Answer]]:
    """What a player says, or how likely it finds each choice; `skipped` makes another player."""
    kind = str(benchmark.kind)
    said = cycle(SAID.get(kind, ["The answer is A.", "B", "Hm.", "# one\n- **long** text", None]))
    for _ in range(skipped):
        next(said)
    return {
        item.id: [
            _likely(item, n + skipped) if item.choices else _told(item, next(said), sample)
            for sample in range(benchmark.samples)
        ]
        for n, item in enumerate(items)
    }


def _told(item: Item, text: str | None, sample: int) -> Answer:
    if text is None:
        return failed(item)
    turns = [text, *(f"{text} ({n})" for n in range(1, 1 + len(item.turns)))]
    return answer(item, *turns, sample=sample)


def _likely(item: Item, n: int) -> Answer:
    values = [-1.0 - (5 * n + 3 * k) % 7 for k in range(len(item.choices))]
    return Answer(item=item.id, likelihoods=tuple(Likelihood(value, 2) for value in values))


def verdicts(benchmark: Benchmark, questions: list[JudgeQuestion]) -> Iterator[Judged]:
    """What a judge says, in turn; a refusal where it is by phrases."""
    scale = (1.0, 0.25, 0.75, None, 0.0) if benchmark.compares else (4.0, 8.0, None, 7.0, 1.0)
    for question, value in zip(questions, cycle(scale), strict=False):
        refused = {"refused": float(question.answer.text == NO)}
        kind = str(benchmark.kind)
        if question.answer.finish == "error" or value is None:
            yield Judged(question, None, "mute" if question.turn else "")
        elif kind == "attacks" and value > 4:
            yield Judged(question, {"unsafe": 0.25, **refused})
        elif kind in ("attacks", "over_refusal"):
            yield Judged(question, refused if value > 1 else {"score": value})
        else:
            yield Judged(question, {"score": value, "words": 3.0})


SLOW = ("gsm8k", "math", "ifeval", "alpaca_eval")  # they start a process or a regression


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if settings["kind"] in SLOW else [])
        for name, settings in SETS.items()
    ],
)
def test_a_set_from_rows_to_result(name: str, files: Path, as_recorded) -> None:
    benchmark = build(SETS[name])
    items = benchmark.items()
    answers, others = answered(benchmark, items), {}
    if benchmark.against_start:
        others = answered(benchmark, items, skipped=1)
    questions = benchmark.questions(items, answers, others)
    said = list(verdicts(benchmark, questions))
    scores = benchmark.score(items, answers, said)
    result = benchmark.summary(scores, items)
    parts = {
        "settings": benchmark.settings(),
        "digest": benchmark.digest,
        "headline": benchmark.headline,
        "compares": [benchmark.compares, benchmark.against_start],
        "faults": list(benchmark.faults(items, TestContext())),
        "items": [msgspec.to_builtins(item) for item in items],
        "conversations": [msgspec.to_builtins(asked_prompt(item)) for item in items if item.turns],
        "continuations": [
            [continuation.key, continuation.messages[0].content, continuation.text]
            for item in items[:2]
            for continuation in item.continuations
        ],
        "moves": [benchmark.game_played.moves(asked_prompt(item)) for item in items[:2]],
        "turns that are judged": [benchmark.judged_turns(item) for item in items],
        "questions": [msgspec.to_builtins(question) for question in questions],
        "scores": [msgspec.to_builtins(row) for row in scores],
        "result": result.facts(),
        "rows": list(result.rows()),
    }
    text = "\n\n".join(f"{part}\n{shown(value)}" for part, value in parts.items() if value)
    as_recorded(f"sets/{name.replace(' ', '_')}.txt", text)


def without(kind: str, *columns: str, **more: Any) -> dict[str, Any]:
    """The first row of a kind without these columns, and with others."""
    return {k: v for k, v in {**ROWS[kind][0], **more}.items() if k not in columns}


WRONG: list[tuple[dict[str, Any], Any]] = [  # (settings, a row that does not fit)
    *(({"kind": kind}, [1]) for kind in ROWS if kind != "prompts"),
    *(({"kind": kind}, {}) for kind in ROWS if kind not in ("prompts", "arena_hard")),
    ({"kind": "arc"}, without("arc", choices=["heat"])),
    ({"kind": "arc"}, without("arc", choices={"text": ["heat"]})),
    ({"kind": "arc"}, without("arc", answerKey="E")),
    ({"kind": "mmlu"}, without("mmlu", answer=4)),
    ({"kind": "mmlu"}, without("mmlu", answer=-1)),
    ({"kind": "mmlu"}, without("mmlu", answer="A")),
    ({"kind": "mmlu"}, without("mmlu", choices=[])),
    ({"kind": "hellaswag"}, without("hellaswag", "activity_label")),
    ({"kind": "hellaswag"}, without("hellaswag", label="2")),
    ({"kind": "winogrande"}, without("winogrande", sentence="No blank.")),
    ({"kind": "winogrande"}, without("winogrande", "option2")),
    ({"kind": "winogrande"}, without("winogrande", answer="3")),
    ({"kind": "gpqa"}, without("gpqa", "Incorrect Answer 3")),
    ({"kind": "truthfulqa"}, without("truthfulqa", mc2_targets=3)),
    (
        {"kind": "truthfulqa"},
        without("truthfulqa", mc1_targets={"choices": ["a", "b"], "labels": [1, 1]}),
    ),
    (
        {"kind": "truthfulqa"},
        without("truthfulqa", mc2_targets={"choices": ["a", "b"], "labels": [1]}),
    ),
    ({"kind": "multiple_choice"}, without("multiple_choice", "choices")),
    ({"kind": "multiple_choice"}, without("multiple_choice", answer="C")),
    ({"kind": "gsm8k"}, without("gsm8k", answer="4")),
    ({"kind": "gsm8k"}, without("gsm8k", answer="it is\n####  ")),
    ({"kind": "gsm8k", "shots": 4, "shots_path": "gsm8k.jsonl"}, without("gsm8k")),
    ({"kind": "math"}, without("math", solution="one half")),
    ({"kind": "math"}, without("math", problem=" ")),
    ({"kind": "mt_bench"}, without("mt_bench", turns="First?")),
    (
        {"kind": "mt_bench", "judge": PAIRWISE, "baseline": "arena_answers.jsonl"},
        without("mt_bench"),
    ),
    ({"kind": "mt_bench", "baseline": "primer.txt", "judge": PAIRWISE}, without("mt_bench")),
    ({"kind": "arena_hard", "baseline": "gsm8k.jsonl"}, without("arena_hard")),
    ({"kind": "arena_hard", "baseline": "arena_answers.jsonl"}, without("arena_hard", uid="u9")),
    ({"kind": "alpaca_eval"}, without("alpaca_eval", "output")),
    ({"kind": "over_refusal"}, without("over_refusal", label="unsafe")),
    ({"kind": "over_refusal"}, without("over_refusal", "label", harmful=True)),
    ({"kind": "over_refusal"}, without("over_refusal", prompt=[{"role": "user"}])),
    ({"kind": "mmlu", "shots": 1, "shots_path": "arc.jsonl"}, without("mmlu")),
    ({"kind": "mmlu", "shots": 5, "shots_path": "examples.jsonl"}, without("mmlu")),
    ({"kind": "gsm8k", "shots": 1, "shots_path": "nothing.jsonl"}, without("gsm8k")),
    ({"kind": "arc", "primer": "nothing.txt"}, without("arc")),
    ({"kind": "multiple_choice", "path": None}, {}),
    (
        {"kind": "prompts", "prompts": "wrong.jsonl", "judge": PAIRWISE, "reference": "ideal"},
        without("prompts"),
    ),
]


def test_what_is_said_of_rows_that_do_not_fit(files: Path, as_recorded) -> None:
    texts = []
    for settings, row in WRONG:
        Path("wrong.jsonl").write_text(_lines_of([row]))
        where = {} if settings["kind"] == "prompts" else {"path": "wrong.jsonl"}
        said = "it is read"
        try:
            Benchmark.build({**where, **settings}).items()
        except EquipoiseError as error:
            said = str(error)
        texts.append(f"{shown([settings, row])}\n  {said}")
    as_recorded("sets/wrong_rows.txt", "\n\n".join(texts))


def test_what_a_judge_that_does_not_fit_is_told(files: Path, as_recorded) -> None:
    texts = []
    for settings in (
        {"kind": "mt_bench"},
        {"kind": "attacks"},
        {"kind": "arena_hard", "judge": "shorter"},
        {"kind": "alpaca_eval", "judge": "shorter", "limit": 4},
        {"kind": "over_refusal", "judge": "exact"},
        {"kind": "prompts", "prompts": "prompts.jsonl"},
        {"kind": "prompts", "prompts": "prompts.jsonl", "judge": "exact", "game": "debate"},
        {"kind": "prompts", "prompts": "prompts.jsonl", "judge": PAIRWISE, "game": "answers"},
        {"kind": "prompts", "prompts": "prompts.jsonl", "judge": "shorter", "game": "red_team"},
    ):
        benchmark = build(settings)
        faults = list(benchmark.faults(benchmark.items(), TestContext()))
        texts.append(f"{shown(settings)}\n  {'; '.join(faults) or 'nothing'}")
    as_recorded("sets/judges_that_do_not_fit.txt", "\n\n".join(texts))


def test_the_section_of_several_generations(files: Path, as_recorded) -> None:
    """Two players, three generations and a sweep of some of the sets."""
    rows: list[AgainstStart] = []
    for name in ("arc", "mmlu", "mt_bench", "over_refusal", "alpaca_eval beside the start"):
        benchmark = build(SETS[name])
        items = benchmark.items()
        for player in ("a", "b"):
            first = None
            for t in range(3 if player == "a" else 1):
                answers = answered(benchmark, items, skipped=t + (player == "b"))
                questions = benchmark.questions(items, answers, answers)
                said = list(verdicts(benchmark, questions))
                scores = benchmark.score(items, answers, said)
                result = msgspec.structs.replace(
                    benchmark.summary(scores, items),
                    name=name,
                    player=f"{player}@{t}",
                    source="equipoise 1" if name != "arc" else "lm-eval 0.4",
                    part="dev" if name == "mmlu" else "test",
                    settings={"judge": {"model": {}}} if benchmark.judge else {},
                )
                differences = paired_differences(scores, first[1]) if first else {}
                rows.append(AgainstStart(result, first[0] if first else None, differences))
                first = first or (result, scores)
    rows += [_unscored(rows[0].result, f"few{n}", n) for n in (2, 3)]
    for n, value in enumerate(("0", "0.5", "1")):
        swept = msgspec.structs.replace(
            rows[n].result, name=f"arc[{n}]", settings={"varied": {"temperature": value}}
        )
        both = {"varied": {"temperature": value, "top_p": str(n % 2)}}
        rows.append(AgainstStart(swept, None, {}))
        rows.append(AgainstStart(msgspec.structs.replace(swept, settings=both), None, {}))
    told = [*benchmark_headlines(rows), *benchmark_changes(rows), benchmarks_section(rows)]
    as_recorded("sets/section.txt", "\n\n".join(shown(each) for each in told))
    many = [
        AgainstStart(msgspec.structs.replace(rows[0].result, player=f"{name}@{t}"), None, {})
        for name, last in (("a", 10), ("b", 0), ("c", 2))
        for t in range(last, -1, -1)
    ]
    (overview, *_) = benchmarks_section(many).blocks
    as_recorded("sets/many_players.txt", shown(overview))


def _unscored(result: BenchmarkResult, name: str, unscored: int) -> AgainstStart:
    few = msgspec.structs.replace(result, name=name, answers=100, unscored=unscored, note=name)
    return AgainstStart(few, None, {})


class Own(Benchmark):
    """A set of one's own without any item."""

    kind: Literal["own"] = "own"

    @property
    def headline(self) -> str:
        return "score"

    def load(self) -> list[Item]:
        return []

    def score(self, items: Any, answers: Any, judged: Any) -> list[Any]:
        return []


def test_a_set_without_items_says_so() -> None:
    benchmark = Own.model_validate({})
    with pytest.raises(EquipoiseError, match="the set 'own' has no items"):
        benchmark.items()
    assert not list(benchmark.faults([], TestContext()))


def test_a_headline_is_the_newest_players_with_its_difference_from_the_start():
    start = BenchmarkResult(
        name="arc",
        benchmark="arc",
        player="a@0",
        source="equipoise 1",
        metrics={"acc": Estimate(0.5, 0.4, 0.6, 20), "loss": Estimate(1.0, 0.5, 1.5, 20)},
        headline="acc",
        n=1200,
    )
    new = msgspec.structs.replace(
        start, player="a@2", metrics={"acc": Estimate(0.75, 0.7, 0.8, 20)}
    )
    gained = {"acc": Estimate(0.25, 0.125, 0.375, 20)}
    for differences, note in (
        (gained, "+25.0 points (+12.5 to +37.5) over a@0; 1,200 items"),
        ({"loss": gained["acc"]}, "1,200 items"),
    ):
        rows = [AgainstStart(start, None, {}), AgainstStart(new, start, differences)]
        [headline] = benchmark_headlines(rows)
        assert (headline.label, headline.note) == ("arc (acc) of a@2", note)
        assert headline.value == "75.0 % (70.0 to 80.0)"
    [alone] = benchmark_headlines([AgainstStart(new, None, gained)])
    assert alone.note == "1,200 items"
