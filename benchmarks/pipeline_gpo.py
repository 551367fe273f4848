"""GPO's pipeline as released beside `gpo_as_released`, on a made batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.pipeline_stages import Comparison, run_release
from equipoise.data.advantages import gae
from equipoise.environments.red_team.measures import RawAndRewritten, RedTeamMeasures
from equipoise.environments.red_team.red_teaming import RedTeaming
from equipoise.learners.estimators import GAE
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_trainer import rate_factor
from equipoise.ledger.facts import Estimate
from equipoise.losses.surrogate import clipped_surrogate, token_weights, value_loss
from equipoise.payoffs.diversity import MeanCosine
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.turns import TurnTaken

STEPS = 650
"""Optimizer steps: a whole cycle of both phases, and the beginning of the next."""
VALIDATION = [
    [0.31, 0.28, 0.44, 0.44, 0.52, 0.47, 0.51, 0.49, 0.52],
    [0.61, 0.28, 0.44, 0.44, 0.52, 0.47, 0.51, 0.49, 0.61],
    [0.31, 0.33, 0.32, 0.35, 0.36, 0.36, 0.38, 0.41, 0.43],
]
"""Rewards of a validation before the first step and every 100 after it: ties, a start that stays the
best, and one that rises to its end."""


def compare(checkout: Path, folder: Path) -> Comparison:
    """Every stage of the release and ours on the made batch."""
    made = make_batch()
    theirs = run_release("pipeline_gpo_released", checkout, folder, made)
    return compare_arrays(theirs, our_arrays(made))


def compare_arrays(theirs: dict[str, Any], ours: dict[str, Any]) -> Comparison:
    """The stages of both sides."""
    comparison = Comparison(repairs=theirs["repairs"], released=theirs)
    comparison.add("who learns at each step", theirs["who learns"], ours["who learns"])
    comparison.not_compared(
        "who is rewarded in each phase",
        "in the release make_experiences never leaves the defender's phase, so the adversary would "
        "learn from the defender's answers; ours does what is meant there",
        "as it stands, its adversary learns nothing of attacks",
    )
    comparison.not_compared(
        "sampled texts and the guard's probabilities",
        "the release does not start (adv_ref_model is no argument of its wrapper)",
        "the guard's question and reading are compared by their texts (judges/guard.py)",
    )
    comparison.not_compared(
        "selfBLEU",
        "it is computed by fast_bleu, a C++ package that is not installed here",
        "vectors that were computed apart stand for it in the tests",
    )
    comparison.add("mean cosine to all attacks so far", theirs["cosines"], ours["cosines"])
    comparison.add("advantages and returns", theirs["advantages"], ours["advantages"])
    comparison.add("losses of policy and critic", theirs["losses"], ours["losses"])
    comparison.add("factors of the learning rates", theirs["rates"], ours["rates"], tolerance=1e-9)
    comparison.add(
        "losses with clipped advantages, whatever its entropy loss weighs",
        theirs["losses with options"],
        ours["losses with options"],
    )
    comparison.add("the step of the model that is kept", theirs["kept"], ours["kept"])
    return comparison


def make_batch() -> dict[str, Any]:
    """Rewards and values of answers, a batch of tokens, and attacks with their vectors."""
    generator = torch.Generator().manual_seed(9)
    answers = []
    for length in (1, 4, 9, 17):
        rewards = 0.01 * torch.randn(length, generator=generator)
        rewards[-1] += torch.rand(1, generator=generator)[0]
        values = torch.randn(length, generator=generator)
        answers.append({"rewards": rewards.tolist(), "values": values.tolist()})
    rows, tokens, words = 5, 8, 13
    text = torch.randint(0, words, (rows, tokens), generator=generator)
    starts = torch.tensor([2, 3, 1, 4, 2])
    places = torch.arange(tokens)
    mask = (places >= starts[:, None]).long()
    logits = torch.randn(rows, tokens, words, generator=generator)
    behind = mask[:, 1:].float()
    old = torch.log_softmax(logits[:, :-1], -1).gather(2, text[:, 1:, None])[..., 0] * behind
    drifted = old + 0.3 * torch.randn(rows, tokens - 1, generator=generator) * behind
    made_tokens = {
        "loss_mask": mask.tolist(),
        "text_vec": text.tolist(),
        "logits": logits.tolist(),
        "logprobs": drifted.tolist(),
        "values": torch.randn(rows, tokens - 1, generator=generator).tolist(),
        "new_values": torch.randn(rows, tokens, generator=generator).tolist(),
        "advantages": torch.randn(rows, tokens - 1, generator=generator).tolist(),
        "returns": torch.randn(rows, tokens - 1, generator=generator).tolist(),
    }
    attacks = [[f"attack {batch}.{number}" for number in range(3)] for batch in range(4)]
    vectors = {}
    for texts in attacks:
        for each in texts:
            vector = torch.randn(6, generator=generator)
            vectors[each] = (vector / vector.norm()).tolist()
    return {
        "answers": answers,
        "tokens": made_tokens,
        "attacks": attacks,
        "vectors": vectors,
        "steps": STEPS,
        "advantage_clip": 0.5,
        "validation": VALIDATION,
    }


def our_arrays(made: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the recipe's own parts."""
    config = recipe_loader.load(
        "gpo_as_released",
        {
            "defender.model": "builtin/beginner",
            "adversary.model": "builtin/beginner",
            "prompts.path": "prompts.jsonl",
            "judge.guard": {"kind": "guard", "model": "builtin/beginner"},
        },
    )
    learner = config.learner_of("defender")
    assert isinstance(learner, PolicyGradient) and isinstance(learner.estimator, GAE)
    taken: list[TurnTaken] = []
    learning = []
    for _ in range(made["steps"]):
        (name,) = config.turns.next_learners(["defender", "adversary"], taken)
        learning.append(name)
        taken.append(TurnTaken((name,), {}))
    advantages = []
    for row in made["answers"]:
        rewards, values = torch.tensor([row["rewards"]]), torch.tensor([row["values"]])
        mask = torch.ones_like(values, dtype=torch.bool)
        raw = gae(rewards, values, mask, learner.estimator.gamma, learner.estimator.lam)
        advantages.append([raw[0].tolist(), (raw + values)[0].tolist()])
    mean = MeanCosine(lambda texts: np.array([made["vectors"][text] for text in texts]))
    cosines = []
    for texts in made["attacks"]:
        scores = mean.score(texts)
        cosines.append([float(score) for score in scores])
        mean.add(texts)
    return {
        "who learns": learning,
        "cosines": cosines,
        "advantages": advantages,
        "losses": our_losses(made),
        "losses with options": our_losses(made, made["advantage_clip"]),
        "kept": [our_kept_step(config, scores) for scores in made["validation"]],
        "rates": [rate_factor(learner, step) for step in range(1, made["steps"] + 1)],
    }


