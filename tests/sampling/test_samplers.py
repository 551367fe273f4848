"""Players that an engine samples, against a server on loopback that speaks vLLM's protocol with the
project's own sampler: same seeds, so the same tokens as in-process.
"""

from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from equipoise.errors import ModelError
from equipoise.models.resources import Resources
from equipoise.models.token_choice import SamplingSettings
from equipoise.players.base import Player
from equipoise.sampling.engines.base import (
    EngineAdapter,
    EngineRow,
    RemoteSampler,
    SampledAnswer,
    Sampler,
)
from equipoise.sampling.engines.remote_engine import sampler_faults
from equipoise.sampling.engines.vllm import Vllm
from equipoise.types import View, user

LONG = pytest.mark.long
VIEWS = [View((user(f"How much is {n // 2} and four?"),)) for n in range(6)]
SEEDS = [2**62 + n for n in range(6)]


@pytest.fixture
def player(model_folder):
    """player(server, **settings) -> a local player of the tiny Llama; server None: it is sampled in
    this process.
    """

    def build(*servers, sampler=None, **settings):
        given = {"kind": "vllm", "patience": 20, **(sampler or {})}
        given["base_url"] = [server.url for server in servers]
        return Player.build(
            {
                "kind": "local",
                "model": str(model_folder("llama")),
                "lora": {"r": 2, "alpha": 4},
                "learns": True,
                "device": "cpu",
                "max_new_tokens": 6,
                "max_length": 128,
                "sampler": given if servers else sampler or "local",
                **settings,
            }
        )

    return build


def play(player, weights: Path | None = None, views=VIEWS, seeds=SEEDS):
    return player.open(weights, Resources()).act(views, seeds)


def ids(moves):
    return [move.token_ids for move in moves]


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.6},
        pytest.param({"temperature": 0}, marks=LONG),
        pytest.param({"top_p": 0.8}, marks=LONG),
    ],
)
def test_an_engine_gives_what_this_process_gives(vllm_server, player, adapter_folder, settings):
    server = vllm_server("llama")
    weights = [None, adapter_folder("llama", 1)[1], adapter_folder("llama", 2)[1]]
    process, engine = Resources(), Resources()
    for folder in weights:
        here = player(**settings).open(folder, process).act(VIEWS, SEEDS)
        there = player(server, **settings).open(folder, engine).act(VIEWS, SEEDS)
        for mine, its in zip(here, there, strict=True):
            assert (its.text, its.token_ids, its.finish) == (mine.text, mine.token_ids, mine.finish)
            assert its.logprobs == pytest.approx(mine.logprobs, abs=1e-4)
            assert its.uncut == ()  # after the cuts alone is what vLLM tells
    assert len(set(server.adapters)) == 2


def test_a_view_that_cannot_be_encoded_is_an_error_move(vllm_server, player):
    moves = play(player(vllm_server("llama")), None, [View(()), VIEWS[0]], SEEDS[:2])
    (alone,) = player().open(None, Resources()).act(VIEWS[:1], SEEDS[1:2])
    assert moves[0].error and moves[1].token_ids == alone.token_ids, "by its own dice"


def test_an_engine_gets_adapters_and_no_whole_weights(vllm_server, player, model_folder):
    whole = player(vllm_server("llama"), lora=None, learns=False)
    with pytest.raises(ModelError, match="holds whole weights; sampler: vllm gets"):
        whole.open(model_folder("llama"), Resources())


def test_an_adapter_is_named_by_its_weights(adapter_folder):
    folders = [adapter_folder("llama", n)[1] for n in (1, 2)]
    names = {EngineAdapter.of("policy@3", folder).name for folder in folders}
    assert len(names) == 2
    assert all(name.startswith("equipoise:policy@3:") for name in names)


@pytest.mark.long
def test_the_adapter_that_was_not_used_for_longest_makes_room(vllm_server, player, adapter_folder):
    server = vllm_server("llama")
    server.adapters["somebody else's"] = "elsewhere"
    resources = Resources()
    settings = player(server, sampler={"adapters": 2, "probes": 0})
    actors = [settings.open(adapter_folder("llama", n)[1], resources) for n in (1, 2, 3)]
    for n in (0, 1, 0, 2):
        actors[n].act(VIEWS[:1], SEEDS[:1])
    kept = [name for name in server.adapters if name.startswith("equipoise:")]
    names = [EngineAdapter.of("", adapter_folder("llama", n)[1]).name for n in (1, 3)]
    digests = [name.rpartition(":")[2] for name in names]
    assert sorted(name.rpartition(":")[2] for name in kept) == sorted(digests)
    assert "somebody else's" in server.adapters
    assert server.paths().count("/v1/load_lora_adapter") == 3


