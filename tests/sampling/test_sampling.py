"""The sampler against transformers' own generation and warpers, against fresh forward passes, and
against itself.
"""

import copy
import functools

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import AutoModelForCausalLM, Lfm2Config, MambaConfig
from transformers.cache_utils import DynamicLayer
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from equipoise.errors import ModelError
from equipoise.models import progress, token_choice
from equipoise.models.loading import load_model
from equipoise.models.token_choice import SamplingSettings, choose
from equipoise.sampling import decoder
from equipoise.sampling.sampling import retrace, sample
from equipoise.sampling.sampling_batch import ROOM, RoomyLayer
from equipoise.seeds import uniform

FAMILIES = ["llama", "qwen3", "gemma3"]
LENGTHS = [30, 3, 17, 9, 17, 26]  # beyond and within the 12 tokens of Gemma's sliding window
TINY = {
    "vocab_size": 320,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "initializer_range": 0.3,
}
CUTS = [
    SamplingSettings(1.0),
    SamplingSettings(0.6),
    SamplingSettings(1.3, top_k=7),
    SamplingSettings(0.9, top_p=0.8),
    SamplingSettings(0.7, top_k=20, top_p=0.6),
    SamplingSettings(1.2, min_p=0.1),
    SamplingSettings(1.5, top_k=6, top_p=0.9, min_p=0.05),
]


@pytest.fixture(scope="module")
def model(model_folder):
    """model("llama") -> that tiny model."""
    made = {}

    def load(family: str):
        if family not in made:
            made[family] = AutoModelForCausalLM.from_pretrained(
                model_folder(family), dtype=torch.float32
            ).eval()
        return made[family]

    return load


def prompts_of(lengths, vocabulary=320) -> list[list[int]]:
    return [
        np.random.default_rng(n).integers(6, vocabulary, length).tolist()
        for n, length in enumerate(lengths)
    ]


PLAIN = SamplingSettings()


def run(model, prompts, choice=PLAIN, seeds=None, limit=24, stop_ids=(), batch_size=8, refill=True):
    seeds = list(range(len(prompts))) if seeds is None else seeds
    limits = [limit] * len(prompts) if isinstance(limit, int) else limit
    return sample(
        model,
        prompts,
        seeds,
        limits,
        choice,
        stop_ids=stop_ids,
        pad_id=0,
        batch_size=batch_size,
        refill=refill,
    )


def warped(logits_BV: torch.Tensor, choice: SamplingSettings) -> torch.Tensor:
    """Log-probabilities as transformers' warpers leave them."""
    warpers = LogitsProcessorList([TemperatureLogitsWarper(choice.temperature)])
    if choice.min_p:
        warpers.append(MinPLogitsWarper(choice.min_p))
    if choice.top_k:
        warpers.append(TopKLogitsWarper(choice.top_k))
    if choice.top_p < 1:
        warpers.append(TopPLogitsWarper(choice.top_p))
    nothing = torch.zeros(len(logits_BV), 1, dtype=torch.long)
    return warpers(nothing, logits_BV).log_softmax(-1)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_answers_are_those_of_generate(model, family):
    prompts = prompts_of(LENGTHS)
    free = run(model(family), prompts, SamplingSettings(0))
    stops = sorted(
        {answer.token_ids[5] for answer in free}
    )  # tokens that do occur, so that rows end at odd places
    answers = run(model(family), prompts, SamplingSettings(0), stop_ids=stops)
    assert len({len(answer.token_ids) for answer in answers}) > 1
    for prompt, answer in zip(prompts, answers, strict=True):
        expected = model(family).generate(
            torch.tensor([prompt]),
            do_sample=False,
            max_new_tokens=24,
            eos_token_id=stops,
            pad_token_id=0,
        )[0, len(prompt) :]
        assert answer.token_ids == expected.tolist()
        assert answer.ended == (answer.token_ids[-1] in stops)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("choice", CUTS)
