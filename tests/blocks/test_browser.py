"""The page in a real browser: charts are drawn, texts are only read, filters filter, and nothing is
fetched. Skipped where there is no chromium.
"""

from pathlib import Path

import assistance_run
import pytest
import red_team_run
from browser import Browser, needs_chromium
from fixtures import report_pages

from equipoise.blocks import recorded_sections as records
from equipoise.blocks.html import Page, render
from equipoise.blocks.recorded_sections import CardAnswer, CardPart, MatchCard
from equipoise.blocks.section import clean
from equipoise.environments.red_team.report_sections import attacks
from equipoise.types import Message

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, full, hostile) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    paths = {}
    for name, content in (("full", full), ("hostile", hostile)):
        paths[name] = folder / f"{name}.html"
        paths[name].write_text(render(content), encoding="utf-8")
    return paths


TEXTS = "[...document.querySelectorAll('{}')].map((e) => e.textContent)"


def test_a_fault_would_be_noticed(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<script>console.error('x')</script><img src='https://example.invalid/a.png'><script>nothing()</script>"
    )
    browser.open(bad)
    assert len(browser.complaints()) >= 2
    assert browser.requests() == ["https://example.invalid/a.png"]


@pytest.mark.long
def test_every_chart_is_drawn_without_complaint_or_request(browser, pages):
    browser.open(pages["full"])
    assert browser.do("document.querySelectorAll('.chart').length") == 16
    assert browser.do("document.querySelectorAll('.chart .scatterlayer path').length") >= 10
    assert browser.do("document.querySelector('.chart .heatmaplayer rect') !== null")
    assert browser.do("document.querySelectorAll('.chart .barlayer .point').length") == 4
    cells = browser.do(TEXTS.format("#payoffs .heatmap-label"))
    assert "+0.52 ± 0.04" in cells
    assert len([cell for cell in cells if cell]) == 14
    assert browser.do(TEXTS.format("#standing .annotation-text")) == [
        "sums",
        "asker",
        "guard",
    ]  # from low to high
    assert browser.do(TEXTS.format("#standing .legendtext")) == ["sums", "asker", "guard"]
    assert len(browser.do(TEXTS.format("#match-ups .heatmap-label"))) == 6
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.long
def test_hostile_texts_are_shown_and_do_nothing(browser, pages, hostile):
    browser.open(pages["hostile"])
    assert browser.do("document.title") == hostile.title
    for tag in (
        "iframe",
        "marquee",
        "object",
        "plaintext",
        "textarea",
        "img",
        "a[href^=javascript]",
    ):
        assert browser.do(f"document.querySelectorAll('{tag}').length") == 0, tag
    assert (
        browser.do(
            "[...document.querySelectorAll('*')].some((e) => e.onerror || e.onload || e.onfocus)"
        )
        is False
    )
    shown = [text.replace("\u00a0", " ") for text in browser.do(TEXTS.format(".answer .text"))]
    assert shown == [clean(text) for text in hostile.warnings]
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.slow
def test_hostile_names_are_labels_letter_by_letter(browser, pages, hostile):
    browser.open(pages["hostile"])
    drawn = set(browser.do(TEXTS.format(".ytick text")))
    for name in report_pages.HOSTILE:
        line = " ".join(clean(name).split())
        if len(line) <= 48:
            assert line in {text.replace("\u00a0", " ") for text in drawn}, line
    assert (
        browser.do("document.querySelectorAll('.ytick a, .xtick a, .ytick [style*=bold]').length")
        == 0
    )
    browser.do(
        "document.querySelector('.barlayer .point').dispatchEvent(new PointerEvent('pointerenter'))"
    )
    shown = "document.querySelector('.hovertext:not([hidden])')"
    browser.until(f"{shown} !== null")
    hovered = browser.do(f"{shown}.textContent")
    assert hovered.startswith(report_pages.HOSTILE[0])
    assert "5.6 %" in hovered


SET = (
    "(() => {{ const f = document.querySelector('.filters'); for (const e of f.elements) e.value = ''; {}; "
    "f.dispatchEvent(new Event('input', {{bubbles: true}})); "
    "return new Promise((done) => setTimeout(() => done(document.querySelector('.shown').textContent), 400)); }})()"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "keep"),
    [
        ("", lambda m: True),
        ("f.elements.generation.value = '2'", lambda m: m.generation == 2),
        ("f.elements.split.value = 'held_out'", lambda m: m.split == "held_out"),
        ("f.elements.verdict.value = 'unjudged'", lambda m: m.answers[0].score is None),
        ("f.elements.verdict.value = 'apart'", lambda m: m.answers[0].score != m.answers[1].score),
        (
            "f.elements.high.value = '0.5'",
            lambda m: m.answers[0].score is not None and max(a.score for a in m.answers) < 0.5,
        ),
        (
            "f.elements.text.value = 'THIN wires'",
            lambda m: any("thin wires" in a.text for a in m.answers),
        ),
        ("f.elements.text.value = '<nothing>'", lambda m: False),
    ],
)
def test_filters_count_what_they_should(browser, pages, change, keep):
    if not browser.do("location.pathname").endswith("full.html"):
        browser.open(pages["full"])
    wanted = sum(map(keep, report_pages.cards(300)))
    said = browser.do(SET.format(change))
    begin = f"1–{min(20, wanted)} of {wanted} shown" if wanted else "None shown"
    assert said == f"{begin}, from a sample of 300 of the run's 48,210 matches."
    assert browser.do("document.querySelectorAll('.card').length") == min(20, wanted)


