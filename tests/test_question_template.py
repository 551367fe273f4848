"""Texts with placeholders: what is packaged, what is a file's, what is refused."""

import re
from importlib import resources

import pytest

from equipoise.errors import DataError
from equipoise.question_template import Template


@pytest.fixture
def template(tmp_path):
    """template("text", needed, known) is the template of a file that holds it."""

    def made(text, needed=(), known=("name", "count")):
        path = tmp_path / "mine.txt"
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return Template(str(path), "equipoise.judges", "judge.template", needed, known)

    return made


def test_placeholders_are_filled_and_never_read(template):
    made = template(
        "\n  {% if count %}\nOf {{ name }}:\n  {% endif %}\n{{ name }} {# no word #}\n\n", ["name"]
    )
    assert made.uses == {"name", "count"}
    assert made.render(name="{{ count }}", count=1) == "Of {{ count }}:\n{{ count }}"
    assert made.render(name="a", count=0) == "a"
    assert template("A {{ name }}".encode("utf-8-sig")).render(name="b") == "A b"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n{{ name", r"judge.template: .*mine.txt:2: "),
        ("{{ nam }}", r"mine.txt: unknown placeholder 'nam'; did you mean 'name'\?"),
        ("{{ count }}", r"the placeholder 'name' is missing; write \{\{ name \}\} into it"),
        (b"\xff{{ name }}", "cannot be read: it is not UTF-8 text; give a template's file"),
    ],
)
def test_what_cannot_be_a_template_is_refused(template, text, message):
    with pytest.raises(DataError, match=message):
        template(text, ["name"])


@pytest.mark.parametrize("text", ["{{ name.none.such }}", "{{ 1 // count }}", "{{ name + count }}"])
def test_what_cannot_be_filled_is_said(template, text):
    with pytest.raises(DataError, match=r"judge.template: .*mine.txt: cannot be filled: "):
        template(text).render(name="a", count=0)


def test_packaged_texts_are_found_by_name_here_then_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ours, others = "equipoise.judges", "equipoise.environments.verdicts"
    texts = {
        package: {
            path.name.removesuffix(".txt"): path.read_text()
            for path in resources.files(package).joinpath("texts").iterdir()
        }
        for package in (ours, others)
    }
    for package, there in texts.items():
        for name, text in there.items():
            words = re.findall(r"\w+", text)
            uses = Template(name, package, "x", (), words).uses
            assert Template(name, package, "x", uses, uses).source == text
    [only, *_] = sorted(texts[others].keys() - texts[ours].keys())
    words = re.findall(r"\w+", texts[others][only])
    assert Template(only, ours, "x", (), words, elsewhere=[others]).source == texts[others][only]
    (tmp_path / only).write_text("of the file")
    assert Template(only, ours, "x", (), words).source == "of the file"
    assert Template(f"./{only}", others, "x", (), words).source == "of the file"
    with pytest.raises(DataError, match="x: nothing: cannot be read: No such file"):
        Template("nothing", ours, "x", (), words)
