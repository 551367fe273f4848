"""The recipe in which the parts of four systems meet: each match's score by hand from its criteria."""

import math

import pytest

from equipoise.runs.directory import RunDirectory

CRITERIA = ("peers", "welfare", "brief")
BETA = 0.1


def by_hand(lead_C):
    """The first seat's score of two, where by each criterion it leads (1), ties (0) or trails (-1).

    Both answers have one chance in two, so that by a criterion with a winner the pair is preferred to
    the winner in one of four, to the loser in three of four: after the adversary's KL it keeps
    −β·log(½e^(−2.5) + ½e^(−7.5)) = 0.3186, and ½ by a tie. The first criterion with a winner counts.
    """
    lead = next((each for each in lead_C if each), 0)
    if not lead:
        return 0.5
    on_winner = math.exp(-2.5) / (math.exp(-2.5) + math.exp(-7.5))
    return 0.5 * on_winner + (1 - on_winner) if lead > 0 else 0.5 * (1 - on_winner)


def test_by_hand_the_numbers_are():
    assert by_hand([0, 0, 0]) == 0.5
    assert by_hand([1, -1, 0]) == pytest.approx(0.503346, abs=1e-6)
    assert by_hand([-1, 1, 1]) == pytest.approx(0.003346, abs=1e-6)
    assert by_hand([0, 0, 1]) == by_hand([1, 0, 0])


@pytest.mark.long
def test_all_parts_take_part_in_a_run(command, tmp_path):
    small = ["generations=2", "prompts.per_generation=8", "prompts.held_out=6"]
    settings = [part for each in small for part in ("-s", each)]
    done = command("run", "many_parts", *settings, "--out", "run")
    assert done.code == 0, done.err
    with RunDirectory.read(tmp_path / "run", True) as run:
        assert run.config.loss.kind == "mnpo" and run.config.loss.weights == (0.5, 0.5)
        for t in (0, 1):
            matches = list(run.ledger.matches("train", t))
            judgements = run.ledger.judgements_of(match.id for match in matches)
            assert len(matches) == 8
            for match in matches:
                judgement = judgements[match.id]
                leads = []
                for name in CRITERIA:
                    first, second = (judgement.score(seat, name) for seat in ("1", "2"))
                    leads.append((first > second) - (first < second))
                assert judgement.score("1", "score") == pytest.approx(by_hand(leads))
                playing = {player.name for player in match.seats.values()}
                graders = {vote.by for vote in judgement.votes}
                assert len(playing) == 2 and graders >= set(CRITERIA)
        learned = {checkpoint.player.name for checkpoint in run.ledger.players()}
        assert learned == {"asker", "helper", "novice"}
