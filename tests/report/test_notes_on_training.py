"""A comparison says which of its prompts a player had been trained on."""

from types import SimpleNamespace

from equipoise.evaluation.compared_arms import Shown
from equipoise.report.score_sheets import ScoredRun, notes_on_training
from equipoise.types import PlayerId, Prompt, user


def test_training_prompts_among_those_of_a_set_are_counted_by_their_text():
    trained = [Prompt("a", (user("What is 2 + 2?"),)), Prompt("b", (user("Who are you?"),))]
    read: list[str] = []

    def prompts(split: str) -> list[Prompt]:
        read.append(split)
        return trained

    run = ScoredRun(SimpleNamespace(ledger=SimpleNamespace(prompts=prompts)))
    answers = {
        "1": Shown((user("what is  2 + 2?"),), ("4",)),
        "2": Shown((user("What is 3 + 3?"),), ("6",)),
        "3": Shown((user("Who are you now?"),), ("Me",)),
    }
    (note,) = notes_on_training(run, PlayerId("policy", 2), answers)
    assert note.startswith("1 of the 3 prompts are training prompts")
    assert list(notes_on_training(run, PlayerId("policy", 0), answers)) == []
    assert list(notes_on_training(run, PlayerId("policy", 2), {"2": answers["2"]})) == []
    assert len(list(notes_on_training(run, PlayerId("other", 1), answers))) == 1
    assert read == ["train"], "training prompts are read once for all players of a run"
