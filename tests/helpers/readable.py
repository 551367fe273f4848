"""Another name of `readable_values`, for branches that still use it."""

from readable_values import *  # noqa: F403