def test_logprobs_are_those_of_a_fresh_forward_pass(model, family, choice):
    prompts = prompts_of(LENGTHS)
    for prompt, answer in zip(
        prompts, run(model(family), prompts, choice, stop_ids=[50, 60]), strict=True
    ):
        ids = torch.tensor([prompt + answer.token_ids])
        with torch.no_grad():
            logits_TV = model(family)(ids).logits[0, len(prompt) - 1 : -1]
        expected = warped(logits_TV, choice).gather(1, torch.tensor(answer.token_ids)[:, None])[
            :, 0
        ]
        assert np.allclose(answer.logprobs, expected, atol=2e-4)


def test_layers_that_keep_a_state_follow_their_rows():
    torch.manual_seed(0)
    layers = ["conv", "full_attention"]
    model = AutoModelForCausalLM.from_config(
        Lfm2Config(**TINY, layer_types=layers, eos_token_id=None)
    ).eval()
    prompts = prompts_of([9] * 6)
    answers = run(
        model, [*prompts, prompts[0]], SamplingSettings(0), limit=[20, 3, 9, 20, 5, 12, 20]
    )
    for prompt, answer in zip(prompts, answers, strict=False):
        expected = model.generate(
            torch.tensor([prompt]),
            do_sample=False,
            max_new_tokens=len(answer.token_ids),
            pad_token_id=0,
        )
        assert answer.token_ids == expected[0, 9:].tolist()
    assert answers[0] == answers[6]


def test_a_model_without_a_cache_of_this_kind_is_refused():
    small = MambaConfig(vocab_size=32, hidden_size=8, num_hidden_layers=1, state_size=2)
    with pytest.raises(ModelError, match="MambaForCausalLM keeps its past"):
        run(AutoModelForCausalLM.from_config(small), [[3, 4]])


def test_greedy_logprobs_are_under_the_models_own_distribution(model):
    prompt = prompts_of([12])[0]
    (answer,) = run(model("llama"), [prompt], SamplingSettings(0))
    with torch.no_grad():
        logits_TV = model("llama")(torch.tensor([prompt + answer.token_ids])).logits[
            0, len(prompt) - 1 : -1
        ]
    assert np.allclose(answer.logprobs, logits_TV.log_softmax(-1).amax(-1), atol=2e-4)


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_does_not_depend_on_its_neighbours(model, family):
    prompts, seeds, choice = (
        prompts_of(LENGTHS),
        [7 * n + 1 for n in range(6)],
        SamplingSettings(0.9, top_p=0.9),
    )
    together = run(model(family), prompts, choice, seeds, stop_ids=[50, 60], batch_size=6)
    backwards = run(
        model(family), prompts[::-1], choice, seeds[::-1], stop_ids=[50, 60], batch_size=4
    )[::-1]
    alone = [
        run(model(family), [p], choice, [s], stop_ids=[50, 60])[0]
        for p, s in zip(prompts, seeds, strict=True)
    ]
    for one, other, third in zip(together, backwards, alone, strict=True):
        assert one.token_ids == other.token_ids == third.token_ids
        assert np.allclose(one.logprobs, third.logprobs, atol=2e-4)


def test_the_same_call_gives_the_same_bits_and_another_seed_another_answer(model):
    prompts = prompts_of(LENGTHS)
    first, second = (run(model("llama"), prompts, SamplingSettings(0.8)) for _ in range(2))
    assert first == second
    other = run(
        model("llama"), prompts, SamplingSettings(0.8), seeds=[100 + n for n in range(len(prompts))]
    )
    assert all(one.token_ids != two.token_ids for one, two in zip(first, other, strict=True))


def test_one_prompt_with_many_seeds_is_read_once_and_sampled_apart(model, monkeypatch):
    shapes = watch(model("llama"), monkeypatch)
    prompt, other = prompts_of([14, 10])
    answers = run(model("llama"), [prompt, other, prompt, prompt], limit=6)
    assert shapes[0] == (2, 14)
    assert shapes[1] == (4, 1)
    assert answers[2].token_ids == run(model("llama"), [prompt], seeds=[2], limit=6)[0].token_ids
    assert len({tuple(answer.token_ids) for answer in answers}) == 4


