"""What a learner's moves are paid."""

from dataclasses import dataclass, field

import msgspec
import pytest
from attack_matches import ADVERSARY, DEFENDER, FAILED, game, played, seed

from equipoise.data.episodes import episodes
from equipoise.data.normalising import Normalising
from equipoise.data.shaping import CosineShaping, SelfBleuShaping
from equipoise.errors import ConfigError, EquipoiseError
from equipoise.models.resources import Resources
from equipoise.types import Judgement, Message, Move, PlayerId, user


@dataclass
class Fixed:
    """A term that gives these numbers and notes what it was shown."""

    given: list
    name: str = "fixed"
    role: str = "adversary"
    shown: list = field(default_factory=list)

    def values(self, texts, seeds):
        self.shown += zip(texts, seeds, strict=True)
        return self.given

    def add(self, texts):
        raise AssertionError("a batch is not remembered before it was paid")


def batch(*attacks: str, rules=None, same: bool = False, **said):
    prompts = [
        seed("open it" if same else f"open {i}", identity=f"p{i}") for i in range(len(attacks))
    ]
    matches = [
        played(rules or game(), prompt, 4, **{"adversary": text, "defender": "reply", **said})
        for prompt, text in zip(prompts, attacks, strict=True)
    ]
    return matches, {prompt.id: prompt for prompt in prompts}


def judged(matches, **scores):
    """Every seat's scores in every match: seat="score" or a list, a number a match, None where it
    is missing.
    """
    words = {}
    for i, match in enumerate(matches):
        found = {
            seat: {"score": given[i], "success": 1.0}
            for seat, given in scores.items()
            if given[i] is not None
        }
        words[match.id] = Judgement(
            f"j{i}", match.id, "red_team", found or None, "" if found else "unread"
        )
    return words


def with_move(match, move):
    """The match with its first turn alone, in which this is the move."""
    turn = msgspec.structs.replace(match.turns[0], move=move)
    return msgspec.structs.replace(match, turns=(turn,))


def test_each_move_is_paid_its_seats_utility():
    matches, prompts = batch("a", "b")
    words = judged(matches, adversary=[0.25, 0.75], defender=[0.75, 0.25])
    found, dropped = episodes(matches, words, ADVERSARY, game(), prompts)
    assert [(e.match, e.turn, e.role, e.generation, e.reward) for e in found] == [
        (matches[0].id, 0, "adversary", 4, 0.25),
        (matches[1].id, 0, "adversary", 4, 0.75),
    ]
    assert [e.parts for e in found] == [{"score": 0.25}, {"score": 0.75}]
    assert dropped == {}
    found, _ = episodes(matches, words, DEFENDER, game(), prompts)
    assert [(e.turn, e.role, e.reward) for e in found] == [
        (1, "defender", 0.75),
        (1, "defender", 0.25),
    ]
    assert len({e.id for e in found}) == 2


def test_another_utility():
    matches, prompts = batch("a")
    found, _ = episodes(
        matches, judged(matches, adversary=[0.25]), ADVERSARY, game(), prompts, "success"
    )
    assert found[0].parts == {"success": 1.0}


def test_what_was_not_judged_or_failed_is_left_out_and_counted():
    matches, prompts = batch("a", FAILED, "c", "d")
    found, dropped = episodes(
        matches, judged(matches, adversary=[0.1, 0.2, None, 0.4]), ADVERSARY, game(), prompts
    )
    assert [e.reward for e in found] == [0.1, 0.4]
    assert dropped == {"failed": 1, "unjudged": 1}
    without = {
        key: word
        for key, word in judged(matches, adversary=[0.1] * 4).items()
        if key != matches[0].id
    }
    assert episodes(matches, without, ADVERSARY, game(), prompts)[1] == {"failed": 1, "unjudged": 1}


def test_a_move_without_tokens_teaches_nothing():
    matches, prompts = batch("a")
    match = with_move(matches[0], Move("a"))
    words = judged([match], adversary=[0.5])
    for utility in ("score", "of which nobody was told"):
        made = episodes([match], words, ADVERSARY, game(), prompts, utility)
        assert made == ([], {"failed": 1})


def test_what_is_dropped_for_its_cut_moves_no_reward_of_the_others():
    matches, prompts = batch("a", "b", "c")
    cut = msgspec.structs.replace(matches[0].turns[0].move, finish="length")
    matches[0] = with_move(matches[0], cut)
    words = judged(matches, adversary=[0.0, 0.25, 0.75])
    centred = Normalising(method="z_score")
    made, dropped = episodes(
        matches, words, ADVERSARY, game(), prompts, normalise=centred, drop_truncated=True
    )
    assert [e.reward for e in made] == pytest.approx([-1.0, 1.0])
    assert dropped == {"truncated": 1}


def test_every_move_of_a_conversation_is_paid():
    rules = game(rounds=2)
    matches, prompts = batch("a", rules=rules)
    found, _ = episodes(matches, judged(matches, adversary=[0.25]), ADVERSARY, rules, prompts)
    assert [(e.turn, e.reward) for e in found] == [(0, 0.25), (2, 0.25)]
    assert found[0].group != found[1].group
    assert found[0].id != found[1].id


def test_a_move_that_failed_half_way_is_not_paid():
    """An endpoint may break off: there are tokens, and no answer."""
    matches, prompts = batch("a")
    broken = Move("half", "error", (1, 2), error="the line is dead")
    match = with_move(matches[0], broken)
    assert episodes([match], judged([match], adversary=[0.5]), ADVERSARY, game(), prompts) == (
        [],
        {"failed": 1},
    )


