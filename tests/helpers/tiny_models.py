"""Tiny random models of three families, each with its own kind of tokenizer, control tokens and
chat template.
"""

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

SENTENCES = [
    "How much is three and four? It is seven.",
    "The clerk adds the numbers and says the sum.",
    "I cannot help with that request, but here is something that may help you.",
    "What time does the train to the lake leave on Sunday morning?",
    "Please answer briefly: yes or no, and then say why.",
]
VOCABULARY = 320


def _words(sentencepiece: bool, special: list[str], plain: list[str]):
    """A BPE tokenizer with byte fallback (sentencepiece's way) or on bytes (GPT-2's way)."""
    from tokenizers import (
        AddedToken,
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    if sentencepiece:
        words = Tokenizer(models.BPE(byte_fallback=True, unk_token=special[-1]))
        words.normalizer = normalizers.Replace(" ", "▁")
        words.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
        words.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
        )
        alphabet = [*map(chr, range(32, 127)), "\n"]
    else:
        words = Tokenizer(models.BPE())
        words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        words.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(plain),
        special_tokens=special,
        initial_alphabet=alphabet,
        show_progress=False,
    )
    words.train_from_iterator(SENTENCES, trainer)
    words.add_tokens([AddedToken(token, special=False, normalized=False) for token in plain])
    return words


def _template(name: str) -> str:
    """A released chat template, as trl keeps them."""
    trl = find_spec("trl")
    assert trl is not None
    assert trl.submodule_search_locations
    return (
        Path(trl.submodule_search_locations[0]) / "chat_templates" / f"{name}.jinja"
    ).read_text()


def _save(
    folder: Path,
    words,
    model,
    template: str | None,
    bos: bool = False,
    stops: Sequence[str] = (),
    **roles: str,
):
    """Write tokenizer and model; `bos`: the tokenizer itself begins a text with its bos token."""
    from tokenizers import processors
    from transformers import PreTrainedTokenizerFast

    if bos:
        token = roles["bos_token"]
        words.post_processor = processors.TemplateProcessing(
            single=f"{token} $A", special_tokens=[(token, words.token_to_id(token))]
        )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **roles)  # pyright: ignore[reportArgumentType]
    tokenizer.chat_template = template
    tokenizer.save_pretrained(folder)
    model.config.eos_token_id = tokenizer.eos_token_id
    model.generation_config.eos_token_id = [
        words.token_to_id(token) for token in stops
    ] or tokenizer.eos_token_id
    model.save_pretrained(folder)


def sizes(**more) -> dict:
    """What all the tiny models share. A wide initialisation keeps their distributions far from
    uniform.
    """
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": 256,
        "initializer_range": 0.3,
        "tie_word_embeddings": False,
        **more,
    }


def _llama(folder: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    special = [
        "<|begin_of_text|>",
        "<|end_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
    ]
    model = LlamaForCausalLM(LlamaConfig(**sizes(bos_token_id=0)))
    _save(
        folder,
        _words(False, special, []),
        model,
        _template("llama3"),
        bos=True,
        stops=["<|end_of_text|>", "<|eot_id|>"],
        bos_token="<|begin_of_text|>",
        eos_token="<|end_of_text|>",
    )


def _qwen3(folder: Path) -> None:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    words = _words(False, special, ["<think>", "</think>"])
    model = Qwen3ForCausalLM(Qwen3Config(**sizes(tie_word_embeddings=True)))
    _save(
        folder,
        words,
        model,
        _template("qwen3"),
        stops=["<|im_end|>", "<|endoftext|>"],
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
    )


def _gemma3(folder: Path) -> None:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    special = ["<pad>", "<eos>", "<bos>", "<start_of_turn>", "<end_of_turn>", "<unk>"]
    config = Gemma3TextConfig(
        **sizes(
            sliding_window=12,
            layer_types=["sliding_attention", "full_attention"],
            query_pre_attn_scalar=8,
        ),
        pad_token_id=0,
        bos_token_id=2,
    )
    _save(
        folder,
        _words(True, special, []),
        Gemma3ForCausalLM(config),
        _template("gemma3"),
        bos=True,
        stops=["<eos>", "<end_of_turn>"],
        bos_token="<bos>",
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
    )


def _plain(folder: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    model = LlamaForCausalLM(LlamaConfig(**sizes()))
    _save(
        folder,
        _words(False, ["<s>", "</s>"], []),
        model,
        None,
        bos=True,
        bos_token="<s>",
        eos_token="</s>",
    )


FAMILIES: dict[str, Callable[[Path], None]] = {"llama": _llama, "qwen3": _qwen3, "gemma3": _gemma3}


@pytest.fixture(scope="session")
def released_template() -> Callable[[str], str]:
    """released_template("gemma") -> that family's chat template."""
    return _template


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory) -> Callable[[str], Path]:
    """model_folder("llama" | "qwen3" | "gemma3" | "plain") -> the folder of that tiny model, made
    once.
    """
    import torch

    torch.set_num_threads(1)
    made: dict[str, Path] = {}

    def folder(family: str) -> Path:
        if family not in made:
            made[family] = tmp_path_factory.mktemp(family)
            torch.manual_seed(7)
            {**FAMILIES, "plain": _plain}[family](made[family])
        return made[family]

    return folder


@pytest.fixture(scope="session")
def adapter_folder(model_folder, tmp_path_factory) -> Callable[[str, int], tuple]:
    """adapter_folder("llama", n) -> (the PEFT model, its folder): an adapter of random weights,
    another for each n.
    """
    import torch

    from equipoise.models.adapters import Lora
    from equipoise.models.loading import load_model

    made: dict[tuple[str, int], tuple] = {}

    def folder(family: str, n: int) -> tuple:
        if (family, n) not in made:
            torch.manual_seed(n)
            model = load_model(str(model_folder(family)), None, Lora(r=2, alpha=4), trainable=True)
            with torch.no_grad():
                for name, parameter in model.named_parameters():
                    if "lora_" in name:
                        parameter.normal_(0, 0.3)
            place = tmp_path_factory.mktemp(f"{family}_adapter")
            model.save_pretrained(place)
            made[family, n] = (model.eval(), place)
        return made[family, n]

    return folder


@pytest.fixture(scope="session")
def reward_folder(model_folder, tmp_path_factory):
    """reward_folder("llama", 1) -> a folder with that family's model under a head of K random
    rewards.
    """
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    made = {}

    def folder(family: str, rewards: int, **config):
        key = (family, rewards, repr(config))
        if key not in made:
            torch.manual_seed(3)
            place = tmp_path_factory.mktemp("reward")
            model = AutoModelForSequenceClassification.from_pretrained(
                model_folder(family), num_labels=rewards, dtype=torch.float32
            )
            with torch.no_grad():
                model.score.weight.normal_(0, 1)
            for name, value in config.items():
                setattr(model.config, name, value)
            model.save_pretrained(place)
            AutoTokenizer.from_pretrained(model_folder(family)).save_pretrained(place)
            made[key] = place
        return made[key]

    return folder
