"""Real architectures through the whole recipe: full weights and LoRA, each with its own chat
template's habits.
"""

import json

import pytest
from small_runs import SMALL, settings

QUESTIONS = [
    {
        "prompt": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"What is {a} + 1?"},
        ]
    }
    for a in range(40)
]
LORA = "{r: 4, alpha: 8}"
FAST = [("qwen3", LORA)]
REST = [("llama", "null"), ("llama", LORA), ("qwen3", "null"), ("gemma3", LORA), ("gemma3", "null")]


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "lora"), [*FAST, *(pytest.param(*case, marks=pytest.mark.slow) for case in REST)]
)
def test_the_recipe_runs(family, lora, model_folder, command, rows, tmp_path):
    (tmp_path / "longest.py").write_text(
        "def score(prompt, text):\n    return float(sum(map(ord, text)) % 97)\n"
    )
    done = command(
        "run",
        "mnpo",
        *SMALL,
        "-s",
        "generations=2",
        "-s",
        "judge={kind: call, function: 'longest:score'}",
        *settings(
            policy__model=model_folder(family), policy__max_new_tokens=6, policy__max_length=128
        ),
        *settings(policy__lora=lora, prompts__path=rows(QUESTIONS), learner__learning_rate=1e-3),
        "--out",
        "run",
        "--json",
    )
    assert done.code == 0, done.err
    assert [m["generation"] for m in done.facts["measured"]] == [0, 1, 2]
    born = tmp_path / "run" / "players" / "policy" / "2"
    adapter = json.loads((born / "adapter_config.json").read_text()) if lora != "null" else None
    if adapter is None:
        assert (born / "config.json").exists()
        assert (born / "tokenizer.json").exists()
    else:
        assert adapter["peft_type"] == "LORA"
        assert adapter["base_model_name_or_path"] == str(model_folder(family))
