"""Mathematics with an answer that a rule can check: GSM8K and MATH."""

import re
from abc import abstractmethod
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar, Literal

from pydantic import Field

from equipoise.answer import public_move
from equipoise.errors import DataError
from equipoise.evaluation.sets.base import AnswerTokens
from equipoise.evaluation.sets.published_set import HubData, PlacedRow, Published, name_of, text_of
from equipoise.judges.math_equality import Checker
from equipoise.ledger.item_scores import Answer, Answers, Item, Items, ItemScores, Judged
from equipoise.system.effects import ReadPath
from equipoise.types import Message, Prompt, record_id, user

SECONDS = 5.0  # of computing that one comparison may take

# What lm-eval 0.4 extracts from an answer to GSM8K, and what it compares without.
STRICT = re.compile(r"#### (\-?[0-9\.\,]+)")
FLEXIBLE = re.compile(r"(-?[$0-9.,]{2,})|(-?[0-9]+)")
IGNORED = (",", r"\$", r"(?s).*#### ", r"\.$")
NOTHING = "[invalid]"


class Problems(Published):
    """Problems whose solutions end in an answer; `accuracy` is by math-verify.

    An answer that cannot be compared in time is unscored; one without mathematics is wrong.
    """

    shots: int = Field(0, ge=0, description="solved examples before the problem, as earlier turns")
    shots_path: ReadPath | None = Field(
        None,
        description="a file of examples to show, in the benchmark's columns; null: its "
        "training part on the hub",
    )
    training: ClassVar[HubData | None] = None
    """The place of the examples to show."""

    @property
    def headline(self) -> str:
        return "accuracy"

    @abstractmethod
    def question(self, place: PlacedRow) -> str:
        """The question of a row. Raises DataError."""

    @abstractmethod
    def solution(self, place: PlacedRow) -> str:
        """The row's worked solution, as an example shows it. Raises DataError."""

    @abstractmethod
    def right_answer(self, place: PlacedRow) -> str:
        """The row's right answer. Raises DataError."""

    def group_of(self, place: PlacedRow) -> str:
        """The part of the set with a mean of its own; "" where there is none."""
        return ""

    def load(self) -> list[Item]:
        """The problems, after the examples, with the right answer as a fact."""
        before = self._examples()
        return [self._item(place, before) for place in self.rows()]

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """Right or wrong by math-verify, with what `also` adds."""
        with Checker(SECONDS) as checker:
            return [
                self._scores(checker, item, answer) for item in items for answer in answers[item.id]
            ]

    def also(self, right: str, text: str) -> dict[str, float]:
        """Further metrics of an answer."""
        return {}

    def _examples(self) -> tuple[Message, ...]:
        if not self.shots:
            return ()
        rows = self.rows_of(self.shots_path, self.training, "shots_path")
        places = list(islice(rows, self.shots))
        if len(places) < self.shots:
            raise DataError(f"{self.kind}: {self.shots} shots, but {len(places)} examples")
        messages: list[Message] = []
        for place in places:
            messages.append(user(self.question(place)))
            messages.append(Message("assistant", self.solution(place)))
        return tuple(messages)

    def _item(self, place: PlacedRow, before: tuple[Message, ...]) -> Item:
        where, row = place
        messages = (*before, user(self.question(place)))
        identity = record_id(self.kind, *(message.content for message in messages))
        facts = {"answer": self.right_answer(place)}
        return Item(
            id=name_of(row, where, "unique_id", "id"),
            prompt=Prompt(identity, messages, facts, str(self.kind)),
            group=self.group_of(place),
        )

    def _scores(self, checker: Checker, item: Item, answer: Answer) -> ItemScores:
        right = item.prompt.facts["answer"]
        reason, values = answer.error, dict[str, float | None]()
        if not reason:
            equal = checker.equal(right, answer.text)
            values = {"accuracy": None, **self.also(right, answer.text)}
            if isinstance(equal, str):
                reason = equal
            else:
                values["accuracy"] = float(equal)
        return ItemScores(
            item=item.id,
            sample=answer.sample,
            values=values or {"accuracy": None},
            group=item.group,
            reason=reason,
        )


