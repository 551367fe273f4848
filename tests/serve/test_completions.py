"""/v1/completions and the tokenizer's endpoints: what harnesses ask for, equal to the model's own
forward pass.
"""

import asyncio
import json

import httpx
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.serve.asgi_endpoint import Gate, Limits, ModelEndpoint
from equipoise.serve.catalogue import Catalogue
from equipoise.serve.chat_completions import ChatEndpoint
from equipoise.serve.detokenizer import BROKEN
from equipoise.serve.protocol import Reply
from equipoise.serve.text_endpoints import CompletionEndpoint
from equipoise.types import View, user

TEXTS = ["What is 7 + 12? It is 19.", "Hi", "Café 😀 or tea, and when does it leave?"]
WITHIN = 1e-4  # nats a token


@pytest.fixture(scope="module")
def folder(model_folder) -> str:
    return str(model_folder("llama"))


@pytest.fixture
def address(serving, folder):
    player = Local(model=folder, max_new_tokens=16, temperature=0.9, max_length=256)
    with serving(Catalogue.of_player("tiny", player)) as address:
        yield address


def ask(address, **body) -> dict:
    reply = address.post({"model": "tiny", **body}, path="/completions")
    assert reply.status_code == 200, reply.text
    return reply.json()


def refusal(address, path="/completions", **body) -> tuple[int, str, str]:
    reply = address.post({"model": "tiny", **body}, path=path)
    error = reply.json()["error"]
    return reply.status_code, error["code"], error["param"]