def test_finished_rows_leave_the_batch(model, monkeypatch):
    shapes = watch(model("llama"), monkeypatch)
    limits = [2, 3, 4, 5, 6, 7, 8, 30]
    prompts = prompts_of([10] * 8)
    answers = run(model("llama"), prompts, limit=limits)
    assert [len(answer.token_ids) for answer in answers] == limits
    assert not any(answer.ended for answer in answers)
    rows = [rows for rows, _ in shapes[1:]]
    assert rows == [sum(limit > done for limit in limits) for done in range(1, 30)]
    assert (
        answers[7].token_ids == run(model("llama"), prompts[7:], seeds=[7], limit=30)[0].token_ids
    )


@pytest.mark.long
def test_a_past_grows_in_its_room_as_if_it_were_copied():
    torch.manual_seed(0)
    roomy, plain = RoomyLayer(), DynamicLayer()
    moved = 0
    for step in range(3 * ROOM):
        width = 5 if step == 0 else 1
        new = torch.randn(2, 4 if step == 0 else len(plain.keys), 2, width, 3)
        place = roomy.keys.data_ptr() if step else 0
        for own, theirs in zip(roomy.update(*new), plain.update(*new), strict=True):
            assert torch.equal(own, theirs)
        moved += roomy.keys.data_ptr() != place
        if step == ROOM // 2:  # a row leaves, and the columns that nobody needs
            for layer in (roomy, plain):
                layer.reorder_cache(torch.tensor([3, 0, 2]))
                layer.keys, layer.values = layer.keys[:, :, -9:], layer.values[:, :, -9:]
    assert moved == 4  # at the start, after the row has left, and twice when the room is full
    twin = copy.copy(roomy)
    twin.reorder_cache(torch.tensor([1]))
    kept = roomy.keys.clone()
    twin.update(*torch.randn(2, 1, 2, 1, 3))
    assert torch.equal(roomy.keys, kept)


@pytest.mark.long
def test_others_take_the_places_of_finished_rows(model, monkeypatch):
    """On mixed lengths it takes hardly more steps than full batches would."""
    dice = np.random.default_rng(5)
    limits = np.clip(dice.geometric(1 / 6, 240), 1, 30).tolist()
    prompts = prompts_of(dice.integers(4, 20, 80).tolist()) * 3
    seeds = list(range(240))
    apart = run(model("llama"), prompts, seeds=seeds, limit=limits, refill=False)
    shapes = watch(model("llama"), monkeypatch)
    answers = run(model("llama"), prompts, seeds=seeds, limit=limits)
    steps = sum(width == 1 for _, width in shapes)
    assert steps <= 1.1 * sum(limits) / 8
    assert sum(rows for rows, width in shapes if width > 1) == 80
    for answer, other in zip(answers, apart, strict=True):
        assert answer.token_ids == other.token_ids
        assert np.allclose(answer.logprobs, other.logprobs, atol=2e-4)


def test_prompts_are_read_a_bounded_number_of_tokens_at_a_time(model, monkeypatch):
    monkeypatch.setattr(decoder, "MOST_READ", 40)
    prompts = prompts_of(LENGTHS)
    expected = run(model("llama"), prompts, stop_ids=[50, 60], refill=False)
    shapes = watch(model("llama"), monkeypatch)
    assert run(model("llama"), prompts, stop_ids=[50, 60]) == expected
    assert all(rows * width <= 40 for rows, width in shapes)


