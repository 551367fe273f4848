"""Games in which each of several roles chooses among players of its own: pay-off tensors, one for
each role, and what a mixture for each role is worth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.errors import DataError
from equipoise.solvers.base import checked_mixture

Mixtures = list[np.ndarray]
"""A distribution for each role, over its players."""


def checked_role_payoffs(payoffs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The R roles' pay-offs as float tensors of one shape [N_1, …, N_R].

    payoffs[r][i_1, …, i_R] is what role r gets when each role plays that choice of its own. Raises
    ValueError for their shapes, DataError (a ValueError too) for a pay-off that is not finite.
    """
    tensors = [np.asarray(tensor, dtype=float) for tensor in payoffs]
    shapes = {tensor.shape for tensor in tensors}
    if len(shapes) != 1 or not tensors[0].size or tensors[0].ndim != len(tensors):
        raise ValueError(
            f"payoffs must be {len(tensors)} tensors of one shape, with an axis for "
            f"each role and at least one choice on it; the shapes are {sorted(shapes)}"
        )
    for role, tensor in enumerate(tensors):
        if not np.isfinite(tensor).all():
            cell = tuple(int(i) for i in np.argwhere(~np.isfinite(tensor))[0])
            raise DataError(
                f"payoffs[{role}][{', '.join(map(str, cell))}] is {tensor[cell]}; a "
                "solver needs every pay-off"
            )
    return tensors


def checked_mixtures(
    mixtures: Sequence[np.ndarray], shape: Sequence[int], name: str = "mixtures"
) -> Mixtures:
    """A distribution for each role. Raises ValueError where one is none."""
    if len(mixtures) != len(shape):
        raise ValueError(f"{name} must be {len(shape)}, one for each role")
    return [
        checked_mixture(mixture, size, f"{name}[{role}]")
        for role, (mixture, size) in enumerate(zip(mixtures, shape, strict=True))
    ]


def own_axis_first(payoffs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each role's tensor with its own axis before those of the others."""
    return [np.moveaxis(tensor, role, 0) for role, tensor in enumerate(payoffs)]


def replies(own_first: Sequence[np.ndarray], mixtures: Sequence[np.ndarray]) -> Mixtures:
    """For each role r, what each of its N_r choices gets on average while the other roles mix;
    `own_first` are the pay-offs as `own_axis_first` gives them.
    """
    rewards = []
    for role, tensor in enumerate(own_first):
        reward = tensor
        for other in range(len(mixtures) - 1, -1, -1):
            if other != role:
                reward = reward @ mixtures[other]
        rewards.append(reward)
    return rewards


def role_values(payoffs: Sequence[np.ndarray], mixtures: Sequence[np.ndarray]) -> np.ndarray:
    """What each role gets on average when all mix so, [R], in units of the pay-off.

    Raises ValueError for wrong shapes, distributions or pay-offs.
    """
    tensors = checked_role_payoffs(payoffs)
    checked = checked_mixtures(mixtures, tensors[0].shape)
    rewards = replies(own_axis_first(tensors), checked)
    return np.array([float(m @ r) for m, r in zip(checked, rewards, strict=True)])


def role_gains(payoffs: Sequence[np.ndarray], mixtures: Sequence[np.ndarray]) -> np.ndarray:
    """What each role would gain by its best pure reply, [R], in units of the pay-off; their sum is
    the profile's NashConv, 0 exactly at an equilibrium.

    max_i payoffs[r](i, the others' mixtures) − payoffs[r](all mixtures). Raises ValueError for
    wrong shapes, distributions or pay-offs. Source: Lanctot et al. 2017, arXiv 1711.00832, §2.
    """
    values = role_values(payoffs, mixtures)
    tensors = checked_role_payoffs(payoffs)
    checked = checked_mixtures(mixtures, tensors[0].shape)
    rewards = replies(own_axis_first(tensors), checked)
    best = np.array([float(reward.max()) for reward in rewards])
    return np.maximum(0.0, best - values)
