"""Defaults of a game that defines no more than its seats and its referee."""

import pytest

from equipoise.games.answers import Answers
from equipoise.games.base import Game
from equipoise.types import Prompt, user

PROMPT = Prompt("p", (user("a"), user("b"), user("question")), {"fact": 1}, "source")


def test_nobody_writes_in_place_of_its_prompts():
    game = Answers(samples=2)
    assert game.rewriter is None
    assert not game.rewritable(PROMPT)


def test_a_given_text_makes_another_prompt():
    game = Answers(samples=2)
    assert game.give_text(PROMPT) == PROMPT
    made = game.give_text(PROMPT, "other")
    assert made.messages == (user("a"), user("b"), user("other"))
    assert (made.facts, made.source) == (PROMPT.facts, PROMPT.source)
    assert len({PROMPT.id, made.id, game.give_text(PROMPT, "third").id}) == 3
    assert made == game.give_text(PROMPT, "other")


def test_it_has_no_finite_form():
    game = Answers(samples=2)
    assert game.actions == ()
    assert game.payoff_AM() is None
    assert game.bimatrix() is None
    with pytest.raises(TypeError, match="Answers is not a finite game"):
        game.outcome({"1": "a"})


class Over(Answers):
    """Ends before anybody is asked."""

    kind: str = "over"

    def referee(self, prompt):
        return
        yield


def test_a_match_that_ends_before_anybody_is_asked_leaves_the_prompt_as_it_is():
    prompt = Prompt("p", ())
    assert Over().first_question(prompt) is prompt


@pytest.mark.parametrize("kind", ["answers", "assistance", "leader_follower", "red_team"])
def test_games_about_a_text_refuse_prompts_without_one(kind):
    fault = f"game '{kind}' takes prompts with a text, and these say nothing"
    assert list(Game.build(kind).faults([PROMPT, Prompt("blank", ())])) == [fault]
    assert not list(Game.build(kind).faults([PROMPT]))