@pytest.mark.long
def test_players_share_the_engine_and_move_at_the_same_time(vllm_server, player, adapter_folder):
    server, resources = vllm_server("llama"), Resources()
    settings = player(server, sampler={"probes": 0})
    actors = [settings.open(adapter_folder("llama", n)[1], resources) for n in (1, 2)]
    waiting = [actor.submit(VIEWS[:2], SEEDS[:2]) for actor in actors]
    moves = [wait() for wait in waiting]
    alone = [play(player(), adapter_folder("llama", n)[1])[:2] for n in (1, 2)]
    assert list(map(ids, moves)) == list(map(ids, alone))


@pytest.mark.long
def test_a_restarted_server_gets_its_adapters_again(vllm_server, player, adapter_folder):
    server = vllm_server("llama")
    actor = player(server).open(adapter_folder("llama", 1)[1], Resources())
    first = actor.act(VIEWS, SEEDS)
    server.restart()
    assert actor.act(VIEWS, SEEDS) == first


@pytest.mark.long
def test_what_arrived_before_a_crash_is_not_asked_again(vllm_server, player, adapter_folder):
    server = vllm_server("llama")
    folder = adapter_folder("llama", 1)[1]
    actor = player(server, sampler={"probes": 0, "concurrency": 1}).open(folder, Resources())
    actor.act(VIEWS[:1], SEEDS[:1])
    server.break_after = 2
    waiting = actor.submit(VIEWS, SEEDS)
    while server.break_after:
        assert len(server.requests) < 100
    server.restart()
    assert ids(waiting()) == ids(play(player(), folder))
    asked = [body["seed"] for body in server.asked()[1:]]
    answered = [seed for seed in asked if asked.count(seed) == 1]
    assert len(answered) >= len(VIEWS) - 1  # the row that met the crash, at most


def test_a_server_that_is_gone_stops_the_run_when_patience_is_over(vllm_server, player):
    server = vllm_server("llama")
    gone = player(server, sampler={"patience": 0})
    server.stop()
    with pytest.raises(ModelError, match="equipoise sampler"):
        play(gone)
    (fault,) = sampler_faults(gone.sampler)
    assert server.url.removesuffix("/v1") in fault


@pytest.mark.long
def test_a_busy_server_is_asked_again(vllm_server, player):
    server = vllm_server("llama")
    actor = player(server, sampler={"probes": 0}).open(None, Resources())
    actor.act(VIEWS[:1], SEEDS[:1])
    server.busy = 2
    assert ids(actor.act(VIEWS, SEEDS)) == ids(play(player()))


@pytest.mark.long
def test_a_pool_keeps_a_prompt_at_one_server_and_outlives_the_other(vllm_server, player):
    servers = [vllm_server("llama"), vllm_server("llama")]
    actor = player(*servers, sampler={"probes": 0}).open(None, Resources())
    moves = actor.act(VIEWS, SEEDS)
    prompts = [{tuple(body["prompt"]) for body in s.asked()} for s in servers]
    assert all(prompts)
    assert not prompts[0] & prompts[1]
    servers[0].stop()
    servers[0].break_after = 0  # connections that are kept open break, too
    assert ids(actor.act(VIEWS, SEEDS)) == ids(moves) == ids(play(player()))


def test_raw_logprobs_are_refused(vllm_server, player):
    server = vllm_server("llama")
    server.logprobs = "raw_logprobs"
    with pytest.raises(ModelError, match=r"raw ones.*--logprobs-mode processed"):
        play(player(server))
    server.tells_mode = True
    (fault,) = sampler_faults(player(server).sampler)
    assert "raw_logprobs" in fault
    assert "equipoise sampler" in fault


def test_other_weights_are_refused(vllm_server, player):
    with pytest.raises(ModelError, match=r"max_gap = 0\.1: it serves another model"):
        play(player(vllm_server("qwen3")))


@pytest.mark.long
def test_what_is_recorded_of_an_engine(vllm_server, player):
    actor = player(vllm_server("llama")).open(None, Resources())
    actor.act(VIEWS, SEEDS)
    facts = actor.sampler_facts()
    assert facts.pop("probe_gap") < 1e-4
    assert facts == {"engine": "vllm", "version": "0.32.0", "logprobs": "processed_logprobs"}


