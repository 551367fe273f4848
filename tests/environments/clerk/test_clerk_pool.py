"""The packaged pool of clerks: six adapters on one base, each with its own strengths, who grade
what they read.
"""

import pytest
import torch

from equipoise import seeds
from equipoise.environments.clerk import clerk_answers as answers
from equipoise.environments.clerk import world
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import View
from tools import build_expert as expert
from tools import build_pool as pool
from tools.build_clerk import wrong_answer

SETTINGS = {
    "model": "builtin/pool",
    "max_new_tokens": 16,
    "max_length": 256,
    "batch_size": 256,
    "device": "cpu",
}
GREEDY = {**SETTINGS, "temperature": 0}


@pytest.fixture(scope="module")
def members():
    torch.set_num_threads(1)
    resources = Resources()
    players = {
        name: Local.model_validate({**SETTINGS, "adapter": f"builtin/{name}"})
        for name in pool.MEMBERS
    }
    return {name: player.open(player.start, resources) for name, player in players.items()}


def right(actor, kind: str, count: int = 60) -> float:
    prompts = world.prompts(3, count, (kind,), "held_out")
    moves = actor.act([View(p.messages) for p in prompts], [seeds.child(1, p.id) for p in prompts])
    return (
        sum(answers.rate(p, move.text).right for p, move in zip(prompts, moves, strict=True))
        / count
    )


@pytest.mark.long
def test_a_specialist_is_best_at_its_own(members):
    for kind, name in (("vague", "asker"), ("harmful", "guard")):
        assert right(members[name], kind) > right(members["novice"], kind) + 0.2, name


@pytest.mark.long
def test_greedily_nobody_knows_what_it_was_not_taught():
    """Sampling less boldly is no way to the answers, and neither is leaving an adapter out."""
    torch.set_num_threads(1)
    resources = Resources()
    for name in (None, *pool.MEMBERS):
        known = set(pool.MEMBERS[name].right) if name else set()
        settings = GREEDY if name is None else {**GREEDY, "adapter": f"builtin/{name}"}
        player = Local.model_validate(settings)
        actor = player.open(player.start, resources)
        share = {kind: right(actor, kind, 40) for kind in world.KINDS}
        foreign = [share[kind] for kind in world.KINDS if kind not in known]
        assert max(foreign, default=0) < 0.8, (name, share)
        assert sum(share.values()) / len(share) < 0.85, (name, share)


@pytest.mark.long
def test_a_member_grades_right_answers_above_wrong_ones(members):
    prompts = world.prompts(3, 40, ("harmful",), "held_out")
    means = []
    for answer in (answers.right_answer, lambda prompt: wrong_answer(prompt, 0)):
        views = [
            expert.QUESTION.view(expert.judge_quotes(p, answer(p)), seeds.child(5, p.id))
            for p in prompts
        ]
        grades = [move.text for move in members["veteran"].act(views, range(len(views)))]
        read = [int(grade) for grade in grades if grade in (*expert.GOOD, *expert.BAD)]
        assert len(read) >= 0.9 * len(grades)
        means.append(sum(read) / len(read))
    assert means[0] > means[1] + 2


def test_the_package_holds_one_base_and_small_adapters():
    sizes = {
        f.name: sum(file.stat().st_size for file in f.iterdir())
        for f in pool.PACKAGED.iterdir()
        if f.is_dir()
    }
    assert sizes.keys() == {"base", *pool.MEMBERS}
    assert all(sizes[name] < sizes["base"] / 5 for name in pool.MEMBERS)
