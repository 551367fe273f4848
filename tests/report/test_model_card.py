"""Every generation's folder says what it is, where it comes from and what it scores, and names
nothing of the machine.
"""

import json

import pytest
from huggingface_hub import DatasetCard, ModelCard
from small_runs import FINITE, SMALL, quickstart, settings

from equipoise.errors import RunError
from equipoise.models.adapters import published_name
from equipoise.planning.new_run import new_run
from equipoise.prompts.hub import Hub
from equipoise.prompts.prompt_files import Files
from equipoise.report import model_card as model_card_module
from equipoise.report.model_card import copy_cards, model_card, without_folders, write_cards
from equipoise.runs.directory import RunDirectory
from equipoise.types import PlayerId

FIRST = PlayerId("policy", 1)


@pytest.mark.long
def test_a_card_says_what_the_run_knows(adapter_run):
    card = ModelCard.load(adapter_run / "players" / "policy" / "1" / "README.md")
    with RunDirectory.read(adapter_run) as run:
        measured = run.ledger.stage_facts("1/measure")
    (result,) = card.data.eval_results
    assert card.data.library_name == "peft"
    assert card.data.base_model is None
    assert {"equipoise", "quickstart", "preference", "mnpo"} <= set(card.data.tags)
    assert measured is not None
    score = measured["scores"]["policy@1"]
    assert result.metric_value == score["mean"]
    assert result.metric_args == {key: score[key] for key in ("low", "high", "n")}
    assert "`builtin/beginner`, packaged with Equipoise" in card.text
    assert "policy@0 by the learner `preference`" in card.text
    assert f"{100 * score['mean']:.1f} % (" in card.text
    assert "-s policy.template=template.jinja" in card.text


@pytest.mark.long
def test_a_card_names_nothing_of_the_machine(adapter_run, tmp_path_factory):
    text = (adapter_run / "players" / "policy" / "1" / "README.md").read_text()
    with RunDirectory.read(adapter_run) as run:
        directory = run.ledger.meta("directory")
    for place in (directory, str(tmp_path_factory.getbasetemp()), "/home/"):
        assert place not in text


@pytest.mark.long
def test_a_resumed_run_has_the_same_cards(adapter_copy):
    path = adapter_copy / "players" / "policy" / "1" / "README.md"
    whole = path.read_text()
    path.unlink()
    with RunDirectory.open(adapter_copy) as run:
        write_cards(run, [FIRST, PlayerId("policy", 0), PlayerId("policy", 2)])
    assert path.read_text() == whole
    assert [folder.name for folder in path.parents[1].glob("[0-9]*")] == ["1"]


@pytest.mark.long
def test_before_its_measurement_a_card_says_so(adapter_copy):
    with RunDirectory.open(adapter_copy) as run:
        with run.ledger.transaction() as db:
            db.execute("DELETE FROM stages WHERE key = '1/measure'")
        card = model_card(run, FIRST)
    assert card.data.eval_results is None
    assert "was not measured" in card.text


@pytest.mark.long
def test_a_run_that_noted_no_command_still_has_a_card(adapter_copy):
    with RunDirectory.open(adapter_copy) as run:
        with run.ledger.transaction() as db:
            db.execute("DELETE FROM meta WHERE key IN ('command', 'version')")
        assert "equipoise run config.yaml" in model_card(run, FIRST).text


@pytest.mark.long
def test_tables_and_learners_in_memory_have_cards(command, tmp_path, red_team_run):
    assert command("run", *FINITE, "--out", "run", "--json").code == 0
    cards = sorted((tmp_path / "run" / "players").glob("*/[1-9]*/README.md"))
    assert len(cards) >= 3
    for path in cards:
        assert ModelCard.load(path).data.library_name is None
    folders = list((red_team_run / "players").glob("*/[1-9]*"))
    assert folders
    for folder in folders:
        card = ModelCard.load(folder / "README.md")
        assert "policy_gradient" in card.data.tags
        assert "## Scores" in card.text


@pytest.mark.long
def test_an_export_carries_cards_and_describes_itself(command, adapter_run, tmp_path):
    assert command("export", adapter_run, "--to", "out").code == 0
    card = DatasetCard.load(tmp_path / "out" / "README.md")
    tables = {config["data_files"] for config in card.data.configs}
    assert "pairs.parquet" in tables
    assert "episodes.parquet" not in tables
    assert all((tmp_path / "out" / table).is_file() for table in tables)
    first = adapter_run / "players" / "policy" / "1" / "README.md"
    carried = tmp_path / "out" / "cards" / "policy@1.md"
    assert carried.read_text() == first.read_text()


