"""A served answer is the player's own answer, whoever else is being answered, and whenever it
joined.
"""

import asyncio
import contextlib
import threading

import pytest
import torch

from equipoise.models.adapters import Lora
from equipoise.models.resources import Resources
from equipoise.models.token_choice import SamplingSettings
from equipoise.players.local import Local
from equipoise.sampling.decoder import Decoder
from equipoise.serve.engine import EngineError, EngineRequest, Refused
from equipoise.serve.local_engine import LocalEngine
from equipoise.serve.model_thread import PendingAnswer
from equipoise.types import Message, View, user

CHATS = [
    (user("Yes or no?"),),
    (user("How much is three and four? Then say why."),),
    (user("Why?"), Message("assistant", "No."), user("When does the train leave?")),
]


def player(folder, **settings) -> Local:
    return Local(**{"model": str(folder), "max_new_tokens": 20, **settings})


def asked(number: int, settings: Local, **more) -> EngineRequest:
    return EngineRequest(
        **{
            "messages": CHATS[number % 3],
            "seed": number,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "top_k": settings.top_k,
            "max_tokens": settings.max_new_tokens,
            **more,
        }
    )


async def answer(
    engine: LocalEngine, question: EngineRequest, after: float = 0
) -> tuple[str, str, int]:
    await asyncio.sleep(after)
    pieces = [piece async for piece in engine.generate(question)]
    assert [piece.finish for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
    return ("".join(p.text for p in pieces), pieces[-1].finish or "", sum(p.tokens for p in pieces))


def expected(actor, settings: Local, seeds) -> list[tuple[str, str, int]]:
    moves = [actor.act([View(CHATS[seed % 3])], [seed])[0] for seed in seeds]
    return [(move.text, move.finish, move.tokens) for move in moves]


CUT = {"top_p": 0.8, "top_k": 40, "temperature": 0.7}


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "cut"),
    [
        ("llama", {"temperature": 0.0}),
        ("llama", CUT),
        ("gemma3", {}),
        pytest.param("llama", {}, marks=pytest.mark.slow),
        pytest.param("qwen3", CUT, marks=pytest.mark.slow),
        # the other ways to sample, by models whose caches differ
        pytest.param("qwen3", {}, marks=pytest.mark.slow),
        pytest.param("qwen3", {"temperature": 0.0}, marks=pytest.mark.slow),
        pytest.param("gemma3", {"temperature": 0.0}, marks=pytest.mark.slow),
        pytest.param("gemma3", CUT, marks=pytest.mark.slow),
    ],
)
def test_what_is_served_is_what_the_player_answers(model_folder, family, cut):
    settings, resources = player(model_folder(family), **cut), Resources()
    engine = LocalEngine(settings, None, resources)

    async def ask() -> list[tuple[str, str, int]]:
        found = await asyncio.gather(
            *(answer(engine, asked(n, settings), n * 0.002) for n in range(9))
        )
        await engine.close()
        return found

    assert asyncio.run(ask()) == expected(settings.open(None, resources), settings, range(9))


@pytest.mark.long
def test_questions_with_other_settings_share_a_round(model_folder):
    resources = Resources()
    kinds = [
        player(model_folder("llama"), **s)
        for s in ({}, {"temperature": 0.0}, {"top_k": 5, "max_new_tokens": 7})
    ]
    engine = LocalEngine(kinds[0], None, resources)

    async def ask() -> list[tuple[str, str, int]]:
        return await asyncio.gather(*(answer(engine, asked(n, kinds[n % 3])) for n in range(9)))

    found = asyncio.run(ask())
    for n in range(9):
        assert [found[n]] == expected(kinds[n % 3].open(None, resources), kinds[n % 3], [n])


@pytest.mark.long
def test_adapters_of_one_model_share_it(model_folder, adapter_folder):
    settings, resources = (player(model_folder("llama"), lora=Lora(r=2, alpha=4)), Resources())
    folders = [None, adapter_folder("llama", 1)[1], adapter_folder("llama", 2)[1]]
    engines = [LocalEngine(settings, folder, resources) for folder in folders]
    assert len({id(engine._thread) for engine in engines}) == 1

    async def ask() -> list[tuple[str, str, int]]:
        return await asyncio.gather(
            *(answer(engines[n % 3], asked(n, settings), n * 0.003) for n in range(9))
        )

    found = asyncio.run(ask())
    texts = [expected(settings.open(folder, Resources()), settings, range(9)) for folder in folders]
    assert found == [texts[n % 3][n] for n in range(9)]
    assert texts[0] != texts[1] != texts[2]


