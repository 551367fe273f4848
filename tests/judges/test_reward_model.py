"""Reward models as judges: tiny models with a head, made on the spot."""

import random
import shutil

import pytest
import torch
from judge_context import TestContext
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    LlamaForSequenceClassification,
)

from equipoise.errors import ConfigError, ModelError
from equipoise.judges.base import Judge
from equipoise.judges.reward_model import RewardModel
from equipoise.types import Match, Message, Move, PlayerId, Prompt, Turn, View, user

PROMPTS = [
    Prompt("short", (user("Sum of 2 and 3?"),)),
    Prompt(
        "long",
        (
            Message("system", "Be brief."),
            user("What time does the train to the lake leave on Sunday?"),
        ),
    ),
]
TEXTS = [
    "5",
    "It is five.",
    "I cannot help with that request, but here is something.",
    "yes " * 15,
    "",
    "Sunday morning",
]


def seated(folder, **settings):
    return RewardModel(model=str(folder), **settings).at(TestContext())


def alone(folder, prompt, text) -> list[float]:
    """The numbers of one text, by transformers alone."""
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    chat = [
        {"role": m.role, "content": m.content}
        for m in (*prompt.messages, Message("assistant", text))
    ]
    ids = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        chat, return_tensors="pt", return_dict=False
    )
    with torch.no_grad():
        return model(ids).logits[0].tolist()


@pytest.mark.long
@pytest.mark.parametrize(
    "family", ["llama", "qwen3", "gemma3"]
)  # the last one's configuration names a padding token
def test_a_batch_of_shuffled_lengths_is_as_each_text_alone(reward_folder, family):
    folder = reward_folder(family, 1)
    answers = [(prompt, text) for prompt in PROMPTS for text in TEXTS]
    random.Random(1).shuffle(answers)
    found = [verdict["score"] for verdict in seated(folder, batch_size=5).scores(answers)]
    assert found == pytest.approx([alone(folder, *answer)[0] for answer in answers], abs=1e-4)
    assert len({round(score, 3) for score in found}) == len(
        answers
    )  # the answers are told apart, so a shift would show


def test_the_models_configuration_is_left_as_it_was(reward_folder):
    judge = seated(reward_folder("llama", 1))
    judge.scores([(PROMPTS[0], "5"), (PROMPTS[1], "It is five.")])
    assert judge.scorer(judge.judge_context.resources).model.config.pad_token_id is None


def test_a_match_gets_a_score_a_seat(reward_folder):
    judge = seated(reward_folder("llama", 1))
    turns = [
        Turn(seat, View(PROMPTS[0].messages), Move(text))
        for seat, text in (("1", "5"), ("2", "It is five."))
    ]
    turns.append(Turn("3", View(), Move("", "error", error="out of memory")))
    seats = {seat: PlayerId("policy") for seat in "123"}
    (judgement,) = judge.judge(
        [Match("m", 0, "train", "answers", "short", seats, 0, tuple(turns))], {"short": PROMPTS[0]}
    )
    assert list(judgement.scores) == ["1", "2"]
    assert judgement.reason == "the move failed: out of memory"
    assert judgement.scores["2"] == pytest.approx(judge.score(PROMPTS[0], "It is five."), abs=1e-4)


def test_equal_answers_tie_exactly(reward_folder):
    judge = seated(reward_folder("llama", 1), batch_size=2)
    found = judge.scores(
        [(PROMPTS[0], text) for text in ("It is five.", "5", "no " * 20, "It is five.")]
    )
    assert found[0] == found[3] != found[1]


