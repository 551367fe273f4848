"""Another name of `small_runs`, for branches that still use it."""

from small_runs import *  # noqa: F403
