"""A run directory as the assistant's game leaves it, without any model; its texts would rather be
markup.
"""

from pathlib import Path

from recorded_run import add_judged, estimate, recorded_run, user_prompt

from equipoise.environments.assistance.blocks import write as write_blocks
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell
from equipoise.payoffs.pareto import front
from equipoise.runs.directory import RunDirectory
from equipoise.types import Match, Message, Move, PlayerId, Turn, View, record_id

HOSTILE = "<script>document.title='pwned'</script> and <b>bold</b> {{ 7 * 7 }}"
MATRIX = {name: Cell(round(0.5 * i, 1), round(1.5 - 0.4 * i, 1)) for i, name in enumerate(CELLS)}
GOOD = write_blocks(
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
    "loss=null",
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


def measured(
    t: int, prompts: int = 6, ahead: float = 0.0, sources: tuple[str, ...] = ("clerk",)
) -> dict:
    """What `assistance` finds at generation t."""
    seen = points(t, prompts, ahead)
    score = round(0.35 + 0.03 * t, 3)
    right = 0.5 + 0.1 * t
    return {
        "players": [f"policy@{t}"],
        "scores": {f"policy@{t}": estimate(score)},
        "welfare": estimate(score),
        "utilities": {"user": estimate(0.3 + 0.05 * t), "llm": estimate(0.4 + 0.02 * t)},
        "rates": {
            "quality_llm": estimate(0.5),
            "quality_user": estimate(0.5),
            "format": estimate(0.75),
            "readable": estimate(0.8),
            "matrix": estimate(None),
        },
        "right": estimate(right),
        "actions": {
            "vague": {"DA": 1 - right, "CQ": right - 0.1, "AQ": 0.05, "none": 0.05, "n": 4.0},
            "detailed": {"DA": right, "CQ": 1 - right, "AQ": 0.0, "none": 0.0, "n": 2.0},
        },
        "correlations": {"welfare, user": [0.5, 0.4, 0.3]},
        "length": {
            "tokens": 120.0 - 10 * t,
            "response_share": 0.1 + 0.01 * t,
            "quality_per_1000_tokens": 4.0 + t,
            "quality_per_1000_characters": 1.0 + t,
        },
        "written": {
            "matrices": 5,
            "means": {"vague": {name: list(cell) for name, cell in MATRIX.items()}},
            "chosen": {"VQ_CQ": 3, "none": 2},
            "consistent": {"sum": 0.6, "nash": 0.2 * t, "nash_given_question": 1.0},
        },
        "sources": {
            source: {
                "welfare": estimate(score),
                "user": estimate(0.3),
                "llm": estimate(0.4),
                "quality_llm": estimate(0.5),
                "quality_user": estimate(0.5),
                "format": estimate(0.75),
                "right": estimate(None),
                "tokens": 100.0,
                "response_share": 0.1,
                "quality_per_1000_tokens": None,
                "quality_per_1000_characters": 0.5,
                "classes": {"clear": [0.5, 0.25, 1 / 3, 4]},
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


def write(
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
    overrides = [f"generations={generations}", *SETTINGS]
    with recorded_run(folder, "quickstart", overrides) as run:
        for t in range(0, generations + 1, every) if played else ():
            _play(run, t, harmful)
            run.ledger.finish(f"{t}/measure", t, "measure", measured(t, **facts), 0.1)
    return folder


def _play(run: RunDirectory, t: int, harmful: bool) -> None:
    judge = run.config.judge_of("policy").name
    brief = Message("system", "Be brief.")
    prompts = [user_prompt(f"p{i}", f"question {i}", brief, harmful=harmful) for i in range(3)]
    if t == 0:
        run.ledger.add_prompts(prompts, "held_out", 0)
    view = View((brief, Message("user", "Write four blocks. The question: …")))
    moves = (Move(GOOD), Move(FAULTY, "length"), Move("", "error", error="out of memory"))
    for i, (prompt, move) in enumerate(zip(prompts, moves, strict=True)):
        seats = {"assistant": PlayerId("policy", t)}
        turns = (Turn("assistant", view, move),)
        name = record_id("m", t, i)
        match = Match(name, t, "held_out", "assistance", prompt.id, seats, i, turns)
        scores = {
            "DA": 0.0,
            "CQ": 1.0,
            "AQ": 0.0,
            "score": 0.5 - 0.25 * i,
            "user": 0.25,
            "llm": 1.0,
            "quality_llm": 1.0,
        }
        if i == 2:
            add_judged(run, match, judge, None, "the move failed")
        else:
            add_judged(run, match, judge, {"assistant": scores})