@pytest.mark.long
def test_an_export_leaves_a_readme_of_ones_own(command, adapter_run, tmp_path):
    (tmp_path / "README.md").write_text("mine")
    assert command("export", adapter_run, "--to", ".").code == 0
    assert (tmp_path / "README.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-s policy.model=/home/ann/models/qwen", "-s policy.model=qwen"),
        ("'prompts={path: [/data/a b/x.jsonl, ~/y.jsonl]}'", "'prompts={path: [x.jsonl, y.jsonl]}'"),
        ("https://host:80/v1/chat", "https://host:80/v1/chat"),
        ("org/name data/x.jsonl ../up/x", "org/name data/x.jsonl ../up/x"),
        ("--out ~ann/runs/first", "--out first"),
    ],
)  # fmt: skip
def test_paths_become_names(text, shown):
    assert without_folders({"list": [text]}) == {"list": [shown]}


def test_models_and_data_are_named_without_their_places(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mine").mkdir(parents=True)
    (tmp_path / "tiny.gguf").touch()
    assert published_name("models/mine") == ("mine", None, False)
    assert published_name(str(tmp_path / "tiny.gguf")) == ("tiny.gguf", None, False)
    assert published_name("org/name") == ("org/name", "org/name", False)
    file = "org/name/sub/file.gguf"
    assert published_name(file) == (file, "org/name", False)
    assert published_name("builtin") == ("builtin", None, True)
    source = {"path": ["/data/a.jsonl", "b/*.json"], "held_out_path": "/data/h.jsonl"}
    assert Files.model_validate(source).names == ("a.jsonl", "*.json", "h.jsonl")
    assert Hub.model_validate({"id": "org/set"}).hub_ids == ("org/set",)
    local = Hub.model_validate({"id": str(tmp_path / "models")})
    assert (local.names, local.hub_ids) == (("models",), ())
    source = {"path": "org/set", "held_out_path": "models/mine", "test_path": "models/none.csv"}
    files = Files.model_validate(source)
    assert (files.names, files.hub_ids) == (("org/set", "mine", "none.csv"), ("org/set",))


@pytest.mark.long
def test_the_command_is_recorded(command, rows, tmp_path):
    data = rows([{"prompt": f"What is {a} + {a}?"} for a in range(40)])
    done = command(
        "run",
        "mnpo",
        *SMALL,
        *settings(policy__model="builtin", prompts__path=data, judge="shorter"),
        *settings(policy__max_new_tokens=8, policy__max_length=96),
        "--out",
        tmp_path / "a run",
        "--json",
    )
    assert done.code == 0, done.err
    card = ModelCard.load(tmp_path / "a run" / "players" / "policy" / "1" / "README.md")
    assert "equipoise run mnpo" in card.text
    assert "--out 'a run'" in card.text
    assert "prompts.path=prompts.jsonl" in card.text
    assert "| data | `prompts.jsonl` |" in card.text
    assert str(tmp_path) not in card.text
    assert json.dumps(card.data.to_dict())


def test_a_cards_command_has_every_word_of_it(tmp_path):
    given = "equipoise run '/tmp/a b/first.yaml' -s prompts.path=/data/p.csv -s judge=/me/j.py"
    with new_run(quickstart(), tmp_path / "run", command=given) as run:
        run.ledger.finish("0/turn", 0, "turn", {"learn": ["policy"]}, 0.0)
        card = str(model_card(run, PlayerId("policy", 1)))
    assert "equipoise run first.yaml -s prompts.path=p.csv -s judge=j.py" in card


@pytest.mark.long
def test_cards_of_generations_that_went_on_are_not_written_again(command, tmp_path, monkeypatch):
    assert command("run", *FINITE, "--out", "run").code == 0
    written = []
    monkeypatch.setattr(model_card_module, "model_card", lambda run, p: written.append(p) or "")
    assert command("resume", "run", *settings(generations=4)).code == 0
    assert written
    assert {player.generation for player in written} <= {3, 4}


@pytest.mark.parametrize("content", [b"\x9f\xff noise", b""])
def test_a_card_that_is_none_is_replaced(tmp_path, content):
    (tmp_path / "README.md").write_bytes(content)
    card = ModelCard("---\nlicense: mit\n---\nA card, für alle.\n")
    model_card_module.write_card(card, tmp_path)
    assert (tmp_path / "README.md").read_text(encoding="utf-8") == str(card)


@pytest.mark.long
def test_a_file_where_the_cards_go_is_named(adapter_run, tmp_path):
    (tmp_path / "cards").write_text("mine")
    with RunDirectory.read(adapter_run) as run, pytest.raises(RunError, match="cards: cannot be"):
        copy_cards(run, tmp_path / "cards")
    assert (tmp_path / "cards").read_text() == "mine"
