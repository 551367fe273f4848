"""The parts of the benchmark of preference training, each run in its own process.

python -m benchmarks.preference_runs WORK OPTIONS-AS-JSON
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

SEED = 5
SHAPES = {
    "small": {
        "family": "Llama",
        "vocab_size": 32_000,
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 64,
        "tie_word_embeddings": False,
    },
    "smollm2": {
        "family": "Llama",
        "vocab_size": 49_152,
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "head_dim": 64,
        "tie_word_embeddings": True,
    },
    "qwen2.5-0.5b": {
        "family": "Qwen2",
        "vocab_size": 151_936,
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "tie_word_embeddings": True,
    },
    "qwen3-0.6b": {
        "family": "Qwen3",
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": True,
    },
}
TEMPLATE = (
    "{% for m in messages %}{{ m['content'] }}{% if m['role'] == 'assistant' "
    "%}{{ eos_token }}{% endif %}{% endfor %}"
)


def texts(o: argparse.Namespace) -> list[tuple[str, str, str]]:
    """(prompt, chosen, rejected): random words, one token each."""
    rng = random.Random(SEED)
    vocabulary = SHAPES[o.shape]["vocab_size"] - 3

    def some(low: int, high: int) -> str:
        length = rng.randint(low, high)
        return " ".join(f"w{rng.randrange(vocabulary)}" for _ in range(length))

    return [(some(*o.prompt), " " + some(*o.answer), " " + some(*o.answer)) for _ in range(o.pairs)]


def learner(o: argparse.Namespace) -> Any:
    """Our learner; both train in its order of the data."""
    from equipoise.learners.preference_learner import Preference

    return Preference.model_validate(
        {
            "batch_size": o.batch,
            "learning_rate": 1e-3,
            "chunk": o.chunk or None,
            "log_steps": log_steps(o),
            "save_steps": 0,
            "gradient_checkpointing": getattr(o, "recompute", "auto"),
            "precision": {"float32": "fp32", "bfloat16": "bf16"}[o.dtype],
        }
    )


def log_steps(o: argparse.Namespace) -> int:
    """Steps between two lines of metrics; the last step is one of them."""
    steps = -(-o.pairs // o.batch)
    return steps // 2 if steps % 2 == 0 else steps


def order(o: argparse.Namespace) -> list[int]:
    """The order in which the pairs are seen."""
    lengths = [sum(len(part.split()) for part in pair) + 2 for pair in texts(o)]
    return learner(o).order(lengths, SEED)


def make(o: argparse.Namespace) -> dict[str, Any]:
    """Write a model of random weights and a tokenizer of words into the folder."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    shape = dict(SHAPES[o.shape])
    family = shape.pop("family")
    torch.manual_seed(SEED)
    config = getattr(transformers, f"{family}Config")(
        **shape, bos_token_id=None, eos_token_id=1, pad_token_id=0
    )
    getattr(transformers, f"{family}ForCausalLM")(config).save_pretrained(o.folder)
    names = ["<pad>", "</s>", "<unk>", *(f"w{n}" for n in range(shape["vocab_size"] - 3))]
    vocabulary = {name: i for i, name in enumerate(names)}
    word_level = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    word_level.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=word_level, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(o.folder)
    return {}


def training_batch(o: argparse.Namespace, opponents: int = 1) -> Any:
    """The pairs as our learner takes them, without the opponents' log-probabilities."""
    from equipoise.games.base import Game
    from equipoise.learners.base import TrainingBatch
    from equipoise.losses.base import PreferenceLoss
    from equipoise.players.base import Player
    from equipoise.types import Pair, PlayerId, user

    settings = {
        "kind": "local",
        "model": o.folder,
        "device": o.device,
        "dtype": "float32",
        "precision": "bf16" if o.dtype == "bfloat16" else None,
        "batch_size": 2 * o.batch,
    }
    player = Player.build(
        {**settings, "lora": {"r": o.lora, "alpha": 2 * o.lora} if o.lora else None}
    )
    pairs = [
        Pair(str(n), 0, str(n), (user(prompt),), chosen, rejected, 1.0, 0.0)
        for n, (prompt, chosen, rejected) in enumerate(texts(o))
    ]
    home = Path(o.folder) / f"ours-{opponents}"
    home.mkdir(exist_ok=True)
    policy = PlayerId("policy")
    return TrainingBatch(
        policy,
        player,
        None,
        home,
        home / "scratch",
        SEED,
        Game.build("answers"),
        PreferenceLoss.build("dpo"),
        pairs,
        [(policy, 1.0 / opponents)] * opponents,
    )


