"""A chat template that prints the date reads one day throughout a run, and two days are never taken
for one.
"""

import datetime

import pytest
from small_runs import settings

from equipoise.models import chat_encoding
from equipoise.models.chat_encoding import Encoding
from equipoise.models.loading import load_encoding, load_tokenizer, prints_date
from equipoise.models.resources import Resources
from equipoise.planning import fixed_at_start
from equipoise.planning.checks import check_run
from equipoise.planning.fixed_at_start import fix_at_start
from equipoise.planning.new_run import new_run
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Message, user

DATED = (
    "{% if strftime_now is defined %}{% set day = strftime_now('%d %b %Y') %}"
    "{% else %}{% set day = '26 Jul 2024' %}{% endif %}"
    "{% for m in messages %}{{ day }} {{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
CHAT = (user("Yes or no?"),)
MAY, JUNE = datetime.date(2026, 5, 17), datetime.date(2026, 6, 3)


@pytest.fixture
def dated(tmp_path):
    path = tmp_path / "dated.jinja"
    path.write_text(DATED)
    return str(path)


@pytest.fixture
def clock(monkeypatch):
    """Set the day that this process is told."""

    def set_to(day: datetime.date) -> None:
        for told in (chat_encoding, fixed_at_start):
            monkeypatch.setattr(told, "today", lambda: day)

    return set_to


def test_two_days_have_other_tokens_and_another_fingerprint(model_folder, dated, clock):
    folder = str(model_folder("llama"))
    clock(MAY)
    first = load_encoding(folder, template=dated)
    in_may = first.prompt_ids(CHAT)
    clock(JUNE)
    later = load_encoding(folder, template=dated)
    assert later.prompt_ids(CHAT) != in_may
    assert later.fingerprint != first.fingerprint
    assert first.prompt_ids(CHAT) == in_may, "an encoding keeps its day past midnight"
    assert "17 May 2026 user: Yes" in first.tokenizer.decode(in_may)
    assert "03 Jun 2026 user" in later.render([Message("user", "a")], [])


def test_a_day_that_is_given_is_the_day(model_folder, dated, clock):
    folder = str(model_folder("llama"))
    clock(JUNE)
    given = load_encoding(folder, template=dated, date=MAY)
    clock(MAY)
    today = load_encoding(folder, template=dated)
    assert given.prompt_ids(CHAT) == today.prompt_ids(CHAT)
    assert given.fingerprint == today.fingerprint


def test_a_template_without_a_date_is_the_same_every_day(model_folder):
    tokenizer = load_tokenizer(str(model_folder("qwen3")))
    first, later = (Encoding(tokenizer, 64, date=day) for day in (MAY, JUNE))
    assert first.fingerprint == later.fingerprint
    assert first.prompt_ids(CHAT) == later.prompt_ids(CHAT)


def test_players_of_two_days_share_no_encoding(model_folder, dated):
    given = {"kind": "local", "model": str(model_folder("llama")), "template": dated}
    resources = Resources()
    first, later = (
        Local.model_validate({**given, "date": str(day)}).open(None, resources)
        for day in (MAY, JUNE)
    )
    assert first.encoding != later.encoding


@pytest.mark.parametrize("written", ["%d %b %Y", "%A, %-d. %B %y", "%F %H:%M", "%j of %Y%%"])
def test_dates_are_written_as_the_format_says(model_folder, tmp_path, written):
    path = tmp_path / "one.jinja"
    path.write_text(
        "\n{{ strftime_now('" + written + "') }}|{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    read = load_encoding(str(model_folder("llama")), template=str(path), date=MAY)
    ids = read.prompt_ids(CHAT)
    midnight = datetime.datetime.combine(MAY, datetime.time())
    assert read.tokenizer.decode(ids) == f"\n{midnight.strftime(written)}|Yes or no?"


def test_what_is_saved_prints_the_date_of_its_reader_unless_it_is_to_keep_it(
    model_folder, dated, tmp_path
):
    read = load_encoding(str(model_folder("llama")), template=dated, date=MAY)
    read.save(tmp_path / "open")
    read.save(tmp_path / "kept", dated=True)
    assert load_tokenizer(str(tmp_path / "open")).chat_template == DATED
    kept = load_tokenizer(str(tmp_path / "kept"))
    shown = kept.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    assert shown == "17 May 2026 user: a</s>"


def test_a_model_prints_the_date_by_its_own_template_or_the_one_given(
    model_folder, dated, tmp_path
):
    folder = str(model_folder("llama"))
    assert not prints_date(folder)
    assert prints_date(folder, dated)
    tokenizer = load_tokenizer(folder)
    tokenizer.chat_template = DATED
    for name in ("config.json", "model.safetensors", "generation_config.json"):
        if (model_folder("llama") / name).is_file():
            (tmp_path / name).write_bytes((model_folder("llama") / name).read_bytes())
    tokenizer.save_pretrained(tmp_path)
    assert prints_date(str(tmp_path))


def judged(dated, **more):
    given = {"policy__model": "builtin", "policy__template": dated, "policy__max_length": 128}
    given |= {"generations": 1, "judge": "shorter", "prompts__path": "none.jsonl", **more}
    players = settings(**given)
    return recipe_loader.load("mnpo", players[1::2])


def test_a_run_writes_its_first_day_down_and_keeps_it(dated, tmp_path, clock, rows):
    asked = rows([{"prompt": f"Tell me about number {n}"} for n in range(9)])
    config = judged(dated, prompts__path=str(asked))
    clock(MAY)
    checked = check_run(config)
    assert checked.config.players["policy"].date == MAY
    assert any("prints the date, and is given 2026-05-17" in note for note in checked.notes)
    with new_run(config, tmp_path / "run") as run:
        begun = run.config.playing["policy"].encoding()
    clock(JUNE)
    with RunDirectory.open(tmp_path / "run") as run:
        later = run.config.playing["policy"].encoding()
    assert "date: '2026-05-17'" in (tmp_path / "run" / "config.yaml").read_text()
    assert later.fingerprint == begun.fingerprint
    assert later.prompt_ids(CHAT) == begun.prompt_ids(CHAT)


def test_judges_and_their_players_get_the_day_too_and_keep_their_names(model_folder, dated):
    folder = str(model_folder("llama"))
    guard = {"kind": "guard", "model": folder, "template": dated}
    config = judged(dated, judge=guard)
    fixed, notes = fix_at_start(config, MAY)
    assert fixed.judge.date == MAY
    assert fixed.judge.name == config.judge.name
    assert len(notes) == 2
    assert notes[1].startswith("judge: ")
    again, none = fix_at_start(fixed, JUNE)
    assert again == fixed
    assert not none
