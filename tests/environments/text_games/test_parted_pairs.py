"""A model's policy as its log-probabilities tell it; pairs of trajectories."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from random_player import any_legal_move
from test_open_spiel import DEALS, judged, played

from equipoise.data.pairs import JudgedMatches
from equipoise.environments.text_games.game import FORMS
from equipoise.environments.text_games.game_tree import TreeQuestions, game_tree
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.environments.text_games.parted_pairs import MeanOutcomes, PartedTrajectories
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, user

pytest.importorskip("pyspiel")


@pytest.mark.parametrize("form", ["whole", "tagged"])
def test_a_policy_is_renormalised_and_the_rest_is_reported(form):
    tree = game_tree(OpenSpiel(form=form), 1000)
    reading = TreeQuestions.of(tree)
    assert len(reading.answers) == 24
    written = {text for _, text in reading.answers}
    write = tree.game.answer_form.write
    assert written == {write("pass"), write("bet")}
    bets = [0.3 if text == write("bet") else 0.1 for _, text in reading.answers]
    read = reading.policy(tree, np.log(bets))
    assert read.policy_F == pytest.approx(np.tile([0.25, 0.75], 12))
    assert read.illegal_S == pytest.approx(0.6)


def test_a_policy_without_any_mass_on_legal_moves_has_proportions_yet():
    tree = game_tree(OpenSpiel(), 1000)
    reading = TreeQuestions.of(tree)
    logprobs = [-2000.0 - (text == "bet") for _, text in reading.answers]
    read = reading.policy(tree, logprobs)
    assert read.policy_F[0] == pytest.approx(1 / (1 + np.exp(-1)))
    assert read.illegal_S == pytest.approx(1)


def test_states_that_are_asked_alike_are_read_once():
    tree = game_tree(OpenSpiel(name="matrix_rps", text="open_spiel"), 1000)
    assert len(TreeQuestions.of(tree).answers) == 6, "two seats, three moves"


def test_parted_trajectories_are_pairs_of_moves_at_one_state():
    game = OpenSpiel()
    matches = played(game, any_legal_move)
    judgements = judged(game, matches)
    pairs, dropped = PartedTrajectories(per_passage=3).make(JudgedMatches(matches, judgements))
    assert len({pair.id for pair in pairs}) == len(pairs) > 10
    assert set(dropped) <= {"identical", "tie"}
    outcomes = {judgement.match: judgement for judgement in judgements}
    by_id = {match.id: match for match in matches}
    for pair in pairs:
        assert {pair.chosen, pair.rejected} == {"pass", "bet"}
        assert pair.chosen_score > pair.rejected_score
        [turn] = [t for t in by_id[pair.match].turns if t.view.messages == pair.messages]
        assert turn.move.text == pair.chosen
        assert outcomes[pair.match].score(turn.seat, "score") == pair.chosen_score
    again = PartedTrajectories(per_passage=3).make(JudgedMatches(matches, judgements))
    assert again == (pairs, dropped)


def test_a_move_is_worth_the_mean_of_all_matches_that_went_on_with_it():
    game = OpenSpiel()
    matches = played(game, any_legal_move)
    judgements = judged(game, matches)
    outcomes = {judgement.match: judgement for judgement in judgements}
    scores = {}
    for match in matches:
        for turn in match.turns:
            of_state = scores.setdefault(turn.view.messages, {"pass": [], "bet": []})
            won = outcomes[match.id].score(turn.seat, "score")
            of_state[turn.move.text].append(won)
    pairs, dropped = MeanOutcomes(prior=0.5).make(JudgedMatches(matches, judgements))
    assert dropped == {}
    assert len({pair.id for pair in pairs}) == len(pairs) == 12
    for pair in pairs:
        moves = scores[pair.messages]
        mean = fmean(moves["pass"] + moves["bet"])
        for text, score in ((pair.chosen, pair.chosen_score), (pair.rejected, pair.rejected_score)):
            assert score == pytest.approx((sum(moves[text]) + mean / 2) / (len(moves[text]) + 0.5))
        assert pair.chosen_score >= pair.rejected_score


def test_a_move_that_nobody_made_is_worth_what_its_state_is():
    game = OpenSpiel()
    matches = played(game, lambda view, seed: "pass")
    [*pairs] = MeanOutcomes().make(JudgedMatches(matches, judged(game, matches)))[0]
    assert pairs
    assert all({pair.chosen, pair.rejected} == {"pass", "bet"} for pair in pairs)
    assert all(pair.chosen_score == pytest.approx(pair.rejected_score) for pair in pairs)
    matches = played(game, lambda view, seed: "fold")
    illegal = {"illegal": len({match.turns[0].view.messages for match in matches})}
    assert MeanOutcomes().make(JudgedMatches(matches, judged(game, matches))) == ([], illegal)


@pytest.mark.parametrize("maker", [PartedTrajectories(), MeanOutcomes()])
def test_passages_of_unjudged_matches_make_no_pair(maker):
    game = OpenSpiel()
    matches = played(game, any_legal_move)
    pairs, dropped = maker.make(JudgedMatches(matches, []))
    assert pairs == []
    assert dropped == {"unjudged": sum(len(match.turns) for match in matches)}
    assert len(DEALS) == len(matches)


def test_games_without_the_states_or_moves_are_refused(command):
    for maker in (PartedTrajectories(), MeanOutcomes()):
        assert list(maker.faults(OpenSpiel())) == []
    [fault] = PartedTrajectories().faults(Answers())
    assert "open_spiel and textarena" in fault
    [fault] = MeanOutcomes().faults(OpenSpiel(form="tagged"))
    assert "open_spiel with form: whole" in fault
    done = command("plan", "kuhn_poker_optimistic", "-s", "loss=ipo")
    assert done.code == 2
    assert "mean_outcomes may be equal; take one of their size" in done.err


def test_the_set_needs_a_whole_small_game():
    from equipoise.environments.text_games.nash_conv import NashConvBenchmark

    items = NashConvBenchmark().items()
    assert len(items) == 12
    assert {item.choices for item in items} == {("pass", "bet")}
    with pytest.raises(ConfigError, match="more than 100 positions"):
        NashConvBenchmark(game={"kind": "open_spiel", "name": "leduc_poker"}, largest=100).items()
    limited = NashConvBenchmark(limit=3)
    assert "whole game" in next(limited.faults(items, None))


@pytest.mark.parametrize("kind", ["open_spiel", "textarena"])
def test_one_move_in_other_words_makes_no_pair(kind):
    """TextArena names no legal moves; there the form that its seats were asked for tells."""
    actions = ("pass", "bet") if kind == "open_spiel" else ()
    view = View((user(f"pass or bet?\n{FORMS['tagged'].instruction}"),), actions)

    def pairs(*texts):
        matches = [
            Match(
                *(str(n), 0, "train", kind, "p", {"player 0": PlayerId("policy")}, 1),
                (Turn("player 0", view, Move(text)),),
            )
            for n, text in enumerate(texts)
        ]
        paid = [
            Judgement(f"j{n}", str(n), "game_outcome", {"player 0": {"score": float(n)}})
            for n in range(len(texts))
        ]
        return len(PartedTrajectories().make(JudgedMatches(matches, paid))[0])

    assert pairs("Strong. <move>bet</move>", "Bold! <move>bet</move>") == 0
    assert pairs("bet", "Bet.") == (kind == "textarena")
    assert pairs("x <move>pass</move>", "y <move>bet</move>") == 1
