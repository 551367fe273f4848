"""MT-Bench: eighty conversations of two turns in eight categories.

Source: Zheng et al. 2023, Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena, arXiv:2306.05685:
each turn graded from 1 to 10, mathematics, coding and reasoning with a reference answer before the
judge; or two players' answers compared, in both orders. The questions to the judge are this
package's own, in which an answer is data.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any, ClassVar, Literal

from msgspec.structs import replace
from pydantic import Field, field_validator

from equipoise.answer import answer_of
from equipoise.errors import DataError
from equipoise.evaluation.sets.answer_files import answers_in
from equipoise.evaluation.sets.base import AnswerTokens, question_of
from equipoise.evaluation.sets.published_set import (
    HubData,
    PlacedRow,
    Published,
    list_of,
    name_of,
    with_defaults,
)
from equipoise.judges.base import Judge
from equipoise.ledger.item_scores import (
    Answer,
    Answers,
    Item,
    Items,
    ItemScores,
    Judged,
    JudgeQuestion,
)
from equipoise.system.effects import ReadPath
from equipoise.types import Message, Prompt, record_id, user

CRITERIA = (
    "helpfulness, relevance, accuracy, depth, creativity and level of detail; where a "
    "reference is given, whether the answer is right"
)
REFERRED = ("math", "reasoning", "coding")  # whose answers a judge is shown


class MTBench(Published):
    """The mean grade of both turns, or the rate of comparisons won.

    Questions are asked in turn of their categories, so that a `limit` keeps all of them.
    """

    kind: Literal["mt_bench"] = "mt_bench"
    data: ClassVar[HubData | None] = HubData("HuggingFaceH4/mt_bench_prompts", split="train")
    data_fields: ClassVar[tuple[str, ...]] = ("path", "reference_path", "baseline")
    licence: ClassVar[str] = "Apache 2.0, LMSYS"
    needs_judge: ClassVar[bool] = True

    temperature: float | None = Field(
        0.0,
        ge=0,
        description="of the player's sampling; the official script samples by category, "
        "at 0, 0.1 or 0.7",
    )
    max_new_tokens: AnswerTokens = 1024
    reference_path: ReadPath | None = Field(
        None,
        description="a file of reference answers (question_id, choices) for the judge; "
        "null: the column `reference`, where there is one",
    )
    baseline: ReadPath | None = Field(
        None,
        description="a file of answers, in MT-Bench's form, that a comparing judge sets "
        "beside the player's; null: those of the player's own start",
    )

    @field_validator("judge")
    @classmethod
    def _criteria(cls, judge: Judge | None) -> Judge | None:
        return with_defaults(judge, CRITERIA, "reference")

    @property
    def headline(self) -> str:
        return "win_rate" if self.compares else "score"

    @property
    def against_start(self) -> bool:
        return self.compares and self.baseline is None

    def load(self) -> list[Item]:
        """The conversations, one of each category in turn."""
        references = answers_in(self.reference_path) if self.reference_path else {}
        others = answers_in(self.baseline) if self.baseline else {}
        by_category: dict[str, list[Item]] = defaultdict(list)
        for place in self.rows():
            item = _item(place, references)
            if self.compares and not self.against_start:
                if len(others.get(item.id, ())) != 1 + len(item.turns):
                    raise DataError(f"{self.baseline}: no answers to question {item.id}")
                item = replace(item, reference=others[item.id])
            by_category[item.group].append(item)
        rounds = chain.from_iterable(zip_longest(*by_category.values()))
        return [item for item in rounds if item is not None]

    def judged_turns(self, item: Item) -> int:
        return 1 + len(item.turns)

    def questions(self, items: Items, answers: Answers, others: Answers) -> list[JudgeQuestion]:
        """Each turn of each answer; compared, the second turn comes with the first."""
        questions: list[JudgeQuestion] = []
        for item in items:
            beside = others.get(item.id, ())
            for n, answer in enumerate(answers[item.id]):
                moves = beside[n].moves if beside else ()
                other = tuple(answer_of(move).text for move in moves) or item.reference
                for question in self._of_answer(item, answer, other):
                    errors = (move.error for move in moves[: question.turn + 1] if move.error)
                    questions.append(replace(question, other_error=next(errors, "")))
        return questions

    def _of_answer(
        self, item: Item, answer: Answer, other: Sequence[str]
    ) -> Iterator[JudgeQuestion]:
        for turn in range(len(answer.moves)):
            question = question_of(item, answer, turn)
            if self.compares:
                if turn and turn < len(other):
                    question = _joint(item, answer, turn)
                shown = _join(other[: turn + 1])
                question = replace(question, other=shown)
            yield _with_reference(question, item, turn)

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """Each turn's grade, and their mean over the turns that were judged."""
        verdicts: dict[tuple[str, int], list[Judged]] = defaultdict(list)
        for verdict in judged:
            question = verdict.question
            verdicts[question.item, question.sample].append(verdict)
        return [
            self._scores(item, answer, verdicts[item.id, answer.sample])
            for item in items
            for answer in answers[item.id]
        ]

    def _scores(self, item: Item, answer: Answer, verdicts: Sequence[Judged]) -> ItemScores:
        by_turn = {
            f"turn_{verdict.question.turn + 1}": (verdict.utilities or {}).get("score")
            for verdict in verdicts
        }
        known = [value for value in by_turn.values() if value is not None]
        values: dict[str, float | None] = {self.headline: None, **by_turn}
        if known:
            values[self.headline] = sum(known) / len(known)
        reasons = [verdict.reason for verdict in verdicts if verdict.reason]
        return ItemScores(
            item=item.id,
            sample=answer.sample,
            values=values,
            group=item.group,
            reason="" if known else "; ".join(reasons) or answer.error or "no score",
            counts={self.headline: len(known)} if len(known) > 1 else {},
        )


