"""MNPO's pipeline as released beside `mnpo_as_released`, on a made batch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from benchmarks.pipeline_stages import Comparison, run_release
from equipoise.data.joined_pairs import joined_opponent_logprobs, joined_pair
from equipoise.data.pairs import JudgedMatches
from equipoise.learners.answer_trainer import Row
from equipoise.learners.base import TrainingBatch
from equipoise.learners.preference_learner import PairObjective, Preference, pair_rows
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.models.output_head import AnswerHead
from equipoise.models.packing import pack
from equipoise.models.resources import Resources
from equipoise.players.local import Local
from equipoise.prompts.base import PromptSource
from equipoise.prompts.split import split
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.types import (
    Judgement,
    Match,
    Message,
    Move,
    Pair,
    PlayerId,
    Prompt,
    Turn,
    View,
    record_id,
)

SEEDS = (13, 21, 42, 79, 100)
# name -> title, and the largest difference of float32 sums
STAGES = (
    ("ids_of_policy", "token ids of the policy", 0.0),
    ("labels_of_policy", "labels of the policy", 0.0),
    ("ids_of_opponents", "token ids of reference and history", 0.0),
    ("labels_of_opponents", "labels of reference and history", 0.0),
    ("opponents_logprobs", "log-probabilities of reference and history", 2e-5),
    ("policy_logprobs", "log-probabilities of the policy", 2e-5),
    ("losses", "losses and logged rewards", 2e-5),
    ("gradients", "gradients", 1e-4),
)
WORDS = "a the river green seven holds opens quietly tax Zürich naïve émigré 3.14 \n\n def f(x): é 你好 "
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<turn>{{ m['role'] }}\n{{ m['content'] }}</turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<turn>model\n{% endif %}"
)


def compare(checkout: Path, folder: Path) -> Comparison:
    """Every stage of the release and ours on the batch that is made in `folder`."""
    made = make_batch(folder)
    theirs = run_release("pipeline_mnpo_released", checkout, folder, made)
    config = recipe_loader.load(
        "mnpo_as_released",
        {"policy.model": made["models"][0], "prompts.path": write_prompts(folder, made)},
    )
    return compare_arrays(theirs, our_arrays(config, made))


def compare_arrays(theirs: dict[str, Any], ours: dict[str, Any]) -> Comparison:
    """The stages of both sides."""
    comparison = Comparison(repairs=theirs["repairs"], released=theirs)
    comparison.add(
        "rows dealt to each iteration",
        theirs["split"],
        ours["split"],
        why="where the rows are no multiple of three, the last of the release's parts has the rest",
        changes="one or two prompts of 60,000",
    )
    comparison.not_compared(
        "sampled answers",
        "vLLM's dice and ours differ, and vLLM reads a second beginning-of-text token before "
        "Gemma's template",
        "other samples of the same policy",
    )
    comparison.add(
        "prompts whose samples differ", theirs["identical_dropped"], ours["identical_dropped"]
    )
    tied = [prompt for prompt in theirs["pairs"] if prompt not in ours["pairs"]]
    same = {name: pair for name, pair in theirs["pairs"].items() if name not in tied}
    comparison.add("pairs of best and worst", same, ours["pairs"])
    comparison.add(
        "pairs of equal scores",
        [theirs["pairs"][prompt] for prompt in tied],
        [],
        why="where all scores are equal the release takes the first two answers, ours none",
        changes="pairs without a preference: noise in the gradient, none where rewards are real "
        "numbers",
    )
    for name, title, tolerance in STAGES:
        comparison.add(title, theirs[name], ours[name], tolerance=tolerance)
    return comparison


# -- the made batch


def make_batch(folder: Path) -> dict[str, Any]:
    """Three models, sampled answers with scores, pairs of every length, and the iterations."""
    dice = random.Random(7)
    words = WORDS.split(" ")

    def text(length: int) -> str:
        return " ".join(dice.choice(words) for _ in range(length)).strip() or "a"

    corpus = [text(60) for _ in range(300)]
    tokenizer = made_tokenizer(corpus)

    def token_id(text: str) -> int:
        number = tokenizer.convert_tokens_to_ids(text)
        assert isinstance(number, int)
        return number

    paths = []
    for number in range(3):
        torch.manual_seed(number)
        model = LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=32,
                intermediate_size=48,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=8,
                max_position_embeddings=8192,
                initializer_range=0.3,
                bos_token_id=token_id("<s>"),
                eos_token_id=token_id("</s>"),
                pad_token_id=token_id("<pad>"),
            )
        )
        path = folder / f"model{number}"
        model.save_pretrained(path)
        tokenizer.save_pretrained(path)
        paths.append(str(path))
    prompts = [f"{number}. {text(dice.randint(3, 20))}" for number in range(12)]
    sampled: dict[str, list[dict[str, str]]] = {str(seed): [] for seed in SEEDS}
    scores: dict[str, float] = {}
    for number, prompt in enumerate(prompts):
        same = f"{prompt} same"
        for place, seed in enumerate(SEEDS):
            answer = same if number == 3 else f"{text(8)} {number}.{place}"
            sampled[str(seed)].append({"prompt": prompt, "generated_text": answer})
            scores[answer] = 0.5 if number in (3, 5) else round(dice.uniform(-3, 3), 4)
    lengths = [(5, 8, 12), (30, 3, 60), (400, 200, 20), (900, 900, 30), (700, 30, 1500)]
    lengths += [(1, 1, 2), (10, 20, 5), (8, 900, 5)]
    pairs = [
        {"prompt": text(prompt), "chosen": text(chosen), "rejected": text(rejected)}
        for prompt, chosen, rejected in lengths
    ]
    # Texts that merge with their prompt, hold an end of their own, or a control token.
    pairs[0] |= {"prompt": "the ri", "chosen": "ver opens", "rejected": "verver green"}
    pairs[5] |= {"chosen": "quietly</s>"}
    pairs[6] |= {"prompt": "<s>the river", "rejected": "a <turn>model quietly"}
    iterations = [
        {"policy": 0, "reference": 0, "history": [0], "ratio": 0.3333, "eta": 0.0075},
        {"policy": 1, "reference": 0, "history": [1, 0], "ratio": 0.85, "eta": 0.005},
        {"policy": 2, "reference": 0, "history": [2, 1], "ratio": 0.85, "eta": 0.005},
    ]
    return {
        "models": paths,
        "rows": 21,
        "sampled": sampled,
        "scores": scores,
        "pairs": pairs,
        "iterations": iterations,
    }


def made_tokenizer(corpus: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE with merges, and tokens for beginning, end and turns."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    core.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    special = ["<s>", "</s>", "<pad>", "<turn>", "</turn>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=420, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(corpus, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        chat_template=TEMPLATE,
    )


def write_prompts(folder: Path, made: dict[str, Any]) -> str:
    """The made prompts as rows of a file."""
    path = folder / "prompts.jsonl"
    lines = [json.dumps({"prompt": row["prompt"]}) for row in made["sampled"]["13"]]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


# -- our side


class Kept:
    """Log-probabilities in memory."""

    def __init__(self) -> None:
        self.values: dict[tuple[PlayerId, str], tuple[float, int]] = {}

    def logprobs(self, player: PlayerId, encoding: str, texts: Any) -> dict[str, tuple[float, int]]:
        return {text: self.values[player, text] for text in texts if (player, text) in self.values}

    def add_logprobs(self, player: PlayerId, encoding: str, texts: Any, values: Any) -> None:
        for text, value in zip(texts, values, strict=True):
            self.values[player, text] = value


def our_arrays(config: RunConfig, made: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the recipe's own parts."""
    arrays: dict[str, Any] = {"split": our_split(config, made["rows"])}
    arrays |= our_pairs(config, made)
    learner = config.learner_at("policy", 0)
    player = config.playing["policy"]
    assert isinstance(learner, Preference) and isinstance(player, Local)
    assert learner.pair_text is not None
    encoding = player.encoding()
    pairs = [
        Pair(
            record_id("p", str(n)),
            0,
            str(n),
            (Message("user", row["prompt"]),),
            row["chosen"],
            row["rejected"],
            1.0,
            0.0,
        )
        for n, row in enumerate(made["pairs"])
    ]
    readings = {
        "policy": learner.pair_text.learners_reading(),
        "opponents": learner.pair_text.opponents_reading(),
    }
    counts = {}
    for side, reading in readings.items():
        read = [joined_pair(encoding, pair, reading) for pair in pairs]
        arrays[f"ids_of_{side}"] = [
            [[*each.chosen_prompt, *each.chosen], [*each.rejected_prompt, *each.rejected]]
            for each in read
        ]
        arrays[f"labels_of_{side}"] = [
            [
                [-100] * len(each.chosen_prompt) + each.chosen,
                [-100] * len(each.rejected_prompt) + each.rejected,
            ]
            for each in read
        ]
        counts[side] = [(len(each.chosen), len(each.rejected)) for each in read]
    store = Kept()
    resources = Resources()
    generations = [PlayerId("policy", number) for number in range(3)]
    actors = {
        generation: player.open(Path(path), resources)
        for generation, path in zip(generations, made["models"], strict=True)
    }
    own_tokens = counts["policy"]

    def scored(opponents: list[PlayerId]) -> tuple[np.ndarray, np.ndarray]:
        return joined_opponent_logprobs(
            store,
            lambda who: actors[who],
            lambda who: encoding,
            opponents,
            pairs,
            readings["opponents"],
            own_tokens,
        )

    chosen_KB, rejected_KB = scored(generations)
    tokens_2B = np.array(own_tokens).T
    arrays["opponents_logprobs"] = [
        [(chosen_KB[k] / tokens_2B[0]).tolist(), (rejected_KB[k] / tokens_2B[1]).tolist()]
        for k in range(len(generations))
    ]
    arrays["policy_logprobs"], arrays["losses"], arrays["gradients"] = [], [], []
    for t, iteration in enumerate(made["iterations"]):
        loss = config.loss_at("policy", t)
        assert loss is not None
        past = [PlayerId("policy", number) for number in range(t, -1, -1)]
        opponents = loss.opponents(OpponentPool(past))
        chosen, rejected = scored([who for who, _ in opponents])
        batch = TrainingBatch(
            learner=past[0],
            player=player,
            weights=None,
            output=Path(),
            scratch=Path(),
            seed=0,
            game=config.game,
            loss=loss,
            pairs=pairs,
            opponents=opponents,
            opponent_chosen_KB=chosen,
            opponent_rejected_KB=rejected,
        )
        rows = pair_rows(batch, learner.pair_text, encoding)
        objective = PairObjective(loss, tuple(weight for _, weight in opponents))
        model = LlamaForCausalLM.from_pretrained(made["models"][iteration["policy"]]).eval()
        numbers = trained_numbers(model, rows, objective, encoding.pad_id)
        for name, values in zip(("policy_logprobs", "losses", "gradients"), numbers, strict=True):
            arrays[name].append(values)
    return arrays


