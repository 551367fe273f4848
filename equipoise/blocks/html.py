"""The report: one HTML file that holds everything it needs and asks the network for nothing.

The page's policy (CSP) forbids every request and every script but the two that it holds, by their
hashes. Texts of models and data reach the page in two ways only: through Jinja's autoescape, or as
JSON in which <, > and & are escaped, read by scripts that make text nodes and no markup. Figures
are drawn as SVG by `charts.js`, which reads bold and line breaks in labels, so that what goes into
them is escaped once more (`section.label`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from equipoise.blocks.section import Figure, Section
from equipoise.errors import clean

_HERE = Path(__file__).parent


def content_policy(scripts: Sequence[str]) -> str:
    """The content security policy that lets exactly these scripts run and nothing be fetched."""
    return (
        f"default-src 'none'; script-src {_sources(scripts)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    )


def _sources(scripts: Sequence[str]) -> str:
    """These scripts by their hashes, as a policy names them."""
    digests = [hashlib.sha256(text.encode()).digest() for text in scripts]
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


def _charts_js() -> str:
    return (_HERE / "charts.js").read_text(encoding="utf-8")


def _page_js() -> str:
    return (_HERE / "page.js").read_text(encoding="utf-8")


def _environment() -> Environment:
    def visible(value: Any) -> Any:
        return clean(value) if type(value) is str else value

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment


def render(page: Page) -> str:
    """The whole report as one HTML page; a section without blocks is named at the end, with its
    reason.
    """
    shown = [section for section in page.sections if section.blocks]
    figures = [block for section in shown for block in section.blocks if isinstance(block, Figure)]
    charts_js = _charts_js() if figures else ""
    page_js = _page_js()
    return (
        _environment()
        .get_template("page.html.jinja")
        .render(
            page=page,
            sections=shown,
            left_out=[section for section in page.sections if not section.blocks],
            figures=[{"data": figure.data, "layout": figure.layout} for figure in figures],
            policy=content_policy([charts_js, page_js]),
            css=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
            charts_js=Markup(charts_js),
            page_js=Markup(page_js),
        )
    )


@dataclass(frozen=True, slots=True)
class Page:
    """A title, the sections in their order, and what a reader must be told first."""

    title: str
    subtitle: str = ""
    created: str = ""
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()
