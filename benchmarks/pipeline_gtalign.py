"""GTAlign's pipeline as released beside its recipes, on made outputs to rows of its own files."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch

from benchmarks.gtalign_oracle import (
    BASELINES,
    FIRST,
    MODULES,
    NAMED,
    SAID,
    SECOND,
    our_judge,
    ours,
)
from benchmarks.gtalign_outputs import outputs
from benchmarks.pipeline_stages import Comparison, run_release
from equipoise.data.advantages import gae, group_relative, whiten
from equipoise.data.normalising import normalise
from equipoise.environments.assistance.judge import AssistanceJudge
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.losses.policy import Clipped
from equipoise.losses.surrogate import clipped_surrogate, token_weights, value_loss
from equipoise.payoffs.welfare import Welfare
from equipoise.prompts.row_prompts import to_prompt
from equipoise.prompts.split import load_split
from equipoise.runs import recipe_loader

TASKS = ("math-hard", "ambig_qa", "wildguard")
"""The tasks whose training files stand in the snapshot; `medium` has its test rows alone."""
BY_SOURCE = Path("data/gamellm_wildbreak_math_medium_abgqa/by_source")


def compare(checkout: Path, folder: Path) -> Comparison:
    """Every stage of the release and ours on the made batch."""
    made = make_batch(checkout / BY_SOURCE)
    theirs = run_release("pipeline_gtalign_released", checkout, folder, made)
    theirs["rows"] = {task: released_rows(checkout / BY_SOURCE / task) for task in TASKS}
    mine = our_arrays(made)
    mine["rows"] = {task: our_rows(checkout / BY_SOURCE / task) for task in TASKS}
    return compare_arrays(theirs, mine)


def compare_arrays(theirs: dict[str, Any], ours: dict[str, Any]) -> Comparison:
    """The stages of both sides."""
    comparison = Comparison(repairs=theirs["repairs"], released=theirs)
    comparison.add(
        "training rows, repeats, and test rows that stand in training too",
        theirs.get("rows"),
        ours.get("rows"),
    )
    comparison.not_compared(
        "sampled outputs",
        "another engine's dice, and the order of rows is that of its loader's",
        "other samples of the same policy",
    )
    comparison.not_compared(
        "the judging model's questions",
        "the release puts an answer into its question as it is; ours quotes it under a code",
        "an answer that addresses its judge is graded higher there",
    )
    comparison.add("scores and utilities of outputs", theirs["rewards"], ours["rewards"])
    for name, title in {
        "normalised": "z-scores by source",
        "advantages": "advantages, whitened",
        "returns": "returns",
        "policy_loss": "the policy's loss",
        "value_loss": "the critic's loss",
    }.items():
        comparison.add(title, theirs[name], ours[name], tolerance=1e-4)
    comparison.add(
        "advantages of the GRPO run",
        theirs["group_advantages"],
        ours["group_advantages"],
        tolerance=1e-4,
        why="a group's deviation has 1e-6 added there, and 1e-4 here, as in GRPO's own code",
        changes="advantages differ by 3 in 10,000",
    )
    comparison.not_compared(
        "validation scores",
        "the release reports z-scores of each source within a batch of the validation",
        "their mean is near 0 whatever the model does; ours are the scores themselves",
    )
    return comparison


def make_batch(data: Path) -> dict[str, Any]:
    """Outputs to rows with grades, batches of scores, and tokens with rewards and values."""
    made: dict[str, Any] = {"outputs": {}, "batches": []}
    for source in (*TASKS, "medium"):
        dice = random.Random(source)
        rows = pq.read_table(data / source / "test.parquet").to_pylist()[:25]
        writer = outputs(dice)
        listed = []
        for row in rows:
            if not row["reward_model"]["ground_truth"]:
                continue
            row = {key: row[key] for key in ("prompt", "data_source", "reward_model", "extra_info")}
            each = {"row": row, "output": next(writer), "grade": dice.choice(MODULES[source][2])}
            listed.append(each | {"named": dice.choice(NAMED)})
        made["outputs"][source] = listed
    dice = random.Random(3)
    for count in (2, 7, 64):
        scores = [dice.randrange(65) / 64 for _ in range(count)]
        sources = [dice.choice(["math-hard", "medium"]) for _ in scores]
        made["batches"].append({"scores": scores, "sources": sources})
    generator = torch.Generator().manual_seed(5)
    rows, tokens = 12, 9
    lengths = torch.randint(2, tokens + 1, (rows,), generator=generator)
    mask = (torch.arange(tokens) < lengths[:, None]).float()
    rewards = torch.zeros(rows, tokens)
    rewards[torch.arange(rows), lengths - 1] = torch.rand(rows, generator=generator)
    old = -torch.rand(rows, tokens, generator=generator) - 0.1
    drift = torch.randn(rows, tokens, generator=generator)
    made["tokens"] = {
        "mask": mask.tolist(),
        "rewards": rewards.tolist(),
        "values": torch.randn(rows, tokens, generator=generator).tolist(),
        "new_values": torch.randn(rows, tokens, generator=generator).tolist(),
        "old": old.tolist(),
        "new": (old + 0.7 * drift).tolist(),
    }
    made["groups"] = [n // 4 for n in range(rows)]
    return made


def released_rows(folder: Path) -> dict[str, int]:
    """Rows of its files, counted as its loader takes them: all of them."""
    train, test = (
        [str(row) for row in pq.read_table(folder / f"{part}.parquet")["prompt"].to_pylist()]
        for part in ("train", "test")
    )
    return counts(train, test)


def counts(train: list[str], test: list[str]) -> dict[str, int]:
    """Rows and texts of training and test, and the test rows that stand in training."""
    trained = set(train)
    most = Counter(train).most_common(1)[0][1]
    return {
        "training rows": len(train),
        "training texts": len(trained),
        "most repeats": most,
        "test rows": len(test),
        "test rows in training": sum(text in trained for text in test),
    }


def our_rows(folder: Path) -> dict[str, int]:
    """The rows that the recipe deals to a whole pass, and holds out."""
    rows = pq.read_metadata(folder / "train.parquet").num_rows
    config = recipe_loader.load(
        "gtalign_task_as_released",
        {
            "assistant.model": "builtin/beginner",
            "prompts.path": str(folder / "train.parquet"),
            "prompts.held_out_path": str(folder / "test.parquet"),
            "prompts.held_out": 10_000,
            "prompts.per_generation": rows,
            "judge.grader.base_url": "http://localhost:1/v1",
        },
    )
    split = load_split(config.prompts, 1, config.seed)
    train, test = (
        [str([(each.role, each.content) for each in prompt.messages]) for prompt in part]
        for part in (split.parts[0], split.held_out)
    )
    return counts(train, test)


def our_arrays(made: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the recipe's own parts."""
    config = recipe_loader.load(
        "gtalign_as_released",
        {
            "assistant.model": "builtin/beginner",
            "prompts.path": "rows.parquet",
            "judge.grader.base_url": "http://localhost:1/v1",
        },
    )
    learner = config.learner_of("assistant")
    assert isinstance(learner, PolicyGradient) and isinstance(learner.policy_loss, Clipped)
    judges = {name: our_judge(name) for name in ("as_released", "frontier")}
    batches = []
    for batch in made["batches"]:
        values = normalise(batch["scores"], batch["sources"], config.normalise.method)
        batches.append([float(value) for value in values])
    tensors = {name: torch.tensor(value) for name, value in made["tokens"].items()}
    mask, values = tensors["mask"].bool(), tensors["values"]
    raw = gae(tensors["rewards"], values, mask, gamma=1.0, lam=1.0)
    advantages = whiten(raw, mask)
    returns = (raw + values).masked_fill(~mask, 0)
    weights = token_weights(mask, "token")
    policy = clipped_surrogate(
        tensors["new"],
        tensors["old"],
        advantages,
        learner.policy_loss.clip,
        dual_clip=learner.policy_loss.dual_clip,
    )
    critic = value_loss(tensors["new_values"], values, returns, learner.value_clip)
    paid = tensors["rewards"].sum(1)
    grouped = group_relative(paid, torch.tensor(made["groups"]))
    return {
        "rewards": our_rewards(judges, made),
        "normalised": batches,
        "advantages": advantages.tolist(),
        "returns": returns.tolist(),
        "policy_loss": (policy * weights).sum().item(),
        "value_loss": (critic * weights).sum().item(),
        "group_advantages": (grouped[:, None] * mask).tolist(),
    }


def our_rewards(
    judges: dict[str, AssistanceJudge], made: dict[str, Any]
) -> dict[str, dict[str, list[Any]]]:
    """Source -> module -> (score, user, assistant) of each made output."""
    numbers: dict[str, dict[str, list[Any]]] = {}
    for source, listed in made["outputs"].items():
        _, SAID.form, _ = MODULES[source]
        columns: dict[str, list[Any]] = {
            place.rpartition(".")[2]: [] for place in (FIRST, SECOND, *BASELINES)
        }
        for each in listed:
            SAID.grade, SAID.named = each["grade"], each["named"]
            prompt = to_prompt(each["row"], source, source, "prompt")
            found = {name: ours(judge, prompt, each["output"]) for name, judge in judges.items()}
            first, second = (
                [of["score"], of["user"], of["llm"]]
                for of in (found["as_released"] or {}, found["frontier"] or {})
            )
            columns["tasks"].append(first)
            columns["tasks_ablation"].append(second)
            for place, kind in BASELINES.items():
                worth = float(Welfare.build(kind).value(first[1], first[2]))
                columns[place.rpartition(".")[2]].append([worth, *first[1:]])
        numbers[source] = columns
    return numbers
