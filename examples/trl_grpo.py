"""TRL's GRPOTrainer learns from a panel of Equipoise: two rules on one scale.

    pip install 'equipoise[train,gguf]' trl
    python trl_grpo.py SmolLM2-135M-Instruct.Q4_1.gguf --steps 10

A folder or a model of the hub works as well as a GGUF file. Before training the script prints what
the panel says about two answers, and after it the mean grade of each member at each step. A member
may be any judge, such as {kind: rubric, model: {kind: local, model: …}} where the model can grade.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from equipoise import trl
from equipoise.models.adapters import resolve

QUESTIONS = (
    "Name a fruit and say what it tastes like.",
    "Why do people sleep?",
    "What is the largest ocean?",
    "Give one reason to learn to swim.",
    "How do I boil an egg?",
    "What does a librarian do?",
    "Say in one sentence what rain is.",
    "Which season do you like, and why?",
)


def finished(prompt: str, text: str) -> bool:
    """True where the answer ends as a sentence does."""
    return text.rstrip().endswith((".", "!", "?"))


PANEL = {
    "kind": "panel",
    "standardise": True,
    "at_least": 2,
    "judges": {
        "finished": {"kind": "call", "function": f"{__file__}:finished"},
        "brief": {"kind": "shorter", "unit": "words"},
    },
}


def train(model: str, steps: int, tokens: int = 32) -> list[dict[str, Any]]:
    """What TRL logged at each step."""
    judge = trl.reward(PANEL)
    asked = [[{"role": "user", "content": QUESTIONS[0]}]] * 2
    answers = ("An apple; it is sweet.", "I do not know. " * 20)
    print("the panel:", judge(asked, [[{"role": "assistant", "content": a}] for a in answers]))
    with tempfile.TemporaryDirectory() as out:
        settings = GRPOConfig(
            out,
            max_steps=steps,
            per_device_train_batch_size=4,
            num_generations=4,
            max_completion_length=tokens,
            learning_rate=1e-5,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            bf16=False,
        )
        rows = [{"prompt": [{"role": "user", "content": text}]} for text in QUESTIONS]
        trainer = GRPOTrainer(
            resolve(model), reward_funcs=judge, args=settings, train_dataset=Dataset.from_list(rows)
        )
        trainer.train()
        return [each for each in trainer.state.log_history if "reward" in each]


def main() -> None:
    """Train the model that the command line names."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--steps", type=int, default=10)
    given = parser.parse_args()
    for logged in train(given.model, given.steps):
        print(
            logged["step"], {key: logged[key] for key in sorted(logged) if key.startswith("panel")}
        )


if __name__ == "__main__":
    main()
