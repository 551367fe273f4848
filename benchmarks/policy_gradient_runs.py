"""The parts of the benchmark of policy gradients that need their own processes: ours, and trl's
GRPOTrainer.

python -m benchmarks.policy_gradient_runs WORK OPTIONS-AS-JSON
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.preference_runs import peak_mib
from equipoise import seeds
from equipoise.types import Episode, Prompt, Turn, View

RATE = 1e-4
BUILTIN = "builtin"


def trainer_of(player: dict[str, Any], seed: int, **settings: Any) -> Any:
    """A learner at generation 0, with no warm-up."""
    from equipoise.learners.policy_gradient_learner import PolicyGradient
    from equipoise.learners.policy_trainer import PolicyTrainer
    from equipoise.players.base import Player
    from equipoise.players.local import Local

    trainer = PolicyGradient.model_validate({"warmup_steps": 0, **settings})
    given = Player.build({"kind": "local", "learns": True, **player})
    assert isinstance(given, Local)
    return PolicyTrainer(trainer, given, "policy", seed)


def update(
    policy_trainer: Any,
    prompts: Sequence[Prompt],
    group: int,
    seed: int,
    reward: Callable[[Prompt, Any], float],
) -> dict[str, float]:
    """Sample `group` answers to each prompt, reward them, learn from them, and compare the sampler
    with the learner.
    """
    repeated = [prompt for prompt in prompts for _ in range(group)]
    views = [View(prompt.messages) for prompt in repeated]
    moves = policy_trainer.actor.act(views, [seeds.child(seed, n) for n in range(len(views))])
    turns = [Turn("answer", view, move) for view, move in zip(views, moves, strict=True)]
    episodes = [
        Episode(str(n), 0, str(n), 0, "answer", prompt.id, reward(prompt, turn.move))
        for n, (prompt, turn) in enumerate(zip(repeated, turns, strict=True))
    ]
    facts = policy_trainer.learn(episodes, turns, seed, lambda line: None)
    policy_trainer.assert_agreement(policy_trainer.actor)
    return facts


def right(prompt: Prompt, move: Any) -> float:
    """1 for the right answer of the built-in world, else 0."""
    from equipoise.environments.clerk import clerk_answers as answers

    return float(answers.rate(prompt, move.text).right)


def even(prompt: Prompt, move: Any) -> float:
    """1 for an answer of an even number of characters: a reward that differs between answers to a
    question whatever the model is, else 0.
    """
    return float(len(move.text) % 2 == 0)


def reward_of(o: argparse.Namespace) -> Callable[[Prompt, Any], float]:
    """What an answer is paid: the built-in world's models by its rules."""
    return right if o.model == BUILTIN else even


def all_prompts(o: argparse.Namespace) -> list[Prompt]:
    """Every prompt of the comparison, in order."""
    from equipoise.environments.clerk import world

    return world.prompts(5, o.steps * o.prompts, world.KINDS)


def ours(o: argparse.Namespace) -> dict[str, Any]:
    """Our learner and sampler, without the run around them."""
    player = {
        "model": o.model,
        "device": "cpu",
        "max_new_tokens": o.tokens,
        "batch_size": o.prompts * o.group,
    }
    policy_trainer = trainer_of(
        player,
        5,
        estimator="group_relative",
        kl=0,
        learning_rate=RATE,
        batch_size=o.prompts * o.group,
    )
    every, rewards, lengths = all_prompts(o), [], []
    started = time.perf_counter()
    for step in range(o.steps):
        facts = update(
            policy_trainer,
            every[step * o.prompts : (step + 1) * o.prompts],
            o.group,
            step,
            reward_of(o),
        )
        rewards.append(facts["reward"])
        lengths.append(facts["length"])
    return summary(o, time.perf_counter() - started, rewards, lengths)


def trl(o: argparse.Namespace) -> dict[str, Any]:
    """trl's GRPOTrainer with the same prompts in the same order, groups, lengths, rewards and
    steps.
    """
    from datasets import Dataset
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    from equipoise.models.adapters import resolve
    from equipoise.types import Move

    every, reward = all_prompts(o), reward_of(o)

    def rewards(prompts: Any, completions: Any, number: Any, **_: Any) -> list[float | None]:
        return [
            reward(every[n], Move(chat[0]["content"]))
            for n, chat in zip(number, completions, strict=True)
        ]

    rows = [{"role": m.role, "content": m.content} for prompt in every for m in prompt.messages]
    data = Dataset.from_dict({"prompt": [[row] for row in rows], "number": list(range(len(every)))})
    with tempfile.TemporaryDirectory() as out:
        arguments = GRPOConfig(
            output_dir=out,
            num_generations=o.group,
            per_device_train_batch_size=o.prompts * o.group,
            max_steps=o.steps,
            max_completion_length=o.tokens,
            beta=0.0,
            loss_type="grpo",
            learning_rate=RATE,
            temperature=1.0,
            lr_scheduler_type="constant",
            warmup_steps=0,
            weight_decay=0.0,
            shuffle_dataset=False,
            seed=5,
            gradient_checkpointing=False,
            bf16=False,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            save_strategy="no",
            logging_steps=1,
        )
        model = AutoModelForCausalLM.from_pretrained(resolve(o.model), dtype="float32")
        tokenizer = AutoTokenizer.from_pretrained(resolve(o.model))
        trainer = GRPOTrainer(model, rewards, arguments, data, processing_class=tokenizer)
        started = time.perf_counter()
        trainer.train()
        seconds = time.perf_counter() - started
    logged = [line for line in trainer.state.log_history if "reward" in line]
    return summary(
        o,
        seconds,
        [line["reward"] for line in logged],
        [line["completions/mean_length"] for line in logged],
    )


def summary(
    o: argparse.Namespace, seconds: float, rewards: list[float], lengths: list[float]
) -> dict[str, Any]:
    """The figures of a run."""
    samples, third = o.steps * o.prompts * o.group, max(1, o.steps // 3)
    return {
        "samples_per_second": samples / seconds,
        "seconds": seconds,
        "peak_mib": peak_mib("cpu"),
        "length": sum(lengths) / len(lengths),
        "first": sum(rewards[:third]) / third,
        "last": sum(rewards[-third:]) / third,
    }


PARTS = (ours, trl)

if __name__ == "__main__":
    part = {part.__name__: part for part in PARTS}[sys.argv[1]]
    print(json.dumps(part(argparse.Namespace(**json.loads(sys.argv[2])))))
