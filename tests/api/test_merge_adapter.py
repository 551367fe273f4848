"""An adapter and its base become one whole model that answers alike; what cannot be merged, or sent
to a hub, is refused before any work.
"""

import re
import shutil
from types import SimpleNamespace

import pytest
import torch
from fixtures.hub import TOKEN
from huggingface_hub import ModelCard
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from equipoise.api import merge_adapter
from equipoise.models.adapters import Lora
from equipoise.models.loading import load_model, written_dtype

pytestmark = pytest.mark.long  # they share a whole run


@pytest.fixture
def logged_in(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)


@pytest.fixture
def logged_out(monkeypatch, tmp_path):
    import huggingface_hub.constants as constants

    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no token"))


def test_the_merged_model_answers_as_the_adapter_does(command, adapter_copy, tmp_path):
    adapter = adapter_copy / "players" / "policy" / "1"
    dice = torch.Generator().manual_seed(0)
    weights = load_file(adapter / "adapter_model.safetensors")
    for name, weight in weights.items():
        weights[name] = 0.2 * torch.randn(weight.shape, generator=dice)
    save_file(weights, adapter / "adapter_model.safetensors")
    done = command("merge", adapter, "--to", "whole", "--json")
    assert done.code == 0
    assert done.facts == {"model": "whole", "pushed": None}
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "whole")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "whole")
    ids = torch.tensor([tokenizer.encode("How much is 3 + 4?")])
    with torch.no_grad():
        whole = merged(ids).logits
        apart = load_model("builtin/beginner", adapter, Lora(), device="cpu")(ids).logits
        base = load_model("builtin/beginner", device="cpu")(ids).logits
    assert torch.allclose(whole, apart, atol=1e-4)
    assert not torch.allclose(whole, base, atol=1e-2)
    assert tokenizer.chat_template
    card = ModelCard.load(tmp_path / "whole" / "README.md")
    assert card.data.library_name == "transformers"
    assert "is merged into" in card.text


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_are_written_in_the_precision_that_is_asked_for(dtype, command, adapter_copy):
    adapter = adapter_copy / "players" / "policy" / "1"
    done = command("merge", adapter, "--to", "whole", "--dtype", dtype)
    assert done.code == 0, done.err
    assert {weight.dtype for weight in load_file("whole/model.safetensors").values()} == {
        getattr(torch, dtype)
    }


def test_a_generation_of_whole_weights_is_written_in_the_bases_precision(
    command, adapter_copy, tmp_path
):
    adapter = adapter_copy / "players" / "policy" / "1"
    assert command("merge", adapter, "--to", "whole").code == 0
    shutil.rmtree(adapter)
    generation = shutil.copytree(tmp_path / "whole", adapter)
    long = {name: w.float() for name, w in load_file(generation / "model.safetensors").items()}
    save_file(long, generation / "model.safetensors", {"format": "pt"})
    config = adapter_copy / "config.yaml"
    config.write_text(re.sub(r"lora:\n(      .*\n)+", "lora: null\n", config.read_text()))
    for asked, written in (("auto", None), ("float16", torch.float16)):
        to = tmp_path / asked
        merge_adapter.merge(generation, to, dtype=asked)
        expected = written or written_dtype("builtin/beginner")
        assert {w.dtype for w in load_file(to / "model.safetensors").values()} == {expected}


def test_what_cannot_be_merged_is_refused(command, adapter_copy, tmp_path):
    adapter = adapter_copy / "players" / "policy" / "1"
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    whole = shutil.copytree(adapter, adapter.with_name("2"))
    (whole / "adapter_config.json").unlink()
    refusals = [
        ((adapter, "--to", "full"), "not empty"),
        ((whole, "--to", "out"), "holds neither an adapter"),
        ((adapter_copy, "--to", "out"), "is no generation of a run"),
        ((tmp_path / "absent" / "1", "--to", "out"), "is no generation of a run"),
        ((adapter, "--to", "full/thesis.tex/out"), "cannot be written"),
        ((adapter, "--to", "out", "--base", "./gone"), "'./gone' does not exist"),
        ((adapter, "--to", "out", "--dtype", "int3"), "must be one of"),
    ]
    for arguments, message in refusals:
        refused = command("merge", *arguments)
        assert refused.code == 2 and message in refused.err, refused.err
        assert refused.err.count("error:") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("verb", ["merge", "export"])
def test_nothing_is_pushed_without_a_login(verb, command, adapter_run, tmp_path, logged_out):
    what = adapter_run / "players" / "policy" / "1" if verb == "merge" else adapter_run
    refused = command(verb, what, "--to", "out", "--push", "lab/policy")
    assert refused.code == 2
    assert "hf auth login" in refused.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "message"), [("policy", "ORG/policy"), ("a/b/c", "a/b/c"), ("else/policy", "ann, lab")]
)
def test_a_push_to_a_wrong_place_is_refused(
    name, message, command, adapter_run, tmp_path, hub, logged_in
):
    refused = command("export", adapter_run, "--to", "out", "--push", name)
    assert refused.code == 2 and message in refused.err, refused.err
    assert not (tmp_path / "out").exists()
    assert not hub.files


def test_a_login_that_the_hub_refuses(command, adapter_run, hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    refused = command("export", adapter_run, "--to", "out", "--push", "lab/records")
    assert refused.code == 2
    assert "did not accept the login" in refused.err


def test_a_merged_model_is_pushed(command, adapter_run, tmp_path, hub, logged_in):
    adapter = adapter_run / "players" / "policy" / "1"
    done = command("merge", adapter, "--to", "whole", "--push", "lab/policy")
    assert done.code == 0
    assert "lab/policy" in done.out
    files = hub.files["lab/policy"]
    assert hub.private["lab/policy"]
    assert {"README.md", "tokenizer.json"} <= set(files)
    for name, content in files.items():
        assert content == (tmp_path / "whole" / name).read_bytes()


def test_an_export_is_pushed_alone(command, adapter_run, tmp_path, hub, logged_in):
    (tmp_path / "diary.txt").write_text("private")
    done = command("export", adapter_run, "--to", ".", "--push", "lab/records", "--json")
    assert done.code == 0 and "lab/records" in done.facts["pushed"], done.err
    files = set(hub.files["lab/records"])
    assert {"README.md", "pairs.parquet", "cards/policy@1.md"} <= files
    assert "diary.txt" not in files


def test_a_hub_that_does_not_take_it(command, adapter_run, tmp_path, hub, logged_in):
    hub.full = True
    failed = command("export", adapter_run, "--to", "out", "--push", "lab/records")
    assert failed.code == 2
    assert "did not take it" in failed.err
    assert (tmp_path / "out" / "pairs.parquet").is_file()


def test_the_base_is_the_folder_of_the_run_where_there_is_one(tmp_path):
    run = SimpleNamespace(ledger=SimpleNamespace(meta={"directory": str(tmp_path)}.get))
    for name in ("base", "builtin"):
        (tmp_path / name).mkdir()
    assert merge_adapter._base(run, "base") == str(tmp_path / "base")
    assert merge_adapter._base(run, "org/name") == "org/name"
    assert merge_adapter._base(run, "builtin") == "builtin"  # the packaged one, not the folder
