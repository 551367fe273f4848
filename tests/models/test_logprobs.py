"""Log-probabilities through the chunked head against the plain way: full logits, softmax, gather."""

import peft
import pytest
import torch
import transformers
from torch.nn.attention import flex_attention
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.integrations.flex_attention import WrappedFlexAttention

from equipoise.errors import ModelError
from equipoise.models.logprobs import answer_logprobs
from equipoise.models.output_head import AnswerHead, ChunkedLogprob, Tail
from equipoise.models.packing import PromptAnswers, _can_mask, pack, shares_prompts

V = 97
SIZES = {
    "vocab_size": V,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GEMMA = {"head_dim": 8, "num_key_value_heads": 2, "sliding_window": 64}
# Architectures that differ in what follows the head, in its bias, in their masks and positions, in
# having attention.
ARCHITECTURES = {
    "llama": ("Llama", "LlamaConfig", {"num_key_value_heads": 2}),
    "qwen3": (
        "Qwen3",
        "Qwen3Config",
        {"num_key_value_heads": 2, "head_dim": 8, "tie_word_embeddings": True},
    ),
    "gemma3": ("Gemma3", "Gemma3TextConfig", GEMMA),
    "gemma2, soft cap": ("Gemma2", "Gemma2Config", {**GEMMA, "final_logit_softcapping": 3.0}),
    "granite, divided": ("Granite", "GraniteConfig", {"logits_scaling": 7.0}),
    "cohere, multiplied": ("Cohere", "CohereConfig", {"logit_scale": 0.0625}),
    "phi, bias": ("Phi", "PhiConfig", {}),
    "mamba, recurrent": ("Mamba", "MambaConfig", {"state_size": 4}),
    "falcon, alibi": ("Falcon", "FalconConfig", {"alibi": True}),
}
UNSHARED = {"mamba, recurrent", "falcon, alibi"}


def make(name: str):
    family, config, more = ARCHITECTURES[name]
    torch.set_num_threads(1)
    torch.manual_seed(3)
    known = getattr(transformers, config)
    model = getattr(transformers, f"{family}ForCausalLM")(known(**SIZES, **more)).eval()
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)  # far from uniform, so that a mistake shows
    return model


def some_answers(prompts: int = 3, answers: int = 2) -> list[PromptAnswers]:
    g = torch.Generator().manual_seed(1)

    def ids(low: int, high: int) -> list[int]:
        length = int(torch.randint(low, high, (1,), generator=g))
        return torch.randint(3, V, (length,), generator=g).tolist()

    return [PromptAnswers(ids(3, 9), [ids(1, 9) for _ in range(answers)]) for _ in range(prompts)]


def plainly(model, batch: list[PromptAnswers]) -> torch.Tensor:
    """One row at a time, all logits held."""
    sums = []
    for item in batch:
        for answer in item.answers:
            ids = torch.tensor([[*item.prompt, *answer]])
            logits = model(input_ids=ids, use_cache=False).logits.float()
            logprobs = torch.log_softmax(logits, -1)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
            sums.append(logprobs[len(item.prompt) - 1 :].sum())
    return torch.stack(sums)


def gradients(model, sums: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    (sums * torch.linspace(-1, 1, len(sums))).sum().backward()
    return {
        name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
    }


def assert_same(model, head: AnswerHead, batch: list[PromptAnswers], shared: bool):
    expected = plainly(model, batch)
    wanted = gradients(model, expected)
    found = pack(batch, 0, shared=shared).sums(head, model)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    got = gradients(model, found)
    assert got.keys() == wanted.keys()
    for name in wanted:
        torch.testing.assert_close(
            got[name], wanted[name], rtol=1e-3, atol=1e-4 * wanted[name].abs().max().item()
        )


@pytest.mark.long
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_sums_and_gradients_are_those_of_the_full_logits(name: str):
    model, batch = make(name), some_answers()
    head = AnswerHead(model, chunk=3)
    shares = shares_prompts(head, model, batch[0], longest=20)
    assert shares == (name not in UNSHARED)
    for shared in {False, shares}:
        assert_same(model, head, batch, shared)


@pytest.mark.parametrize("target", ["all-linear", ["q_proj", "lm_head"]])
def test_adapters_are_trained_through_the_head_too(target):
    model = make("llama")
    model = peft.get_peft_model(
        model, peft.LoraConfig(r=2, target_modules=target, task_type="CAUSAL_LM")
    )
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.3)
    assert_same(model, AnswerHead(model, chunk=3), some_answers(), shared=True)


def test_the_model_is_left_as_it_was():
    model = make("llama").train()
    names = list(model.state_dict())
    AnswerHead(model, 4)
    answer_logprobs(model, [[3, 4, 5, 6]], [2], 0)
    assert model.training
    assert "forward" not in vars(model.lm_head)
    assert list(model.state_dict()) == names
    assert model(input_ids=torch.tensor([[3, 4]])).logits.shape == (1, 2, V)


