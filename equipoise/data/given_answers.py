"""Pairs with answers that the data brings along: `prompts.row` reads them from rows.

Of rows with more than two scored answers the best and the worst are a pair. A row's scores are the
pair's; without any they are 1 and 0, as they are where a loss reads probabilities. An answer that
the row labels as not wanted is never the better one.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Literal

from pydantic import Field

from equipoise.data.pairs import JudgedMatches, PairMaker, ScoredAnswer, pair_of
from equipoise.prompts.columns import BLANK, WEIGHT_ZERO
from equipoise.prompts.row import (
    IDENTICAL,
    chosen_answer,
    pair_fault,
    rejected_answer,
    taught_answer,
)
from equipoise.prompts.schemas.conversation import read_answer
from equipoise.system.effects import Text
from equipoise.types import Answer, Pair, Prompt, Turns, record_id

NO_ANSWER = "no_answer"


class Data(PairMaker):
    """The data's own pairs in the first generations, without matches; then those of `then`."""

    kind: Literal["data"] = "data"
    generations: int = Field(
        1, ge=1, description="number of generations that learn from the data's own pairs"
    )
    then: PairMaker = Field(
        default="best_worst",  # type: ignore[assignment]
        description="makes the pairs of the later generations",
    )

    def plays(self, generation: int) -> bool:
        return generation >= self.generations and self.then.plays(generation)

    def by_judge(self, generation: int) -> bool:
        return generation >= self.generations and self.then.by_judge(generation)

    @property
    def answers(self) -> int:
        return self.then.answers

    @property
    def one_scale(self) -> bool:
        return self.then.one_scale

    def most(self, seats: int) -> int:
        return self.then.most(seats)

    def why_no_pair(self, prompt: Prompt, generation: int) -> str:
        if generation >= self.generations:
            return self.then.why_no_pair(prompt, generation)
        better, worse = both_answers(prompt)
        answers = {"chosen": better, "rejected": worse}
        absent = [name for name, answer in answers.items() if answer is None or is_blank(answer)]
        if len(absent) == 2 and any(answer.label is not None for answer in prompt.answers):
            if any(labelled_pairs(prompt, generation)):
                return ""
            return "no answer under chosen and rejected, and none with a label to learn"
        return f"no answer under {' and '.join(absent)}" if absent else ""

    def data_pairs(
        self, prompts: Sequence[Prompt], generation: int
    ) -> tuple[list[Pair], dict[str, int]]:
        """(a pair a prompt; the number of prompts without one, by reason). Labelled answers make
        pairs of a wanted and an unwanted one of the same prompt; those that are left over are pairs
        with one side, which `losses.preference.KTO` learns.

        Reasons: no_answer, identical, weight (0), score (not a finite number, lower than the other
        answer's, or none where other rows have one).
        """
        pairs: list[Pair] = []
        dropped: Counter[str] = Counter()
        scored = any(answer.score is not None for p in prompts for answer in p.answers)
        for prompt in prompts:
            better, worse = both_answers(prompt)
            labelled = list(labelled_pairs(prompt, generation)) if better is worse is None else []
            if labelled:
                pairs += labelled
                continue
            if better is None or worse is None or is_blank(better) or is_blank(worse):
                dropped[NO_ANSWER] += 1
                continue
            fault = pair_fault(better, worse)
            if fault:
                dropped[reason_of(fault)] += 1
                continue
            better_score = better.score
            worse_score = worse.score
            if better_score is None or worse_score is None:
                if scored:  # 1 and 0 are no scores on the others' scale
                    dropped["score"] += 1
                    continue
                better_score, worse_score = 1.0, 0.0
            source = f"data/{generation}/{prompt.id}"
            pairs.append(
                Pair(
                    id=record_id("pair", source, better.value, worse.value),
                    generation=generation,
                    prompt=prompt.id,
                    messages=prompt.messages,
                    chosen=better.value,
                    rejected=worse.value,
                    chosen_score=better_score,
                    rejected_score=worse_score,
                )
            )
        return pairs, dict(dropped)

    def make(self, judged: JudgedMatches) -> tuple[list[Pair], dict[str, int]]:
        return self.then.make(judged)