def reference_pass(o: argparse.Namespace, now: Any) -> tuple[Any, Any]:
    """One opponent's log-probabilities, (chosen, rejected), as a run gets them from a player."""
    import numpy as np

    from equipoise.models.resources import Resources

    resources = Resources()
    actor = now.player.open(None, resources)
    chats = [pair.messages for pair in now.pairs for _ in range(2)]
    texts = [text for pair in now.pairs for text in (pair.chosen, pair.rejected)]
    logprobs = actor.logprobs(chats, texts)
    actor.close()
    resources.clear()
    total_B2 = np.array([total for total, _ in logprobs]).reshape(-1, 2)
    return total_B2[:, 0], total_B2[:, 1]


def train(o: argparse.Namespace, now: Any, scores: tuple[Any, Any]) -> dict[str, float]:
    """Train on the pairs, every opponent having `scores`."""
    from dataclasses import replace

    columns = {
        f"opponent_{name}_KB": score[None].repeat(len(now.opponents), 0)
        for name, score in zip(("chosen", "rejected"), scores, strict=True)
    }
    return learner(o).learn(replace(now, **columns))


def ours(o: argparse.Namespace) -> dict[str, Any]:
    """The reference pass through a local player, then `Preference.learn`.

    steps_per_second: tokens of the second half of the steps, optimizer and all.
    """
    from dataclasses import replace

    ours_imports(o)
    lines: list[dict[str, Any]] = []
    started = Instant()
    now = replace(training_batch(o), log=lines.append)
    scores = reference_pass(o, now)
    middle = Instant()
    metrics = train(o, now, scores)
    ended = Instant()
    encoding = now.player.encoding()
    ids = [
        (
            encoding.prompt_ids(pair.messages),
            encoding.answer_ids(pair.chosen),
            encoding.answer_ids(pair.rejected),
        )
        for pair in now.pairs
    ]
    found = facts(o, ids, (started, middle, ended), metrics["loss"])
    return found | {"steps_per_second": lines[-1]["tokens_per_second"]}


