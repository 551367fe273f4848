"""Another name of `run_verbs`, for branches that still use it."""

from run_verbs import *  # noqa: F403
