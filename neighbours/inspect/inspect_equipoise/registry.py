"""What Inspect's entry point finds."""

from inspect_equipoise.metrics import league, rating, win_rate
from inspect_equipoise.pairwise import pairwise, preference, versus

__all__ = ["league", "pairwise", "preference", "rating", "versus", "win_rate"]
