"""One small training of each learner, every number of which is computed a second time here: from the
logits of a plain model, formula by formula, with an AdamW written out.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from statistics import fmean

import msgspec
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from equipoise import seeds
from equipoise.games.answers import Answers
from equipoise.learners.base import TrainingBatch
from equipoise.learners.policy_gradient_learner import PolicyGradient
from equipoise.learners.policy_trainer import PolicyTrainer
from equipoise.learners.preference_learner import Preference
from equipoise.learners.sft_learner import SFT
from equipoise.losses.base import PreferenceLoss
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import Episode, Message, Move, Pair, PlayerId, Turn, Turns, View, user

MAX_LENGTH = 64


class AdamW:
    """Clipping by the norm of all gradients, then AdamW; weights in `plain` do not decay."""

    def __init__(self, weights: Mapping[str, torch.Tensor], plain=lambda name: False, **settings):
        self.weights, self.plain, self.settings = dict(weights), plain, settings
        self.moments = {
            name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in weights.items()
        }
        self.steps = 0

    def step(self, loss: torch.Tensor, rate: float) -> float:
        """Descend; returns the norm of the gradient before it is clipped."""
        return self.move(torch.autograd.grad(loss, list(self.weights.values())), rate)

    @torch.no_grad()
    def move(self, slopes: Sequence[torch.Tensor], rate: float) -> float:
        """Step against a gradient; returns its norm before it is clipped."""
        norm = math.sqrt(sum(float((slope.double() ** 2).sum()) for slope in slopes))
        cut = min(1.0, self.settings["most"] / norm)
        one, two = self.settings.get("betas", (0.9, 0.999))
        self.steps += 1
        for (name, weight), slope in zip(self.weights.items(), slopes, strict=True):
            mean, square = self.moments[name]
            mean.mul_(one).add_((1 - one) * cut * slope)
            square.mul_(two).add_((1 - two) * (cut * slope) ** 2)
            decay = 0.0 if self.plain(name) else self.settings["decay"]
            weight.mul_(1 - rate * decay)
            size = (square / (1 - two**self.steps)).sqrt() + self.settings.get("eps", 1e-8)
            weight.sub_(rate * mean / (1 - one**self.steps) / size)
        return norm


def plain_model(folder: Path):
    """The model as transformers reads it."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def logprob_T(model, prompt: Sequence[int], answer: Sequence[int], temperature: float = 1.0):
    """log p of an answer's tokens, from the logits of prompt and answer alone."""
    logits_TV = model(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    return (logits_TV / temperature).log_softmax(-1)[range(len(answer)), list(answer)]


def training_batch(folder: Path, tmp_path: Path, pairs: list[Pair], **more) -> TrainingBatch:
    (tmp_path / "next").mkdir(parents=True)
    return TrainingBatch(
        learner=PlayerId("policy"),
        player=Player.build(player_of(folder)),
        weights=None,
        output=tmp_path / "next",
        scratch=tmp_path / "scratch",
        game=Answers.model_validate({}),
        pairs=pairs,
        **{"seed": 11, **more},
    )


def player_of(folder: Path, **more) -> dict:
    given = {"kind": "local", "model": str(folder), "device": "cpu", "max_length": MAX_LENGTH}
    return {**given, **more}


def assert_weights(folder: Path, expected: Mapping[str, torch.Tensor], start: Path) -> None:
    """What is written is as computed here, to a hundredth of the longest way that a weight went."""
    written, before = (
        load_file(folder / "model.safetensors"),
        load_file(start / "model.safetensors"),
    )
    assert written.keys() == expected.keys()
    way = max(float((expected[name].detach() - before[name]).abs().max()) for name in expected)
    for name, weight in expected.items():
        torch.testing.assert_close(written[name], weight.detach(), rtol=0, atol=way / 100)


def read(encoding, pair: Pair, which: str) -> tuple[list[int], list[int]]:
    """(token ids of the prompt, of an answer): without an end where it was cut, and as many as fit."""
    prompt, ids = encoding.prompt_ids(pair.messages), encoding.text_ids(getattr(pair, which))
    if not getattr(pair, f"{which}_cut"):
        ids = encoding.answer_ids(getattr(pair, which))
        assert len(ids) > len(encoding.text_ids(getattr(pair, which)))
    return prompt, ids[: MAX_LENGTH - len(prompt)]


PAIRS = [
    # an answer that was cut, one that was not, one that is too long, one with estimated wins
    Pair(
        "0", 0, "0", (user("What time?"),), "It is seven.", "I cannot", 0.9, 0.2, rejected_cut=True
    ),
    Pair("1", 0, "1", (user("yes or no"),), "yes, and then say", "no", 1.0, 0.0, chosen_cut=True),
    Pair("2", 0, "2", (user("Say why."),), "It may help.", "help " * 60, 0.7, 0.1),
    Pair("3", 0, "3", (user("Add."),), "seven", "something", 1.0, 0.0, "", 0.75, 0.375),
    Pair("4", 0, "4", (user("How much?"),), "three", "the train leaves", 0.6, 0.5),
]


def test_preferences_of_two_opponents(model_folder, tmp_path):
    """MNPO, (Δ − Σ w_k Δ_k − η·gap)² of means a token, against .7 of one and .3 of another."""
    folder, lines = model_folder("llama"), []
    dice = np.random.default_rng(0)
    chosen_KB, rejected_KB = -20 * dice.random((2, 2, len(PAIRS)))
    loss = PreferenceLoss.build({"kind": "mnpo", "target": "reward", "eta": 2.0, "length": "mean"})
    batch = training_batch(
        folder,
        tmp_path,
        PAIRS,
        loss=loss,
        opponents=[(PlayerId("policy", 1), 0.7), (PlayerId("policy"), 0.3)],
        opponent_chosen_KB=chosen_KB,
        opponent_rejected_KB=rejected_KB,
        log=lines.append,
    )
    settings = {"epochs": 1.4, "batch_size": 1, "gradient_accumulation": 2, "log_steps": 1}
    settings |= {"learning_rate": 2e-3, "warmup_ratio": 0.5, "weight_decay": 0.5}
    learner = Preference.model_validate(settings | {"max_grad_norm": 50.0})
    told = learner.learn(batch)

    model, encoding = plain_model(folder), batch.player.encoding()  # type: ignore[attr-defined]
    read_B = [(read(encoding, pair, "chosen"), read(encoding, pair, "rejected")) for pair in PAIRS]
    lengths = [len(p) + len(a) + len(b) for (p, a), (_, b) in read_B]
    assert lengths[2] - len(read_B[2][0][1]) == MAX_LENGTH
    order = learner.order(lengths, 11)
    steps = [order[at : at + 2] for at in range(0, 7, 2)]
    adam = AdamW(dict(model.named_parameters()), lambda name: "norm" in name, most=50.0, decay=0.5)
    # up to the third of five, then half a cosine's way down
    rates = [2e-3 / 3, 2e-3 * 2 / 3, 2e-3, 1e-3]
    norms = []
    for rows, rate, line in zip(steps, rates, lines, strict=True):
        losses, margins, rewards = [], [], []
        for b in rows:
            means = [logprob_T(model, *ids).mean() for ids in read_B[b]]
            counts = [len(answer) for _, answer in read_B[b]]
            past = [[0.7, 0.3] @ of_KB[:, b] for of_KB in (chosen_KB, rejected_KB)]
            ratios = [m - p / n for m, p, n in zip(means, past, counts, strict=True)]
            pair = PAIRS[b]
            gap = 0.75 - 0.375 if b == 3 else pair.chosen_score - pair.rejected_score
            losses.append((ratios[0] - ratios[1] - 2.0 * gap) ** 2)
            margins.append((ratios[0] - ratios[1]).item())
            rewards.append(ratios[1].item())
        mean = torch.stack(losses).mean()
        norms.append(adam.step(mean, rate))
        assert line["loss"] == pytest.approx(mean.item(), abs=1e-3)
        assert line["margin"] == pytest.approx(np.mean(margins), abs=1e-3)
        assert line["accuracy"] == np.mean([margin > 0 for margin in margins])
        assert line["rejected_reward"] == pytest.approx(np.mean(rewards), abs=1e-3)
        assert line["learning_rate"] == pytest.approx(rate)
        assert line["grad_norm"] == pytest.approx(norms[-1], rel=1e-3)
    assert min(norms) < 50 < max(norms)
    assert (told["steps"], told["examples"], told["loss"]) == (4, 7, lines[-1]["loss"])
    assert_weights(batch.output, dict(model.named_parameters()), folder)


def test_winners_of_sft(model_folder, tmp_path):
    """−log p a token of a step, of every winner once, with an end where it was not cut."""
    folder, lines = model_folder("llama"), []
    again = [Pair("5", 0, "0", PAIRS[0].messages, "It is seven.", "no", 0.9, 0.1)]
    batch = training_batch(folder, tmp_path, [*PAIRS, *again], log=lines.append)
    settings = {"batch_size": 2, "learning_rate": 1e-3, "scheduler": "linear", "log_steps": 1}
    learner = SFT.model_validate(settings | {"warmup_ratio": 0.0, "weight_decay": 0.3})
    told = learner.learn(batch)

    model, encoding = plain_model(folder), batch.player.encoding()  # type: ignore[attr-defined]
    read_B = [read(encoding, pair, "chosen") for pair in PAIRS]
    order = learner.order([len(prompt) + len(answer) for prompt, answer in read_B], 11)
    adam = AdamW(dict(model.named_parameters()), lambda name: "norm" in name, most=1.0, decay=0.3)
    for n, line in enumerate(lines):
        tokens = torch.cat([logprob_T(model, *read_B[b]) for b in order[2 * n : 2 * n + 2]])
        rate = 1e-3 * (3 - n) / 4
        norm = adam.step(-tokens.mean(), rate)
        assert line["loss"] == pytest.approx(-tokens.mean().item(), abs=1e-4)
        assert line["grad_norm"] == pytest.approx(norm, rel=1e-3)
        assert line["learning_rate"] == pytest.approx(rate)
    assert len(lines) == told["steps"] == 3
    assert told["examples"] == 5
    assert_weights(batch.output, dict(model.named_parameters()), folder)


# -- a policy gradient

CLIP, VALUE_CLIP, LIMIT, GAMMA, LAM, ENTROPY = 0.01, 0.4, 1.2, 0.9, 0.8, 0.02
GPO_LIKE = {
    "critic": "head",
    "likelihood": "model",
    "kl": 0.05,
    "kl_target": 0.01,
    "kl_horizon": 12,
    "policy_loss": {"kind": "clipped", "clip": CLIP},
    "value_clip": VALUE_CLIP,
    "sampler_limit": LIMIT,
    "estimator": {"kind": "gae", "gamma": GAMMA, "lam": LAM},
    "entropy": ENTROPY,
    "over": "answer",
    "epochs": 2,
    "minibatches": 2,
    "batch_size": 2,
    "learning_rate": 3e-4,
    "critic_learning_rate": 2e-2,
    "warmup_steps": 3,
    "scheduler": "inverse_sqrt",
    "weight_decay": 0.4,
    "betas": (0.8, 0.95),
    "epsilon": 1e-4,
    "max_grad_norm": 0.3,
}


class Hand:
    """The same policy gradient without the package: a plain model, a linear critic, lists of
    moves' tokens.
    """

    def __init__(self, folder: Path, width: int) -> None:
        self.model, self.reference = plain_model(folder), plain_model(folder)
        self.head = {"weight": torch.zeros(1, width, requires_grad=True)}
        self.head["bias"] = torch.zeros(1, requires_grad=True)
        decay = {"most": 0.3, "decay": 0.4, "betas": (0.8, 0.95)}
        self.policy = AdamW(dict(self.model.named_parameters()), eps=1e-4, **decay)
        self.critic = AdamW(self.head, **decay)

    def tokens(self, prompt: list[int], answer: list[int]) -> tuple[torch.Tensor, ...]:
        """(log p, value, entropy) of each token of an answer."""
        out = self.model(torch.tensor([[*prompt, *answer]]), output_hidden_states=True)
        logprob_TV = out.logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        hidden_TH = out.hidden_states[-1][0, len(prompt) - 1 : -1]
        value_T = hidden_TH @ self.head["weight"][0] + self.head["bias"]
        entropy_T = -(logprob_TV.exp() * logprob_TV).sum(-1)
        return logprob_TV[range(len(answer)), answer], value_T, entropy_T

    def update(self, moves, sampled, rewards, weight: float, seed: int) -> dict[str, float]:
        """The facts of an update on moves (prompt, answer) with what their tokens were sampled at."""
        with torch.no_grad():
            old, values, _ = zip(*(self.tokens(*move) for move in moves), strict=True)
            start = [logprob_T(self.reference, *move) for move in moves]
        distances = [o - r for o, r in zip(old, start, strict=True)]
        advantages = [
            self.advantage(reward, weight * distance, value)
            for reward, distance, value in zip(rewards, distances, values, strict=True)
        ]
        targets = [a + v for a, v in zip(advantages, values, strict=True)]
        flat = torch.cat(advantages)
        spread = (flat.var() + 1e-8).sqrt()
        ratios = [(o - torch.tensor(s)).exp() for o, s in zip(old, sampled, strict=True)]
        learned = [
            (a - flat.mean()) / spread * ratio.clamp(max=LIMIT)
            for a, ratio in zip(advantages, ratios, strict=True)
        ]
        facts = {
            "reward": fmean(rewards),
            "reward_deviation": float(np.std(rewards)),
            "kl": fmean(float(distance.sum()) for distance in distances),
            "importance_weight": float(torch.cat(ratios).clamp(max=LIMIT).mean()),
            "importance_bounded": float((torch.cat(ratios) > LIMIT).float().mean()),
        }
        steps = []
        for epoch in range(2):
            order = seeds.generator(seed, "epoch", epoch).permutation(len(moves)).tolist()
            for rows in (order[: len(order) // 2], order[len(order) // 2 :]):
                steps.append(self.step(moves, rows, old, values, learned, targets))
        return facts | {name: fmean(step[name] for step in steps) for name in steps[0]}

    def advantage(self, reward: float, charge_T: torch.Tensor, value_T: torch.Tensor):
        paid = -charge_T
        paid[-1] += reward
        advantage_T, after, later = torch.zeros(len(paid)), 0.0, 0.0
        for t in reversed(range(len(paid))):
            later = float(paid[t] + GAMMA * after - value_T[t]) + GAMMA * LAM * later
            advantage_T[t], after = later, float(value_T[t])
        return advantage_T

    def step(self, moves, rows, old, values, learned, targets) -> dict[str, float]:
        count = sum(len(moves[b][1]) for b in rows)
        zero = torch.zeros(())
        sums = dict.fromkeys(("policy_loss", "entropy_loss", "value_loss", "clip_share"), zero)
        for b in rows:
            logprob_T, value_T, entropy_T = self.tokens(*moves[b])
            ratio_T, gain_T = (logprob_T - old[b]).exp(), learned[b]
            cut_T = torch.minimum(ratio_T * gain_T, ratio_T.clamp(1 - CLIP, 1 + CLIP) * gain_T)
            near_T = values[b] + (value_T - values[b]).clamp(-VALUE_CLIP, VALUE_CLIP)
            error_T = torch.maximum((value_T - targets[b]) ** 2, (near_T - targets[b]) ** 2)
            beyond_T = torch.where(gain_T > 0, ratio_T > 1 + CLIP, ratio_T < 1 - CLIP)
            sums["policy_loss"] = sums["policy_loss"] - cut_T.mean() / len(rows)
            sums["entropy_loss"] = sums["entropy_loss"] - ENTROPY * entropy_T.mean() / len(rows)
            sums["value_loss"] = sums["value_loss"] + error_T.sum() / 2 / count
            sums["clip_share"] = sums["clip_share"] + beyond_T.sum() / count
        loss = sums["policy_loss"] + sums["entropy_loss"] + sums["value_loss"]
        n = self.policy.steps + 1
        factor = n / 3 if n < 3 else math.sqrt(3 / n)
        of_critic = torch.autograd.grad(loss, list(self.head.values()), retain_graph=True)
        norm = self.policy.step(loss, 3e-4 * factor)
        self.critic.move(of_critic, 2e-2 * factor)
        return {name: value.item() for name, value in sums.items()} | {"grad_norm": norm}


def begun(move: Move, tokens: int) -> Move:
    """The move's first tokens: unlike lengths tell means over answers from those over tokens."""
    parts = {name: getattr(move, name)[:tokens] for name in ("token_ids", "logprobs", "uncut")}
    return msgspec.structs.replace(move, **parts)


def test_two_updates_of_a_policy_gradient(model_folder):
    """GAE with a critic's head, KL in the reward, weighted samples of a cut sampler at another
    temperature: what the policy and the critic weigh afterwards.
    """
    player = player_of(model_folder("llama"), learns=True, max_new_tokens=6)
    player |= {"temperature": 1.3, "top_p": 0.95}
    settings = PolicyGradient.model_validate(GPO_LIKE)
    trainer = PolicyTrainer(settings, Player.build(player), "policy", 3)
    by_hand, weight, lines = Hand(model_folder("llama"), 32), 0.05, []
    chats = [(user("How much is three and four?"),), (user("yes or no"),)]
    for seed in (5, 6):
        views = [View(chats[n % 2]) for n in range(6)]
        moves = trainer.actor.act(views, [10 * seed + n for n in range(6)])
        turns = [
            Turn("first", view, begun(move, 3 + n % 4))
            for n, (view, move) in enumerate(zip(views, moves, strict=True))
        ]
        rewards = [float(n * n % 5) for n in range(6)]
        episodes = [
            Episode(str(n), 0, f"m{n}", 0, "first", str(n % 2), reward)
            for n, reward in enumerate(rewards)
        ]
        trainer.learn(episodes, turns, seed, lines.append)
        read = [
            (trainer.encoding.prompt_ids(t.view.messages), list(t.move.token_ids)) for t in turns
        ]
        expected = by_hand.update(read, [t.move.logprobs for t in turns], rewards, weight, seed)
        assert lines[-1]["kl_weight"] == pytest.approx(weight)
        for name, value in expected.items():
            assert lines[-1][name] == pytest.approx(value, rel=2e-3, abs=2e-5), name
        weight *= 1 + min(max(expected["kl"] / 0.01 - 1, -0.2), 0.2) * 6 / 12
    assert (lines[-1]["steps"], lines[-1]["step"]) == (4, 8)
    assert lines[-1]["clip_share"] > 0 < lines[-1]["importance_bounded"] < 1
    assert abs(lines[-1]["kl"]) > 0.01
    assert trainer.critic is not None
    assert "alone" not in lines[-1]
    pairs = [(trainer.policy.trained_parameters(), by_hand.policy.weights)]
    pairs += [(dict(trainer.critic.head.named_parameters()), by_hand.head)]
    for found, expected in pairs:
        for name, weight in expected.items():
            torch.testing.assert_close(found[name], weight, rtol=0, atol=2e-5)


@pytest.mark.long
def test_another_seed_drops_others_out(model_folder, tmp_path):
    """One winner, one step, from one adapter: what is left to the seed is the dropout."""
    folder = model_folder("llama")
    player = Player.build(player_of(folder, lora={"r": 2, "alpha": 4, "dropout": 0.5}))
    first = replace(training_batch(folder, tmp_path, PAIRS[:1]), player=player)
    learner = SFT.model_validate({"learning_rate": 0.1})
    learner.learn(first)
    losses = []
    for n, seed in enumerate((1, 2, 1)):
        batch = training_batch(folder, tmp_path / str(n), PAIRS[:1], seed=seed)
        losses.append(learner.learn(replace(batch, player=player, weights=first.output))["loss"])
    assert losses[0] == losses[2] != losses[1]


# -- answers of several turns

CHAT = (Message("system", "Be brief."), user("What time?"))
LONGER = Turns(
    (
        Message("assistant", "seven"),
        user("And the train?"),
        Message("assistant", "It leaves at three."),
        user("yes or no"),
        Message("assistant", "no"),
    ),
    context=(2,),
)
SHORTER = Turns((Message("assistant", "I cannot"), user("Say why."), Message("assistant", "help")))


def turns_by_template(encoding, chat, turns: Turns) -> tuple[list[int], list[list[int]]]:
    """(ids of the whole chat by its template, the places in them of each of the assistant's
    turns with its end).
    """

    def ids(messages, asks: bool) -> list[int]:
        fields = [{"role": m.role, "content": m.content} for m in messages]
        text = encoding.tokenizer.apply_chat_template(
            fields, chat_template=encoding.template, tokenize=False, add_generation_prompt=asks
        )
        return encoding.tokenizer.encode(text, add_special_tokens=False)

    end = encoding.answer_ids("")
    spoken = []
    for place, message in enumerate(turns.messages):
        if message.role == "assistant":
            start = len(ids((*chat, *turns.messages[:place]), True))
            whole = ids((*chat, *turns.messages[: place + 1]), False)
            stop = next(at for at in range(start, len(whole)) if whole[at : at + len(end)] == end)
            spoken.append(list(range(start, stop + len(end))))
    whole = ids((*chat, *turns.messages), False)
    return whole[: spoken[-1][-1] + 1], spoken


def test_pairs_of_several_turns_are_learned_on_the_assistants_tokens(model_folder, tmp_path):
    """IPO, (residual − 1/(2τ))² of means a token, whose answers have two and three turns of the
    assistant's, one of them for reading alone.
    """
    folder, lines = model_folder("llama"), []
    chosen_KB, rejected_KB = np.array([[-31.0]]), np.array([[-17.5]])
    pair = Pair("t", 0, "t", CHAT, LONGER, SHORTER, 1.0, 0.0)
    batch = training_batch(
        folder,
        tmp_path,
        [pair],
        loss=PreferenceLoss.build({"kind": "ipo", "tau": 0.5, "length": "mean"}),
        opponents=[(PlayerId("policy"), 1.0)],
        opponent_chosen_KB=chosen_KB,
        opponent_rejected_KB=rejected_KB,
        log=lines.append,
    )
    batch = replace(batch, player=Player.build(player_of(folder, max_length=200)))
    settings = {"batch_size": 1, "learning_rate": 1e-3, "warmup_ratio": 0.0, "log_steps": 1}
    learner = Preference.model_validate({**settings, "scheduler": "constant_with_warmup"})
    learner.learn(batch)

    model, encoding = plain_model(folder), batch.player.encoding()  # type: ignore[attr-defined]
    actor = batch.player.open(None, Resources())
    scored = actor.logprobs([CHAT, CHAT], [LONGER, SHORTER])  # type: ignore[attr-defined]
    means = []
    for answer, (total, tokens) in zip((LONGER, SHORTER), scored, strict=True):
        whole, spoken = turns_by_template(encoding, CHAT, answer)
        if answer is LONGER:
            del spoken[1]  # for reading alone
        places = list(chain.from_iterable(spoken))
        each_T = logprob_T(model, whole[:1], whole[1:])
        mine_T = each_T[[place - 1 for place in places]]
        assert total == pytest.approx(mine_T.sum().item(), abs=1e-3)
        assert tokens == len(places)
        start = places[0]
        others = [place for place in range(start, len(whole)) if place not in places]
        exchanged = each_T[[place - 1 for place in others]].sum().item()
        assert abs(exchanged - total) > 1  # nats: the other mask is another number
        means.append(mine_T.mean())
    chosen, rejected = means
    counts = [tokens for _, tokens in scored]
    residual = (chosen - -31.0 / counts[0]) - (rejected - -17.5 / counts[1])
    loss = (residual - 1.0) ** 2
    assert lines[0]["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert lines[0]["margin"] == pytest.approx(residual.item(), abs=1e-4)
    adam = AdamW(dict(model.named_parameters()), lambda name: "norm" in name, most=1.0, decay=0.0)
    adam.step(loss, 1e-3)
    assert_weights(batch.output, dict(model.named_parameters()), folder)