@pytest.mark.long
def test_a_server_sleeps_while_a_learner_needs_the_memory(vllm_server, player):
    server = vllm_server("llama")
    actor = player(server, sampler={"sleep": True}).open(None, Resources())
    first = actor.act(VIEWS, SEEDS)
    actor.sleep()
    assert server.asleep
    assert actor.act(VIEWS, SEEDS) == first
    assert not server.asleep
    actor.close()
    assert server.asleep
    again = player(server, sampler={"sleep": True}).open(None, Resources())
    assert again.act(VIEWS, SEEDS) == first


def test_a_server_that_was_told_to_stay_awake_is_left_awake(vllm_server, player):
    server = vllm_server("llama")
    actor = player(server).open(None, Resources())
    actor.act(VIEWS[:1], SEEDS[:1])
    actor.close()
    assert not server.asleep
    assert "/sleep?level=1" not in server.paths()


URL = {"base_url": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampler": {"kind": "vllm", **URL}, "lora": None}, "set lora, or sampler"),
        ({"sampler": {"kind": f"{__name__}:OwnSampler", **URL}}, "takes no adapter while it runs"),
        (
            {"sampler": {"kind": "vllm", **URL}, "lora": {}, "repetition_penalty": 1.1},
            "counts the prompt's tokens, too",
        ),
        ({"sampler": {"kind": "vllm"}}, "base_url"),
        ({"sampler": {"kind": "vllm", "base_url": "127.0.0.1:1"}}, "http://"),
        ({"sampler": {"kind": "vllm", "base_url": "http://k@h"}}, "no key"),
        ({"sampler": {"kind": "vllm", "base_url": ["http://h", "http://h/v1"]}}, "twice"),
        ({"sampler": {"kind": "vlmm"}}, "did you mean 'vllm'"),
    ],
)
def test_settings_that_cannot_work_are_refused(player, settings, message):
    with pytest.raises(ValidationError, match=message):
        player(**settings)


# -- protocols

ROW = EngineRow([1, 2, 3], 7, 5)
CUT = SamplingSettings(0.7, top_k=5, top_p=0.9)


class OwnSampler(RemoteSampler):
    """A sampler of a user's own, with no more than it must have, on vLLM's way of answering."""

    kind: Literal["own"] = "own"
    answer_path: ClassVar = Vllm.answer_path
    logprobs_are: ClassVar = Vllm.logprobs_are

    def body(self, model, row, settings, stop_ids) -> dict[str, Any]:
        return Vllm.body(self, "base", row, settings, stop_ids)

    def read(self, reply, settings, stop_ids) -> SampledAnswer:
        return Vllm.read(self, reply, settings, stop_ids)


@pytest.mark.long
def test_a_sampler_of_ones_own_needs_two_methods(vllm_server, player, adapter_folder):
    server = vllm_server("llama")
    own = {"kind": f"{__name__}:OwnSampler", "patience": 0}
    frozen = player(server, sampler=own, learns=False)
    assert ids(play(frozen)) == ids(play(player()))
    actor = frozen.open(None, Resources())
    actor.act(VIEWS, SEEDS)
    assert actor.sampler_facts()["version"] == "unknown"
    with pytest.raises(ModelError, match="takes no adapter while it runs"):
        play(frozen, adapter_folder("llama", 1)[1])
    sleeping = player(server, sampler={**own, "sleep": True}, learns=False)
    with pytest.raises(ModelError, match="does not sleep; leave out"):
        sleeping.open(None, Resources()).sleep()


def test_vllm_without_token_ids_is_too_old():
    engine = Vllm.model_validate({"base_url": "http://h:1"})
    old = {"choices": [{"token_ids": None, "logprobs": {"token_logprobs": [0.0]}}]}
    with pytest.raises(ValueError, match=r"0\.10\.2"):
        engine.read(old, CUT, [9])
    guided = engine.body("m", EngineRow([1], 7, 5, {"type": "object"}), CUT, [9])
    assert guided["structured_outputs"] == {"json": {"type": "object"}}


class Unfinished(RemoteSampler):
    """Lacks the path that it asks."""

    kind: Literal["unfinished"] = "unfinished"
    logprobs_are: ClassVar[str] = "of the model"

    def body(self, model, row, settings, stop_ids):
        return {}

    def read(self, reply, settings, stop_ids):
        raise AssertionError


def test_a_sampler_that_lacks_an_attribute_is_refused_when_it_is_named():
    with pytest.raises(PydanticCustomError, match="answer_path"):
        Sampler.find(f"{__name__}:Unfinished")
