"""What workers compute is what is computed here, in units of whatever size: by workers that are
threads of this process.
"""

from functools import partial

import msgspec
import numpy as np
import pytest
from judge_context import TestContext

from equipoise.errors import EquipoiseError
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge
from equipoise.learners.base import Learner, TrainingBatch
from equipoise.learners.fine_tuning import FineTuning
from equipoise.losses.base import PreferenceLoss
from equipoise.models.progress import following
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.together import MoveRequest
from equipoise.runs.executors import units
from equipoise.runs.executors.dispatcher import Dispatcher, RemoteActor
from equipoise.runs.executors.units import Act, Order, Part, UnitRunner, Weighted
from equipoise.runs.executors.worker_pool import WorkerPool
from equipoise.types import Match, Move, Pair, PlayerId, Prompt, Turn, View, user

pytestmark = pytest.mark.long  # tiny models, opened once here and once there
VIEWS = [View((user(f"How much is {n} and four?"),)) for n in range(5)]


class Here:
    """A worker that is no other process."""

    def __init__(self):
        self.runner, self.orders = UnitRunner(), []

    def do(self, order):
        self.orders.append(msgspec.msgpack.decode(order, type=Order).unit)
        return self.runner.do(order)

    def close(self):
        pass


@pytest.fixture
def pool():
    made = WorkerPool(lambda i: Here(), 1)
    yield made
    made.close()


def done_by(pool):
    return pool._workers[0].orders


@pytest.fixture
def player(model_folder):
    """player(**settings) is a local player of the tiny Llama."""

    def build(**settings):
        given = {"model": str(model_folder("llama")), "device": "cpu", "max_new_tokens": 5}
        return Player.build({"kind": "local", "lora": {"r": 2, "alpha": 4}, **given, **settings})

    return build


def test_moves_are_those_of_this_process_whatever_the_units(pool, player, adapter_folder):
    folders = [None, adapter_folder("llama", 1)[1]]
    away, home = Dispatcher(pool, 3), Dispatcher(None, 3)
    scripted = Player.build({"kind": "scripted", "texts": ["a", "b"]})

    def requests(dispatcher):
        resources = Resources()
        opened = [dispatcher.open(player(), folder, resources) for folder in folders]
        opened.append(dispatcher.open(player(temperature=0.3), None, resources))
        opened.append(dispatcher.open(scripted, None, resources))
        own = [VIEWS[:4], VIEWS[3:], VIEWS[:1], VIEWS[:2]]
        seeds = [[n + 10 * k for n in range(len(v))] for k, v in enumerate(own)]
        return [MoveRequest(*each) for each in zip(opened, own, seeds, strict=True)]

    there = requests(away)
    assert [isinstance(each.actor, RemoteActor) for each in there] == [True, True, True, False]
    assert there[0].actor.batch_key == there[1].actor.batch_key != there[2].actor.batch_key
    heard = []
    with following(heard.append):
        made = away.act(there)
    expected = home.act(requests(home))
    assert [[m.text for m in moves] for moves in made] == [
        [m.text for m in moves] for moves in expected
    ]
    assert [[m.token_ids for m in moves] for moves in made[:3]] == [
        [m.token_ids for m in moves] for moves in expected[:3]
    ]
    assert [m.text for m in made[3]] == ["a", "b"]
    acts = [unit for unit in done_by(pool) if isinstance(unit, Act)]
    assert [(len(unit.players), unit.by) for unit in acts] == [
        *((1, [0, 0, 0]), (2, [0, 1, 1]), (1, [0]))
    ]
    assert sum(heard) == 7 + 2 or sum(heard) == 7
    assert away.act([]) == []


def test_scores_are_those_of_this_process(pool, player, adapter_folder):
    folder = adapter_folder("llama", 1)[1]
    away = Dispatcher(pool, 2).open(player(), folder, Resources())
    home = player().open(folder, Resources())
    assert away.encoding == home.encoding
    chats, texts = [view.messages for view in VIEWS], ["four", "It is six.", "seven", "8", "no"]
    for settings in ({}, {"whole": True}, {"cut": [True, False, True, False, False]}):
        found, wanted = (actor.logprobs(chats, texts, **settings) for actor in (away, home))
        assert [n for _, n in found] == [n for _, n in wanted]
        assert [p for p, _ in found] == pytest.approx([p for p, _ in wanted], abs=1e-4)
    ids = [[5, 6, 7], [8, 9], [10, 11]]
    assert away.token_sums(ids, ids[::-1]) == pytest.approx(
        home.token_sums(ids, ids[::-1]), abs=1e-4
    )
    words = Dispatcher(pool, 2).read_words(away, VIEWS, ["yes", "no"])
    assert len(words) == 5
    alone = Dispatcher(None, 2).read_words(home, VIEWS, ["yes", "no"])
    for one, other in zip(words, alone, strict=True):
        assert msgspec.to_builtins(one).keys() == msgspec.to_builtins(other).keys()
        for name, value in msgspec.to_builtins(other).items():
            assert msgspec.to_builtins(one)[name] == pytest.approx(value, abs=1e-5)
    kinds = [type(unit).__name__ for unit in done_by(pool)]
    assert kinds == [*["Logprobs"] * 9, *["TokenSums"] * 2, *["Beginnings"] * 3]
    away.close()