@pytest.mark.slow
@pytest.mark.slow
def test_pages_turn_and_finds_are_marked(browser, pages):
    browser.open(pages["full"])
    browser.do("document.querySelector('.pager [name=next]').click()")
    assert browser.do("document.querySelector('.shown').textContent").startswith(
        "21–40 of 300 shown"
    )
    assert (
        browser.do("document.querySelector('.card .id').textContent")
        == report_pages.cards(300)[20].id
    )
    browser.do(SET.format("f.elements.text.value = 'neighbour'"))
    assert set(browser.do(TEXTS.format("mark"))) == {"neighbour"}
    browser.do(SET.format("f.elements.order.value = 'gap'"))
    scores = browser.do(TEXTS.format(".card:first-child .score"))
    assert sorted(scores) == ["0", "1"]
    folded = "document.querySelectorAll('.text.folded').length"
    before = browser.do(folded)
    browser.do("document.querySelector('.unfold').click()")
    assert browser.do(folded) == before - 1 >= 0


@pytest.mark.long
def test_attacks_are_shown_when_they_are_asked_for_and_only_as_text(browser, tmp_path):
    answers = (
        CardAnswer("red@1", red_team_run.ATTACK, 1.0),
        CardAnswer("blue@1", red_team_run.LONG, 0.0),
    )
    cards = (MatchCard("m1", 3, "train", (Message("seed prompt", "s"),), answers),)
    path = tmp_path / "attacks.html"
    sections = (attacks(cards, 7, 9, 9), records.matches_section(cards, 1, "folded"))
    path.write_text(render(Page("red team", sections=sections)), encoding="utf-8")
    browser.open(path)
    visible = "[...document.querySelectorAll('.card')].filter((e) => e.checkVisibility()).length"
    assert browser.do(visible) == 0
    browser.do("document.querySelector('#attacks summary').click()")
    browser.until(f"{visible} === 1")
    browser.until(
        "document.querySelectorAll('#attacks .unfold').length === 1"
    )  # of the long answer, now that it is seen
    assert browser.do(TEXTS.format("#attacks .text")) == [
        "s",
        red_team_run.ATTACK,
        red_team_run.LONG,
    ]
    assert browser.do(TEXTS.format("#attacks .shown")) == [
        "1–1 of 1 shown, from 1 of 7 attacks of the run."
    ]
    assert browser.do("document.title") == "red team"
    assert browser.do("document.querySelectorAll('.card b').length") == 0
    assert browser.complaints() == []


@pytest.mark.long
def test_blocks_are_shown_apart_and_only_as_text(browser, tmp_path):
    matrix = (("", "DA", "<i>CQ</i>"), ("VQ user", "1", "[2]"))
    parts = (
        CardPart("faults", "no <b>end</b>"),
        CardPart("payoff", rows=matrix),
        CardPart("response", assistance_run.HOSTILE),
    )
    cards = (
        MatchCard(
            "m1",
            3,
            "train",
            (Message("user", "q"),),
            (CardAnswer("policy@1", "unseen", 1.0, "", parts),),
        ),
    )
    path = tmp_path / "blocks.html"
    path.write_text(
        render(Page("talk", sections=(records.matches_section(cards, 1),))), encoding="utf-8"
    )
    browser.open(path)
    assert browser.do(TEXTS.format(".part .role")) == ["faults", "payoff", "response"]
    assert browser.do(TEXTS.format(".part .text")) == ["no <b>end</b>", assistance_run.HOSTILE]
    assert browser.do(TEXTS.format(".part tr:first-child")) == [" DA<i>CQ</i>", "VQ user1[2]"]
    assert browser.do("document.title") == "talk"
    assert browser.do("document.querySelectorAll('.card b, i').length") == 0
    assert browser.do(SET.format("f.elements.text.value = 'unseen'")).startswith("None shown")
    assert "1–1 of 1" in browser.do(SET.format("f.elements.text.value = 'PWNED'"))
    assert browser.do(TEXTS.format(".part mark")) == ["pwned"]
    assert browser.complaints() == []
    assert browser.requests() == []


@pytest.mark.slow
def test_charts_follow_light_and_dark_and_paper(browser, pages):
    browser.open(pages["full"])
    charts = "document.querySelectorAll('figure:not(.wide) > .chart .scatterlayer path')"
    last = f"[...{charts}].at(-1)"
    line = f"getComputedStyle({last}).stroke"
    ink = "getComputedStyle(document.body).color"
    seen = {}
    for scheme, blue in (("light", "rgb(31, 111, 181)"), ("dark", "rgb(95, 168, 230)")):
        browser.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )
        browser.until(f"{line} === '{blue}'")
        seen[scheme] = browser.do(ink)
    assert seen["light"] != seen["dark"]
    browser.do("dispatchEvent(new Event('beforeprint'))")
    browser.until(f"{line} === 'rgb(31, 111, 181)'")
    browser.until("document.querySelector('.wide > .chart svg').getAttribute('width') === '660'")
    assert browser.do(ink) == seen["light"]
    browser.do("dispatchEvent(new Event('afterprint'))")
    browser.until(f"{line} === 'rgb(95, 168, 230)'")
    browser.until("document.querySelector('.wide > .chart svg').getAttribute('width') > 700")
    assert browser.do(ink) == seen["dark"]
    browser.call("Emulation.setEmulatedMedia", features=[])
    assert browser.complaints() == []
