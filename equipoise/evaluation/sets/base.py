"""Named sets: items that a player is asked, and how its answers are scored.

    items()      what is asked: an `Item` each, in the order of the data
    questions()  what a judge is shown of the answers; none where a rule scores them
    score()      values of an item's answers by metric; pure
    summary()    the values as a `BenchmarkResult`: estimates with 95 % intervals

The run asks the player and the judge between these steps and records every answer, so that nothing
is asked twice (`equipoise.runs.named_sets.results`).
"""

import hashlib
import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from pydantic import Field

from equipoise.component import Component, fixed_settings
from equipoise.errors import ConfigError, DataError, shorten
from equipoise.games.base import Ask, Game, Referee
from equipoise.judges.base import Judge, JudgeContext
from equipoise.ledger.item_scores import (
    Answer,
    Answers,
    BenchmarkResult,
    Item,
    Items,
    ItemScores,
    Judged,
    JudgeQuestion,
    estimate,
    group_means,
    metrics_of,
)
from equipoise.system.effects import Text
from equipoise.types import Message, Prompt, View, record_id, user

LM_EVAL_TASKS = {
    "arc": "arc_challenge",
    "gpqa": "gpqa_diamond_zeroshot",
    "hellaswag": "hellaswag",
    "mmlu": "mmlu",
    "truthfulqa": "truthfulqa_mc2",
    "winogrande": "winogrande",
}
"""Published sets of choices, and lm-eval's task that measures each by likelihood."""

IN_WORDS = "choices in words: {kind: prompts, prompts: FILE, judge: choice}"

OWN_SET = "docs/change_a_piece.md, 'A set', has one"

AnswerTokens = Annotated[
    int | None, Field(ge=1, description="most tokens of an answer; null: the player's own")
]


