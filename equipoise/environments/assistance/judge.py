"""The judge of the assistant's game: each task's own judge says how good a response is,
the rest is counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from equipoise.component import nearest
from equipoise.environments.assistance.blocks import ACTIONS, action
from equipoise.environments.assistance.game import (
    ASSISTANT,
    USER,
    Assistance,
    Said,
    asked_vaguely,
    conversation,
)
from equipoise.environments.assistance.tasks.by_source import FRONTIER, task_judges
from equipoise.environments.assistance.utilities import (
    VARIANTS,
    Reward,
    Terms,
    Variant,
    readable,
    reward,
)
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge, JudgeContext
from equipoise.payoffs.welfare import Welfare
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, Move, Prompt, Turn, View, Vote, record_id

Scores = dict[str, dict[str, float]]


class AssistanceJudge(Judge):
    """Pays user and model for the assistant's last response, and the assistant their
    joint welfare.

        score = welfare(user, llm),  user and llm as games.utilities.reward has them

    How good a response is says the judge of the prompt's data set (`tasks`, by source):
    its `score` is the quality to the model, its `user` that to the user, else the same.
    It sees the response alone. What it cannot judge is missing and paid nothing; an
    output without a response or a readable matrix is worth 0, and nobody is asked about
    it.
    """

    kind: Literal["assistance"] = "assistance"
    variant: Variant = Field(
        "corrected",
        description="corrected; as_released: as the published code pays, harmful prompts too; frontier: the second "
        "published reward, with a judge of the choice",
    )
    terms: Terms | None = Field(
        None, description="weights and windows of the reward; null: the variant's"
    )
    welfare: Welfare = Field(
        default="cobb_douglas", description="what both utilities come to"
    )  # type: ignore[assignment]
    by: Literal["rule", "llm"] = Field(
        "rule", description="how the known tasks are judged, unless `tasks` says so"
    )
    grader: Player | None = Field(
        None, description="the model that judges, where a known task is judged by one"
    )
    tasks: dict[str, Judge] = Field(
        default_factory=dict,
        description="data source -> its judge, over the known ones",
    )
    otherwise: Judge | None = Field(
        None, description="the judge of any other source; null: it is not judged"
    )

    _game: Assistance | None = PrivateAttr(None)
    _judges: dict[str, Judge] = PrivateAttr(default_factory=dict)

    @model_validator(mode="after")
    def _someone_judges(self) -> AssistanceJudge:
        if self.by == "llm" and self.grader is None:
            raise ValueError(
                "grader: by: llm needs the model that judges, e.g. grader: {kind: endpoint, …}"
            )
        return self

    @property
    def told(self) -> Terms:
        """The weights and windows in force."""
        return self.terms or VARIANTS[self.variant]

    def at(self, judge_context: JudgeContext) -> Self:
        """This judge with the tasks' judges seated. Raises ConfigError where another
        game is played.
        """
        if not isinstance(judge_context.game, Assistance):
            raise ConfigError(
                f"judge: 'assistance' judges the game assistance; this is {judge_context.game.kind}"
            )
        seated = self.model_copy()
        seated._game = judge_context.game
        seated._judges = {
            source: judge.at(judge_context) for source, judge in self.known().items()
        }
        if self.otherwise is not None:
            seated._judges[""] = self.otherwise.at(judge_context)
        return seated

    def known(self) -> dict[str, Judge]:
        """Data source -> its judge."""
        return {**task_judges(self.by, self.grader, self.variant), **self.tasks}

    def questions(self, seats: int, pool: int) -> int:
        """Those of the tasks' judges, at most."""
        judges = [*self.known().values(), *([self.otherwise] if self.otherwise else [])]
        return max((judge.questions(1, pool) for judge in judges), default=0)

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""
        assert self._game is not None, "the judge was never seated"
        parts = [_part(match, prompts[match.prompt], self._game) for match in matches]
        heard: dict[str, Judgement] = {}
        by_judge: dict[str, list[Part]] = {}
        for part in parts:
            if part is not None and readable(part.said[-1].output):
                by_judge.setdefault(self._source(part.prompt), []).append(part)
        for source, asked in by_judge.items():
            if source in self._judges:
                judged = {part.prompt.id: part.prompt for part in asked}
                judgements = self._judges[source].verdicts(
                    [part.match for part in asked], judged
                )
                heard |= {judgement.match: judgement for judgement in judgements}
        chosen = self._choices(by_judge)
        return [
            self._word(match, part, heard, chosen)
            for match, part in zip(matches, parts, strict=True)
        ]

    def _source(self, prompt: Prompt) -> str:
        return prompt.source if prompt.source in self._judges else ""

    def _choices(self, by_judge: Mapping[str, Sequence[Part]]) -> dict[str, Judgement]:
        """The words of the judge of choices, by the response's match, where the reward
        asks for them.
        """
        judge = self._judges.get(FRONTIER)
        if judge is None or not self.told.llm_frontier:
            return {}
        asked = {
            part.match.id: part.choice()
            for parts in by_judge.values()
            for part in parts
        }
        judgements = judge.verdicts(
            [match for match, _ in asked.values()], {p.id: p for _, p in asked.values()}
        )
        return dict(zip(asked, judgements, strict=True))

    def _word(
        self,
        match: Match,
        part: Part | None,
        heard: Mapping[str, Judgement],
        chosen: Mapping[str, Judgement],
    ) -> Judgement:
        if part is None:
            return self.judgement(match, None, _silence(match))
        judgement, choice = heard.get(part.match.id), chosen.get(part.match.id)
        votes: list[Vote] = [
            *(judgement.votes if judgement else ()),
            *(choice.votes if choice else ()),
        ]
        found = judgement.utilities(ASSISTANT) if judgement else {}
        on_frontier = choice.score(ASSISTANT, "score") if choice else None
        *earlier, last = (said.output for said in part.said)
        quality = found.get("score")
        if readable(last) and (
            quality is None or (self.told.llm_frontier and on_frontier is None)
        ):
            return self.judgement(
                match,
                None,
                self._unheard(part, judgement if quality is None else choice),
                votes,
            )
        paid = reward(
            last,
            found.get("user", quality),
            quality,
            "corrected",
            frontier=on_frontier,
            terms=self.told,
            earlier=earlier,
        )
        assert paid is not None
        return self.judgement(match, self._scores(part, match, paid, found), "", votes)

    def _scores(
        self, part: Part, match: Match, paid: Reward, found: Mapping[str, float]
    ) -> Scores:
        """The assistant's utilities: what counts, what it is made of, and what the
        task's judge said besides.
        """
        last = part.said[-1].output
        vague = asked_vaguely(part.prompt, match)
        did = action(last.response) if last.response else None
        facts = {
            name: value
            for name, value in found.items()
            if name not in ("score", "user")
        }
        facts |= {name: float(did == name) for name in ACTIONS}
        facts |= {} if vague is None else {"vague": float(vague)}
        score = float(self.welfare.value(paid.user, paid.llm))
        mine = {
            "score": score,
            "user": paid.user,
            "llm": paid.llm,
            "turns": float(len(part.said)),
        }
        mine |= {"format": 0.0, **paid.parts}
        scores = {ASSISTANT: {**facts, **mine, "readable": float(readable(last))}}
        if USER in match.seats:
            scores[USER] = {"score": paid.user}
        return scores

    def _unheard(self, part: Part, judgement: Judgement | None) -> str:
        if judgement is not None:
            return judgement.reason or "the task's judge gave no score"
        hint = (
            nearest(part.prompt.source, sorted(self._judges))
            if self._judges
            else "none is known"
        )
        return f"no judge for the data source '{part.prompt.source}' in judge.tasks; {hint}"


