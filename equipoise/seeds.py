"""A run's seed, split by name.

Every random choice has its own child seed, so that its random numbers depend on its name and not on
what was drawn before it: `child(seed, "match", match_id)`. Sampling text needs a number for each
row and position, for many rows at once; `uniform` is a counter-based generator (SplitMix64's
finaliser) that gives exactly that, whatever the batch.
"""

import hashlib

import numpy as np


def child(seed: int, *names: object) -> int:
    """A 63-bit seed for `names`, derived from `seed`; equal inputs give equal seeds."""
    text = "\x1f".join([str(seed), *map(str, names)])
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """A NumPy generator for `names`."""
    return np.random.Generator(np.random.Philox(key=child(seed, *names)))


def uniform(seed_B: np.ndarray, position: int | np.ndarray) -> np.ndarray:
    """A number in [0, 1) for each row, from (seed, position) alone.

    `seed_B` int64 [B]; `position` an int or int64 [B]. Returns float64 [B]. Row b's value is the
    same in every batch.
    """
    with np.errstate(over="ignore"):
        x = np.asarray(seed_B, np.uint64) + np.asarray(position, np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
        x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53
