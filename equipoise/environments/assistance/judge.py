"""Judge of the assistant's game: each task's own judge grades the response."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, Literal

import msgspec
from pydantic import Field, PrivateAttr, model_validator

from equipoise.component import nearest
from equipoise.environments.assistance.blocks import parse_as_released
from equipoise.environments.assistance.game import (
    ASSISTANT,
    USER,
    Assistance,
    AssistantAnswer,
    assistant_answers,
    is_vague,
)
from equipoise.environments.assistance.gtalign_tasks import (
    FRONTIER,
    PUBLISHED,
    reward_terms,
    task_judges,
)
from equipoise.environments.assistance.payoff_matrix import ACTIONS
from equipoise.environments.assistance.responses import response_action
from equipoise.environments.assistance.utilities import (
    VARIANTS,
    Reward,
    RewardTerms,
    Variant,
    is_paid,
    is_readable,
    reward,
)
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.payoffs.welfare import Welfare
from equipoise.players.base import Player
from equipoise.system.effects import Text
from equipoise.types import Judgement, Match, Move, Prompt, Turn, View, record_id

OTHERWISE = ""  # in place of a data source: the judge of those that have none


class AssistanceJudge(Judge):
    """Pays user and model for the assistant's last response, and the assistant their joint welfare.

        score = welfare(user, llm),  user and llm as in `utilities.reward`

    The judge of the prompt's data set (`tasks`, by source) grades the response alone: its `score`
    is the quality to the model, its `user` that to the user, else the same. Another scale, such as
    peers' from 1 to 10, is read as a share of it. What it cannot judge is missing; an output
    without a response or a readable matrix is worth 0, and nobody is asked about it.
    """

    kind: Literal["assistance"] = "assistance"
    whole_matches: ClassVar[bool] = True
    variant: Variant = Field(
        "corrected",
        description="corrected; as_released: as the published code reads and pays, harmful prompts "
        "too; frontier: its second reward, which pays for naming an action of the frontier; "
        "choice: the corrected one, which pays for choosing an outcome there",
    )
    terms: RewardTerms | None = Field(
        None, description="weights and windows of the reward; null: the variant's"
    )
    welfare: Welfare = Field(default="cobb_douglas", description="welfare of both utilities")  # type: ignore[assignment]
    by: Literal["rule", "llm"] = Field(
        "rule", description="judges of the known tasks, unless `tasks` has one"
    )
    grader: Player | None = Field(
        None, description="the model that judges, where a known task is judged by one"
    )
    tasks: dict[Text, Judge] = Field(
        default_factory=dict, description="data source -> its judge, over the known ones"
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

    def terms_of(self, source: str) -> RewardTerms:
        """Weights and windows of the reward on rows of that data source."""
        return self.terms or reward_terms(self.variant, source)

    def prepare(self) -> None:
        """Put the tasks' judges into the context. Raises as theirs, ConfigError."""
        game = self.judge_context.game
        if not isinstance(game, Assistance):
            raise ConfigError(
                f"judge: 'assistance' judges the game assistance; this is {game.kind}"
            )
        judges = self.known_judges()
        if self.otherwise is not None:
            judges[OTHERWISE] = self.otherwise
        for source, judge in judges.items():
            if not all(map(isfinite, judge.score_range or (0.0, 1.0))):
                place = f"tasks.{source}" if source else "otherwise"
                raise ConfigError(
                    f"judge.{place}: a quality is a share of its judge's scale, and the scores of "
                    f"'{judge.kind}' have no bounds; name one that grades, such as rubric"
                )
        self._game = game
        self._judges = {source: judge.at(self.judge_context) for source, judge in judges.items()}

    def known_judges(self) -> dict[str, Judge]:
        """Data source -> its judge."""
        return {**task_judges(self.by, self.grader, self.variant), **self.tasks}

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """The reason if the source has no known judge, or its judge lacks a fact; else ""."""
        judges = self.known_judges()
        judge = judges.get(prompt.source, self.otherwise)
        return self._no_judge(prompt, judges) if judge is None else judge.why_unjudgeable(prompt)

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        judges = self.known_judges()
        by_source: dict[str, list[Prompt]] = {}
        for prompt in prompts:
            by_source.setdefault(prompt.source, []).append(prompt)
        for source, of_source in by_source.items():
            judge = judges.get(source, self.otherwise)
            yield from judge.faults_of_prompts(of_source) if judge is not None else ()

    def questions(self, seats: int, pool: int) -> int:
        """At most those of one task's judge, and of <analyze>'s where its grade is paid for."""
        judges = self.known_judges()
        analysis = judges.pop(FRONTIER)
        if self.otherwise is not None:
            judges[OTHERWISE] = self.otherwise
        count = max((judge.questions(1, pool) for judge in judges.values()), default=0)
        if (self.terms or VARIANTS[self.variant]).llm_frontier:
            count += analysis.questions(1, pool)
        return count

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        assert self._game is not None, "the judge has no context yet"
        responses = [self._response(match, prompts[match.prompt]) for match in matches]
        by_source: dict[str, list[JudgedResponse]] = {}
        for response in responses:
            if response is not None and self._is_paid(response):
                source = response.prompt.source
                known_judges = source if source in self._judges else OTHERWISE
                by_source.setdefault(known_judges, []).append(response)
        graded = []
        for items in by_source.values():
            graded.extend(items)
        qualities = self._qualities(by_source)
        choices = self._choices(graded)
        return [
            self._unanswered(match)
            if response is None
            else self._pay(
                match, response, qualities.get(response.match.id), choices.get(response.match.id)
            )
            for match, response in zip(matches, responses, strict=True)
        ]

    def _response(self, match: Match, prompt: Prompt) -> JudgedResponse | None:
        assert self._game is not None
        response = judged_response(match, prompt, self._game)
        if response is None or self.variant not in PUBLISHED or not self._game.blocks:
            return response
        answers = [
            replace(answer, output=parse_as_released(answer.output.text))
            for answer in response.answers
        ]
        return replace(response, answers=answers)

    def _is_paid(self, response: JudgedResponse) -> bool:
        return is_paid(response.last.output, self.terms_of(response.prompt.source))

    def _qualities(self, by_source: Mapping[str, Sequence[JudgedResponse]]) -> dict[str, Judgement]:
        by_match: dict[str, Judgement] = {}
        for source, responses in by_source.items():
            if source not in self._judges:
                continue
            prompts = {response.prompt.id: response.prompt for response in responses}
            matches = [response.match for response in responses]
            judge = self._judges[source]
            judgements = judge.checked_judgements(matches, prompts)
            by_match |= {judgement.match: as_share(judgement, judge) for judgement in judgements}
        return by_match

    def _choices(self, responses: Iterable[JudgedResponse]) -> dict[str, Judgement]:
        """Judgements of <analyze> by the response's match, where the reward uses them."""
        judge = self._judges[FRONTIER]
        choices = {
            response.match.id: response.choice()
            for response in responses
            if self.terms_of(response.prompt.source).llm_frontier
        }
        matches = [match for match, _ in choices.values()]
        prompts = {prompt.id: prompt for _, prompt in choices.values()}
        judgements = judge.checked_judgements(matches, prompts)
        return dict(zip(choices, judgements, strict=True))

    def _pay(
        self,
        match: Match,
        response: JudgedResponse,
        quality: Judgement | None,
        choice: Judgement | None,
    ) -> Judgement:
        """The worth of the match's last response, or the reason why it is unknown."""
        votes = []
        for judgement in (quality, choice):
            if judgement:
                votes.extend(judgement.votes)
        grades = quality.utilities(ASSISTANT) if quality else {}
        on_frontier = choice.score(ASSISTANT, "score") if choice else None
        *earlier, last = (answer.output for answer in response.answers)
        terms = self.terms_of(response.prompt.source)
        if is_paid(last, terms):
            if "score" not in grades:
                return self.judgement(match, None, self._why_none(response, quality), votes)
            if terms.llm_frontier and on_frontier is None:
                return self.judgement(match, None, self._why_none(response, choice), votes)
        paid = reward(
            last,
            grades.get("user", grades.get("score")),
            grades.get("score"),
            self.variant,
            frontier=on_frontier,
            terms=terms,
            earlier=earlier,
        )
        assert paid is not None
        scores = {ASSISTANT: self._utilities(response, match, paid, grades)}
        if USER in match.seats:
            scores[USER] = {"score": paid.user}
        return self.judgement(match, scores, "", votes)

    def _utilities(
        self, response: JudgedResponse, match: Match, paid: Reward, grades: Mapping[str, float]
    ) -> dict[str, float]:
        """The task judge's other scores, the action, the pay-offs and their parts."""
        output = response.last.output
        action = response_action(output.response) if output.response else None
        vague = is_vague(response.prompt, match)
        utilities = {name: value for name, value in grades.items() if name not in ("score", "user")}
        utilities |= {name: float(action == name) for name in ACTIONS}
        if vague is not None:
            utilities["vague"] = float(vague)
        return {
            **utilities,
            "score": float(self.welfare.value(paid.user, paid.llm)),
            "user": paid.user,
            "llm": paid.llm,
            "turns": float(len(response.answers)),
            "format": 0.0,
            **paid.parts,
            "readable": float(is_readable(output)),
        }

    def _unanswered(self, match: Match) -> Judgement:
        errors = [turn.move.error for turn in match.turns if turn.move.finish == "error"]
        if errors:
            return self.judgement(match, None, f"the move failed: {errors[-1]}")
        return self.judgement(match, None, "the assistant was asked nothing")

    def _why_none(self, response: JudgedResponse, judgement: Judgement | None) -> str:
        if judgement is not None:
            return judgement.reason or "the task's judge gave no score"
        return self._no_judge(response.prompt, self._judges)

    def _no_judge(self, prompt: Prompt, judges: Mapping[str, Judge]) -> str:
        hint = nearest(prompt.source, sorted(judges)) if judges else "none is known"
        return f"no judge for the data source '{prompt.source}' in judge.tasks; {hint}"