class GSM8K(Problems):
    """Grade-school problems: accuracy, and the two figures that lm-eval reports.

    `strict_match` takes the number after "####", `flexible_extract` the last number; both are
    compared as texts without commas and dollars. Source: Cobbe et al. 2021, Training Verifiers to
    Solve Math Word Problems, arXiv:2110.14168; lm-eval's task `gsm8k`.
    """

    kind: Literal["gsm8k"] = "gsm8k"
    data: ClassVar[HubData | None] = HubData("openai/gsm8k", "main")
    training: ClassVar[HubData | None] = HubData("openai/gsm8k", "main", "train")
    data_fields: ClassVar[tuple[str, ...]] = ("path", "shots_path")
    licence: ClassVar[str] = "MIT, OpenAI"

    max_new_tokens: AnswerTokens = 512
    form: Literal["instructed", "lm_eval"] = Field(
        "instructed",
        description="instructed: the problem, and how to end the answer; lm_eval: "
        '"Question: … Answer:", as that harness asks, whose answers end before another '
        '"Question:"',
    )

    def question(self, place: PlacedRow) -> str:
        where, row = place
        text = text_of(row, where, "question")
        if self.form == "lm_eval":
            return f"Question: {text}\nAnswer:"
        return (
            f"{text}\n\nReason step by step. The last line of your answer must be four "
            "number signs and the final number: ####"
        )

    def solution(self, place: PlacedRow) -> str:
        """The solution in the data, without the calculator's marks where the form is ours."""
        text = text_of(place[1], place[0], "answer")
        return text if self.form == "lm_eval" else re.sub(r"<<[^>]*>>", "", text)

    def right_answer(self, place: PlacedRow) -> str:
        where, row = place
        text = text_of(row, where, "answer")
        number = text.rpartition("####")[2].strip()
        if "####" not in text or not number:
            raise DataError(f'{where}: answer: no number after "####"')
        return number

    def also(self, right: str, text: str) -> dict[str, float]:
        return {
            "strict_match": float(_same(strict_match(text), right)),
            "flexible_extract": float(_same(flexible_extract(text), right)),
        }

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """As for all problems; in lm-eval's form what follows another question is cut."""
        if self.form == "lm_eval":
            answers = {
                item: [_before_next_question(answer) for answer in of_item]
                for item, of_item in answers.items()
            }
        return super().score(items, answers, judged)


def strict_match(text: str) -> str:
    """The first number after "####", as lm-eval's filter of that name finds it."""
    match = STRICT.search(text)
    return match.group(1).strip() if match else NOTHING


def flexible_extract(text: str) -> str:
    """The last number, as lm-eval's filter of that name finds it."""
    numbers = FLEXIBLE.findall(text)
    return next(filter(None, numbers[-1])).strip() if numbers else NOTHING


def _same(number: str, right: str) -> bool:
    return _bare(number) == _bare(right)


def _bare(text: str) -> str:
    for pattern in IGNORED:
        text = re.sub(pattern, "", text)
    return text.lower()


def _before_next_question(answer: Answer) -> Answer:
    from msgspec.structs import replace

    moves = []
    for move in map(public_move, answer.moves):
        text, _, _ = move.text.partition("Question:")
        moves.append(replace(move, text=text))
    return replace(answer, moves=tuple(moves))


class MATH(Problems):
    r"""Competition problems by subject: accuracy of the answer in `\boxed{}`.

    Source: Hendrycks et al. 2021, Measuring Mathematical Problem Solving With the MATH Dataset,
    arXiv:2103.03874; the 500 test problems of Lightman et al. 2023, arXiv:2305.20050, unless a file
    is given.
    """

    kind: Literal["math"] = "math"
    data: ClassVar[HubData | None] = HubData("HuggingFaceH4/MATH-500")
    data_fields: ClassVar[tuple[str, ...]] = ("path", "shots_path")
    licence: ClassVar[str] = "MIT, Hendrycks et al."

    max_new_tokens: AnswerTokens = 1024

    def question(self, place: PlacedRow) -> str:
        where, row = place
        text = text_of(row, where, "problem", "question")
        return f"{text}\n\nReason step by step, and put your final answer within \\boxed{{}}."

    def solution(self, place: PlacedRow) -> str:
        return text_of(place[1], place[0], "solution")

    def right_answer(self, place: PlacedRow) -> str:
        where, row = place
        if isinstance(row.get("answer"), str | int | float):
            return str(row["answer"])
        text = text_of(row, where, "solution")
        boxed = last_boxed(text)
        if boxed is None:
            raise DataError(f"{where}: solution: no \\boxed{{}} with the answer")
        return boxed

    def group_of(self, place: PlacedRow) -> str:
        row = place[1]
        return str(row.get("subject") or row.get("type") or "")


def last_boxed(text: str) -> str | None:
    r"""The content of the last \boxed{…} of a text, braces balanced; None without one."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    depth, begin = 0, start + len("\\boxed")
    for place in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[begin + 1 : place]
    return None
