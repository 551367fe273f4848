"""Models, adapters and tokenizers: what is saved is what is loaded, and what cannot be used says
why.
"""

import json
import shutil

import pytest
import torch

from equipoise.errors import ModelError
from equipoise.models.adapters import Lora, load_adapter
from equipoise.models.loading import (
    check_files,
    describe,
    load_encoding,
    load_model,
    load_tokenizer,
)
from equipoise.planning.trial import WorkShape, try_model

LORA = Lora(r=2, alpha=4)
IDS = torch.tensor([[5, 9, 17, 30, 44, 8]])


def logits(model) -> torch.Tensor:
    with torch.no_grad():
        return model(IDS).logits


@pytest.fixture
def copied(model_folder, tmp_path):
    """A copy of the tiny Llama's folder, to be damaged."""
    return shutil.copytree(model_folder("llama"), tmp_path / "copy")


def test_full_weights_come_back_as_they_were_saved(model_folder, tmp_path):
    model = load_model(str(model_folder("qwen3")))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.01)
    model.save_pretrained(tmp_path)
    again = load_model(str(model_folder("qwen3")), tmp_path)
    assert not again.training
    assert torch.equal(logits(model), logits(again))


def test_an_adapter_comes_back_as_it_was_saved(adapter_folder, model_folder):
    model, folder = adapter_folder("llama", 1)
    base = load_model(str(model_folder("llama")))
    again = load_model(str(model_folder("llama")), folder, LORA)
    assert torch.allclose(logits(model), logits(again), atol=1e-6)
    assert not torch.allclose(logits(base), logits(again), atol=1e-2)
    assert not any(parameter.requires_grad for parameter in again.parameters())


def test_an_adapter_to_be_trained_has_gradients_on_itself_alone(adapter_folder, model_folder):
    model = load_model(
        str(model_folder("llama")), adapter_folder("llama", 1)[1], LORA, trainable=True
    )
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    assert trained
    assert all("lora_" in name for name in trained)


def test_adapters_lie_side_by_side_whatever_their_names(adapter_folder, model_folder):
    """One name may be a part of another's, or of a layer's."""
    name, folder = str(model_folder("llama")), adapter_folder("llama", 1)[1]
    model = load_model(name)
    for player in ("joann", "ann", "layers", "proj"):
        model = load_adapter(model, name, folder, player)
    expected = logits(load_model(name, folder, LORA))
    for player in model.peft_config:
        model.set_adapter(player)
        assert torch.allclose(logits(model), expected, atol=1e-6)


def test_a_fresh_adapter_changes_nothing(model_folder):
    name = str(model_folder("gemma3"))
    fresh = load_model(name, None, LORA, trainable=True)
    assert torch.equal(logits(fresh), logits(load_model(name)))
    assert torch.equal(logits(load_model(name, None, LORA)), logits(load_model(name)))


def test_dtype_is_obeyed_and_auto_is_float32_on_a_cpu(model_folder):
    name = str(model_folder("llama"))
    assert load_model(name, dtype="bfloat16", device="cpu").dtype == torch.bfloat16
    assert load_model(name, device="cpu").dtype == torch.float32


def test_the_head_reads_the_last_positions_in_one_piece(model_folder):
    """Of a view torch would copy the whole head once a row."""
    model, whole = load_model(str(model_folder("llama"))), []
    model.get_output_embeddings().register_forward_hook(
        lambda head, given, result: whole.append(given[0].is_contiguous())
    )
    model(IDS.repeat(2, 1), logits_to_keep=1)
    assert whole == [True]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
def test_a_description_needs_no_weights_and_is_right(model_folder, family):
    name = str(model_folder(family))
    found = describe(name, LORA)
    model = load_model(name, None, LORA, trainable=True)
    assert found.parameters == sum(p.numel() for p in load_model(name).parameters())
    assert found.trainable == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert (found.hidden, found.layers, found.vocabulary, found.context) == (32, 2, 320, 256)
    with torch.no_grad():
        cache = model(IDS, use_cache=True).past_key_values
    assert found.kv_numbers * IDS.numel() == sum(
        layer.keys.numel() + layer.values.numel() for layer in cache.layers
    )


def test_a_model_without_attention_is_described_and_its_trial_says_what_it_lacks(tmp_path):
    from transformers import MambaConfig

    MambaConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2).save_pretrained(tmp_path)
    found = describe(str(tmp_path))
    assert (found.kv_numbers, found.layers) == (0, 2)
    shape = WorkShape(1, 1, 4, 4, 1, 8, 4, bf16=False)
    with pytest.raises(ModelError, match="keeps its past in a way that this sampler does not"):
        try_model(str(tmp_path), None, found, shape, "cpu")


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(ModelError, match=r"nowhere' does not exist"):
        load_model(str(tmp_path / "nowhere"))


def test_a_file_in_place_of_a_folder(copied):
    with pytest.raises(ModelError, match=r"config\.json.* GGUF"):
        load_tokenizer(str(copied / "config.json"))