def test_several_rewards_keep_their_names(reward_folder):
    folder = reward_folder("llama", 3, id2label={0: "helpful", 1: "honest", 2: "harmless"})
    numbers = alone(folder, PROMPTS[0], "5")
    own = seated(folder, score_of="honest").score(PROMPTS[0], "5")
    assert own == pytest.approx(
        dict(zip(("helpful", "honest", "harmless"), numbers, strict=True)) | {"score": numbers[1]}
    )
    weighed = seated(folder, rewards=("a", "b", "c"), score_of={"a": 2.0, "c": -1.0}).score(
        PROMPTS[0], "5"
    )
    assert weighed["score"] == pytest.approx(2 * numbers[0] - numbers[2], abs=1e-5)
    assert list(weighed) == ["a", "b", "c", "score"]
    assert seated(reward_folder("llama", 1), rewards=("quality",)).score(
        PROMPTS[0], "5"
    ).keys() == {"quality", "score"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "set judge.score_of"),
        ({"score_of": "reward_7"}, "score_of names reward_7; known: reward_0, reward_1"),
        ({"rewards": ("a", "b", "c")}, "gives 2 rewards, but judge.rewards names 3"),
        ({"rewards": ("a", "score"), "score_of": "a"}, "a reward is called score"),
        ({"score_of": {}}, "score_of names nothing"),
    ],
)
def test_rewards_that_cannot_be_told_apart(reward_folder, settings, message):
    with pytest.raises(ConfigError, match=message):
        seated(reward_folder("llama", 2), **settings).score(PROMPTS[0], "5")


def test_an_answer_that_does_not_fit_is_missing_or_cut(reward_folder):
    folder = reward_folder("llama", 1)
    answers = [(PROMPTS[0], "5"), (PROMPTS[0], "yes " * 60), (PROMPTS[0], "It is five.")]
    kept = seated(folder, max_length=60).scores(answers)
    assert "max_length = 60" in kept[1]
    assert [kept[0], kept[2]] == seated(folder).scores([answers[0], answers[2]])
    assert isinstance(seated(folder, max_length=60, truncate=True).scores(answers)[1], dict)
    with pytest.raises(ModelError, match="beyond the context"):
        seated(folder, max_length=1000)


def test_a_reward_that_is_not_finite_is_missing(reward_folder, tmp_path):
    folder = shutil.copytree(reward_folder("llama", 1), tmp_path / "nan")
    weights = load_file(folder / "model.safetensors")
    weights["score.weight"].fill_(float("nan"))
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    assert seated(folder).scores([(PROMPTS[0], "5")]) == ["the reward model's score is nan"]


@pytest.mark.long
def test_a_value_head_of_another_name_at_a_special_token(reward_folder, tmp_path):
    """The form of Athene-RM: the head is v_head, the reward is read at a token put behind the chat."""
    plain = reward_folder("llama", 1)
    folder = shutil.copytree(plain, tmp_path / "v_head")
    weights = load_file(folder / "model.safetensors")
    weights["v_head.weight"] = weights.pop("score.weight")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelError, match=r"lacks 1 .* score\.weight; .*v_head\.weight"):
        seated(folder).score(PROMPTS[0], "5")
    assert seated(folder, head="v_head").score(PROMPTS[0], "5") == seated(plain).score(
        PROMPTS[0], "5"
    )

    judge = seated(folder, head="v_head", ending="<|end_of_text|>", max_length=60, truncate=True)
    token = AutoTokenizer.from_pretrained(folder).convert_tokens_to_ids("<|end_of_text|>")
    encoding = judge.encoding(judge.judge_context.resources)
    for text in ("5", "yes " * 60):
        ids = judge.ids(encoding, (*PROMPTS[0].messages, Message("assistant", text)))
        assert ids[-1] == token
        assert ids.count(token) == 1
        assert len(ids) <= 60
    assert judge.score(PROMPTS[0], "5") != seated(plain).score(PROMPTS[0], "5")
    with pytest.raises(ConfigError, match="not made of special tokens"):
        seated(folder, ending="<reward>")


def test_a_language_model_is_no_reward_model(model_folder):
    with pytest.raises(ModelError, match=r"reward model, lacks 1 .*score\.weight"):
        seated(model_folder("llama")).score(PROMPTS[0], "5")


