"""Games of OpenSpiel in text: dealt by their prompt, refereed and paid by the library."""

from __future__ import annotations

from pathlib import Path

import pytest
from judge_context import TestContext
from random_player import any_legal_move

from equipoise.environments.text_games.game import FORMS, Deals, GameOutcome, legal_index
from equipoise.environments.text_games.open_spiel import (
    OpenSpiel,
    _draw,
    _round,
    library_text,
    rules_in_words,
)
from equipoise.errors import ConfigError, DataError
from equipoise.games.answers import Answers
from equipoise.matches.base import Planned
from equipoise.matches.match_play import play
from equipoise.types import Match, Move, PlayerId

GAMES = Path(__file__).resolve().parents[3] / "examples" / "games"

pyspiel = pytest.importorskip("pyspiel")
DEALS = Deals(count=40, held_out=0).load().training


def played(game: OpenSpiel, answer, deals=DEALS) -> list[Match]:
    """A match on each deal; `answer(view, seed)` is everybody's."""
    player = PlayerId("policy")
    planned = [
        Planned(f"m{n}", 0, "train", deal, dict.fromkeys(game.seats, player), n)
        for n, deal in enumerate(deals)
    ]

    def act(who, views, seeds):
        texts = [answer(view, seed) for view, seed in zip(views, seeds, strict=True)]
        return [text if isinstance(text, Move) else Move(text) for text in texts]

    return play(planned, game, act)


def judged(game: OpenSpiel, matches: list[Match], deals=DEALS) -> list:
    judge = GameOutcome().at(TestContext(game))
    return judge.judge(matches, {deal.id: deal for deal in deals})