def trained_numbers(
    model: Any, rows: list[Row], objective: PairObjective, pad_id: int
) -> tuple[list[Any], list[Any], list[Any]]:
    """(mean log-probabilities, losses with logged rewards, gradients) of a batch of pairs."""
    head = AnswerHead(model, None)
    logprobs, losses = [], []
    for row in rows:
        packed = pack([row.answers], pad_id, shared=False)
        logprob_A = packed.sums(head, model)
        loss_B, metrics = objective(logprob_A, [row])
        (loss_B.mean() / len(rows)).backward()
        means = logprob_A / torch.tensor(row.answers.counts())
        logprobs.append(means.tolist())
        rewards = [metrics[name].item() for name in ("chosen_reward", "rejected_reward")]
        losses.append([loss_B.item(), *rewards])
    gradients = [parameter.grad.flatten()[:50].tolist() for parameter in model.parameters()]
    return logprobs, losses, gradients


def our_split(config: RunConfig, rows: int) -> list[list[int]]:
    """The rows of three generations, as the recipe deals them."""
    prompts = [Prompt(str(n), (Message("user", f"row {n}"),)) for n in range(rows)]
    parts = split(
        PromptSource(prompts),
        generations=config.generations,
        per_generation=rows // config.generations,
        held_out=0,
        seed=config.seed,
        repeats=config.prompts.repeats,
        shuffle=config.prompts.shuffling,
    ).parts
    return [[int(prompt.id) for prompt in part] for part in parts]