def test_moves_of_an_earlier_generation_are_not_the_learners():
    matches, prompts = batch("a", "b")
    seats = {**matches[1].seats, "adversary": PlayerId("adversary", 1)}
    played_by_both = [matches[0], msgspec.structs.replace(matches[1], seats=seats)]
    words = judged(played_by_both, adversary=[0.25, 0.75])
    found, dropped = episodes(played_by_both, words, ADVERSARY, game(), prompts)
    assert [e.match for e in found] == [matches[0].id]
    assert dropped == {}


def test_one_chat_is_two_groups_to_two_roles():
    matches, prompts = batch("a")
    attack, answer = matches[0].turns
    same_chat = msgspec.structs.replace(answer, view=attack.view)
    match = msgspec.structs.replace(
        matches[0], turns=(attack, same_chat), seats=dict.fromkeys(matches[0].seats, ADVERSARY)
    )
    words = judged([match], adversary=[0.1], defender=[0.9])
    found, _ = episodes([match], words, ADVERSARY, game(), prompts)
    assert len({e.group for e in found}) == 2


def test_a_term_sees_what_was_asked_last():
    prompt = seed("open it", user("hello"), Message("assistant", "hi"))
    match = played(game(), prompt, 4, adversary="a", defender="reply")
    term = Fixed([0.5])
    words = judged([match], adversary=[1.0])
    episodes([match], words, ADVERSARY, game(), {prompt.id: prompt}, terms=[term])
    assert term.shown == [("a", "open it")]


def test_groups_are_answers_to_one_chat_in_one_role():
    rules = game(rewrites=2)
    matches, prompts = batch(
        "x",
        "x",
        rules=rules,
        same=True,
        adversary_1="a",
        adversary_2="b",
        defender_1="1",
        defender_2="2",
    )
    seats = {
        "adversary 1": [0.1] * 2,
        "adversary 2": [0.2] * 2,
        "defender 1": [0.9] * 2,
        "defender 2": [0.8] * 2,
    }
    attacks, _ = episodes(matches, judged(matches, **seats), ADVERSARY, rules, prompts)
    assert len(attacks) == 4
    assert len({e.group for e in attacks}) == 1
    answers, _ = episodes(matches, judged(matches, **seats), DEFENDER, rules, prompts)
    assert [e.group for e in answers[:2]] == [e.group for e in answers[2:]]
    assert answers[0].group != answers[1].group
    assert answers[0].group not in {e.group for e in attacks}


def test_the_first_batch_has_no_history():
    matches, prompts = batch("one two three", "one two three")
    terms = [
        SelfBleuShaping(role="adversary").open(Resources()),
        CosineShaping(role="adversary").open(Resources()),
    ]
    words = judged(matches, adversary=[0.5, 0.5])
    found, _ = episodes(matches, words, ADVERSARY, game(), prompts, terms=terms)
    assert [e.parts for e in found] == [{"score": 0.5, "self_bleu": 0.0, "cosine": 0.0}] * 2
    for term in terms:
        term.add(["one two three"])
    found, _ = episodes(matches, words, ADVERSARY, game(), prompts, terms=terms)
    for e in found:
        assert e.parts["cosine"] == pytest.approx(-1)
        assert e.parts["self_bleu"] < -1
        assert e.reward == pytest.approx(sum(e.parts.values()))


def test_terms_are_of_their_role_and_see_what_was_made():
    matches, prompts = batch("a", FAILED, "c")
    mine, other = Fixed([0.5, -0.5]), Fixed([], "other", "defender")
    words = judged(matches, adversary=[1.0, 1.0, 1.0])
    found, _ = episodes(matches, words, ADVERSARY, game(), prompts, terms=[mine, other])
    assert [e.parts for e in found] == [{"score": 1.0, "fixed": 0.5}, {"score": 1.0, "fixed": -0.5}]
    assert mine.shown == [("a", "open 0"), ("c", "open 2")]
    assert other.shown == []


def test_terms_of_one_name_do_not_hide_each_other():
    matches, prompts = batch("a")
    terms = [Fixed([1.0]), Fixed([2.0]), Fixed([], role="defender")]
    found, _ = episodes(
        matches, judged(matches, adversary=[0.5]), ADVERSARY, game(), prompts, terms=terms
    )
    assert found[0].parts == {"score": 0.5, "fixed": 3.0}
    assert found[0].reward == 3.5


@pytest.mark.parametrize(
    ("given", "words"),
    [([0.5], "'fixed' .*1 .*2 "), ([0.5, float("nan")], "nan.* 'b'"), ([None, 0.5], "None.* 'a'")],
)
def test_a_term_must_give_one_number_a_text(given, words):
    matches, prompts = batch("a", "b")
    with pytest.raises(EquipoiseError, match=words):
        episodes(
            matches,
            judged(matches, adversary=[1.0, 1.0]),
            ADVERSARY,
            game(),
            prompts,
            terms=[Fixed(given)],
        )


def test_a_utility_that_nobody_gave():
    matches, prompts = batch("a")
    with pytest.raises(ConfigError, match=r"utility: .*'sucess'.*'success'"):
        episodes(matches, judged(matches, adversary=[1.0]), ADVERSARY, game(), prompts, "sucess")
    assert episodes(matches, judged(matches, adversary=[None]), ADVERSARY, game(), prompts) == (
        [],
        {"unjudged": 1},
    )


def test_earlier_moves_are_paid_a_discounted_share_of_the_outcome():
    [match], prompts = batch("again")
    twice = msgspec.structs.replace(match, turns=match.turns * 3)
    made, dropped = episodes(
        [twice],
        judged([twice], adversary=[2.0], defender=[-1.0]),
        ADVERSARY,
        game(),
        prompts,
        share_of_outcome=lambda later: 0.5**later,
    )
    assert [episode.reward for episode in made] == [0.5, 1.0, 2.0]
    assert not dropped
