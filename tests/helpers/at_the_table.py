"""Another name of `judged_matches`, for branches that still use it."""

from judged_matches import *  # noqa: F403
