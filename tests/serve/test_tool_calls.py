"""Answers in the form that a client asks for: calls of its tools, JSON by its schema."""

import asyncio
import json
import shutil

import pytest
from pydantic import BaseModel

from equipoise.errors import DataError
from equipoise.players.local import Local
from equipoise.serve import tool_calls
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.engine import EngineRequest, Piece
from equipoise.serve.tool_calls import CallForm, CallReader
from equipoise.types import user

HERMES = CallForm("<tool_call>", "</tool_call>", "arguments")
WHOLE = CallForm("", "", "parameters")
CALL = '{"name": "weather", "arguments": {"city": "Łódź"}}'
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
ASK = {"model": "tiny", "messages": [{"role": "user", "content": "Weather?"}], "temperature": 1.0}


class Weather(BaseModel):
    city: str
    warm: bool


def read(form: CallForm, text: str, step: int, several: bool = True, finish="stop"):
    reader = CallReader(form, {"weather"}, several=several)
    pieces = [reader.read(Piece(text[n : n + step])) for n in range(0, len(text), step)]
    pieces.append(reader.read(Piece(finish=finish)))
    calls = [(call.name, json.loads(call.arguments)) for p in pieces for call in p.calls]
    return "".join(p.text for p in pieces), calls, pieces[-1].finish


ONE = [("weather", {"city": "Łódź"})]
TAGGED = f"<tool_call>\n{CALL}\n</tool_call>"


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize(
    ("form", "text", "shown", "calls"),
    [
        (HERMES, f"Let me see.\n{TAGGED}", "Let me see.", ONE),
        (HERMES, f"{TAGGED}\n{TAGGED}", "", ONE * 2),
        (HERMES, TAGGED.removesuffix("</tool_call>"), "", ONE),  # without its end
        (HERMES, "1 <tool 2 < 3\n", "1 <tool 2 < 3\n", []),
        (HERMES, "<tool_call>no JSON</tool_call>", "<tool_call>no JSON</tool_call>", []),
        (HERMES, TAGGED.replace("weather", "bomb"), TAGGED.replace("weather", "bomb"), []),
        (WHOLE, CALL.replace("arguments", "parameters"), "", ONE),
        (WHOLE, f"{CALL}; {CALL}", "", ONE * 2),
        (WHOLE, f"See {CALL}", f"See {CALL}", []),
        (WHOLE, '{"a": 1}', '{"a": 1}', []),
        (WHOLE, "", "", []),
    ],
)
def test_calls_are_read_wherever_the_pieces_end(form, text, shown, calls, step):
    assert read(form, text, step) == (shown, calls, "tool_calls" if calls else "stop")


def test_of_several_calls_the_first_alone_is_given_where_one_is_wished():
    assert read(HERMES, TAGGED * 2, 5, several=False)[1] == ONE


def test_a_cut_call_is_text_and_cut():
    assert read(HERMES, TAGGED[:20], 4, finish="length") == (TAGGED[:20], [], "length")


@pytest.fixture(scope="module")
def folder(model_folder, tmp_path_factory):
    """The tiny Qwen, in whose context tools have room."""
    place = tmp_path_factory.mktemp("long") / "qwen3"
    shutil.copytree(model_folder("qwen3"), place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 2048}))
    return place


@pytest.fixture
def client(folder, serving):
    from openai import OpenAI

    player = Local(model=str(folder), max_new_tokens=400)
    with (
        serving(Catalogue.of_player("tiny", player)) as address,
        OpenAI(base_url=address.url, api_key="secret", max_retries=0) as client,
    ):
        yield client


def test_a_models_template_shows_its_form(folder, model_folder, released_template, tmp_path):
    encoding = Local(model=str(folder)).encoding()
    assert CallForm.of(encoding) == HERMES
    template = tmp_path / "llama.jinja"
    template.write_text(released_template("llama3_1"))
    own = Local(model=str(model_folder("llama")), template=str(template)).encoding()
    assert CallForm.of(own) == WHOLE
    with pytest.raises(DataError, match="knows no tools"):
        CallForm.of(Local(model=str(model_folder("llama"))).encoding())


