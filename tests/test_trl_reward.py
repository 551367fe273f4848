"""Judges as reward functions of TRL's trainers."""

import warnings

import pytest

import equipoise.trl
from equipoise.errors import ConfigError, DataError
from equipoise.judges.rules import Shorter
from tests.docs.test_examples import load

ASKED = "What is 2 + 2?"
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASKED}]


def said(*texts):
    return [[{"role": "assistant", "content": text}] for text in texts]


def vowels(prompt, text):
    """None for a text without vowels."""
    return {"score": text.count("a"), "length": len(text)} if "a" in text else None


@pytest.mark.parametrize(
    "judge",
    ["shorter", {"kind": "shorter", "unit": "characters"}, Shorter, Shorter(unit="characters")],
)
def test_any_way_to_name_a_judge(judge):
    rewards = equipoise.trl.reward(judge)([ASKED] * 2, ["four", "it is four"])
    assert len(rewards) == 2
    assert rewards[0] > rewards[1]


def test_a_function_and_what_it_cannot_judge():
    logged = {}
    judge = equipoise.trl.reward(vowels)
    with pytest.warns(UserWarning, match="left completions unjudged: .*vowels"):
        rewards = judge([ASKED] * 3, ["banana", "x", "a"], log_metric=logged.__setitem__)
    assert rewards == [3.0, None, 1.0]
    name = judge.__name__
    assert logged == {
        f"{name}/unjudged": pytest.approx(1 / 3),
        f"{name}/score": 2.0,
        f"{name}/length": 3.5,
    }
    other = equipoise.trl.reward(f"{__name__}:vowels", utility="length")
    assert other([ASKED], ["banana"]) == [6.0]


def test_conversational_completions_end_with_the_answer():
    judge = equipoise.trl.reward("exact")
    tool = [{"role": "assistant", "content": None}, {"role": "tool", "content": "4"}]
    parts = [{"type": "text", "text": "4"}]
    completions = [
        *said("4", "5"),
        [*tool, *said("4")[0]],
        [{"role": "assistant", "content": parts}],
    ]
    given = [[CHAT[0], {"role": "user", "content": [{"type": "text", "text": ASKED}]}]]
    rewards = judge([CHAT] * 3 + given, completions, answer=["4"] * 4)
    assert rewards == [1.0, 0.0, 1.0, 1.0]


def test_completions_of_one_prompt_meet_in_one_match_wherever_they_stand():
    """A comparing judge: of each prompt's answers the shorter one wins, 4 and 3 against 2 words."""
    rules = [{"kind": "shorter", "unit": "words"}, {"kind": "shorter"}]
    judge = equipoise.trl.reward({"kind": "panel", "how": "majority", "judges": rules})
    prompts = ["first", "second", "first", "second"]
    rewards = judge(prompts, ["a b c d", "a b", "a b c", "a b c d e"])
    assert rewards == [0.0, 1.0, 1.0, 0.0]


def test_prompts_with_other_facts_do_not_meet():
    rules = [{"kind": "shorter", "unit": "words"}, {"kind": "shorter"}]
    judge = equipoise.trl.reward({"kind": "panel", "how": "majority", "judges": rules})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert judge([ASKED] * 2, ["a", "a b"], answer=["4", "5"]) == [None, None]


def test_facts_are_columns_and_those_that_an_export_has():
    judge = equipoise.trl.reward("exact")
    more = {"trainer_state": object(), "log_extra": print, "environments": [object()] * 2}
    assert judge([ASKED] * 2, ["4", "5"], answer=["4", "4"], **more) == [1.0, 0.0]
    facts = ['{"answer": "4"}', '{"answer": "5"}']
    assert judge([ASKED] * 2, ["4", "4"], facts=facts) == [1.0, 0.0]
    others = ["{well known}", "[1]"]  # a column of this name that no export wrote
    assert judge([ASKED] * 2, ["4", "5"], facts=others, answer=["4"] * 2) == [1.0, 0.0]
    with pytest.warns(UserWarning, match="exact.*answer"):
        assert judge([ASKED], ["4"]) == [None]


def test_a_panel_logs_its_members():
    logged = {}
    rules = {"brief": {"kind": "shorter", "unit": "words"}, "right": {"kind": "exact"}}
    judge = equipoise.trl.reward({"kind": "panel", "judges": rules})
    judge([ASKED] * 2, ["4", "5 it is"], answer=["4", "4"], log_metric=logged.__setitem__)
    assert logged[f"{judge.__name__}/right"] == 0.5
    assert logged[f"{judge.__name__}/brief"] == -2.0


