"""MNPO's released files on a made batch: python -m benchmarks.pipeline_mnpo_released CHECKOUT DIR."""

from __future__ import annotations

import contextlib
import importlib
import json
import runpy
import sys
import types
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.pipeline_stages import ARRAYS, MADE
from benchmarks.pipeline_stubs import Placeholder, Repairs


def pad_to_length(tensor: torch.Tensor, length: int, pad_value: float, dim: int = -1) -> Any:
    """Padding on the right up to a length, which the installed trl has under no such name."""
    missing = length - tensor.size(dim)
    if missing <= 0:
        return tensor
    padding = [*tensor.shape]
    padding[dim] = missing
    return torch.cat([tensor, tensor.new_full(padding, pad_value)], dim=dim)


def repaired(checkout: Path) -> Repairs:
    """The release's folder on the path, and stand-ins for what it cannot import here."""
    sys.path.insert(0, str(checkout))
    repairs = Repairs()
    placeholder = type("Gone", (Placeholder,), {})
    repairs.lost("trl.trainer", CPOTrainer=placeholder)
    repairs.lost(
        "trl.trainer.utils",
        DPODataCollatorWithPadding=placeholder,
        disable_dropout_in_model=lambda model: None,
        pad_to_length=pad_to_length,
        peft_module_casting_to_bf16=lambda model: None,
    )
    repairs.absent("llm_blender", "vllm")
    repairs.lost("accelerate.utils", is_deepspeed_available=lambda: False)
    repairs.lost("transformers.utils", is_torch_fx_proxy=lambda value: False)
    return repairs


