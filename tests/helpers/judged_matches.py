"""Matches of scripted seats, and what a judge at the table or beside it makes of them."""

import re

from judge_context import TestContext

from equipoise.judges.base import Judge, JudgeContext
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.types import Move, PlayerId, Prompt, user

PROMPT = Prompt("p", (user("What is 2 + 2?"),), {"answer": "4"})
GOLD = {"kind": "verdict", "gold": "exact"}


def blocks(view):
    return re.findall(r"<<(?!end)(.+) \w{10}>>\n((?:.|\n)*?)\n<<end of", view.messages[0].content)


def played(game, moves, prompt=PROMPT, id="m"):
    """A match in which seats move by `moves`: seat -> text, or function of the view."""
    seats = {seat: PlayerId(seat) for seat in game.seats_for(prompt)}

    def act(player, views, seeds):
        given = moves.get(player.name, "")
        answers = [given(view) if callable(given) else given for view in views]
        return [answer if isinstance(answer, Move) else Move(answer) for answer in answers]

    (match,) = play([Planned(id, 0, "train", prompt, seats, 0)], game, act)
    return match


def placed(game, judge):
    """The judge beside this game."""
    here = TestContext(game)
    context = JudgeContext(game, 0, here.pool, {}, here.resources, here.actor)
    return Judge.build(judge).at(context)


def scores(game, moves, judge=GOLD, prompt=PROMPT):
    """The judgement of the match in which seats move by `moves`."""
    match = played(game, moves, prompt)
    return placed(game, judge).judge([match], {prompt.id: prompt})[0]


def ten(prompt, text):
    """A judge whose scores are no shares."""
    return 10
