"""SPARTA's pipeline as released beside `sparta_as_released`, on a made batch."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from benchmarks.pipeline_stages import Comparison, run_release
from equipoise.data.pairs import JudgedMatches
from equipoise.judges.peers import Peers
from equipoise.judges.question import read_move
from equipoise.judges.read_verdict import Unread, read_score_as_released
from equipoise.matches.base import MatchContext
from equipoise.matches.rating_schedules import Sparta
from equipoise.prompts.base import PromptSource
from equipoise.prompts.split import split
from equipoise.ratings.reputation import Reputation, player_weights
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.types import (
    Judgement,
    Match,
    Message,
    Move,
    PlayerId,
    Prompt,
    Turn,
    View,
    Vote,
    record_id,
)

POOL = ("code_alpaca", "cot", "flan_v2", "gemini_alpaca", "lima", "oasst1")
TASK_SCORES = {
    **{"code_alpaca": 75.43, "cot": 0.0, "flan_v2": 0.008, "gemini_alpaca": 12.89},
    **{"lima": 77.79, "oasst1": 70.28, "open_orca": 52.92, "science": 47.61},
    **{"sharegpt": 76.65, "wizardlm": 76.34},
}
"""GSM8K's, of all ten models that the release lists."""
PER_GENERATION = 45


def compare(checkout: Path, folder: Path) -> Comparison:
    """Every stage of the release and ours on the made batch."""
    made = make_batch()
    theirs = run_release("pipeline_sparta_released", checkout, folder, made)
    return compare_arrays(theirs, our_arrays(our_config(folder, made), made))


def compare_arrays(theirs: dict[str, Any], ours: dict[str, Any]) -> Comparison:
    """The stages of both sides."""
    comparison = Comparison(repairs=theirs["repairs"], released=theirs)
    for name, title in {
        "starts": "starts from task scores",
        "duels": "instructions, first players and opponents of two iterations",
        "duels_in_turn": "the same with RANDOM_SELECT=false",
    }.items():
        comparison.add(title, theirs[name], ours[name], tolerance=1e-9)
    comparison.not_compared(
        "sampled answers",
        "another sampler's dice",
        "other samples of the same members, at the same temperature, top_k and top_p",
    )
    comparison.not_compared(
        "the question to the judges",
        "the release cuts it at 512 tokens on the right, so that of a long answer's question the "
        "line that asks for a grade is lost; ours quotes the answer and is read whole",
        "judges of long answers there reply without a grade, and both answers get 5",
    )
    for name, title in {
        "read": "grades read in made replies",
        "grades": "grades of each judge, those that cannot be read included",
        "weights": "handicaps of the third iteration",
        "reputations": "reputations and deviations after each duel",
        "pairs": "pairs",
        "margins": "weighted grades of the pairs",
    }.items():
        comparison.add(title, theirs[name], ours[name], tolerance=1e-9)
    comparison.not_compared(
        "the text of a pair in DPO",
        'the release wraps answers between "Assistant: " and </s>, under another system prompt '
        "than it samples with; ours learns the tokens that were sampled",
        "marks that no member samples are learned there",
    )
    return comparison


def make_batch() -> dict[str, Any]:
    """Instructions, ratings of two iterations, replies of every kind, and judged duels."""
    dice = random.Random(11)
    replies = [made_reply(dice) for _ in range(3000)]
    duels = []
    for number in range(60):
        models = dice.sample(POOL, 2)
        judges = [name for name in POOL if name not in models]
        answers: dict[str, list[str | None]] = {}
        for name in judges:
            answers[name] = [
                None if dice.random() < 0.05 else made_reply(dice, plain=0.7) for _ in models
            ]
        duels.append({"id": f"question {number}", "models": models, "replies": answers})
    ratings = [dict.fromkeys(POOL, 100.0)]
    ratings.append({name: 80.0 + 7.3 * place for place, name in enumerate(POOL)})
    return {
        "pool": POOL,
        "instructions": [f"question {number}" for number in range(80)],
        "per_generation": PER_GENERATION,
        "ratings": ratings,
        "replies": replies,
        "duels": duels,
    }


def made_reply(dice: random.Random, plain: float = 0.2) -> str:
    """A judge's reply: an object, prose, fractions, several numbers, or nothing to read."""
    grade = dice.randint(0, 12)
    if dice.random() < plain:
        return json.dumps({"score": dice.randint(1, 10)})
    forms = (
        f'{{"score": {grade}}}',
        f'{{"score": {grade}.{dice.randint(0, 9)}}}',
        f'{{ "score" : {grade} }} because it is good',
        f'```json\n{{"score": {grade}}}\n```',
        f"Score: {grade}/10",
        f"I would give {grade} / 10, and the other {dice.randint(1, 10)}/10.",
        f"score = {grade}",
        f"The score is {grade}.",
        f'{{"Score": {grade}, "reason": "fine"}}',
        f'{{"score": "{grade}"}}',
        f"[{grade}]",
        f"{grade}",
        "true",
        '"score"',
        "I cannot grade this.",
        f'{{"score": {grade}, "reason": "score: {dice.randint(1, 10)}"',
        f"  SCORE: {grade}  ",
        f'{{"score": {dice.choice(["true", "null", "-3", "1e1"])}}}',
    )
    return dice.choice(forms)


