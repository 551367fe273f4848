"""SPARTA's released files on a made batch: python -m benchmarks.pipeline_sparta_released …"""

from __future__ import annotations

import contextlib
import importlib
import json
import random
import sys
import types
from pathlib import Path
from typing import Any

from benchmarks.pipeline_stages import ARRAYS, MADE
from benchmarks.pipeline_stubs import Repairs


class MadeAnswers:
    """In place of the pool of processes that sample: a made answer of every model."""

    def __init__(self, processes: int) -> None:
        pass

    def __enter__(self) -> MadeAnswers:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def map(self, function: Any, groups: list[Any]) -> list[dict[str, dict[str, str]]]:
        answers: dict[str, dict[str, str]] = {}
        for group, tasks, *_ in groups:
            for name in group:
                answers[name] = {text: f"{name} on {text}" for text in tasks[name]}
        return [answers]


def played(module: Any, made: dict[str, Any], folder: Path, in_turn: bool) -> list[Any]:
    """Who met whom on which instruction in two iterations: the script's dice begin anew in each."""
    rounds = []
    for ratings in made["ratings"]:
        random.seed(42)
        file = folder / "questions.json"
        file.write_text(json.dumps([{"input": text} for text in made["instructions"]]))
        instructions = module.extract_from_json_gsm(str(file), made["per_generation"])
        configs = [{"name": n, "path": "", "model_type": "qwen"} for n in made["pool"]]
        scores = {name: {"score": score} for name, score in ratings.items()}
        competition = module.Competition(configs, scores, 3, 0.2, not in_turn)
        pairs = competition.run(instructions)
        rounds.append([[pair["instruction"], *pair["models"]] for pair in pairs])
    return rounds


def judged(module: Any, made: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    """(the mean grades of each judge, the pairs that have them) of made replies."""
    pairs = []
    for duel in made["duels"]:
        pair = {"instruction": duel["id"], "models": duel["models"], "judges": {}}
        pair["responses"] = [f"{name} on {duel['id']}" for name in duel["models"]]
        pairs.append(pair)
    for name in made["pool"]:
        judge = module.Judge(name, "", 0, 4, round_num=1, base_model="qwen")
        for duel, pair in zip(made["duels"], pairs, strict=True):
            if name in duel["models"]:
                continue
            replies = iter(duel["replies"][name])
            judge.inferencer = types.SimpleNamespace(
                judge_batch_generate_responses=lambda instructions, r=replies, **_: [
                    next(r) for _ in instructions
                ]
            )
            judge._process_pairs_batch([pair])
    averaged = module.calculate_judge_averages(pairs)
    grades = [
        {name: of_judge["ave_scores"] for name, of_judge in pair["judges"].items()}
        for pair in averaged
    ]
    return grades, averaged


def main() -> None:
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(checkout / "src1"))
    repairs = Repairs()
    repairs.absent("matplotlib", "matplotlib.pyplot", "seaborn", "scipy", "unsloth", "bitsandbytes")
    made = json.loads((folder / MADE).read_text())
    arrays: dict[str, Any] = {}
    with contextlib.redirect_stdout(sys.stderr):
        judges = importlib.import_module("judge")
        competition = importlib.import_module("competition")
        ratings = importlib.import_module("rating_system")
        starts = importlib.import_module("model_init")
        vars(competition)["Pool"] = MadeAnswers

        raw = starts.ModelInit(save_dir=str(folder), task="gsm8k", base_model="qwen")
        arrays["starts"] = {name: raw.raw_init_accs[name] for name in made["pool"]}
        arrays["duels"] = played(competition, made, folder, in_turn=False)
        arrays["duels_in_turn"] = played(competition, made, folder, in_turn=True)
        reader = judges.Judge("a", "", 0, 4, base_model="qwen")
        arrays["read"] = [reader.extract_single_score(reply) for reply in made["replies"]]
        arrays["grades"], pairs = judged(judges, made)

        model_info = {name: {"score": 100.0, "deviation": 0.5} for name in made["pool"]}
        before = folder / "iteration_1"
        before.mkdir()
        handicapping = {
            name: {"score": score, "deviation": 0.5} for name, score in made["ratings"][1].items()
        }
        for iteration in range(2):
            there = folder / f"iteration_{iteration}"
            there.mkdir(exist_ok=True)
            (there / "model_info.json").write_text(json.dumps(handicapping))
        system = ratings.RatingSystemStaticWeighted(
            model_info,
            initial_K=10.0,
            min_K=5.0,
            delta_history={name: [] for name in made["pool"]},
            base_dir=str(folder),
            current_iteration=2,
        )
        arrays["weights"] = system.get_weights()
        history = []
        for pair in pairs:
            system.update_ratings_from_judges(pair)
            now = system.get_all_ratings()
            history.append({name: [of["score"], of["deviation"]] for name, of in now.items()})
        arrays["reputations"] = history
        chosen = [system.select_preference_response(pair) for pair in pairs]
        kept = competition.filter_tie([each for each in chosen if each])
        arrays["pairs"] = [[each["instruction"], each["chosen_model"]] for each in kept]
        arrays["margins"] = [each["weighted_scores"] for each in kept]
    arrays["repairs"] = repairs.told
    (folder / ARRAYS).write_text(json.dumps(arrays))


if __name__ == "__main__":
    main()
