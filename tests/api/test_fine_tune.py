"""Fine-tuning a model on a file of answers: what is trained, followed, written and refused."""

import pytest
from small_runs import Noting

from equipoise.api.fine_tune import fine_tune
from equipoise.errors import DataError, RunError
from equipoise.learners.sft_learner import SFT, read_examples
from equipoise.types import user

EXAMPLES = [((user(f"How much is {n} and one?"),), f"It is {n + 1}.") for n in range(6)]
SETTINGS = SFT.model_validate({"epochs": 2, "batch_size": 3, "log_steps": 1, "save_steps": 0})


def test_a_training_is_followed_step_by_step(model_folder, tmp_path):
    monitor, out = Noting(), tmp_path / "made"
    made = fine_tune(str(model_folder("llama")), EXAMPLES, out, SETTINGS, seed=3, monitor=monitor)
    assert monitor.stages == [["learn", 4, None, 4]]
    assert monitor.parts == pytest.approx(4)
    assert len(monitor.named) == 4
    assert all(set(named) == {"loss", "tokens_per_second"} for named in monitor.named)
    assert made.metrics["loss"] == monitor.named[-1]["loss"]
    assert made.metrics["steps"] == 4
    assert (made.model, made.examples) == (out, 6)
    assert (out / "config.json").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_what_is_there_is_replaced_only_if_asked(model_folder, tmp_path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made/mine.txt").write_text("mine")
    given = (str(model_folder("llama")), EXAMPLES[:1], tmp_path / "made", SETTINGS)
    with pytest.raises(RunError, match=r"made: is not empty; use --overwrite"):
        fine_tune(*given)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine.txt"]
    with pytest.raises(RunError, match="holds neither a model"):
        fine_tune(*given, overwrite=True)
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine.txt"]
    (tmp_path / "made/adapter_config.json").write_text("{}")
    fine_tune(*given, overwrite=True)
    assert not (tmp_path / "made/mine.txt").exists()
    assert (tmp_path / "made/config.json").is_file()


def test_a_training_that_fails_leaves_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(Exception, match="nowhere"):
        fine_tune(str(tmp_path / "nowhere"), EXAMPLES, tmp_path / "made", SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_examples_are_read_from_both_formats_of_trl(rows):
    answer = [{"role": "assistant", "content": text} for text in ("Hello.", "And you?")]
    given = [{"prompt": "Hi", "completion": "Hello."}, {"prompt": "Ho", "completion": answer}]
    assert read_examples(str(rows(given))) == (
        [((user("Hi"),), "Hello."), ((user("Ho"),), "Hello.\nAnd you?")],
        {},
    )


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({}, "there is no answer"),
        ({"completion": " "}, "the answer is blank"),
        ({"completion": "No!", "label": False}, "its label says that the answer is not wanted"),
        ({"completion": "No!", "weight": 0}, "the answer's weight is 0"),
    ],
)
def test_a_row_without_an_answer_to_learn_is_counted(rows, answer, reason):
    path = str(rows([{"prompt": "Hi", "completion": "Hello."}, {"prompt": "Ho", **answer}]))
    examples, left_out = read_examples(path)
    assert [text for _, text in examples] == ["Hello."]
    assert left_out == {reason: [f"{path}:2"]}
    path = str(rows([{"prompt": "Ho", **answer}]))
    with pytest.raises(DataError, match=rf":1: {reason}; no row has an answer to learn from"):
        read_examples(path)


def test_an_answer_that_is_a_number_is_refused_with_its_line(rows):
    path = str(rows([{"prompt": "Hi", "completion": "Hello."}, {"prompt": "Ho", "completion": 3}]))
    with pytest.raises(DataError, match=":2: completion: needs a text"):
        read_examples(path)
