"""Matches advance together, and each one's dice and turns are its own."""

import numpy as np

from equipoise import seeds
from equipoise.games.answers import Answers
from equipoise.games.base import Ask, Game
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.types import Message, Move, PlayerId, Prompt, View, user

ONE, TWO = PlayerId("one"), PlayerId("two", 3)


class Debate(Game):
    """First speaks, second replies, first answers the reply; longer for prompts that say so."""

    kind: str = "debate"

    @property
    def seats(self):
        return ("first", "second")

    def referee(self, prompt):
        said = yield Ask("first", View(prompt.messages))
        for _ in range(prompt.facts["rounds"]):
            reply = yield Ask("second", View((user(said.text),)))
            said = yield Ask("first", View((user(reply.text),)))


def plans(count: int) -> list[Planned]:
    return [
        Planned(
            f"m{i}",
            0,
            "train",
            Prompt(f"p{i}", (user(f"q{i}"),), {"rounds": i % 3}),
            {"first": ONE, "second": TWO},
            i,
        )
        for i in range(count)
    ]


def echo(batches):
    def act(player, views, dice):
        batches.append((player, len(views)))
        return [
            Move(f"{player.name}:{view.messages[-1].content}:{die % 1000}")
            for view, die in zip(views, dice, strict=True)
        ]

    return act


def test_each_player_gets_one_batch_a_round():
    batches: list = []
    play(plans(6), Debate(), echo(batches))
    assert batches == [(ONE, 6), (TWO, 4), (ONE, 4), (TWO, 2), (ONE, 2)]


def test_a_match_is_the_same_alone_and_in_company():
    together = play(plans(6), Debate(), echo([]))
    alone = [play([plan], Debate(), echo([]))[0] for plan in plans(6)]
    assert together == alone
    assert [len(match.turns) for match in together] == [1, 3, 5, 1, 3, 5]
    assert len({turn.move.text for match in together for turn in match.turns}) == 18


def test_seats_asked_at_once_do_not_see_each_other_and_have_their_own_dice():
    game = Answers(samples=3)
    plan = Planned("m", 0, "train", Prompt("p", (user("q"),)), dict.fromkeys(game.seats, ONE), 5)
    (match,) = play([plan], game, echo([]))
    assert [turn.seat for turn in match.turns] == ["1", "2", "3"]
    assert {turn.view for turn in match.turns} == {View((Message("user", "q"),))}
    assert len({turn.move.text for turn in match.turns}) == 3


def test_dice_are_spread():
    dice = [seeds.child(seeds.child(0, "match", i), "1", 0) for i in range(1000)]
    assert len(set(dice)) == 1000
    assert 0.4 < np.mean([die % 2 for die in dice]) < 0.6


def test_a_moves_die_is_of_its_match_its_seat_and_how_often_that_seat_moved():
    thrown = []

    def act(player, views, dice):
        thrown.extend(dice)
        return [Move("x") for _ in views]

    prompt = Prompt("p", (user("q"),), {"rounds": 2})
    seats = {"first": ONE, "second": TWO}
    play([Planned("m", 0, "train", prompt, seats, 7)], Debate(), act)
    assert thrown == [
        seeds.child(7, seat, moved)
        for seat, moved in (("first", 0), ("second", 0), ("first", 1), ("second", 1), ("first", 2))
    ]
    assert len(set(thrown)) == 5
