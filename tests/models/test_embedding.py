"""Embeddings: hashed, and by a tiny encoder made on the spot."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from equipoise.errors import ModelError
from equipoise.models.embedding import Embedding
from equipoise.models.resources import Resources
from equipoise.payoffs.diversity import hash_vectors

TEXTS = [
    "how do i bake bread",
    "bread",
    "",
    "the train to the lake",
    "bread",
    "i do " * 20,
    "how how",
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    """A tiny BERT of random weights with a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(" ".join(TEXTS).split()))]
    words = Tokenizer(
        models.WordLevel({name: n for n, name in enumerate(names)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = pre_tokenizers.Whitespace()  # pyright: ignore[reportAttributeAccessIssue]
    words.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    torch.manual_seed(2)
    config = BertConfig(
        vocab_size=len(names),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=24,
        initializer_range=0.4,
    )
    place = tmp_path_factory.mktemp("bert")
    BertModel(config).save_pretrained(place)
    roles = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, **roles)  # pyright: ignore[reportArgumentType]
    tokenizer.save_pretrained(place)
    return place


def opened(resources: Resources | None = None, **settings):
    return Embedding.build(settings).open(resources or Resources())


def alone(place, text: str, longest: int = 24) -> np.ndarray:
    """One text's vector by transformers alone, without padding."""
    from transformers import AutoModel, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(place)(
        text, return_tensors="pt", truncation=True, max_length=longest
    )
    with torch.no_grad():
        mean = (
            AutoModel.from_pretrained(place)
            .eval()(ids["input_ids"])
            .last_hidden_state[0]
            .mean(0)
            .double()
            .numpy()
        )
    return mean / np.linalg.norm(mean)


def test_hashed_is_the_default_of_payoffs():
    assert opened(kind="hashed") is hash_vectors


@pytest.mark.long
@pytest.mark.parametrize("batch_size", [2, 64])
def test_an_encoder_gives_each_text_the_vector_that_it_has_alone(bert, batch_size):
    vector_BD = opened(kind="encoder", model=str(bert), batch_size=batch_size)(TEXTS)
    np.testing.assert_allclose(vector_BD, [alone(bert, text) for text in TEXTS], atol=1e-5)
    np.testing.assert_array_equal(vector_BD[1], vector_BD[4])
    assert np.linalg.norm(vector_BD, axis=1) == pytest.approx(np.ones(len(TEXTS)))
    assert len(np.unique(vector_BD.round(3), axis=0)) == len(
        set(TEXTS)
    )  # so that a shift would show


def test_no_texts_have_no_vectors(bert):
    assert opened(kind="encoder", model=str(bert))([]).shape == (0, 16)
    assert opened(kind="hashed")([]).shape == (0, 512)


@pytest.mark.long
def test_a_long_text_is_cut_and_a_prefix_counts(bert):
    short = opened(kind="encoder", model=str(bert), max_length=4)
    np.testing.assert_allclose(short(["how do i bake bread"]), short(["how do"]), atol=1e-12)
    led = opened(kind="encoder", model=str(bert), prefix="how ")
    np.testing.assert_allclose(led(["do i"])[0], alone(bert, "how do i"), atol=1e-5)


def test_one_encoder_is_loaded_for_all_who_share_the_shelf(bert):
    resources = Resources()
    first, second = (
        opened(resources, kind="encoder", model=str(bert), batch_size=n).func.__self__
        for n in (1, 2)
    )
    assert first is second
    assert (
        opened(resources, kind="encoder", model=str(bert), max_length=9).func.__self__ is not first
    )


def test_a_decoder_without_a_padding_token_reads_texts_too(model_folder):
    embed = opened(kind="encoder", model=str(model_folder("llama")))
    together = embed(["It is seven.", "yes", "The clerk adds the numbers and says the sum."])
    np.testing.assert_allclose(together[1], embed(["yes"])[0], atol=1e-5)


def test_a_pooler_may_be_absent_and_nothing_else(bert, tmp_path):
    import shutil

    place = shutil.copytree(bert, tmp_path / "model")
    weights = load_file(place / "model.safetensors")
    bare = {name: value for name, value in weights.items() if not name.startswith("pooler.")}
    save_file(bare, place / "model.safetensors", {"format": "pt"})
    np.testing.assert_allclose(
        opened(kind="encoder", model=str(place))(["bread"])[0], alone(bert, "bread"), atol=1e-5
    )
    lost = bare.pop("encoder.layer.1.output.dense.weight")
    assert lost is not None
    save_file(bare, place / "model.safetensors", {"format": "pt"})
    with pytest.raises(
        ModelError, match=r"read as a text encoder, lacks 1 of its weights.*layer\.1\.output"
    ):
        opened(kind="encoder", model=str(place))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "./nowhere"}, "does not exist"),
        ({"model": "nobody/nothing-of-that-name"}, "no folder 'nobody/nothing-of-that-name' here"),
        ({"max_length": 4000}, "max_length = 4000 is beyond the context"),
        ({"device": "sofa"}, "device 'sofa'"),
    ],
)
def test_an_encoder_that_cannot_be_used_is_named(bert, settings, message):
    with pytest.raises(ModelError, match=message):
        opened(**({"kind": "encoder", "model": str(bert)} | settings))


def test_a_tokenizer_of_another_model_is_refused(bert, model_folder, tmp_path):
    import shutil

    place = shutil.copytree(bert, tmp_path / "model")
    shutil.copy(model_folder("llama") / "tokenizer.json", place)
    with pytest.raises(ModelError, match=r"knows \d+ tokens, but its tokenizer has"):
        opened(kind="encoder", model=str(place))


@pytest.mark.long
def test_the_configuration_loads_no_torch():
    code = "import sys, equipoise.models.embedding, equipoise.judges.on_topic; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_text_without_tokens_has_the_zero_vector(bert):
    from equipoise.models.embedding import TextEncoder

    encoder = TextEncoder.load(str(bert), device="cpu")
    whole = encoder.tokenizer

    def bare(texts, **options):
        """The tokenizer without its marks: a blank text has no token."""
        return whole(texts, add_special_tokens=False, **options)

    bare.pad_token_id = None  # type: ignore[attr-defined]
    encoder.tokenizer = bare
    with np.errstate(all="raise"):
        found = encoder.embed(["bread", "", "train", " "], batch_size=2)
        blank = encoder.embed(["", ""])
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 0, 1, 0])
    assert blank.shape == (2, 16)
    assert not blank.any()
    assert encoder.embed([]).shape == (0, 16)
    one = encoder._read([whole("bread", add_special_tokens=False)["input_ids"]])[0]
    assert found[0] == pytest.approx(one / np.linalg.norm(one), abs=1e-5)
