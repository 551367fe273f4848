"""/v1/responses and /v1/embeddings, by the official client's own types."""

import asyncio
import json

import pytest
from openai import APIError, AsyncOpenAI, BadRequestError, InternalServerError, OpenAI
from openai_server import Fail, Raw
from pydantic import BaseModel

from equipoise.players.endpoint import Endpoint
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.engine import CallPart, EngineError, Piece

TOOL = {
    "type": "function",
    "name": "weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    "strict": None,
}


class Weather(BaseModel):
    city: str


class Caller:
    """An engine that says a word and calls a tool."""

    pieces = (
        Piece("Let me see.", tokens=3),
        Piece(calls=(CallPart(0, "call_1", "weather", '{"city"'),), tokens=4),
        Piece(calls=(CallPart(0, None, None, ': "Oslo"}'),), tokens=2),
        Piece(calls=(CallPart(1, "call_2", "weather", "{}"),), tokens=2),
        Piece(finish="tool_calls"),
    )

    def __init__(self, fault: Exception | None = None):
        self.asked, self.fault = [], fault

    async def generate(self, request):
        self.asked.append(request)
        for piece in self.pieces:
            yield piece
            if self.fault:
                raise self.fault

    async def count(self, messages, prefix="", tools=()):
        return None

    async def close(self):
        pass


@pytest.fixture
def serve(serving, fake_catalogue):
    """`with serve(engine) as client:` the official client of a server with this engine."""
    from contextlib import contextmanager

    @contextmanager
    def start(engine):
        with (
            serving(fake_catalogue({"talker": engine})) as address,
            OpenAI(base_url=address.url, api_key="secret", max_retries=0) as client,
        ):
            yield client

    return start


@pytest.mark.long
def test_a_text_is_answered_whole_and_in_a_stream(serve, fake_engine):
    engine = fake_engine()
    with serve(engine) as client:
        ask = {"model": "talker", "instructions": "Be brief.", "input": "How are you?"}
        whole = client.responses.create(**ask, max_output_tokens=9, temperature=0.5)
        with client.responses.stream(**ask) as stream:
            kinds = [event.type for event in stream]
            streamed = stream.get_final_response()
    assert whole.output_text == streamed.output_text == "one two three"
    assert whole.status == "completed" and whole.usage and whole.usage.output_tokens == 4
    assert whole.temperature == 0.5 and whole.max_output_tokens == 9 and whole.error is None
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        *["response.output_text.delta"] * 3,
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    (asked, _) = engine.asked[:2]
    assert [(m.role, m.content) for m in asked.messages] == [
        ("system", "Be brief."),
        ("user", "How are you?"),
    ]
    assert (asked.max_tokens, asked.temperature) == (9, 0.5)


def test_calls_of_tools_are_items_and_come_back_as_such(serve):
    engine = Caller()
    with serve(engine) as client:
        ask = {"model": "talker", "input": "Oslo?", "tools": [TOOL], "tool_choice": "required"}
        whole = client.responses.create(**ask)
        events = list(client.responses.create(**ask, stream=True))
        results = [
            {"type": "function_call_output", "call_id": "call_1", "output": "warm"},
            {"type": "function_call_output", "call_id": "call_2", "output": "wet"},
        ]
        own = [item.model_dump(exclude_none=True) for item in whole.output]
        question = {"role": "user", "content": [{"type": "input_text", "text": "Oslo?"}]}
        client.responses.create(model="talker", input=[question, *own, *results], tools=[TOOL])
    assert [item.type for item in whole.output] == ["message", "function_call", "function_call"]
    assert whole.usage is None, "an engine that cannot count"
    _, first, second = whole.output
    assert (first.call_id, first.name, json.loads(first.arguments)) == (
        "call_1",
        "weather",
        {"city": "Oslo"},
    )
    assert second.arguments == "{}"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    ended = events[-1].response.output
    assert [i.model_dump(exclude={"id"}) for i in ended] == [
        i.model_dump(exclude={"id"}) for i in whole.output
    ]
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert [(e.output_index, e.arguments) for e in done] == [(1, '{"city": "Oslo"}'), (2, "{}")]
    asked = engine.asked[0]
    assert asked.tool_choice == "required" and asked.tools[0]["function"]["name"] == "weather"
    roles = [message.role for message in engine.asked[2].messages]
    assert roles == ["user", "assistant", "tool", "tool"]
    calls = json.loads(engine.asked[2].messages[1].further)["tool_calls"]
    assert [call["id"] for call in calls] == ["call_1", "call_2"]


def test_a_form_and_likely_tokens_are_asked_for(serve, fake_engine):
    engine = fake_engine(words=('{"city": ', '"Oslo"}'))
    with serve(engine) as client:
        ask = {"model": "talker", "input": [{"role": "user", "content": "a"}]}
        parsed = client.responses.parse(**ask, text_format=Weather)
        client.responses.create(
            **ask, include=["message.output_text.logprobs"], top_logprobs=2, tools=[]
        )
        client.responses.create(**ask, text={"format": {"type": "json_object"}})
    assert parsed.output_parsed == Weather(city="Oslo")
    form = engine.asked[0].response_format
    assert form["json_schema"]["schema"]["required"] == ["city"]
    assert [asked.logprobs for asked in engine.asked[:3]] == [None, 2, None]
    assert engine.asked[2].response_format == {"type": "json_object"}


