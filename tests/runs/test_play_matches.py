"""What is played and judged is recorded once: under kills at any moment, by two judges, in the
order of playing.

A kill leaves what the disk holds: the ledger goes on from a copy of its files, as they were in that
moment, also within a transaction.
"""

import shutil
import tempfile
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from equipoise.errors import NoSignal
from equipoise.games.answers import Answers
from equipoise.judges.base import JudgeContext
from equipoise.judges.pointwise import Pointwise
from equipoise.ledger.ledger import Ledger
from equipoise.matches.base import Planned
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import record_matches, unplayed_chunks
from equipoise.types import Judgement, Move, PlayerId, Prompt, user

CHUNK, PROMPTS, GENERATIONS = 2, 5, 2
PARTS = ("train", "held_out")


class Killed(BaseException):
    """The process ends here."""


class Meter:
    """What was paid for, and after how much the process is killed; None: never."""

    def __init__(self):
        self.left, self.paid = None, []

    def start(self, left=None):
        self.left, self.paid = left, []

    def pay(self, what):
        if self.left is not None and len(self.paid) >= self.left:
            raise Killed
        self.paid.append(what)


METER = Meter()


class Players:
    """Everybody answers with its seed."""

    def actor(self, player):
        return self

    def actor_with(self, player, temperature=None, **_):
        assert temperature is None  # play is sampled as the player says
        return self.actor(player)

    def act(self, views, dice):
        moves = []
        for number in dice:
            METER.pay(number)
            moves.append(Move(f"answer {number}", token_ids=(1,), logprobs=(-0.5,)))
        return moves


class Digit(Pointwise):
    """The answer's last digit, times a factor; of an answer in `missing` nothing."""

    kind: Literal["digit"] = "digit"
    factor: float = 1.0
    missing: tuple[str, ...] = ()

    def score(self, prompt, text):
        METER.pay((self.name, text))
        if text in self.missing:
            return "it cannot be read"
        return {"score": self.factor * int(text[-1]), "other": 1.0}


def config(**changes):
    given = {
        "seed": 3,
        "commit_every": CHUNK,
        "unit_rows": 8,
        "utility": "score",
        "max_unjudged": 0.25,
        "players": {"policy": None},
        "game": Answers(samples=2),
    }
    return SimpleNamespace(**{**given, **changes})


def opened(ledger, **changes):
    run = OpenRun(SimpleNamespace(config=config(**changes), ledger=ledger))
    vars(run)["population"] = Players()
    return run


def prompts(part, t):
    return [Prompt(f"{part}{t}{i}", (user(f"question {i}"),)) for i in range(PROMPTS)]


def seatings(part, t):
    seats = dict.fromkeys(("1", "2"), PlayerId("policy", t))
    return [(prompt, seats) for prompt in prompts(part, t)]


def context():
    return JudgeContext(Answers(), 0, (), {}, Resources(), Players().actor)


def judged(run, judge, matches, key, t=0, part="train"):
    by_id = {prompt.id: prompt for prompt in prompts(part, t)}
    return record_judgements(run, key, judge, context(), matches, by_id, t)


@pytest.fixture
def ledger(tmp_path):
    METER.start()
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


@cache
def undisturbed(part, t):
    """The matches of a run that nobody kills."""
    left, METER.left = METER.left, None
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.create(Path(folder, "ledger.sqlite")) as ledger,
    ):
        matches = list(record_matches(opened(ledger), "once", seatings(part, t), t, part))
    METER.left = left
    return matches


# -- any order of playing, judging, judging anew, and being killed