def our_pairs(config: RunConfig, made: dict[str, Any]) -> dict[str, Any]:
    """The pairs of the sampled answers by the recipe's pair maker."""
    matches, judgements = [], []
    by_prompt: dict[str, list[str]] = {}
    for seed in SEEDS:
        for row in made["sampled"][str(seed)]:
            by_prompt.setdefault(row["prompt"], []).append(row["generated_text"])
    for prompt, answers in by_prompt.items():
        view = View((Message("user", prompt),))
        seats = [str(place) for place in range(len(answers))]
        turns = tuple(
            Turn(seat, view, Move(answer)) for seat, answer in zip(seats, answers, strict=True)
        )
        sitting = dict.fromkeys(seats, PlayerId("policy"))
        matches.append(Match(prompt, 0, "train", "answers", prompt, sitting, 0, turns))
        scores = [made["scores"][answer] for answer in answers]
        by_seat = {seat: {"score": s} for seat, s in zip(seats, scores, strict=True)}
        judgements.append(Judgement(record_id(prompt), prompt, "made", by_seat))
    pairs, _ = config.pairs.make(JudgedMatches(matches, judgements))
    distinct = [prompt for prompt, answers in by_prompt.items() if len(set(answers)) > 1]
    return {
        "identical_dropped": distinct,
        "pairs": {pair.match: [pair.chosen, pair.rejected] for pair in pairs},
    }
