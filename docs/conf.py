"""The docs site: the pages as they lie in the repository, and the API from docstrings.

`make docs` builds it; a warning is an error. Sources are read from the root of the
repository, so that a link between pages is the same file here, in an editor and on a
code host.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from sphinx.util.rst import escape

ROOT = Path(__file__).resolve().parents[1]
META = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGES = (".md", ".rst")
PICTURES = (".png", ".svg")
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)(#[^)]*)?\)")

project = "Equipoise"
author = "The Equipoise developers"
release = META["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/claims/*.md", "docs/lab/*.md", "docs/api.rst"]
exclude_patterns = [".*", "runs", "build", "dist"]
html_theme = "furo"
html_title = "Equipoise"
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"


def link_to_code(app: Any, page: str, source: list[str]) -> None:
    """Links to what is neither page nor picture (code, folders) lead to the project's code host."""
    folder = (ROOT / page).parent

    def address(link: re.Match[str]) -> str:
        target = (folder / link[1]).resolve()
        if target.suffix in (*PAGES, *PICTURES) or not target.exists():
            return link[0]
        place = target.relative_to(ROOT).as_posix()
        return f"]({META['urls']['Homepage']}/blob/main/{place})"

    source[0] = LINK.sub(address, source[0])
    if page == root_doc:
        sections = source[0].split("\n## ")[1:]
        source[0] += "".join(contents(*part.split("\n", 1)) for part in sections)
    elif Path(page).name == "index":
        beside = re.findall(r"\]\((\w+\.md)\)", source[0])
        source[0] += contents("", "".join(f"]({name})" for name in beside))


def contents(title: str, text: str) -> str:
    """The site's navigation: the pages that a section of an index links to."""
    links = [link[1] for link in LINK.finditer(text)]
    pages = [link.rpartition(".")[0] for link in links if link.endswith(PAGES)]
    caption = [f":caption: {title}"] if title else []
    return "\n".join(["\n", "```{toctree}", ":hidden:", *caption, "", *pages, "```\n"])


def as_written(app: Any, what: str, name: str, part: Any, options: Any, lines: list[str]) -> None:
    """A docstring is plain text with equations and shapes: a first sentence, and the
    rest as it stands.
    """
    end = lines.index("") if "" in lines else len(lines)
    first = [escape(line) for line in lines[:end]]
    rest = [f"   {line}" for line in lines[end + 1 :]]
    lines[:] = [*first, "", *([".. code-block:: text", "", *rest, ""] if any(rest) else [])]


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", as_written)
    app.connect("source-read", link_to_code)
