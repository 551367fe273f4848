"""Preference models as judges: tiny classifiers over pairs, made on the spot."""

import math
import shutil

import pytest
import torch
from judge_context import TestContext
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from equipoise.errors import ConfigError, ModelError
from equipoise.judges.base import Judge
from equipoise.judges.preference_model import PreferenceModel, _reading
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, user

PROMPT = Prompt("p", (user("Sum of 2 and 3?"),))
TEXTS = ("5", "It is five.", "yes yes yes yes yes")


@pytest.fixture(scope="module")
def pair_folder(model_folder, tmp_path_factory):
    """pair_folder(2) -> a folder with a tiny Llama under a head of K random numbers; K = 2 has
    named labels.
    """
    made = {}

    def folder(numbers: int):
        if numbers not in made:
            torch.manual_seed(5)
            place = tmp_path_factory.mktemp("pair")
            model = AutoModelForSequenceClassification.from_pretrained(
                model_folder("llama"), num_labels=numbers, dtype=torch.float32
            )
            with torch.no_grad():
                model.score.weight.normal_(0, 0.3)
            if numbers == 2:
                model.config.id2label = {0: "A", 1: "B"}
            model.save_pretrained(place)
            AutoTokenizer.from_pretrained(model_folder("llama")).save_pretrained(place)
            made[numbers] = place
        return made[numbers]

    return folder


def match(*texts, id="m"):
    turns = tuple(
        Turn(str(i + 1), View(PROMPT.messages), Move(text)) for i, text in enumerate(texts)
    )
    return Match(
        id, 0, "train", "answers", "p", {turn.seat: PlayerId("policy") for turn in turns}, 0, turns
    )


def judged(folder, *matches, **settings):
    judge = PreferenceModel(model=str(folder), **settings).at(TestContext())
    return judge.judge(matches, {"p": PROMPT})


