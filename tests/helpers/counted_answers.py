"""Another name of `counting_players`, for branches that still use it."""

from counting_players import *  # noqa: F403
