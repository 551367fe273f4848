"""Several adapters on one base in one batch: the moves that each gives alone."""

import functools
from collections import Counter

import pytest
import torch

from equipoise.models.mixed_adapters import MixedAdapters
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.players.scripted import Scripted
from equipoise.players.together import MoveRequest, act_together
from equipoise.sampling.sampling_batch import SamplingBatch
from equipoise.types import View, user

LORA = {"r": 2, "alpha": 4}
QUESTIONS = ["Yes or no?", "How much is three and four? Then say why.", "Why?"]
VIEWS = [View((user(text),)) for text in QUESTIONS]


@pytest.fixture(params=["llama", pytest.param("gemma3", marks=pytest.mark.long)])
def actors(request, model_folder, adapter_folder):
    """The base as it is, and with two adapters."""
    family, resources = request.param, Resources()
    settings = {"model": str(model_folder(family)), "lora": LORA, "max_new_tokens": 12}
    player = Local.model_validate(settings)
    folders = [None, *(adapter_folder(family, n)[1] for n in range(2))]
    return [player.open(folder, resources) for folder in folders]


def watched(monkeypatch) -> list[int]:
    """The number of rows in every batch that is begun from now on."""
    sizes: list[int] = []
    begin = SamplingBatch.__init__

    def watching(self, model, prompts, *more):
        sizes.append(len(prompts))
        begin(self, model, prompts, *more)

    monkeypatch.setattr(SamplingBatch, "__init__", watching)
    return sizes


@pytest.mark.long
def test_adapters_in_one_batch_answer_as_they_do_alone(actors, monkeypatch):
    alone = [actor.act(VIEWS, [1, 2, 3]) for actor in actors]
    sizes = watched(monkeypatch)
    together = act_together([MoveRequest(actor, VIEWS, [1, 2, 3]) for actor in actors])
    assert sizes == [9]
    for one, other in zip(alone, together, strict=True):
        for move, mixed in zip(one, other, strict=True):
            assert (mixed.text, mixed.token_ids) == (move.text, move.token_ids)
            assert mixed.logprobs == pytest.approx(move.logprobs, abs=2e-4)
    assert len({tuple(m.text for m in moves) for moves in together}) == 3
    assert [actor.act(VIEWS, [1, 2, 3]) for actor in actors] == alone


@pytest.mark.long
def test_one_prompt_is_read_once_for_each_adapter(actors, monkeypatch):
    shapes = []
    forward = type(actors[0].adapted.base.model).forward

    @functools.wraps(forward)
    def watching(self, input_ids, **more):
        shapes.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **more)

    act_together([MoveRequest(actor, VIEWS[:1], [1]) for actor in actors])
    monkeypatch.setattr(type(actors[0].adapted.base.model), "forward", watching)
    act_together([MoveRequest(actor, VIEWS[:1] * 4, range(4)) for actor in actors])
    assert shapes[0][0] == 3
    assert shapes[1] == (12, 1)


def test_others_answer_by_themselves_and_failures_stay_in_their_place(actors):
    scripted = Scripted.model_validate({"text": "hello"}).open(None, Resources())
    unanswerable = View(())
    own = [MoveRequest(actor, [unanswerable, VIEWS[0]], [1, 2]) for actor in actors]
    moves = act_together([own[0], MoveRequest(scripted, VIEWS, [1, 2, 3]), *own[1:]])
    assert [len(of_one) for of_one in moves] == [2, 3, 2, 2]
    assert {move.text for move in moves[1]} == {"hello"}
    for actor, of_one in zip(actors, (moves[0], *moves[2:]), strict=True):
        assert of_one[0].finish == "error"
        assert of_one[1].token_ids == actor.act(VIEWS[:1], [2])[0].token_ids


def test_fresh_players_of_one_base_are_one_batch(actors, monkeypatch):
    alone = actors[0].act(VIEWS, [1, 2, 3])
    twin = actors[0].with_settings(actors[0].player)
    sizes = watched(monkeypatch)
    moves = act_together(
        [MoveRequest(actors[0], VIEWS, [1, 2, 3]), MoveRequest(twin, VIEWS, [1, 2, 3])]
    )
    assert sizes == [6]
    for of_one in moves:
        assert [m.token_ids for m in of_one] == [m.token_ids for m in alone]


def test_other_settings_of_sampling_are_another_batch(actors, monkeypatch):
    greedy = actors[1].with_settings(actors[1].player.model_copy(update={"temperature": 0}))
    sizes = watched(monkeypatch)
    act_together([MoveRequest(actor, VIEWS, [1, 2, 3]) for actor in (*actors, greedy)])
    assert Counter(sizes) == {9: 1, 3: 1}


@pytest.mark.long
def test_a_model_whose_rows_are_mixed_up_is_asked_one_adapter_at_a_time(actors, monkeypatch):
    alone = [actor.act(VIEWS, [1, 2, 3]) for actor in actors]
    monkeypatch.setattr(MixedAdapters, "own", lambda self, ranks, like: torch.ones(1, sum(ranks)))
    monkeypatch.setattr(MixedAdapters, "rows_of", lambda self, adapter: slice(0, 1))
    together = act_together([MoveRequest(actor, VIEWS, [1, 2, 3]) for actor in actors])
    assert together == alone
    assert not actors[0].adapted.base.mixes([None, actors[1].adapted.adapter])