class Life(RuleBasedStateMachine):
    """A run that is killed now and then, and resumed."""

    def __init__(self):
        super().__init__()
        METER.start()
        self.folder = tempfile.TemporaryDirectory()
        self.copies = count()
        self.left = []  # connections of killed processes: nobody closed them
        self.ledger = Ledger.create(self.place() / "ledger.sqlite")
        self.scores = {}  # judge's name -> match -> the judgement that was recorded
        self.played = set()

    def place(self):
        folder = Path(self.folder.name, str(next(self.copies)))
        folder.mkdir()
        return folder

    def kill(self):
        """Go on from what is on the disk now."""
        place = self.place()
        for file in self.ledger.path.parent.iterdir():
            if not file.name.endswith("-shm"):  # memory, which a kill takes along
                shutil.copy(file, place)
        self.left.append(self.ledger)
        self.ledger = Ledger.open(place / "ledger.sqlite")

    def known(self, part, t):
        return {match.id: match for match in self.ledger.matches(part, t)}

    @rule(
        part=st.sampled_from(PARTS),
        t=st.integers(0, GENERATIONS - 1),
        left=st.none() | st.integers(0, 2 * PROMPTS),
    )
    def play(self, part, t, left):
        before = self.known(part, t)
        METER.start(left)
        try:
            matches = record_matches(opened(self.ledger), f"{t}/{part}", seatings(part, t), t, part)
        except Killed:
            self.kill()
            return
        assert matches == undisturbed(part, t)
        missing = [match for match in matches if match.id not in before]
        assert len(METER.paid) == 2 * len(missing), "what was recorded is not played again"
        self.played.add((part, t))

    @precondition(lambda self: self.played)
    @rule(
        data=st.data(),
        factor=st.sampled_from([1.0, 2.0]),
        left=st.none() | st.integers(0, 2 * PROMPTS),
    )
    def judge(self, data, factor, left):
        part, t = data.draw(st.sampled_from(sorted(self.played)))
        matches, judge = undisturbed(part, t), Digit(factor=factor)
        before = self.ledger.judgements_of([m.id for m in matches], judge.name)
        METER.start(left)
        try:
            made = judged(opened(self.ledger), judge, matches, f"{t}/{part}/{judge.name}", t, part)
        except Killed:
            self.kill()
            return
        assert [each.match for each in made] == [match.id for match in matches]
        assert all(each.judge == judge.name for each in made)
        for match, each in zip(matches, made, strict=True):
            for seat, turn in match.last_turns().items():
                assert each.score(seat, "score") == factor * int(turn.move.text[-1])
        new = [match for match in matches if match.id not in before]
        assert len(METER.paid) == 2 * len(new), "what was recorded is not judged again"

    @rule()
    def die(self):
        self.kill()

    @rule(part=st.sampled_from(PARTS))
    def die_while_writing(self, part):
        """Half of a transaction is on its way when the process ends."""
        METER.start()
        written = self.ledger
        try:
            with written.transaction():
                written.add_matches(undisturbed(part, 0)[:1])
                written.add_player(PlayerId("policy", 9), None, "none", {})
                self.kill()
                raise Killed
        except Killed:
            pass
        assert self.ledger.players() == []

    @invariant()
    def what_is_there_is_a_beginning_of_the_whole(self):
        for part in PARTS:
            for t in range(GENERATIONS):
                there = self.ledger.matches(part, t)
                assert there == undisturbed(part, t)[: len(there)]
                assert len(there) == PROMPTS or len(there) % CHUNK == 0

    @invariant()
    def a_judgement_once_made_stays(self):
        for t in range(GENERATIONS):
            for part in PARTS:
                ids = [match.id for match in undisturbed(part, t)]
                for judge in (Digit(), Digit(factor=2.0)):
                    now = self.ledger.judgements_of(ids, judge.name)
                    before = self.scores.setdefault((judge.name, part, t), {})
                    assert now.items() >= before.items()
                    before |= now

    def teardown(self):
        for ledger in (*self.left, self.ledger):
            ledger.close()
        self.folder.cleanup()


@pytest.mark.long
def test_a_run_is_killed_and_resumed():
    few = settings(max_examples=4, stateful_step_count=5, database=None)
    run_state_machine_as_test(Life, settings=few)


@pytest.mark.slow
def test_a_run_is_killed_and_resumed_often():
    """Adds longer lives to the short ones."""
    many = settings(max_examples=300, stateful_step_count=30, database=None)
    run_state_machine_as_test(Life, settings=many)


# -- what a match is known by


def ids_and_dice(ledger, seating, t=0, part="train", **changes):
    key = f"{t}/{part}/{len(ledger.stages())}"
    played = record_matches(opened(ledger, **changes), key, seating, t, part)
    return [(match.id, match.seed) for match in played]


def test_a_match_is_known_by_all_that_decides_it(ledger):
    prompt = prompts("train", 0)[0]
    seats = {"1": PlayerId("policy"), "2": PlayerId("policy")}
    one = [(prompt, seats)]
    (first,) = ids_and_dice(ledger, one)
    assert ids_and_dice(ledger, one) == [first], "and by nothing else"
    others = [
        *ids_and_dice(ledger, one, seed=4),
        *ids_and_dice(ledger, one, t=1),
        *ids_and_dice(ledger, one, part="held_out"),
        ids_and_dice(ledger, [*one, *one])[1],
        *ids_and_dice(ledger, [(prompts("train", 1)[0], seats)]),
        *ids_and_dice(ledger, [(prompt, {**seats, "2": PlayerId("policy", 1)})]),
    ]
    assert len({identity for identity, _ in [first, *others]}) == 7
    assert len({dice for _, dice in [first, *others]}) == 7


def test_a_finished_stage_is_not_played_again(ledger):
    once = record_matches(opened(ledger), "key", seatings("train", 0), 0, "train")
    METER.start(left=0)
    assert record_matches(opened(ledger), "key", seatings("train", 0), 0, "train") == once


def test_a_chunk_of_which_a_part_is_known_is_played(ledger):
    """As a ledger that was repaired may hold it."""
    whole = undisturbed("train", 0)
    ledger.add_matches([whole[0], whole[3]])
    METER.start()
    matches = record_matches(opened(ledger), "key", seatings("train", 0), 0, "train")
    assert matches == whole
    known = Judgement("j", whole[1].id, Digit().name, {"1": {"score": 9.0}})
    ledger.add_judgements([(whole[1], known)])
    made = judged(opened(ledger), Digit(), whole, "judge")
    assert [each.match for each in made] == [match.id for match in whole]


