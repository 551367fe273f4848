"""Another name of `teachable_players`, for branches that still use it."""

from teachable_players import *  # noqa: F403
