"""`python -m benchmarks`: every benchmark at its short settings, one after another."""

import importlib
import sys

SHORT: dict[str, list[str]] = {
    "ledger": [],
    "cyclic_preferences": [],
    "nash_gap": ["--games", "6", "--rounds", "11"],
    "sampling": [],
    "engines": [],
    "league": ["--shapes", "tiny", "--rounds", "2"],
    "preference_training": [],
    "wildguard": ["--seeds", "0", "--methods", "mnpo"],
    "pool": ["--seeds", "0", "--arms", "sparta"],
    "questions": ["--seeds", "0"],
    "population": [],
    "diversity": ["--stored", "1000", "10000"],
    "guard": [],
    "red_team": [
        "--seeds",
        "0",
        "--arms",
        "rlhf",
        "gpo",
        "--generations",
        "20",
        "--answers",
        "5",
    ],
    "red_team_questions": [
        "--seeds",
        "1",
        "--generations",
        "8",
        "--probe",
        "0",
        "--no-rlhf",
    ],
    "assistance_questions": [
        "--tasks",
        "ambig_qa",
        "--seeds",
        "0",
        "--generations",
        "2",
    ],
    "assistance": ["--seeds", "0", "--arms", "cobb_douglas", "--generations", "4"],
    "as_published": ["--methods", "gtalign", "--seeds", "0", "--scale", "0.1"],
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
    "steering": [],
    "plan_accuracy": [],
    "serving": ["--seconds", "10", "--questions", "4000"],
}

for name, arguments in SHORT.items():
    print(f"\n== {name}", flush=True)
    sys.argv = [f"benchmarks.{name}", *arguments]
    importlib.import_module(f"benchmarks.{name}").main()
