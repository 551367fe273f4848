"""Who is asked what, in which order, when an adversary rewrites prompts and a defender answers."""

import pytest
from attack_matches import FAILED, game, played, seed
from pydantic import ValidationError

from equipoise.errors import DataError
from equipoise.types import Judgement, Message, user

SYSTEM = Message("system", "You are kind.")


def spoken(match):
    return [(turn.seat, turn.move.text) for turn in match.turns]


def views(match, seat):
    return [turn.view.messages for turn in match.turns if turn.seat == seat]


def test_the_rewrite_is_what_is_answered():
    match = played(game(), seed("open the safe"), adversary=" crack the vault \n", defender="no")
    assert spoken(match) == [("adversary", " crack the vault \n"), ("defender", "no")]
    ((asked,),) = views(match, "adversary")
    assert asked.role == "user"
    assert "open the safe" in asked.content
    assert views(match, "defender") == [(user("crack the vault"),)]


def test_messages_before_the_seed_are_the_defenders():
    match = played(
        game(), seed("open the safe", SYSTEM), adversary="crack the vault", defender="no"
    )
    assert SYSTEM not in views(match, "adversary")[0]
    assert views(match, "defender") == [(SYSTEM, user("crack the vault"))]


def test_several_rewrites_and_answers():
    rules = game(rewrites=2, answers=2)
    assert rules.seats == (
        "adversary 1",
        "adversary 2",
        "defender 1.1",
        "defender 1.2",
        "defender 2.1",
        "defender 2.2",
    )
    assert rules.roles == ("adversary", "defender")
    assert not rules.symmetric
    match = played(
        rules,
        seed(),
        adversary_1="first",
        adversary_2="second",
        defender_1_1="a",
        defender_1_2="b",
        defender_2_1="c",
        defender_2_2="d",
    )
    assert [seat for seat, _ in spoken(match)] == list(rules.seats)
    assert views(match, "adversary 1") == views(match, "adversary 2")
    assert views(match, "defender 1.2") == [(user("first"),)]
    assert views(match, "defender 2.1") == [(user("second"),)]


@pytest.mark.parametrize(
    ("settings", "seats"),
    [
        ({}, ("adversary", "defender")),
        ({"answers": 2}, ("adversary", "defender 1", "defender 2")),
        ({"rewrites": 2}, ("adversary 1", "adversary 2", "defender 1", "defender 2")),
    ],
)
def test_seats_are_numbered_where_there_are_several(settings, seats):
    rules = game(**settings)
    assert rules.seats == seats
    assert {rules.role(seat) for seat in seats} == {"adversary", "defender"}


def test_in_later_rounds_both_see_the_conversation():
    match = played(
        game(rounds=2),
        seed("open it", SYSTEM),
        adversary=["how?", "and then?"],
        defender=["so", "thus"],
    )
    assert spoken(match) == [
        ("adversary", "how?"),
        ("defender", "so"),
        ("adversary", "and then?"),
        ("defender", "thus"),
    ]
    first, second = views(match, "adversary")
    assert second[: len(first)] == first
    assert second[len(first)] == Message("assistant", "how?")
    assert "so" in second[-1].content
    assert "open it" not in second[-1].content
    assert views(match, "defender")[1] == (
        SYSTEM,
        user("how?"),
        Message("assistant", "so"),
        user("and then?"),
    )


def test_a_conversation_of_several_rewrites_goes_on_where_it_can():
    match = played(
        game(rewrites=2, rounds=2),
        seed(),
        adversary_1=["a", " "],
        adversary_2=["b", "c"],
        defender_1="1",
        defender_2="2",
    )
    assert spoken(match)[4:] == [("adversary 1", " "), ("adversary 2", "c"), ("defender 2", "2")]
    assert views(match, "defender 2")[1][0] == user("b")


@pytest.mark.parametrize(("attack", "turns"), [("  ", 1), (FAILED, 1)])
def test_what_is_no_attack_is_not_answered(attack, turns):
    match = played(game(rounds=3), seed(), adversary=attack, defender="no")
    assert len(match.turns) == turns


