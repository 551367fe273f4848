"""Texts to ask models with: Jinja templates in a sandbox, checked before they are used.

What fills a placeholder is never read as a template itself.
"""

from collections.abc import Collection, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError, TemplateSyntaxError, meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from equipoise.component import nearest
from equipoise.errors import DataError


class Template:
    """A template; `uses` are the placeholders in it."""

    def __init__(
        self,
        text: str,
        package: str,
        setting: str,
        needed: Collection[str],
        known: Collection[str],
        *,
        elsewhere: Collection[str] = (),
    ) -> None:
        """Read and check a template.

        Args: text: a file, or the name of a packaged one in texts/ of `package`, or else of one of
        the packages `elsewhere`. setting: where the user named it, for messages. needed, known: the
        placeholders that must occur, and those that may.

        Raises DataError that names the setting, the file and the placeholder.
        """
        self.name, self.setting = text, setting
        self.source = self._read([package, *elsewhere])
        environment = ImmutableSandboxedEnvironment(
            undefined=StrictUndefined, keep_trailing_newline=False
        )
        environment.trim_blocks = environment.lstrip_blocks = True
        try:
            self.uses = meta.find_undeclared_variables(environment.parse(self.source))
            self._template = environment.from_string(self.source)
        except TemplateSyntaxError as error:
            raise DataError(f"{setting}: {text}:{error.lineno}: {error.message}") from error
        for name in sorted(self.uses - set(known)):
            raise DataError(
                f"{setting}: {text}: unknown placeholder '{name}'; {nearest(name, sorted(known))}"
            )
        for name in sorted(set(needed) - self.uses):
            raise DataError(
                f"{setting}: {text}: the placeholder '{name}' is missing; write {{{{ "
                f"{name} }}}} into it"
            )

    def render(self, **fields: Any) -> str:
        """The text with its placeholders filled. Raises DataError where that fails."""
        try:
            return self._template.render(**fields).strip()
        except (TemplateError, TypeError, ValueError, ArithmeticError) as error:
            raise DataError(f"{self.setting}: {self.name}: cannot be filled: {error}") from error

    def _read(self, packages: Sequence[str]) -> str:
        for package in packages if "/" not in self.name else ():
            packaged = resources.files(package) / "texts" / f"{self.name}.txt"
            if packaged.is_file():
                return packaged.read_text(encoding="utf-8")
        try:
            return Path(self.name).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise DataError(
                f"{self.setting}: {self.name}: cannot be read: {why}; give a "
                "template's file, or a packaged one"
            ) from error