# -- judges beside each other


def test_a_second_judge_is_asked_and_each_has_its_own(ledger):
    matches = record_matches(opened(ledger), "key", seatings("train", 0), 0, "train")
    once = judged(opened(ledger), Digit(), matches, "first")
    twice = judged(opened(ledger), Digit(factor=2.0), matches, "second")
    for one, two in zip(once, twice, strict=True):
        assert two.score("1", "score") == 2 * one.score("1", "score")
    ids = [match.id for match in matches]
    assert list(ledger.judgements_of(ids, Digit().name).values()) == once
    assert list(ledger.judgements_of(ids).values()) == twice, "the newest"


# -- how much may be missing


def unjudged(ledger, texts, **changes):
    matches = record_matches(opened(ledger), "key", seatings("train", 0), 0, "train")
    judge = Digit(missing=texts(matches))
    judged(opened(ledger, **changes), judge, matches, "judge")
    return ledger.stage_facts("judge")


def two_of_ten(matches):
    """The texts of one seat of the first match and one of the third."""
    return tuple(matches[place].turns[0].move.text for place in (0, 2))


def test_the_unjudged_share_is_of_all_seats(ledger):
    facts = unjudged(ledger, two_of_ten)
    assert (facts["answers"], facts["unjudged_share"]) == (10, 0.2)
    assert facts["reasons"] == {"it cannot be read": 2}


def test_as_much_as_is_allowed_may_be_missing(ledger):
    assert unjudged(ledger, two_of_ten, max_unjudged=0.2)["unjudged_share"] == 0.2


def test_more_than_is_allowed_stops_the_run(ledger):
    with pytest.raises(NoSignal, match=r"20% of 10 .* 'score'"):
        unjudged(ledger, two_of_ten, max_unjudged=0.19)
    assert ledger.stage_facts("judge") is None


def test_a_score_is_missing_where_another_utility_is_played_for(ledger):
    with pytest.raises(NoSignal, match=r"100% of 10 .* 'welfare'"):
        unjudged(ledger, lambda matches: (), utility="welfare")


# -- stages


def test_a_stage_has_its_own_seconds_and_names_what_it_is_in(ledger, monkeypatch):
    """The outer one lasts from 0 to 20, the inner one from 10 to 13."""
    clock = SimpleNamespace(perf_counter=iter([0.0, 10.0, 13.0, 20.0]).__next__)
    monkeypatch.setattr("equipoise.runs.stage_clock.time", clock)
    run = opened(ledger)
    with run.stage("outer", "outer", 0) as facts:
        facts["found"] = 1
        with run.stage("inner", "inner", 0):
            pass
    inner, outer = ledger.stages()
    assert (inner.within, outer.within) == ("outer", None)
    assert (inner.seconds, outer.seconds) == (3.0, 17.0)
    assert outer.facts == {"found": 1}


def test_a_stage_that_fails_is_not_finished(ledger):
    run = opened(ledger)
    with pytest.raises(RuntimeError), run.stage("play", "0/play", 0):
        raise RuntimeError
    assert ledger.stage_facts("0/play") is None
    with run.stage("play", "0/play", 0):
        pass
    assert ledger.stages()[0].within is None, "the failed one is not around it"


@pytest.mark.parametrize(("samples", "matches"), [(1, [2, 2, 1]), (2, [4, 1]), (3, [5])])
def test_as_many_answers_grow_together_where_a_match_has_one_seat(ledger, samples, matches):
    run = opened(ledger, game=Answers(samples=samples))
    seats = {"1": PlayerId("policy")}
    planned = [
        Planned(prompt.id, 0, "benchmark", prompt, seats, 0) for prompt in prompts("held_out", 0)
    ]
    assert [len(chunk) for chunk in unplayed_chunks(run, planned)] == matches
    all_seats = [
        replace(plan, seats=dict.fromkeys(Answers(samples=samples).seats, seats["1"]))
        for plan in planned
    ]
    assert [len(chunk) for chunk in unplayed_chunks(run, all_seats)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("split", "batch_size", "matches"),
    [
        ("held_out", 1, [4, 1]),
        ("benchmark", 1, [4, 1]),
        ("held_out", 2, [5]),
        ("train", 2, [2, 2, 1]),
    ],
)
def test_what_is_measured_comes_in_several_batches_of_its_local_player(
    ledger, split, batch_size, matches
):
    player = Local.model_validate({"model": "builtin/clerk", "batch_size": batch_size})
    run = opened(ledger, game=Answers(samples=1), players={"policy": player})
    seats = {"1": PlayerId("policy")}
    planned = [Planned(p.id, 0, split, p, seats, 0) for p in prompts("held_out", 0)]
    assert [len(chunk) for chunk in unplayed_chunks(run, planned)] == matches