@pytest.mark.long
def test_the_official_client_gets_its_schema(client):
    pytest.importorskip("llguidance")
    ask = ASK | {"response_format": Weather, "max_tokens": 400}
    texts = []
    for seed in range(3):
        parsed = client.chat.completions.parse(**ask, seed=seed, n=2)
        for choice in parsed.choices:
            if choice.finish_reason == "stop":
                assert isinstance(choice.message.parsed, Weather)
                texts.append(choice.message.content)
    assert texts
    form = {"type": "json_object"}
    stream = client.chat.completions.create(
        **ASK, response_format=form, seed=1, stream=True, max_tokens=30
    )
    assert "".join(c.choices[0].delta.content or "" for c in stream).startswith("{")
    begun = {"model": "tiny", "prompt": "Weather: ", "max_tokens": 30, "seed": 1}
    text = client.completions.create(**begun, extra_body={"response_format": form}).choices[0].text
    assert text.startswith("{"), "a text goes on in the form, too"


@pytest.mark.long
def test_forms_calls_and_plain_answers_grow_side_by_side(client):
    """Each as if it were alone, by the asynchronous client."""
    from openai import AsyncOpenAI

    pytest.importorskip("llguidance")
    asks = [
        {"response_format": {"type": "json_object"}},
        {"tools": [TOOL], "tool_choice": "required"},
        {},
        {"frequency_penalty": 2.0, "presence_penalty": 1.0},
    ]
    asks = [ASK | {"seed": 7, "max_tokens": 60} | more for more in asks]
    alone = [client.chat.completions.create(**ask).choices[0] for ask in asks]

    async def together() -> list:
        key = {"base_url": client.base_url, "api_key": "secret", "max_retries": 0}
        async with AsyncOpenAI(**key) as many:
            return await asyncio.gather(*(many.chat.completions.create(**ask) for ask in asks))

    for before, reply in zip(alone, asyncio.run(together()), strict=True):
        now = reply.choices[0]
        assert (now.message.content, now.finish_reason) == (
            before.message.content,
            before.finish_reason,
        )
    assert len({choice.message.content for choice in alone}) == 4


@pytest.mark.long
@pytest.mark.parametrize(
    "choice", ["required", {"type": "function", "function": {"name": "weather"}}]
)
def test_a_required_tool_is_called(client, choice):
    pytest.importorskip("llguidance")
    ask = ASK | {"tools": [TOOL], "tool_choice": choice, "seed": 4}
    whole = client.chat.completions.create(**ask).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content is None
    (call,) = whole.message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "weather"
    assert arguments["city"] in ("Oslo", "Rome")
    deltas = [c.choices[0].delta for c in client.chat.completions.create(**ask, stream=True)]
    (streamed,) = [part for delta in deltas for part in delta.tool_calls or ()]
    assert streamed.function.model_dump() == call.function.model_dump(), "the same dice"
    result = {"role": "tool", "tool_call_id": call.id, "content": "warm"}
    chat = [*ASK["messages"], whole.message.model_dump(exclude_none=True), result]
    assert client.chat.completions.create(**ask | {"messages": chat, "tool_choice": "auto"})


@pytest.mark.long
def test_what_cannot_be_is_refused_by_its_field(client, model_folder, serving, monkeypatch):
    from openai import BadRequestError, OpenAI

    def refused(by, **change) -> str:
        with pytest.raises(BadRequestError) as caught:
            by.chat.completions.create(**ASK | change)
        return f"{caught.value.param}: {caught.value.body['message']}"

    schema = {"type": "object", "not": {}}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    with monkeypatch.context() as patch:
        patch.setattr("equipoise.models.grammar.find_spec", lambda name: None)
        assert "equipoise[structured]" in refused(client, response_format=form)
    named = {"type": "function", "function": {"name": "wether"}}
    assert "did you mean 'weather'" in refused(client, tools=[TOOL], tool_choice=named)
    player = Local(model=str(model_folder("llama")))
    with (
        serving(Catalogue.of_player("tiny", player)) as address,
        OpenAI(base_url=address.url, api_key="secret", max_retries=0) as other,
    ):
        assert refused(other, tools=[TOOL]).startswith("tools: this model's chat template knows no")
    pytest.importorskip("llguidance")
    assert refused(client, response_format=form).startswith("response_format: ")


