"""Thoughts in what the server answers and takes: apart from the content, streamed or not."""

import asyncio
import json

import pytest
from thinking_model import ANSWER, QUESTION, THOUGHT

from equipoise.players.local import Local
from equipoise.serve.chat_completions import ChatCompletion, read_request
from equipoise.serve.detokenizer import ThoughtReader
from equipoise.serve.engine import EngineRequest, Piece
from equipoise.serve.local_engine import LocalEngine
from equipoise.types import Marks, user

MARKS = Marks("<think>\n", "\n</think>\n\n")
OPENED = Marks("<think>\n", "\n</think>\n\n", opened=True)


def parted(marks: Marks, texts: list[str], finish: str = "stop") -> tuple[str, str]:
    """(thoughts, text) of an answer that comes in these pieces."""
    reader = ThoughtReader(marks)
    pieces = [reader.read(Piece(text)) for text in texts]
    pieces.append(reader.read(Piece("", finish)))
    return "".join(piece.thoughts for piece in pieces), "".join(piece.text for piece in pieces)


@pytest.mark.parametrize(
    ("marks", "text", "thoughts", "answer"),
    [
        (MARKS, "<think>\n9? No.\n</think>\n\nIt is 10.", "9? No.", "It is 10."),
        (MARKS, "It is 10.", "", "It is 10."),
        (MARKS, "  It is <think>.", "", "  It is <think>."),
        (MARKS, "<think>\n9?</think><think>8?</think>\nTen.", "9?8?", "Ten."),
        (MARKS, "<think>\nIt may be 10", "It may be 10", ""),
        (OPENED, "9? No.\n</think>\n\nIt is 10.", "9? No.", "It is 10."),
        (OPENED, "<thin", "<thin", ""),
        (MARKS, "<thin", "", "<thin"),
    ],
)
def test_an_answer_is_parted_however_it_is_cut_into_pieces(marks, text, thoughts, answer) -> None:
    for size in (1, 2, 5, 100):
        pieces = [text[start : start + size] for start in range(0, len(text), size)]
        found_thoughts, found_answer = parted(marks, pieces)
        assert (found_thoughts.rstrip("\n"), found_answer) == (thoughts, answer)


def test_thoughts_are_reasoning_content_in_the_body_and_in_the_stream() -> None:
    completion = ChatCompletion("m", 1, 3, False, scored=False)
    events = completion.take(0, Piece(thoughts="9? "))
    events += completion.take(0, Piece("Ten.", thoughts="No."))
    events += completion.take(0, Piece("", "stop", 2))
    deltas = [event["choices"][0]["delta"] for event in events]
    assert deltas == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "9? "},
        {"content": "Ten.", "reasoning_content": "No."},
        {},
    ]
    (choice,) = completion.body()["choices"]
    assert choice["message"]["content"] == "Ten."
    assert choice["message"]["reasoning_content"] == "9? No."


@pytest.mark.long
def test_a_model_that_thinks_is_served_with_its_thoughts_apart(thinking_model) -> None:
    async def answer() -> list[Piece]:
        player = Local.model_validate({"model": str(thinking_model), "device": "cpu"})
        engine = LocalEngine(player)
        request = EngineRequest((user(QUESTION),), temperature=0.0, max_tokens=60)
        try:
            return [piece async for piece in engine.generate(request)]
        finally:
            await engine.close()

    pieces = asyncio.run(answer())
    assert "".join(piece.text for piece in pieces) == ANSWER
    assert "".join(piece.thoughts for piece in pieces).rstrip() == THOUGHT


class TestWhatOpenAIsSchemaAccepts:
    @pytest.fixture
    def read(self):
        from equipoise.serve.asgi_endpoint import Limits

        def request(**fields):
            body = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], **fields}
            return read_request(json.dumps(body).encode(), Limits())

        return request

    def test_an_assistants_content_may_be_null(self, read) -> None:
        answered = {"role": "assistant", "content": None}
        request = read(messages=[{"role": "user", "content": "Hello"}, answered])
        assert request.messages[1].read().content == ""
        absent = {"role": "assistant", "refusal": "No."}
        request = read(messages=[{"role": "user", "content": "Hello"}, absent])
        assert request.messages[1].read().content == "No."

    def test_a_refusal_may_be_a_part(self, read) -> None:
        parts = [{"type": "text", "text": "Sorry: "}, {"type": "refusal", "refusal": "no."}]
        request = read(messages=[{"role": "assistant", "content": parts}])
        assert request.messages[0].read().content == "Sorry: no."

    def test_whole_numbers_may_be_written_as_5_0(self, read) -> None:
        request = read(max_tokens=5.0, n=2.0, seed=7.0, top_logprobs=3.0, logprobs=True)
        assert (request.max_tokens, request.n, request.seed, request.top_logprobs) == (5, 2, 7, 3)

    def test_others_are_still_refused(self, read) -> None:
        from equipoise.serve.protocol import Problem

        for fields in (
            {"max_tokens": 5.5},
            {"max_tokens": True},
            {"messages": [{"role": "user", "content": None}]},
            {"chat_template_kwargs": {"enable_thinking": False}},
        ):
            with pytest.raises(Problem):
                read(**fields)
