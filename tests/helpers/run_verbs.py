"""The verbs of the command by what they do with a run."""

DOORS = {
    "resume": ["resume", "{run}", "--directory", "."],
    "judge": ["judge", "{run}", "--with", "gold"],
    "serve": ["serve", "{run}", "--port", "0"],
    "chat": ["chat", "{run}"],
    "evaluate": ["evaluate", "{run}", "--on", "gsm8k"],
    "evaluate by a harness": ["evaluate", "{run}", "--harness", "lm_eval", "--tasks", "arc_easy"],
    "compare": ["compare", "{run}@policy", "{run}@policy", "--on", "gsm8k"],
    "crossplay": ["red-team", "crossplay", "{run}", "{run}"],
    "crossplay of one": ["red-team", "crossplay", "{run}"],
    "best-response": ["best-response", "{run}@policy"],
    "play": ["play", "{run}", "--port", "0"],
    "import-scores": ["import-scores", "{run}@policy", "scores.json", "--from", "mt_bench"],
    "merge": ["merge", "{run}/players/policy/1", "--to", "merged"],
    "attack-judge": ["attack-judge", "{run}", "--prompts", "rows.jsonl"],
}
"""Every command that plays, serves or loads what a run names."""
READERS = [
    "status",
    "report",
    "rate",
    "export",
    "check",
    "vote",
    "export-attacks",
    "welfare",
    "dominance",
]

"""Those that read its records alone."""
WITHOUT_RUNS = [
    "import-matches",
    "init",
    "run",
    "plan",
    "recipes",
    "doctor",
    "sft",
    "warm-start",
    "guard",
    "sampler",
    "traces",
    "rows",
]
