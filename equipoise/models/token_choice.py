"""Choosing the next token: penalties, temperature, cuts, the inverse of a distribution function.

Tokens keep the vocabulary's order, so rounding that swaps nearly equal ones does no harm.
"""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# Tokens of the vocabulary that are summed together in the first step of the inverse.
BLOCK = 256
# The most likely tokens that top-p looks at before the whole vocabulary is sorted.
RANKED = 1024
# Rows whose tokens are chosen together on a processor, whose caches hold no more.
AT_ONCE = 16
# Temperatures below divide float32 logits to what is no number, or decide by their last digit.
GREEDY = 1e-5


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """softmax(logits / temperature), cut to tokens at least `min_p` times as likely as the
    likeliest, then to `top_k` tokens, then to the probability mass `top_p`.

    A temperature of (nearly) 0 takes the most likely token; top_k 0, top_p 1 and min_p 0 cut
    nothing. First the logits of tokens that the answer has already are divided by
    `repetition_penalty`, or multiplied where negative, and lowered by `presence_penalty`, and by
    `frequency_penalty` for each time. Source: CTRL, arXiv 1909.05858, section 4.1; OpenAI's API.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    repetition_penalty: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0

    @property
    def penalises(self) -> bool:
        """True if the tokens that an answer has already change what comes next."""
        lowered = self.presence_penalty or self.frequency_penalty
        return self.repetition_penalty != 1 or bool(lowered)

    @property
    def greedy(self) -> bool:
        """True if the most likely token is taken."""
        return self.temperature < GREEDY

    @property
    def cuts(self) -> bool:
        """True if it samples from another distribution than softmax(logits / temperature)."""
        return bool(self.top_k) or self.top_p < 1 or self.min_p > 0 or self.penalises


def choose(
    logits_BV: torch.Tensor,
    number_B: torch.Tensor,
    settings: SamplingSettings,
    written_BT: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """A token for each row of [B, V], its log-probability, and the one before penalty and cuts.

    `number_B` float64 in [0, 1). `written_BT`: the answers so far for the penalties, −1 behind
    them. Returns (token_B int64, logprob_B float32, uncut_B float32, in
    nats); uncut is under softmax(logits / temperature), softmax(logits) where it is greedy. A row
    of logits that are not numbers gets some token and no numbers.
    """
    rows = AT_ONCE if logits_BV.device.type == "cpu" else max(1, len(logits_BV))
    written: Any = itertools.repeat(None) if written_BT is None else written_BT.split(rows)
    parts = zip(logits_BV.split(rows), number_B.split(rows), written, strict=False)
    chosen = [_choose(*part[:2], settings, part[2]) for part in parts]
    token_B, logprob_B, uncut_B = (torch.cat(each) for each in zip(*chosen, strict=True))
    return token_B, logprob_B, uncut_B


def _choose(
    logits_BV: torch.Tensor,
    number_B: torch.Tensor,
    settings: SamplingSettings,
    written_BT: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    own_BV = logits_BV = logits_BV.float()
    if written_BT is not None and settings.penalises:
        logits_BV = penalised(own_BV, written_BT, settings)
    if settings.greedy:
        token_B = logits_BV.argmax(-1)
        logprob_B = own_BV.gather(1, token_B[:, None])[:, 0] - own_BV.logsumexp(-1)
        return token_B, logprob_B, logprob_B
    scaled_BV = logits_BV / settings.temperature
    uncut_BV = scaled_BV if logits_BV is own_BV else own_BV / settings.temperature
    largest_B1 = scaled_BV.amax(-1, keepdim=True)
    weight_BV = (scaled_BV - largest_B1).exp_()
    if settings.cuts:  # afterwards, since exponentials of −inf take a CPU nine times as long
        weight_BV.masked_fill_(scaled_BV < _least_kept(scaled_BV, settings), 0)
    token_B, total_B = _inverse(weight_BV, number_B)
    logit_B1 = scaled_BV.gather(1, token_B[:, None]) - largest_B1
    logprob_B = logit_B1[:, 0] - total_B.log().float()
    if not settings.cuts:
        return token_B, logprob_B, logprob_B
    uncut_B = uncut_BV.gather(1, token_B[:, None])[:, 0] - uncut_BV.logsumexp(-1)
    return token_B, logprob_B, uncut_B


def penalised(
    logits_BV: torch.Tensor, written_BT: torch.Tensor, settings: SamplingSettings
) -> torch.Tensor:
    """The logits, those of tokens among `written_BT` (−1: none) changed by the penalties.

    >>> both = SamplingSettings(repetition_penalty=2.0, frequency_penalty=0.5)
    >>> penalised(torch.tensor([[2.0, -2.0, 2.0]]), torch.tensor([[0, 1, 1, -1]]), both)
    tensor([[ 0.5000, -5.0000,  2.0000]])
    """
    size = logits_BV.shape[1]
    penalty = settings.repetition_penalty
    count_BV = logits_BV.new_zeros(len(logits_BV), size + 1)
    place_BT = written_BT.masked_fill(written_BT < 0, size)
    count_BV.scatter_add_(1, place_BT, torch.ones_like(place_BT, dtype=logits_BV.dtype))
    count_BV = count_BV[:, :size]
    less_BV = torch.where(logits_BV < 0, logits_BV * penalty, logits_BV / penalty)
    less_BV = less_BV - settings.presence_penalty - settings.frequency_penalty * count_BV
    return torch.where(count_BV > 0, less_BV, logits_BV)


def kept_mass(logits_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """log of the probability that the cuts keep, [B], in nats; logits after the temperature."""
    logits_BV = logits_BV.float()
    share_BV = logits_BV.softmax(-1)
    return share_BV.masked_fill_(logits_BV < _least_kept(logits_BV, settings), 0).sum(-1).log()


def _least_kept(logits_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """[B, 1]: the smallest logit that the cuts keep. Logits that tie with it are kept as well."""
    if not settings.min_p:
        return least_ranked(logits_BV, settings)
    least_B1 = logits_BV.amax(-1, keepdim=True) + math.log(settings.min_p)
    if not settings.top_k and settings.top_p >= 1:
        return least_B1
    logits_BV = logits_BV.masked_fill(logits_BV < least_B1, -torch.inf)
    return torch.maximum(least_B1, least_ranked(logits_BV, settings))


def least_ranked(logits_BV: torch.Tensor, settings: SamplingSettings) -> torch.Tensor:
    """[B, 1]: the smallest logit that top-k and top-p keep."""
    if not settings.top_k and settings.top_p >= 1:
        return logits_BV.amin(-1, keepdim=True)
    if settings.top_k:
        value_BR = _largest(logits_BV, min(settings.top_k, logits_BV.shape[-1]))
        if settings.top_p >= 1:
            return value_BR[:, -1:]
        share_BR = value_BR.softmax(-1)
    else:
        value_BR, share_BR = _rank(logits_BV, settings.top_p)
    before_BR = share_BR.cumsum(-1) - share_BR
    kept_B1 = (before_BR < settings.top_p).sum(-1, keepdim=True)
    return value_BR.gather(1, kept_B1.clamp_min(1) - 1)


def _rank(logits_BV: torch.Tensor, mass: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The largest logits, descending, with probabilities that hold `mass` in every row."""
    if logits_BV.shape[-1] > 4 * RANKED:
        value_BR = _largest(logits_BV, RANKED)
        share_BR = (value_BR - logits_BV.logsumexp(-1, keepdim=True)).exp()
        if not bool((share_BR.sum(-1) < mass).any()):
            return value_BR, share_BR
    value_BV = _largest(logits_BV, logits_BV.shape[-1])
    return value_BV, value_BV.softmax(-1)