def our_kept_step(config: RunConfig, scores: list[float]) -> int:
    """The step whose defender the recipe's evaluation chooses, of these measurements."""
    evaluation = config.evaluate
    assert isinstance(evaluation, RedTeaming) and evaluation.every == 100
    recorded = []
    for place, score in enumerate(scores):
        safety = Estimate(score, score, score, 1)
        recorded.append(
            RedTeamMeasures(
                players=[f"defender@{100 * place}"],
                scores={f"defender@{100 * place}": safety},
                score=score,
                exploitability=None,
                attack_success=RawAndRewritten(safety),
                p_safe=RawAndRewritten(safety),
            )
        )
    return evaluation.criterion(recorded).chosen.generation


def our_losses(made: dict[str, Any], advantage_clip: float = float("inf")) -> list[float]:
    """The losses of policy and critic; in one step a batch no clip binds, and there is none."""
    tensors = {name: torch.tensor(value) for name, value in made["tokens"].items()}
    mask = tensors["loss_mask"][:, 1:].bool()
    scores = torch.log_softmax(tensors["logits"][:, :-1], -1)
    new = scores.gather(2, tensors["text_vec"][:, 1:, None])[..., 0]
    weights = token_weights(mask, "token")
    unclipped = 1e6
    advantages = tensors["advantages"].clamp(-advantage_clip, advantage_clip)
    policy = clipped_surrogate(new, tensors["logprobs"], advantages, unclipped)
    critic = value_loss(
        tensors["new_values"][:, :-1], tensors["values"], tensors["returns"], float("inf")
    )
    return [(policy * weights).sum().item(), (critic * weights).sum().item()]