class Benchmark(Component):
    """A named set of items, how they are asked, and how answers are scored.

    A benchmark of one's own defines `load` and `score`, and `headline`, for which a `ClassVar` is
    enough; docs/change_a_piece.md has a whole one. One with a judge whose question is not simply
    the last answer defines `questions`; one whose metrics are no means over items
    (length-controlled win rates) extends `summary`.
    """

    KINDS: ClassVar = {
        "prompts": "equipoise.evaluation.sets.prompt_set:PromptSet",
        "gsm8k": "equipoise.evaluation.sets.problems:GSM8K",
        "math": "equipoise.evaluation.sets.problems:MATH",
        "lm_eval": "equipoise.evaluation.sets.lm_eval_set:LmEvalSet",
        "arena_hard": "equipoise.evaluation.sets.win_rate_sets:ArenaHard",
        "alpaca_eval": "equipoise.evaluation.sets.win_rate_sets:AlpacaEval",
        "over_refusal": "equipoise.evaluation.sets.refusal_sets:OverRefusal",
        "attacks": "equipoise.evaluation.sets.refusal_sets:Attacks",
    }

    REMOVED: ClassVar = {
        **{
            kind: f"write {{kind: lm_eval, tasks: [{task}]}}; {IN_WORDS}"
            for kind, task in LM_EVAL_TASKS.items()
        },
        "multiple_choice": f"{IN_WORDS}; by likelihood: a task of {{kind: lm_eval, tasks: […]}}",
        "mt_bench": "its official judge measures it: equipoise import-scores --from mt_bench",
    }

    needs_judge: ClassVar[bool] = False
    """True if nothing can be scored without `judge`."""
    lower_is_better: ClassVar[tuple[str, ...]] = ()
    """The metrics of which a smaller value is better."""
    data_fields: ClassVar[tuple[str, ...]] = ("path",)
    """The settings that say where the data are. They do not identify a result, for the items
    themselves do.
    """
    licence: ClassVar[str] = ""
    """Under which licence the data are published, and by whom."""

    part: Literal["dev", "test"] = Field(
        "test",
        description="dev: a player may be chosen by it; test: only reported, never chosen by",
    )
    limit: int | None = Field(None, ge=1, description="the first so many items only; null: all")
    samples: int = Field(1, ge=1, description="answers to each item")
    temperature: float | None = Field(
        None, ge=0, description="of the player's sampling; 0: the most likely token; null: its own"
    )
    max_new_tokens: AnswerTokens = None
    judge: Judge | None = Field(
        None, description="any judge of the run's kinds; null: a rule scores"
    )
    seed: int = Field(0, ge=0, description="of sampling and of the judge's choices")
    varied: dict[Text, Text] = Field(
        default_factory=dict,
        description="which settings a sweep changed to what; `--sweep` fills it in",
    )

    @property
    @abstractmethod
    def headline(self) -> str:
        """The metric that stands for the set where a single one is shown."""

    @abstractmethod
    def load(self) -> list[Item]:
        """Every item of the set in the order of its data.

        Raises DataError naming file and line, or the hub id, and the licence where the data have to
        be fetched.
        """

    @abstractmethod
    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """The values of every answer by metric, deterministic and pure.

        Args: items: what was asked; answers: item id -> `samples` answers in order; judged: what
        the judge made of `questions`, in their order. A value that is missing is None with
        `reason`, and counts nowhere; it is never 0.
        """

    def items(self) -> list[Item]:
        """The items that are asked: the first `limit`, each id once.

        Raises DataError as `load` does, for a set without items, and where `load` or `headline` is
        not what it has to be.
        """
        loaded = self.load()
        self._check_members(loaded)
        by_id: dict[str, Item] = {}
        for item in loaded:
            twin = by_id.get(item.id)
            if twin is not None and twin.prompt.id != item.prompt.id:  # of another file
                item = msgspec.structs.replace(item, id=f"{item.id}-{item.prompt.id[:8]}")
            by_id[item.id] = item
        items = list(by_id.values())
        if not items:
            raise DataError(f"the set '{self.kind}' has no items")
        return items[: self.limit]

    def _check_members(self, loaded: Any) -> None:
        """Raises DataError where the class does not return what the contract says."""
        headline: Any = self.headline
        if not isinstance(headline, str) or not headline:
            raise DataError(
                f"{self.kind}: its headline is {shorten(repr(headline))} and must name a metric; "
                f'write headline: ClassVar = "accuracy" in the class ({OWN_SET})'
            )
        if fault := fault_of_items(loaded):
            raise DataError(
                f"{self.kind}: load returned {fault}; it must return a list of "
                f"Item(id='a text', prompt=Prompt(…)) ({OWN_SET})"
            )

    def check_scores(self, scores: Any) -> None:
        """Raises ConfigError where `score` does not return what the contract says."""
        if fault := fault_of_list(scores, ItemScores):
            raise ConfigError(
                f"{self.kind}: score returned {fault}; it must return a list of ItemScores(item=…, "
                f"sample=…, values={{metric: number}}), one for each answer ({OWN_SET})"
            )
        if type(self).__module__.startswith("equipoise."):
            return  # a packaged set may lack its headline, as where all moves were illegal
        metrics = metrics_of(scores)
        if metrics and self.headline not in metrics and not any(row.reason for row in scores):
            raise ConfigError(
                f"{self.kind}: its headline is '{self.headline}', and score gives "
                f"{', '.join(metrics)}; name one of these, or give that metric"
            )

    def faults(self, items: Items, context: JudgeContext) -> Iterator[str]:
        """Reasons why the set cannot be measured, one message each; nothing is sampled for it."""
        if self.judge is None:
            if self.needs_judge:
                yield f"'{self.kind}' has no rule to score by; name a judge, as --judge KIND"
            return
        yield from self.judge.faults(context)
        why = [self.judge.why_unjudgeable(item.prompt) for item in items]
        if items and all(why):
            yield (f"judge '{self.judge.kind}' can judge no answer to these items: {why[0]}")

    @property
    def game_played(self) -> Game:
        """The rules by which an item is asked: by default its prompt and turns, as a chat."""
        return Conversation()

    @property
    def compares(self) -> bool:
        """True if the judge sets each answer beside another one."""
        return self.judge is not None and self.judge.compares

    @property
    def against_start(self) -> bool:
        """True if a judge compares with the player's own start, which then has to answer too."""
        return False

    def judged_turns(self, item: Item) -> int:
        """The number of questions on each answer to this item."""
        return 0 if self.judge is None else 1

    def questions(self, items: Items, answers: Answers, others: Answers) -> list[JudgeQuestion]:
        """The judge's questions: the last answer to each item, and beside it, for a judge that
        compares, the start's (`others`, where `against_start`) or else the item's `reference`.
        """
        if self.judge is None:
            return []
        questions = []
        for item in items:
            beside = others.get(item.id, ())
            for i, answer in enumerate(answers[item.id]):
                other, error = None, ""
                if self.compares and beside:
                    other, error = beside[i].text, beside[i].error
                elif self.compares:
                    other = item.reference[-1]
                questions.append(question_of(item, answer, len(item.turns), other, error))
        return questions

    def summary(self, scores: Sequence[ItemScores], items: Items) -> BenchmarkResult:
        """Every metric's mean with its interval, items as clusters; who was measured, and by which
        set, the run fills in.
        """
        metrics = metrics_of(scores)
        missing = sum(row.values.get(self.headline) is None for row in scores)
        return BenchmarkResult(
            benchmark=str(self.kind),
            part=self.part,
            headline=self.headline,
            metrics={name: estimate(scores, name) for name in metrics},
            groups=group_means(scores, metrics),
            n=len(items),
            answers=len(scores),
            unscored=missing,
            lower_is_better=self.lower_is_better,
            judge=self.judge.name if self.judge else "",
        )

    @cached_property
    def digest(self) -> str:
        """A hash of the settings that, with the items, determine the result: not of budgets,
        addresses, and how the set is used (`part`).
        """
        left_out = {"part", "limit", "varied", *self.data_fields}
        values = fixed_settings(self.model_dump(mode="json", exclude=left_out))
        text = json.dumps(values, sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def fault_of_list(value: Any, row: type[Any]) -> str:
    """A value that is no list of such rows, for a message; "" for one that is."""
    if not isinstance(value, list | tuple):
        return _shown(value)
    for place, each in enumerate(value):
        if not isinstance(each, row):
            return f"a list with {_shown(each)} in place {place}"
    return ""


def fault_of_items(value: Any) -> str:
    """A value that is no list of items, for a message; "" for one that is."""
    if fault := fault_of_list(value, Item):
        return fault
    for item in value:
        if not isinstance(item.id, str):
            return f"an item whose id is {_shown(item.id)}"
        if not isinstance(item.prompt, Prompt):
            return f"an item whose prompt is {_shown(item.prompt)}"
    return ""


def _shown(value: Any) -> str:
    """A value and its type, for a message."""
    text = shorten(repr(value), 80)
    name = type(value).__name__
    return text if value is None or text.startswith(name) else f"{text} ({name})"


def question_of(
    item: Item, answer: Answer, turn: int, other: str | None = None, other_error: str = ""
) -> JudgeQuestion:
    """A judge's question on the answer to `turn` (0 is the item's prompt, n its n-th further turn):
    the chat up to there as the prompt, with the item's facts.
    """
    messages = answer.views[turn].messages if answer.views else item.prompt.messages
    prompt = item.prompt
    if messages != prompt.messages:
        identity = record_id("turn", prompt.id, turn, *(m.content for m in messages))
        prompt = Prompt(identity, tuple(messages), prompt.facts, prompt.source)
    move = answer.moves[turn]
    return JudgeQuestion(item.id, answer.sample, turn, prompt, move, other, other_error)


TURNS = "further_turns"  # the fact of a prompt that holds them


class Conversation(Game):
    """One player answers a prompt and, in the same chat, every further turn of it."""

    kind: Literal["benchmark"] = "benchmark"

    @property
    def seats(self) -> tuple[str, ...]:
        return ("1",)

    def moves(self, prompt: Prompt) -> dict[str, int]:
        return {"1": 1 + len(prompt.facts.get(TURNS, ()))}

    def referee(self, prompt: Prompt) -> Referee:
        messages = prompt.messages
        move = yield Ask("1", View(messages))
        for turn in prompt.facts.get(TURNS, ()):
            assert not isinstance(move, list)
            messages = (*messages, Message("assistant", move.text), user(turn))
            move = yield Ask("1", View(messages))


def asked_prompt(item: Item) -> Prompt:
    """The prompt from which the item's conversation is played; the item's own where it has a single
    turn.
    """
    if not item.turns:
        return item.prompt
    prompt = item.prompt
    facts = {**prompt.facts, TURNS: list(item.turns)}
    identity = record_id("conversation", prompt.id, *item.turns)
    return Prompt(identity, prompt.messages, facts, prompt.source)
