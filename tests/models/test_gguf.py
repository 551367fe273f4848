"""GGUF files load and train as ordinary models."""

from __future__ import annotations

import builtins
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from pydantic import ValidationError
from safetensors import safe_open

from equipoise.errors import ModelError
from equipoise.models.adapters import resolve
from equipoise.models.loading import describe, load_config, load_model, load_tokenizer
from equipoise.planning.trial import WorkShape, try_model
from equipoise.players.local import Local
from equipoise.system.files import CHECKSUMS, faults

LAYERS, WIDTH, HEADS, INNER, VOCABULARY = 1, 32, 2, 64, 260


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "equipoise" / "gguf"


def written(path, architecture="llama", kind=gguf.GGMLQuantizationType.F32):
    """A tiny Llama with a byte vocabulary as a GGUF file, as llama.cpp would write it, its matrices
    quantised as `kind` says.
    """
    dice = np.random.default_rng(0)
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    letters = [*range(33, 127), *range(161, 173), *range(174, 323)][:256]
    tokens = [*map(chr, letters), "<s>", "</s>", "<pad>", "ab"]
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3, 3, 3, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_pad_token_id(258)
    writer.add_chat_template(
        "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}"
        "{% if add_generation_prompt %}<s>{% endif %}"
    )

    def tensor(name, *shape):
        values = dice.normal(0, 0.05, shape).astype(np.float32)
        stored = kind if len(shape) == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(values, stored), raw_dtype=stored)

    tensor("token_embd.weight", VOCABULARY, WIDTH)
    tensor("output_norm.weight", WIDTH)
    tensor("output.weight", VOCABULARY, WIDTH)
    for name, shape in {
        "attn_norm": (WIDTH,),
        "ffn_norm": (WIDTH,),
        "attn_q": (WIDTH, WIDTH),
        "attn_k": (WIDTH, WIDTH),
        "attn_v": (WIDTH, WIDTH),
        "attn_output": (WIDTH, WIDTH),
        "ffn_gate": (INNER, WIDTH),
        "ffn_up": (INNER, WIDTH),
        "ffn_down": (WIDTH, INNER),
    }.items():
        tensor(f"blk.0.{name}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_file_becomes_an_ordinary_model_once(tmp_path, cache):
    path = written(tmp_path / "tiny.gguf")
    folder = resolve(str(path))
    model = load_model(str(path))
    assert model.num_parameters() > 10_000
    assert str(model.dtype) == "torch.float32"
    assert load_tokenizer(str(path)).decode(load_tokenizer(folder)("hello")["input_ids"])
    assert [place.name for place in cache.iterdir()] == [folder.rsplit("/", 1)[1]]
    assert (cache / folder / "model.safetensors").is_file()


@pytest.mark.long
def test_precision_is_what_the_file_holds(tmp_path):
    """Quantised weights become bfloat16, a quarter of a per cent from what the file says; the rest
    stay as they are. Planning says the same precision as the weights have.
    """
    whole = load_model(str(written(tmp_path / "whole.gguf"))).get_output_embeddings().weight
    sizes = {}
    for name, dtype, apart in (("F16", "float16", 1e-3), ("Q8_0", "bfloat16", 1e-2)):
        path = str(written(tmp_path / f"{name}.gguf", kind=gguf.GGMLQuantizationType[name]))
        folder = Path(resolve(path, weights=False))
        assert not list(folder.glob("*.safetensors"))
        assert load_config(path).dtype == getattr(torch, dtype)
        weight = load_model(path).get_output_embeddings().weight
        assert (weight - whole).abs().max() < apart * whole.abs().max()
        assert load_model(path, dtype="auto", device="cpu").dtype == torch.float32
        with safe_open(folder / "model.safetensors", "pt") as tensors:
            assert tensors.get_tensor("lm_head.weight").dtype == getattr(torch, dtype)
        sizes[dtype] = (folder / "model.safetensors").stat().st_size
        assert (folder / CHECKSUMS).is_file()
        assert faults(folder) == []
        (folder / "config.json").write_text("{}")
        assert [fault.rpartition(": ")[2] for fault in faults(folder)] == [
            "is damaged (its checksum is another)"
        ]
    assert abs(sizes["float16"] - sizes["bfloat16"]) < 100


def test_planning_reads_the_header_alone(tmp_path, cache):
    path = str(written(tmp_path / "tiny.gguf"))
    player = Local.model_validate({"model": path, "lora": {"r": 2}})
    assert player.encoding().max_length == 64
    assert not list(player.faults())
    described = describe(path)
    assert (described.vocabulary, described.hidden, described.layers) == (VOCABULARY, WIDTH, LAYERS)
    shape = WorkShape(rows=2, prompts=1, prompt=4, new=4, batch=1, length=8, answer=4, bf16=False)
    assert try_model(path, None, described, shape, "cpu") is not None
    [folder] = cache.iterdir()
    assert not list(folder.glob("*.safetensors"))
    assert load_model(path).num_parameters() == described.parameters
    assert (folder / "model.safetensors").is_file()
    assert resolve(path) == str(folder)


def test_nothing_is_printed(tmp_path, capfd):
    load_model(str(written(tmp_path / "tiny.gguf")))
    assert capfd.readouterr() == ("", "")


def test_both_ways_of_naming_it_are_one(tmp_path):
    written(tmp_path / "tiny.gguf")
    named = Local.model_validate({"model": {"path": str(tmp_path), "gguf_file": "tiny.gguf"}})
    assert named.model == str(tmp_path / "tiny.gguf")
    with pytest.raises(ValidationError, match="valid string"):
        Local.model_validate({"model": {"path": str(tmp_path)}})


def test_a_damaged_file_is_named(tmp_path, cache):
    whole = written(tmp_path / "tiny.gguf").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 3])
    (tmp_path / "text.gguf").write_text("hello")
    for name in ("cut.gguf", "text.gguf"):
        with pytest.raises(ModelError, match=rf"{name}' is no GGUF file that transformers reads"):
            resolve(str(tmp_path / name))
    assert not list(cache.iterdir())


def test_an_unknown_architecture_is_named(tmp_path):
    path = written(tmp_path / "odd.gguf", architecture="oddball")
    with pytest.raises(ModelError, match="oddball"):
        resolve(str(path))


def test_a_missing_file_and_a_missing_package_are_said(tmp_path, monkeypatch):
    with pytest.raises(ModelError, match=r"model file '\./none\.gguf' does not exist"):
        resolve("./none.gguf")
    path = written(tmp_path / "tiny.gguf")
    real = builtins.__import__

    def without(name, *rest):
        if name == "gguf":
            raise ImportError("no gguf")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModelError, match=r"pip install 'equipoise\[gguf\]'"):
        resolve(str(path))
