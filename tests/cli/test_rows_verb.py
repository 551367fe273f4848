"""`equipoise rows`: rows as models see them, from the command line."""

import json

import pytest

PAIR = {
    "system": "Be short.",
    "prompt": "Name a fruit.",
    "chosen": "Pear i",
    "rejected": "Brick j",
    "score_chosen": 8.5,
    "score_rejected": 3.25,
    "topic": "food",
}
BLANK = {"prompt": "Name a tree.", "chosen": "Elm i", "rejected": " "}
TWO = {"prompt": "Name a stone.", "chosen": "Flint i", "rejected": "Ham j", "margin": 2}
CHAT = {
    "messages": [
        {"role": "user", "content": "Name a fruit."},
        {"role": "assistant", "content": "Pear i", "weight": 0},
        {"role": "user", "content": "And a tree?"},
        {"role": "assistant", "content": "Elm k"},
    ]
}


def test_each_row_is_shown_with_what_is_learned(command, rows):
    shown = command("rows", rows([PAIR, BLANK]))
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "row 1, preference, as pairs"
    assert lines[1].split() == ["system", "Be", "short."]
    assert "Pear i   [chosen, learned, score 8.5]" in lines[3]
    assert "Brick j   [rejected, learned, score 3.25]" in lines[4]
    assert '{"topic": "food"}' in lines[5]
    assert "2 rows: 1 pairs" in shown.out
    assert "left out: 1: the answer is blank: prompts.jsonl:2" in shown.out


def test_json_is_a_line_a_row_and_the_counts_stand_beside(command, rows):
    shown = command("rows", rows([PAIR, BLANK]), "--json")
    first, second = (json.loads(line) for line in shown.out.splitlines())
    assert first == {
        "row": 1,
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": "Name a fruit."},
        ],
        "answers": [
            {"text": "Pear i", "score": 8.5, "label": None, "weight": None, "chosen": True},
            {"text": "Brick j", "score": 3.25, "label": None, "weight": None, "chosen": False},
        ],
        "facts": {"topic": "food"},
        "left_out": None,
    }
    assert second["row"] == 2
    assert second["left_out"].startswith("the answer is blank")
    assert "2 rows: 1 pairs" in shown.err


def test_a_file_is_read_for_another_use(command, rows):
    data = rows([PAIR, BLANK, CHAT])
    assert "3 rows: 3 examples to learn from" in command("rows", data, "--as", "sft").out
    assert "3 rows: 3 prompts" in command("rows", data, "--as", "prompts").out
    wrong = command("rows", data, "--as", "pair")
    assert wrong.code == 2
    assert "prompts, pairs, sft" in wrong.err


def test_a_limit_ends_the_reading(command, rows):
    shown = command("rows", rows([PAIR, TWO, "no JSON"]), "--limit", 2, "--json")
    assert shown.code == 0, shown.err
    assert len(shown.out.splitlines()) == 2


def test_a_row_that_would_stop_a_run_is_an_error_after_all_rows(command, rows):
    other = {"prompt": "Name a fruit.", "messages": [{"role": "user", "content": "Name a brick."}]}
    shown = command("rows", rows([PAIR, other, PAIR]))
    assert shown.code == 2
    assert "row 2: refused" in shown.out
    assert "row 3, preference" in shown.out
    assert "prompts.jsonl:2" in shown.err
    assert "the questions differ" in shown.err


def test_a_file_that_is_not_there_or_holds_no_rows(command, tmp_path):
    assert command("rows").code == 2
    absent = command("rows", "absent.jsonl")
    assert absent.code == 2
    assert "absent.jsonl" in absent.err
    (tmp_path / "broken.jsonl").write_text('{"prompt": "a"}\n{"prompt"\n')
    broken = command("rows", "broken.jsonl")
    assert broken.code == 2
    assert "broken.jsonl:2" in broken.err


def test_a_schema_is_demanded_by_its_name(command, rows):
    data = rows([PAIR, CHAT])
    assert "preference" in command("rows", "--schemas").out
    refused = command("rows", data, "--schema", "preference")
    assert refused.code == 2
    assert "prompts.jsonl:2" in refused.err
    unknown = command("rows", data, "--schema", "preferance")
    assert unknown.code == 2
    assert "preference" in unknown.err


def test_rows_without_scores_beside_scored_ones_are_left_out_of_pairs(command, rows):
    plain = {key: TWO[key] for key in ("prompt", "chosen", "rejected")}
    shown = command("rows", rows([plain, PAIR]))
    assert "left out: 1: the pair has no scores, and others of the file have" in shown.out
    assert "2 rows: 1 pairs" in shown.out
    assert "2 rows: 2 examples" in command("rows", rows([plain, PAIR]), "--as", "sft").out


@pytest.mark.long
def test_tokens_of_a_model_and_which_are_learned(command, rows, model_folder):
    folder = model_folder("llama")
    data = rows([PAIR, CHAT])
    shown = command("rows", data, "--tokens", folder, "--json")
    pair, chat = (json.loads(line) for line in shown.out.splitlines())
    chosen, rejected = pair["tokens"]
    assert chosen["ids"] != rejected["ids"]
    for encoded in (chosen, rejected):
        learned = encoded["learned"]
        start = learned.index(True)
        assert not any(learned[:start])
        assert all(learned[start:])
        assert len(learned) == len(encoded["ids"])
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)

    def text(encoded, learned: bool) -> str:
        pairs = zip(encoded["ids"], encoded["learned"], strict=True)
        return tokenizer.decode([token for token, mark in pairs if mark == learned])

    assert "Pear i" in text(chosen, True)
    assert "Name a fruit." in text(chosen, False)
    (tokens,) = chat["tokens"]
    assert "Elm k" in text(tokens, True)
    assert "Pear" not in text(tokens, True)
    assert "Pear i" in text(tokens, False)
    written = command("rows", data, "--tokens", folder)
    counts = [line for line in written.out.splitlines() if " learned: " in line]
    assert len(counts) == 3
    assert f"{len(chosen['ids'])} tokens, {sum(chosen['learned'])} learned" in counts[0]


def test_a_model_that_is_not_there_is_an_error(command, rows):
    missing = command("rows", rows([PAIR]), "--tokens", "no/folder")
    assert missing.code == 2
    assert "no/folder" in missing.err
