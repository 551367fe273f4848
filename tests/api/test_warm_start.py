"""Starts that are taught: once, under a hash of what went in, with gates before the game."""

import json
from typing import Literal

import pytest
from hostile_files import KINDS, Outside, can_make_devices

from equipoise.api.own_statements import own_statements
from equipoise.api.warm_start import Gate, WarmStart, check_gates, read_start, warm_start
from equipoise.environments.forms.answer_forms import form_of
from equipoise.environments.forms.form_start import PAUSES, WORDS, written_in
from equipoise.errors import DataError, NoSignal, RunError
from equipoise.system.folder import Folder
from equipoise.types import user


class Greeting(WarmStart):
    """Teaches two players a greeting each, and asks how long their answers are."""

    kind: Literal["greeting"] = "greeting"
    least: float = 0.0

    def rows(self, model):
        return {
            name: [((user(f"Hello {n}"),), word) for n in range(6)]
            for name, word in (("ann", "good day"), ("ben", "hi"))
        }

    def gates(self, model, adapters):
        lengths = []
        for name in ("ann", "ben"):
            [move] = model.answers(
                [(user("Hello 2"),)], adapter=adapters[name], max_new_tokens=4, seed=3
            )
            lengths.append(len(move.token_ids or ()))
        return [Gate("tokens", float(min(lengths)), self.least, 100.0, 2)]


@pytest.mark.long
def test_a_start_is_taught_once_and_read_afterwards(tmp_path):
    start = Greeting.model_validate({"max_length": 64, "lora": {"r": 2, "alpha": 4}})
    taught = warm_start(start, "builtin/beginner", tmp_path)
    assert set(taught.adapters) == {"ann", "ben"}
    assert not taught.was_there
    for adapter in taught.adapters.values():
        assert (adapter / "adapter_config.json").is_file()
    check_gates(taught)
    again = warm_start(start, "builtin/beginner", tmp_path)
    assert again.was_there
    assert again.folder == taught.folder
    assert again.gates == taught.gates
    other = start.model_copy(update={"seed": 1})
    assert other.digest("builtin/beginner") != start.digest("builtin/beginner")
    assert start.digest("builtin") != start.digest("builtin/beginner")


@pytest.mark.long
def test_a_gate_that_is_not_met_stops_before_the_game(tmp_path):
    start = Greeting.model_validate({"max_length": 64, "least": 50})
    taught = warm_start(start, "builtin/beginner", tmp_path)
    with pytest.raises(NoSignal, match="nothing is played: tokens"):
        check_gates(taught)


def test_gates_are_said_with_their_bounds():
    assert Gate("share of title", 0.3, 0.15, 0.55, 68).text() == (
        "share of title: 0.30 of 68 (0.15 to 0.55)  ok"
    )
    assert "at least 0.85)  NOT MET" in Gate("answers that end", 0.2, 0.85, 1.0, 68).text()
    assert "at most 0.10" in Gate("blank", 0.05, 0.0, 0.1, 40).text()


def test_a_folder_that_is_no_start_is_refused(tmp_path):
    (tmp_path / "gates.json").write_text(json.dumps({"gates": [{"title": "x"}]}))
    with (
        Folder.open(tmp_path) as files,
        pytest.raises(DataError, match="is no record of a warm start"),
    ):
        read_start(files)


GATE = {"title": "tokens", "value": 3.0, "least": 0.0, "most": 9.0, "count": 2}
RECORD = {"gates": [GATE], "examples": {"ann": 6}, "seconds": 1.5}


def stranger(folder, **record):
    """A start as somebody else may have made it."""
    (folder / "ann").mkdir(parents=True)
    (folder / "gates.json").write_text(json.dumps(RECORD | record))
    return Folder.open(folder)


def test_a_start_of_plain_files_is_read(tmp_path):
    with stranger(tmp_path / "start") as files:
        start = read_start(files)
    assert start.gates == [Gate(**GATE)]
    assert start.adapters == {"ann": tmp_path / "start" / "ann"}


@pytest.mark.parametrize(
    "record",
    [
        {"gates": [GATE | {"value": "3"}]},
        {"examples": {"ann": "x"}},
        {"examples": {"../ann": 6}},
        {"examples": {"/etc": 6}},
        {"seconds": None},
    ],
    ids=str,
)
def test_a_strangers_record_of_a_start_is_checked(tmp_path, record):
    with stranger(tmp_path, **record) as files, pytest.raises(DataError, match="no record"):
        read_start(files)


def test_a_strangers_start_may_lack_an_adapter_or_be_damaged(tmp_path):
    with stranger(tmp_path, examples={"ben": 6}) as files:
        with pytest.raises(DataError, match="has no adapter ben; --overwrite"):
            read_start(files)
        files.write("gates.json", "[" * 10**5)
        with pytest.raises(DataError, match="no record"):
            read_start(files)
        files.write("gates.json", json.dumps(RECORD))
        files.write("checksums.sha256", f"{'0' * 64}  gates.json\n")
        with pytest.raises(DataError, match=r"gates\.json: is damaged"):
            read_start(files)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["gates.json", "ann/adapter_config.json"])
def test_a_start_is_made_of_plain_files(tmp_path, kind, name):
    if kind == "a device" and not can_make_devices(tmp_path):
        pytest.skip("this user may not make devices")
    outside = Outside(tmp_path / "outside")
    with stranger(tmp_path / "start") as files:
        (tmp_path / "start" / name).unlink(missing_ok=True)
        KINDS[kind](tmp_path / "start" / name, outside)
        with pytest.raises(RunError, match=r"is a.*; a start holds plain files"):
            read_start(files)
    assert outside.changes() == []


def test_a_link_in_place_of_a_start_is_not_replaced_by_one(tmp_path, monkeypatch):
    """It may lead to a folder of the user's."""
    monkeypatch.setattr(Greeting, "digest", lambda self, model: "123")
    outside = Outside(tmp_path / "outside")
    (tmp_path / "starts").mkdir()
    (tmp_path / "starts" / "greeting-123").symlink_to(outside.folder)
    with pytest.raises(RunError, match="greeting-123: is a link"):
        warm_start(Greeting(), "builtin/beginner", tmp_path / "starts")
    monkeypatch.setattr("equipoise.api.warm_start.teach", lambda *given: None)
    with pytest.raises(DataError, match="no record"):
        warm_start(Greeting(), "builtin/beginner", tmp_path / "starts", overwrite=True)
    assert outside.changes() == []
    assert not (tmp_path / "starts" / "greeting-123").is_symlink()


@pytest.mark.long
def test_the_verb_ends_with_a_reason_where_a_model_learned_nothing(command, tmp_path):
    given = ["-s", "count=8", "-s", "max_length=128", "-s", "training.learning_rate=1e-9"]
    done = command("warm-start", "forms", "builtin/beginner", "--out", tmp_path, *given)
    assert done.code == 2
    assert "no signal" in done.err or "hold a short statement" in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize("form", ["bullets", "title", "sentence"])
def test_an_own_statement_is_put_into_one_form(form):
    assert form_of(written_in(form, "Bees make honey.")) == form


def test_statements_are_short_sentences_that_assert():
    text = "Why do bees dance? Honey is made by bees, which live in hives near flowers. it rains."
    short = own_statements(text, WORDS, PAUSES, to_the_comma=True)
    assert short == ["Honey is made by bees."]
    assert own_statements("no sentence here", WORDS, PAUSES) == []