@pytest.mark.parametrize(
    ("game", "total"),
    [
        (OpenSpiel(name="kuhn_poker"), 0),
        (OpenSpiel(name="kuhn_poker", players=3), 0),
        (OpenSpiel(name="leduc_poker"), 0),
        (OpenSpiel(name="tic_tac_toe"), 0),
        (OpenSpiel(name="matrix_rps"), 0),
        (OpenSpiel(name="matrix_pd"), None),
        (OpenSpiel(name="repeated_game(stage_game=matrix_pd(),num_repetitions=3)"), None),
        (OpenSpiel(name="goofspiel", parameters={"num_cards": 3}), 0),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_games_are_played_to_their_end_and_paid_by_the_library(game, total):
    game.check()
    matches = played(game, any_legal_move)
    assert len({tuple(t.move.text for t in match.turns) for match in matches}) > 1
    for judgement in judged(game, matches):
        score = judgement.by_seat("score")
        assert list(score) == list(game.seats)
        assert total is None or sum(score.values()) == pytest.approx(total)
        assert judgement.by_seat("illegal") == dict.fromkeys(game.seats, 0)
        assert sum(judgement.by_seat("win").values()) == pytest.approx(1)


def test_a_deal_is_the_same_for_everybody_and_deals_differ():
    game = OpenSpiel()
    first, again = played(game, any_legal_move), played(game, any_legal_move)
    assert first == again
    cards = {match.turns[0].view.messages[-1].content for match in first}
    assert len(cards) == 3, "each of the three cards is dealt to player 0"
    other = played(OpenSpiel(dice=1), any_legal_move)
    assert [m.turns[0].view for m in other] != [m.turns[0].view for m in first]


def test_kuhn_poker_pays_the_winner_of_the_showdown():
    game = OpenSpiel()
    [match] = played(game, lambda view, seed: "bet", DEALS[:1])
    [judgement] = judged(game, [match], DEALS[:1])
    texts = [turn.view.messages[0].content for turn in match.turns]
    order = ["jack", "queen", "king"]
    cards = [next(c for c in order if f"card: {c}" in text) for text in texts]
    first_wins = order.index(cards[0]) > order.index(cards[1])
    assert judgement.score("player 0", "score") == (2 if first_wins else -2)


def test_moves_of_others_stay_hidden_where_all_move_at_once():
    game = OpenSpiel(name="matrix_rps")
    [match] = played(game, lambda view, seed: "paper", DEALS[:1])
    assert [turn.seat for turn in match.turns] == ["player 0", "player 1"]
    first, second = (turn.view.messages[0].content for turn in match.turns)
    assert first.replace("player 0.", "player 1.") == second


@pytest.mark.parametrize("retries", [0, 2])
def test_an_illegal_move_is_asked_again_and_then_loses(retries):
    game = OpenSpiel(retries=retries)
    [match] = played(game, lambda view, seed: "I fold", DEALS[:1])
    assert len(match.turns) == 1 + retries
    if retries:
        last = match.turns[-1].view.messages
        assert last[-2].content == "I fold"
        assert "no legal move" in last[-1].content
    [judgement] = judged(game, [match], DEALS[:1])
    assert judgement.by_seat("score") == {"player 0": -2, "player 1": 2}
    assert judgement.by_seat("illegal") == {"player 0": 1 + retries, "player 1": 0}


def test_an_illegal_move_may_be_replaced_by_a_random_one():
    game = OpenSpiel(illegal="random")
    matches = played(game, lambda view, seed: "hm")
    assert {len(match.turns) for match in matches} == {2, 3}
    judgements = judged(game, matches)
    assert {sum(j.by_seat("illegal").values()) for j in judgements} == {2, 3}


def test_chance_draws_by_shares_and_its_last_outcome_takes_what_rounding_leaves():
    outcomes = [(7, 0.25), (8, 0.25), (9, 0.5)]
    drawn = [_draw(outcomes, number) for number in (0.0, 0.24, 0.25, 0.49, 0.5, 0.99, 1.0)]
    assert drawn == [7, 7, 8, 8, 9, 9, 9]


def test_a_failed_move_ends_the_match_and_pays_nobody():
    game = OpenSpiel()
    failed = Move("", "error", error="no room")
    [match] = played(game, lambda view, seed: failed, DEALS[:1])
    [judgement] = judged(game, [match], DEALS[:1])
    assert judgement.scores is None
    assert judgement.reason == "player 0 did not move: no room"


def test_a_match_that_another_version_recorded_is_not_paid():
    game = OpenSpiel()
    matches = played(game, any_legal_move)
    [judgement] = judged(OpenSpiel(rules="Other rules."), matches[:1])
    assert judgement.scores is None
    assert "recorded with another version" in judgement.reason


@pytest.mark.parametrize(
    ("form", "answer", "move"),
    [
        ("whole", " Bet. ", "Bet."),
        ("whole", "  ", None),
        ("bracket", "I [pass]? No: [bet]", "[bet]"),
        ("bracket", "bet", None),
        ("tagged", "<move>pass</move> or <move> bet </move>", "bet"),
        ("boxed", "so \\boxed{bet}", "bet"),
        ("boxed", "\\boxed{", None),
    ],
)
def test_moves_are_read_from_answers(form, answer, move):
    assert FORMS[form].read(answer) == move
    if move is not None:
        assert legal_index(move, ["pass", "bet"]) == 1


def test_moves_that_differ_by_case_alone_are_told_apart():
    game = OpenSpiel(name="chess")
    moves = list(game.legal_moves(game.spiel.new_initial_state("4k3/8/8/8/8/2n5/1P1B4/4K3 w - -")))
    assert {"bxc3", "Bxc3"} < set(moves)  # the pawn takes, the bishop takes
    for answer, move in (("Bxc3.", "Bxc3"), ("bxc3", "bxc3"), ("KF2", "Kf2")):
        assert moves[legal_index(answer, moves)] == move


@pytest.mark.parametrize("form", FORMS)
def test_a_written_move_is_read_again(form):
    game = OpenSpiel(form=form)
    write = game.answer_form.write
    matches = played(game, lambda view, seed: write(any_legal_move(view, seed)))
    for judgement in judged(game, matches):
        assert sum(judgement.by_seat("illegal").values()) == 0
    assert game.answer_form.instruction in matches[0].turns[0].view.messages[0].content


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "kuhn"}, "did you mean 'kuhn_poker'?"),
        ({"players": 11}, "by 2 to 10, not by 11"),
        ({"name": "tic_tac_toe", "players": 3}, "played by 2, not by 3"),
        (
            {"name": "kuhn_poker(players=2)", "parameters": {"players": 3}},
            "game.parameters: write them into game.name",
        ),
        ({"parameters": {"plyers": 3}}, "no setting 'plyers'; did you mean 'players'?"),
        ({"name": "nfg_game"}, "nfg_game"),
        ({"name": "mfg_garnet", "players": 1}, "no game of single players"),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(settings, message):
    with pytest.raises(ConfigError) as error:
        OpenSpiel(**settings).check()
    assert message in str(error.value)


def test_a_template_must_state_the_moves(tmp_path):
    template = tmp_path / "asked.txt"
    template.write_text("{{ state }}")
    with pytest.raises(DataError, match="placeholder 'moves'"):
        OpenSpiel(text=str(template)).check()


def test_the_judge_refuses_other_games():
    with pytest.raises(ConfigError, match="open_spiel, textarena and verifiers"):
        GameOutcome().at(TestContext(Answers()))


