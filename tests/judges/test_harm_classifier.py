"""Classifiers of harm: tiny models with a head, held against transformers alone."""

import math
from functools import lru_cache

import pytest
import torch
from judge_context import TestContext
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
)

from equipoise.errors import ConfigError, DataError
from equipoise.judges.base import Judge
from equipoise.judges.harm_classifier import HarmClassifier
from equipoise.types import Message, Prompt, user

PROMPT = Prompt("p", (user("Sum of 2 and 3?"),))
CHAT = Prompt("c", (Message("system", "Be brief."), user("When does the train leave on Sunday?")))
ANSWERS = [
    (prompt, text) for prompt in (PROMPT, CHAT) for text in ("5", "It is five.", "yes " * 12)
]


@pytest.fixture(scope="module")
def harm_folder(model_folder, tmp_path_factory):
    """harm_folder("llama", "fine", "harmful", multi_label=False) -> a tiny classifier with these
    labels.
    """
    made = {}

    def folder(family: str, *labels: str, multi_label: bool = False):
        key = (family, labels, multi_label)
        if key not in made:
            torch.manual_seed(4)
            place = tmp_path_factory.mktemp("harm")
            model = AutoModelForSequenceClassification.from_pretrained(
                model_folder(family), id2label=dict(enumerate(labels)), dtype=torch.float32
            )
            model.config.problem_type = "multi_label_classification" if multi_label else None
            with torch.no_grad():
                model.score.weight.normal_(0, 0.5)
            model.save_pretrained(place)
            AutoTokenizer.from_pretrained(model_folder(family)).save_pretrained(place)
            made[key] = place
        return made[key]

    return folder


def seated(folder, **settings) -> HarmClassifier:
    judge = Judge.build(
        {"kind": "harm_classifier", "model": str(folder), "unsafe": "harmful", **settings}
    )
    judge = judge.at(TestContext())
    assert isinstance(judge, HarmClassifier)
    return judge


@lru_cache
def loaded(folder):
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
    return model.eval(), AutoTokenizer.from_pretrained(folder)


def numbers(folder, text: str | None = None, chat=()) -> list[float]:
    """What transformers alone gives a text, or a chat by the model's template."""
    model, tokenizer = loaded(folder)
    messages = [{"role": m.role, "content": m.content} for m in chat]
    ids = (
        tokenizer.encode(text)
        if text is not None
        else tokenizer.apply_chat_template(messages, return_dict=False)
    )
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0].tolist()


def softmax(values: list[float], k: int) -> float:
    return math.exp(values[k]) / sum(map(math.exp, values))


TEXT = {
    "prompt": {
        "p": "Sum of 2 and 3?",
        "c": "system: Be brief.\n\nuser: When does the train leave on Sunday?",
    },
    "answer": {"p": "{}", "c": "{}"},
    "chat": {
        "p": "user: Sum of 2 and 3?\n\nassistant: {}",
        "c": "system: Be brief.\n\nuser: When does the train leave on Sunday?\n\nassistant: {}",
    },
}


@pytest.mark.parametrize("reads", ["prompt", "answer", "chat"])
def test_p_unsafe_is_the_labels_probability_whatever_the_batch(harm_folder, reads):
    folder = harm_folder("llama", "fine", "odd", "harmful")
    found = seated(folder, reads=reads, batch_size=4).scores(ANSWERS)
    for (prompt, text), said in zip(ANSWERS, found, strict=True):
        p = softmax(numbers(folder, TEXT[reads][prompt.id].format(text)), 2)
        assert said == pytest.approx(
            {"score": 1 - p, "p_safe": 1 - p, "p_unsafe": p, "unsafe": float(p > 0.5)}, abs=1e-5
        )
    assert (
        len({round(said["score"], 4) for said in found})
        == {"prompt": 2, "answer": 3, "chat": 6}[reads]
    )


def test_a_chat_may_be_written_by_the_template(harm_folder):
    folder = harm_folder("llama", "fine", "harmful")
    said = seated(folder, chat_template=True, unsafe=1).score(PROMPT, "5")
    p = softmax(numbers(folder, chat=(*PROMPT.messages, Message("assistant", "5"))), 1)
    assert said["p_unsafe"] == pytest.approx(p, abs=1e-5)


def test_one_number_and_labels_that_may_hold_together_are_read_by_sigmoid(harm_folder):
    for folder, k in (
        (harm_folder("llama", "harmful"), 0),
        (harm_folder("llama", "rude", "harmful", multi_label=True), 1),
    ):
        z = numbers(folder, "It is five.")[k]
        said = seated(folder, reads="answer").score(PROMPT, "It is five.")
        assert said["p_unsafe"] == pytest.approx(1 / (1 + math.exp(-z)), abs=1e-5)


def test_a_refusal_is_safe_whatever_was_asked(harm_folder):
    folder = harm_folder("llama", "fine", "harmful")
    answers = [(PROMPT, "5"), (PROMPT, "I can't help with that."), (CHAT, "6")]
    plain = seated(folder, reads="prompt").scores(answers)
    found = seated(folder, reads="prompt", refusals_are_safe=True).scores(answers)
    assert found[1] == {"score": 1, "p_safe": 1, "p_unsafe": 0, "unsafe": 0}
    assert 0 < plain[1]["p_unsafe"] == plain[0]["p_unsafe"]
    assert [found[0], found[2]] == [
        pytest.approx(plain[0], abs=1e-6),
        pytest.approx(plain[2], abs=1e-6),
    ]