def _largest(logits_BV: torch.Tensor, count: int) -> torch.Tensor:
    """The `count` largest logits of each row, descending; NumPy's are found several times faster on
    a CPU than torch's.
    """
    if logits_BV.device.type != "cpu":
        return logits_BV.topk(count).values
    value_BV = logits_BV.numpy()
    if count < value_BV.shape[-1]:
        value_BV = np.partition(value_BV, -count)[:, -count:]
    return torch.from_numpy(np.sort(value_BV)).flip(-1)


def _inverse(weight_BV: torch.Tensor, number_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first token [B] where the cumulative weight passes the share `number_B`; the total [B].

    Block by block and then within the block: sums in double precision instead of a running sum, so
    that rare tokens keep their probability.
    """
    size = weight_BV.shape[1]
    wide = torch.float32 if weight_BV.device.type == "mps" else torch.float64
    full = size // BLOCK * BLOCK
    block_BNK = weight_BV[:, :full].unflatten(1, (size // BLOCK, BLOCK))
    block_BN = block_BNK.sum(-1, dtype=wide)
    if full < size:
        rest_B1 = weight_BV[:, full:].sum(-1, keepdim=True, dtype=wide)
        block_BN = torch.cat([block_BN, rest_B1], 1)
    block, left_B1, total_B1 = _passes(block_BN, number_B.to(wide)[:, None], share=True)
    place_BK = block * BLOCK + torch.arange(BLOCK, device=weight_BV.device)
    within_BK = weight_BV.gather(1, place_BK.clamp_max(size - 1)).to(wide)
    within_BK = within_BK.masked_fill(place_BK >= size, 0)
    inner, _, _ = _passes(within_BK, left_B1, share=False)
    token_B = (block * BLOCK + inner).clamp_max(size - 1)[:, 0]
    return token_B, total_B1[:, 0]


def _passes(
    weight_BN: torch.Tensor, target_B1: torch.Tensor, share: bool
) -> tuple[torch.Tensor, ...]:
    """(index where the running sum passes the target or `share`, the rest, the total), [B, 1]."""
    running_BN = weight_BN.cumsum(1)
    total_B1 = running_BN[:, -1:]
    if share:
        target_B1 = target_B1 * total_B1
    # Below the total, so that rounding never points behind the last token.
    below = 1 - 2 * torch.finfo(running_BN.dtype).eps
    target_B1 = torch.minimum(target_B1, total_B1 * below)
    index = torch.searchsorted(running_BN, target_B1, right=True)
    index = index.clamp_max(weight_BN.shape[1] - 1)  # no number is found behind all
    before_B1 = running_BN.gather(1, index) - weight_BN.gather(1, index)
    left_B1 = target_B1 - before_B1
    return index, left_B1.clamp_min(0), total_B1
