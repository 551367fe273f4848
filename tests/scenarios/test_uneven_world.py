"""A small world in which nothing is equal, all its numbers computed a second time from its records:
two learners with their own judges, losses, learners and pasts, four kinds of opponents with unequal
shares, a panel whose members differ, moves that fail, answers that are cut or not judged, and a run
that was stopped and gone on with.
"""

import json
from itertools import combinations
from statistics import fmean

import pytest
from recorded_run import planned_and_played
from teachable_players import BATCH, logprob
from uneven_players import FAILS, UNJUDGED, brief, odd

from equipoise import seeds
from equipoise.planning.new_run import new_run
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId, Prompt, user

SEED, GENERATIONS, SAMPLES = 23, 3, 3
SKILLS = {"ann": 0, "eve": 9, "tom": 4, "zoe": 6}
LEARNERS = ("ann", "eve")
PEER, TOM, ZOE = 0.1, 0.15, 0.05
PAST = (0.4, 0.2)
ANYTHING = Prompt("p", (user("?"),))
PANEL = {
    "kind": "panel",
    "judges": {
        "short": {"kind": "call", "function": "uneven_players:brief"},
        "odd": {"kind": "call", "function": "uneven_players:odd"},
    },
    "at_least": 2,
}


def settings(prompts):
    return {
        "generations": GENERATIONS,
        "seed": SEED,
        "players": {
            name: {"kind": "uneven_players:Uneven", "skill": skill, "learns": name in LEARNERS}
            for name, skill in SKILLS.items()
        },
        "prompts": {"kind": "files", "path": prompts, "per_generation": 12, "held_out": 4},
        "game": {"kind": "answers", "samples": SAMPLES},
        "schedule": "self_play",
        "judge": {"kind": "call", "function": "uneven_players:brief"},
        "judges": {"eve": PANEL},
        "training_matches": "own",
        "max_unjudged": 1.0,
        "loss": {
            "kind": "mnpo",
            "eta": 0.5,
            "against": {
                "history": list(PAST),
                "peers": PEER,
                "outsiders": {"tom": TOM, "zoe": ZOE},
            },
        },
        "losses": {"eve": {"kind": "dpo", "beta": 0.3, "reference": "previous"}},
        "learner": {"kind": "teachable_players:Teaching", "rate": 1.0},
        "learners": {"eve": {"rate": 3.0}},
        "evaluate": {"kind": "held_out", "samples": 1, "judge": "shorter"},
    }


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    prompts = tmp_path_factory.mktemp("uneven") / "prompts.jsonl"
    rows = [json.dumps({"prompt": f"question {n}"}) + "\n" for n in range(40)]
    prompts.write_text("".join(rows))
    return recipe_loader.build(settings(str(prompts)), "test")