@torch.inference_mode()
def forward(folder: str, ids: list[int]) -> torch.Tensor:
    """log p of every token at every place but the first, [T - 1, V], by transformers."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model(torch.tensor([ids])).logits[0].log_softmax(-1)


def test_prompts_are_as_likely_as_in_a_plain_forward(address, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rows = [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
    reply = ask(address, prompt=rows, echo=True, logprobs=3, max_tokens=1, temperature=0)
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2]
    prompt_tokens = sum(map(len, rows))
    assert reply["usage"]["prompt_tokens"] == prompt_tokens
    assert reply["usage"]["completion_tokens"] == 3
    for ids, text, choice in zip(rows, TEXTS, reply["choices"], strict=True):
        expected_TV = forward(folder, ids)
        scores = choice["logprobs"]
        assert choice["text"].startswith(text)
        assert choice["finish_reason"]
        assert {len(column) for column in scores.values()} == {len(ids) + 1}
        assert scores["token_logprobs"][0] is scores["top_logprobs"][0] is None
        following = [*ids[1:], int(expected_TV[-1].argmax())]
        for place, token in enumerate(following, 1):
            logprob = scores["token_logprobs"][place]
            assert logprob == pytest.approx(float(expected_TV[place - 1, token]), abs=WITHIN)
            top = scores["top_logprobs"][place]
            assert max(top.values()) == pytest.approx(
                float(expected_TV[place - 1].max()), abs=WITHIN
            )
            assert len(top) <= 4
            # parts of characters share a text; the likeliest of them is shown
            assert logprob in top.values() or BROKEN in scores["tokens"][place]
        assert scores["text_offset"][1] == len(scores["tokens"][0])
        assert "".join(scores["tokens"][:2]) == text[: scores["text_offset"][2]]


def test_a_prompt_alone_is_scored_without_an_answer(address, folder):
    scored = {"echo": True, "logprobs": 0, "add_special_tokens": False}
    lone = ask(address, prompt=[5], max_tokens=0, **scored)["choices"][0]
    assert lone["logprobs"]["token_logprobs"] == [None]
    both = ask(address, prompt=TEXTS[:2], max_tokens=0, **scored)
    alone = ask(address, prompt=TEXTS[1], max_tokens=0, **scored)
    assert [choice["text"] for choice in both["choices"]] == TEXTS[:2]
    assert both["choices"][1]["logprobs"]["token_logprobs"][1:] == pytest.approx(
        alone["choices"][0]["logprobs"]["token_logprobs"][1:], abs=WITHIN
    )
    assert both["choices"][0]["finish_reason"] == "length"
    assert both["usage"]["completion_tokens"] == 0
    nothing = ask(address, prompt=TEXTS[0], max_tokens=0)["choices"][0]
    assert (nothing["text"], nothing["logprobs"]) == ("", None)
    begun = ask(address, prompt=TEXTS[0], max_tokens=0, echo=True)["choices"][0]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert begun["text"] == tokenizer.decode(tokenizer.encode(TEXTS[0]))


@pytest.mark.long
def test_a_text_goes_on_as_the_player_goes_on(address, folder):
    player = Local(model=folder, max_new_tokens=16, temperature=0.9, max_length=256)
    actor, encoding = player.open(None, Resources()), player.encoding()
    chat = (user("Why?"),)
    move = actor.act([View(chat)], [5])[0]
    ids = encoding.prompt_ids(chat)
    settings = {"seed": 5, "max_tokens": 16, "temperature": 0.9}
    plain = ask(address, prompt=ids, **settings)["choices"][0]
    assert (plain["text"], plain["finish_reason"]) == (move.text, move.finish)
    scored = ask(address, prompt=ids, logprobs=2, echo=True, n=2, **settings)["choices"]
    assert scored[0]["text"].endswith(move.text)
    shown = len(ids) + move.tokens
    assert len(scored[0]["logprobs"]["tokens"]) == shown, "its end is a token too"
    expected_TV = forward(folder, [*ids, *move.token_ids])
    sampled = [
        float(expected_TV[len(ids) + n - 1, token]) for n, token in enumerate(move.token_ids)
    ]
    assert scored[0]["logprobs"]["token_logprobs"][len(ids) :] == pytest.approx(
        sampled, abs=WITHIN
    ), "under softmax(logits), whatever the temperature"
    assert scored[1]["text"] != scored[0]["text"]
    greedy = [
        ask(address, prompt=ids, temperature=t, seed=n, max_tokens=8)["choices"][0]
        for n, t in enumerate((0, 1e-300, 1e-6))
    ]
    assert len({choice["text"] for choice in greedy}) == 1
    stop = greedy[0]["text"][1:3]
    cut = ask(address, prompt=ids, temperature=0, max_tokens=8, stop=[stop])
    assert cut["choices"][0]["text"] == greedy[0]["text"].split(stop)[0]


@pytest.mark.long
def test_chat_and_streams_show_the_same_scores(address, folder):
    from openai import OpenAI

    with OpenAI(base_url=address.url, api_key="secret", max_retries=0) as client:
        settings = {"model": "tiny", "seed": 3, "max_tokens": 9, "temperature": 1.0}
        chat = [{"role": "user", "content": "Why?"}]
        whole = client.chat.completions.create(
            messages=chat, logprobs=True, top_logprobs=2, **settings
        ).choices[0]
        scores = whole.logprobs.content
        assert len(scores) == 9 or whole.finish_reason == "stop"
        assert all(len(score.top_logprobs) == 2 for score in scores)
        assert all(s.bytes is None or bytes(s.bytes).decode() == s.token for s in scores)
        parts = [
            chunk.choices[0].logprobs
            for chunk in client.chat.completions.create(
                messages=chat, logprobs=True, top_logprobs=2, stream=True, **settings
            )
        ]
        assert [s for part in parts if part for s in part.content] == scores
        plain = client.chat.completions.create(messages=chat, **settings).choices[0]
        assert plain.logprobs is None
        assert plain.message == whole.message
        text = client.completions.create(prompt="Why?", echo=True, logprobs=1, **settings).choices[
            0
        ]
        parts = [
            chunk.choices[0]
            for chunk in client.completions.create(
                prompt="Why?", echo=True, logprobs=1, stream=True, **settings
            )
        ]
        assert "".join(part.text for part in parts) == text.text
        offsets = [o for part in parts if part.logprobs for o in part.logprobs.text_offset]
        assert offsets == text.logprobs.text_offset


@pytest.mark.long
def test_the_tokenizer_is_offered_as_harnesses_ask_for_it(address, folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    root, headers = address.url[:-3], {"authorization": "Bearer secret"}

    def post(path: str, **body) -> httpx.Response:
        return httpx.post(root + path, json=body, headers=headers)

    facts = httpx.get(f"{root}/tokenizer_info", headers=headers).json()
    assert facts["eos_token"] == tokenizer.eos_token
    assert facts["model_max_length"] == 256
    assert "messages" in facts["chat_template"]
    for text in (*TEXTS, f"a{tokenizer.eos_token}"):
        tokens = post("/tokenize", prompt=text, add_special_tokens=False).json()
        assert tokens["tokens"] == tokenizer.encode(text, add_special_tokens=False)
        whole = post("/detokenize", tokens=tokens["tokens"]).json()
        assert whole == {"prompt": text}
    assert post("/tokenize", prompt=3).json()["error"]["param"] == "prompt"
    unknown = post("/detokenize", tokens=[10**9]).json()["error"]
    assert unknown["param"] == "tokens"
    assert httpx.get(f"{root}/tokenizer_info").status_code == 401


@pytest.mark.long
def test_misuse_is_refused_by_name(address):
    for wrong in (None, [], [[]], [1.5], [True], ["a", 1], [["a"]], {"a": 1}):
        status, _, param = refusal(address, prompt=wrong)
        assert (status, param) == (400, "prompt"), wrong
    for ids in ([-1], [10**6], [2**70]):
        assert refusal(address, prompt=ids) == (400, "invalid_value", "prompt")
    too_long = (400, "context_length_exceeded", "prompt")
    assert refusal(address, prompt=[1] * 257, max_tokens=0) == too_long
    assert refusal(address, prompt=[1] * 256, max_tokens=1) == too_long
    assert refusal(address, prompt="a" * 900_000) == too_long
    assert refusal(address, prompt=["a"] * 65)[2] == "prompt"
    for field, value in {
        "suffix": "b",
        "best_of": 2,
        "logit_bias": {"1": 2},
        "steering": "off",
    }.items():
        refused = refusal(address, prompt="a", **{field: value})
        assert refused == (400, "unsupported_value", field)
    for field, value in {"logprobs": 21, "max_tokens": -1, "n": 17}.items():
        assert refusal(address, prompt="a", **{field: value})[2] == field


def replied(endpoint: type[ModelEndpoint], catalogue: Catalogue, **body) -> list[dict]:
    """What an endpoint sends: one body, or the events of a stream."""
    sent = []

    async def send(message) -> None:
        sent.append(message)

    limits = Limits()
    answering = endpoint(catalogue, limits, Gate(limits.concurrency, limits.queue))
    asyncio.run(answering._reply(json.dumps(body).encode(), Reply(send)))
    parts = [message.get("body", b"").removeprefix(b"data: ").strip() for message in sent]
    return [json.loads(part) for part in parts if part and part != b"[DONE]"]


@pytest.mark.parametrize("streams", [False, True])
def test_each_prompt_is_paid_for_once_and_each_answer_for_itself(
    streams, fake_engine, fake_catalogue
):
    """Prompts of two tokens and of three; each answer has three words and an end."""
    catalogue = fake_catalogue({"talker": fake_engine()})
    asked = {"model": "talker", "n": 3, "stream": streams}
    if streams:
        asked["stream_options"] = {"include_usage": True}
    texts = replied(CompletionEndpoint, catalogue, prompt=["one two", "three four five"], **asked)
    chat = [{"role": "user", "content": "one two three four five six seven"}]
    chats = replied(ChatEndpoint, catalogue, messages=chat, **asked)
    for events, prompts, answers in ((texts, 2 + 3, 2 * 3), (chats, 7, 3)):
        assert events[-1]["usage"] == {
            "prompt_tokens": prompts,
            "completion_tokens": answers * 4,
            "total_tokens": prompts + answers * 4,
        }


@pytest.mark.long
def test_every_answer_to_every_prompt_takes_a_place(serving, fake_engine, fake_catalogue):
    engine = fake_engine(pause=0.02)
    body = {"model": "talker", "prompt": ["one two", "three"], "n": 2}
    with serving(fake_catalogue({"talker": engine}), concurrency=5) as address:

        async def ask() -> list[httpx.Response]:
            headers = {"authorization": "Bearer secret"}
            async with httpx.AsyncClient(headers=headers, timeout=30) as client:
                url = f"{address.url}/completions"
                asked = [client.post(url, json={**body, "seed": seed}) for seed in range(2)]
                return await asyncio.gather(*asked)

        replies = [reply.json() for reply in asyncio.run(ask())]
    assert engine.most_under_way == 4  # of five places, so that the other request waits
    assert len(engine.asked) >= 8
    for reply in replies:
        assert [choice["text"] for choice in reply["choices"]] == ["one two three"] * 4
        assert reply["usage"]["prompt_tokens"] == 3  # each prompt once