class DataWins(PairMaker):
    """SPIN's pairs: the data's answer against each sample, unjudged. (arXiv 2401.01335, §4.1)"""

    kind: Literal["data_wins"] = "data_wins"
    column: Text | None = Field(
        None, description="the column of the data's answer; by default `chosen`, else `completion`"
    )

    @property
    def answers(self) -> int:
        return 1

    def by_judge(self, generation: int) -> bool:
        return False

    def most(self, seats: int) -> int:
        return seats

    def why_no_pair(self, prompt: Prompt, generation: int) -> str:
        if self._answer(prompt):
            return ""
        return f"no answer under {self.column or 'chosen or completion'}"

    def make(self, judged: JudgedMatches) -> tuple[list[Pair], dict[str, int]]:
        """(pairs in the matches' order; others by reason: error, no_answer, identical)."""
        pairs: list[Pair] = []
        dropped: Counter[str] = Counter()
        for match in judged.matches:
            prompt = judged.prompts[match.prompt]
            chosen = self._answer(prompt)
            turns = match.last_turns().values()
            samples = {turn.move.text: turn for turn in turns if turn.move.finish != "error"}
            others = {text: turn for text, turn in samples.items() if text != chosen}
            if not chosen:
                dropped[NO_ANSWER] += 1
            elif not samples:
                dropped["error"] += 1
            elif not others:
                dropped["identical"] += 1
            else:
                better = ScoredAnswer(chosen, 1.0)
                for text, turn in others.items():
                    chat = turn.view.messages
                    pairs.append(pair_of(match, chat, better, ScoredAnswer(text, 0.0)))
        return pairs, dict(dropped)

    def _answer(self, prompt: Prompt) -> str | Turns:
        """The answer to imitate, or "". Raises DataError for a column that holds none."""
        if self.column is not None:
            value = prompt.facts.get(self.column)
            if value is None or isinstance(value, str):
                return value or ""
            written = read_answer(value, f"{prompt.source}: {self.column}")
            return Answer(written.messages).value
        answer = taught_answer(prompt.answers)
        if answer is None or answer.label is False or is_blank(answer) or answer.weight == 0:
            return ""
        return answer.value


def labelled_pairs(prompt: Prompt, generation: int) -> Iterator[Pair]:
    """Pairs of a prompt's labelled answers, the n-th wanted with the n-th unwanted one; those left
    over alone.
    """
    sound = [answer for answer in prompt.answers if not answer.fault]
    wanted = [answer for answer in sound if answer.label is True]
    unwanted = [answer for answer in sound if answer.label is False]
    for better, worse in zip_longest(wanted, unwanted):
        chosen = "" if better is None else better.value
        rejected = "" if worse is None else worse.value
        only: Literal["", "chosen", "rejected"] = ""
        if better is None or worse is None:
            only = "rejected" if better is None else "chosen"
        source = f"data/{generation}/{prompt.id}"
        yield Pair(
            id=record_id("pair", source, chosen, rejected),
            generation=generation,
            prompt=prompt.id,
            messages=prompt.messages,
            chosen=chosen,
            rejected=rejected,
            chosen_score=1.0,
            rejected_score=0.0,
            only=only,
        )


def both_answers(prompt: Prompt) -> tuple[Answer | None, Answer | None]:
    """The preferred and the rejected answer of a prompt's row."""
    return chosen_answer(prompt.answers), rejected_answer(prompt.answers)


def is_blank(answer: Answer) -> bool:
    """True for an answer that says nothing."""
    return answer.fault.startswith(BLANK)


def reason_of(fault: str) -> str:
    """The word under which pairs with this fault are counted."""
    if fault == IDENTICAL:
        return "identical"
    return "weight" if fault.startswith(WEIGHT_ZERO) else "score"
