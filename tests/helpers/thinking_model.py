"""A tiny model that is taught to think before it answers, and a chat that it knows."""

from pathlib import Path

import pytest

from equipoise.api.fine_tune import fine_tune
from equipoise.learners.sft_learner import SFT
from equipoise.types import user

QUESTION = "How much is three and four?"
THOUGHT, ANSWER = "three and four", "It is seven."


@pytest.fixture(scope="session")
def thinking_model(model_folder, tmp_path_factory) -> Path:
    """The folder of a tiny Qwen3 that answers QUESTION with a thought and ANSWER."""
    folder = tmp_path_factory.mktemp("thinker") / "model"
    text = f"<think>\n{THOUGHT}\n</think>\n\n{ANSWER}"
    examples = [((user(QUESTION),), text)] * 32
    settings = SFT.model_validate(
        {"learning_rate": 0.01, "epochs": 8, "batch_size": 4, "warmup_ratio": 0}
    )
    fine_tune(str(model_folder("qwen3")), examples, folder, settings, max_length=120)
    return folder