@dataclass(frozen=True, slots=True)
class Part:
    """What a task's judge is asked: a small match whose only move is the last response,
    with the prompt's facts.
    """

    match: Match
    prompt: Prompt
    said: Sequence[Said]

    def choice(self) -> tuple[Match, Prompt]:
        """The same for the judge of choices: the move is the whole output."""
        identity, output = record_id("choice", self.match.id), self.said[-1].output
        (turn,) = self.match.turns
        asked = Prompt(
            identity, self.prompt.messages, self.prompt.facts, self.prompt.source
        )
        return _small(self.match, identity, turn, output.text), asked


def _part(match: Match, prompt: Prompt, game: Assistance) -> Part | None:
    """The last thing that the assistant said, or None where it said nothing."""
    said = conversation(match, prompt, game)
    if not said or said[-1].turn.move.finish == "error":
        return None
    last = said[-1]
    identity = record_id("response", match.id)
    facts: dict[str, Any] = {**prompt.facts, "turn": len(said)}
    vague = asked_vaguely(prompt, match)
    facts |= {} if vague is None else {"asked_vaguely": vague}
    turn = Turn(ASSISTANT, View(tuple(last.heard)), last.turn.move)
    asked = Prompt(identity, tuple(last.heard), facts, prompt.source)
    return Part(_small(match, identity, turn, last.output.response or ""), asked, said)


def _small(match: Match, identity: str, turn: Turn, text: str) -> Match:
    """A match of the assistant's alone, in which it says `text`."""
    said = Turn(ASSISTANT, turn.view, Move(text, turn.move.finish))
    seats = {ASSISTANT: match.seats[ASSISTANT]}
    return Match(
        identity,
        match.generation,
        match.split,
        "answers",
        identity,
        seats,
        match.seed,
        (said,),
    )


def _silence(match: Match) -> str:
    failed = [turn.move.error for turn in match.turns if turn.move.finish == "error"]
    return (
        f"the move failed: {failed[-1]}"
        if failed
        else "the assistant was asked nothing"
    )
