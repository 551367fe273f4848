"""Weights that arrive at an engine are told from others, and the wrong ones are refused by name."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from equipoise.errors import ModelError
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.sampling.arrival_check import HandOver, Scores, check_arrival, fits
from equipoise.sampling.engines.base import player_of
from equipoise.types import View, user

WEIGHTS = "adapter_model.safetensors"
VIEWS = [View((user(f"How much is {n} and four?"),)) for n in range(5)]
SEEDS = [2**40 + n for n in range(5)]
STEP = 1e-3  # of the later generations' weights: changes of about a thousandth of a nat a token

# -- the numbers

DICE = np.random.default_rng(0)
BASE_A = DICE.normal(-2, 1, 64)
FIRST_A = BASE_A + DICE.normal(0, 0.05, 64)
SECOND_A = FIRST_A + DICE.normal(0, 0.01, 64)
OTHER_A = BASE_A + DICE.normal(0, 0.05, 64)


def received(sent_A, noise):
    """Scores of a receiver that holds the sender's weights, up to its rounding."""
    return Scores(sent_A, sent_A + DICE.normal(0, noise, 64))


def known(noise):
    return {"the base model": received(BASE_A, noise), "policy@1": received(FIRST_A, noise)}


@pytest.mark.parametrize("noise", [1e-7, 1e-3])
def test_the_new_weights_arrive_and_others_are_named(noise):
    hand_over, untold = check_arrival("policy@2", received(SECOND_A, noise), known(noise), 0.1)
    assert untold == []
    assert hand_over.is_told
    assert hand_over.share == pytest.approx(1, abs=0.15)
    wrong = {
        "as policy@1": FIRST_A,
        "as the base model": BASE_A,
        "neither as these weights": OTHER_A,
        "before them": BASE_A + (SECOND_A - BASE_A) / 2,  # half of all that was learned
    }
    for message, played_A in wrong.items():
        arrived = Scores(SECOND_A, received(played_A, noise).received_A)
        with pytest.raises(ModelError, match=message):
            check_arrival("policy@2", arrived, known(noise), 0.1)


def test_what_the_precision_cannot_show_is_said_and_does_not_stop():
    """The last step is a fifth of the noise; that from the base is five times as large as it."""
    noise = 0.01
    small_A = FIRST_A + DICE.normal(0, noise / 5, 64)
    for played_A in (small_A, FIRST_A):
        arrived = Scores(small_A, received(played_A, noise).received_A)
        hand_over, untold = check_arrival("policy@2", arrived, known(noise), 0.1)
        assert untold == ["policy@1"]
        assert hand_over.is_told
    arrived = Scores(small_A, received(BASE_A, noise).received_A)
    with pytest.raises(ModelError, match="as the base model"):
        check_arrival("policy@2", arrived, known(noise), 0.1)


def test_a_noisy_sender_does_not_make_its_share_too_low():
    """Noise in what was learned flattens a slope; its variance is taken out."""
    learned_A = DICE.normal(0, 0.02, 4000)
    start_A = DICE.normal(-2, 1, 4000)
    jitter = 0.01
    old = Scores(start_A, start_A)
    noisy_A = start_A + learned_A + DICE.normal(0, jitter, 4000)
    new = Scores(noisy_A, start_A + learned_A)
    assert HandOver.between(old, new, 4000).share == pytest.approx(0.8, abs=0.02)
    assert HandOver.between(old, new, 4000, jitter).share == pytest.approx(1, abs=0.03)


def test_nothing_fits_better_than_the_new_weights():
    assert fits(received(SECOND_A, 1e-6), known(1e-6)) is None
    arrived = Scores(SECOND_A, received(FIRST_A, 1e-6).received_A)
    assert fits(arrived, known(1e-6)) == "policy@1"


def test_a_name_says_whose_adapter_it_is():
    assert player_of("equipoise:policy@3:0a1b") == "policy@3"
    assert player_of("the base model") == "the base model"


# -- a server


