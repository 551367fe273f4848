"""`python -m benchmarks`: every benchmark at its short settings, one after another.

Where the published data sets are not at hand, rows of `benchmarks.stand_ins` are in their place: a
figure on these says that a benchmark runs, and no more. Left out are `instructions` and
`published`, which want a pretrained model, `published_answers`, which wants others' files, and
`executors`, which adds to its own record.
"""

import importlib
import sys
import tempfile
from pathlib import Path

from benchmarks import stand_ins

SHORT: dict[str, list[str]] = {
    "answer_judges": [],
    "attack_judges": ["--draws", "1", "--prompts", "12"],
    "judge_beside": ["--seeds", "1"],
    "prosper_beside": ["--seeds", "0", "--arms", "prosper"],
    "ledger": [],
    "history": ["--sizes", "3", "--games", "2"],
    "optimism": ["--games", "20", "--reserved", "5", "--sizes", "3"],
    "tunnel": ["--games", "2", "--reserved", "2", "--evaluations", "12", "--families", "random"],
    "nash_gap": ["--games", "6", "--rounds", "11"],
    "quickstart": ["--seeds", "0"],
    "starts": ["--recipes", "quickstart"],
    "sampling": [],
    "engines": [],
    "league": ["--shapes", "tiny", "--rounds", "2"],
    "preference_training": [],
    "limit": ["--shapes", "small", "--pairs", "2", "--repeats", "1", "--rows", "1"],
    "wildguard": ["--seeds", "0", "--arms", "mnpo", "--scale", "0.03"],
    "pool": ["--seeds", "0", "--arms", "sparta", "--scale", "0.05"],
    "cycling": ["--seeds", "0", "--arms", "dpo", "--generations", "2"],
    "disjoint": ["--seeds", "0", "--arms", "sparta", "--generations", "1"],
    "questions": ["--seeds", "0"],
    "population": [],
    "diversity": ["--stored", "1000", "10000"],
    "guard": [],
    "red_team": ["--seeds", "0", "--arms", "rlhf", "gpo", "--generations", "4", "--answers", "2"],
    "withheld": ["--seeds", "0", "--arms", "gpo", "--generations", "4", "--updates", "2"],
    "red_team_questions": ["--seeds", "0", "--arms", "gpo", "--generations", "8", "--probe", "0"],
    "assistance_questions": ["--arms", "ambig_qa", "--seeds", "0", "--generations", "2"],
    "assistance": ["--seeds", "0", "--arms", "cobb_douglas", "--generations", "4"],
    "as_published": ["--arms", "gtalign", "--seeds", "0", "--generations", "3"],
    "blocks": ["--outputs", "2000", "--mangled", "5000"],
    "policy_gradient": [
        "bandit",
        "tilt",
        "speed",
        "shape",
        "--seeds",
        "1",
        "--repeats",
        "1",
        "--group",
        "4",
    ],
    "best_response": ["--seeds", "0", "--generations", "4", "--updates", "2"],
    "kuhn": ["--seeds", "0", "--arms", "history", "--generations", "4"],
    "text_games": ["--deals", "2"],
    "table_games": ["debate", "--seeds", "0", "--generations", "1"],
    "permuted_games": [],
    "steering": [],
    "plan_accuracy": [],
    "strangers_jobs": ["--jobs", "1"],
    "serving": ["--seconds", "10", "--questions", "4000"],
}

# Benchmark -> where below the published files' folder its data lie.
DATA = {
    "wildguard": Path("gtalign", "wildguard"),
    "questions": Path("sparta"),
    "guard": Path(),
    "red_team_questions": Path(),
    "assistance_questions": Path("gtalign"),
}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="stand-ins-") as folder:
        data = stand_ins.PUBLISHED
        if not data.exists():
            print(f"{data} is absent: made-up rows stand in")
            data = stand_ins.write(Path(folder))
        for name, arguments in SHORT.items():
            print(f"\n== {name}", flush=True)
            if name in DATA:
                arguments = [*arguments, "--data", str(data / DATA[name])]
            sys.argv = [f"benchmarks.{name}", *arguments]
            importlib.import_module(f"benchmarks.{name}").main()
