"""The judge of the assistant's game: each task's own judge grades the response, the rest of the
reward is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec
from pydantic import Field, PrivateAttr, model_validator

from equipoise.component import nearest
from equipoise.environments.assistance.conversation import is_vague
from equipoise.environments.assistance.game import ASSISTANT, USER, Assistance
from equipoise.environments.assistance.judged_response import JudgedResponse, judged_response
from equipoise.environments.assistance.payoff_matrix import ACTIONS
from equipoise.environments.assistance.response_action import response_action
from equipoise.environments.assistance.tasks.by_source import FRONTIER, task_judges
from equipoise.environments.assistance.utilities import (
    VARIANTS,
    Reward,
    RewardTerms,
    Variant,
    readable,
    reward,
)
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.payoffs.welfare import Welfare
from equipoise.players.base import Player
from equipoise.types import Judgement, Match, Prompt

OTHERWISE = ""  # in place of a data source: the judge of those that have none


class AssistanceJudge(Judge):
    """Pays user and model for the assistant's last response, and the assistant their joint welfare.

        score = welfare(user, llm),  user and llm as in `utilities.reward`

    The judge of the prompt's data set (`tasks`, by source) grades the response: its `score` is the
    quality to the model, its `user` that to the user, else the same. It sees the response alone. A
    judge of another scale, such as peers from 1 to 10, is read as a share of it. What it cannot
    judge is missing and paid nothing; an output without a response or a readable matrix is worth 0,
    and nobody is asked about it.
    """

    kind: Literal["assistance"] = "assistance"
    variant: Variant = Field(
        "corrected",
        description="corrected; as_released: as the published code pays, harmful "
        "prompts too; frontier: the second published reward, which pays for naming an "
        "action of the frontier; choice: the corrected one, which pays for choosing an "
        "outcome there",
    )
    terms: RewardTerms | None = Field(
        None, description="weights and windows of the reward; null: the variant's"
    )
    welfare: Welfare = Field(default="cobb_douglas", description="what both utilities come to")  # type: ignore[assignment]
    by: Literal["rule", "llm"] = Field(
        "rule", description="how the known tasks are judged, unless `tasks` has their judge"
    )
    grader: Player | None = Field(
        None, description="the model that judges, where a known task is judged by one"
    )
    tasks: dict[str, Judge] = Field(
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

    @property
    def reward_terms(self) -> RewardTerms:
        """The weights and windows in force."""
        return self.terms or VARIANTS[self.variant]

    def prepare(self) -> None:
        """Put the tasks' judges into this judge's context.

        Raises ConfigError where another game is played, and what their `prepare` raises.
        """
        game = self.judge_context.game
        if not isinstance(game, Assistance):
            raise ConfigError(
                f"judge: 'assistance' judges the game assistance; this is {game.kind}"
            )
        judges = self.known()
        if self.otherwise is not None:
            judges[OTHERWISE] = self.otherwise
        self._game = game
        self._judges = {source: judge.at(self.judge_context) for source, judge in judges.items()}

    def known(self) -> dict[str, Judge]:
        """Data source -> its judge."""
        return {**task_judges(self.by, self.grader, self.variant), **self.tasks}

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """That no judge is known for its source, or what it lacks for that judge."""
        judges = self.known()
        judge = judges.get(prompt.source, self.otherwise)
        return self._no_judge(prompt, judges) if judge is None else judge.why_unjudgeable(prompt)

    def questions(self, seats: int, pool: int) -> int:
        """Those of the task's judge at most, and of the judge of <analyze> where the reward has its
        grade.
        """
        judges = self.known()
        analysis = judges.pop(FRONTIER)
        if self.otherwise is not None:
            judges[OTHERWISE] = self.otherwise
        count = max((judge.questions(1, pool) for judge in judges.values()), default=0)
        if self.reward_terms.llm_frontier:
            count += analysis.questions(1, pool)
        return count

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""
        assert self._game is not None, "the judge has no context yet"
        responses = [judged_response(match, prompts[match.prompt], self._game) for match in matches]
        by_source: dict[str, list[JudgedResponse]] = {}
        for response in responses:
            if response is not None and readable(response.last.output):
                source = self._source(response.prompt)
                by_source.setdefault(source, []).append(response)
        graded = [item for items in by_source.values() for item in items]
        qualities = self._qualities(by_source)
        choices = self._choices(graded)
        return [
            self._nothing_said(match)
            if response is None
            else self._paid(
                match, response, qualities.get(response.match.id), choices.get(response.match.id)
            )
            for match, response in zip(matches, responses, strict=True)
        ]

    def _source(self, prompt: Prompt) -> str:
        return prompt.source if prompt.source in self._judges else OTHERWISE

    def _qualities(self, by_source: Mapping[str, Sequence[JudgedResponse]]) -> dict[str, Judgement]:
        """The judgements of the tasks' judges, by the response's match."""
        by_match: dict[str, Judgement] = {}
        for source, responses in by_source.items():
            if source not in self._judges:
                continue
            prompts = {response.prompt.id: response.prompt for response in responses}
            matches = [response.match for response in responses]
            judge = self._judges[source]
            judgements = judge.judge_checked(matches, prompts)
            by_match |= {judgement.match: as_share(judgement, judge) for judgement in judgements}
        return by_match

    def _choices(self, responses: Iterable[JudgedResponse]) -> dict[str, Judgement]:
        """The judgements of the judge of <analyze>, by the response's match, where the reward has
        them.
        """
        judge = self._judges.get(FRONTIER)
        if judge is None or not self.reward_terms.llm_frontier:
            return {}
        choices = {response.match.id: response.choice() for response in responses}
        matches = [match for match, _ in choices.values()]
        prompts = {prompt.id: prompt for _, prompt in choices.values()}
        judgements = judge.judge_checked(matches, prompts)
        return dict(zip(choices, judgements, strict=True))

    def _paid(
        self,
        match: Match,
        response: JudgedResponse,
        quality: Judgement | None,
        choice: Judgement | None,
    ) -> Judgement:
        """The judgement on `match`: what its last response is worth, or why that is not known."""
        votes = [vote for given in (quality, choice) if given for vote in given.votes]
        grades = quality.utilities(ASSISTANT) if quality else {}
        on_frontier = choice.score(ASSISTANT, "score") if choice else None
        *earlier, last = (answer.output for answer in response.answers)
        if readable(last):
            if "score" not in grades:
                return self.judgement(match, None, self._why_none(response, quality), votes)
            if self.reward_terms.llm_frontier and on_frontier is None:
                return self.judgement(match, None, self._why_none(response, choice), votes)
        paid = reward(
            last,
            grades.get("user", grades.get("score")),
            grades.get("score"),
            self.variant,
            frontier=on_frontier,
            terms=self.reward_terms,
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
        """The assistant's utilities: what else the task's judge gave, the action, what counts, and
        what that is made of.
        """
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
            "readable": float(readable(output)),
        }

    def _nothing_said(self, match: Match) -> Judgement:
        """The judgement on a match in which the assistant gave no answer."""
        errors = [turn.move.error for turn in match.turns if turn.move.finish == "error"]
        if errors:
            return self.judgement(match, None, f"the move failed: {errors[-1]}")
        return self.judgement(match, None, "the assistant was asked nothing")

    def _why_none(self, response: JudgedResponse, judgement: Judgement | None) -> str:
        """Why a grade is missing."""
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
