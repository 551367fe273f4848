"""Any judge as a reward function of TRL's trainers (GRPO, RLOO):

    trainer = GRPOTrainer(model, reward_funcs=equipoise.trl.reward("gold"), train_dataset=…)

Importing this loads neither TRL nor torch.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from equipoise.errors import ConfigError
from equipoise.judges.base import Judge, mean_grades
from equipoise.judges.outside_a_run import match_of_moves, place_judge
from equipoise.models.thought_marks import opened_marks, template_marks
from equipoise.prompts.row_prompts import to_prompt
from equipoise.runs.recipe_loader import component
from equipoise.types import Marks, Move, Prompt, record_id

RewardFunc = Callable[..., list[float | None]]
NO_FACTS = {"completion_ids", "environments", "log_extra", "log_metric", "trainer_state"}
"""What TRL passes beside the data set's columns."""


def reward(
    judge: Any,
    *,
    utility: str = "score",
    seed: int = 0,
    say: Callable[[str], object] = warnings.warn,
    tokenizer: Any = None,
) -> RewardFunc:
    """The reward function by which a TRL trainer learns from a judge.

    In each call the completions of one prompt are the seats of one match, so judges that compare
    work, too. An unjudged completion gets None, with a warning that says why. Columns of the data
    set are the prompt's facts, and `facts`, as `equipoise export` writes it, holds further ones.
    The means of all utilities and of a panel's members are logged, and the share of completions
    that a member left unjudged, of which it also warns once.

    Judges read answers without thoughts; a completion whose thoughts never ended is unjudged. A
    prompt of plain text that ends with `<think>` says that its completion begins within a thought.
    Of conversational prompts only the chat template knows that, so give the model's `tokenizer`
    where its template begins thoughts.

    Args: judge: a kind, YAML, a mapping, a component or its class, the path of a function or a
    function; utility: the score that is the reward; seed: of what the judge leaves to chance; say:
    gets the warnings; tokenizer: of the model that is trained. Raises ConfigError, DataError or
    ModelError for a judge that cannot work so.
    """
    if callable(judge) and not isinstance(judge, type):
        judge = f"{judge.__module__}:{judge.__qualname__}"
    built = component(Judge, judge, [], "reward")
    if built.known_utilities is not None and utility not in built.known_utilities:
        known = ", ".join(built.known_utilities)
        raise ConfigError(f"reward: '{built.kind}' gives no utility '{utility}'; known: {known}")
    placed = place_judge(built, "reward", seed)
    mute: set[str] = set()
    marks = None if tokenizer is None else tokenizer_marks(tokenizer)

    def rewards(prompts: Any, completions: Any, **given: Any) -> list[float | None]:
        moves = moves_of(prompts, completions, given.get("completion_ids"), marks)
        return _rewards(placed, utility, seed, mute, say, prompts, moves, given)

    rewards.__name__ = built.name  # by which TRL logs it
    return rewards


def _rewards(
    judge: Judge,
    utility: str,
    seed: int,
    mute: set[str],
    say: Callable[[str], object],
    prompts: Sequence[Any],
    moves: Sequence[Move],
    given: Mapping[str, Any],
) -> list[float | None]:
    """The reward of each completion; `mute`: voters warned of, so far."""
    columns = {key: held for key, held in given.items() if key not in NO_FACTS}
    by_id: dict[str, Prompt] = {}
    places: dict[str, list[int]] = {}  # of each prompt's completions in the batch
    for place, text in enumerate(prompts):
        prompt = _prompt(text, {key: held[place] for key, held in columns.items()})
        by_id[prompt.id] = prompt
        places.setdefault(prompt.id, []).append(place)
    matches = []
    for key, held in places.items():
        matches.append(match_of_moves(by_id[key], [moves[i] for i in held], "trl", seed))
    rewards: list[float | None] = [None] * len(moves)
    means: dict[str, list[float]] = {}
    judgements = judge.checked_judgements(matches, by_id)
    for held, match, judgement in zip(places.values(), matches, judgements, strict=True):
        for seat, place in zip(match.seats, held, strict=True):
            rewards[place] = judgement.score(seat, utility)
            for name, value in judgement.utilities(seat).items():
                means.setdefault(name, []).append(value)
        for voter, grades in mean_grades(judgement.votes).items():
            means.setdefault(voter, []).extend(grades.values())
        for vote in judgement.votes:
            means.setdefault(f"{vote.by}/unjudged", []).append(float(vote.value is None))
            if vote.value is None and vote.by not in mute:
                mute.add(vote.by)
                why = f"{vote.by} of {judge.name} left completions unjudged: {vote.reason}"
                say(f"{why}; {judge.name}/{vote.by}/unjudged counts them")
        if None in (rewards[place] for place in held):
            why = judgement.reason or f"no '{utility}' was given"
            say(f"{judge.name} left completions unjudged: {why}")
    if log := given.get("log_metric"):
        log(f"{judge.name}/unjudged", rewards.count(None) / max(1, len(rewards)))
        for name, values in means.items():
            log(f"{judge.name}/{name}", sum(values) / len(values))
    return rewards


def _prompt(text: Any, columns: Mapping[str, Any]) -> Prompt:
    """The prompt with its facts, by the hash of both. Raises DataError."""
    with suppress(KeyError, TypeError, ValueError):  # none, or another's column of this name
        columns = {**columns, **json.loads(columns["facts"])}
    prompt = to_prompt({**columns, "prompt": text}, "prompt", "trl")
    facts = json.dumps(prompt.facts, sort_keys=True, default=str)
    return Prompt(record_id(prompt.id, facts), prompt.messages, prompt.facts, prompt.source)


def moves_of(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    completion_ids: Sequence[Sequence[int]] | None,
    marks: Marks | None,
) -> list[Move]:
    """The completions as moves: their texts, their thoughts, and the marks of these.

    `marks`: those of the model's chat template, for conversational prompts.
    """
    ids = completion_ids or [()] * len(completions)
    moves = []
    for prompt, completion, token_ids in zip(prompts, completions, ids, strict=True):
        by_prompt = opened_marks(prompt) if isinstance(prompt, str) else marks
        if isinstance(completion, str):
            last = {"content": completion}
        else:
            last = completion[-1] if completion else {}
        content = last.get("content")
        if not isinstance(content, str):
            content = "".join(part.get("text") or "" for part in content or ())
        thoughts = last.get("reasoning_content") or ""
        if thoughts and by_prompt is not None:
            by_prompt = Marks(by_prompt.opening, by_prompt.closing)  # they were parted already
        moves.append(Move(content, token_ids=tuple(token_ids), thoughts=thoughts, marks=by_prompt))
    return moves


def tokenizer_marks(tokenizer: Any) -> Marks | None:
    """The marks of the thoughts of a tokenizer's chat template; None where it has none."""
    from equipoise.models.chat_encoding import TEMPLATE_ERRORS

    def render(chat: Sequence[Mapping[str, Any]], opening: bool) -> str:
        return tokenizer.apply_chat_template(
            list(chat), tokenize=False, add_generation_prompt=opening
        )

    return template_marks(tokenizer.chat_template or "", render, TEMPLATE_ERRORS)
