"""Every row of docs/models.md is planned from the model's published configuration alone."""

import json
import re
import shutil
from pathlib import Path

import pytest

import equipoise
from equipoise.errors import ConfigError
from equipoise.models.loading import describe
from equipoise.planning.config_alone import counting_tokenizer, has_config_alone

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs" / "models.md").read_text()
TABLES = PAGE.split("\n## ")
CARDS = {"24 GB": "1xRTX4090-24GB", "80 GB": "1xA100-80GB"}
# As published, beside which each configuration is held.
PARAMETERS = {
    "Qwen3-0.6B": 596_049_920,
    "Qwen3-1.7B": 1_720_574_976,
    "Qwen3-4B": 4_022_468_096,
    "Qwen3-8B": 8_190_735_360,
    "Llama-3.2-1B-Instruct": 1_235_814_400,
    "Llama-3.2-3B-Instruct": 3_212_749_824,
    "Llama-3.1-8B-Instruct": 8_030_261_248,
    "gemma-3-270m-it": 268_098_176,
    "gemma-3-1b-it": 999_885_952,
    "gemma-3-4b-it": 4_300_079_472,
    "SmolLM3-3B": 3_075_098_624,
    "Mistral-7B-Instruct-v0.3": 7_248_023_552,
}
WORDS = [
    "water",
    "under",
    "bridge",
    "seven",
    "green",
    "often",
    "window",
    "people",
    "answer",
    "letter",
]
TEXT = " ".join(WORDS * 34)  # about 520 tokens


def rows(section: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    [part] = [part for part in TABLES if part.startswith(section)]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.fixture
def folder(tmp_path):
    """folder(model) -> a folder with that model's `config.json`, and nothing else."""

    def make(model: str) -> Path:
        there = tmp_path / model
        there.mkdir(exist_ok=True)
        shutil.copy(HERE / "published_configs" / f"{model}.json", there / "config.json")
        return there

    return make


@pytest.fixture
def plan_row(folder, tmp_path):
    """plan_row(model, card, recipe, settings) -> its plan."""
    (tmp_path / "prompts.jsonl").write_text(
        "".join(json.dumps({"prompt": f"{n} {TEXT}"}) + "\n" for n in range(300))
    )
    (tmp_path / "myjudge.py").write_text("def score(prompt, text):\n    return len(text)\n")

    def plan(model: str, card: str, recipe: str, settings: list[str]):
        given = [
            f"policy.model={folder(model)}",
            f"prompts.path={tmp_path / 'prompts.jsonl'}",
            f"judge={tmp_path / 'myjudge.py'}",
            *settings,
        ]
        return equipoise.plan(recipe, given, on=CARDS[card])

    return plan


def test_every_configuration_has_a_row():
    configurations = {path.stem for path in (HERE / "published_configs").glob("*.json")}
    named = {row[0].rpartition("/")[2].strip("`") for row in rows("Memory")}
    assert configurations == named == set(PARAMETERS)


@pytest.mark.long
@pytest.mark.parametrize("model", PARAMETERS)
def test_a_configuration_has_as_many_parameters_as_the_published_model(model, folder):
    assert has_config_alone(str(folder(model)))
    assert describe(str(folder(model))).parameters == PARAMETERS[model]


def parted(table):
    """The table's rows: the first of them long tests, the others slow ones."""
    first, *others = rows(table)
    yield pytest.param(first, marks=pytest.mark.long, id=first[0])
    for row in others:
        yield pytest.param(row, marks=pytest.mark.slow, id=row[0])


@pytest.mark.parametrize("row", parted("Memory"))
def test_a_row_fits_its_cards_with_the_memory_that_it_says(row, plan_row):
    model = row[0].rpartition("/")[2].strip("`")
    for card, cell in zip(CARDS, row[1:], strict=True):
        recipe, *settings = re.findall(r"`([^`]+)`", cell)
        [memory] = re.findall(r"([\d.]+) GB$", cell)
        planned = plan_row(model, card, recipe, settings)
        assert planned.obstacles == ()
        assert f"{planned.peak / 1e9:.1f}" == memory
        assert any("holds config.json and no weights" in note for note in planned.notes)


@pytest.mark.parametrize("row", parted("Let it think"))
def test_thoughts_fit_with_the_settings_of_the_page(row, plan_row):
    model = row[0].rpartition("/")[2].strip("`")
    recipe, *settings = re.findall(r"`([^`]+)`", row[1])
    [memory] = re.findall(r"([\d.]+) GB$", row[1])
    planned = plan_row(model, "24 GB", recipe, settings)
    assert planned.obstacles == ()
    assert f"{planned.peak / 1e9:.1f}" == memory


@pytest.mark.slow
def test_a_plan_for_this_machine_says_that_the_weights_are_missing(folder, tmp_path, plan_row):
    model = folder("gemma-3-270m-it")
    rows = [{"prompt": f"What is {n}?", "answer": str(n)} for n in range(9)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"policy.model": str(model), "prompts.path": str(tmp_path / "rows.jsonl")}
    planned = equipoise.plan("mnpo_one_gpu", {**given, "judge": "exact", "generations": 1})
    assert "holds config.json and no weights" in planned.obstacles[0]
    with pytest.raises(ConfigError, match="no whole weights"):
        equipoise.run("mnpo_one_gpu", {**given, "judge": "exact"}, out=tmp_path / "run")


def test_a_folder_with_a_part_of_the_weights_is_no_configuration_alone(folder):
    model = folder("Qwen3-0.6B")
    assert has_config_alone(str(model))
    (model / "model.safetensors.index.json").write_text("{}")
    assert not has_config_alone(str(model))
    assert not has_config_alone("Qwen/Qwen3-0.6B")


def test_pieces_of_a_text_are_counted_about_as_a_tokenizer_counts_tokens():
    encode = counting_tokenizer().encode
    assert len(encode("Write a short text.")) == 5
    assert len(encode("extraordinarily 12345东")) == 3 + 2 + 1
