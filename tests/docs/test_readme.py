"""What the README and the pages of recipes show can be run, and their links lead somewhere."""

import re
from pathlib import Path

import pytest

from equipoise.runs import recipe_loader

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
SYSTEMS = {
    name: (ROOT / "docs" / f"{name}.md").read_text()
    for name in ("recipes", "mnpo", "sparta", "gpo", "gtalign")
}
RECIPES = "\n".join(SYSTEMS.values())
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "AGENTS.md",
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_the_recipe_of_the_page_loads(tmp_path):
    (snippet,) = re.findall(r"```yaml\n(extends: sparta.*?)```", SYSTEMS["sparta"], re.DOTALL)
    path = tmp_path / "pool.yaml"
    path.write_text(snippet)
    resolved = recipe_loader.load(path, ["prompts.path=prompts.jsonl"])
    assert {name: player.learns for name, player in resolved.players.items()} == {
        "coder": True,
        "writer": True,
        "small": True,
        "outside": False,
    }


def test_every_recipe_is_named_on_the_page():
    assert all(f"`{name}`" in RECIPES for name in recipe_loader.recipe_descriptions())


def test_every_loss_of_the_page_is_one():
    from equipoise.losses.base import PreferenceLoss

    family = re.search(r"`-s loss=dpo`, (.*?)\.", RECIPES, re.DOTALL)
    assert family is not None
    assert set(re.findall(r"`(\w+)`", family.group(1))) <= set(PreferenceLoss.known_kinds())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#:]+)(?:#[\w-]*)?\)", page.read_text())
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing


def test_the_index_names_every_page():
    index = (ROOT / "docs" / "index.md").read_text()
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"index.md"}
    assert pages <= set(re.findall(r"\]\(([\w.]+\.md)\)", index))


def test_an_index_names_every_page_below_it():
    """A page that no index names has no place in the site."""
    docs = ROOT / "docs"
    named = set()
    for index in (docs / "index.md", docs / "claims" / "index.md"):
        links = re.findall(r"\]\(([^)#:]+\.md)", index.read_text())
        named |= {(index.parent / link).resolve() for link in links}
    below = {*(docs / "claims").glob("*.md"), *(docs / "lab").glob("*.md")}
    assert below <= named


HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as code hosts and the site make them."""
    headings = HEADING.findall(BLOCK.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_anchors_of_links_are_headings(page):
    wrong = []
    for link, anchor in re.findall(r"\]\(([^)#:]*\.md|)#([\w-]+)\)", page.read_text()):
        target = page.parent / link if link else page
        if anchor not in anchors(target):
            wrong.append(f"{link}#{anchor}")
    assert not wrong