def test_a_judge_with_a_model_of_its_own_judges_there_as_here(pool, reward_folder):
    folder = reward_folder("llama", 1)
    judge = Judge.build({"kind": "reward_model", "model": str(folder), "device": "cpu"})
    judge = judge.at(TestContext())
    prompts = {f"p{n}": Prompt(f"p{n}", VIEWS[n].messages) for n in range(3)}
    seats = {"1": PlayerId("a"), "2": PlayerId("b")}
    matches = [
        Match(f"m{n}", 0, "train", "answers", f"p{n}", seats, 0, tuple(
            Turn(seat, VIEWS[n], Move(f"It is {n + int(seat)}.")) for seat in seats
        ))
        for n in range(3)
    ]  # fmt: skip
    heard = []
    with following(heard.append):
        there = Dispatcher(pool, 2).judge(judge, matches, prompts)
    here = Dispatcher(None, 2).judge(judge, matches, prompts)
    assert [j.match for j in there] == ["m0", "m1", "m2"]
    for one, other in zip(there, here, strict=True):
        assert one.by_seat("score") == pytest.approx(other.by_seat("score"), abs=1e-5)
    sizes = [(len(unit.matches), sorted(unit.prompts)) for unit in done_by(pool)]
    assert sizes == [(2, ["p0", "p1"]), (1, ["p2"])]
    assert sum(heard) >= 6
    rule = Judge.build("shorter").at(TestContext())
    assert len(Dispatcher(pool, 2).judge(rule, matches, prompts)) == 3
    assert len(done_by(pool)) == 2, "rules are asked here"


def test_a_training_there_learns_what_it_learns_here(pool, player, tmp_path):
    from safetensors.numpy import load_file

    def batch(name):
        home = tmp_path / name
        home.mkdir()
        pairs = [
            Pair(str(n), 0, str(n), VIEWS[n].messages, f"It is {n}.", "No.", 1.0, 0.0)
            for n in range(4)
        ]
        lines = []
        return lines, TrainingBatch(
            learner=PlayerId("policy"), player=player(learns=True), weights=None, output=home,
            scratch=tmp_path / f"{name} scratch", seed=3, game=Answers(),
            loss=PreferenceLoss.build("dpo"), pairs=pairs, opponents=[(PlayerId("policy"), 1.0)],
            opponent_chosen_KB=np.full((1, 4), -9.0), opponent_rejected_KB=np.full((1, 4), -9.0),
            log=lines.append,
        )  # fmt: skip

    quick = {"kind": "preference", "batch_size": 2, "learning_rate": 1e-2, "log_steps": 1}
    trainer = Learner.build({**quick, "save_steps": 0})
    away, home = Dispatcher(pool, 2), Dispatcher(None, 2)
    several = Learner.build({**quick, "launch": {"num_processes": 2}})
    assert away.trains(trainer)
    assert isinstance(trainer, FineTuning)
    assert not (home.trains(trainer) or away.trains(several))
    assert not away.trains(Learner.build("policy_gradient"))
    here_lines, here = batch("here")
    there_lines, there = batch("there")
    here_facts = trainer.learn(here)
    training = away.learn(trainer, there)
    there_facts = training.result(there_lines.append)
    assert there_facts["loss"] == pytest.approx(here_facts["loss"], rel=1e-4)
    assert [line.keys() for line in there_lines] == [line.keys() for line in here_lines]
    (one,), (other,) = (list(b.output.glob("*.safetensors")) for b in (here, there))
    for name, weight in load_file(one).items():
        np.testing.assert_allclose(load_file(other)[name], weight, atol=1e-5)


def test_a_runner_keeps_what_it_opened_for_its_epoch_and_says_what_failed(tmp_path):
    runner = UnitRunner()
    assert runner.is_started()
    scripted = Part.of(Player.build({"kind": "scripted", "texts": ["a", "b"]}))
    by = [Weighted(scripted, None), Weighted(scripted, str(tmp_path))]
    assert by[0].key != by[1].key == Weighted(scripted, str(tmp_path)).key

    def ask(unit, epoch, kind):
        order = msgspec.msgpack.encode(Order(unit, epoch, [str(tmp_path)]))
        return msgspec.msgpack.decode(runner.do(order), type=units.Done).value(kind)

    act = Act(by, [1, 0, 1], VIEWS[:3], [1, 2, 4])
    assert [move.text for move in ask(act, 0, list[Move])] == ["b", "a", "a"]
    opened = dict(runner._actors)
    ask(act, 0, list[Move])
    assert len(opened) == 2
    assert all(runner._actors[key] is opened[key] for key in opened)
    closed = []
    for name, actor in opened.items():
        actor.close = partial(closed.append, name)
    ask(act, 1, list[Move])
    assert not any(runner._actors[key] is opened[key] for key in opened)
    assert sorted(closed) == sorted(opened)
    assert ask(units.ReleaseAll(), 1, None) is None
    assert runner._actors == {}
    odd = Act([Weighted(Part("no.module:Kind", {}), None)], [0], VIEWS[:1], [1])
    with pytest.raises(EquipoiseError, match=r"(?s)a worker failed:.*no\.module"):
        ask(odd, 1, list[Move])
    with pytest.raises(AssertionError, match="a worker's judge asks no player"):
        units._nobody(PlayerId("a"))