@pytest.mark.long
def test_an_answer_goes_on_from_its_own_beginning():
    """Where the beginning is tokenised as it was sampled, the rest is what it would have been."""
    settings, resources = player("builtin", max_new_tokens=10), Resources()
    engine, encoding = LocalEngine(settings, None, resources), settings.encoding()
    moves = settings.open(None, resources).act([View(CHATS[n % 3]) for n in range(40)], range(40))

    async def rest(seed: int, cut: int) -> tuple[str, str, int]:
        question = asked(
            seed, settings, prefix=encoding.decode(moves[seed].token_ids[:cut]), max_tokens=10 - cut
        )
        return await answer(engine, question)

    async def ask() -> int:
        same = 0
        for seed, move in enumerate(moves):
            cut = len(move.token_ids) // 2
            begun = encoding.decode(move.token_ids[:cut])
            if tuple(encoding.text_ids(begun)) == move.token_ids[:cut]:
                text, finish, tokens = await rest(seed, cut)
                assert (begun + text, finish, cut + tokens) == (move.text, move.finish, move.tokens)
                same += 1
        return same

    assert asyncio.run(ask()) >= 3


def test_a_text_that_ends_an_answer_ends_it(model_folder):
    settings = player(model_folder("llama"))
    engine = LocalEngine(settings)

    async def ask() -> None:
        whole, _, tokens = await answer(engine, asked(4, settings))
        stop = whole[len(whole) // 2 :][:2]
        text, finish, fewer = await answer(engine, asked(4, settings, stop=(stop,)))
        assert (text, finish) == (whole[: whole.index(stop)], "stop")
        assert fewer < tokens

    asyncio.run(ask())


@pytest.mark.long
def test_who_goes_away_frees_the_place(model_folder):
    settings = player(model_folder("llama"), batch_size=1)
    engine = LocalEngine(settings)
    endless = asked(0, settings, temperature=1.0, max_tokens=200)

    async def ask() -> None:
        stream = engine.generate(endless)
        await anext(stream)
        waiting = asyncio.create_task(answer(engine, asked(1, settings)))
        await asyncio.sleep(0.01)
        await stream.aclose()
        with contextlib.suppress(StopAsyncIteration):
            await anext(stream)
        assert (await asyncio.wait_for(waiting, 20))[0] == expected(
            settings.open(None, Resources()), settings, [1]
        )[0][0]
        while engine._thread.answers:
            await asyncio.sleep(0.001)
        await engine.close()
        with pytest.raises(EngineError, match="closed"):
            await answer(engine, endless)

    asyncio.run(ask())


def test_an_answer_that_nobody_waits_for_grows_no_further(model_folder, monkeypatch):
    """The client gives leave for each round of the thread, until the first text has come."""
    settings = player(model_folder("llama"), temperature=1.0)
    engine = LocalEngine(settings)
    leave, rounds, plain_round = threading.Semaphore(0), [0], Decoder.round

    def held(decoder):
        assert leave.acquire(timeout=20)
        rounds[0] += 1
        plain_round(decoder)

    monkeypatch.setattr(Decoder, "round", held)

    async def ask() -> int:
        stream = engine.generate(asked(0, settings, max_tokens=100))
        first = asyncio.create_task(anext(stream))
        given = 0
        while not first.done():
            if given == rounds[0]:
                leave.release()
                given += 1
            await asyncio.sleep(0.001)
        await stream.aclose()
        leave.release(100)
        while engine._thread.answers:
            await asyncio.sleep(0.001)
        await engine.close()
        return given

    given = asyncio.run(ask())
    assert rounds[0] - given <= 2, "of a hundred"


def test_prompts_that_are_scored_together_show_as_many_likely_tokens_as_each_wants(model_folder):
    settings = player(model_folder("llama"))
    engine = LocalEngine(settings)
    encoding, thread = engine._encoding, engine._thread
    wanted = [1, 4, 0, 2]

    async def ask() -> list[PendingAnswer]:
        scored = []
        for number, likeliest in enumerate(wanted):
            echoed = {"echo": True, "logprobs": likeliest, "max_tokens": 0}
            question = asked(number, settings, **echoed)
            ids = encoding.text_ids("How so? " * (number + 1))
            scored.append(PendingAnswer(question, ids, [], None, encoding, engine._texts))
        with torch.inference_mode():
            thread._score(None, scored)
        await engine.close()
        return scored

    scored = asyncio.run(ask())
    for answered, likeliest in zip(scored, wanted, strict=True):
        [(_, piece)] = answered.outbox
        assert piece.text == "How so? " * (wanted.index(likeliest) + 1)
        assert {len(score.top) for score in piece.scores[1:]} == {likeliest}


def test_a_request_is_sampled_by_the_settings_of_their_names(model_folder):
    """Every number is another one, and each is found where its name is."""
    settings = player(model_folder("llama"))
    engine = LocalEngine(settings)
    sampling = {
        "temperature": 0.9,
        "top_k": 7,
        "top_p": 0.8,
        "repetition_penalty": 1.1,
        "min_p": 0.05,
        "presence_penalty": 0.3,
        "frequency_penalty": -0.4,
    }

    async def ask() -> SamplingSettings:
        question = asked(0, settings, **sampling)
        made = PendingAnswer(question, [1, 2], [], None, engine._encoding, engine._texts)
        await engine.close()
        return made.settings

    assert asyncio.run(ask()) == SamplingSettings(**sampling)


def test_what_cannot_be_answered_is_refused(model_folder):
    settings = player(model_folder("gemma3"))
    engine = LocalEngine(settings)

    async def ask(*messages: Message, **more) -> Refused:
        with pytest.raises(Refused) as caught:
            await answer(engine, asked(0, settings, messages=messages, **more))
        return caught.value

    assert asyncio.run(ask(user("word " * 500))).code == "context_length_exceeded"
    assert asyncio.run(ask(user("hi"), prefix="word " * 500)).code == "context_length_exceeded"
    assert asyncio.run(ask()).code == "invalid_value"
    assert asyncio.run(ask(Message("assistant", "first"))).code == "invalid_value"
    assert asyncio.run(ask(user("hi"), seed=2**63)).param == "seed"
    assert asyncio.run(engine.count(CHATS[0])) == len(settings.encoding().prompt_ids(CHATS[0]))


def test_a_failure_ends_the_answers_that_it_befell_and_no_others(model_folder, monkeypatch, caplog):
    settings = player(model_folder("llama"))
    engine = LocalEngine(settings)

    async def ask() -> None:
        def broken(self):
            raise MemoryError("no memory")

        with monkeypatch.context() as patch:
            patch.setattr("equipoise.sampling.decoder.Decoder.round", broken)
            pieces = [piece async for piece in engine.generate(asked(0, settings))]
        assert [piece.finish for piece in pieces] == ["error"]
        assert "MemoryError" in pieces[0].error
        assert (await answer(engine, asked(1, settings)))[2] > 0

    asyncio.run(ask())


@pytest.mark.long
def test_what_cannot_be_answered_fails_alone(model_folder):
    """A row whose logits are no numbers, beside others; tiny temperatures are greedy."""
    settings, resources = player(model_folder("llama")), Resources()
    engine = LocalEngine(settings, None, resources)
    actor = settings.open(None, resources)
    greedy = player(model_folder("llama"), temperature=0.0)
    alone = [*expected(actor, settings, range(3))]
    likeliest = expected(greedy.open(None, resources), greedy, [1])
    (poison,) = settings.encoding().text_ids("#")
    embeddings = engine._thread._base.model.get_input_embeddings()

    def spoil(module, inputs, hidden):
        return hidden.masked_fill((inputs[0] == poison)[..., None], float("nan"))

    async def ask() -> list:
        spoilt = {"messages": (user("a # b"),)}
        prompt = {"messages": (), "echo": True, "logprobs": 1, "max_tokens": 0}
        ids = settings.encoding().text_ids("How so?")
        questions = [
            *(asked(n, settings) for n in range(3)),
            asked(3, settings, **spoilt),
            asked(1, settings, temperature=1e-300),
            asked(1, settings, temperature=1e-7),
            asked(0, settings, **prompt, prompt_ids=tuple(ids)),
            asked(0, settings, **prompt, prompt_ids=(*ids, poison, *ids)),
        ]
        found = await asyncio.gather(*(answer(engine, each) for each in questions))
        await engine.close()
        return found

    with embeddings.register_forward_hook(spoil):
        found = asyncio.run(ask())
    assert found[:3] == alone
    assert found[3][1] == "error"
    assert found[4:6] == likeliest * 2
    assert found[6] == ("How so?", "length", 0)
    assert found[7][1] == "error"


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_read(model_folder):
    engine = LocalEngine(player(model_folder("llama")), None, Resources())
    many = tuple(user("") for _ in range(50_000))
    for messages, size in (((user("a" * 10**7),), "characters"), (many, "messages")):
        with pytest.raises(Refused, match=f"of [0-9]+ {size} leaves no room"):
            asyncio.run(engine.count(messages))
    asyncio.run(engine.close())
