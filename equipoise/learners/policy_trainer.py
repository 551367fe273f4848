"""A policy trainer stays in memory: the policy, its critic, reference, optimizer and baselines,
from update to update.

    rewards by token   the pay-off on the last token, less kl · (log π − log π_ref) on
                       each where kl_in is reward
    advantages         by the estimator, from values before the update
    each step          the loss of `policy_loss` on a minibatch, its gradients, a step of
                       AdamW

What it samples with and what it trains are one model; `assert_agreement` compares the sampler's
log-probabilities with the trainer's after each update. Several processes (accelerate) each compute
a part of every step and add up gradients.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from accelerate import Accelerator
from torch import nn
from torch.distributed.tensor import DTensor

from equipoise import seeds
from equipoise.data.advantages import whiten
from equipoise.errors import NoSignal
from equipoise.learners.fine_tuning import local_player
from equipoise.learners.launch import world_size
from equipoise.learners.policy_forward import TokenNumbers
from equipoise.learners.policy_gradient_settings import PolicyGradientSettings
from equipoise.learners.pretraining_loss import PretrainingRows
from equipoise.learners.rollouts import RolloutBatch, importance_weights, mismatch, rollout_batch
from equipoise.learners.sampled_policy import Log, PolicyState, PolicyUpdate, SampledPolicy
from equipoise.learners.sharding import ProcessRank, Sharding, distribute_like, gather, place_model
from equipoise.learners.trainable_model import Critic, TrainableModel
from equipoise.losses import kl as kl_estimators
from equipoise.losses import surrogate
from equipoise.losses.base import check_shape
from equipoise.losses.policy import TokenBatch
from equipoise.models.device import choose_device
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Episode, PlayerId, Turn

# Tokens of each probe's answer: enough to notice other weights, few enough to be compared after
# every update.
PROBE_TOKENS = 8


class PolicyTrainer(SampledPolicy):
    """Trains one player by policy gradients."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        player: Player,
        name: str,
        seed: int,
        resources: Resources | None = None,
        adapters: Path | None = None,
        sharding: Sharding | None = None,
    ) -> None:
        """player: at generation 0. resources: learners with adapters on one base share it here.

        adapters: the folder of an engine's adapters. Raises ConfigError, ModelError.
        """
        player = local_player("policy_gradient", name, player)
        settings = settings.resolve_auto(player)
        # Processes on CPUs find each other only if `cpu` is set. In a single process the first
        # Accelerator decides for all.
        on_cpu = choose_device(player.device).type == "cpu"
        accelerator = Accelerator(cpu=on_cpu and world_size() > 1)
        several = accelerator.num_processes > 1
        device = accelerator.device if several else choose_device(player.device)
        rank = ProcessRank(device, accelerator.num_processes, accelerator.process_index)
        resources = resources or Resources()
        policy = TrainableModel(settings, player, name, seed, device, resources, sharding)
        critic = None
        if settings.critic is not None:
            critic = Critic.make(settings, player, policy.width)
            # a head alone is too small to be divided
            divided = sharding if critic.body is not None else None
            critic = place_model(divided, critic, device)
        super().__init__(settings, player, policy, critic, rank, resources, adapters)
        self.device, self.rank = device, rank
        self.optimizer = PolicyOptimizer(settings, policy, critic, rank)
        self._first = accelerator.is_main_process
        self.kl_weight = settings.kl
        self.entropy_weight = settings.entropy
        self.pretraining: PretrainingRows | None = None
        if settings.pretraining is not None:
            self.pretraining = PretrainingRows(settings.pretraining, self.encoding, seed)
        self.baselines: dict[str, float] = {}

    # -- one update

    def learn(
        self, episodes: Sequence[Episode], turns: Sequence[Turn], seed: int, log: Log
    ) -> dict[str, float]:
        """Update the policy (and critic) on its moves' rewards; it is one generation older then.

        Returns `reward`, `kl` (nats an answer), `policy_loss`, `clip_share`, `grad_norm`, … and,
        where moves are compared by group, `alone`, the share of those without another in their
        group. Raises EquipoiseError when a loss, a gradient or the KL is no longer sound, or if
        another policy sampled the moves; the trainer must not be used then.
        """
        started = time.perf_counter()
        settings = self.settings
        batch = self.prepare(episodes, turns)
        facts = self._assess(batch)
        self._estimate(batch)
        facts |= self._correct(batch)
        steps = [
            self._step(batch.select(batch.by_prompt(rows)))
            for rows in self._minibatches(len(batch), seed)
        ]
        facts |= {name: fmean(step[name] for step in steps) for name in steps[0]}
        if settings.kl_target is not None:
            self.kl_weight = kl_estimators.next_coefficient(
                self.kl_weight, facts["kl"], settings.kl_target, settings.kl_horizon, len(batch)
            )
        if not self.probe:
            first = range(min(settings.probes, len(batch)))
            self.probe = [(batch.prompts[b], batch.answers[b][:PROBE_TOKENS]) for b in first]
        self.learner = PlayerId(self.learner.name, self.learner.generation + 1)
        speed = batch.tokens / (time.perf_counter() - started)
        line = {"step": self.optimizer.steps, "steps": len(steps), **facts}
        log(line | {"tokens_per_second": speed})
        return {"steps": len(steps), **facts, "examples": len(batch)}

    def prepare(self, episodes: Sequence[Episode], turns: Sequence[Turn]) -> RolloutBatch:
        """The batch with its numbers before the update. Raises NoSignal, ConfigError."""
        uncut = self.settings.likelihood == "player"
        batch = rollout_batch(
            episodes,
            turns,
            self.encoding,
            self.device,
            uncut=uncut,
            thoughts=self.settings.train_on_thoughts,
        )
        self.model.eval()  # without dropout: it learns from what was sampled
        self.forward.complete(batch)
        if uncut and self.player.sampler.is_remote and any(not t.move.uncut for t in turns):
            player = self.player
            self.forward.undo_cuts(batch, player.top_k, player.top_p, player.min_p)
        return batch

    def _assess(self, batch: RolloutBatch) -> dict[str, float]:
        """Facts before the update; EquipoiseError for a stale sampler or a runaway policy."""
        player, settings, count = self.player, self.settings, batch.mask_BT.sum()
        facts = {
            "reward": batch.reward_B.mean().item(),
            "reward_deviation": _deviation(batch),
            "length": (count / len(batch)).item(),
        }
        if player.temperature > 0:
            facts |= mismatch(batch)
            if not player.sampler.is_remote and settings.likelihood == "player":
                where = "the answers that it is to learn from"
                self._assert_small(facts["sampler_gap"], where)
        if settings.kl:
            log_ratio_BT = (batch.old_BT - batch.reference_BT) * batch.mask_BT
            distance = log_ratio_BT.sum(1).mean().item()
            facts |= {"kl": distance, "kl_weight": self.kl_weight}
            if not distance <= settings.max_kl:
                raise self._unsound(
                    f"it is {distance:.3g} nats an answer away from its start, more "
                    f"than learner.max_kl = {settings.max_kl:g}",
                    f"raise learner.kl (now {self.kl_weight:g}) or ",
                )
        if settings.entropy_target is not None:
            entropy = (batch.entropy_BT * batch.mask_BT).sum() / count
            facts["entropy"] = entropy.item()
            # the gradient of |H − target|
            above = facts["entropy"] > settings.entropy_target
            self.entropy_weight = -settings.entropy if above else settings.entropy
        if self.pretraining is not None:
            facts["pretraining_left_out"] = float(self.pretraining.left_out)
        if settings.whiten_advantages:
            facts["whitened"] = float(facts["reward_deviation"] >= settings.whiten_floor)
        if settings.estimator.by_group:
            facts["alone"] = batch.alone
        return facts

    def _estimate(self, batch: RolloutBatch) -> None:
        """Fill in advantages and returns (before whitening, for a critic), and the new baselines.

        Where the rewards hardly differ nothing succeeded or failed; what whitening would blow up
        to deviation 1 is the critic's error and the KL.
        Raises NoSignal where moves are compared with their group and every group is of one move.
        """
        settings, estimator = self.settings, self.settings.estimator
        if estimator.by_group and len(batch.group_B.unique()) == len(batch):
            raise NoSignal(
                f"learner.estimator: {estimator.kind} compares moves that answer one "
                f"chat, and here no two of {len(batch)} do; raise game.samples, "
                "game.answers or schedule.samples, or take another estimator"
            )
        if settings.reward_clip is not None:
            batch.reward_B = batch.reward_B.clamp(-settings.reward_clip, settings.reward_clip)
        in_reward = settings.kl and settings.kl_in == "reward"
        reward_BT = batch.token_rewards(self.kl_weight if in_reward else None)
        advantage_BT, self.baselines = estimator.advantages(batch, reward_BT, self.baselines)
        batch.return_BT = advantage_BT
        if self.critic is not None:
            batch.return_BT = (advantage_BT + batch.value_BT) * batch.mask_BT
        if settings.whiten_advantages and _deviation(batch) >= settings.whiten_floor:
            advantage_BT = whiten(advantage_BT, batch.mask_BT)
        if settings.advantage_clip is not None:
            most = settings.advantage_clip
            advantage_BT = advantage_BT.clamp(-most, most)
        batch.advantage_BT = advantage_BT

    def _correct(self, batch: RolloutBatch) -> dict[str, float]:
        """Weigh the advantages of tokens that another policy sampled: an engine, or the player at
        its temperature where the model's own likelihood learns; facts about the weights.

        A policy loss is proportional to its advantage, so they may stand there.
        """
        player, settings = self.player, self.settings
        other = player.sampler.is_remote or settings.likelihood == "model"
        if not other or player.temperature == 0:
            return {}
        weight_BT, facts = importance_weights(
            batch, settings.sampler_correction, settings.sampler_limit
        )
        batch.advantage_BT = batch.advantage_BT * weight_BT
        return facts

    def _minibatches(self, count: int, seed: int) -> Iterator[list[int]]:
        """The rows of each optimizer step: each epoch a new permutation, cut evenly."""
        parts = min(self.settings.minibatches, count)
        for epoch in range(self.settings.epochs):
            order = seeds.generator(seed, "epoch", epoch).permutation(count).tolist()
            for n in range(parts):
                yield order[count * n // parts : count * (n + 1) // parts]

    def _step(self, batch: RolloutBatch) -> dict[str, float]:
        """One optimizer step; its numbers. EquipoiseError when one of them is not a number."""
        numbers = self.optimizer.add_up(self._backward(batch))
        norms = self.optimizer.clip()
        if not all(map(math.isfinite, [*norms, *numbers.values()])):
            raise self._unsound(
                f"the loss or its gradient is no number any more (gradient norm {norms[0]})"
            )
        self.optimizer.step()
        return numbers | {"grad_norm": norms[0]}

    def _backward(self, batch: RolloutBatch) -> dict[str, torch.Tensor]:
        self.forward.enable_checkpointing()
        settings = self.settings
        length = self.player.most_tokens if settings.over == "constant" else None
        weight_BT = surrogate.token_weights(batch.learned_BT, settings.over, length)
        even_BT = surrogate.token_weights(batch.mask_BT, "token")
        sums: dict[str, torch.Tensor] = {}
        for rows, share in self.rank.portions_here(self.forward.portions(batch)):
            portion = batch.select(rows)
            loss, numbers = policy_loss(
                settings,
                self.kl_weight,
                portion,
                self.forward.tokens(portion),
                weight_BT[rows],
                even_BT[rows],
                self.entropy_weight,
            )
            (loss * share).backward()
            for name, value in numbers.items():
                sums[name] = sums.get(name, torch.zeros_like(value)) + value * share
        if self.pretraining is not None:
            sums["pretraining_loss"] = self._backward_given(self.pretraining)
        return sums

    def _backward_given(self, pretraining: PretrainingRows) -> torch.Tensor:
        """Add the gradients of the step's given answers; this process's part of their loss."""
        rows = pretraining.of_step(self.optimizer.steps)
        tokens = sum(row.counts()[0] for row in rows)
        size = self.settings.batch_size
        places = range(len(rows))
        portions = [list(places[begin : begin + size]) for begin in places[::size]]
        total = torch.zeros((), device=self.device)
        for portion, share in self.rank.portions_here(portions):
            logprob_A = self.forward.given_answers([rows[place] for place in portion])
            loss = -pretraining.settings.weight * share * logprob_A.sum() / tokens
            loss.backward()
            total += loss.detach()
        return total

    # -- on disk

    def save_state(self, folder: Path) -> None:
        """Write the next update's state into `folder`; all processes call it, the first writes."""
        critic = None if self.critic is None else self.critic.state_dict()
        state = PolicyState(
            weights=gather(self.policy.trained_parameters(), self._first),
            critic=gather(critic, self._first),
            optimizer=gather(self.optimizer.adamw.state_dict(), self._first),
            kl=self.kl_weight,
            steps=self.optimizer.steps,
            baselines=self.baselines,
            probe=self.probe,
        )
        if self._first:
            state.write(folder)

    def save_update(self, folder: Path) -> None:
        """Write the weights that sample into `folder`, likewise."""
        weights = gather(self.policy.trained_parameters(), self._first)
        if self._first:
            PolicyUpdate(weights, self.probe).write(folder)

    def load(self, folder: Path, generation: int) -> None:
        state = PolicyState.read(folder)
        self._take_up(state.weights, state.probe)
        if self.critic is not None:
            assert state.critic is not None
            own = self.critic.state_dict()
            self.critic.load_state_dict(
                {name: distribute_like(own[name], value) for name, value in state.critic.items()}
            )
        self.optimizer.restore(state.optimizer, state.steps)
        self.kl_weight, self.baselines = state.kl, state.baselines
        self.learner = PlayerId(self.learner.name, generation)


def _deviation(batch: RolloutBatch) -> float:
    """The standard deviation of the batch's rewards, over B."""
    return batch.reward_B.std(correction=0).item()


def policy_loss(
    settings: PolicyGradientSettings,
    kl_weight: float,
    batch: RolloutBatch,
    tokens: TokenNumbers,
    weight_BT: torch.Tensor,
    even_BT: torch.Tensor,
    entropy_weight: float,
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The loss on a part of an optimizer step's moves.

    policy_loss + kl · k3 (kl_in: loss) − entropy_weight · H + ½ clipped squares of the critic

    Each term is a weighted sum over tokens, with the weights of the whole step, so that the sums of
    its parts add up to the step's mean. weight_BT: each token's weight in the policy's terms.
    even_BT: in the critic's and in the share, every token alike. Returns the loss, a scalar, and
    its terms and the share of clipped tokens, detached.
    """
    logprob_BT = torch.where(batch.learned_BT, tokens.logprob_BT, batch.old_BT)
    sampled = TokenBatch(logprob_BT, batch.old_BT, batch.advantage_BT, batch.learned_BT)
    loss_BT = settings.policy_loss.tokens(sampled)
    check_shape(settings.policy_loss, "tokens", loss_BT, logprob_BT, "[B, T], one value a token")
    terms_BT = {"policy_loss": loss_BT}
    if settings.kl and settings.kl_in == "loss":
        divergence_BT = kl_estimators.k3(logprob_BT, batch.reference_BT)
        terms_BT["kl_loss"] = kl_weight * divergence_BT
    if entropy_weight:
        assert tokens.entropy_BT is not None
        terms_BT["entropy_loss"] = -entropy_weight * tokens.entropy_BT
    sums = {name: (term_BT * weight_BT).sum() for name, term_BT in terms_BT.items()}
    loss = torch.stack(list(sums.values())).sum()
    if tokens.value_BT is not None:
        error_BT = surrogate.value_loss(
            tokens.value_BT, batch.value_BT, batch.return_BT, settings.value_clip
        )
        sums["value_loss"] = (error_BT * even_BT).sum()
        loss = loss + sums["value_loss"]
    cut_BT = settings.policy_loss.cut_tokens(sampled)
    sums["clip_share"] = (cut_BT.float() * even_BT).sum()
    return loss, {name: value.detach() for name, value in sums.items()}


class PolicyOptimizer:
    """One AdamW for the policy and its critic, each with a learning rate of its own."""

    def __init__(
        self,
        settings: PolicyGradientSettings,
        policy: TrainableModel,
        critic: Critic | None,
        rank: ProcessRank,
    ) -> None:
        self.settings, self.rank = settings, rank
        self.policy, self.critic = policy, critic
        self.rates = [settings.learning_rate]
        groups: list[dict[str, Any]] = [
            {"params": list(policy.trained_parameters().values()), "eps": settings.epsilon}
        ]
        if critic is not None:
            self.rates.append(settings.critic_learning_rate or 0.0)
            groups.append({"params": list(critic.parameters())})
        for group, rate in zip(groups, self.rates, strict=True):
            group["lr"] = rate
        options: dict[str, Any] = {"betas": settings.betas, "weight_decay": settings.weight_decay}
        if settings.optimizer == "adamw_8bit":
            from bitsandbytes.optim import AdamW8bit  # pyright: ignore[reportMissingImports]

            self.adamw = AdamW8bit(groups, **options)
        else:
            fused = settings.optimizer == "adamw_fused"
            self.adamw = torch.optim.AdamW(groups, **options, fused=fused)
        self.steps = 0

    def add_up(self, sums: dict[str, torch.Tensor]) -> dict[str, float]:
        """The sums over all processes, also of gradients but for those of sharded weights."""
        if self.rank.processes > 1:
            for weight in self._weights():
                if not isinstance(weight, DTensor):
                    gradient = torch.zeros_like(weight) if weight.grad is None else weight.grad
                    weight.grad = self.rank.add_up(gradient)
            total = self.rank.add_up(torch.stack(list(sums.values())))
            sums = dict(zip(sums, total, strict=True))
        return {name: value.item() for name, value in sums.items()}

    def clip(self) -> list[float]:
        """Cut policy's and critic's gradients to the largest norm; returns their norms before."""
        models = [self.policy.trained_parameters().values()]
        if self.critic is not None:
            models.append(self.critic.parameters())  # type: ignore[arg-type]
        largest = self.settings.max_grad_norm
        norms = [nn.utils.clip_grad_norm_(model, largest) for model in models]
        return [gather(norm).item() for norm in norms]

    def step(self) -> None:
        factor = rate_factor(self.settings, self.steps + 1)
        for group, rate in zip(self.adamw.param_groups, self.rates, strict=True):
            group["lr"] = rate * factor
        self.adamw.step()
        self.adamw.zero_grad(set_to_none=True)
        self.steps += 1

    def restore(self, state: Mapping[str, Any], steps: int) -> None:
        """Take up the state that AdamW had after so many steps."""
        weights = list(self._weights())
        moments: dict[int, dict[str, Any]] = {}
        for number, own in state["state"].items():
            weight = weights[number]
            moments[number] = {
                name: distribute_like(weight, value)
                if isinstance(value, torch.Tensor) and value.shape == weight.shape
                else value
                for name, value in own.items()
            }
        self.adamw.load_state_dict({**state, "state": moments})
        self.steps = steps

    def _weights(self) -> Iterator[nn.Parameter]:
        """The weights that it moves, in the order in which AdamW numbers them."""
        for group in self.adamw.param_groups:
            yield from group["params"]


def rate_factor(settings: PolicyGradientSettings, step: int) -> float:
    """The factor of the learning rates at an optimizer step, counted from 1."""
    warmup = settings.warmup_steps
    step -= settings.rate_lag
    if step < warmup:
        return max(step / warmup, settings.warmup_floor)
    return math.sqrt(warmup / step) if settings.scheduler == "inverse_sqrt" else 1.0
