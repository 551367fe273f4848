"""GPO's released files on a made batch: python -m benchmarks.pipeline_gpo_released CHECKOUT DIR."""

from __future__ import annotations

import importlib
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch

from benchmarks.pipeline_stages import ARRAYS, MADE
from benchmarks.pipeline_stubs import Repairs


def repaired(checkout: Path) -> Repairs:
    """The release's folder on the path, and stand-ins for what it cannot import here."""
    sys.path.insert(0, str(checkout))
    repairs = Repairs()
    repairs.absent(
        "deepspeed",
        "deepspeed.ops",
        "deepspeed.ops.adam",
        "fast_bleu",
        "torchmetrics",
        "torchmetrics.functional",
        "sentence_transformers",
        "sklearn.metrics.pairwise",
        "torch.utils.tensorboard",
    )

    def cosines(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        unit = torch.nn.functional.normalize
        return unit(first, dim=1) @ unit(second, dim=1).T

    vars(sys.modules["torchmetrics.functional"])["pairwise_cosine_similarity"] = cosines
    repairs.told.append("torchmetrics' pairwise cosine similarity: written in a line")
    return repairs


def losses(trainer: Any, made: dict[str, Any]) -> list[float]:
    """The losses of policy and critic of a made batch, with the script's flags: all off."""
    tensors = {name: torch.tensor(value) for name, value in made["tokens"].items()}
    batch = {
        "loss_mask": tensors["loss_mask"].bool(),
        "text_vec": tensors["text_vec"],
        "values": tensors["values"],
        "logprobs": tensors["logprobs"],
        "advantages": tensors["advantages"],
        "returns": tensors["returns"],
        "ppl_value": torch.zeros(1),
        "ppl0_value": torch.zeros(1),
    }
    output = ((tensors["logits"],), (tensors["new_values"],))
    policy, critic = trainer.criterion(output, batch)
    return [policy.item(), critic.item()]


def kept_step(trainers: Any, scores: list[float]) -> int:
    """The step of the model that the release's own loop saves as the best, 0: the start.

    `scores` are what its validation gives before the first step and every 100 after it.
    """
    trainer = object.__new__(trainers.GPOTrainer)
    best = [0]
    values = iter(scores)
    silent = types.SimpleNamespace(
        record_metric=lambda *_: None,
        record_metric_many=lambda *_: None,
        all_gather_metrics=lambda: {},
        write_tensorboard=lambda *_, **__: None,
        display=lambda *_, **__: None,
        reset=lambda *_, **__: None,
    )

    def save(is_best: bool, total_steps: int) -> None:
        if is_best:
            best.append(total_steps)

    trainer.train_state = trainers.TrainState()
    trainer.max_steps, trainer.save_per_step = 100 * (len(scores) - 1), 100
    trainer.print_interval, trainer.train_size, trainer.no_reset_metric_names = 10**9, 0, []
    trainer.replay_buffer, trainer.train_metrics = [], silent
    trainer.opt = types.SimpleNamespace(num_workers=0, num_prefetch=None)
    trainer.accelerator = None
    trainer.model = types.SimpleNamespace(train=lambda: None)
    trainer.scheduler = types.SimpleNamespace(get_last_lr=lambda: [0.0])
    trainer.make_experiences = lambda: None
    trainer.train_step = lambda batch: None
    trainer.evaluate = lambda: (next(values), None)
    trainer.save_checkpoint = save
    kept = {name: getattr(trainers, name) for name in ("DataLoader", "ExperienceDataset")}
    trainers.ExperienceDataset = lambda *_: None
    trainers.DataLoader = lambda *_, **__: [{"text_vec": torch.zeros(1, 1), "res_len": [1]}]
    trainers.to_cuda = lambda batch: None
    trainers.synchronize_if_distributed = lambda: None
    trainers.print_rank_0 = lambda *_: None
    trainer.train()
    for name, value in kept.items():
        setattr(trainers, name, value)
    return best[-1]


def main() -> None:
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    repairs = repaired(checkout)
    made = json.loads((folder / MADE).read_text())
    helper = importlib.import_module("gpo.gpo_datahelper")
    trainers = importlib.import_module("gpo.gpo_trainer")
    embedding = importlib.import_module("gpo.sentence_embed")
    arrays: dict[str, Any] = {}

    experience = object.__new__(helper.ExperienceDataset)
    experience.gamma, experience.lam = 1.0, 0.95
    arrays["advantages"] = [
        list(experience.get_advantages_and_returns(row["rewards"], row["values"]))
        for row in made["answers"]
    ]

    trainer = object.__new__(trainers.GPOTrainer)
    factor = trainer.invsqrt_scheduler(100)
    # LambdaLR sets the factor of step 0 first, so the n-th optimizer step has that of n − 1.
    arrays["rates"] = [factor(step - 1) for step in range(1, made["steps"] + 1)]
    trainer.value_clip, trainer.pg_clip = 0.2, 0.2
    for flag in (
        "use_advantage_norm",
        "use_advantage_clip",
        "use_critic_loss_clip",
        "use_policy_loss_clip",
        "use_entropy_loss",
        "use_ppo_pretrain_loss",
    ):
        setattr(trainer, flag, False)
    trainer.vf_coef = trainer.vf_loss_weight = 1.0
    repairs.told.append(
        "GPOTrainer.vf_coef: read by criterion and set nowhere; 1, as vf_loss_weight"
    )
    trainer.train_metrics = types.SimpleNamespace(record_metric=lambda name, value: None)
    arrays["losses"] = losses(trainer, made)
    trainer.use_advantage_clip, trainer.advantage_clip = True, made["advantage_clip"]
    trainer.use_entropy_loss = True
    trainer.entropy_clip = trainer.entropy_loss_weight = 35.0
    arrays["losses with options"] = losses(trainer, made)
    arrays["kept"] = [kept_step(trainers, scores) for scores in made["validation"]]
    repairs.told.append("GPOTrainer.train: rollouts, updates and validation are stand-ins")

    stages = []
    trainer.defend_stage_steps, trainer.total_stage_steps = 400, 600

    def learns(role: str) -> Any:
        def forward(inputs: Any, **_: Any) -> Any:
            stages.append(role)
            raise StopIteration

        return forward

    trainer.optimizer = types.SimpleNamespace(zero_grad=lambda: None)
    trainer.model = types.SimpleNamespace(training=True)
    trainer.defend_forward, trainer.attack_forward = learns("defender"), learns("adversary")
    for step in range(made["steps"]):
        trainer.train_state = types.SimpleNamespace(total_steps=step)
        try:
            trainer.train_step({})
        except StopIteration:
            continue
    arrays["who learns"] = stages

    reward = object.__new__(embedding.CosineSentenceEmbeddingReward)
    reward.n_samples, reward.sentence_embeddings = -1, None
    reward._compute_embeddings = lambda texts: torch.tensor([made["vectors"][t] for t in texts])
    cosines = []
    for texts in made["attacks"]:
        cosines.append([float(value) for value in reward(texts)])
        reward.append_reference(texts)
    arrays["cosines"] = cosines
    arrays["repairs"] = repairs.told
    (folder / ARRAYS).write_text(json.dumps(arrays))


if __name__ == "__main__":
    main()