def test_progress_is_told_while_answers_grow(model, monkeypatch):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    heard = []
    with progress.following(heard.append):
        run(model("llama"), prompts_of([5, 9, 3, 4]), limit=10, batch_size=2)
    assert len(heard) >= 20  # two batches of ten steps
    assert max(heard) < 0.5
    assert sum(heard) == pytest.approx(4)
    run(model("llama"), prompts_of([5]), limit=2)
    assert sum(heard) == pytest.approx(4)  # nobody follows any more


def watch(model, monkeypatch) -> list[tuple[int, int]]:
    """The shapes of all inputs that the model is given from now on."""
    shapes: list[tuple[int, int]] = []
    forward = type(model).forward

    @functools.wraps(forward)
    def watching(self, input_ids, **more):
        shapes.append(tuple(input_ids.shape))
        return forward(self, input_ids=input_ids, **more)

    monkeypatch.setattr(type(model), "forward", watching)
    return shapes


@pytest.mark.parametrize("choice", CUTS)
def test_tokens_come_as_often_as_they_are_likely(choice):
    logits_V = torch.tensor([0.3, -1.2, 2.0, 1.1, 0.0, -3.0, 0.9, 1.6])
    number_B = torch.from_numpy(uniform(np.arange(10_000), 3))
    token_B, logprob_B, _ = choose(logits_V.expand(10_000, -1), number_B, choice)
    expected_V = warped(logits_V[None], choice)[0]
    count_V = torch.bincount(token_B, minlength=8).numpy()
    likely_V = expected_V.exp().double().numpy()
    assert count_V[likely_V == 0].sum() == 0
    possible = likely_V > 0
    assert chisquare(count_V[possible], likely_V[possible] / likely_V.sum() * 10_000).pvalue > 1e-3
    assert torch.allclose(logprob_B, expected_V[token_B], atol=1e-5)


@pytest.mark.parametrize("vocabulary", [5, 256, 1000, 3000])
def test_a_token_is_the_inverse_of_the_cumulative_distribution(vocabulary):
    logits_BV = 4 * torch.randn(
        500, vocabulary, generator=torch.Generator().manual_seed(vocabulary)
    )
    number_B = uniform(np.arange(500), 0)
    token_B, _, _ = choose(logits_BV, torch.from_numpy(number_B), SamplingSettings())
    running_BV = logits_BV.double().softmax(-1).cumsum(-1).numpy()
    for token, number, running_V in zip(token_B.tolist(), number_B, running_BV, strict=True):
        assert (running_V[token - 1] if token else 0) - 1e-6 <= number <= running_V[token] + 1e-6


@pytest.mark.parametrize("choice", CUTS[2:])
def test_the_cuts_keep_what_transformers_keeps(choice, monkeypatch):
    logits_BV = 2 * torch.randn(64, 700, generator=torch.Generator().manual_seed(1))
    kept_BV = warped(logits_BV, choice) > -torch.inf
    for ranked in (
        1024,
        150,
        16,
    ):  # all is sorted at once; the first 150 suffice; the first 16 do not
        monkeypatch.setattr(token_choice, "RANKED", ranked)
        scaled_BV = logits_BV / choice.temperature
        assert torch.equal(scaled_BV >= token_choice._least_kept(scaled_BV, choice), kept_BV)


def test_the_penalty_is_that_of_transformers_on_the_answer_alone(model):
    """Greedily, token by token, by transformers' own processor; the prompt's tokens go free."""
    from transformers import RepetitionPenaltyLogitsProcessor

    prompts, penalty = [[5, 6, 7, 5], [9, 9]], 1.8
    settings = SamplingSettings(0.0, repetition_penalty=penalty)
    llama = model("llama")
    limits = {"limits": [12, 7], "stop_ids": [], "pad_id": 0, "batch_size": 2}
    answers = sample(llama, prompts, [1, 2], settings=settings, **limits)
    free = sample(llama, prompts, [1, 2], settings=SamplingSettings(0.0), **limits)
    assert [a.token_ids for a in answers] != [a.token_ids for a in free]
    processor = RepetitionPenaltyLogitsProcessor(penalty)
    for prompt, answer in zip(prompts, answers, strict=True):
        for t, token in enumerate(answer.token_ids):
            logits_1V = llama(torch.tensor([prompt + answer.token_ids[:t]])).logits[:, -1]
            written = torch.tensor([answer.token_ids[:t]], dtype=torch.int64)
            assert token == int(processor(written, logits_1V).argmax())


