"""A learner that stays in memory: the policy, its critic, reference, optimizer and
baselines, from update to update.

    rewards by token    the pay-off on the last token, less kl · (log π − log π_ref) on each where kl_in is reward
    advantages          by the estimator, from the values and log-probabilities before the update
    each step           clipped surrogate + kl · k3 (kl_in: loss) − entropy · H + ½ clipped squares of the critic

What it samples with and what it trains are one model; `assert_agreement` holds the
sampler's path against the learner's after each update. Several processes (accelerate)
each compute a part of every step and add up gradients.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from transformers.modeling_layers import GradientCheckpointingLayer

from equipoise import seeds
from equipoise.errors import EquipoiseError
from equipoise.learners.critic import Critic
from equipoise.learners.estimation import estimated
from equipoise.learners.gradient import local_player, world_size
from equipoise.learners.policy_gradient import PolicyGradient
from equipoise.learners.rollouts import Rollouts, rollouts
from equipoise.learners.trainable_model import TrainableModel
from equipoise.losses import kl as kls
from equipoise.losses import policy_gradient as losses
from equipoise.models.device import choose_device
from equipoise.models.logprobs import Answers, pack, shares_prompts
from equipoise.models.output_head import AnswerHead
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player
from equipoise.players.local import LocalActor
from equipoise.types import Episode, PlayerId, Turn

Log = Callable[[dict[str, Any]], None]
PROBE_TOKENS = 8  # of each probe's answer: enough to find other weights by, few enough to be done after every update


class PolicyTrainer:
    """One learner's living state. `who` says which generation it is."""

    def __init__(
        self,
        settings: PolicyGradient,
        player: Player,
        name: str,
        seed: int,
        trackers: Sequence[str] = (),
        logs: str | None = None,
        resources: Resources | None = None,
    ) -> None:
        """`player` as it is given, at generation 0. `track` writes to the trackers,
        their files below `logs`.

        Learners with adapters on one base share it through the shelf. Raises
        ConfigError, ModelError.
        """
        player = local_player(settings, name, player)
        self.settings, self.player, self.learner = settings, player, PlayerId(name)
        on_cpu = choose_device(player.device).type == "cpu"
        # Processes on CPUs find each other only where a CPU is asked for; alone,
        # whoever came first has decided.
        self.accelerator = Accelerator(
            cpu=on_cpu and world_size() > 1,
            log_with=list(trackers) or None,
            project_dir=logs,
        )
        if trackers:
            self.accelerator.init_trackers(name)
        self.encoding = player.encoding()
        several = self.accelerator.num_processes > 1
        self.device = (
            self.accelerator.device if several else choose_device(player.device)
        )
        self.temperature = player.temperature or 1.0
        self.policy = TrainableModel(
            settings, player, name, seed, self.device, resources or Resources()
        )
        self.model: Any = self.policy.model
        self.critic = None
        if settings.critic is not None:
            self.critic = Critic.make(settings, player, self.policy.width, seed).to(
                self.device
            )
        groups = [
            {
                "params": list(self.policy.trained().values()),
                "lr": settings.learning_rate,
            }
        ]
        if self.critic is not None:
            groups.append(
                {
                    "params": list(self.critic.parameters()),
                    "lr": settings.critic_learning_rate,
                }
            )
        self.optimizer = torch.optim.AdamW(groups, weight_decay=settings.weight_decay)
        self.kl, self.steps = settings.kl, 0
        self.baselines: dict[str, float] = {}
        self.probe: list[tuple[list[int], list[int]]] = []
        self.head = AnswerHead(self.model, temperature=self.temperature, keep=True)
        self._shares: bool | None = None
        self.actor: Actor = LocalActor(player, self.encoding, self._lend)

    def track(self, line: dict[str, Any]) -> None:
        """Send a line of metrics to the trackers."""
        self.accelerator.log(
            {name: value for name, value in line.items() if name != "steps"},
            step=self.steps,
        )

    @contextmanager
    def _lend(self) -> Iterator[Any]:
        """The model for sampling, its adapter in it."""
        self.model.eval()
        with self._autocast():
            yield self.policy.sampler()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(
            self.device.type, torch.bfloat16, enabled=self.settings.precision == "bf16"
        )

    # -- one update

    def learn(
        self, episodes: Sequence[Episode], turns: Sequence[Turn], seed: int, log: Log
    ) -> dict[str, float]:
        """Update the policy (and critic) on what its moves were paid; it is one
        generation older then.

        Returns what sums the update up: `reward`, `kl` (nats an answer), `policy_loss`,
        `clip_share`, `grad_norm`, … Raises EquipoiseError when a loss, a gradient or
        the KL is no longer sound, or the sampler was another policy; the learner must
        not be used then.
        """
        started, self._shares = time.perf_counter(), None
        batch = rollouts(episodes, turns, self.encoding, self.device)
        self.model.eval()  # without dropout: what is learned from is what was sampled
        self._before(batch)
        facts = self._judged(batch)
        advantage_BT, return_BT, self.baselines = estimated(
            self.settings, batch, self.kl, self.baselines
        )
        done = [
            self._step(batch, rows, advantage_BT, return_BT)
            for rows in self._minibatches(len(batch), seed)
        ]
        facts |= {name: fmean(step[name] for step in done) for name in done[0]}
        self._adapt(facts, len(batch))
        if not self.probe:
            chosen = list(range(min(self.settings.probes, len(batch))))
            self.probe = [
                (batch.prompts[b], batch.answers[b][:PROBE_TOKENS]) for b in chosen
            ]
        self.learner = PlayerId(self.learner.name, self.learner.generation + 1)
        speed = batch.tokens / (time.perf_counter() - started)
        log(
            {
                "step": self.steps,
                "steps": len(done),
                **facts,
                "tokens_per_second": speed,
            }
        )
        return {"steps": len(done), **facts, "examples": len(batch)}

    def _before(self, batch: Rollouts) -> None:
        """Fill in what the tokens' log-probabilities and values are before the update."""
        with torch.no_grad():
            found = [
                self._forward(batch, rows)
                for rows in self._portions(batch, range(len(batch)))
            ]
            batch.old_BT = self._assembled(
                batch, [(rows, one["logprob"]) for rows, one in found]
            )
            if self.critic is not None:
                batch.value_BT = self._assembled(
                    batch, [(rows, one["value"]) for rows, one in found]
                )
            if self.settings.kl:
                given = [
                    self._referred(batch, rows)
                    for rows in self._portions(batch, range(len(batch)))
                ]
                batch.reference_BT = self._assembled(batch, given)

    def _judged(self, batch: Rollouts) -> dict[str, float]:
        """What is known of the batch beforehand. Raises EquipoiseError for a stale
        sampler or a runaway policy.
        """
        player, settings, count = self.player, self.settings, batch.mask_BT.sum()
        facts = {
            "reward": batch.reward_B.mean().item(),
            "reward_deviation": batch.reward_B.std(correction=0).item(),
        }
        facts["length"] = (count / len(batch)).item()
        if player.temperature > 0 and player.top_p == 1 and player.top_k == 0:
            gap = (
                (batch.old_BT - batch.sampled_BT).abs() * batch.mask_BT
            ).sum() / count
            facts["sampler_gap"] = gap.item()
            self._agree(facts["sampler_gap"], "the answers that it is to learn from")
        if settings.kl:
            distance = (
                ((batch.old_BT - batch.reference_BT) * batch.mask_BT)
                .sum(1)
                .mean()
                .item()
            )
            facts |= {"kl": distance, "kl_weight": self.kl}
            if not distance <= settings.max_kl:
                raise self._unsound(
                    f"it is {distance:.3g} nats an answer away from its start, more than learner.max_kl = "
                    f"{settings.max_kl:g}",
                    f"raise learner.kl (now {self.kl:g}) or ",
                )
        return facts

    def _minibatches(self, count: int, seed: int) -> Iterator[list[int]]:
        """The rows of each optimizer step: each epoch a new permutation, cut evenly."""
        for epoch in range(self.settings.epochs):
            order = seeds.generator(seed, "epoch", epoch).permutation(count).tolist()
            parts = min(self.settings.minibatches, count)
            yield from (
                order[count * n // parts : count * (n + 1) // parts]
                for n in range(parts)
            )

    def _step(
        self,
        batch: Rollouts,
        rows: Sequence[int],
        advantage_BT: torch.Tensor,
        return_BT: torch.Tensor,
    ) -> dict[str, float]:
        """One optimizer step on these rows; its numbers."""
        self._checkpointing()
        settings, at = self.settings, torch.tensor(rows, device=self.device)
        length = self.player.max_new_tokens if settings.over == "constant" else None
        weight_BT = torch.zeros_like(batch.old_BT)
        weight_BT[at] = losses.weights(batch.mask_BT[at], settings.over, length)
        even_BT = torch.zeros_like(batch.old_BT)
        even_BT[at] = losses.weights(batch.mask_BT[at], "token")
        sums: dict[str, torch.Tensor] = {}
        for part, share in self._mine(self._portions(batch, rows)):
            here = torch.tensor(part, device=self.device)
            _, found = self._forward(batch, part)
            old_BT, mask_BT, gain_BT = (
                batch.old_BT[here],
                batch.mask_BT[here],
                advantage_BT[here],
            )
            logprob_BT = torch.where(mask_BT, found["logprob"], old_BT)
            terms = {
                "policy_loss": losses.clipped(
                    logprob_BT, old_BT, gain_BT, settings.clip, settings.clip_high
                )
            }
            if settings.kl and settings.kl_in == "loss":
                terms["kl_loss"] = self.kl * kls.k3(
                    logprob_BT, batch.reference_BT[here]
                )
            if settings.entropy:
                terms["entropy_loss"] = -settings.entropy * found["entropy"]
            loss = torch.stack(
                [(term * weight_BT[here]).sum() for term in terms.values()]
            ).sum()
            if self.critic is not None:
                errors_BT = losses.clipped_value(
                    found["value"],
                    batch.value_BT[here],
                    return_BT[here],
                    settings.value_clip,
                )
                terms["value_loss"] = errors_BT
                loss = loss + (errors_BT * even_BT[here]).sum()
            (loss * share).backward()
            clipped_BT = losses.is_clipped(
                logprob_BT, old_BT, gain_BT, settings.clip, settings.clip_high
            )
            for name, value in {**terms, "clip_share": clipped_BT.float()}.items():
                counts_BT = (
                    weight_BT[here]
                    if name in ("policy_loss", "kl_loss", "entropy_loss")
                    else even_BT[here]
                )
                part_of = (value.detach() * counts_BT).sum() * share
                sums[name] = (
                    sums.get(name, torch.zeros((), device=self.device)) + part_of
                )
        found = {name: value.item() for name, value in self._added_up(sums).items()}
        return found | self._stepped(found)

    def _mine(self, portions: list[list[int]]) -> list[tuple[list[int], float]]:
        """The portions of a step that this process computes; where there is none for
        it, one that counts 0.
        """
        mine = portions[
            self.accelerator.process_index :: self.accelerator.num_processes
        ]
        return [(part, 1.0) for part in mine] or [(portions[0], 0.0)]

    def _added_up(self, sums: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The sums over all processes; the gradients become so, too."""
        if self.accelerator.num_processes == 1:
            return sums
        for group in self.optimizer.param_groups:
            for weight in group["params"]:
                weight.grad = self.accelerator.reduce(
                    torch.zeros_like(weight) if weight.grad is None else weight.grad,
                    "sum",
                )
        total: Any = self.accelerator.reduce(torch.stack(list(sums.values())), "sum")
        return dict(zip(sums, total, strict=True))

    def _stepped(self, sums: dict[str, float]) -> dict[str, float]:
        """Move the weights. Raises EquipoiseError when the loss or its gradient is no
        number.
        """
        settings = self.settings
        cut = nn.utils.clip_grad_norm_
        norm = cut(self.policy.trained().values(), settings.max_grad_norm).item()
        norms = (
            [norm]
            if self.critic is None
            else [norm, cut(self.critic.parameters(), settings.max_grad_norm).item()]
        )
        if not all(map(math.isfinite, [*norms, *sums.values()])):
            raise self._unsound(
                f"the loss or its gradient is no number any more (gradient norm {norm})"
            )
        factor = (
            min(1.0, (self.steps + 1) / settings.warmup_steps)
            if settings.warmup_steps
            else 1.0
        )
        rates = (settings.learning_rate, settings.critic_learning_rate or 0.0)
        for group, rate in zip(self.optimizer.param_groups, rates, strict=False):
            group["lr"] = rate * factor
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        return {"grad_norm": norm}

    def _unsound(self, what: str, remedy: str = "") -> EquipoiseError:
        return EquipoiseError(
            f"{self.learner}: {what}; {remedy}lower learner.learning_rate (now {self.settings.learning_rate:g}). Its last "
            "sound generation is kept"
        )

    def _adapt(self, facts: dict[str, float], count: int) -> None:
        if self.settings.kl_target is not None:
            self.kl = kls.adapted(
                self.kl,
                facts["kl"],
                self.settings.kl_target,
                self.settings.kl_horizon,
                count,
            )

    def _checkpointing(self) -> None:
        """Layers forget their activations only in training mode; what is in them stays
        as it is, without dropout.
        """
        if self.settings.gradient_checkpointing:
            for body in (self.model, self.critic):
                for module in body.modules() if body is not None else ():
                    if isinstance(module, GradientCheckpointingLayer):
                        module.training = True

    # -- forward passes

    def _portions(self, batch: Rollouts, rows: Sequence[int]) -> list[list[int]]:
        """The rows in forward passes of `batch_size` moves, those with one prompt
        together.
        """
        order, size = batch.order(rows), self.settings.batch_size
        return [order[begin : begin + size] for begin in range(0, len(order), size)]

    def _forward(
        self, batch: Rollouts, rows: list[int]
    ) -> tuple[list[int], dict[str, torch.Tensor]]:
        """(the rows, their `logprob`, and where it is needed `value` and `entropy`),
        each [rows, T].
        """
        self.policy.mine()
        groups = batch.grouped(rows)
        if self._shares is None:
            longest = max(
                len(p) + len(a)
                for p, a in zip(batch.prompts, batch.answers, strict=True)
            )
            self._shares = shares_prompts(self.head, self.model, groups[0], longest)
        packed = pack(groups, self.encoding.pad_id, shared=self._shares).to(self.device)
        width = batch.mask_BT.shape[1]
        with self._autocast():
            logprob_N = packed.tokens(self.head, self.model)
            hidden_NH = self.head.hidden_NH
            found = {"logprob": logprob_N}
            if self.critic is not None:
                found["value"] = self.critic.values(packed, hidden_NH)
            if self.settings.entropy and torch.is_grad_enabled():
                assert hidden_NH is not None
                found["entropy"] = self.head.entropy(hidden_NH)
        return rows, {
            name: _wide(packed.by_answer(value_N.float()), width)
            for name, value_N in found.items()
        }

    def _referred(
        self, batch: Rollouts, rows: list[int]
    ) -> tuple[list[int], torch.Tensor]:
        """(the rows, the reference's log-probabilities [rows, T])."""
        packed = pack(
            batch.grouped(rows), self.encoding.pad_id, shared=bool(self._shares)
        ).to(self.device)
        with self._autocast(), self.policy.reference() as model:
            head = AnswerHead(model, temperature=self.temperature)
            head.tail = self.head.tail
            logprob_N = packed.tokens(head, model)
        return rows, _wide(packed.by_answer(logprob_N.float()), batch.mask_BT.shape[1])

    def _assembled(
        self, batch: Rollouts, parts: Sequence[tuple[list[int], torch.Tensor]]
    ) -> torch.Tensor:
        """[B, T] of what was computed in portions."""
        whole_BT = torch.zeros(batch.mask_BT.shape, device=self.device)
        for rows, value_BT in parts:
            whole_BT[torch.tensor(rows, device=self.device)] = value_BT
        return whole_BT

    # -- the sampler

    @torch.no_grad()
    def assert_agreement(self, actor: Actor) -> None:
        """Raises EquipoiseError when `actor`, which samples, gives the probe's tokens
        another probability than this.
        """
        if not isinstance(actor, LocalActor):
            return
        prompts, answers = [p for p, _ in self.probe], [a for _, a in self.probe]
        self.policy.mine().eval()
        packed = pack(
            [Answers(p, [a]) for p, a in self.probe], self.encoding.pad_id, shared=False
        ).to(self.device)
        with self._autocast():
            own_BT = packed.by_answer(packed.tokens(self.head, self.model).float())
        if not bool(own_BT.isfinite().all()):
            raise self._unsound("its log-probabilities are no numbers any more")
        told = actor.retraced(prompts, answers)
        gaps = [
            abs(x - y)
            for row, said in zip(own_BT.tolist(), told, strict=True)
            for x, y in zip(row, said, strict=False)
        ]
        self._agree(sum(gaps) / len(gaps), "the probe")

    def _agree(self, gap: float, what: str) -> None:
        if not gap <= self.settings.max_disagreement:
            raise EquipoiseError(
                f"{self.learner}: sampler and learner differ by {gap:.3g} nats a token on {what}, more than "
                f"learner.max_disagreement = {self.settings.max_disagreement:g}: they do not hold the same weights, "
                "compute in different precision, or the weights have grown until rounding shows (lower "
                f"learner.learning_rate, now {self.settings.learning_rate:g})"
            )

    # -- on disk

    def save(self, folder: Path) -> None:
        """The policy and its tokenizer, as `from_pretrained` reads them."""
        self.policy.save(folder)
        self.encoding.tokenizer.save_pretrained(str(folder))

    def save_state(self, folder: Path) -> None:
        """All that the next update depends on."""
        torch.save(
            {
                "weights": self.policy.trained(),
                "critic": None if self.critic is None else self.critic.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "kl": self.kl,
                "steps": self.steps,
                "baselines": self.baselines,
                "probe": self.probe,
            },
            folder / "state.pt",
        )

    def load(self, folder: Path, generation: int) -> None:
        """Take up the state that `save_state` wrote at this generation."""
        state = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
        with torch.no_grad():
            for name, weight in self.policy.trained().items():
                weight.copy_(state["weights"][name])
        if self.critic is not None:
            self.critic.load_state_dict(state["critic"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.kl, self.steps, self.baselines = (
            state["kl"],
            state["steps"],
            state["baselines"],
        )
        self.probe = [(list(prompt), list(answer)) for prompt, answer in state["probe"]]
        self.learner = PlayerId(self.learner.name, generation)


def _wide(value_BT: torch.Tensor, width: int) -> torch.Tensor:
    """Zeros on the right up to `width`."""
    return nn.functional.pad(value_BT, (0, width - value_BT.shape[1]))
