"""A run directory as the assistant's game leaves it, without any model; its texts would rather be
markup.
"""

from pathlib import Path

from equipoise.environments.assistance.blocks import write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
from equipoise.payoffs.pareto import front
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Judgement, Match, Message, Move, PlayerId, Prompt, Turn, View, record_id

HOSTILE = "<script>document.title='pwned'</script> and <b>bold</b> {{ 7 * 7 }}"
MATRIX = {name: Cell(round(0.5 * i, 1), round(1.5 - 0.4 * i, 1)) for i, name in enumerate(CELLS)}
GOOD = write(
    HOSTILE,
    MATRIX,
    "The vague question is best asked back, so I choose VQ_CQ.",
    "Which of the two?",
)
FAULTY = "<thinking>hm</thinking><payoff>{nothing}</payoff>stray<response>An answer.</response>"
SETTINGS = [
    "evaluate=assistance",
    "game={kind: assistance}",
    "schedule={kind: roles, roles: {assistant: policy}}",
    "turns=everyone",
    "learner={kind: policy_gradient}",
    "prompts.per_generation=500",
]


def points(t: int, prompts: int = 6, ahead: float = 0.0) -> dict[str, list[float]]:
    """Prompt -> [user, llm] at generation t, better from one to the next; even prompts like the
    user more.
    """
    return {
        f"p{i}": [
            round(0.3 + 0.05 * t + 0.05 * (i % 2 == 0) + ahead, 4),
            round(0.4 + 0.02 * t + 0.01 * i, 4),
        ]
        for i in range(prompts)
    }


def between(mean: float | None, n: int = 6) -> dict:
    """An interval as a stage keeps it."""
    return {
        "mean": mean,
        "low": None if mean is None else mean - 0.05,
        "high": None if mean is None else mean + 0.05,
        "n": 0 if mean is None else n,
    }


def measured(
    t: int, prompts: int = 6, ahead: float = 0.0, sources: tuple[str, ...] = ("clerk",)
) -> dict:
    """What `assistance` finds at generation t."""
    seen = points(t, prompts, ahead)
    score = round(0.35 + 0.03 * t, 3)
    right = 0.5 + 0.1 * t
    return {
        "players": [f"policy@{t}"],
        "scores": {f"policy@{t}": between(score)},
        "welfare": between(score),
        "utilities": {"user": between(0.3 + 0.05 * t), "llm": between(0.4 + 0.02 * t)},
        "rates": {
            "quality_llm": between(0.5),
            "quality_user": between(0.5),
            "format": between(0.75),
            "readable": between(0.8),
            "matrix": between(None),
        },
        "right": between(right),
        "actions": {
            "vague": {"DA": 1 - right, "CQ": right - 0.1, "AQ": 0.05, "none": 0.05, "n": 4.0},
            "detailed": {"DA": right, "CQ": 1 - right, "AQ": 0.0, "none": 0.0, "n": 2.0},
        },
        "length": {
            "tokens": 120.0 - 10 * t,
            "response_share": 0.1 + 0.01 * t,
            "quality_per_1000_tokens": 4.0 + t,
        },
        "written": {
            "matrices": 5,
            "means": {"vague": {name: list(cell) for name, cell in MATRIX.items()}},
            "chosen": {"VQ_CQ": 3, "none": 2},
            "consistent": {"sum": 0.6, "nash": 0.2 * t, "nash_given_question": 1.0},
        },
        "sources": {
            source: {
                "welfare": between(score),
                "user": between(0.3),
                "llm": between(0.4),
                "quality_llm": between(0.5),
                "quality_user": between(0.5),
                "format": between(0.75),
                "right": between(None),
                "tokens": 100.0,
                "response_share": 0.1,
                "quality_per_1000_tokens": None,
            }
            for source in sources
        },
        "points": seen,
        "unjudged": 0.0,
        "front": [list(seen)[i] for i in front(list(seen.values()))],
        "hypervolume": 0.2 + 0.01 * t,
        "beaten": {f"policy@{old}": 0.125 for old in range(t) if old},
        "score": score,
        "exploitability": 0.125,
    }


def write_run(
    folder: Path,
    generations: int = 4,
    every: int = 2,
    harmful: bool = False,
    played: bool = True,
    **facts,
) -> Path:
    """Write the run; `facts` go to what was measured. Its answers are well-formed, faulty, and
    failed.
    """
    settings = recipe_loader.load("quickstart", [f"generations={generations}", *SETTINGS])
    with RunDirectory.create(settings, folder) as run, run.ledger.transaction():
        judge = settings.judge_of("policy").name
        for t in range(0, generations + 1, every) if played else ():
            _play(run, t, judge, harmful)
            run.ledger.finish(f"{t}/measure", t, "measure", measured(t, **facts), 0.1)
    return folder


def _play(run: RunDirectory, t: int, judge: str, harmful: bool) -> None:
    prompts = [
        Prompt(
            f"p{i}",
            (Message("system", "Be brief."), Message("user", f"question {i}")),
            {"harmful": harmful},
        )
        for i in range(3)
    ]
    if t == 0:
        run.ledger.add_prompts(prompts, "held_out", 0)
    told = View(
        (Message("system", "Be brief."), Message("user", "Write four blocks. The question: …"))
    )
    moves = (Move(GOOD), Move(FAULTY, "length"), Move("", "error", error="out of memory"))
    for i, (prompt, move) in enumerate(zip(prompts, moves, strict=True)):
        seats = {"assistant": PlayerId("policy", t)}
        match = Match(
            record_id("m", t, i),
            t,
            "held_out",
            "assistance",
            prompt.id,
            seats,
            i,
            (Turn("assistant", told, move),),
        )
        scores = {
            "DA": 0.0,
            "CQ": 1.0,
            "AQ": 0.0,
            "score": 0.5 - 0.25 * i,
            "user": 0.25,
            "llm": 1.0,
            "quality_llm": 1,
        }
        said = None if i == 2 else {"assistant": scores}
        word = Judgement(
            record_id("j", t, i), match.id, judge, said, "" if said else "the move failed"
        )
        run.ledger.add_matches([match])
        run.ledger.add_judgements([(match, word)])
