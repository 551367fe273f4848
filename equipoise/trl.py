"""Any judge as a reward function of TRL's trainers (GRPO, RLOO):

    trainer = GRPOTrainer(model, reward_funcs=equipoise.trl.reward("gold"), train_dataset=…)

Importing this loads neither TRL nor torch.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge, JudgeContext, mean_grades
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player
from equipoise.prompts.rows import to_prompt
from equipoise.runs.recipe_loader import component
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, record_id

RewardFunc = Callable[..., list[float | None]]
LEARNER = PlayerId("policy")
NO_FACTS = {"environments", "log_extra", "log_metric", "trainer_state"}  # that TRL passes beside


def reward(judge: Any, *, utility: str = "score", seed: int = 0) -> RewardFunc:
    """The reward function by which a TRL trainer learns from a judge.

    In each call the completions of one prompt are the seats of one match, so judges that compare
    work, too. An unjudged completion gets None, with a warning that says why. Columns of the data
    set are the prompt's facts, and `facts`, as `equipoise export` writes it, holds further ones.

    Args: judge: a kind, YAML, a mapping, a component or its class, the path of a function or a
    function; utility: the score that is the reward; seed: of what the judge leaves to chance.
    The means of all utilities and of a panel's members are logged.

    Raises ConfigError, DataError or ModelError for a judge that cannot work so.
    """
    if callable(judge) and not isinstance(judge, type):
        judge = f"{judge.__module__}:{judge.__qualname__}"
    built = component(Judge, judge, [], "reward")
    if built.known_utilities is not None and utility not in built.known_utilities:
        known = ", ".join(built.known_utilities)
        raise ConfigError(f"reward: '{built.kind}' gives no utility '{utility}'; known: {known}")
    resources = Resources()
    actor = partial(_open, built.kind, resources)
    context = JudgeContext(Answers(samples=2), seed, [], {}, resources, actor)
    scorer = _Rewards(built.at(context), utility, seed)
    scorer.__name__ = built.name  # by which TRL logs it
    return scorer


def _open(kind: str, resources: Resources, player: Player | PlayerId) -> Actor:
    if isinstance(player, PlayerId):
        raise ConfigError(f"reward: '{kind}' asks players of a run, and a TRL trainer has none")
    return resources.get(player.model_dump_json(), lambda: player.open(player.start, resources))


@dataclass
class _Group:
    """A prompt, and the places of its completions in the batch."""

    prompt: Prompt
    places: list[int] = field(default_factory=list)


class _Rewards:
    __name__: str

    def __init__(self, judge: Judge, utility: str, seed: int) -> None:
        self._judge, self._utility, self._seed = judge, utility, seed

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """The reward of each completion; B prompts, plain or conversational, as TRL passes them."""
        columns = {key: held for key, held in columns.items() if key not in NO_FACTS}
        groups: dict[str, _Group] = {}
        for place, text in enumerate(prompts):
            facts = {key: held[place] for key, held in columns.items()}
            prompt = _prompt(text, facts)
            groups.setdefault(prompt.id, _Group(prompt)).places.append(place)
        ids = completion_ids or [()] * len(completions)
        matches = [
            self._match(group.prompt, [(_text(completions[i]), ids[i]) for i in group.places])
            for group in groups.values()
        ]
        by_id = {group.prompt.id: group.prompt for group in groups.values()}
        judgements = self._judge.checked_judgements(matches, by_id)
        given: dict[str, list[float]] = {}
        rewards: list[float | None] = [None] * len(completions)
        for group, match, judgement in zip(groups.values(), matches, judgements, strict=True):
            for seat, place in zip(match.seats, group.places, strict=True):
                rewards[place] = judgement.score(seat, self._utility)
                for name, value in judgement.utilities(seat).items():
                    given.setdefault(name, []).append(value)
            for voter, grades in mean_grades(judgement.votes).items():
                given.setdefault(voter, []).extend(grades.values())
            if None in (rewards[place] for place in group.places):
                why = judgement.reason or f"no '{self._utility}' was given"
                warnings.warn(f"{self.__name__} left completions unjudged: {why}", stacklevel=2)
        if log_metric is not None:
            log_metric(f"{self.__name__}/unjudged", rewards.count(None) / max(1, len(rewards)))
            for name, values in given.items():
                log_metric(f"{self.__name__}/{name}", sum(values) / len(values))
        return rewards

    def _match(self, prompt: Prompt, answers: Sequence[tuple[str, Sequence[int]]]) -> Match:
        view = View(prompt.messages)
        moves = [Move(text, token_ids=tuple(map(int, ids))) for text, ids in answers]
        turns = tuple(Turn(str(i), view, move) for i, move in enumerate(moves, 1))
        seats = {turn.seat: LEARNER for turn in turns}
        match = record_id("trl", self._judge.name, prompt.id, *(text for text, _ in answers))
        seed = seeds.child(self._seed, "match", match)
        return Match(match, 0, "train", "answers", prompt.id, seats, seed, turns)


def _prompt(text: Any, columns: Mapping[str, Any]) -> Prompt:
    """The prompt with its facts, by the hash of both. Raises DataError."""
    exported = columns.get("facts")
    if isinstance(exported, str) and exported.startswith("{"):
        columns = {**columns, **json.loads(exported)}
    if not isinstance(text, str):
        text = [{**message, "content": _text([message])} for message in text]
    prompt = to_prompt({**columns, "prompt": text}, "prompt", "trl")
    facts = json.dumps(prompt.facts, sort_keys=True, default=str)
    return Prompt(record_id(prompt.id, facts), prompt.messages, prompt.facts, prompt.source)


def _text(completion: Any) -> str:
    """The text of a completion, or of the last message of a conversational one."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content") if completion else None
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content or ())
