"""Multiple choice: by the likelihood of the options, or by an answer in words."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from equipoise.errors import DataError
from equipoise.evaluation.sets.choice_formats import READERS, ChoiceQuestion
from equipoise.evaluation.sets.published_set import HubData, PlacedRow, Published
from equipoise.judges.multiple_choice import stated_option
from equipoise.ledger.item_scores import Answer, Answers, Item, Items, ItemScores, Judged
from equipoise.system.effects import READS, ReadPath
from equipoise.types import Prompt, record_id, user

Format = Literal["options", "truthfulqa", "arc", "mmlu", "hellaswag", "winogrande", "gpqa"]


class Choices(Published):
    """Questions with options, of which one is right.

    By likelihood `acc` is the share of questions whose right option is the likeliest, `acc_norm`
    likewise with log-probabilities per character of the option; nothing is sampled. By generation
    `acc` is the share whose answer states the right option; an answer that states none is wrong.
    """

    data_fields: ClassVar[tuple[str, ...]] = ("path", "shots_path")
    training: ClassVar[HubData | None] = None
    """The place of the examples to show."""

    max_new_tokens: int | None = Field(
        256, ge=1, description="most tokens of an answer in words; null: its own"
    )
    format: Format = Field(
        "options", description="whose columns the rows have; options: any task file with choices"
    )
    ask: Literal["likelihood", "generate"] = Field("likelihood", description="how a player chooses")
    chat: bool = Field(
        False,
        description="likelihoods after the chat's template; false: after the plain text, "
        "as harnesses do by default",
    )
    shots: int = Field(0, ge=0, description="examples before the question")
    shots_path: ReadPath | None = Field(
        None, description="a file of examples, in the same columns; null: the hub's part for that"
    )
    primer: Annotated[Path | None, READS] = Field(
        None,
        description="a text file that is put before every question; {subject} in it "
        "becomes the question's",
    )

    @property
    def headline(self) -> str:
        """Normalised by length where the options are texts of unequal lengths."""
        by_length = self.format in ("arc", "hellaswag") and self.ask == "likelihood"
        return "acc_norm" if by_length else "acc"

    def hub_data(self) -> HubData | None:
        """The rows' place on the hub."""
        return self.data

    def load(self) -> list[Item]:
        examples = self._examples()
        primer = self._primer()
        places = self.rows_of(self.path, self.hub_data(), "path")
        return [self._item(row, examples, primer) for row in self._questions(places)]

    def _questions(self, places: Iterator[PlacedRow]) -> Iterator[ChoiceQuestion]:
        read = READERS[self.format]
        for place in places:
            yield read(place, self.seed)

    def _examples(self) -> dict[str, list[ChoiceQuestion]]:
        """The examples by subject; "" for sets without subjects."""
        if not self.shots:
            return {}
        places = self.rows_of(self.shots_path, self.training, "shots_path")
        by_group: dict[str, list[ChoiceQuestion]] = {}
        for question in self._questions(places):
            by_group.setdefault(question.group, []).append(question)
        return by_group

    def _primer(self) -> str:
        if self.primer is None:
            return ""
        try:
            return self.primer.read_text(encoding="utf-8-sig").rstrip("\n") + "\n\n"
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "is not UTF-8 text"
            raise DataError(f"{self.kind}: primer: {self.primer}: {why}") from error

    def _item(
        self, row: ChoiceQuestion, examples: Mapping[str, list[ChoiceQuestion]], primer: str
    ) -> Item:
        shown = list(islice(examples.get(row.group, []), self.shots))
        if len(shown) < self.shots:
            whose = f" of '{row.group}'" if row.group else ""
            raise DataError(f"{self.kind}: {self.shots} shots, but {len(shown)} examples{whose}")
        primer = primer.replace("{subject}", row.group)
        if self.ask == "generate":
            return self._item_in_words(row, shown, primer)
        front = primer + "".join(f"{_worked_example(each)}\n\n" for each in shown)
        contexts = tuple(front + context for context in row.contexts)
        text = front + row.before if row.before else row.question
        gap = "" if self.chat else " "
        choices = tuple(gap + choice for choice in (*row.choices, *row.more))
        facts = {
            "right": row.right,
            "lengths": [len(choice) for choice in row.choices],
            "more_right": list(row.more_right),
        }
        return Item(
            id=row.name,
            prompt=self._prompt(text, facts, *contexts, *choices),
            choices=choices,
            contexts=contexts,
            plain=not self.chat,
            group=row.group,
        )

    def _item_in_words(
        self, row: ChoiceQuestion, shown: Sequence[ChoiceQuestion], primer: str
    ) -> Item:
        front = "".join(
            f"{self._in_words(each)}\nThe answer is {self._labels(each)[each.right]}.\n\n"
            for each in shown
        )
        labels = self._labels(row)
        text = (
            f"{primer}{front}{self._in_words(row)}\n\nAnswer with the label of the right "
            f'option, as in "The answer is {labels[0]}."'
        )
        facts = {
            "choices": dict(zip(labels, row.options, strict=True)),
            "answer": labels[row.right],
        }
        return Item(id=row.name, prompt=self._prompt(text, facts), group=row.group)

    def _labels(self, row: ChoiceQuestion) -> Sequence[str]:
        """The options' names: letters, or as the task's question calls them."""
        if self.format == "options":
            return row.choices
        return ascii_uppercase[: len(row.options)]

    def _in_words(self, row: ChoiceQuestion) -> str:
        """The question with its options, a lettered line each."""
        if self.format == "options":
            return row.question
        pairs = zip(ascii_uppercase, row.options, strict=False)
        return "\n".join([row.question, *(f"{a}. {text}" for a, text in pairs)])

    def _prompt(self, text: str, facts: dict[str, Any], *more: str) -> Prompt:
        identity = record_id(self.kind, text, *more)
        return Prompt(identity, (user(text),), facts, str(self.kind))

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        rows = []
        for item in items:
            for answer in answers[item.id]:
                values: dict[str, float | None] = {self.headline: None}
                if not answer.error:
                    values |= self._values(item, answer)
                rows.append(
                    ItemScores(
                        item=item.id,
                        sample=answer.sample,
                        values=values,
                        group=item.group,
                        reason=answer.error,
                    )
                )
        return rows

    def _values(self, item: Item, answer: Answer) -> Mapping[str, float]:
        facts = item.prompt.facts
        if self.ask == "generate":
            stated = stated_option(answer.text, facts["choices"])
            return {"acc": float(stated == facts["answer"])}
        logprobs = np.array([each.logprob for each in answer.likelihoods])
        return self.by_likelihood(logprobs, facts)

    def by_likelihood(self, logprob_C: np.ndarray, facts: Mapping[str, Any]) -> dict[str, float]:
        """Accuracies from the log-probability of each choice."""
        length_C = np.array(facts["lengths"], float)
        own_C = logprob_C[: len(length_C)]
        right = facts["right"]
        per_character_C = own_C / np.maximum(length_C, 1)
        return {
            "acc": float(np.argmax(own_C) == right),
            "acc_norm": float(np.argmax(per_character_C) == right),
        }


