"""Answers grow token by token in their slots, each with dice of its own: without a model."""

import math

import numpy as np
import pytest
import torch

from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.decode_slots import DecodeRequest, DecodeSlots, StreamedRequest
from equipoise.seeds import uniform

EVEN_V = torch.zeros(1000)  # a thousand tokens, all alike
PLAIN = SamplingSettings()


def grown(seeds, limits, logits_V=EVEN_V, stop_ids=(1000,)):
    """The answers of rows that all see the same logits."""
    slots = DecodeSlots(stop_ids, len(seeds), torch.device("cpu"))
    requests = [request(*each) for each in zip(seeds, limits, strict=True)]
    slots.add(requests)
    finish(slots, logits_V)
    return [each.answer for each in requests]


def request(seed, limit, settings=PLAIN, **more):
    return DecodeRequest([5], seed, limit, settings, **more)


def finish(slots, logits_V=EVEN_V):
    while len(slots):
        slots.choose(logits_V.expand(len(slots), -1))
        slots.select(slots.unfinished())


def test_a_tokens_die_is_of_its_row_and_its_place():
    """Of a thousand even tokens, a die u chooses token ⌊1000 u⌋."""
    seeds = [11, 11, 12]
    answers = grown(seeds, [6, 4, 6])
    for seed, answer in zip(seeds, answers, strict=True):
        dice = [float(uniform(np.array([seed]), place)[0]) for place in range(6)]
        expected = [int(1000 * die) for die in dice]
        assert answer.token_ids == expected[: len(answer.token_ids)]
    assert answers[1].token_ids == answers[0].token_ids[:4]
    assert len(set(answers[0].token_ids)) == 6
    assert answers[0].token_ids != answers[2].token_ids


def test_every_bit_of_a_seed_counts():
    seeds = [11, 11 + 2**16, 11 + 2**31, 11 + 2**40, 11 - 2**63, -11]
    answers = grown(seeds, [3] * len(seeds))
    for seed, answer in zip(seeds, answers, strict=True):
        dice = [float(uniform(np.array([seed]), place)[0]) for place in range(3)]
        assert answer.token_ids == [int(1000 * die) for die in dice]
    assert len({tuple(answer.token_ids) for answer in answers}) == len(seeds)


def test_an_answer_ends_at_its_limit_or_its_end_and_says_which():
    certain_V = torch.full((5,), -1e9)
    certain_V[3] = 0.0
    (ended,) = grown([1], [4], certain_V, stop_ids=(3,))
    assert (ended.token_ids, ended.ended) == ([3], True)
    (cut,) = grown([1], [4], certain_V, stop_ids=(2,))
    assert (cut.token_ids, cut.ended) == ([3, 3, 3, 3], False)
    assert cut.logprobs == [0.0] * 4


def test_an_answer_that_ended_stays_ended_while_it_waits_in_the_batch():
    slots = DecodeSlots((3,), 2, torch.device("cpu"))
    requests = [request(1, 4), request(2, 3)]
    slots.add(requests)
    for tokens in ([3, 2], [2, 2], [2, 2]):  # certain, row by row
        logits_BV = torch.full((2, 5), -1e9)
        logits_BV[[0, 1], tokens] = 0.0
        slots.choose(logits_BV)
    assert slots.unfinished() == []
    slots.select([])
    assert [each.answer.token_ids for each in requests] == [[3], [2, 2, 2]]


def test_rows_with_other_settings_are_sampled_by_their_own():
    """Two greedy rows between two that are drawn from the upper and the lower half."""
    falling_V = torch.arange(1000).flip(0) * 1e-6
    greedy, cut = SamplingSettings(0.0), SamplingSettings(top_k=500)
    requests = [request(7, 3), request(7, 3, greedy), request(8, 3, cut), request(9, 2, greedy)]
    slots = DecodeSlots((1000,), 4, torch.device("cpu"))
    slots.add(requests)
    finish(slots, falling_V)
    plain, first, upper, second = (each.answer for each in requests)
    assert plain.token_ids == grown([7], [3], falling_V)[0].token_ids
    assert first.token_ids == [0, 0, 0]
    assert second.token_ids == [0, 0]
    assert all(token < 500 for token in upper.token_ids)
    assert upper.logprobs != pytest.approx(upper.uncut)
    assert plain.logprobs == plain.uncut


def test_a_request_joins_with_a_longer_limit_than_any_before():
    slots = DecodeSlots((1000,), 3, torch.device("cpu"))
    early, late = request(11, 3), request(12, 40)
    slots.add([early])
    slots.choose(EVEN_V[None])
    slots.add([late])
    finish(slots)
    assert early.answer == grown([11], [3])[0]
    assert late.answer == grown([12], [40])[0]
    assert slots.free == 3


def test_an_answer_that_is_begun_goes_on_with_the_dice_of_its_place():
    whole = grown([11], [6])[0]
    rest = request(11, 4, begun=whole.token_ids[:2])
    slots = DecodeSlots((1000,), 1, torch.device("cpu"))
    slots.add([rest])
    finish(slots)
    assert rest.answer.token_ids == whole.token_ids[2:]


def test_what_an_answer_has_begun_with_counts_for_penalties():
    """Of three tokens, the likeliest two are lowered: one was there, one is chosen first."""
    logits_V = torch.tensor([2.0, 1.5, 1.0])
    never = SamplingSettings(0.0, presence_penalty=2.0)
    begun = request(1, 2, never, begun=(0,))
    slots = DecodeSlots((9,), 2, torch.device("cpu"))
    slots.add([begun])
    finish(slots, logits_V)
    assert begun.answer.token_ids == [1, 2]


def test_a_cancelled_answer_leaves_its_slot():
    slots = DecodeSlots((1000,), 2, torch.device("cpu"))
    requests = [request(1, 5), request(2, 5)]
    slots.add(requests)
    slots.choose(EVEN_V.expand(2, -1))
    requests[0].cancelled = True
    assert slots.unfinished() == [1]
    slots.select([1])
    assert slots.free == 1
    finish(slots)
    assert requests[1].answer == grown([2], [5])[0]


class Heard(StreamedRequest):
    """A request that keeps what it is handed, and ends after `most` tokens."""

    most = 2

    def take(self, token, likelihood):
        self.heard = [*getattr(self, "heard", []), (token, likelihood)]
        return token is None or len(self.heard) == self.most


def test_a_request_that_streams_is_handed_each_token_until_it_ends():
    slots = DecodeSlots((1000,), 3, torch.device("cpu"))
    heard = Heard([5], 11, 6, PLAIN, likeliest=0)
    plain = request(12, 6)
    slots.add([heard, plain])
    finish(slots)
    tokens = [token for token, _ in heard.heard]
    assert tokens == grown([11], [6])[0].token_ids[:2]
    logprobs = [likelihood.logprob for _, likelihood in heard.heard]
    assert logprobs == pytest.approx([-math.log(1000)] * 2)
    assert plain.answer == grown([12], [6])[0]
    assert heard.answer is None


def test_logits_that_are_no_numbers_end_the_streaming_row_alone():
    slots = DecodeSlots((1000,), 2, torch.device("cpu"))
    spoilt, sound = Heard([5], 11, 6, PLAIN), Heard([6], 12, 6, PLAIN)
    slots.add([spoilt, sound])
    logits_BV = EVEN_V.expand(2, -1).clone()
    logits_BV[0] = float("nan")
    slots.choose(logits_BV)
    assert [token for token, _ in spoilt.heard] == [None]
    assert slots.unfinished() == [1]