def our_config(folder: Path, made: dict[str, Any]) -> RunConfig:
    """The recipe with the made pool."""
    rows = folder / "rows.jsonl"
    lines = [json.dumps({"prompt": text}) for text in made["instructions"]]
    rows.write_text("\n".join(lines) + "\n")
    overrides: dict[str, Any] = {
        f"players.{name}": {"kind": "local", "model": "builtin/beginner"} for name in POOL
    }
    overrides |= {"prompts.path": str(rows), "schedule.k": 3, "schedule.alpha": 0.2}
    overrides |= {"schedule.rows_before": len(made["instructions"])}
    overrides |= {"training_ratings.initial": TASK_SCORES}
    return recipe_loader.load("sparta_as_released", overrides)


def our_arrays(config: RunConfig, made: dict[str, Any]) -> dict[str, Any]:
    """The arrays of the recipe's own parts."""
    judge, schedule, reputation = config.judge, config.schedule, config.training_ratings
    assert isinstance(judge, Peers) and isinstance(schedule, Sparta)
    assert isinstance(reputation, Reputation) and judge.grade_reading == "as_released"
    in_turn = schedule.model_copy(update={"first": "in_turn"})
    read: list[int | None] = []
    for reply in made["replies"]:
        grade = read_score_as_released(reply)
        read.append(None if isinstance(grade, Unread) else int(grade))
    arrays: dict[str, Any] = {
        "starts": reputation.initial_ratings(POOL),
        "duels": our_duels(config, schedule, made),
        "duels_in_turn": our_duels(config, in_turn, made),
        "read": read,
    }
    fair = reputation.model_copy(update={"initial": "fair"})
    votes = [votes_on(judge, duel) for duel in made["duels"]]
    return arrays | our_reputations(config, judge, fair, made, votes)


def our_duels(config: RunConfig, schedule: Sparta, made: dict[str, Any]) -> list[Any]:
    """Who meets whom on which instruction, in two iterations."""
    prompts = [Prompt(text, (Message("user", text),)) for text in made["instructions"]]
    parts = split(
        PromptSource(prompts),
        generations=2,
        per_generation=PER_GENERATION,
        held_out=0,
        seed=config.seed,
        reuse=config.prompts.reuse,
        shuffle=config.prompts.shuffling,
    ).parts
    rounds = []
    for part, ratings in zip(parts, made["ratings"], strict=True):
        players = [PlayerId(name) for name in POOL]
        context = MatchContext(config.game, players, ratings=ratings)
        seatings = schedule.seatings(part, context)
        rounds.append(
            [[prompt.id, *(who.name for who in seats.values())] for prompt, seats in seatings]
        )
    return rounds


def votes_on(judge: Peers, duel: dict[str, Any]) -> list[Vote]:
    """The votes of all judges of a duel, by their made replies; None: the generation failed."""
    votes = []
    for name, replies in duel["replies"].items():
        for model, reply in zip(duel["models"], replies, strict=True):
            move = Move(reply or "")
            if reply is None:
                move = Move("", "error", error="the generation failed")
            reading = read_move(move, judge._read, "")
            votes.append(reading.vote(name, model))
    return votes


def our_reputations(
    config: RunConfig,
    judge: Peers,
    reputation: Reputation,
    made: dict[str, Any],
    votes: list[list[Vote]],
) -> dict[str, Any]:
    """Grades, handicaps, reputations, and the pairs by the last ones."""
    grades = [judge.grades_by_votes(each) for each in votes]
    weights = player_weights(reputation.scores, 2, [made["ratings"][1]] * 2)
    weighted = reputation.model_copy(update={"weights": weights})
    state = reputation.init(POOL)
    history = []
    for duel, of_duel in zip(made["duels"], grades, strict=True):
        first, second = duel["models"]
        scores = {by: (given[first], given[second]) for by, given in of_duel.items()}
        state = weighted.update(state, (first, second, scores))
        history.append({name: [state.ratings[name], state.deviations[name]] for name in POOL})
    matches, judgements = [], []
    for duel, of_duel in zip(made["duels"], votes, strict=True):
        view = View((Message("user", duel["id"]),))
        turns = tuple(Turn(name, view, Move(f"{name} on {duel['id']}")) for name in duel["models"])
        seats = {name: PlayerId(name) for name in duel["models"]}
        matches.append(Match(duel["id"], 0, "train", "answers", duel["id"], seats, 0, turns))
        blank = Judgement(record_id(duel["id"]), duel["id"], "peers", None, votes=tuple(of_duel))
        judgements.append(judge.reweigh(blank, state.ratings))
    pairs, _ = config.pairs.make(JudgedMatches(matches, judgements))
    listed = []
    for of_duel, duel in zip(grades, made["duels"], strict=True):
        listed.append(
            {by: [given[name] for name in duel["models"]] for by, given in of_duel.items()}
        )
    return {
        "grades": listed,
        "weights": weights,
        "reputations": history,
        "pairs": [[pair.match, str(pair.chosen).partition(" on ")[0]] for pair in pairs],
        "margins": [[pair.chosen_score, pair.rejected_score] for pair in pairs],
    }
