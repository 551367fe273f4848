"""Another name of `random_player`, for branches that still use it."""

from random_player import *  # noqa: F403
