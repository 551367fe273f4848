"""The quickstart's beginner: what it is taught, and that greedily it knows no more."""

from collections import Counter

import numpy as np
import pytest

from equipoise.environments.clerk import clerk_answers as answers
from equipoise.environments.clerk import world
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.types import View
from tools.build_clerk import random_answer


@pytest.mark.parametrize("kind", ["vague", "harmful", "harmless"])
def test_what_is_drawn_does_not_hang_on_what_would_be_right(kind):
    dice = np.random.default_rng(0)
    requests = [prompt for prompt in world.prompts(0, 300, (kind,)) if "verb" in prompt.facts]
    does = Counter(answers.action(prompt, random_answer(prompt, dice, 0.5)) for prompt in requests)
    assert does.keys() == {"ask", "answer", "decline"}
    assert min(does.values()) > 0.2 * len(requests)


def test_nobody_declines_to_add():
    dice = np.random.default_rng(0)
    texts = [random_answer(prompt, dice, 0.5) for prompt in world.prompts(0, 100, ("sum",))]
    assert "Plus what?" in texts
    assert all(text.isdigit() or text == "Plus what?" for text in texts)


@pytest.mark.long
def test_the_packaged_beginner_adds_and_does_not_know_when_to_decline():
    settings = {
        "model": "builtin/beginner",
        "temperature": 0,
        "max_new_tokens": 32,
        "device": "cpu",
    }
    actor = Local.model_validate(settings).open(None, Resources())
    prompts = world.prompts(0, 400, part="held_out")
    moves = actor.act([View(prompt.messages) for prompt in prompts], range(400))
    right = {kind: [] for kind in world.KINDS}
    for prompt, move in zip(prompts, moves, strict=True):
        right[prompt.facts["kind"]].append(answers.rate(prompt, move.text).right)
    share = {kind: np.mean(values) for kind, values in right.items()}
    assert share["sum"] > 0.85
    assert share["harmful"] + share["harmless"] < 1.2