def _item(place: PlacedRow, references: Mapping[str, tuple[str, ...]]) -> Item:
    where, row = place
    turns = [str(turn) for turn in list_of(row, where, _turns_column(row))]
    name = name_of(row, where, "question_id", "prompt_id")
    category = str(row.get("category") or "")
    known: Any = row.get("reference") or ()
    known = [known] if isinstance(known, str) else known  # of the first turn alone
    reference = references.get(name) or tuple(map(str, known))
    reference = reference if category in REFERRED else ()
    facts = {"category": category, "references": list(reference)}
    prompt = Prompt(record_id("mt_bench", *turns), (user(turns[0]),), facts, "mt_bench")
    return Item(id=name, prompt=prompt, turns=tuple(turns[1:]), group=category)


def _turns_column(row: Mapping[str, Any]) -> str:
    return "prompt" if isinstance(row.get("prompt"), list) else "turns"


def _with_reference(question: JudgeQuestion, item: Item, turn: int) -> JudgeQuestion:
    """The question with the reference answers up to its turn, under a name of its own."""
    references = item.prompt.facts["references"][: turn + 1]
    facts = {"category": item.group}
    if len(references) > turn:
        facts["reference"] = references[turn]
    prompt = question.prompt
    identity = record_id("judged turn", prompt.id, turn, *references)
    shown = Prompt(identity, prompt.messages, facts, prompt.source)
    return replace(question, prompt=shown)


def _joint(item: Item, answer: Answer, turn: int) -> JudgeQuestion:
    """All turns up to this one as a single request with a single answer, so that two players'
    conversations can be compared.
    """
    requests = (item.prompt.messages[-1].content, *item.turns[:turn])
    text = _join(requests, "request")
    prompt = item.prompt
    identity = record_id("joint turns", prompt.id, *requests)
    shown = Prompt(identity, (*prompt.messages[:-1], Message("user", text)), {}, prompt.source)
    texts = [answer_of(move).text for move in answer.moves[: turn + 1]]
    move = replace(answer.moves[turn], text=_join(texts), token_ids=(), logprobs=())
    return JudgeQuestion(item.id, answer.sample, turn, shown, move)


def _join(texts: Sequence[str], what: str = "answer") -> str:
    """Several texts under numbered headings; a single one as it is."""
    if len(texts) == 1:
        return texts[0]
    numbered = enumerate(texts, 1)
    return "\n\n".join(f"[{what} {number}]\n{text}" for number, text in numbered)
