"""Models made from nothing: the tool end to end, its errors, and the packaged tiny model."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from equipoise.environments.clerk import clerk_answers as answers
from equipoise.environments.clerk import world
from equipoise.errors import ConfigError, DataError
from equipoise.system.files import CHECKSUMS
from tools import build_clerk, fresh_model
from tools.fresh_model import SIZES, SMALLEST_VOCABULARY, Size, fit_tokenizer, new_model, resize

SMALL = Size(hidden=32, layers=1, heads=2, feed_forward=64)
TEXTS = list(dict.fromkeys(prompt.messages[0].content for prompt in world.prompts(0, 200)))


def call(*words: object):
    command = typer.Typer()
    command.command()(fresh_model.command)
    return CliRunner().invoke(command, [str(word) for word in words])


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(TEXTS))
    return path


def test_from_a_text_file_to_a_model_that_generates(corpus, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    out = tmp_path / "model"
    done = call(
        "--corpus",
        corpus,
        "--out",
        out,
        "--vocabulary",
        400,
        "--hidden",
        32,
        "--layers",
        1,
        "--json",
    )
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output[done.output.index("{") :])
    tokenizer, model = (
        AutoTokenizer.from_pretrained(out),
        AutoModelForCausalLM.from_pretrained(out),
    )
    assert facts["parameters"] == model.num_parameters()
    assert len(tokenizer) == facts["vocabulary"] == 400
    chat = [{"role": "user", "content": "What is 7 + 12?"}]
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert text == "<|user|>What is 7 + 12?<|end|><|assistant|>"
    ids = tokenizer(text, return_tensors="pt")
    written = model.generate(**ids, max_new_tokens=3, do_sample=False)
    assert ids["input_ids"].shape[1] < written.shape[1] <= ids["input_ids"].shape[1] + 3
    odd = "naïve — 雪 🙂"
    assert tokenizer.decode(tokenizer(odd)["input_ids"]) == odd


def test_pieces_are_cut_out_before_words():
    texts = [*TEXTS, *(f"It's <b>{number}.</b> so" for number in range(100))]
    cut = fit_tokenizer(texts, 420, 64, pieces="</?b>|so")
    for text in ("It's <b>7.</b>so", "<b><b> also", "naïve — 雪 🙂"):
        assert cut.decode(cut(text)["input_ids"]) == text
    assert {"<b>", "</b>"} <= set(cut.tokenize("<b>7.</b>"))
    assert cut.tokenize("So")[-1:] != ["so"]
    assert "so" in cut.tokenize("also")
    assert "</b>" not in fit_tokenizer(texts, 420, 64).tokenize("7.</b>")


def test_a_small_corpus_shrinks_the_vocabulary_where_that_is_asked_for():
    small = fit_tokenizer(TEXTS, 30_000, 64, shrink=True)
    assert SMALLEST_VOCABULARY < len(small) < 30_000
    assert len(fit_tokenizer(TEXTS, 400, 64, shrink=True)) == 400


@pytest.mark.long
def test_equal_seeds_give_equal_files(tmp_path):
    def digests(name: str, seed: int) -> dict[str, str]:
        new_model(TEXTS, tmp_path / name, vocabulary=400, size=SMALL, seed=seed)
        return {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in (tmp_path / name).iterdir()
        }

    first, again, other = digests("a", 0), digests("b", 0), digests("c", 1)
    assert first == again
    differing = {name for name in first if first[name] != other[name]}
    assert differing == {"model.safetensors", CHECKSUMS}


def test_rows_of_chats_and_columns(tmp_path):
    rows = [
        {"prompt": [{"role": "user", "content": text}], "label": "never learned"} for text in TEXTS
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    words = [
        "--corpus",
        tmp_path / "rows.jsonl",
        "--vocabulary",
        350,
        "--hidden",
        32,
        "--layers",
        1,
    ]
    every, some = (
        call(*words, "--out", tmp_path / name, *more)
        for name, more in (("a", ()), ("b", ("--column", "prompt")))
    )
    assert every.exit_code == some.exit_code == 0
    assert f"{2 * len(TEXTS)} texts" in every.output
    assert f" {len(TEXTS)} texts" in some.output


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"--corpus": "missing.txt"}, DataError, "no such file"),
        ({"--corpus": "empty.txt"}, DataError, "empty.txt: holds no text"),
        ({"--corpus": "empty.jsonl"}, DataError, "empty.jsonl: is empty"),
        ({"--corpus": "bad.jsonl"}, DataError, r"bad.jsonl:2: not JSON"),
        ({"--corpus": "latin.txt"}, DataError, "latin.txt: is not UTF-8"),
        ({"--corpus": "row.jsonl", "--column": "promt"}, DataError, "did you mean 'prompt'"),
        ({"--vocabulary": "30000"}, ConfigError, "supports no more than"),
        ({"--vocabulary": "100"}, ConfigError, f"alone are {SMALLEST_VOCABULARY}"),
        ({"--size": "tinny"}, ConfigError, "did you mean 'tiny'"),
        ({"--heads": "5"}, ConfigError, "do not divide"),
        ({"--out": "full"}, ConfigError, "--overwrite"),
    ],
)
def test_a_users_mistake_is_named(corpus, tmp_path, monkeypatch, changed, error, message):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n \n")
    Path("empty.jsonl").write_text("")
    Path("bad.jsonl").write_text('{"prompt": "a"}\n{"prompt": \n')
    Path("latin.txt").write_bytes("é".encode("latin-1"))
    Path("row.jsonl").write_text('{"prompt": "a"}')
    Path("full").mkdir()
    Path("full/thesis.txt").write_text("mine")
    words = {"--corpus": str(corpus), "--out": "made", "--vocabulary": "400"} | changed
    done = call(*(part for pair in words.items() for part in pair))
    assert isinstance(done.exception, error)
    with pytest.raises(error, match=message):
        raise done.exception
    assert not Path("made").exists()
    assert [file.name for file in Path("full").iterdir()] == ["thesis.txt"]


def test_overwrite_leaves_other_files_alone(corpus, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes.txt").write_text("mine")
    words = [
        "--corpus",
        corpus,
        "--out",
        tmp_path / "out",
        "--vocabulary",
        300,
        "--hidden",
        32,
        "--overwrite",
    ]
    assert call(*words).exit_code == 0
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_sizes_have_the_parameters_they_claim():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    for name, low, high in (("tiny", 0.7e6, 1.5e6), ("small", 8e6, 13e6), ("medium", 35e6, 45e6)):
        size = SIZES[name]
        config = LlamaConfig(
            vocab_size=3000,
            hidden_size=size.hidden,
            intermediate_size=size.feed_forward,
            num_hidden_layers=size.layers,
            num_attention_heads=size.heads,
            tie_word_embeddings=True,
        )
        with torch.device("meta"):
            assert low < LlamaForCausalLM(config).num_parameters() < high, name
    assert resize("tiny", hidden=64) == Size(64, 4, 4, 192)


def sampled_scores(prompts: list) -> list[int]:
    from equipoise.models.resources import Resources
    from equipoise.players.local import Local
    from equipoise.types import View

    player = Local.model_validate(
        {"temperature": 1.0, "top_p": 1.0, "max_new_tokens": 16, "device": "cpu"}
    )
    actor = player.open(None, Resources())
    moves = actor.act([View(prompt.messages) for prompt in prompts], list(range(len(prompts))))
    actor.close()
    return [
        answers.rate(prompt, move.text).right for prompt, move in zip(prompts, moves, strict=True)
    ]


@pytest.mark.long
def test_packaged_model_is_small_and_leaves_room():
    from equipoise.models.loading import describe

    assert describe("builtin").parameters <= 3_000_000
    assert sum(file.stat().st_size for file in build_clerk.PACKAGED.iterdir()) <= 8_000_000
    prompts = world.prompts(0, 400, part="held_out")
    scores = sampled_scores(prompts)
    assert 0.4 <= sum(scores) / len(scores) <= 0.7
    for kind in world.KINDS:
        of_kind = [
            score
            for prompt, score in zip(prompts, scores, strict=True)
            if prompt.facts["kind"] == kind
        ]
        assert 0.25 <= sum(of_kind) / len(of_kind) <= 0.85, kind


@pytest.mark.slow
def test_the_packaged_model_can_be_rebuilt(tmp_path):
    """The same tokenizer and shape, and a start that leaves room; equal bytes only on the machine
    that packaged it.
    """
    build_clerk.build(tmp_path / "model", 0)
    for name in ("tokenizer.json", "config.json", "chat_template.jinja"):
        assert (tmp_path / "model" / name).read_text() == (build_clerk.PACKAGED / name).read_text()


@pytest.mark.long
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_the_command_says_how_large_the_model_is(rows, tmp_path, form, capsys):
    texts = [f"number {n} and {n * n}" for n in range(60)]
    corpus = rows([{"text": text, "other": "?"} for text in texts], "corpus.jsonl")
    shape = [
        "--hidden",
        "8",
        "--layers",
        "1",
        "--heads",
        "2",
        "--context",
        "32",
        "--vocabulary",
        "300",
    ]
    out = tmp_path / "m"
    given = ["--corpus", str(corpus), "--column", "text", *shape, "--out", str(out)]
    fresh_model.main([*given, *form])
    printed = capsys.readouterr().out
    if form:
        facts = json.loads(printed)
        assert facts["vocabulary"] == 300
        assert facts["folder"] == str(out)
        assert facts["parameters"] > 300 * 8
    else:
        first, second = printed.splitlines()
        assert re.fullmatch(rf"[\d,]+ parameters, 300 tokens of vocabulary in {out}", first)
        assert re.fullmatch(r"the corpus: 60 texts, [\d,]+ tokens", second)
    with pytest.raises(SystemExit) as ended:
        fresh_model.main(given)
    assert ended.value.code == 2
    assert "m: is not an empty folder; choose another --out" in capsys.readouterr().err
    fresh_model.main([*given, "--overwrite"])