def test_a_reward_model_without_a_chat_template(reward_folder, tmp_path):
    folder = reward_folder("plain", 1)
    with pytest.raises(ModelError, match=r"no chat template.*judge\.template"):
        seated(folder)
    template = tmp_path / "chat.jinja"
    template.write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    assert isinstance(seated(folder, template=str(template)).score(PROMPTS[0], "5"), dict)


CODE = """
from dataclasses import dataclass
import torch
from torch import nn
from transformers import LlamaModel, LlamaPreTrainedModel
from transformers.utils import ModelOutput

@dataclass
class Gated(ModelOutput):
    rewards: torch.Tensor = None
    score: torch.Tensor = None

class LlamaGated(LlamaPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = LlamaModel(config)
        self.regression_layer = nn.Linear(config.hidden_size, config.num_labels, bias=False)
        self.post_init()

    def forward(self, input_ids, attention_mask=None, **more):
        hidden = self.model(input_ids, attention_mask=attention_mask).last_hidden_state
        last = hidden[torch.arange(len(hidden)), attention_mask.sum(1) - 1]
        rewards = self.regression_layer(last)
        return Gated(rewards=rewards, score=rewards.mean(1))
"""


@pytest.fixture
def gated(reward_folder, tmp_path):
    """A model with code of its own, in the form of ArmoRM: its score is a field beside its rewards."""
    folder = shutil.copytree(
        reward_folder(
            "llama", 3, auto_map={"AutoModelForSequenceClassification": "gated_model.LlamaGated"}
        ),
        tmp_path / "gated",
    )
    (folder / "gated_model.py").write_text(CODE)
    weights = load_file(folder / "model.safetensors")
    weights["regression_layer.weight"] = weights.pop("score.weight")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


@pytest.mark.long
def test_a_custom_model_with_a_score_field(gated, reward_folder, monkeypatch, tmp_path):
    monkeypatch.setattr(
        "transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules")
    )
    judge = seated(gated, trust_remote_code=True, score_field="score", batch_size=2)
    answers = [(PROMPTS[0], text) for text in TEXTS]
    expected = [sum(alone(reward_folder("llama", 3), *answer)) / 3 for answer in answers]
    assert [verdict["score"] for verdict in judge.scores(answers)] == pytest.approx(
        expected, abs=1e-4
    )
    with pytest.raises(ModelError, match=r"'logits'.* rewards, score"):
        seated(gated, trust_remote_code=True).scores(answers)


def test_code_of_the_models_own_runs_only_on_request(gated):
    with pytest.raises(ModelError, match="trust_remote_code: true"):
        seated(gated).score(PROMPTS[0], "5")


def test_the_model_is_shared_through_the_resources_and_gone_with_them(reward_folder, monkeypatch):
    folder, judge_context, loaded = reward_folder("llama", 2), TestContext(), []
    load = LlamaForSequenceClassification.from_pretrained
    monkeypatch.setattr(
        LlamaForSequenceClassification,
        "from_pretrained",
        lambda *a, **k: (loaded.append(1), load(*a, **k))[1],
    )
    one, two = (
        RewardModel(model=str(folder), score_of=f"reward_{k}").at(judge_context) for k in range(2)
    )
    one.score(PROMPTS[0], "5"), two.score(PROMPTS[0], "5")
    assert len(loaded) == 1
    judge_context.resources.clear()
    assert one.score(PROMPTS[0], "5")
    assert len(loaded) == 2


def test_a_judge_without_a_context(reward_folder):
    with pytest.raises(ConfigError, match=r"judge\.at\(judge_context\)"):
        RewardModel(model=str(reward_folder("llama", 1))).score(PROMPTS[0], "5")


def test_the_kind_is_known_and_loads_no_torch(reward_folder):
    judge = Judge.build(
        {"kind": "reward_model", "model": "some/model", "score_of": {"helpful": 1.0}}
    )
    assert isinstance(judge, RewardModel)
    assert judge.name.startswith("reward_model-")
