"""Procedural tasks of reasoning-gym: drawn again by the judge, scored by their own rule."""

from __future__ import annotations

import json
from importlib.util import find_spec

import pytest

from equipoise.environments.reasoning_gym.gym_tasks import FACT, SolvesTask, TaskPrompts
from equipoise.errors import ConfigError

pytestmark = [
    pytest.mark.long,  # its library loads for seconds
    pytest.mark.skipif(
        find_spec("reasoning_gym") is None,
        reason="reasoning-gym is not installed: it needs a C compiler",
    ),
]
# Their data sets need more than a name, or give no answer of their own to score.
WITHOUT_ANSWER = {
    "composite",
    "graph_color",
    "rubiks_cube",
    "boxnet",
    "rush_hour",
    "propositional_logic",
}
# Its scorer takes whatever is not "True" for "False".
READS_ANYTHING = {"game_of_life_halting"}


def prompts(task: object, **settings: object) -> list:
    """Two prompts to train on."""
    values = {"task": task, "count": 2, "held_out": 0, **settings}
    return TaskPrompts.model_validate(values).load().training


@pytest.mark.parametrize(
    "step", [8, pytest.param(1, marks=pytest.mark.slow)], ids=["every eighth", "all"]
)  # slow: those between, some of which take long to make
def test_every_task_pays_its_own_answer_in_full_and_others_less(step) -> None:
    from reasoning_gym.factory import DATASETS

    names = sorted(set(DATASETS) - WITHOUT_ANSWER)[::step]
    failed: dict[str, object] = {}
    judge = SolvesTask()
    for name in names:
        prompt = prompts(name)[0]
        kept = json.loads(json.dumps(prompt.facts))
        assert kept == prompt.facts, f"{name}: a ledger would not keep its facts"
        right = judge.score(prompt, f"So: <answer>{prompt.facts['answer']}</answer>")
        wrong = judge.score(prompt, "<answer>I do not know</answer>")
        told_apart = wrong != right or name in READS_ANYTHING
        if right != {"score": 1.0, "solved": 1.0} or not told_apart:
            failed[name] = (right, wrong)
    assert not failed


def test_parts_share_no_task_and_the_tasks_take_turns() -> None:
    settings = {
        "task": {"chain_sum": {"min_terms": 2, "max_terms": 2}, "spell_backward": {}},
        "count": 6,
        "held_out": 4,
        "test": 2,
    }
    source = TaskPrompts.model_validate(settings).load()
    parts = [source.training, source.held_out, source.test]
    drawn = [(p.facts[FACT]["task"], p.facts[FACT]["index"]) for part in parts for p in part]
    assert len(set(drawn)) == 12
    assert {p.facts[FACT]["size"] for part in parts for p in part} == {6}  # a task's own
    odd = prompts(["chain_sum", "spell_backward"], count=5)
    assert [repr(p.facts[FACT]["size"]) for p in odd] == ["3"] * 5
    assert [name for name, _ in drawn[:4]] == ["chain_sum", "spell_backward"] * 2
    again = TaskPrompts.model_validate(settings).load()
    assert [p.id for p in again.training] == [p.id for p in source.training]
    other = TaskPrompts.model_validate(settings | {"seed": 1}).load()
    assert not {p.id for p in other.training} & {p.id for p in source.training}


def test_the_answer_stands_in_tags_where_the_prompt_asks_for_them() -> None:
    judge = SolvesTask()
    tagged = prompts("chain_sum")[0]
    answer = tagged.facts["answer"]
    assert judge.score(tagged, answer) == {"score": 0.0, "solved": 0.0}
    plain = prompts("chain_sum", style=None)[0]
    assert judge.score(plain, f" {answer}\n") == {"score": 1.0, "solved": 1.0}


def test_another_task_from_the_same_seed_is_not_scored() -> None:
    prompt = prompts("chain_sum")[0]
    prompt.facts[FACT]["seed"] = 7
    assert "another task" in str(SolvesTask().score(prompt, "<answer>1</answer>"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "chain_sums"}, "unknown reasoning-gym task 'chain_sums'.*chain_sum"),
        ({"task": {"chain_sum": {"terms": 2}}}, r"prompts\.task\.chain_sum: .*terms"),
        ({"task": {"chain_sum": {"min_terms": 0}}}, r"prompts\.task\.chain_sum: "),
        ({"task": "chain_sum", "style": "terse"}, "unknown style 'terse'"),
    ],
)
def test_bad_settings_are_named(settings: dict, message: str) -> None:
    source = TaskPrompts.model_validate(settings)
    with pytest.raises(ConfigError, match=message):
        source.load()