def test_a_cut_answer_is_incomplete(serve):
    class Cut(Caller):
        pieces = (Piece("one", tokens=1), Piece(finish="length"))

    with serve(Cut()) as client:
        cut = client.responses.create(model="talker", input="a")
        last = list(client.responses.create(model="talker", input="a", stream=True))[-1]
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    assert last.type == "response.incomplete" and last.response.output_text == "one"


def test_a_stream_that_breaks_off_raises_in_the_client(serve):
    with serve(Caller(EngineError("the model fell over"))) as client:
        stream = client.responses.create(model="talker", input="a", stream=True)
        with pytest.raises(APIError, match="fell over"):
            list(stream)


@pytest.mark.long
def test_the_asynchronous_client_is_answered_side_by_side(serving, fake_catalogue, fake_engine):
    async def ask(url: str) -> list[str]:
        async with AsyncOpenAI(base_url=url, api_key="secret", max_retries=0) as client:

            async def one(number: int) -> str:
                if number % 2:
                    return (await client.responses.create(model="talker", input="a")).output_text
                stream = await client.responses.create(model="talker", input="a", stream=True)
                deltas = [e.delta async for e in stream if e.type == "response.output_text.delta"]
                return "".join(deltas)

            return await asyncio.gather(*map(one, range(6)))

    with serving(fake_catalogue({"talker": fake_engine()})) as address:
        assert asyncio.run(ask(address.url)) == ["one two three"] * 6


BAD = [
    ({"input": []}, "input"),
    ({"input": 3}, "input"),
    ({"input": [{"role": "user"}]}, "input[0].content"),
    ({"input": [{"type": "reasoning", "summary": []}]}, "input[0]"),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]."),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"background": True}, "background"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"text": {"format": {"type": "json_schema", "name": "a"}}}, "text.format"),
    ({"max_output_tokens": 10**6}, "max_output_tokens"),
    ({"top_logprobs": 3}, "top_logprobs"),
    ({"truncation": "auto"}, "truncation"),
    ({"steering": "latency"}, "steering"),
]


@pytest.mark.long
def test_what_cannot_be_is_refused_by_its_field(serve, fake_engine):
    engine = fake_engine()
    with serve(engine) as client:
        for change, field in BAD:
            with pytest.raises(BadRequestError) as caught:
                client.responses.create(**{"model": "talker", "input": "a"}, extra_body=change)
            assert (caught.value.param or "").startswith(field), (change, caught.value.body)
            assert field.rstrip(".") in caught.value.body["message"]
        assert not engine.asked


def vectors(body) -> Raw:
    """Vectors by a text's length, in the wrong order."""
    rows = [{"embedding": [len(text), 0.5], "index": n} for n, text in enumerate(body["input"])]
    reply = {"object": "list", "data": rows[::-1], "model": "tiny", "usage": {"prompt_tokens": 9}}
    return Raw(json.dumps(reply).encode())


@pytest.mark.long
def test_embeddings_are_those_of_the_server_behind(serving, openai_server):
    openai_server.answer = vectors
    player = Endpoint.model_validate({"base_url": openai_server.url, "model": "e5", "retries": 1})
    with (
        serving(Catalogue.of_player("e5", player)) as address,
        OpenAI(base_url=address.url, api_key="secret", max_retries=0) as client,
    ):
        made = client.embeddings.create(model="e5", input=["a", "bcd"], dimensions=2)
        plain = client.embeddings.create(model="e5", input=[1, 2, 3], encoding_format="float")
        assert [row.embedding for row in made.data] == [[1.0, 0.5], [3.0, 0.5]]
        assert [row.index for row in made.data] == [0, 1] and made.usage.prompt_tokens == 9
        assert plain.data[0].embedding == [3.0, 0.5]
        sent = openai_server.requests[0]
        assert sent.path == "/v1/embeddings" and sent.body["input"] == ["a", "bcd"]
        assert sent.body["model"] == "e5" and sent.body["dimensions"] == 2
        openai_server.script(Fail(400, "too many words", param="input"))
        with pytest.raises(BadRequestError, match="too many words"):
            client.embeddings.create(model="e5", input="a")
        openai_server.script(*[Raw(b'{"data": [], "usage": {}}')] * 2)
        with pytest.raises(InternalServerError, match="0 for 1 texts"):
            client.embeddings.create(model="e5", input="a")
        for wrong in ([], [[]] * 2049, [1.5], [True]):
            with pytest.raises(BadRequestError) as caught:
                client.embeddings.create(model="e5", input=wrong)
            assert caught.value.param == "input"


def test_a_language_model_says_that_it_makes_no_embeddings(serve, fake_engine):
    with serve(fake_engine()) as client, pytest.raises(BadRequestError) as caught:
        client.embeddings.create(model="talker", input="a")
    assert caught.value.param == "model" and "makes no embeddings" in caught.value.body["message"]
