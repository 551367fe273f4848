"""The texts that judges are asked with."""

from __future__ import annotations

from collections.abc import Collection

from equipoise.template import Template


class JudgeTemplate(Template):
    """A question to a judging model, with the placeholders that it uses."""

    def __init__(
        self, text: str, needed: Collection[str], known: Collection[str]
    ) -> None:
        """`text` is a template's file, or the name of a packaged one. All of `needed`
        must occur, only `known` may.

        Raises DataError that names the file and the placeholder.
        """
        super().__init__(text, "judges", "judge.text", needed, known)