def as_share(judgement: Judgement, judge: Judge) -> Judgement:
    """The judgement with `score` between 0 and 1, where the judge's scale is another."""
    if judge.score_range in (None, (0.0, 1.0)) or judgement.scores is None:
        return judgement
    low, high = judge.score_range
    scores = {
        seat: {
            name: (value - low) / (high - low) if name == "score" else value
            for name, value in utilities.items()
        }
        for seat, utilities in judgement.scores.items()
    }
    return msgspec.structs.replace(judgement, scores=scores)


@dataclass(frozen=True, slots=True)
class JudgedResponse:
    """The assistant's last response as tasks' judges see it: a match of that one move.

    The prompt has the chat as the user sees it; `answers` are all in the real match.
    """

    match: Match
    prompt: Prompt
    answers: Sequence[AssistantAnswer]

    @property
    def last(self) -> AssistantAnswer:
        return self.answers[-1]

    def choice(self) -> tuple[Match, Prompt]:
        """The same for the judge of <analyze>: the move is the whole output."""
        identity = record_id("choice", self.match.id)
        prompt = self.prompt
        renamed = Prompt(identity, prompt.messages, prompt.facts, prompt.source)
        (turn,) = self.match.turns
        text = self.last.output.text
        return single_move(self.match, identity, turn, text), renamed


def judged_response(match: Match, prompt: Prompt, game: Assistance) -> JudgedResponse | None:
    """The last response of a match, or None where the assistant gave none."""
    answers = assistant_answers(match, prompt, game)
    if not answers or answers[-1].turn.move.finish == "error":
        return None
    last = answers[-1]
    identity = record_id("response", match.id)
    facts: dict[str, Any] = {**prompt.facts, "turn": len(answers)}
    vague = is_vague(prompt, match)
    if vague is not None:
        facts["asked_vaguely"] = vague
    turn = Turn(ASSISTANT, View(last.chat), last.turn.move)
    return JudgedResponse(
        single_move(match, identity, turn, last.output.response or ""),
        Prompt(identity, last.chat, facts, prompt.source),
        answers,
    )


def single_move(match: Match, identity: str, turn: Turn, text: str) -> Match:
    return Match(
        identity,
        match.generation,
        match.split,
        "answers",
        identity,
        {ASSISTANT: match.seats[ASSISTANT]},
        match.seed,
        (Turn(ASSISTANT, turn.view, Move(text, turn.move.finish)),),
    )