def test_a_folder_without_a_tokenizer(copied):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (copied / name).unlink()
    with pytest.raises(ModelError, match="has no usable tokenizer"):
        load_encoding(str(copied))


def test_a_folder_without_weights(copied):
    (copied / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"cannot be read from .*model\.safetensors"):
        load_model(str(copied))


@pytest.mark.parametrize(
    ("text", "complaint"), [("{", "not a valid JSON"), ("{}", "no usable config|cannot be loaded")]
)
def test_a_configuration_that_cannot_be_read(copied, text, complaint):
    (copied / "config.json").write_text(text)
    for use in (describe, load_model):
        with pytest.raises(ModelError, match=complaint):
            use(str(copied))


@pytest.mark.long
def test_a_model_that_is_not_causal(copied):
    (copied / "config.json").write_text('{"model_type": "t5"}')
    with pytest.raises(ModelError, match="is not a causal language model"):
        load_model(str(copied))


def test_missing_weights_are_not_made_up(copied):
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match=r"lacks 9 .*layers\.2"):
        load_model(str(copied))


def test_a_hub_that_cannot_be_reached(monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for load in (load_tokenizer, load_model, load_encoding):
        with pytest.raises(ModelError, match=r"'nobody/nothing' here, .*hub"):
            load("nobody/nothing")


def test_a_device_that_is_not_there(model_folder):
    with pytest.raises(ModelError, match="device 'gpu'"):
        load_model(str(model_folder("llama")), device="gpu")


def test_a_length_beyond_the_context(model_folder):
    with pytest.raises(ModelError, match=r"max_length = 257 .* 256 tokens"):
        load_encoding(str(model_folder("llama")), max_length=257)
    assert load_encoding(str(model_folder("llama"))).max_length == 256


def test_weights_of_the_other_kind(adapter_folder, model_folder, tmp_path):
    name, (_, adapter) = str(model_folder("llama")), adapter_folder("llama", 1)
    with pytest.raises(ModelError, match=r"holds an adapter.*full weights"):
        load_model(name, adapter)
    with pytest.raises(ModelError, match=r"holds full weights.*an adapter"):
        load_model(name, model_folder("llama"), LORA)
    with pytest.raises(ModelError, match="holds neither a model"):
        load_model(name, tmp_path)


@pytest.mark.long
def test_an_adapter_for_another_base(adapter_folder, model_folder, tmp_path, copied):
    folder = shutil.copytree(adapter_folder("llama", 1)[1], tmp_path / "adapter")
    with pytest.raises(ModelError, match=r"'.*llama.*'.*'.*qwen3"):
        load_model(str(model_folder("qwen3")), folder, LORA)
    settings = json.loads((folder / "adapter_config.json").read_text())
    for gone in (str(tmp_path / "moved"), "./moved", "a/model/that/moved"):
        settings["base_model_name_or_path"] = gone
        (folder / "adapter_config.json").write_text(json.dumps(settings))
        load_model(str(model_folder("llama")), folder, LORA)
    config = json.loads((copied / "config.json").read_text())
    for change, complaint in (
        ({"hidden_size": 40}, "size mismatch"),
        ({"num_hidden_layers": 1}, "other modules"),
    ):
        (copied / "config.json").write_text(json.dumps({**config, **change}))
        remake(copied)
        with pytest.raises(ModelError, match=rf"does not fit model .*{complaint}"):
            load_model(str(copied), folder, LORA)


@pytest.mark.long
def test_an_adapter_fits_a_copy_of_its_base(adapter_folder, model_folder, tmp_path):
    """As after `merge --base COPY`, where the first one is there yet."""
    copy = shutil.copytree(model_folder("llama"), tmp_path / "copy")
    load_model(str(copy), adapter_folder("llama", 1)[1], LORA)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-3}))
    with pytest.raises(ModelError, match="was made for"):
        load_model(str(copy), adapter_folder("llama", 1)[1], LORA)


def test_weights_are_missed_and_cut_ones_are_seen_before_they_are_read(model_folder, tmp_path):
    folder = shutil.copytree(model_folder("llama"), tmp_path / "part")
    check_files(str(folder))
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:1000])
    with pytest.raises(ModelError, match="no whole weights"):
        check_files(str(folder))
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"there is no model\.safetensors"):
        check_files(str(folder))
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "one.safetensors"}}')
    with pytest.raises(ModelError, match=r"there is no one\.safetensors"):
        check_files(str(folder))
    (folder / "one.safetensors").write_bytes(whole)
    check_files(str(folder))


def remake(folder) -> None:
    """Random weights for the configuration in `folder`."""
    from transformers import AutoConfig, AutoModelForCausalLM

    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)


def test_target_modules_that_the_model_does_not_have(model_folder):
    with pytest.raises(ModelError, match=r"lora\.target_modules = \['query'\]"):
        load_model(str(model_folder("llama")), None, Lora(target_modules=["query"]), trainable=True)