@pytest.mark.long
def test_a_penalty_is_that_of_the_players_own_sampler(model_folder):
    from equipoise.models.resources import Resources
    from equipoise.serve.catalogue import _defaults
    from equipoise.serve.local_engine import LocalEngine
    from equipoise.types import View

    sampling = {"repetition_penalty": 1.5, "frequency_penalty": 1.0, "min_p": 0.05}
    player = Local(model=str(model_folder("llama")), max_new_tokens=20).model_copy(update=sampling)
    resources = Resources()
    engine = LocalEngine(player, None, resources)

    async def ask(seed: int) -> str:
        from dataclasses import replace

        asked = replace(_defaults(player), messages=(user("Why?"),), seed=seed)
        return "".join([piece.text async for piece in engine.generate(asked)])

    async def ask_all() -> list[str]:
        texts = await asyncio.gather(*map(ask, range(4)))
        await engine.close()
        return texts

    moves = player.open(None, resources).act([View((user("Why?"),))] * 4, range(4))
    assert asyncio.run(ask_all()) == [move.text for move in moves]
    plain = player.model_copy(update=dict.fromkeys(sampling, 0) | {"repetition_penalty": 1})
    free = plain.open(None, resources).act([View((user("Why?"),))] * 4, range(4))
    assert [move.text for move in free] != [move.text for move in moves]


def asks(**more) -> EngineRequest:
    return EngineRequest((user("?"),), **more)


STRICT = {"type": "function", "function": {**TOOL["function"], "strict": True}}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, ""),
        ({"tools": [TOOL]}, ""),
        ({"tools": [TOOL, STRICT]}, "tools"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": "required"}, ""),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tools": [STRICT], "response_format": {"type": "json_object"}}, "tools"),
    ],
)
def test_which_field_asks_for_a_form(given, field):
    assert tool_calls.asked_form(asks(**given)) == field


def test_the_schema_of_an_answer():
    schema = {"type": "object", "properties": {"a": {}}}
    named = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    assert tool_calls.answer_schema(named) == schema
    assert tool_calls.answer_schema({"type": "json_object"}) == {"type": "object"}
    assert tool_calls.answer_schema({"type": "text"}) is tool_calls.answer_schema(None) is None


def test_grammars_of_calls_and_answers():
    """Lark's notation: a rule a tool, its head and end as the model writes them."""
    other = {"type": "function", "function": {"name": "b"}}
    free = '%json {"type": "object", "x-guidance": {"whitespace_pattern": "(\\\\n {0,16}| )"}}'
    answer = {"response_format": {"type": "json_object"}}
    assert tool_calls.lark_grammar(asks(**answer), None) == f"start: answer\nanswer: {free}\n"
    both = asks(tools=[other, {"function": {"name": "a"}}], tool_choice="required")
    assert tool_calls.lark_grammar(both, WHOLE) == (
        "start: call_0 | call_1\n"
        f'call_0: "{{\\"name\\": \\"b\\", \\"parameters\\": " {free} "}}"\n'
        f'call_1: "{{\\"name\\": \\"a\\", \\"parameters\\": " {free} "}}"\n'
    )
    one = asks(tools=both.tools, tool_choice={"function": {"name": "a"}})
    assert tool_calls.lark_grammar(one, HERMES) == (
        "start: call_0\n"
        'call_0: "<tool_call>\\n{\\"name\\": \\"a\\", \\"arguments\\": " '
        f'{free} "}}\\n</tool_call>"\n'
    )
    auto = tool_calls.lark_grammar(asks(tools=[other], tool_choice="auto"), WHOLE)
    assert auto.startswith("start: call_0 | TEXT\n")
    assert "\nTEXT: /" in auto
    either = tool_calls.lark_grammar(asks(tools=[other], tool_choice="auto", **answer), WHOLE)
    assert either.startswith("start: call_0 | answer\n")
    assert either.endswith(f"answer: {free}\n")


def test_values_and_calls_in_a_text():
    assert tool_calls.json_values(' {"a": 1};\n[2], 3 rest') == ([{"a": 1}, [2], 3], "rest")
    assert tool_calls.json_values("no") == ([], "no")
    assert tool_calls.json_values(" ;") == ([], "")
    deep = "[" * 100_000
    assert tool_calls.json_values(deep) == ([], deep)
    read = tool_calls.read_call
    assert read({"name": "a", "arguments": {"x": "Ł"}}, {"a"}) == ("a", '{"x": "Ł"}')
    assert read({"name": "a", "parameters": "{}"}, {"a"}) == ("a", "{}")
    for none in ({"name": "b", "arguments": {}}, {"name": "a"}, {"name": "a", "arguments": 3}, []):
        assert read(none, {"a"}) is None
