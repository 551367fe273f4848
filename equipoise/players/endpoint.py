"""A player behind an OpenAI-compatible endpoint: vLLM, SGLang, llama.cpp, transformers, a
commercial service.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.models.resources import Resources
from equipoise.players.endpoint_settings import EndpointSettings

if TYPE_CHECKING:
    from equipoise.players.endpoint_actor import EndpointActor


class Endpoint(EndpointSettings):
    """A model that answers on `base_url` as OpenAI's /chat/completions does.

    It can play and judge, but not learn.
    """

    def open(self, weights: Path | None, resources: Resources) -> EndpointActor:
        """The actor; nothing is sent before it is asked to move.

        Raises ConfigError when the key is not set.
        """
        from equipoise.players.endpoint_actor import EndpointActor
        from equipoise.players.paid_replies import MemoryReplies
        from equipoise.players.requests import Connection

        replies = resources.replies or resources.get("replies in memory", MemoryReplies)
        return EndpointActor(self, Connection(self), replies)