class Widest(TorchDispatchMode):
    """Remembers the most rows that any tensor of vocabulary width has had."""

    rows = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor) and tensor.ndim > 1 and tensor.shape[-1] == V:
                self.rows = max(self.rows, tensor.numel() // V)
        return out


@pytest.mark.parametrize(
    "target", [None, "all-linear", ["lm_head"]], ids=["full", "frozen head", "adapter on the head"]
)
def test_full_logits_are_never_held(target):
    model, batch = make("llama"), some_answers(prompts=20)
    if target is not None:
        model = peft.get_peft_model(
            model, peft.LoraConfig(r=2, target_modules=target, task_type="CAUSAL_LM")
        )
    head = AnswerHead(model, chunk=7)
    pack(batch[:1], 0, shared=True).sums(
        head, model
    )  # the tail is measured on a few tokens of plain logits
    packed = pack(batch, 0, shared=True)
    assert len(packed.target_N) > 100
    saved = []
    with (
        Widest() as widest,
        torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t),
    ):
        packed.sums(head, model).sum().backward()
    weights = 32  # the head's weight and its gradient, transposed, have the width of the vocabulary and the rank's rows
    assert 7 <= widest.rows <= weights
    assert not [
        shape for shape in saved if len(shape) > 1 and shape[-1] == V and shape[0] > weights
    ]


def test_one_long_row_holds_no_more_than_a_chunk():
    hidden, weight = (
        torch.randn(500, 8, requires_grad=True),
        torch.randn(V, 8, requires_grad=True),
    )
    with Widest() as widest:
        ChunkedLogprob.apply(
            hidden, weight, None, torch.arange(500) % V, Tail(), 16
        ).sum().backward()
    assert widest.rows == 16


@pytest.mark.parametrize("tail", [Tail(), Tail(0.5), Tail(2.0, 3.0)])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_fused_gradient_against_double_precision(tail: Tail, frozen: bool):
    g = torch.Generator().manual_seed(0)
    hidden = torch.randn(5, 4, generator=g, requires_grad=True)
    weight = torch.randn(7, 4, generator=g, requires_grad=not frozen)
    bias = torch.randn(7, generator=g, requires_grad=not frozen)
    target, up = torch.tensor([0, 6, 3, 3, 1]), torch.randn(5, generator=g)
    found = ChunkedLogprob.apply(hidden, weight, bias, target, tail, 2)
    exact = [x.detach().double().requires_grad_(x.requires_grad) for x in (hidden, weight, bias)]
    told = torch.log_softmax(tail(exact[0] @ exact[1].T + exact[2]), -1).gather(1, target[:, None])[
        :, 0
    ]
    torch.testing.assert_close(found.double(), told, rtol=1e-5, atol=1e-5)
    (found * up).sum().backward()
    (told * up.double()).sum().backward()
    for x, y in zip((hidden, weight, bias), exact, strict=True):
        assert (x.grad is None) == (y.grad is None)
        if x.grad is not None and y.grad is not None:
            torch.testing.assert_close(x.grad.double(), y.grad, rtol=1e-4, atol=1e-5)


def test_a_tail_of_another_kind_is_an_error():
    class Shifted(transformers.LlamaForCausalLM):
        def forward(self, **kwargs):
            out = super().forward(**kwargs)
            out.logits = out.logits + 1.0
            return out

    model = Shifted(transformers.LlamaConfig(**SIZES))
    with pytest.raises(ModelError, match="neither a scale nor a soft cap"):
        answer_logprobs(model, [[3, 4, 5]], [1], 0)


def test_a_broken_model_is_told_from_a_strange_one():
    model = make("llama")
    torch.nn.init.constant_(model.lm_head.weight, float("nan"))
    with pytest.raises(ModelError, match="its weights are broken"):
        answer_logprobs(model, [[3, 4, 5]], [1], 0)


def test_a_model_without_a_head_is_an_error():
    with pytest.raises(ModelError, match="no output head"):
        AnswerHead(transformers.LlamaModel(transformers.LlamaConfig(**SIZES)), 4)


def test_attention_that_slides_over_less_than_a_row_does_not_share():
    name = "gemma3"
    model = make(name)
    head, example = AnswerHead(model, 4), some_answers()[0]
    assert shares_prompts(head, model, example, longest=64)
    assert not shares_prompts(head, model, example, longest=65)