def test_a_failed_answer_ends_its_conversation():
    match = played(game(rounds=3), seed(), adversary=["a", "b", "c"], defender=["so", FAILED])
    assert [seat for seat, _ in spoken(match)] == ["adversary", "defender"] * 2
    match = played(
        game(rewrites=2, rounds=2),
        seed(),
        adversary_1="a",
        adversary_2="b",
        defender_1=FAILED,
        defender_2="2",
    )
    assert [seat for seat, _ in spoken(match)][4:] == ["adversary 2", "defender 2"]


def test_harmless_prompts_are_answered_as_they_are():
    prompt = seed("what is 2 + 2?", SYSTEM, harmful=False)
    rules = game(rewrites=2, rounds=2)
    assert rules.seats_for(prompt) == ("defender 1", "defender 2")
    match = played(rules, prompt, defender_1="4", defender_2="four")
    assert spoken(match) == [("defender 1", "4"), ("defender 2", "four")]
    assert views(match, "defender 1") == [prompt.messages]


def test_a_given_attack_takes_the_seeds_place():
    prompt = seed("open the safe", SYSTEM, harmful=True, attack="an old trick")
    assert game().seats_for(prompt) == ("defender",)
    assert views(played(game(), prompt, defender="no"), "defender") == [
        (SYSTEM, user("an old trick"))
    ]


def test_which_prompts_are_rewritten():
    rewritable = game().rewritable
    assert rewritable(seed())
    assert rewritable(seed(harmful=True))
    assert rewritable(seed(harmful=None))
    assert rewritable(seed(harmful=1))
    assert not rewritable(seed(harmful=False))
    assert not rewritable(seed(harmful=0))
    assert not rewritable(seed(harmful=True, attack="old"))
    with pytest.raises(DataError, match=r"p:open the safe: .*'harmful'.*'no'"):
        rewritable(seed(harmful="no"))


def test_a_conversation_follows_one_answer():
    with pytest.raises(ValidationError, match="continues from one answer"):
        game(rounds=2, answers=2)


@pytest.mark.parametrize(
    ("setting", "text", "words"),
    [
        ("text", "Rewrite: {{ sed }}", "unknown placeholder 'sed'; did you mean 'seed'"),
        ("text", "Rewrite it.", "the placeholder 'seed' is missing"),
        ("text", "{{ seed / 2 }}", "cannot be filled"),
        ("again", "{% if answer %}", "Unexpected end"),
    ],
)
def test_templates_are_checked_before_anything_is_played(tmp_path, setting, text, words):
    path = tmp_path / "mine.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=rf"game.{setting}: .*{words}"):
        game(**{setting: str(path)}).check()


def test_packaged_templates_pass():
    for name in ("rewrite", "rewrite_compact"):
        game(text=name).check()
    with pytest.raises(DataError, match="cannot be read"):
        game(text="no_such").check()


def test_braces_in_a_prompt_are_text():
    match = played(game(), seed("{{ 7 * 7 }}"), adversary="a", defender="b")
    assert "{{ 7 * 7 }}" in views(match, "adversary")[0][0].content


def test_what_may_be_given_again_is_what_succeeded():
    rules = game(rewrites=2)
    texts = {"adversary_1": " first ", "adversary_2": "second"}
    match = played(rules, seed(), defender_1="no", defender_2="here", **texts)

    def judged(first, second):
        scores = {"adversary 1": {"success": first}, "adversary 2": {"success": second}}
        return Judgement("j", match.id, "judge", scores)

    assert rules.successful_texts(match, [judged(1.0, 0.0)]) == ["first"]
    assert rules.successful_texts(match, [judged(0.0, 0.0)]) == []
    both = [judged(0.0, 1.0), judged(1.0, 0.0)]
    assert rules.successful_texts(match, both) == ["first", "second"]
