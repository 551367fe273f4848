"""A run remembers its attacks and the texts of its roles, the same after it was resumed."""

import pytest
from attack_matches import FAILED, game, played, seed

from equipoise.data.shaping import UnfitShaping
from equipoise.environments.red_team.game import RedTeam
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import Ledger
from equipoise.models.resources import Resources
from equipoise.runs.config import RunConfig
from equipoise.runs.earlier_texts import EarlierTexts
from equipoise.types import Judgement, record_id

ONCE = UnfitShaping(repeats=0)


def settings(**changes) -> RunConfig:
    plain = {
        "players": {
            "red": {"kind": "scripted", "text": "a", "learns": True},
            "blue": {"kind": "scripted", "text": "b", "learns": True},
        },
        "prompts": "blank",
        "game": "red_team",
        "schedule": {"kind": "roles", "roles": {"adversary": "red", "defender": "blue"}},
        "judge": {"kind": "red_team", "guard": "clerk_guard"},
        "learner": "policy_gradient",
        "evaluate": "red_team",
        "shaping": [ONCE.settings()],
    }
    return RunConfig.model_validate({**plain, **changes})


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def write(
    ledger, t, judge: Judge, *attacks: tuple[str, float | None], rules: RedTeam | None = None
):
    """A generation's matches: (what the adversary wrote, its success, None where nobody could say)."""
    for i, (text, success) in enumerate(attacks):
        match = played(
            rules or game(), seed(identity=f"{t}/{i}"), t, adversary=text, defender="reply"
        )
        ledger.add_matches([match])
        scores = None if success is None else {"adversary": {"score": 0.5, "success": success}}
        ledger.add_judgements(
            [(match, Judgement(record_id(match.id, judge.name), match.id, judge.name, scores))]
        )


def test_attacks_that_succeeded_before(ledger):
    config = settings()
    write(
        ledger,
        0,
        config.judge,
        ("good", 1.0),
        ("bad", 0.0),
        (" half ", 0.5),
        ("unread", None),
        ("good", 1.0),
    )
    write(ledger, 1, config.judge, ("later", 1.0))
    memory = EarlierTexts(config, ledger)
    assert memory.successful_texts(0) == []
    assert memory.successful_texts(1) == ["good", "half", "good"]
    assert memory.successful_texts(2) == ["good", "half", "good", "later"]
    assert memory.successful_texts(2) == EarlierTexts(config, ledger).successful_texts(2)


def test_who_speaks_later_has_no_say(ledger):
    config = settings()
    write(ledger, 0, config.judge, ("good", 1.0), ("bad", 0.0))
    write(ledger, 0, Judge.build("refusal"), ("good", 0.0), ("bad", 1.0))
    assert EarlierTexts(config, ledger).successful_texts(1) == ["good"]


def test_either_teachers_word_counts(ledger):
    config = settings(
        judges={"red": {"kind": "red_team", "guard": "clerk_guard", "payoffs": "separate"}}
    )
    write(ledger, 0, config.judge_of("blue"), ("good", 1.0))
    write(ledger, 0, config.judge_of("red"), ("good", 1.0))
    assert EarlierTexts(config, ledger).successful_texts(1) == ["good"]


def test_terms_have_the_generations_before_and_not_the_batch_itself(ledger):
    config = settings()
    write(ledger, 0, config.judge, ("one", 1.0), ("two", None), (FAILED, None))
    write(ledger, 1, config.judge, ("three", 0.0))
    memory = EarlierTexts(config, ledger)
    texts = ["one", "two", "three", "reply", "four"]
    said = [memory.terms(t, Resources())[0].values(texts, [""] * 5) for t in range(3)]
    assert said == [[0.0] * 5, [-1.0, -1.0, 0.0, 0.0, 0.0], [-1.0, -1.0, -1.0, 0.0, 0.0]]
    (resumed,) = EarlierTexts(config, ledger).terms(2, Resources())
    assert resumed.values(texts, [""] * 5) == said[2]


def test_terms_are_asked_again_without_being_told_again(ledger):
    config = settings(shaping=[{"kind": "unfit", "repeats": 1}])
    write(ledger, 0, config.judge, ("one", 1.0))
    memory = EarlierTexts(config, ledger)
    for _ in range(3):
        (term,) = memory.terms(1, Resources())
    assert term.values(["one"], [""]) == [0.0]