def _worked_example(question: ChoiceQuestion) -> str:
    """The question as an example: with its right option."""
    before = question.contexts[question.right] if question.contexts else question.before
    return f"{before} {question.choices[question.right]}"


class MultipleChoice(Choices):
    """Questions with options, from a file in the columns of `format`."""

    kind: Literal["multiple_choice"] = "multiple_choice"


class TruthfulQA(Choices):
    """`mc1`: the one right answer is the likeliest of a first list; `mc2`, the headline: the share
    of probability on the right answers of a second list.

    Source: Lin, Hilton and Evans 2022, TruthfulQA, arXiv:2109.07958.
    """

    kind: Literal["truthfulqa"] = "truthfulqa"
    data: ClassVar[HubData | None] = HubData(
        "truthfulqa/truthful_qa", "multiple_choice", "validation"
    )
    licence: ClassVar[str] = "Apache 2.0, Lin, Hilton and Evans"
    format: Format = "truthfulqa"

    @property
    def headline(self) -> str:
        return "mc2" if self.ask == "likelihood" else "acc"

    def by_likelihood(self, logprob_C: np.ndarray, facts: Mapping[str, Any]) -> dict[str, float]:
        first = len(facts["lengths"])
        more_C = logprob_C[first:]
        share_C = np.exp(more_C - more_C.max())
        right_C = np.array(facts["more_right"], bool)
        return {
            "mc2": float(share_C[right_C].sum() / share_C.sum()),
            "mc1": float(np.argmax(logprob_C[:first]) == facts["right"]),
        }


class ARC(Choices):
    """Grade-school science questions.

    Source: Clark et al. 2018, Think you have Solved Question Answering?, arXiv:1803.05457.
    """

    kind: Literal["arc"] = "arc"
    licence: ClassVar[str] = "CC BY-SA 4.0, Allen Institute for AI"
    training: ClassVar[HubData | None] = HubData("allenai/ai2_arc", "ARC-Challenge", "train")
    format: Format = "arc"
    level: Literal["challenge", "easy"] = Field("challenge", description="which part")

    def hub_data(self) -> HubData:
        return HubData("allenai/ai2_arc", f"ARC-{self.level.capitalize()}", "test")


class MMLU(Choices):
    """Examination questions in 57 subjects, by the letters of their options; customary with 5
    shots.

    Source: Hendrycks et al. 2021, Measuring Massive Multitask Language Understanding,
    arXiv:2009.03300.
    """

    kind: Literal["mmlu"] = "mmlu"
    data: ClassVar[HubData | None] = HubData("cais/mmlu", "all", "test")
    training: ClassVar[HubData | None] = HubData("cais/mmlu", "all", "dev")
    licence: ClassVar[str] = "MIT, Hendrycks et al."
    format: Format = "mmlu"


class HellaSwag(Choices):
    """Choose how a description goes on.

    Source: Zellers et al. 2019, HellaSwag, arXiv:1905.07830.
    """

    kind: Literal["hellaswag"] = "hellaswag"
    data: ClassVar[HubData | None] = HubData("Rowan/hellaswag", split="validation")
    training: ClassVar[HubData | None] = HubData("Rowan/hellaswag", split="train")
    licence: ClassVar[str] = "MIT, Zellers et al."
    format: Format = "hellaswag"


class Winogrande(Choices):
    """Choose which of two belongs in a blank, by partial evaluation.

    Source: Sakaguchi et al. 2019, WinoGrande, arXiv:1907.10641.
    """

    kind: Literal["winogrande"] = "winogrande"
    data: ClassVar[HubData | None] = HubData("allenai/winogrande", "winogrande_xl", "validation")
    training: ClassVar[HubData | None] = HubData("allenai/winogrande", "winogrande_xl", "train")
    licence: ClassVar[str] = "CC BY, Allen Institute for AI"
    format: Format = "winogrande"


class GPQA(Choices):
    """Graduate questions in biology, physics and chemistry; the options are shuffled by `seed`.

    Source: Rein et al. 2023, GPQA, arXiv:2311.12022. Its authors ask that the questions not be
    published in plain text.
    """

    kind: Literal["gpqa"] = "gpqa"
    data: ClassVar[HubData | None] = HubData("Idavidrein/gpqa", "gpqa_diamond", "train")
    licence: ClassVar[str] = "CC BY 4.0, Rein et al.; gated"
    format: Format = "gpqa"
