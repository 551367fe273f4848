"""Optimistic and extragradient runs of a language model, recomputed from the ledger."""

from statistics import fmean

import pytest
from safetensors.torch import load_file
from small_runs import SMALL, settings

from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

TINY = [*SMALL, *settings(players__policy__max_new_tokens=6, game__samples=3, pairs="all_pairs")]
OPTIMISTIC = settings(loss={"kind": "optimistic", "eta": 4.0}, generations=3)


def answers(run, split, generation, player):
    """prompt -> [(text, score)] of the player's matches against itself."""
    found = {}
    for match in run.ledger.matches(split, generation):
        if set(match.seats.values()) != {player}:
            continue
        judgement = run.ledger.judgements_of([match.id])[match.id]
        scores = judgement.by_seat("score")
        found[match.prompt] = [
            (turn.move.text, scores[seat]) for seat, turn in match.last_turns().items()
        ]
    return found


def wins(score, others):
    return fmean((score > other) + (score == other) / 2 for other in others)


@pytest.mark.long
@pytest.mark.parametrize("reuse", ["same", "false"])
def test_an_answer_counts_twice_its_wins_now_less_those_over_the_generation_before(
    reuse, command, tmp_path
):
    given = [*TINY, *OPTIMISTIC, *settings(prompts__reuse=reuse)]
    planned = command("plan", "quickstart", *given, "--json")
    done = command("run", "quickstart", *given, "--out", "run", "--json")
    assert done.code == 0, done.err
    counts, played = planned.facts["counts"], done.facts["records"]["matches"]
    assert counts["matches"] + counts["held_out_matches"] == played
    uneven = 0
    with RunDirectory.read(tmp_path / "run") as run:
        asked = run.ledger.matches("opponents")
        assert bool(asked) == (reuse == "false"), "what is recorded is not played again"
        for t in (0, 1, 2):
            now = answers(run, "train", t, PlayerId("policy", t))
            before = {}
            if t:
                where = ("opponents", t) if asked else ("train", t - 1)
                before = answers(run, *where, PlayerId("policy", t - 1))
            pairs = run.ledger.pairs(t, PlayerId("policy", t))
            assert pairs
            for pair in pairs:
                for text, score, win in (
                    (pair.chosen, pair.chosen_score, pair.chosen_win),
                    (pair.rejected, pair.rejected_score, pair.rejected_win),
                ):
                    own = [given_text for given_text, _ in now[pair.prompt]].index(text)
                    others = [s for i, (_, s) in enumerate(now[pair.prompt]) if i != own]
                    expected = wins(score, others)
                    if t:
                        last = wins(score, [s for _, s in before[pair.prompt]])
                        uneven += last != expected
                        expected = 2 * expected - last
                    assert win == pytest.approx(expected)
    assert uneven, "else π_t and π_{t−1} could be exchanged"


@pytest.mark.long
def test_the_step_behind_a_half_step_begins_at_its_beginning_and_learns_from_its_answers(
    command, tmp_path
):
    """In generation 1 nothing is learned, so that the weights are those it began from."""
    odd = command("plan", "quickstart", *TINY, "-s", "loss=extragradient")
    assert odd.code == 2
    assert "generation 1 is a half step" in odd.err
    slow = {"learner": {"learning_rate": {0: 1e-3, 1: 1e-12, 2: 1e-3}}}
    given = settings(loss="extragradient", generations=4, by_generation=slow)
    given += settings(learner__learning_rate=1e-3)
    assert "meets 2 past" in command("plan", "quickstart", *TINY, *given, "-s", "keep=1").err
    done = command("run", "quickstart", *TINY, *given, "--out", "all", "--json")
    assert done.code == 0, done.err
    half, full, again = (
        load_file(tmp_path / "all" / "players" / "policy" / name / "model.safetensors")
        for name in ("1", "2", "3")
    )
    names = [name for name in half if half[name].is_floating_point()]

    def distance(one, other):
        return max(float((one[name] - other[name]).abs().max()) for name in names)

    # π_1 is π_0 moved, π_2 is π_0 again, and π_3 is π_2 moved
    assert distance(half, full) > 1e-3
    assert distance(again, full) > 1e-3
    with RunDirectory.read(tmp_path / "all") as run:
        for t in range(4):
            learned = [line for key, line in run.ledger.metrics() if key == f"{t}/learn/policy"]
            begins = next(line["margin"] for line in learned if "margin" in line)
            assert t != 1 or abs(begins) < 1e-3
            texts = {turn.move.text for m in run.ledger.matches("train", t) for turn in m.turns}
            pairs = run.ledger.pairs(t, PlayerId("policy", t))
            assert pairs
            assert {pair.chosen for pair in pairs} <= texts
        opponents = {name for (name,) in run.ledger.rows("SELECT DISTINCT player FROM logprobs")}
        births = {birth.player.generation: birth.parent for birth in run.ledger.players()}
    assert opponents == {"policy@0", "policy@2"}, "no half step is an opponent"
    assert [births[g] for g in (1, 2, 3, 4)] == ["policy@0", "policy@0", "policy@2", "policy@2"]


@pytest.mark.long
def test_half_steps_may_stay_unmeasured_and_be_deleted_when_used(command, tmp_path):
    given = settings(loss="extragradient", generations=4, keep=2, evaluate__every=2)
    done = command("run", "quickstart", *TINY, *given, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert [[*measured["scores"]] for measured in done.facts["measured"]] == [
        ["policy@0"], ["policy@2"], ["policy@4"]
    ]  # fmt: skip
    kept = [folder.name for folder in (tmp_path / "run" / "players" / "policy").iterdir()]
    assert sorted(filter(str.isdigit, kept)) == ["3", "4"]