def test_a_member_without_a_word_is_named_once_and_counted():
    """The panel goes on with the others, here by the number of words alone."""
    logged = {}
    rules = {"brief": {"kind": "shorter", "unit": "words"}, "right": {"kind": "exact"}}
    judge = equipoise.trl.reward({"kind": "panel", "judges": rules})
    with pytest.warns(UserWarning, match=r"right of panel\S+ left .* unjudged: .*'answer'") as said:
        for _ in range(2):
            rewards = judge([ASKED] * 2, ["4", "5 it is"], log_metric=logged.__setitem__)
    assert rewards == [-1.0, -3.0]
    assert len(said) == 1
    shares = {key.partition("/")[2]: value for key, value in logged.items()}
    assert shares["right/unjudged"] == 1
    assert shares["brief/unjudged"] == shares["unjudged"] == 0


@pytest.mark.parametrize(
    ("judge", "says"),
    [
        ("shortre", "did you mean 'shorter'"),
        ("peers", "are the players of a run, and here nobody plays"),
        ({"kind": "peers", "who": "self"}, "are the players of a run, and here nobody plays"),
        (lambda prompt, text: 1.0, "cannot import"),
        ({"kind": "shorter", "units": "words"}, "did you mean 'unit'"),
    ],
)
def test_what_cannot_judge_is_refused_at_once(judge, says):
    with pytest.raises(ConfigError, match=says):
        equipoise.trl.reward(judge)


def test_a_utility_that_there_is_not():
    with pytest.raises(ConfigError, match="gives no utility 'harm'; known: score"):
        equipoise.trl.reward("shorter", utility="harm")


def test_a_column_that_is_no_fact():
    with pytest.raises(DataError, match="picture"):
        equipoise.trl.reward("shorter")([ASKED], ["4"], picture=[object()])


@pytest.mark.long
def test_the_trainer_learns_from_the_panel_of_the_example(model_folder):
    pytest.importorskip("trl")
    logged = load("trl_grpo").train(str(model_folder("qwen3")), 2, tokens=6)
    assert len(logged) == 2
    for step in logged:
        (name,) = {key.split("/")[0] for key in step if key.startswith("panel")}
        assert step[f"{name}/brief"] < 0 <= step[f"{name}/finished"] <= 1
        assert step[f"{name}/unjudged"] == 0
    assert any(step["reward_std"] > 0 for step in logged)


@pytest.mark.long
def test_the_trainer_leaves_the_unjudged_out(model_folder, tmp_path):
    """Every second answer has no verdict: the mean is that of the others, not half of it."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    calls = []

    def alternately(prompts, completions, **more):
        texts = ["a" * 4 if i % 2 else "x" for i in range(len(completions))]
        calls.append(equipoise.trl.reward(vowels)(prompts, texts))
        return calls[-1]

    settings = trl.GRPOConfig(
        str(tmp_path),
        max_steps=1,
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=4,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
    )
    trainer = trl.GRPOTrainer(
        str(model_folder("qwen3")),
        reward_funcs=alternately,
        args=settings,
        train_dataset=Dataset.from_list([{"prompt": ASKED}] * 4),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer.train()
    assert calls == [[None, 4.0, None, 4.0]]
    assert trainer.state.log_history[0]["reward"] == 4.0


def test_thoughts_that_the_prompt_began_are_no_answer():
    judge = equipoise.trl.reward("exact", say=lambda warning: None)
    texts = ["2 and 2? 5, no.</think>\n\n4", "4", "4</think>\n\n5"]
    thinking = [f"<|user|>{ASKED}<|assistant|><think>\n"] * 3
    assert judge(thinking, texts, answer=["4"] * 3) == [1.0, None, 0.0]
    assert judge([ASKED] * 3, texts, answer=["4"] * 3) == [1.0, 1.0, 0.0]


class ThinkingTokenizer:
    """A tokenizer whose template begins a thought, as DeepSeek-R1's does."""

    chat_template = "made"

    def apply_chat_template(self, chat, *, tokenize, add_generation_prompt):
        turns = "".join(f"<|{turn['role']}|>{turn['content']}" for turn in chat)
        return turns + ("<|assistant|><think>\n" if add_generation_prompt else "")


def test_the_tokenizer_says_that_the_template_began_a_thought():
    warnings_said = []
    judge = equipoise.trl.reward("exact", say=warnings_said.append, tokenizer=ThinkingTokenizer())
    parted = [[{"role": "assistant", "content": "4", "reasoning_content": "2 and 2?"}]]
    completions = [*said("Is it 5?\n</think>\n\n4", "It may be 4"), *parted]
    assert judge([CHAT] * 3, completions, answer=["4"] * 3) == [1.0, None, 1.0]
    assert any("max_new_tokens" in warning for warning in warnings_said)