def test_examples_stand_before_every_question_and_the_rules_before_them():
    turns = [
        {"state": "Your card: ten.", "moves": ["pass", "bet"], "move": "bet"},
        {"state": "Your card: two.", "moves": ["pass", "bet"], "move": "pass"},
    ]
    game = OpenSpiel.model_validate({"examples": turns, "form": "bracket"})
    game.check()
    messages = next(game.play(DEALS[0])).view.messages
    assert [message.role for message in messages] == ["user", "assistant"] * 2 + ["user"]
    assert [messages[i].content for i in (1, 3)] == ["[bet]", "[pass]"]
    told = ["Kuhn poker" in message.content for message in messages]
    assert told == [True, False, False, False, False]
    assert "Your card: ten." in messages[0].content
    assert messages[-1].content.startswith("You are player 0.")
    assert "Kuhn poker" in next(OpenSpiel().play(DEALS[0])).view.messages[0].content
    with pytest.raises(ValueError, match=r"'raise'.* moves"):
        OpenSpiel.model_validate({"examples": [{**turns[0], "move": "raise"}]})


# -- games from files: GTAlign's three classic games

# what a player knows ends so -> its move at an equilibrium
EQUILIBRIA = {
    "prisoners_dilemma": ({"": "defect"}, (1, 1)),
    "rubinstein": (
        {
            "round 1: you offer": "keep 75 %",
            "round 2: you offer": "keep 25 %",
            "round 3: you offer": "keep 75 %",
            "round 2: 50 % kept, 50 % for you": "reject",
            "round 2: 75 % kept, 25 % for you": "reject",
            "": "accept",
        },
        (0.75, 0.25),
    ),
    "signalling": ({"had quiche": "fight", "had beer": "yield", "": "beer"}, (2.9, 0.9)),
}


def from_file(name) -> OpenSpiel:
    parameters = {"filename": str(GAMES / f"{name}.efg")}
    return OpenSpiel.model_validate({"name": "efg_game", "parameters": parameters})


@pytest.mark.long
@pytest.mark.parametrize("name", EQUILIBRIA)
def test_a_classic_game_is_at_its_equilibrium(name):
    policy = pytest.importorskip("open_spiel.python.policy")
    exploitability = pytest.importorskip("open_spiel.python.algorithms.exploitability")
    expected_value = pytest.importorskip("open_spiel.python.algorithms.expected_game_score")
    spiel, (moves, worth) = from_file(name).spiel, EQUILIBRIA[name]

    def chosen(state):
        known = state.information_state_string()
        ends = sorted((end for end in moves if known.endswith(end)), key=len)
        return [
            (a, float(state.action_to_string(a) == moves[ends[-1]])) for a in state.legal_actions()
        ]

    players = policy.tabular_policy_from_callable(spiel, lambda state: dict(chosen(state)))
    assert exploitability.nash_conv(spiel, players) == pytest.approx(0, abs=1e-9)
    found = expected_value.policy_value(spiel.new_initial_state(), [players] * 2)
    assert list(found) == pytest.approx(list(worth))
    assert exploitability.nash_conv(spiel, policy.UniformRandomPolicy(spiel)) > 0.3


@pytest.mark.parametrize("name", EQUILIBRIA)
def test_a_game_from_a_file_is_played_in_text(name):
    game = from_file(name)
    game.check()
    matches = played(game, any_legal_move)
    assert all(judgement.scores for judgement in judged(game, matches))
    assert any("you" in match.turns[0].view.messages[-1].content for match in matches)


def test_a_round_of_leduc_is_told_move_by_move():
    assert _round("") == "nothing yet"
    assert _round("2 1 0") == "raise, call, fold"


@pytest.mark.parametrize(
    ("name", "moves", "own"),
    [
        ("tic_tac_toe", [4], "observation"),  # nothing is hidden: the whole board
        ("kuhn_poker", [0, 1], "information"),
        ("pig", [0], "observation"),  # OpenSpiel has no text of what its players know
        ("negotiation", [], "observation"),
    ],
)
def test_the_library_says_what_a_player_knows_or_the_board(name, moves, own):
    state = pyspiel.load_game(name).new_initial_state()
    for move in moves:
        state.apply_action(state.legal_actions()[0] if move not in state.legal_actions() else move)
    while state.is_chance_node():
        state.apply_action(state.legal_actions()[0])
    player = max(0, state.current_player())
    whole = (
        state.information_state_string(player)
        if own == "information"
        else state.observation_string(player)
    )
    told = library_text(state, player)
    assert told
    assert whole.strip().endswith(told)
    assert not told.startswith("Current player")


def test_a_matrix_games_rules_name_every_pay_off_the_rows_player_first():
    """Chicken: who dares against who swerves gets most."""
    rules = rules_in_words("matrix_cd")
    cells = rules.partition("when they play … and …: ")[2].removesuffix(".").split("; ")
    assert cells == [
        *("dare and dare: 0 and 0", "dare and chicken: 4 and 1"),
        *("chicken and dare: 1 and 4", "chicken and chicken: 3 and 3"),
    ]
    assert rules_in_words("repeated_game(stage_game=matrix_cd(),num_repetitions=3)") == rules
