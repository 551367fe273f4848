"""Memory phase by phase: what is published fits one accelerator of 80 GB at 7 billion
parameters with LoRA, or the plan says what it needs.
"""

import pytest

from equipoise.models.loading import Description
from equipoise.run import recipes
from equipoise.run.phases import phases

CARD = 80e9
# Of Qwen2.5-7B, with an adapter of rank 16 on all linear layers.
SEVEN = Description(
    parameters=7_615_616_512,
    hidden=3584,
    layers=28,
    vocabulary=152_064,
    context=32_768,
    kv_numbers=2 * 28 * 4 * 128,
    trainable=40_370_176,
    short=True,
)
LORA = "player_defaults.lora={r: 16}"
POLICY = [
    "players.policy.model=builtin",
    "players.policy.lora={r: 16}",
    "prompts.path=none.jsonl",
]
OUTSIDER = "players.outsider={model: builtin, max_length: 2048, lora: {r: 16}}"
ROLES = [
    "players.defender.model=builtin",
    "players.adversary.model=builtin",
    "prompts.path=none.jsonl",
    "judge.guard=clerk_guard",
    LORA,
]
ASSISTANT = [
    "players.assistant.model=builtin",
    "players.assistant.lora={r: 16}",
    "prompts.path=none.parquet",
]
POOL = [
    "players={ann: {model: builtin}, ben: {model: builtin}, cat: {model: builtin}}",
    "prompts.path=none.jsonl",
    LORA,
]
# Recipe -> what it needs here, and what the plan asks for, where it does not fit.
PUBLISHED = {
    "mnpo": (POLICY, ""),
    "mnpo_as_released": (POLICY, ""),
    "mnpo_one_gpu": (POLICY, ""),
    "mnpo_eight_gpus": (POLICY, ""),
    "mnpo_two_nodes": (POLICY, ""),
    "mnpo_external": ([*POLICY, OUTSIDER], ""),
    "sparta": (POOL, ""),
    "sparta_as_released": (POOL, ""),
    "gpo": (ROLES, "learner.critic=head"),
    "gpo_as_released": (ROLES, "learner.critic=head"),
    "rlhf": (ROLES, "learner.critic=head"),
    "gtalign": (ASSISTANT, "learner.critic=head"),
}


def memory(name: str, overrides: list[str]):
    config = recipes.load(name, overrides)
    return phases(config, 256, accelerator=True, sizes=lambda model, lora: SEVEN)


@pytest.mark.parametrize("name", PUBLISHED)
def test_at_seven_billion_it_fits_one_card_or_says_what_it_needs(name):
    overrides, needed = PUBLISHED[name]
    taken = memory(name, overrides)
    assert {part.phase for part in taken} >= {"play", "learn"}
    assert all(part.bytes > 2 * SEVEN.parameters for part in taken)
    short = [part for part in taken if part.bytes > CARD]
    assert bool(short) == bool(needed), taken
    assert all(needed in part.advice for part in short if part.phase == "learn")


def test_players_of_one_base_hold_it_once():
    two, three = (
        memory("sparta", [*POOL, f"players.{name}={{model: builtin, {rest}}}"])
        for name, rest in (("ann", "learns: true"), ("dan", "learns: true"))
    )
    added = three[0].bytes - two[0].bytes
    assert 0 < added < 1e9