@pytest.fixture(scope="module")
def run(recipe, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    with new_run(recipe, folder) as made, OpenRun(made) as opened:
        league(opened, GENERATIONS)
    with RunDirectory.read(folder) as directory, OpenRun(directory) as opened:
        yield opened


def given(run, name, t):
    """The batch that the learner was given in generation t."""
    path = run.population.home(PlayerId(name, t + 1)) / BATCH
    return json.loads(path.read_text())


def own_matches(run, name, t):
    """The training matches that a learner plays with itself in generation t."""
    of_t = run.ledger.matches("train", t)
    return [match for match in of_t if {p.name for p in match.seats.values()} == {name}]


def short_score(text):
    return brief(ANYTHING, text)


def odd_score(text):
    return odd(ANYTHING, text)


def by_hand(match, name):
    """seat -> the score of its answer by the learner's own judge, for seats that have one.

    A panel needs both members, and takes only those that scored every seat that any of them did.
    """
    texts = {t.seat: t.move.text for t in match.turns if t.move.finish != "error"}
    short = {seat: short_score(text) for seat, text in texts.items()}
    if name == "ann":
        return {seat: score for seat, score in short.items() if score is not None}
    if None in short.values():
        return {}
    return {seat: fmean((short[seat], odd_score(text))) for seat, text in texts.items()}


def test_every_kind_of_answer_was_met(run):
    for name in LEARNERS:
        moves = [
            turn.move
            for t in range(GENERATIONS)
            for match in own_matches(run, name, t)
            for turn in match.turns
        ]
        assert len(moves) == GENERATIONS * 12 * SAMPLES
        assert {move.finish for move in moves} == {"stop", "length", "error"}
        assert {UNJUDGED} < {len(move.text) for move in moves}
        assert FAILS not in {len(move.text) for move in moves}


def test_each_learner_is_judged_by_its_own_judge_member_by_member(run):
    for name, t in ((name, t) for name in LEARNERS for t in range(GENERATIONS)):
        matches = own_matches(run, name, t)
        judge = run.config.judge_of(name).name
        judgements = run.ledger.judgements_of([match.id for match in matches], judge)
        assert len(judgements) == len(matches)
        for match in matches:
            judgement = judgements[match.id]
            texts = {turn.seat: turn.move.text for turn in match.turns}
            failed = {turn.seat for turn in match.turns if turn.move.finish == "error"}
            assert judgement.by_seat("score") == pytest.approx(by_hand(match, name)), (name, texts)
            for vote in judgement.votes if name == "eve" else ():
                member = {"short": short_score, "odd": odd_score}[vote.by]
                expected = None if vote.seat in failed else member(texts[vote.seat])
                assert vote.value == expected


def test_only_the_judge_that_rates_judges_matches_of_others_too(run):
    rating, other = run.config.judge_of("ann").name, run.config.judge_of("eve").name
    for t in range(GENERATIONS):
        ids = {name: [match.id for match in own_matches(run, name, t)] for name in LEARNERS}
        assert len(run.ledger.judgements_of(ids["eve"], rating)) == 12
        assert run.ledger.judgements_of(ids["ann"], other) == {}


def test_pairs_hold_judged_answers_alone_the_better_one_first(run):
    for name, t in ((name, t) for name in LEARNERS for t in range(GENERATIONS)):
        made = {}
        for pair in given(run, name, t)["pairs"]:
            made.setdefault(pair["match"], []).append(pair)
        for match in own_matches(run, name, t):
            score = by_hand(match, name)
            moves = {turn.seat: turn.move for turn in match.turns}
            differ = [
                (a, b)
                for a, b in combinations(score, 2)
                if score[a] != score[b] and moves[a].text != moves[b].text
            ]
            assert bool(made.get(match.id)) == bool(differ)
            for pair in made.get(match.id, ()):
                values = (pair["chosen_score"], pair["rejected_score"])
                assert values == (max(score.values()), min(score.values()))
                for answer, value in zip(("chosen", "rejected"), values, strict=True):
                    [*sources] = [
                        move
                        for seat, move in moves.items()
                        if move.text == pair[answer] and score.get(seat) == value
                    ]
                    assert sources, "the answer of another match or seat"
                    cut = {move.finish == "length" for move in sources}
                    assert pair.get(f"{answer}_cut", False) in cut


def skill(name, t):
    """Of a player in generation t of the run."""
    return SKILLS[name] + (t if name in LEARNERS else 0)


def test_opponents_are_as_old_as_they_are_now_with_their_own_shares(run):
    for t in range(GENERATIONS):
        batch = given(run, "ann", t)
        expected = {f"ann@{t}": PAST[0]}
        expected |= {f"ann@{t - 1}": PAST[1]} if t else {}
        expected |= {f"eve@{t}": PEER, "tom@0": TOM, "zoe@0": ZOE}
        assert batch["opponents"] == pytest.approx(expected)
        assert list(batch["opponents"]) == list(expected)
        assert given(run, "eve", t)["opponents"] == {f"eve@{t}": 1.0}


def test_each_answer_is_scored_by_each_opponent_as_it_ended(run):
    for name, t in ((name, t) for name in LEARNERS for t in range(GENERATIONS)):
        batch = given(run, name, t)
        players = [PlayerId.parse(player) for player in batch["opponents"]]
        skills = [skill(player.name, player.generation) for player in players]
        assert len(set(skills)) == len(skills)
        for answer in ("chosen", "rejected"):
            by_hand_KB = [
                [
                    logprob(own, pair[answer], pair.get(f"{answer}_cut", False))
                    for pair in batch["pairs"]
                ]
                for own in skills
            ]
            assert batch[answer] == by_hand_KB


def test_each_learner_has_its_own_loss_rate_seed_and_past(run):
    for name, kind, rate in (("ann", "mnpo", 1.0), ("eve", "dpo", 3.0)):
        for t in range(GENERATIONS):
            batch = given(run, name, t)
            assert (batch["loss"]["kind"], batch["rate"]) == (kind, rate)
            assert batch["learner"] == f"{name}@{t}"
            assert batch["seed"] == seeds.child(SEED, "learn", f"{name}@{t}")
            assert batch["weights"] == (str(t) if t else "None")
            assert batch["past"] == [*(str(g) for g in range(t, 0, -1)), "None"]


def test_what_could_not_be_judged_is_counted(run):
    for t in range(GENERATIONS):
        judged = {"ann": LEARNERS, "eve": ("eve",)}
        for name, players in judged.items():
            matches = [match for player in players for match in own_matches(run, player, t)]
            facts = run.ledger.stage_facts(f"{t}/judge/{run.config.judge_of(name).name}")
            answers = len(matches) * SAMPLES
            scored = sum(len(by_hand(match, name)) for match in matches)
            assert facts["answers"] == answers
            assert facts["unjudged_share"] == pytest.approx(1 - scored / answers)
            assert 0 < scored < answers


def test_the_plan_counts_each_judges_own_matches(run):
    planned, played = planned_and_played(run.directory)
    assert planned["judgements"] == played["judgements"]
    assert planned["matches"] == played["matches"] == GENERATIONS * 2 * 12


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(run, recipe, tmp_path):
    folder = tmp_path / "run"
    with new_run(recipe, folder) as made, OpenRun(made) as opened:
        league(opened, 1)
    with RunDirectory.open(folder) as made, OpenRun(made) as opened:
        league(opened, GENERATIONS)
        assert opened.ledger.counts() == run.ledger.counts()
        for t in range(GENERATIONS):
            for name in LEARNERS:
                assert given(opened, name, t) == given(run, name, t)
            assert list(opened.ledger.matches("train", t)) == list(run.ledger.matches("train", t))
