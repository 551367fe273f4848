"""Policy gradients: the samples that they need, the optimum that they converge to, and their speed
beside trl's GRPOTrainer.

    bandit    one prompt, one token, a fixed reward for some tokens: samples until the
              best token has 95 %
    tilt      the same with a KL term: the distance of the final policy from the closed
              form, in total variation
                  kl_in: reward   max E[r] − β KL(π ‖ π_ref)     π ∝ π_ref exp(r/β)
                  kl_in: loss     max E[r] − β KL(π_ref ‖ π)     π = π_ref / (c − r/β),
                                  the optimum under k3
    sums      the built-in model's sums: the share that is right, before and after so
              many samples
    speed     samples a second and peak memory beside trl 1.16, with the same model,
              prompts, groups, lengths, rewards, steps
    shape     one update of PPO and of GRPO at a large model's shape: seconds of
              sampling, scoring and learning

    python -m benchmarks.policy_gradient [SECTION …] [--seeds 10]
        [--shape qwen3-0.6b --device cuda]
    python -m benchmarks.policy_gradient speed --model SmolLM2-135M-Instruct
        --prompts 4 --group 4 --tokens 48 --steps 2 --repeats 2 --json FILE
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks import preference_runs
from benchmarks.policy_gradient_runs import BUILTIN, right, trainer_of, update
from benchmarks.running import write_results
from equipoise import seeds
from equipoise.environments.clerk import world
from equipoise.models.device import choose_device
from equipoise.payoffs.intervals import over_seeds
from equipoise.types import Prompt, View, user
from tools.fresh_model import SMALLEST_VOCABULARY, new_model, resize

METHODS: dict[str, dict[str, Any]] = {
    "gae (PPO)": {"estimator": "gae", "critic": "head"},
    "group_relative (GRPO)": {"estimator": "group_relative"},
    "leave_one_out (RLOO)": {"estimator": "leave_one_out"},
    "batch (REINFORCE++)": {"estimator": "batch"},
}
ONE = Prompt("one", (user("Choose."),))
BATCH = 256  # answers in an update of the bandit


def main(argv: Sequence[str] | None = None) -> None:
    """Run the sections that are named."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.policy_gradient", description="Policy gradients."
    )
    parser.add_argument(
        "sections", nargs="*", metavar="SECTION", help=f"of {', '.join(SECTIONS)}; all of them"
    )
    parser.add_argument("--seeds", type=int, default=10, help="of bandit and tilt")
    parser.add_argument("--sum-seeds", type=int, default=3)
    parser.add_argument("--samples", type=int, default=12_800, help="answers that sums learns from")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each in speed, alternating")
    parser.add_argument("--steps", type=int, default=20, help="updates of a run in speed")
    parser.add_argument(
        "--prompts", type=int, default=8, help="prompts in an update of speed and shape"
    )
    parser.add_argument(
        "--group", type=int, default=8, help="answers to a prompt in speed and shape"
    )
    parser.add_argument("--tokens", type=int, default=16, help="longest answer in speed")
    parser.add_argument("--model", default=BUILTIN, help="that learns in speed: a name or a folder")
    parser.add_argument("--json", help="write the figures of speed here")
    parser.add_argument(
        "--shape", choices=preference_runs.SHAPES, default=None, help="null: by the device"
    )
    parser.add_argument("--device", choices=["cpu", "cuda"], default=choose_device().type)
    o = parser.parse_args(argv)
    unknown = set(o.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    for name in o.sections or SECTIONS:
        print(f"-- {name}")
        SECTIONS[name](o)


# -- one token


def tiny(folder: Path, seed: int, **settings: Any) -> Any:
    """A learner of random weights that answers with one of 261 tokens."""
    new_model(
        ["Choose."],
        folder,
        vocabulary=SMALLEST_VOCABULARY,
        size=resize("tiny", hidden=32, layers=1),
        seed=seed,
    )
    player = {"model": str(folder), "device": "cpu", "max_new_tokens": 1, "batch_size": 1024}
    return trainer_of(player, seed, batch_size=1024, **settings)


@torch.no_grad()
def policy(policy_trainer: Any) -> torch.Tensor:
    """The probability of every token, float64 [V]."""
    ids = torch.tensor([policy_trainer.encoding.prompt_ids(ONE.messages)])
    return policy_trainer.model(ids).logits[0, -1].double().softmax(-1)


def bandit(o: argparse.Namespace) -> None:
    """Samples until the best of five rewarded tokens has 95 %.

    `plain`: advantages as they are and an entropy bonus, so that the objective is E[r] +
    0.05 H, whose only optimum π ∝ exp(r / 0.05) gives the best token 98 %. `usual`:
    advantages over their deviation, and no bonus; a policy that met the second-best
    token first may settle on it, since dividing by a vanishing deviation keeps pushing
    it.
    """
    plain = {"entropy": 0.05, "whiten_advantages": False}
    for title, settings in (("plain", plain), ("usual", {})):
        for name, method in METHODS.items():
            # This method is nothing but dividing by the deviation.
            if title == "plain" and method["estimator"] == "batch":
                continue
            own = {}
            if title == "plain" and method["estimator"] == "group_relative":
                own = {"estimator": {"kind": "group_relative", "scale_by_group": False}}
            result = _bandits(o, {**method, **settings, **own})
            print(f"{title}  {name:24}", result, flush=True)


def _bandits(o: argparse.Namespace, method: dict[str, Any]) -> str:
    needed = []
    for seed in range(o.seeds):
        order = seeds.generator(seed, "bandit").permutation(SMALLEST_VOCABULARY)
        rewarded = order[:5].tolist()
        reward_V = torch.zeros(SMALLEST_VOCABULARY)
        reward_V[rewarded] = torch.tensor([1.0, 0.8, 0.6, 0.4, 0.2])
        with tempfile.TemporaryDirectory() as folder:
            critic = {"critic_learning_rate": 1e-2} if "critic" in method else {}
            policy_trainer = tiny(Path(folder), seed, kl=0, learning_rate=3e-3, **method, **critic)
            needed.append(_until(policy_trainer, reward_V, rewarded[0], seed))
    reached = [n for n in needed if math.isfinite(n)]
    most = f", at most {max(reached):.0f}" if reached else ""
    return (
        f"{len(reached)} of {o.seeds} seeds reach 95 %; samples {over_seeds(reached).text()}{most}"
    )


def _until(
    policy_trainer: Any, reward_V: torch.Tensor, best: int, seed: int, most: int = 120
) -> float:
    """Samples until `best` has 95 %; infinity after `most` updates."""
    for step in range(most):
        update(
            policy_trainer,
            [ONE],
            BATCH,
            seeds.child(seed, step),
            lambda _, move: float(reward_V[move.token_ids[0]]),
        )
        if policy(policy_trainer)[best] >= 0.95:
            return (step + 1) * BATCH
    return math.inf


def tilt(o: argparse.Namespace, beta: float = 0.5, updates: int = 120, answers: int = 256) -> None:
    """Total variation from the closed form, of the learned policy and of the reference."""
    print(f"β = {beta}; every token earns 0 or 1; {updates} updates of {answers} answers")
    for place in ("reward", "loss"):
        rows: list[tuple[float, float, float]] = []
        for seed in range(o.seeds):
            rng = seeds.generator(seed, "tilt")
            reward_V = torch.from_numpy(rng.integers(0, 2, SMALLEST_VOCABULARY)).double()
            with tempfile.TemporaryDirectory() as folder:
                policy_trainer = tiny(
                    Path(folder),
                    seed,
                    kl=beta,
                    kl_in=place,
                    learning_rate=1e-3,
                    estimator="leave_one_out",
                )
                start_V = policy(policy_trainer)
                for step in range(updates):

                    def reward(_: Any, move: Any, reward_V: Any = reward_V) -> float:
                        return float(reward_V[move.token_ids[0]])

                    update(policy_trainer, [ONE], answers, seeds.child(seed, step), reward)
                end_V = policy(policy_trainer)
            tilted_V = torch.softmax(start_V.log() + reward_V / beta, -1)
            goal_V = tilted_V
            if place == "loss":
                goal_V = forward_optimum(start_V, reward_V, beta)
            pairs = ((start_V, goal_V), (end_V, goal_V), (end_V, tilted_V))
            start, end, tilted = (variation(*pair) for pair in pairs)
            rows.append((start, end, tilted))
        start, end, tilted = (over_seeds(list(column)).text() for column in zip(*rows, strict=True))
        print(
            f"kl_in: {place:8}reference {start}   learned {end}   learned from the "
            f"exponential tilt {tilted}",
            flush=True,
        )


def forward_optimum(start_V: torch.Tensor, reward_V: torch.Tensor, beta: float) -> torch.Tensor:
    """π = π_ref / (c − r/β), with c by bisection so that it sums to 1."""
    low, high = reward_V.max() / beta, reward_V.max() / beta + 1
    for _ in range(200):
        c = (low + high) / 2
        low, high = (c, high) if (start_V / (c - reward_V / beta)).sum() > 1 else (low, c)
    return start_V / (high - reward_V / beta)


def variation(first_V: torch.Tensor, second_V: torch.Tensor) -> float:
    """Total variation, in [0, 1]."""
    return 0.5 * float((first_V - second_V).abs().sum())


# -- sums


def sums(o: argparse.Namespace) -> None:
    """The share of held-out sums that is right, sampled at temperature 1, before and after
    learning.
    """
    held_out = world.prompts(0, 400, ["sum"], "held_out")
    player = {"model": "builtin", "device": "cpu", "max_new_tokens": 16, "batch_size": 256}
    methods = {
        "PPO": ({"estimator": "gae", "critic": "head", "critic_learning_rate": 1e-3}, 1),
        "GRPO": ({"estimator": "group_relative"}, 8),
    }
    for name, (method, group) in methods.items():
        before, after, started = [], [], time.perf_counter()
        for seed in range(o.sum_seeds):
            policy_trainer = trainer_of(
                player, seed, kl=0, learning_rate=1e-4, batch_size=128, **method
            )
            train = world.prompts(seed, 1500, ["sum"])
            before.append(_share(policy_trainer, held_out))
            for step in range(o.samples // 128):
                rng = seeds.generator(seed, "sums", step)
                chosen = [train[i] for i in rng.choice(len(train), 128 // group, replace=False)]
                update(policy_trainer, chosen, group, seeds.child(seed, step), right)
            after.append(_share(policy_trainer, held_out))
        seconds = (time.perf_counter() - started) / o.sum_seeds
        print(
            f"{name:6}{o.samples} samples, {seconds:.0f} s a seed: right "
            f"{over_seeds(before).percent()} before, "
            f"{over_seeds(after).percent()} after"
        )


def _share(policy_trainer: Any, prompts: Sequence[Prompt]) -> float:
    moves = policy_trainer.actor.act(
        [View(prompt.messages) for prompt in prompts], list(range(len(prompts)))
    )
    return statistics.fmean(
        right(prompt, move) for prompt, move in zip(prompts, moves, strict=True)
    )


# -- speed


def speed(o: argparse.Namespace) -> None:
    """Ours and trl's, each in its own process, on one thread, alternating."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TQDM_DISABLE": "1"}
    env["TOKENIZERS_PARALLELISM"] = "false"
    runs: dict[str, list[dict[str, float]]] = {"trl": [], "ours": []}
    for _ in range(o.repeats):
        for name, results in runs.items():
            command = [
                sys.executable,
                "-m",
                "benchmarks.policy_gradient_runs",
                name,
                json.dumps(vars(o)),
            ]
            done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr[-4000:]}")
            results.append(json.loads(done.stdout.splitlines()[-1]))
    print(
        f"GRPO, {o.steps} updates of {o.prompts} x {o.group} answers of up to "
        f"{o.tokens} tokens, no KL, one thread"
    )
    columns = ("samples_per_second", "seconds", "peak_mib", "length", "first", "last")
    print(" " * 6 + "".join(f"{column:>20}" for column in columns))
    for name, results in runs.items():
        medians = (statistics.median(run[c] for run in results) for c in columns)
        print(f"{name:6}" + "".join(f"{median:20.3f}" for median in medians))
    pairs = list(zip(runs["ours"], runs["trl"], strict=True))
    figures: dict[str, Any] = {"runs": runs}
    for name, column in (("speed", "samples_per_second"), ("memory", "peak_mib")):
        ratios = [ours[column] / trl[column] for ours, trl in pairs]
        each = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        figures[f"{name}_ratio"] = statistics.median(ratios)
        print(f"{column}: ours is {statistics.median(ratios):.2f} x trl's (each pair: {each})")
    if o.json:
        sizes = ("prompts", "group", "tokens", "steps", "repeats")
        write_results(Path(o.json), figures, **{size: getattr(o, size) for size in sizes})


# -- a large shape


def shape(o: argparse.Namespace) -> None:
    """Where the time of an update goes; of two updates the first is a warm-up."""
    name = o.shape or ("qwen3-0.6b" if o.device == "cuda" else "small")
    answers = 256 if o.device == "cuda" else 16
    sizes = {"shape": name, "pairs": o.prompts, "prompt": [128, 256], "answer": [1, 1]}
    with tempfile.TemporaryDirectory() as folder:
        model = argparse.Namespace(**sizes, folder=folder)
        preference_runs.make(model)
        prompts = [
            Prompt(str(n), (user(text),))
            for n, (text, _, _) in enumerate(preference_runs.texts(model))
        ]
        player = {
            "model": folder,
            "device": o.device,
            "max_new_tokens": answers,
            "max_length": 1024,
            "batch_size": 256,
        }
        print(
            f"{name}, {o.device}, bf16, {o.prompts} x {o.group} answers of up to {answers} tokens"
        )
        ppo = METHODS["gae (PPO)"] | {"critic": "model"}
        for method, settings in (("PPO", ppo), ("GRPO", {"estimator": "group_relative"})):
            policy_trainer = trainer_of(
                player, 5, precision="bf16", max_disagreement=1.0, batch_size=16, **settings
            )
            _time_updates(method, policy_trainer, prompts, o)
            del policy_trainer
            gc.collect()  # the clock and the learner hold each other


def _time_updates(
    method: str, policy_trainer: Any, prompts: Sequence[Prompt], o: argparse.Namespace
) -> None:
    clock = Clock(policy_trainer, o.device)
    facts = {}
    for step in range(2):
        clock.spent.clear()
        facts = update(
            policy_trainer,
            prompts,
            o.group,
            step,
            lambda prompt, move: float(len(move.token_ids) % 2),
        )
    total = clock.spent["act"] + clock.spent["learn"]
    shares = ", ".join(
        f"{part} {seconds:.2f} s ({seconds / total:.0%})" for part, seconds in clock.parts().items()
    )
    print(
        f"{method:5}{total:.2f} s: {shares}; {facts['length']:.0f} tokens an answer, "
        f"sampler and learner differ by {facts['sampler_gap']:.1e} nats"
    )
    if o.device == "cuda":
        print(f"     at most {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
        torch.cuda.reset_peak_memory_stats()


class Clock:
    """Times a learner's parts by replacing its methods."""

    def __init__(self, policy_trainer: Any, device: str) -> None:
        self.spent: dict[str, float] = {}
        self._device = device
        for owner, name in (
            (policy_trainer.actor, "act"),
            (policy_trainer, "prepared"),
            (policy_trainer, "learn"),
        ):
            setattr(owner, name, self._timed(name, getattr(owner, name)))

    def _timed(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any) -> Any:
            started = self._now()
            result = work(*arguments)
            self.spent[name] = self.spent.get(name, 0.0) + self._now() - started
            return result

        return timed

    def _now(self) -> float:
        if self._device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def parts(self) -> dict[str, float]:
        """Seconds of sampling, of preparing the batch, and of learning."""
        scoring = self.spent["prepared"]
        return {
            "sampling": self.spent["act"],
            "scoring": scoring,
            "learning": self.spent["learn"] - scoring,
        }


SECTIONS: dict[str, Callable[[argparse.Namespace], None]] = {
    "bandit": bandit,
    "tilt": tilt,
    "sums": sums,
    "speed": speed,
    "shape": shape,
}

if __name__ == "__main__":
    main()
