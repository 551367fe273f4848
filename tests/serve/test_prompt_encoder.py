"""Prompts become token ids while the event loop goes on."""

import asyncio
import threading

import pytest

from equipoise.players.local import Local
from equipoise.serve.engine import Refused
from equipoise.serve.local_engine import PromptEncoder
from equipoise.types import user

BRIEF = (user("Why?"),)


@pytest.fixture(scope="module")
def encoding(model_folder):
    encoding = Local(model=str(model_folder("llama"))).encoding()
    encoding.max_length = 9000  # no model reads it here
    return encoding


def test_the_loop_waits_for_no_lock(encoding):
    encoder = PromptEncoder(encoding)

    async def count() -> int:
        with encoder._lock:  # another thread is encoding
            waiting = asyncio.create_task(encoder.chat_ids(BRIEF, ""))
            await asyncio.sleep(0)
            assert not waiting.done(), "and the loop has gone on"
        prompt_ids, _ = await waiting
        return len(prompt_ids)

    assert asyncio.run(count()) == len(encoding.prompt_ids(BRIEF))


def test_no_brief_prompt_waits_for_a_long_one(encoding):
    encoder, done = PromptEncoder(encoding), threading.Event()
    long = (user("word " * 1500),)

    async def ask() -> tuple:
        encoder._thread.submit(done.wait)  # as if a long prompt were being read
        waiting = asyncio.create_task(encoder.chat_ids(long, ""))
        text = asyncio.create_task(encoder.text_ids("word " * 1500, True))
        brief = await encoder.chat_ids(BRIEF, "")
        assert not waiting.done()
        assert not text.done()
        done.set()
        return brief, await waiting, await text

    brief, of_long, text = asyncio.run(ask())
    assert brief == (encoding.prompt_ids(BRIEF), [])
    assert of_long == (encoding.prompt_ids(long), [])
    assert text == encoding.tokenizer.encode("word " * 1500)


@pytest.mark.parametrize("words", [1, 1500])
def test_what_the_answer_begins_with_and_the_tools_are_read_in_any_prompt(encoding, words):
    asked = (user("word " * words),)
    given = PromptEncoder(encoding).chat_ids(asked, "Because", '[{"name": "f"}]')
    tools = encoding.prompt_ids(asked, tools='[{"name": "f"}]')
    begun = encoding.tokenizer.encode("Because", add_special_tokens=False)
    assert asyncio.run(given) == (tools, begun)


def test_what_cannot_fit_is_not_encoded(encoding, monkeypatch):
    encoder = PromptEncoder(encoding)
    monkeypatch.setattr(encoder, "_ids", None)
    monkeypatch.setattr(encoder, "_long_ids", None)
    longest = max(map(len, encoding.tokenizer.get_vocab()))
    for messages in ((user("a" * (9000 * longest + 1)),), (user(""),) * 9001):
        with pytest.raises(Refused) as refused:
            asyncio.run(encoder.chat_ids(messages, ""))
        assert refused.value.code == "context_length_exceeded"
        assert refused.value.param == "messages"


def test_a_text_is_refused_unread_beyond_the_characters_that_can_fit(encoding):
    encoder = PromptEncoder(encoding)
    most = encoding.max_length * max(map(len, encoding.tokenizer.get_vocab()))
    encoder._check_length(most, "messages")
    with pytest.raises(Refused, match=f"{most + 1} characters") as refused:
        encoder._check_length(most + 1, "messages")
    assert refused.value.param == "messages"
