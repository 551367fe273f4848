"""Another name of `attack_matches`, for branches that still use it."""

from attack_matches import *  # noqa: F403