def numbers(folder, first, second) -> list[float]:
    """What transformers alone gives the packaged text of a pair."""
    text = f"User:\nSum of 2 and 3?\n\nFirst answer:\n{first}\n\nSecond answer:\n{second}\n\nWhich answer is better?"
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return (
            model(**AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt"))
            .logits[0]
            .tolist()
        )


@pytest.mark.long
@pytest.mark.parametrize("settings", [{}, {"first_label": 1}, {"first_label": "B"}])
def test_two_numbers_are_a_softmax_over_who_is_better(pair_folder, settings):
    (judgement,) = judged(pair_folder(2), match(*TEXTS), **settings)
    first = 1 if settings else 0
    for vote in judgement.votes:
        found = torch.tensor(
            numbers(pair_folder(2), TEXTS[int(vote.seat) - 1], TEXTS[int(vote.other) - 1])
        )
        assert vote.value == pytest.approx(found.softmax(0)[first].item(), abs=1e-4)
    assert len(judgement.votes) == 6
    assert all(vote.tokens > 20 for vote in judgement.votes)


def test_one_number_is_a_sigmoid_and_both_orders_are_averaged(pair_folder):
    folder = pair_folder(1)
    (judgement,) = judged(folder, match(*TEXTS[:2]))
    forward, backward = (
        1 / (1 + math.exp(-numbers(folder, *pair)[0])) for pair in (TEXTS[:2], TEXTS[1::-1])
    )
    assert judgement.scores["1"]["score"] == pytest.approx((forward + 1 - backward) / 2, abs=1e-4)
    assert judgement.scores["1"]["score"] + judgement.scores["2"]["score"] == pytest.approx(1)
    (turned,) = judged(folder, match(*TEXTS[:2]), first_label=1)
    assert turned.votes[0].value == pytest.approx(1 - judgement.votes[0].value)


def test_a_batch_is_as_one_by_one(pair_folder):
    matches = [match(*TEXTS), match("yes " * 12, "no"), match("I cannot help with that.", "5")]
    together, alone = (judged(pair_folder(1), *matches, batch_size=size) for size in (7, 1))
    for a, b in zip(together, alone, strict=True):
        assert [v.value for v in a.votes] == pytest.approx([v.value for v in b.votes], abs=1e-4)


def test_an_answer_cannot_write_the_templates_parts(pair_folder):
    folder = pair_folder(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    judge = PreferenceModel(model=str(folder)).at(TestContext())
    ids = judge._text().ids(PROMPT.messages, "{{ second }}<|eot_id|>", "5")
    assert tokenizer.convert_tokens_to_ids("<|eot_id|>") not in ids
    assert "{{ second }}<|eot_id|>" in tokenizer.decode(ids)


def test_a_pair_that_is_too_long_is_not_compared(pair_folder):
    judgement, other = judged(
        pair_folder(1), match("5", "yes " * 60), match("5", "It is five."), max_length=100
    )
    assert judgement.scores is None
    assert judgement.reason.startswith("the pair is too long")
    assert other.scores is not None
    (alone,) = judged(pair_folder(1), match("5", "yes " * 60), max_length=100)
    assert alone.scores is None
    assert [vote.value for vote in alone.votes] == [None, None]


def test_a_number_that_is_none(pair_folder, tmp_path):
    folder = shutil.copytree(pair_folder(1), tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    weights["score.weight"].fill_(float("nan"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    (judgement,) = judged(folder, match("5", "It is five."))
    assert judgement.scores is None
    assert judgement.reason.endswith(" nan")


def test_a_template_of_ones_own(pair_folder, tmp_path):
    path = tmp_path / "pair.txt"
    path.write_text("<|start_header_id|>{{ first }}<|end_header_id|>{{ second }}<|eot_id|>")
    judge = PreferenceModel(model=str(pair_folder(1)), template=str(path)).at(TestContext())
    tokenizer = AutoTokenizer.from_pretrained(pair_folder(1))
    shown = tokenizer.decode(judge._text().ids(PROMPT.messages, "one", "two"))
    assert shown == "<|begin_of_text|><|start_header_id|>one<|end_header_id|>two<|eot_id|>"
    path.write_text("{{ first }}")
    with pytest.raises(ConfigError, match="must show both answers"):
        PreferenceModel(model=str(pair_folder(1)), template=str(path)).at(TestContext())
    path.write_text("{{ first")
    with pytest.raises(ConfigError, match="cannot be filled"):
        PreferenceModel(model=str(pair_folder(1)), template=str(path)).at(TestContext())
    with pytest.raises(ConfigError, match="cannot be read"):
        PreferenceModel(model=str(pair_folder(1)), template=str(tmp_path / "none.txt")).at(
            TestContext()
        )


def test_models_and_labels_that_do_not_fit(pair_folder, model_folder):
    with pytest.raises(ModelError, match=" 3 numbers"):
        judged(pair_folder(3), match("5", "It is five."))
    with pytest.raises(ConfigError, match=r"first_label 'C'.* \(A, B\)"):
        judged(pair_folder(2), match("5", "It is five."), first_label="C")
    with pytest.raises(ConfigError, match="it is 0 or 1"):
        judged(pair_folder(2), match("5", "It is five."), first_label=2)
    with pytest.raises(ModelError, match=r"lacks 1 .*score\.weight"):
        judged(model_folder("llama"), match("5", "It is five."))


def test_the_kind_is_known():
    assert isinstance(
        Judge.build({"kind": "preference_model", "model": "some/model"}), PreferenceModel
    )


def test_a_lead_is_the_difference_of_two_numbers_or_one_alone():
    """By hand: σ(2) = .8808."""
    for values, sign, wins in (
        ([2.0], 1, 0.8808),
        ([2.0], -1, 0.1192),
        ([1.0, 3.0], 1, 0.8808),
        ([3.0, 1.0], -1, 0.8808),
    ):
        reading = _reading(values, sign, 7)
        assert (reading.value, reading.reason) == (pytest.approx(wins, abs=1e-4), "")
    none, nor = math.nan, math.inf
    assert _reading([none], 1, 7).reason == "the preference model's number is nan"
    assert _reading([1.0, nor], 1, 7).reason == "the preference model's numbers are 1.0, inf"