def trl(o: argparse.Namespace) -> dict[str, Any]:
    """trl's DPOTrainer, from the model's folder to the saved result."""
    trl_imports(o)
    import peft
    import transformers
    from datasets import Dataset
    from trl.trainer.dpo_config import DPOConfig
    from trl.trainer.dpo_trainer import DPOTrainer

    pairs = texts(o)
    seen = order(o)
    started = Instant()
    model = transformers.AutoModelForCausalLM.from_pretrained(o.folder, dtype="float32")
    tokenizer = transformers.AutoTokenizer.from_pretrained(o.folder)
    columns = zip(*(pairs[i] for i in seen), strict=True)
    data = Dataset.from_dict(
        dict(zip(("prompt", "chosen", "rejected"), map(list, columns), strict=True))
    )
    steps = learner(o).steps(o.pairs)
    adapter = peft.LoraConfig(
        r=o.lora, lora_alpha=2 * o.lora, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    out = str(Path(o.folder) / "trl")
    arguments = DPOConfig(
        output_dir=out,
        beta=0.1,
        max_length=None,
        precompute_ref_log_probs=True,
        num_train_epochs=1,
        per_device_train_batch_size=o.batch,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=-(-steps // 10),
        weight_decay=0.0,
        max_grad_norm=1.0,
        logging_steps=log_steps(o),
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=SEED,
        train_sampling_strategy="sequential",
        gradient_checkpointing=False,
        bf16=o.dtype == "bfloat16",
        use_cpu=o.device == "cpu",
    )
    trainer = DPOTrainer(
        model,
        args=arguments,
        train_dataset=data,
        processing_class=tokenizer,
        peft_config=adapter if o.lora else None,
    )
    middle = Instant()
    trainer.train()
    trainer.save_model(out)
    ended = Instant()
    loss = [line["loss"] for line in trainer.state.log_history if "loss" in line][-1]
    ids: list[Any] = [()] * o.pairs
    seen_rows: Any = trainer.train_dataset
    for place, row in zip(seen, seen_rows, strict=True):
        ids[place] = (row["prompt_ids"], row["chosen_ids"], row["rejected_ids"])
    return facts(o, ids, (started, middle, ended), loss)


class Instant:
    """A moment on the wall's clock and on the processors'."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()


def facts(
    o: argparse.Namespace, ids: Sequence[Any], when: tuple[Instant, ...], loss: float
) -> dict[str, Any]:
    """The figures of a run; `when` it started, began to train and ended."""
    import hashlib

    pairs = [tuple(list(map(int, part)) for part in pair) for pair in ids]
    lengths = [(len(p) + len(answer), len(answer)) for p, c, r in pairs for answer in (c, r)]
    tokens, answers = (sum(column) for column in zip(*lengths, strict=True))
    started, middle, ended = when
    seconds = ended.wall - started.wall
    return {
        "tokens": tokens,
        "answer_tokens": answers,
        "loss": loss,
        "seconds": seconds,
        "before_training": middle.wall - started.wall,
        "cpu_seconds": ended.cpu - started.cpu,
        "tokens_per_second": tokens / seconds,
        "peak_mib": peak_mib(o.device),
        "parameters": sum(sizes(o)),
        "flops": useful_flops(o, lengths),
        "ids": hashlib.blake2b(repr(pairs).encode()).hexdigest(),
    }


def sizes(o: argparse.Namespace) -> tuple[int, int, int]:
    """Weights of (the layers, the head, the embeddings where they are not the head)."""
    s = SHAPES[o.shape]
    attention = (
        s["hidden_size"] * s["head_dim"] * 2 * (s["num_attention_heads"] + s["num_key_value_heads"])
    )
    layers = s["num_hidden_layers"] * (attention + 3 * s["hidden_size"] * s["intermediate_size"])
    head = s["vocab_size"] * s["hidden_size"]
    return layers, head, 0 if s["tie_word_embeddings"] else head


def useful_flops(o: argparse.Namespace, lengths: Sequence[tuple[int, int]]) -> float:
    """The operations of a reference pass and a training pass where each answer is computed with its
    own prompt.
    """
    s = SHAPES[o.shape]
    layers, head, _ = sizes(o)
    tokens = sum(length for length, _ in lengths)
    square = sum(length**2 for length, _ in lengths)
    attention = 2 * s["num_hidden_layers"] * s["num_attention_heads"] * s["head_dim"] * square
    forward = 2 * layers * tokens + attention + 2 * head * sum(answer for _, answer in lengths)
    return (1 + 3) * forward


def peak_mib(device: str) -> float:
    """The most memory that this process, or on a GPU its tensors, ever held."""
    if device == "cuda":
        import torch

        return torch.cuda.max_memory_allocated() / 2**20
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def scoring(o: argparse.Namespace) -> dict[str, float]:
    """An opponent's pass beside a plain inference pass over the same rows."""
    import torch
    import transformers

    now = training_batch(o)
    batches = batches_of(o, now)
    model = (
        transformers.AutoModelForCausalLM.from_pretrained(o.folder, dtype="float32")
        .to(o.device)
        .eval()
    )

    @torch.no_grad()
    def inference() -> None:
        for ids in batches:
            mixed = o.dtype == "bfloat16"
            with torch.autocast(o.device, torch.bfloat16, enabled=mixed):
                output = model(input_ids=ids, attention_mask=(ids > 0).long(), use_cache=False)
            logprob = torch.log_softmax(output.logits[:, :-1].float(), -1)
            logprob.gather(-1, ids[:, 1:, None]).sum().item()

    reference_pass(o, now)
    plain_seconds = min(timed(inference) for _ in range(2))
    seconds = min(timed(lambda: reference_pass(o, now)) for _ in range(2))
    return {"seconds": seconds, "plain_seconds": plain_seconds, "share": seconds / plain_seconds}


def opponents(o: argparse.Namespace) -> dict[str, float]:
    """An opponent's pass, and training with 4 opponents beside 1."""
    scores = reference_pass(o, training_batch(o))
    repeats = 2 if o.device == "cpu" else 1

    def training_seconds(count: int) -> float:
        return min(
            timed(lambda: train(o, training_batch(o, count), scores)) for _ in range(repeats)
        )

    return scoring(o) | {"training_ratio": training_seconds(4) / training_seconds(1)}


def batches_of(o: argparse.Namespace, now: Any) -> list[Any]:
    """The pairs' answers with their prompts, in batches [B, T] of like lengths, padded with 0."""
    import torch

    encoding = now.player.encoding()
    rows = [
        torch.tensor(encoding.join(pair.messages, text)[0])
        for pair in now.pairs
        for text in (pair.chosen, pair.rejected)
    ]
    rows.sort(key=len)
    return [
        torch.nn.utils.rnn.pad_sequence(rows[i : i + 2 * o.batch], batch_first=True).to(o.device)
        for i in range(0, len(rows), 2 * o.batch)
    ]


def plain(o: argparse.Namespace) -> dict[str, float]:
    """transformers' model forward and backward over the same rows, without an optimizer: tokens a
    second.
    """
    import torch
    import transformers

    batches = batches_of(o, training_batch(o))
    model = transformers.AutoModelForCausalLM.from_pretrained(o.folder, dtype="float32").train()

    def step() -> None:
        for ids in batches:
            with torch.autocast(o.device, torch.bfloat16, enabled=o.dtype == "bfloat16"):
                output = model(
                    input_ids=ids,
                    attention_mask=(ids > 0).long(),
                    labels=ids.masked_fill(ids == 0, -100),
                    use_cache=False,
                )
            output.loss.backward()
            model.zero_grad()

    step()
    seconds = min(timed(step) for _ in range(o.repeats))
    return {
        "seconds": seconds,
        "tokens_per_second": sum(int((ids > 0).sum()) for ids in batches) / seconds,
    }


def products(o: argparse.Namespace) -> dict[str, dict[str, float]]:
    """GFLOP/s of the matrix products of a layer and the head, for so many tokens at once: the
    weights as they lie in the model, nothing between them.
    """
    import torch

    s, rates = SHAPES[o.shape], {}
    heads, width = s["head_dim"], s["hidden_size"]
    q, kv = heads * s["num_attention_heads"], heads * s["num_key_value_heads"]
    inner = s["intermediate_size"]
    shapes = [(width, q), (width, kv), (width, kv), (q, width)]
    shapes += [(width, inner), (width, inner), (inner, width), (width, s["vocab_size"])]
    times = [*[s["num_hidden_layers"]] * 7, 1]
    for dtype in ("float32", "bfloat16"):
        kind = getattr(torch, dtype)
        weights = [torch.randn(b, a).to(kind) for a, b in shapes]  # as Linear's
        rates[dtype] = {}
        for tokens in (1, 16, 64, 1024):
            seconds = 0.0
            for (a, _), weight, count in zip(shapes, weights, times, strict=True):
                x = torch.randn(tokens, a).to(kind)
                best = min(timed(partial(torch.mm, x, weight.t())) for _ in range(8))
                seconds += count * best
            flops = sum(2 * tokens * a * b * n for (a, b), n in zip(shapes, times, strict=True))
            rates[dtype][str(tokens)] = flops / seconds / 1e9
    return rates


def profile(o: argparse.Namespace) -> dict[str, float]:
    """The shares of our training's processor time by what is computed, at least 1 % each."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as profiled

    now = training_batch(o)
    scores = reference_pass(o, now)
    with profiled(activities=[ProfilerActivity.CPU]) as found:
        train(o, now, scores)
    spent = {event.key: event.self_cpu_time_total for event in found.key_averages()}
    whole = sum(spent.values())
    shares = {name: value / whole for name, value in spent.items() if value > whole / 100}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def timed(work: Any) -> float:
    """Seconds that `work` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def has_gpu(o: argparse.Namespace) -> dict[str, Any]:
    """Whether torch sees a GPU."""
    from equipoise.models.device import choose_device

    return {"gpu": choose_device().type == "cuda"}


def peak(o: argparse.Namespace) -> dict[str, float]:
    """The speed of a large matrix product on this GPU."""
    import torch

    size = 8192
    a, b = torch.randn(2, size, size, device="cuda", dtype=getattr(torch, o.dtype))
    best = float("inf")
    for _ in range(30):
        torch.cuda.synchronize()
        best = min(best, timed(lambda: (a @ b, torch.cuda.synchronize())))
    return {"flops_per_second": 2 * size**3 / best}


def ours_imports(o: argparse.Namespace) -> dict[str, Any]:
    """Import all that ours needs; the memory after that."""
    from transformers import LlamaForCausalLM, Qwen3ForCausalLM

    import equipoise.learners.answer_trainer
    import equipoise.players.local

    assert equipoise and LlamaForCausalLM and Qwen3ForCausalLM
    return {"peak_mib": peak_mib("cpu")}


def trl_imports(o: argparse.Namespace) -> dict[str, Any]:
    """Import all that trl needs; the memory after that."""
    from transformers import LlamaForCausalLM, Qwen3ForCausalLM
    from trl.trainer.dpo_trainer import DPOTrainer

    assert DPOTrainer and LlamaForCausalLM and Qwen3ForCausalLM
    return {"peak_mib": peak_mib("cpu")}


PARTS = (
    *(make, ours, trl, ours_imports, trl_imports, opponents, has_gpu, peak),
    *(scoring, plain, products, profile),
)

if __name__ == "__main__":
    part = {part.__name__: part for part in PARTS}[sys.argv[1]]
    print(json.dumps(part(argparse.Namespace(**json.loads(sys.argv[2])))))
