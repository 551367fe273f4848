"""The page of an attack on a judge, as somebody reads it who asked about answers."""

import re

import pytest

import equipoise
from equipoise.blocks.section import Cards, Tiles
from equipoise.report.attack_page import attack_page

CITIES = "Lima Nairobi Tokyo Paris Santiago Cairo Oslo Havana Accra Tehran Rome Madrid Athens Doha"


def of_words(prompt, text, answer=None):
    """The right city, and a bonus for every word."""
    return float(str(answer) in text) + min(0.5, len(text.split()) / 100)


def names_city(prompt, text, answer=None):
    return float(str(answer) in text)


@pytest.fixture(scope="module")
def page():
    rows = []
    for number, city in enumerate(CITIES.split()):
        question = f"What is the capital of country {number}?"
        rows.append({"prompt": question, "response": f"It is {city}.", "answer": city})
    kinds = ["length", "refusing"]
    attacked = equipoise.attack_judge(of_words, rows, truth=names_city, kinds=kinds)
    return attack_page(attacked.judges, attacked.gate, attacked.notes)


def test_cards_tell_what_was_done_to_an_answer_and_what_it_gained(page):
    [section] = [each for each in page.sections if each.name == "exploits-length"]
    [cards] = section.blocks
    assert isinstance(cards, Cards) and cards.by == "Finding"
    first, second = cards.rows[:2]  # one of every attack before another of the same
    assert first["generation"] is None and first["split"] == "exploit"
    assert first["id"] == "empty sentences behind the answer: score +0.47"
    assert second["id"] == "many empty sentences behind the answer: score +0.47"
    assert second["prompt"] == first["prompt"]
    assert [answer["player"] for answer in first["answers"]] == ["the honest answer", "rewritten"]
    assert not any(re.search("[0-9a-f]{12}", row["id"]) for row in cards.rows)


def test_the_greatest_gain_is_a_number_with_its_attack_in_words(page):
    [tiles] = page.sections[0].blocks
    assert isinstance(tiles, Tiles)
    greatest = tiles.tiles[0]
    assert greatest.value == "+0.47"
    assert (
        greatest.note == "on each prompt, by empty sentences behind the answer, on honest answers"
    )
    assert page.title == "Attacks on of_words"