def test_shared_rows_are_shorter_and_only_taken_when_they_save():
    long_prompt = [PromptAnswers([5] * 30, [[6, 7], [8]])]
    assert pack(long_prompt, 0, shared=True).input_ids.shape == (1, 33)
    assert pack(long_prompt, 0, shared=False).input_ids.shape == (2, 32)
    uneven = [PromptAnswers([5], [[6] * 9, [7] * 9]), PromptAnswers([5], [[6]])]
    assert pack(uneven, 0, shared=True).input_ids.shape == (3, 10)


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_answers_come_back_in_their_order(share: bool, batch_size: int):
    model, batch = make("llama"), some_answers(prompts=4, answers=3)
    rows = [
        ([*item.prompt, *answer], len(item.prompt)) for item in batch for answer in item.answers
    ]
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(2)).tolist()
    with torch.no_grad():
        expected = plainly(model, batch)[order].tolist()
    found = answer_logprobs(
        model,
        [rows[i][0] for i in order],
        [rows[i][1] for i in order],
        0,
        batch_size=batch_size,
        chunk=5,
        share=share,
    )
    assert [total for total, _ in found] == pytest.approx(expected, abs=1e-4)
    assert [count for _, count in found] == [len(rows[i][0]) - rows[i][1] for i in order]
    assert answer_logprobs(model, [], [], 0) == []


def test_half_precision_is_near():
    model, batch = make("llama"), some_answers()
    with torch.no_grad():
        expected = plainly(model, batch)
        with torch.autocast("cpu", torch.bfloat16):
            mixed = pack(batch, 0, shared=True).sums(AnswerHead(model, 4), model)
        short = model.bfloat16()
        brief = pack(batch, 0, shared=True).sums(AnswerHead(short, 4), short)
    for found in (mixed, brief):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, expected, rtol=0.05, atol=0.5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("frozen", [False, True])
def test_bfloat16_on_a_gpu_is_near(frozen: bool):
    model, batch = make("llama"), some_answers()
    expected = plainly(model, batch)
    wanted = gradients(model, expected)
    short = make("llama").bfloat16().cuda()
    short.lm_head.requires_grad_(not frozen)
    head = AnswerHead(short, chunk=5)
    assert shares_prompts(head, short, batch[0], longest=20)
    found = pack(batch, 0, shared=True).to(torch.device("cuda")).sums(head, short)
    torch.testing.assert_close(found.cpu(), expected, rtol=0.05, atol=0.5)
    (found * torch.linspace(-1, 1, len(found), device="cuda")).sum().backward()
    for name, weight in short.named_parameters():
        if weight.requires_grad and weight.ndim > 1:
            got, told = weight.grad.float().cpu().flatten(), wanted[name].flatten()
            assert torch.cosine_similarity(got, told, dim=0) > 0.98


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(set(ARCHITECTURES) - UNSHARED))
def test_prompts_are_shared_under_flex_attention(name, monkeypatch):
    """Without its compiler, whose kernels have no backward pass on CPUs."""
    monkeypatch.setattr(flex_attention, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    monkeypatch.setattr(WrappedFlexAttention, "_is_flex_compiled", False)
    model, batch = make(name), some_answers()
    with torch.no_grad():
        expected = pack(batch, 0, shared=False).sums(AnswerHead(model), model)
        model.set_attn_implementation("flex_attention")
        head = AnswerHead(model)
        assert shares_prompts(head, model, batch[0], longest=20)
        packed = pack(batch, 0, shared=True)
        assert type(packed.inputs(model)["attention_mask"]) is flex_attention.BlockMask
        assert torch.allclose(packed.sums(head, model), expected, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(WrappedFlexAttention, "_is_flex_compiled", False)


class Attends(torch.nn.Module):
    """What is asked of a model before its attention is given a mask."""

    _is_stateful = False

    def __init__(self, attention="sdpa", stateful=False, **settings):
        super().__init__()
        self.config = transformers.LlamaConfig(**settings)
        self.config._attn_implementation = attention
        self._is_stateful = stateful

    def forward(self, input_ids, position_ids=None):
        return input_ids


def test_a_mask_of_our_own_is_given_where_attention_takes_it():
    class WithoutPositions(Attends):
        def forward(self, input_ids):
            return input_ids

    assert all(_can_mask(Attends(kind), 9) for kind in ("sdpa", "eager", "flex_attention"))
    for kind in ("sdpa", "flash_attention_2"):
        assert not _can_mask(Attends(kind, stateful=True), 9)
    assert not _can_mask(Attends("flash_attention_2"), 9)
    assert not _can_mask(WithoutPositions(), 9)
    for name in ("sliding_window", "attention_chunk_size"):
        assert _can_mask(Attends(**{name: 9}), 9)
        assert not _can_mask(Attends(**{name: 8}), 9)
        assert _can_mask(Attends(**{name: None}), 9)
    assert _can_mask(Attends(layer_types=["full_attention"] * 32), 9)
    mixed = Attends(layer_types=["full_attention"] * 32)
    mixed.config.layer_types[1] = "linear_attention"
    assert not _can_mask(mixed, 9)
