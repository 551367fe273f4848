"""Requests join, leave and share a decoder; each is answered as it would be alone."""

from collections import deque

import pytest
import torch
from transformers import AutoModelForCausalLM

from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.decode_slots import DecodeRequest
from equipoise.sampling.decoder import Decoder
from equipoise.sampling.sampling import sample

PROMPTS = [[7, 8, 9, 10], [11, 12], [13, 14, 15]]
SETTINGS = [SamplingSettings(0.8), SamplingSettings(0.0), SamplingSettings(1.1, top_k=9)]
LIMITS = [9, 5, 14]


@pytest.fixture(scope="module")
def model(model_folder):
    folder = model_folder("llama")
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def decoder(model, waiting, slots, **more):
    return Decoder(model, waiting, slots, stop_ids=(), pad_id=0, **more)


def requests():
    rows = zip(PROMPTS, [3, 4, 5], LIMITS, SETTINGS, strict=True)
    return [DecodeRequest(*row) for row in rows]


def alone(model, n):
    made = {"stop_ids": (), "pad_id": 0, "batch_size": 1}
    return sample(model, [PROMPTS[n]], [3 + n], [LIMITS[n]], SETTINGS[n], **made)[0].token_ids


def let_in(decoder):
    decoder.read(decoder.take(decoder.slots.free))


def test_requests_with_their_own_settings_join_while_others_grow(model):
    asked, waiting = requests(), deque()
    made = decoder(model, waiting, 3)
    for request in asked:  # each two rounds after the one before
        waiting.append(request)
        let_in(made)
        made.round()
        made.round()
    while len(made):
        made.round()
    assert [request.answer.token_ids for request in asked] == [alone(model, n) for n in range(3)]


def test_others_take_the_places_of_finished_and_cancelled_ones(model):
    asked = requests()
    waiting = deque(asked)
    made = decoder(model, waiting, 1)
    let_in(made)
    made.round()
    asked[0].cancelled = True
    asked[1].cancelled = True  # while it waits
    while waiting or len(made):
        if made.refills:
            let_in(made)
        if len(made):
            made.round()
    assert asked[1].answer is None
    assert asked[2].answer.token_ids == alone(model, 2)


def test_two_decoders_share_a_queue(model):
    asked = requests()
    waiting = deque(asked)
    first, second = decoder(model, waiting, 2), decoder(model, waiting, 1)
    let_in(first)
    let_in(second)
    assert (len(first), len(second), len(waiting)) == (2, 1, 0)
    for made in (first, second):
        while len(made):
            made.round()
    assert [request.answer.token_ids for request in asked] == [alone(model, n) for n in range(3)]


def test_no_more_is_read_at_once_than_is_allowed(model):
    asked = requests()
    made = decoder(model, deque(asked), 3, most_read=8)
    assert made.take(3) == asked[:2]  # two rows of four columns
    assert made.take(3) == asked[2:]