PENALTIES = [
    {"repetition_penalty": 2.0},
    {"presence_penalty": 1.5},
    {"frequency_penalty": -1.0},
    {"repetition_penalty": 1.3, "presence_penalty": -0.5, "frequency_penalty": 0.7, "min_p": 0.01},
]


@pytest.mark.long
@pytest.mark.parametrize("penalties", PENALTIES)
def test_what_is_recorded_is_the_distribution_that_was_sampled(model, penalties):
    """Of rows that come and go, token by token by the definition: OpenAI's API for the two that
    are subtracted, transformers for the one that divides and for min_p.
    """
    llama, prompts = model("llama"), prompts_of(LENGTHS)
    settings = SamplingSettings(0.9, **penalties)
    answers = run(llama, prompts, settings, stop_ids=[50, 60], batch_size=3)
    for prompt, answer in zip(prompts, answers, strict=True):
        with torch.no_grad():
            logits_TV = llama(torch.tensor([prompt + answer.token_ids])).logits[0]
        for t, token in enumerate(answer.token_ids):
            logits_V = logits_TV[len(prompt) - 1 + t].clone()
            for written in set(answer.token_ids[:t]):
                factor = settings.repetition_penalty
                logits_V[written] *= factor if logits_V[written] < 0 else 1 / factor
                times = answer.token_ids[:t].count(written)
                logits_V[written] -= settings.presence_penalty + settings.frequency_penalty * times
            expected_V = warped(logits_V[None], settings)[0]
            assert answer.logprobs[t] == pytest.approx(float(expected_V[token]), abs=2e-4)


@pytest.mark.parametrize("penalties", PENALTIES)
def test_the_penalty_changes_what_is_sampled_not_the_policys_own_numbers(model, penalties):
    llama = model("llama")
    settings = SamplingSettings(0.8, top_p=0.9, **penalties)
    (answer,) = sample(llama, [[5, 6, 7]], [3], [10], settings, stop_ids=[], pad_id=0, batch_size=1)
    [own] = retrace(llama, [[5, 6, 7]], [answer.token_ids], 0.8, 0)
    assert answer.uncut == pytest.approx(own, abs=1e-4)
    assert max(abs(x - y) for x, y in zip(answer.logprobs, own, strict=True)) > 0.05


@pytest.mark.parametrize("number", [0.0, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("vocabulary", [4, 256, 300, 2048])
def test_what_is_impossible_never_comes(number, vocabulary):
    logits_BV = torch.full((1, vocabulary), -torch.inf)
    logits_BV[0, vocabulary // 2] = 0.0
    for choice in [SamplingSettings(), SamplingSettings(top_k=3), SamplingSettings(top_p=0.5)]:
        token_B, logprob_B, _ = choose(
            logits_BV, torch.tensor([number], dtype=torch.float64), choice
        )
        assert token_B.tolist() == [vocabulary // 2]
        assert logprob_B.tolist() == [0.0]


def test_a_batch_of_prompts_does_not_copy_the_head() -> None:
    """The last positions are a strided view, which torch would multiply row by row."""
    model = load_model("builtin")
    vocabulary = model.config.vocab_size
    prompts = [[1, 2, 3], [4, 5, 6]]
    with torch.profiler.profile(record_shapes=True) as profile:
        sample(model, prompts, [0, 1], [2, 2], PLAIN, stop_ids=[], pad_id=0, batch_size=2)
    products = {
        event.name
        for event in profile.events()
        if any(vocabulary in shape for shape in event.input_shapes)
    }
    assert "aten::mm" in products
    assert "aten::bmm" not in products
