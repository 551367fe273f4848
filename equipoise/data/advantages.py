"""Advantages of tokens and of answers: the reward less what was expected of it.

Baselines (a critic's value, the mean of a group, the others, the batch, a role) lower the variance
of the policy gradient. Results carry no gradient. Rewards must be finite: leave out the rows that
were not judged.

B rows (answers), T tokens. `mask_BT` is true on answer tokens; other places are not read, and
results are 0 there. The mask may have holes (an answer of several turns): time passes on answer
tokens alone.
"""

from collections.abc import Mapping, Sequence

import torch

from equipoise.errors import ConfigError


@torch.no_grad()
def gae(
    reward_BT: torch.Tensor, value_BT: torch.Tensor, mask_BT: torch.Tensor, gamma: float, lam: float
) -> torch.Tensor:
    """Generalised advantage estimation: A_t = Σ_k (γλ)^k δ_{t+k} with δ_t = r_t + γ V_{t+1} − V_t.

    reward_BT: by token, a KL penalty included; one for the whole answer stands on its last token.
    value_BT: the critic's V_t, before the token is written; 0 after the row's last. The critic's
    returns are the result plus `value_BT`. Raises ConfigError where the shapes differ. Source:
    arXiv 1506.02438, eq. 16.

    >>> reward_BT, value_BT = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.5, 0.5]])
    >>> gae(reward_BT, value_BT, torch.ones(1, 2), gamma=1.0, lam=0.5)
    tensor([[0.2500, 0.5000]])
    """
    _same_shape(reward=reward_BT, value=value_BT, mask=mask_BT)
    mask_BT = mask_BT.bool()
    tokens = mask_BT.shape[1]
    # The next answer token of each position; T where there is none, with value 0.
    index_BT = (
        torch.arange(tokens, device=mask_BT.device).expand_as(mask_BT).masked_fill(~mask_BT, tokens)
    )
    following_BT = (
        torch.nn.functional.pad(index_BT, (0, 1), value=tokens)
        .flip(1)
        .cummin(1)
        .values.flip(1)[:, 1:]
    )
    next_value_BT = torch.nn.functional.pad(value_BT, (0, 1)).gather(1, following_BT)
    return _backwards(reward_BT + gamma * next_value_BT - value_BT, mask_BT, gamma * lam)


@torch.no_grad()
def reward_to_go(reward_BT: torch.Tensor, mask_BT: torch.Tensor, gamma: float) -> torch.Tensor:
    """G_t = r_t + γ G_{t+1}. Raises ConfigError where the shapes differ.

    >>> reward_to_go(torch.tensor([[0.0, 1.0]]), torch.ones(1, 2), gamma=0.5)
    tensor([[0.5000, 1.0000]])
    """
    _same_shape(reward=reward_BT, mask=mask_BT)
    return _backwards(reward_BT, mask_BT.bool(), gamma)


@torch.no_grad()
def group_relative(
    reward_B: torch.Tensor, group_B: torch.Tensor, *, scale: bool = True, eps: float = 1e-4
) -> torch.Tensor:
    """GRPO: A_i = (r_i − mean of its group) / (standard deviation of its group + ε).

    group_B: integers, equal for the answers to one prompt; a group of one gets 0. scale: False
    leaves the division out (Dr. GRPO). The deviation is over n − 1. Raises ConfigError where the
    shapes differ. Source: arXiv 2402.03300, §4.1.2; without scale arXiv 2503.20783, §3.2.

    >>> group_relative(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]), scale=False)
    tensor([-1.,  1.,  0.])
    """
    _same_shape(reward=reward_B, group=group_B)
    group_B, count_G = _groups(group_B)
    centred_B = _centred_by_group(reward_B, group_B, count_G)
    if not scale:
        return centred_B
    square_G = centred_B.new_zeros(len(count_G)).index_add(0, group_B, centred_B**2)
    deviation_G = (square_G / (count_G - 1).clamp(min=1)).sqrt()
    return centred_B / (deviation_G[group_B] + eps)


@torch.no_grad()
def leave_one_out(reward_B: torch.Tensor, group_B: torch.Tensor) -> torch.Tensor:
    """RLOO: A_i = r_i − mean of the others in its group = n/(n − 1)·(r_i − mean of the group).

    A group of one answer gets 0. Raises ConfigError where the shapes differ. Source: arXiv
    2402.14740.

    >>> leave_one_out(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 1]))
    tensor([-2.,  2.,  0.])
    """
    _same_shape(reward=reward_B, group=group_B)
    group_B, count_G = _groups(group_B)
    factor_G = count_G / (count_G - 1).clamp(min=1)
    return _centred_by_group(reward_B, group_B, count_G) * factor_G.to(reward_B)[group_B]


