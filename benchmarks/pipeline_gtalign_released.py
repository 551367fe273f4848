"""GTAlign's released files on a made batch: python -m benchmarks.pipeline_gtalign_released …"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch

from benchmarks.gtalign_numbers import normalised, reward_manager
from benchmarks.gtalign_oracle import BASELINES, FIRST, MODULES, SAID, SECOND, released
from benchmarks.pipeline_stages import ARRAYS, MADE
from benchmarks.pipeline_stubs import Placeholder


def bare_packages(checkout: Path) -> str:
    """Give its framework's package folders without running what they import; returns the repair."""
    for name in ("verl", "verl.utils", "verl.trainer", "verl.trainer.ppo", "verl.workers"):
        package = types.ModuleType(name)
        package.__path__ = [str(checkout / name.replace(".", "/"))]
        sys.modules[name] = package
    stand_ins = {
        "omegaconf": ("DictConfig",),
        "tensordict": ("TensorDict",),
        "verl.trainer.config": ("AlgoConfig",),
        "verl.workers.config": ("ActorConfig",),
    }
    for name, classes in stand_ins.items():
        module = types.ModuleType(name)
        for each in classes:
            setattr(module, each, type(each, (Placeholder,), {}))
        sys.modules[name] = module
    return (
        "verl: its packages are imported without ray, tensordict and omegaconf, which its "
        "estimators and losses do not use"
    )


def rewards(made: dict[str, Any]) -> dict[str, dict[str, list[Any]]]:
    """Source -> module -> (score, user, assistant) of each made output."""
    numbers: dict[str, dict[str, list[Any]]] = {}
    for source, outputs in made["outputs"].items():
        name, SAID.form, _ = MODULES[source]
        numbers[source] = {}
        for place in (FIRST, SECOND, *BASELINES):
            module = importlib.import_module(f"{place}.{name}")
            column = []
            for each in outputs:
                SAID.grade, SAID.named = each["grade"], each["named"]
                reported, _ = released(module, each["row"], each["output"])
                names = ("score", "user_reward", "llm_reward")
                column.append([reported[key] for key in names if key in reported])
            numbers[source][place.rpartition(".")[2]] = column
    return numbers


def trained(made: dict[str, Any]) -> dict[str, Any]:
    """Advantages, returns, and the losses of policy and critic, of made tokens."""
    algorithms = importlib.import_module("verl.trainer.ppo.core_algos")
    tensors = {name: torch.tensor(value) for name, value in made["tokens"].items()}
    mask = tensors["mask"]
    advantages, returns = algorithms.compute_gae_advantage_return(
        tensors["rewards"], tensors["values"], mask, 1.0, 1.0
    )
    policy, *_ = algorithms.compute_policy_loss(
        tensors["old"],
        tensors["new"],
        advantages,
        mask,
        cliprange=0.2,
        cliprange_low=0.2,
        cliprange_high=0.2,
        clip_ratio_c=3.0,
        loss_agg_mode="token-mean",
    )
    critic, _ = algorithms.compute_value_loss(
        tensors["new_values"], returns, tensors["values"], mask, 0.5
    )
    grouped, _ = algorithms.compute_grpo_outcome_advantage(tensors["rewards"], mask, made["groups"])
    return {
        "advantages": (advantages * mask).tolist(),
        "returns": (returns * mask).tolist(),
        "policy_loss": policy.item(),
        "value_loss": critic.item(),
        "group_advantages": (grouped * mask).tolist(),
    }


def main() -> None:
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    made = json.loads((folder / MADE).read_text())
    sys.path.insert(0, str(checkout))
    with contextlib.redirect_stdout(sys.stderr):
        arrays: dict[str, Any] = {"rewards": rewards(made)}
        manager = reward_manager(checkout, True)
        arrays["normalised"] = [
            normalised(manager, "zscore", batch["scores"], batch["sources"])
            for batch in made["batches"]
        ]
        repairs = ["the reward manager's imports of numpy inside a function, which hide it"]
        repairs.append(bare_packages(checkout))
        arrays |= trained(made)
    arrays["repairs"] = repairs
    (folder / ARRAYS).write_text(json.dumps(arrays))


if __name__ == "__main__":
    main()