def sampled_pairs(made: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Its post-processing of sampled files, then its reward model's script with made scores."""
    samples = folder / "samples"
    samples.mkdir()
    for seed, outputs in made["sampled"].items():
        (samples / f"output_{seed}.json").write_text(json.dumps(outputs))
    arguments = sys.argv
    sys.argv = ["post_process", "--generation_file_dir", str(samples)]
    runpy.run_module("on_policy_data_gen.post_process", run_name="__main__")
    kept = json.loads((samples / "all_outputs.json").read_text())
    # Its files are read in the folder's order, so answers may stand in any.
    scored = folder / "scored.jsonl"
    sys.argv = ["rm_armo", "--cache_dir", "none", "--input_file", str(samples / "all_outputs.json")]
    sys.argv += ["--output_file", str(scored)]
    made_model = MadeScores(made["scores"])
    with (
        patch.object(AutoTokenizer, "from_pretrained", lambda *a, **k: MadeChats()),
        patch.object(
            AutoModelForSequenceClassification, "from_pretrained", lambda *a, **k: made_model
        ),
    ):
        runpy.run_module("on_policy_data_gen.rm_armo", run_name="__main__")
    sys.argv = arguments
    rows = [json.loads(line) for line in scored.read_text().splitlines()]
    pairs = {}
    for row in rows:
        texts = [row[side][-1]["content"] for side in ("chosen", "rejected")]
        pairs[row["prompt"]] = texts
    return {"identical_dropped": [row["prompt"] for row in kept], "pairs": pairs}


class MadeChats:
    """In place of the reward model's tokenizer: passes chats on."""

    def apply_chat_template(self, chats: list[Any], **_: Any) -> Any:
        answers = [chat[-1]["content"] for chat in chats]
        return types.SimpleNamespace(to=lambda device: answers)


class MadeScores:
    """In place of the reward model: the made score of an answer."""

    def __init__(self, scores: dict[str, float]) -> None:
        self.scores = scores

    def eval(self) -> None:
        pass

    def __call__(self, answers: list[str]) -> Any:
        scores = [self.scores[answer] for answer in answers]
        return types.SimpleNamespace(score=torch.tensor(scores))


def padded(rows: list[dict[str, list[int]]], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows of one kind as the collator of its trl pads them: on the right."""
    batch = {}
    for key in rows[0]:
        if not key.startswith(("chosen", "rejected")):
            continue
        value = pad_id if key.endswith("_input_ids") else -100 if key.endswith("_labels") else 0
        tensors = [torch.tensor(row[key]) for row in rows]
        batch[key] = pad_sequence(tensors, batch_first=True, padding_value=value)
    return batch


def main() -> None:
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    repairs = repaired(checkout)
    made = json.loads((folder / MADE).read_text())
    arrays: dict[str, Any] = {}

    split = importlib.import_module("mnpo_scripts.split_dataset")
    rows = Dataset.from_dict({"row": list(range(made["rows"]))})
    with contextlib.redirect_stdout(sys.stderr):
        thirds = split.split_data(rows, 3, 42)
        arrays["split"] = [list(part["row"]) for part in thirds]
        arrays |= sampled_pairs(made, folder)

    tokenizer = AutoTokenizer.from_pretrained(made["models"][0])
    pairs = made["pairs"]
    precompute = importlib.import_module("mnpo_scripts.precompute")
    collator = precompute.PreferenceDataCollatorWithPadding(
        tokenizer, max_length=2048, max_prompt_length=1000, mask_prompt=False
    )
    of_opponents = [
        collator.tokenize_batch_element(row["prompt"], row["chosen"], row["rejected"])
        for row in pairs
    ]
    simpo = importlib.import_module("scripts.simpo_trainer")
    trainer_module = importlib.import_module("mnpo_scripts.mnpo_trainer")
    trainer = object.__new__(trainer_module.MNPOTrainer)
    trainer.tokenizer, trainer.is_encoder_decoder = tokenizer, False
    trainer.max_length, trainer.max_prompt_length = 2048, 1800
    trainer.truncation_mode, trainer.label_pad_token_id = "keep_end", -100
    trainer.padding_value = tokenizer.pad_token_id
    trainer.accelerator = types.SimpleNamespace(device=torch.device("cpu"))
    of_policy = [simpo.SimPOTrainer.tokenize_row(trainer, row) for row in pairs]
    for name, tokenized in {"opponents": of_opponents, "policy": of_policy}.items():
        arrays[f"ids_of_{name}"] = [
            [row["chosen_input_ids"], row["rejected_input_ids"]] for row in tokenized
        ]
        arrays[f"labels_of_{name}"] = [
            [row["chosen_labels"], row["rejected_labels"]] for row in tokenized
        ]

    models = [AutoModelForCausalLM.from_pretrained(path).eval() for path in made["models"]]
    columns = []
    for model in models:
        with torch.no_grad():
            sides = [[], []]
            for row in of_opponents:
                logprobs = precompute.concatenated_forward(model, collator.collate([row]))
                for side, value in zip(sides, logprobs, strict=True):
                    side.append(value.item())
        columns.append(sides)
    arrays["opponents_logprobs"] = columns

    arrays["policy_logprobs"], arrays["losses"], arrays["gradients"] = [], [], []
    for iteration in made["iterations"]:
        trainer.ratio, trainer.eta = iteration["ratio"], iteration["eta"]
        trainer.beta, trainer.max_history_t, trainer.weights = 10.0, 2, [1.0, 1.0]
        policy = models[iteration["policy"]]
        policy.zero_grad()
        logprobs, losses, gradients = [], [], []
        for place, row in enumerate(of_policy):
            of_row = trainer.concatenated_forward(policy, padded([row], tokenizer.pad_token_id))
            reference, *history = (
                [torch.tensor([side[place]]) for side in columns[model]]
                for model in (iteration["reference"], *iteration["history"])
            )
            loss, chosen_reward, rejected_reward = trainer.mnpo_loss(
                of_row[0], of_row[1], *reference, history
            )
            (loss.mean() / len(of_policy)).backward()
            logprobs.append([of_row[0].item(), of_row[1].item()])
            losses.append([loss.item(), chosen_reward.item(), rejected_reward.item()])
        for parameter in policy.parameters():
            gradients.append(parameter.grad.flatten()[:50].tolist())
        arrays["policy_logprobs"].append(logprobs)
        arrays["losses"].append(losses)
        arrays["gradients"].append(gradients)
    arrays["repairs"] = repairs.told
    (folder / ARRAYS).write_text(json.dumps(arrays))


if __name__ == "__main__":
    main()