def test_a_text_that_cannot_be_read_is_missing_alone(harm_folder):
    folder = harm_folder("llama", "fine", "harmful")
    answers = [(PROMPT, "5"), (PROMPT, "no " * 400), (PROMPT, "It is five.")]
    judge = seated(folder, reads="answer")
    found = judge.scores(answers)
    assert [isinstance(said, str) for said in found] == [False, True, False]
    assert "truncate" in found[1]
    assert found[2] == pytest.approx(judge.score(*answers[2]), abs=1e-6)
    assert all(
        isinstance(said, dict)
        for said in seated(folder, reads="answer", truncate=True).scores(answers)
    )


def test_control_tokens_in_a_text_are_text(harm_folder):
    judge = seated(harm_folder("llama", "fine", "harmful"), reads="answer")
    ids = judge.ids(PROMPT, "5<|eot_id|>")
    tokenizer = AutoTokenizer.from_pretrained(judge.model)
    assert tokenizer.convert_tokens_to_ids("<|eot_id|>") not in ids
    assert tokenizer.bos_token_id == ids[0]


def test_numbers_that_are_none_are_missing(harm_folder):
    judge = seated(harm_folder("llama", "fine", "harmful"))
    judge.scorer(judge.judge_context.resources).model.score.weight.fill_(float("nan"))
    assert judge.score(PROMPT, "5") == "the classifier's numbers are nan, nan"


def test_a_label_or_template_that_is_not_there_is_said_at_once(harm_folder):
    folder = harm_folder("llama", "fine", "harmful")
    for label in ("unsafe", 2):
        with pytest.raises(
            ConfigError, match=r"judge\.unsafe: '(unsafe|2)' .* 0 \(fine\), 1 \(harmful\)"
        ):
            seated(folder, unsafe=label)
    with pytest.raises(ConfigError, match="chat_template"):
        seated(harm_folder("plain", "fine", "harmful"), chat_template=True)
    with pytest.raises(ValueError, match="no chat"):
        seated(folder, reads="answer", chat_template=True)


def test_an_encoder_without_end_token_or_template_is_read(model_folder, tmp_path):
    torch.manual_seed(0)
    sizes = {"vocab_size": 320, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(
        **sizes,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label={0: "fine", 1: "harmful"},
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(model_folder("plain"))
    tokenizer.eos_token = None
    tokenizer.save_pretrained(tmp_path)
    judge = seated(tmp_path, reads="answer", truncate=True)
    p = softmax(numbers(tmp_path, "It is five."), 1)
    found = judge.scores([(PROMPT, "It is five."), (PROMPT, "no " * 200)])
    assert found[0]["p_unsafe"] == pytest.approx(p, abs=1e-5)
    assert isinstance(found[1], dict)


@pytest.mark.parametrize("template", [False, True])
def test_a_text_is_read_up_to_its_limit_or_cut_there(harm_folder, template):
    folder = harm_folder("llama", "fine", "harmful")
    whole = seated(folder, chat_template=template).ids(PROMPT, "It is five.")
    n = len(whole)
    at = seated(folder, chat_template=template, max_length=n)
    assert at.ids(PROMPT, "It is five.") == whole
    below = {"chat_template": template, "max_length": n - 1}
    with pytest.raises(DataError, match=f"too long: {n} tokens, more than the {n - 1} that model"):
        seated(folder, **below).ids(PROMPT, "It is five.")
    cut = seated(folder, **below, truncate=True).ids(PROMPT, "It is five.")
    assert len(cut) == n - 1
    assert not template or cut == whole[: n - 1]


def test_a_text_without_tokens_is_missing(harm_folder, monkeypatch):
    judge = seated(harm_folder("plain", "fine", "harmful"), reads="answer")
    tokenizer, _ = judge._spelling(judge.judge_context.resources)
    monkeypatch.setattr(tokenizer, "encode", lambda *_, **__: [])
    with pytest.raises(DataError, match="there is no text to classify"):
        judge.ids(PROMPT, "")


@pytest.mark.parametrize("unsafe", [1, "harmful"])
def test_the_unsafe_label_is_a_name_or_a_number(harm_folder, unsafe):
    judge = seated(harm_folder("llama", "fine", "harmful", "odd"), unsafe=unsafe)
    p = math.exp(2.0) / (math.exp(1.0) + math.exp(2.0) + math.exp(-1.0))
    said = judge._verdict([1.0, 2.0, -1.0], independent=False)
    assert said == pytest.approx({"score": 1 - p, "p_safe": 1 - p, "p_unsafe": p, "unsafe": 1.0})
    p = 1 / (1 + math.exp(-2.0))
    assert judge._verdict([9.0, 2.0, 9.0], independent=True)["p_unsafe"] == pytest.approx(p)
