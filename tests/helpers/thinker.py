"""Another name of `thinking_model`, for branches that still use it."""

from thinking_model import *  # noqa: F403
