"""Answers grow token by token, each with dice of its own: by hand, without a model."""

import numpy as np
import torch

from equipoise.models.token_choice import SamplingSettings
from equipoise.sampling.sampling import AnswerSheet
from equipoise.seeds import uniform

EVEN_V = torch.zeros(1000)  # a thousand tokens, all alike


def grown(seeds, limits, logits_V=EVEN_V, stop_ids=(1000,)):
    """The answers of rows that all see the same logits."""
    sheet = AnswerSheet(seeds, limits, stop_ids, len(seeds), torch.device("cpu"))
    sheet.add(list(range(len(seeds))))
    while len(sheet):
        sheet.take(logits_V.expand(len(sheet), -1), SamplingSettings())
        sheet.select(sheet.unfinished())
    return [sheet.answers[row] for row in range(len(seeds))]


def test_a_tokens_die_is_of_its_row_and_its_place():
    """Of a thousand even tokens, a die u chooses token ⌊1000 u⌋."""
    seeds = [11, 11, 12]
    answers = grown(seeds, [6, 4, 6])
    for seed, answer in zip(seeds, answers, strict=True):
        dice = [float(uniform(np.array([seed]), place)[0]) for place in range(6)]
        expected = [int(1000 * die) for die in dice]
        assert answer.token_ids == expected[: len(answer.token_ids)]
    assert answers[1].token_ids == answers[0].token_ids[:4]
    assert len(set(answers[0].token_ids)) == 6 and answers[0].token_ids != answers[2].token_ids


def test_an_answer_ends_at_its_limit_or_its_end_and_says_which():
    certain_V = torch.full((5,), -1e9)
    certain_V[3] = 0.0
    (ended,) = grown([1], [4], certain_V, stop_ids=(3,))
    assert (ended.token_ids, ended.ended) == ([3], True)
    (cut,) = grown([1], [4], certain_V, stop_ids=(2,))
    assert (cut.token_ids, cut.ended) == ([3, 3, 3, 3], False)
    assert cut.logprobs == [0.0] * 4


def test_an_answer_that_ended_stays_ended_while_it_waits_in_the_batch():
    sheet = AnswerSheet([1, 2], [4, 3], (3,), 2, torch.device("cpu"))
    sheet.add([0, 1])
    for tokens in ([3, 2], [2, 2], [2, 2]):  # certain, row by row
        logits_BV = torch.full((2, 5), -1e9)
        logits_BV[[0, 1], tokens] = 0.0
        sheet.take(logits_BV, SamplingSettings())
    assert sheet.unfinished() == []
    sheet.select([])
    assert [sheet.answers[row].token_ids for row in (0, 1)] == [[3], [2, 2, 2]]