@torch.no_grad()
def whiten(
    value_BT: torch.Tensor, mask_BT: torch.Tensor, *, shift: bool = True, eps: float = 1e-8
) -> torch.Tensor:
    """(x − mean) / √(variance + ε) over the batch's answer tokens; `shift=False` gives the mean
    back.

    The variance is over n − 1, and 0 of a single token. Raises ConfigError where the shapes differ.
    Source: arXiv 2403.17031, on whitening.

    >>> whiten(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[1, 1, 0]]))
    tensor([[-0.7071,  0.7071,  0.0000]])
    """
    centred_BT = centred(value_BT, mask_BT)
    mask_BT = mask_BT.bool()
    count = mask_BT.sum().clamp(min=1)
    variance = (centred_BT**2).sum() / (count - 1).clamp(min=1)
    scaled_BT = centred_BT * (variance + eps).rsqrt()
    if shift:
        return scaled_BT
    return (scaled_BT + value_BT.masked_fill(~mask_BT, 0).sum() / count).masked_fill(~mask_BT, 0)


@torch.no_grad()
def centred(value_BT: torch.Tensor, mask_BT: torch.Tensor) -> torch.Tensor:
    """x − mean over the batch's answer tokens, 0 elsewhere. Raises ConfigError where the shapes
    differ.

    >>> centred(torch.tensor([[1.0, 3.0, 9.0]]), torch.tensor([[1, 1, 0]]))
    tensor([[-1.,  1.,  0.]])
    """
    _same_shape(value=value_BT, mask=mask_BT)
    mask_BT = mask_BT.bool()
    count = mask_BT.sum().clamp(min=1)
    # Twice, since whitening's ε is so small that it would blow up the rounding error of the mean
    # where all values are alike.
    for _ in range(2):
        value_BT = value_BT.masked_fill(~mask_BT, 0)
        value_BT = (value_BT - value_BT.sum() / count).masked_fill(~mask_BT, 0)
    return value_BT


@torch.no_grad()
def role_baseline(
    reward_B: torch.Tensor,
    role_B: Sequence[str],
    baseline: Mapping[str, float],
    *,
    decay: float = 0.95,
    after: bool = True,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Role-conditioned advantages for self-play: A_i = r_i − b_role, b a moving average of its
    returns.

        b_role ← α^n b_role + (1 − α^n)·(mean of the role's n rewards in the batch)

    which is n updates b ← αb + (1 − α)r, one an answer. `baseline` is what the last call returned
    ({} at first); a role that is not in it starts at its mean in this batch. Roles of several games
    need names of their own ("poker/first"). after: True subtracts b as this batch has moved it, the
    paper's order; False as it was before, as the paper's released code does. Returns (advantage_B,
    the baseline to pass next time). Raises ConfigError where the lengths differ or `decay` is
    outside [0, 1]. Source: arXiv 2506.24119, eq. 2 and Algorithm 1 (there b starts at 0).

    >>> role_baseline(torch.tensor([1.0]), ["first"], {"first": 0.0}, decay=0.5)
    (tensor([0.5000]), {'first': 0.5})
    """
    if len(role_B) != len(reward_B):
        raise ConfigError(f"{len(reward_B)} rewards but {len(role_B)} roles: give one role each")
    if not 0 <= decay <= 1:
        raise ConfigError(f"decay: {decay} is outside [0, 1]")
    advantage_B = torch.empty_like(reward_B)
    moved = dict(baseline)
    for role in dict.fromkeys(role_B):
        rows = torch.tensor(
            [i for i, other in enumerate(role_B) if other == role], device=reward_B.device
        )
        own = reward_B[rows]
        mean = float(own.double().mean())
        start = baseline.get(role, mean)
        kept = decay ** len(own)
        moved[role] = kept * start + (1 - kept) * mean
        advantage_B[rows] = own - (moved[role] if after else start)
    return advantage_B, moved


def _backwards(step_BT: torch.Tensor, mask_BT: torch.Tensor, factor: float) -> torch.Tensor:
    """total_t = step_t + factor · total of the next answer token; 0 outside of the mask."""
    total_BT = torch.zeros_like(step_BT)
    carried_B = torch.zeros_like(step_BT[:, 0])
    for t in range(step_BT.shape[1] - 1, -1, -1):
        carried_B = torch.where(mask_BT[:, t], step_BT[:, t] + factor * carried_B, carried_B)
        total_BT[:, t] = carried_B
    return total_BT.masked_fill(~mask_BT, 0)


def _groups(group_B: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(each row's group counted from 0, the number of rows of each group)."""
    _, group_B, count_G = group_B.unique(return_inverse=True, return_counts=True)
    return group_B, count_G


def _centred_by_group(
    reward_B: torch.Tensor, group_B: torch.Tensor, count_G: torch.Tensor
) -> torch.Tensor:
    """Rewards minus their group's mean, twice, so that equal rewards give exactly 0."""
    for _ in range(2):
        mean_G = reward_B.new_zeros(len(count_G)).index_add(0, group_B, reward_B) / count_G
        reward_B = reward_B - mean_G[group_B]
    return reward_B


def _same_shape(**tensors: torch.Tensor) -> None:
    if len({tensor.shape for tensor in tensors.values()}) > 1:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
        raise ConfigError(f"advantages: shapes must agree, got {shapes}")
