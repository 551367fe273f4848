"""Pairs with answers that the data brings along, in the preference format of TRL.

    {"prompt": …, "chosen": "text", "rejected": "text"}
    {"prompt": …, "chosen": [messages], "rejected": [messages]}
    {"chosen": [the chat and its answer], "rejected": [likewise]}
    {"prompt": …, "completion": …}      one answer, for `data_wins`

Of messages, the assistant's at the end are the answer. A row's `score_chosen` and `score_rejected`
are the pair's scores; without them they are 1 and 0, as they are where a loss reads probabilities.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from equipoise.data.pairs import JudgedMatches, PairMaker, ScoredAnswer, pair_of
from equipoise.prompts.rows import read_chat
from equipoise.system.effects import Text
from equipoise.types import Match, Pair, Prompt, Turn, record_id

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
        absent = [name for name in ("chosen", "rejected") if not _text(prompt, name)]
        return f"no answer under {' and '.join(absent)}" if absent else ""

    def data_pairs(
        self, prompts: Sequence[Prompt], generation: int
    ) -> tuple[list[Pair], dict[str, int]]:
        """(a pair a prompt; the number of prompts without one, by reason: no_answer, identical)."""
        pairs: list[Pair] = []
        dropped: Counter[str] = Counter()
        for prompt in prompts:
            chosen, rejected = _text(prompt, "chosen"), _text(prompt, "rejected")
            if not chosen or not rejected:
                dropped[NO_ANSWER] += 1
            elif chosen == rejected:
                dropped["identical"] += 1
            else:
                scores = _scores(prompt.facts)
                source = f"data/{generation}/{prompt.id}"
                pairs.append(
                    Pair(
                        id=record_id("pair", source, chosen, rejected),
                        generation=generation,
                        prompt=prompt.id,
                        messages=prompt.messages,
                        chosen=chosen,
                        rejected=rejected,
                        chosen_score=scores[0],
                        rejected_score=scores[1],
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
            chosen, samples = self._answer(prompt), _samples(match)
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

    def _answer(self, prompt: Prompt) -> str:
        if self.column is not None:
            return _text(prompt, self.column)
        return _text(prompt, "chosen") or _text(prompt, "completion")


def _samples(match: Match) -> dict[str, Turn]:
    turns = match.last_turns().values()
    return {turn.move.text: turn for turn in turns if turn.move.finish != "error"}


def _text(prompt: Prompt, column: str) -> str:
    """The answer in a column or "". Raises DataError for what is neither a text nor a chat."""
    value = prompt.facts.get(column)
    if value is None or isinstance(value, str):
        return value or ""
    messages = read_chat(value, f"{prompt.source}: {column}")
    answer: list[str] = []
    for message in reversed(messages):
        if message.role != "assistant":
            break
        answer.insert(0, message.content)
    return "\n".join(answer)


def _scores(facts: Mapping[str, Any]) -> tuple[float, float]:
    """The row's own scores where it has both as numbers, else 1 and 0."""
    scores = facts.get("score_chosen"), facts.get("score_rejected")
    chosen, rejected = scores
    if isinstance(chosen, (int, float)) and isinstance(rejected, (int, float)):
        return float(chosen), float(rejected)
    return 1.0, 0.0
