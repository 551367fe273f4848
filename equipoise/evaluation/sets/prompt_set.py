"""Any prompts with any judge, or with a rule that is a judge: the benchmark behind `--on FILE
--judge …`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from equipoise.errors import DataError
from equipoise.evaluation.sets.base import Benchmark, Conversation
from equipoise.games.base import Game
from equipoise.judges.base import JudgeContext
from equipoise.ledger.item_scores import Answers, Item, Items, ItemScores, Judged
from equipoise.prompts.base import Prompts
from equipoise.system.effects import Text
from equipoise.types import Prompt


class PromptSet(Benchmark):
    """Every prompt of a source is answered, and a judge scores the answers.

    A judge that compares sets each answer beside the one of the player's own start, or, with
    `reference`, beside the one that the data bring; `win_rate` is then the mean probability of
    winning, ties counting half.
    """

    kind: Literal["prompts"] = "prompts"
    needs_judge: ClassVar[bool] = True
    data_fields: ClassVar[tuple[str, ...]] = ("prompts",)

    prompts: Prompts = Field(description="any source of prompts; a file's path alone")
    game: Game | None = Field(
        None,
        description="the rules by which a prompt is played, such as those that the "
        "player was trained in; null: it is asked as it stands",
    )
    utility: Text = Field("score", description="the judge's utility that is the headline")
    reference: Text | None = Field(
        None,
        description="the fact with the answer that a comparing judge sets beside the "
        "player's, such as completion; null: the answer of the player's own start",
    )

    @field_validator("prompts", mode="before")
    @classmethod
    def _file(cls, value: Any) -> Any:
        """A path alone is a file of prompts."""
        if isinstance(value, str) and value not in Prompts.known_kinds():
            return {"kind": "files", "path": value}
        return value

    @property
    def game_played(self) -> Game:
        return self.game or Conversation()

    def faults(self, items: Items, context: JudgeContext) -> Iterator[str]:
        yield from super().faults(items, context)
        if self.game is None:
            return
        roles = {self.game.role(s) for i in items for s in self.game.seats_for(i.prompt)}
        if len(roles) > 1:
            yield (
                f"game '{self.game.kind}' has the roles {', '.join(sorted(roles))}, "
                "and a set measures one player alone; a verb of the game, such as "
                "crossplay, lets players meet"
            )
        elif self.compares:
            yield (
                f"judge '{self.judge and self.judge.kind}' compares answers, and "
                f"matches of game '{self.game.kind}' are judged one by one; leave out "
                "game, or name a judge that scores"
            )
        yield from self.game.faults([item.prompt for item in items])

    @property
    def headline(self) -> str:
        return "win_rate" if self.compares else self.utility

    @property
    def against_start(self) -> bool:
        return self.compares and self.reference is None

    def load(self) -> list[Item]:
        """The source's test part where it has one, else all its prompts.

        Raises DataError for a prompt that lacks the answer to compare with.
        """
        source = self.prompts.load()
        prompts = source.test or source.training
        return [
            Item(
                id=prompt.id,
                prompt=prompt,
                reference=self._reference(prompt, number),
                group=prompt.source,
            )
            for number, prompt in enumerate(prompts, 1)
        ]

    def _reference(self, prompt: Prompt, number: int) -> tuple[str, ...]:
        if self.reference is None:
            return ()
        answer = prompt.facts.get(self.reference)
        if not isinstance(answer, str):
            raise DataError(
                f"{prompt.source or 'prompts'}: prompt {number} has no text in the fact "
                f"'{self.reference}' to compare with; its facts are "
                f"{', '.join(prompt.facts) or 'none'}"
            )
        return (answer,)

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """Every utility that the judge gave; of a comparison the probability of winning."""
        groups = {item.id: item.group for item in items}
        several = len(set(groups.values())) > 1
        rows = []
        for verdict in judged:
            question = verdict.question
            utilities = verdict.utilities or {}
            values: dict[str, float | None] = {self.headline: None, **utilities}
            if self.compares:
                values = {"win_rate": utilities.get("score")}
            missing = values[self.headline] is None
            rows.append(
                ItemScores(
                    item=question.item,
                    sample=question.sample,
                    values=values,
                    group=groups[question.item] if several else "",
                    reason=(verdict.reason or "no score") if missing else "",
                )
            )
        return rows