@pytest.fixture
def generations(adapter_folder, tmp_path):
    """{"first/1": folder, ...}: two players, two generations of each, and half of one."""
    start = {"first": adapter_folder("llama", 1)[1], "second": adapter_folder("llama", 2)[1]}
    folders: dict[str, Path] = {}
    for name, factor in (("first", 1.0), ("second", -2.0)):
        for generation in (1, 2):
            folder = tmp_path / name / str(generation)
            shutil.copytree(start[name], folder)
            weights = load_file(folder / WEIGHTS)
            if generation == 2:
                for place, key in enumerate(sorted(weights)):
                    sign = -1 if place % 3 else 1
                    weights[key] = weights[key] + factor * sign * STEP
            save_file(weights, folder / WEIGHTS, {"format": "pt"})
            folders[f"{name}@{generation}"] = folder
    folders["stranger"] = adapter_folder("llama", 3)[1]
    half = tmp_path / "half" / "2"
    shutil.copytree(folders["first@2"], half)
    weights = load_file(half / WEIGHTS)
    for key in sorted(weights)[: len(weights) // 2]:
        weights[key] = weights[key] * 0
    save_file(weights, half / WEIGHTS, {"format": "pt"})
    folders["half"] = half
    return folders


@pytest.fixture
def play(model_folder):
    """play(servers, folder, resources) -> the actor, which has played."""

    def run(servers, folder, resources):
        player = Player.build(
            {
                "kind": "local",
                "model": str(model_folder("llama")),
                "lora": {"r": 2, "alpha": 4},
                "learns": True,
                "device": "cpu",
                "max_new_tokens": 12,
                "max_length": 128,
                "sampler": {
                    "kind": "vllm",
                    "patience": 20,
                    "base_url": [server.url for server in servers],
                },
            }
        )
        actor = player.open(folder, resources)
        actor.act(VIEWS, SEEDS)
        return actor

    return run


@pytest.mark.long
def test_the_right_weights_arrive(vllm_server, play, generations):
    server, resources = vllm_server("llama"), Resources()
    for name in ("first@1", "second@1", "first@2", "second@2"):
        facts = play([server], generations[name], resources).sampler_facts()
        assert facts["played_share"] == pytest.approx(1, abs=0.05)
        assert "not_told_from" not in facts


@pytest.mark.parametrize(
    ("plays", "message"),
    [
        ("first@1", r"first@2 did not arrive: it answers as first@1 \("),
        (None, r"first@2 did not arrive: it answers as the base model \("),
        ("second@1", r"first@2 did not arrive: it answers as second@1 \("),
        ("stranger", r"first@2 did not arrive: it answers neither as these weights nor"),
        ("half", r"first@2 did not arrive: it answers neither as these weights nor"),
    ],
)
def test_a_server_with_other_weights_is_refused(vllm_server, play, generations, plays, message):
    """The previous generation's, the base, another learner's, another run's, half of them."""
    server, resources = vllm_server("llama"), Resources()
    play([server], generations["first@1"], resources)
    play([server], generations["second@1"], resources)
    wrong = None if plays is None else str(generations[plays])
    new = str(generations["first@2"].resolve())
    server.plays = lambda folder: wrong if folder == new else folder
    with pytest.raises(ModelError, match=message):
        play([server], generations["first@2"], resources)


def test_two_learners_whose_adapters_are_exchanged_are_noticed(vllm_server, play, generations):
    server, resources = vllm_server("llama"), Resources()
    first, second = (str(generations[name].resolve()) for name in ("first@1", "second@1"))
    exchanged = {first: second, second: first}
    play([server], None, resources)
    server.plays = lambda folder: exchanged[folder]
    with pytest.raises(ModelError, match="first@1 did not arrive"):
        play([server], generations["first@1"], resources)


@pytest.mark.long
def test_a_restarted_server_proves_its_weights_again(vllm_server, play, generations):
    """After the restart it knows a name and answers as the base."""
    server, resources = vllm_server("llama"), Resources()
    actor = play([server], generations["first@1"], resources)
    scored = sum("prompt_logprobs" in body for body in server.asked())
    actor.act(VIEWS, SEEDS)
    assert scored == sum("prompt_logprobs" in body for body in server.asked()), "once is enough"
    server.restart()
    server.plays = lambda folder: None
    with pytest.raises(ModelError, match="first@1 did not arrive: it answers as the base model"):
        actor.act(VIEWS, SEEDS)


@pytest.mark.long
def test_each_server_of_a_pool_has_to_prove_its_weights(vllm_server, play, generations):
    servers, resources = [vllm_server("llama"), vllm_server("llama")], Resources()
    play(servers, generations["first@1"], resources)
    servers[1].plays = lambda folder: str(generations["first@1"])
    with pytest.raises(ModelError, match="did not arrive") as caught:
        play(servers, generations["first@2"], resources)
    assert servers[1].url.removesuffix("/v1") in str(caught.value)


def test_right_weights_with_raw_logprobs_are_refused(vllm_server, play, generations):
    server = vllm_server("llama")
    server.logprobs = "raw_logprobs"
    with pytest.raises(ModelError, match="raw ones"):
        play([server], generations["first@1"], Resources())
