"""trl's own loss of GRPO, without its trainer."""

from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch


def trl_grpo(
    loss_type,
    new_BT,
    old_BT,
    reference_BT,
    advantage_B,
    mask_BT,
    *,
    beta,
    delta=None,
    clip_low=0.2,
    clip_high=0.28,
    level="token",
):
    """trl's own GRPOTrainer._compute_loss and its clip diagnostic, of a stand-in for the trainer
    that has no model.
    """
    GRPOTrainer = pytest.importorskip("trl").GRPOTrainer
    same = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer = SimpleNamespace(
        model=SimpleNamespace(training=False),
        accelerator=same,
        loss_type=loss_type,
        beta=beta,
        top_entropy_quantile=1,
        epsilon_low=clip_low,
        epsilon_high=clip_high,
        off_policy_mask_threshold=None,
        importance_sampling_level=level,
        args=SimpleNamespace(delta=delta, use_bias_correction_kl=False),
        use_vllm=False,
        max_completion_length=12,
        _entropy_bonus_enabled=False,
        aux_loss_enabled=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            new_BT,
            torch.zeros_like(new_BT),
            None,
        ),
    )
    prompt = torch.ones(len(mask_BT), 1, dtype=torch.long)
    inputs = {
        "prompt_ids": prompt,
        "prompt_mask": prompt,
        "completion_ids": mask_BT.long(),
        "completion_mask": mask_BT.long(),
        "advantages": advantage_B,
        "old_per_token_logps": old_BT,
        "ref_per_token_logps": reference_BT,
        "num_items_in_batch": mask_BT.sum(),
    }
    loss = GRPOTrainer._compute_loss(trainer, None, inputs)
    name = "cispo_clip_ratio" if loss_type == "cispo" else "clip_ratio/region_mean"
    return loss, trainer._metrics["eval"][name][0]
