"""Each role has its player; some attacks are given."""

import dataclasses
from collections import Counter

import pytest
from attack_matches import game, seed
from pydantic import ValidationError

from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.matches.base import MatchContext
from equipoise.matches.roles import Roles
from equipoise.types import PlayerId

ATTACKER, DEFENDER, BYSTANDER = (PlayerId("red", 3), PlayerId("blue", 5), PlayerId("judge"))
BOTH = {"adversary": "red", "defender": "blue"}


def match_context(rules=None, seed: int = 0, texts=()):
    return MatchContext(
        rules or game(), (ATTACKER, DEFENDER, BYSTANDER), seed=seed, successful_texts=texts
    )


def roles(**settings) -> Roles:
    return Roles.model_validate({"roles": BOTH, **settings})


def test_everyone_has_a_seat():
    prompts = [seed(), seed("hello", harmful=False)]
    assert roles().seatings(prompts, match_context()) == [
        (prompts[0], {"adversary": ATTACKER, "defender": DEFENDER}),
        (prompts[1], {"defender": DEFENDER}),
    ]


def test_samples_and_seats_of_a_role():
    table = roles(samples=3).seatings([seed()], match_context(game(answers=2)))
    assert (
        table
        == [(seed(), {"adversary": ATTACKER, "defender 1": DEFENDER, "defender 2": DEFENDER})] * 3
    )


def test_shares_of_given_attacks():
    prompts = [seed(f"open {i}", harmful=True) for i in range(2000)] + [
        seed("hello", harmful=False)
    ]
    mixed = roles(raw=0.2, replay=0.3)
    table = mixed.seatings(prompts, match_context(texts=["old", "older", "old"]))
    asked = Counter(prompt.facts.get("attack", "written")[:4] for prompt, _ in table[:-1])
    assert asked["open"] / 2000 == pytest.approx(0.2, abs=0.04)
    assert asked["old"] / 2000 == pytest.approx(0.2, abs=0.04)
    assert asked["olde"] / 2000 == pytest.approx(0.1, abs=0.03)
    assert asked["writ"] / 2000 == pytest.approx(0.5, abs=0.04)
    assert table[-1] == (prompts[-1], {"defender": DEFENDER})
    for (prompt, seats), before in zip(table, prompts, strict=True):
        assert prompt.messages == before.messages
        assert ("attack" in prompt.facts) == (prompt.id != before.id)
        assert ("adversary" in seats) != (
            "attack" in prompt.facts or before.facts["harmful"] is False
        )
    assert table == mixed.seatings(prompts, match_context(texts=["old", "older", "old"]))
    assert table != mixed.seatings(prompts, match_context(seed=1, texts=["old", "older", "old"]))


def turn_of(*names, texts=()):
    """The context of a generation in which these alone learn."""
    return dataclasses.replace(match_context(texts=texts), turn=names)


MIXED = [
    seed("a"),
    seed("hello", harmful=False),
    seed("b"),
    seed("bye", harmful=False),
    seed("joke", harmful=False),
]


def test_the_adversarys_phase_plays_what_it_learns_from():
    """As many matches as prompts, each with a move of the adversary: harmless prompts neither are
    played nor make its batch smaller.
    """
    table = roles().seatings(MIXED, turn_of("red"))
    assert [prompt.messages[0].content for prompt, _ in table] == ["a", "b"] * 2 + ["a"]
    assert all(set(seats) == {"adversary", "defender"} for _, seats in table)
    given = roles(raw=0.5, replay=0.5).seatings(MIXED, turn_of("red", texts=["old"]))
    assert given == table, "a given attack would teach nobody"


def test_the_defenders_phase_plays_everything():
    everyone = roles().seatings(MIXED, match_context())
    assert roles().seatings(MIXED, turn_of("blue")) == everyone
    assert roles().seatings(MIXED, turn_of("red", "blue")) == everyone
    assert [len(seats) for _, seats in everyone] == [2, 1, 2, 1, 1]


def test_a_phase_without_anything_to_learn_from_is_played_as_it_is():
    harmless = [prompt for prompt in MIXED if prompt.facts]
    table = roles().seatings(harmless, turn_of("red"))
    assert [prompt for prompt, _ in table] == harmless


def test_raw_seeds_are_asked_as_they_stand():
    ((prompt, seats),) = Roles(roles={"defender": "blue"}, raw=1.0).seatings(
        [seed("open it")], match_context()
    )
    assert prompt.facts["attack"] == "open it"
    assert seats == {"defender": DEFENDER}


def test_without_old_attacks_new_ones_are_written():
    ((prompt, seats),) = roles(replay=1.0).seatings([seed()], match_context())
    assert prompt == seed()
    assert "adversary" in seats


def test_given_attacks_have_names_of_their_own():
    table = roles(replay=1.0).seatings(
        [seed("a"), seed("b"), seed("a", identity="c")], match_context(texts=["x"])
    )
    assert len({prompt.id for prompt, _ in table}) == 3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"roles": {"adversary": "red", "defender": "red"}}, "'red' plays several roles"),
        ({"raw": 0.6, "replay": 0.6}, "together 1.2"),
        ({"roles": {}}, "at least 1 item"),
        ({"samples": 0}, "greater than or equal to 1"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(ValidationError, match=words):
        roles(**settings)


def test_one_player_in_both_roles_where_it_is_meant():
    both = roles(roles={"adversary": "red", "defender": "red"}, shared=True)
    assert both.seatings([seed()], match_context()) == [
        (seed(), {"adversary": ATTACKER, "defender": ATTACKER})
    ]


@pytest.mark.parametrize(
    ("settings", "rules", "words"),
    [
        ({"roles": {"atacker": "red"}}, game(), "game 'red_team' has no role 'atacker'"),
        (
            {"roles": {"adversary": "rod"}},
            game(),
            "schedule.roles.adversary: there is no player 'rod'; did you mean 're",
        ),
        ({"replay": 0.1}, game(rounds=2), "schedule.replay: the attacks of a conversation"),
        (
            {"roles": {"answer": "red"}, "raw": 0.1},
            Answers(),
            "writes what another answers, and 'answers' is none",
        ),
        ({"roles": {"defender": "blue"}}, game(), "nobody plays adversary"),
    ],
)
def test_tables_that_cannot_be_laid(settings, rules, words):
    with pytest.raises(ConfigError, match=words):
        roles(**settings).seatings([seed()], match_context(rules))
