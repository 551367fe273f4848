"""Another name of `scripted_models`, for branches that still use it."""

from scripted_models import *  # noqa: F403
