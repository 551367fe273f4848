"""Rows with one answer and its label, learned in a run."""

import pytest

ROWS = [
    {"prompt": f"{n} + {n}?", "completion": str(2 * n if n % 3 else "no"), "label": bool(n % 3)}
    for n in range(1, 13)
]
SMALL = [
    *("-s", "generations=1", "-s", "prompts.per_generation=8", "-s", "prompts.held_out=2"),
    *("-s", "judge=shorter", "-s", "policy.max_new_tokens=4"),
    *(
        "-s",
        "pairs=data",
        "-s",
        "policy.model=builtin",
        "-s",
        "policy.max_length=null",
        "-s",
        "prompts.test=0",
    ),
]


@pytest.mark.long
def test_kto_learns_single_answers_and_others_refuse_them(command, rows):
    from equipoise import open_run

    data = rows(ROWS)
    given = (*SMALL, "-s", f"prompts.path={data}")
    refused = command("plan", "mnpo", *given, "-s", "loss=dpo")
    assert refused.code == 2, refused.out
    words = " ".join(refused.err.split())
    assert "8 single answers with a label and no pair in generation 0" in words
    assert "set loss: kto" in words
    done = command("run", "mnpo", *given, "-s", "loss=kto", "--out", "run")
    assert done.code == 0, done.err
    pairs = open_run("run").pairs()
    sides = list(zip(pairs["chosen"].notna(), pairs["rejected"].notna(), strict=True))
    assert len(sides) == 8
    assert set(sides) == {(True, False), (False, True)}
