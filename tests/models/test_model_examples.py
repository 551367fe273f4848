"""Small examples of what holds, shares and places models."""

import sys

import peft
import pytest
from sampling.test_samplers import OwnSampler
from transformers import AutoConfig, AutoModelForCausalLM

from equipoise.errors import ModelError
from equipoise.models import embedding, progress
from equipoise.models.mixed_adapters import can_mix
from equipoise.models.packing import _can_mask
from equipoise.models.resources import Resources
from equipoise.sampling.engines.vllm import Vllm
from equipoise.sampling.engines.vllm_command import main

SHAPE = {
    "vocab_size": 32,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


def tiny(kind: str = "llama", **more):
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SHAPE, **more))


class Lent:
    """Holds something for those who use it."""

    released = 0

    def release(self):
        self.released += 1


def test_what_was_lent_is_let_go_of_also_by_what_is_kept():
    resources, kept, other = Resources(), Lent(), Lent()
    resources.get("kept", lambda: kept)
    resources.get("other", lambda: other)
    resources.clear(keep=["kept"])
    assert (kept.released, other.released) == (1, 1)
    assert resources.get("kept", Lent) is kept
    resources.clear()
    assert kept.released == 2


@pytest.mark.parametrize(
    ("more", "mixes"),
    [
        ({}, True),
        ({"use_dora": True}, False),
        ({"lora_bias": True}, False),
        ({"modules_to_save": ["lm_head"]}, False),
        ({"target_modules": ["embed_tokens"]}, False),
    ],
)
def test_plain_adapters_of_linear_layers_mix(more, mixes):
    settings = {"r": 2, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM", **more}
    assert can_mix(peft.get_peft_model(tiny(), peft.LoraConfig(**settings))) is mixes


def test_a_model_without_adapters_and_one_with_a_merged_one_do_not_mix():
    assert not can_mix(tiny())
    adapted = peft.get_peft_model(tiny(), peft.LoraConfig(r=2, target_modules=["q_proj"]))
    assert can_mix(adapted)
    adapted.merge_adapter()
    assert not can_mix(adapted)


def test_a_mask_of_our_own_needs_a_kernel_that_takes_it_and_a_window_that_spans_all():
    model = tiny("mistral", sliding_window=6)
    assert _can_mask(model, 6)
    assert not _can_mask(model, 7)
    model.config._attn_implementation = "flash_attention_2"
    assert not _can_mask(model, 6)
    model.config._attn_implementation = "eager"
    assert _can_mask(model, 6)
    model._is_stateful = True
    assert not _can_mask(model, 6)


def test_a_sampler_takes_adapters_where_it_can_load_them():
    assert Vllm.takes_adapters
    assert not OwnSampler.takes_adapters
    own = OwnSampler.model_validate({"base_url": "http://h:1"})
    assert not own.lacks_adapter(404, "unknown adapter")


def test_minilm_is_the_installed_packages(tmp_path, monkeypatch):
    """Of a package that was installed: a folder `model` beside its module."""
    package = tmp_path / embedding.MINILM_PACKAGE
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, embedding.MINILM_PACKAGE, raising=False)
    with pytest.raises(Exception, match=f"{embedding.MINILM_PACKAGE}/model"):
        embedding.MiniLM.model_validate({}).open(Resources())
    assert isinstance(embedding.sentence_embedding(), embedding.MiniLM)


def test_without_package_or_hub_minilm_says_what_brings_it(monkeypatch):
    monkeypatch.setattr(embedding, "find_spec", lambda name: None)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ModelError, match=r"MiniLM.*pip install 'equipoise\[embeddings\]'"):
        embedding.MiniLM.model_validate({}).open(Resources())


def test_a_vector_of_nothing_stays_nothing():
    """A text without tokens has no direction; the others have length 1."""
    vectors = embedding.Hashed().open(Resources())(["", "a word"])
    lengths = (vectors**2).sum(axis=1)
    assert lengths.tolist() == pytest.approx([0, 1])
    assert not (vectors != vectors).any()


@pytest.mark.parametrize("all_bars", [False, True])
def test_quiet_leaves_standard_error_alone_but_where_bars_go_there(capsys, all_bars):
    with progress.quiet(all_bars=all_bars):
        print("a warning", file=sys.stderr)
    assert ("a warning" in capsys.readouterr().err) is not all_bars


def test_the_launchers_command_takes_a_folder_a_package_a_python_and_pips_arguments(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["/nowhere/x", "vllm==0", "/no/python", "--no-index"])
    assert ended.value.code == 2
    assert "/no/python" in capsys.readouterr().err
