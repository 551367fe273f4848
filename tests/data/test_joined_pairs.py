"""Pairs read as plain text, as MNPO's released code reads them."""

import numpy as np
import pytest

from benchmarks.pipeline_mnpo import Kept, made_tokenizer
from equipoise.data.joined_pairs import (
    JoinedPairs,
    TextReading,
    joined_opponent_logprobs,
    joined_pair,
    whole_ids,
)
from equipoise.errors import DataError
from equipoise.models.chat_encoding import Encoding
from equipoise.types import Message, Pair, PlayerId

CORPUS = ["the river opens", "the seven rivers open quietly"] * 40


@pytest.fixture(scope="module")
def encoding():
    return Encoding(made_tokenizer(CORPUS), 512)


def pair(prompt: str, chosen: str, rejected: str) -> Pair:
    return Pair("p", 0, "q", (Message("user", prompt),), chosen, rejected, 1.0, 0.0)


def test_the_learner_reads_one_text_with_a_beginning_and_its_opponents_two_without(encoding):
    settings = JoinedPairs()
    tokenizer = encoding.tokenizer
    beginning, end = tokenizer.bos_token_id, tokenizer.eos_token_id
    prompt, answer = whole_ids(tokenizer, "the ri", "ver opens", settings.learners_reading())
    assert prompt[0] == beginning
    assert answer[-1] == end
    assert tokenizer.decode(prompt[1:] + answer[:-1]) == "the river opens"
    apart = whole_ids(tokenizer, "the ri", "ver opens", settings.opponents_reading())
    assert apart[0] == tokenizer.encode("the ri", add_special_tokens=False)
    assert apart[1] == [*tokenizer.encode("ver opens", add_special_tokens=False), end]
    # the letters that merge are the answer's, where both are one text
    assert len(prompt) - 1 < len(apart[0])


def test_both_answers_are_cut_by_the_longer_one(encoding):
    reading = TextReading(begins=True, as_one_text=True, max_length=30, max_prompt=10)
    long = " the river" * 40
    read = joined_pair(encoding, pair(long, " the", long), reading)
    assert (len(read.chosen_prompt), len(read.rejected_prompt)) == (10, 10)
    assert len(read.rejected) == 20
    assert read.chosen[-1] == encoding.tokenizer.eos_token_id
    roomy = joined_pair(encoding, pair("the", " river", " open"), reading)
    assert roomy.chosen_prompt[0] == encoding.tokenizer.bos_token_id


def test_prompts_that_differ_by_their_last_token_share_the_rest(encoding):
    reading = JoinedPairs().learners_reading()
    read = joined_pair(encoding, pair("the ri", "ver opens", " seven"), reading)
    assert read.chosen_prompt != read.rejected_prompt
    answers = read.as_answers()
    assert answers.counts() == [len(read.chosen), len(read.rejected)]
    for prompt, ids, answer in (
        (read.chosen_prompt, read.chosen, answers.answers[0]),
        (read.rejected_prompt, read.rejected, answers.answers[1]),
    ):
        assert [*answers.prompt, *answer] == [*prompt, *ids]


def test_a_chat_of_several_messages_is_refused(encoding):
    chat = (Message("system", "be brief"), Message("user", "the river"))
    several = Pair("p", 0, "q", chat, "opens", "open", 1.0, 0.0)
    with pytest.raises(DataError, match="two texts that answer one message"):
        joined_pair(encoding, several, JoinedPairs().learners_reading())


def test_a_prompt_must_leave_room():
    with pytest.raises(ValueError, match="leave no room for an answer"):
        JoinedPairs(max_length=500)


class Counting:
    """A scorer whose log-probability of an answer is minus its tokens, times 3."""

    encoding = "counting"

    def __init__(self) -> None:
        self.asked = 0

    def logprobs(self, chats, texts, *, whole=False, cut=()):
        raise AssertionError("it is asked for token ids alone")

    def token_sums(self, prompts, answers):
        self.asked += len(answers)
        return [-3.0 * len(answer) for answer in answers]


def test_means_per_token_are_the_opponents_own(encoding):
    pairs = [pair("the ri", "ver opens", " seven"), pair("the", " river", " open quietly")]
    settings = JoinedPairs()
    scorer, store = Counting(), Kept()
    own = [(7, 2), (5, 3)]

    def scored(own_tokens):
        return joined_opponent_logprobs(
            store,
            lambda player: scorer,
            lambda player: encoding,
            [PlayerId("policy", 0)],
            pairs,
            settings.opponents_reading(),
            own_tokens,
        )

    chosen, rejected = scored(own)
    assert np.allclose(chosen, [[-21.0, -15.0]])
    assert np.allclose(rejected, [[-6.0, -9.0]])
    read = [joined_pair(encoding, each, settings.opponents_reading()) for each in pairs]
    sums, _ = scored(None)
    assert np.allclose(sums, [[-3.0 * len(each.chosen) for each in read]])
    assert scorer.asked == 4  # each once: the rest was kept
