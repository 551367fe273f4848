"""Local players that think: their switch, a limit on thoughts, and what is learned of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from thinking_model import ANSWER, QUESTION, THOUGHT

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.learners.rollouts import rollout_batch
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.local_actor import LocalActor
from equipoise.sampling import sampling
from equipoise.types import Episode, Turn, View, user

OPENED = """
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + message.content + '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant<think>\\n' -}}{%- endif -%}
"""


@pytest.fixture
def opened(model_folder, tmp_path: Path) -> Callable[..., tuple[Player, LocalActor]]:
    """opened(settings) -> a tiny random model whose prompts begin its thoughts, and its actor."""
    template = tmp_path / "opened.jinja"
    template.write_text(OPENED)

    def player(**settings) -> tuple[Player, LocalActor]:
        made = Player.model_validate(
            {
                "kind": "local",
                "model": str(model_folder("qwen3")),
                "template": str(template),
                "device": "cpu",
                "max_length": 120,
                **settings,
            }
        )
        actor = made.open(None, Resources())
        assert isinstance(actor, LocalActor)
        return made, actor

    return player


VIEWS = [View((user("one"),)), View((user("two and three"),)), View((user("four"),))]


def test_a_thought_beyond_its_limit_is_closed_and_the_answer_follows(opened) -> None:
    _, actor = opened(thinking_tokens=5, max_new_tokens=4)
    moves = actor.act(VIEWS, [1, 2, 3])
    closing = actor._encoding.mark_ids("\n</think>\n\n")
    closed = [move for move in moves if move.forced]
    assert closed
    for move in closed:
        start, end = move.forced
        assert start == 5
        assert list(move.token_ids[start:end]) == closing
        assert 0 < len(move.token_ids) - end <= 4
        assert len(move.logprobs) == len(move.token_ids)
        parsed = answer_of(move)
        assert parsed.thoughts
        assert not parsed.unfinished
        assert parsed.text == actor._encoding.decode(move.token_ids[end:]).lstrip()


def test_a_move_is_the_same_whoever_is_sampled_beside_it(opened) -> None:
    _, actor = opened(thinking_tokens=5, max_new_tokens=4)
    together = actor.act(VIEWS, [1, 2, 3])
    alone = [actor.act([view], [seed])[0] for view, seed in zip(VIEWS, [1, 2, 3], strict=True)]
    assert [move.token_ids for move in together] == [move.token_ids for move in alone]


def test_an_answer_behind_closed_thoughts_has_dice_of_its_own(opened, monkeypatch) -> None:
    """Of three moves that are cut in their thoughts, by other seeds and in another order."""
    _, actor = opened(thinking_tokens=3, max_new_tokens=4)
    thrown: list[list[int]] = []
    plain = sampling.sample

    def noting(model, prompts, dice, *more, **settings):
        thrown.append(list(dice))
        return plain(model, prompts, dice, *more, **settings)

    monkeypatch.setattr(sampling, "sample", noting)
    moves = actor.act(VIEWS, [7, 3, 5])
    thoughts, answers = thrown
    assert thoughts == [7, 3, 5]
    going_on = [die for die, move in zip(thoughts, moves, strict=True) if move.forced]
    assert len(going_on) > 1
    assert answers == [seeds.child(die, "answer") for die in going_on]
    assert not set(answers) & set(thoughts)


def test_the_mark_has_the_models_own_log_probability(opened) -> None:
    _, actor = opened(thinking_tokens=5, max_new_tokens=4)
    move = next(move for move in actor.act(VIEWS, [1, 2, 3]) if move.forced)
    view = next(v for v, m in zip(VIEWS, actor.act(VIEWS, [1, 2, 3]), strict=True) if m == move)
    prompt = actor._encoding.prompt_ids(view.messages)
    (whole,) = actor.token_sums([prompt], [list(move.token_ids)])
    assert sum(move.logprobs) == pytest.approx(whole, abs=1e-3)


def test_without_a_limit_of_their_own_thoughts_take_all_the_tokens(opened) -> None:
    _, actor = opened(max_new_tokens=5)
    moves = actor.act(VIEWS, [1, 2, 3])
    assert all(answer_of(move).unfinished for move in moves if move.finish == "length")


def test_the_closing_mark_is_not_learned_and_thoughts_only_where_they_are_to_be(opened) -> None:
    _, actor = opened(thinking_tokens=5, max_new_tokens=4)
    moves = actor.act(VIEWS, [1, 2, 3])
    turns = [Turn("1", view, move) for view, move in zip(VIEWS, moves, strict=True)]
    episodes = [Episode(str(n), 0, "m", 0, "answer", "g", 1.0) for n in range(3)]
    device = torch.device("cpu")
    both = rollout_batch(episodes, turns, actor._encoding, device)
    answers = rollout_batch(episodes, turns, actor._encoding, device, thoughts=False)
    for row, move in enumerate(moves):
        start, end = move.forced or (0, 0)
        count = len(move.token_ids)
        learned = both.learned_BT[row].tolist()
        assert learned[start:end] == [False] * (end - start)
        assert sum(learned) == count - (end - start)
        if move.forced:
            assert answers.learned_BT[row].tolist()[:count] == (
                [False] * end + [True] * (count - end)
            )


class TestSettings:
    def faults(self, model: Path, **settings) -> list[str]:
        given = {"kind": "local", "model": str(model), "device": "cpu", **settings}
        return list(Player.model_validate(given).faults())

    def test_a_template_without_a_switch_or_marks_is_refused(self, model_folder) -> None:
        llama = model_folder("llama")
        (fault,) = self.faults(llama, enable_thinking=False)
        assert "has no switch for thoughts" in fault
        (fault,) = self.faults(llama, thinking_tokens=9)
        assert "no marks of thoughts" in fault
        assert self.faults(model_folder("qwen3"), enable_thinking=False) == []
        assert self.faults(model_folder("qwen3"), thinking_tokens=9) == []

    def test_settings_that_contradict_each_other_are_refused(self) -> None:
        for given in (
            {"thinking_tokens": 9, "enable_thinking": False},
            {"enable_thinking": True, "template_options": {"enable_thinking": False}},
        ):
            with pytest.raises(ValueError, match="enable_thinking"):
                Player.model_validate({"kind": "local", "model": "builtin", **given})

    def test_the_switch_reaches_the_template(self, model_folder) -> None:
        given = {"kind": "local", "model": str(model_folder("qwen3")), "device": "cpu"}
        chats = []
        for thinks in (None, True, False):
            player = Player.model_validate({**given, "enable_thinking": thinks})
            chats.append(player.encoding().prompt_ids((user("one"),)))
        assert chats[0] == chats[1] != chats[2]


@pytest.mark.long
def test_a_model_that_was_taught_to_think_is_read_by_its_answer(thinking_model: Path) -> None:
    player = Player.model_validate(
        {
            "kind": "local",
            "model": str(thinking_model),
            "device": "cpu",
            "temperature": 0,
            "max_new_tokens": 60,
        }
    )
    actor = player.open(None, Resources())
    (move,) = actor.act([View((user(QUESTION),))], [0])
    parsed = answer_of(move)
    assert (parsed.text, parsed.thoughts) == (ANSWER, (THOUGHT,))
