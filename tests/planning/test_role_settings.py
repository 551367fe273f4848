"""Faults of a run of attack and defence that are found before anything is played, and a judge that
loses matches.
"""

from types import SimpleNamespace
from typing import Literal

import pytest
from attack_matches import game, played, seed
from judge_context import TestContext

from equipoise.errors import ConfigError, DataError, EquipoiseError
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import Ledger
from equipoise.planning.new_run import new_run
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.open_run import OpenRun
from equipoise.runs.recipe_loader import build

PREFERENCE = {"kind": "preference"}
RED_LEARNS_PAIRS = {"learners": {"red": PREFERENCE}, "loss": "dpo"}


def settings(**changes):
    plain = {
        "players": {name: {"kind": "local", "learns": True} for name in ("red", "blue")}
        | {"judy": {"kind": "scripted", "text": "b"}},
        "prompts": {"kind": "blank", "held_out": 1},
        "game": "red_team",
        "schedule": {"kind": "roles", "roles": {"adversary": "red", "defender": "blue"}},
        "judge": {"kind": "red_team", "guard": "clerk_guard"},
        "learner": "policy_gradient",
        "evaluate": "red_team",
    }
    return {**plain, **changes}


def adapters(red: str, blue: str, **schedule) -> dict:
    return {
        "players": {
            name: {"kind": "local", "learns": True, "adapter": adapter}
            for name, adapter in (("red", red), ("blue", blue))
        },
        "schedule": {**settings()["schedule"], **schedule},
    }


def test_cross_play_needs_every_generation():
    with pytest.raises(ConfigError, match=r"keep: evaluate: red_team"):
        build(settings(keep=2), "mine.yaml")
    build(settings(keep=2, evaluate={"kind": "red_team", "crossplay": 0}), "mine.yaml")


def test_it_is_sound_without_a_fault():
    assert build(settings(), "mine.yaml").learning == ["red", "blue"]
    assert (
        build(settings(**RED_LEARNS_PAIRS, shaping=["cosine"]), "mine.yaml").learner_of("red").kind
        == "preference"
    )
    build(
        settings(turns={"kind": "best_response", "order": ["blue"]}, **RED_LEARNS_PAIRS),
        "mine.yaml",
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learners": {"judy": {}}}, "learners: 'judy' does not learn"),
        ({"judges": {"rod": "refusal"}}, "judges: 'rod'"),
        (
            {"turns": {"kind": "one", "player": "rod"}},
            "turns: 'rod' does not learn; did you mean 'red'?",
        ),
        (
            {"turns": {"kind": "alternate", "steps": {"red": 2, "judy": 1}}},
            "turns: 'judy' does not learn",
        ),
        (
            {"turns": {"kind": "best_response", "order": ["nobody"]}},
            "turns: 'nobody' does not learn",
        ),
        (
            {"turns": {"kind": "best_response", "order": ["red", "blue"]}, **RED_LEARNS_PAIRS},
            "turns: 'best_response' goes by rewards, and the learner 'preference' of 'red' has none",
        ),
        (
            {"shaping": [{"kind": "cosine", "role": "atacker"}]},
            "shaping.role: game 'red_team' has no role 'atacker'",
        ),
        (
            {"schedule": {"kind": "roles", "roles": {"adversary": "rod"}}},
            "schedule.roles.adversary: there is no player",
        ),
        (
            {"schedule": {"kind": "roles", "roles": {"attacker": "red"}}},
            "game 'red_team' has no role 'attacker'",
        ),
        (
            {"schedule": {"kind": "roles", "roles": {"adversary": "red", "defender": "red"}}},
            "plays several roles",
        ),
        (
            {
                "game": {"kind": "red_team", "rounds": 2},
                "schedule": settings()["schedule"] | {"replay": 0.5},
            },
            "schedule.replay: the attacks of a conversation",
        ),
        (
            adapters("builtin/helper", "builtin/helper"),
            "players.blue.adapter: 'red' starts from 'builtin/helper', too",
        ),
        (adapters("some/where", "./some/../some/where"), "too; give each role an adapter of its"),
    ],
)
def test_faults(changes, words):
    with pytest.raises(ConfigError) as caught:
        build(settings(**changes), "mine.yaml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("mine.yaml: ")


def test_adapters_apart_or_shared_on_purpose():
    build(settings(**adapters("builtin/helper", "builtin/asker")), "mine.yaml")
    build(settings(**adapters("builtin/helper", "builtin/helper", shared=True)), "mine.yaml")


def test_a_faulty_template_is_found_before_there_is_a_run(tmp_path):
    (tmp_path / "mine.txt").write_text("Rewrite it.")
    config = build(
        settings(game={"kind": "red_team", "text": str(tmp_path / "mine.txt")}), "mine.yaml"
    )
    with (
        pytest.raises(DataError, match=r"game.text: .*mine.txt: the placeholder 'seed' is missing"),
        new_run(config, tmp_path / "run"),
    ):
        raise AssertionError("no run begins")
    assert not (tmp_path / "run").exists()


class Lossy(Judge):
    """Loses the last match, or turns their order."""

    kind: Literal["lossy"] = "lossy"
    turned: bool = False

    def judge(self, matches, prompts):
        words = [self.judgement(match, None, "tired") for match in matches]
        return words[::-1] if self.turned else words[:-1]


@pytest.mark.parametrize(("turned", "count"), [(False, 1), (True, 2)])
def test_a_judge_must_say_something_of_every_match(tmp_path, turned, count):
    config = build(settings(), "mine.yaml")
    prompts = {f"p{i}": seed(identity=f"p{i}") for i in range(2)}
    matches = [played(game(), prompt, adversary="a", defender="b") for prompt in prompts.values()]
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        run = OpenRun(SimpleNamespace(config=config, ledger=ledger))
        with pytest.raises(
            EquipoiseError, match=f"judge 'lossy' gave {count} judgements for 2 matches"
        ):
            record_judgements(
                run, "0/judge", Lossy(turned=turned), TestContext(), matches, prompts, 0
            )
        assert ledger.judgements_of(prompts) == {}
        assert ledger.stage_facts("0/judge") is None
