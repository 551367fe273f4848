"""The questions that endpoints are asked in a run, and their money: about, and at most."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.component import named_within
from equipoise.evaluation.measure import JudgeScore
from equipoise.judges.base import Judge
from equipoise.judges.question import Question
from equipoise.planning.counts import RunWork, longest_answer
from equipoise.players.base import Player
from equipoise.players.endpoint import Endpoint
from equipoise.runs.config import RunConfig
from equipoise.runs.named_sets.set_plan import (
    BYTES_PER_TOKEN,
    TEMPLATE_TOKENS,
    SetPlan,
    mean_tokens,
)
from equipoise.types import Prompt

USUAL_SHARE = 0.5  # of max_new_tokens: the length of an answer that a plan reckons with
USUAL_VERDICT = 60  # tokens of a judge's reply with its reason, where it may have more


@dataclass(frozen=True)
class EndpointPlan:
    """What an endpoint may be asked, at `place` in the configuration.

    `questions` at most, where each is answered at once; `requests` at most, where every one fails
    as often as `retries` allows. `money` is for texts of usual length: answers of half of
    `max_new_tokens`, verdicts of `USUAL_VERDICT` tokens; `money_at_most` for the longest, and
    `most_money` for these where every request is made. None without prices.
    """

    place: str
    account: str
    questions: int
    requests: int
    money: float | None
    money_at_most: float | None
    most_money: float | None
    budget: dict[str, float]
    currency: str = ""

    def text(self) -> str:
        """The plan to read, on one line."""
        text = f"{self.questions:,} questions at most"
        failing = f"{self.requests:,} requests"
        if self.money is not None:
            text += f", about {amount(self.money)} {self.currency}"
            text += f" ({amount(self.money_at_most)} if every text is as long as it may be)"
            failing += f", {amount(self.most_money)} {self.currency}"
        limits = ", ".join(f"{name} {limit:,}" for name, limit in self.budget.items())
        return f"{text}; if all fail until the last retry, {failing}; budget: {limits or 'none'}"


def amount(money: float | None) -> str:
    """An amount of money; of a small one two digits."""
    if money is None:
        return "–"
    if money >= 1 or money == 0:
        return f"{money:,.2f}"
    digits = 1 - math.floor(math.log10(money))
    return f"{money:.{digits}f}"


@dataclass(frozen=True)
class Questions:
    """Questions of one sort to one player: their number, the tokens of each without the answers
    that it quotes, the number of these, and whether the reply is a verdict.
    """

    count: float
    tokens: float
    quoted: int = 0
    is_verdict: bool = False


def plan_endpoints(
    config: RunConfig, work: RunWork, sets: Sequence[SetPlan], prompts: Sequence[Prompt]
) -> Iterator[EndpointPlan]:
    """Plan each endpoint's questions, requests and money."""
    prompt = mean_tokens(prompts)
    by_place: dict[str, list[Questions]] = defaultdict(list)
    for name in config.players:
        answers = float(work.training_moves.get(name, 0) + work.measuring_moves.get(name, 0))
        if name in config.measured:
            answers += sum(of_set.answers for of_set in sets) / len(config.measured)
        by_place[f"players.{name}"].append(Questions(answers, prompt))
    for place, judge in judge_places(config).items():
        for matches, seats in work.judged.get(judge.name, ()):
            for to, questions in judge_questions(config, judge, place, seats, prompt).items():
                for each in questions:
                    count = matches * each.count
                    by_place[to].append(Questions(count, each.tokens, each.quoted, is_verdict=True))
    for of_set in sets:
        judge = config.evaluate.sets[of_set.name].judge
        if judge is None or not of_set.questions:
            continue
        place = f"evaluate.sets.{of_set.name}.judge"
        of_each = judge_questions(config, judge, place, 1, prompt)
        whole = sum(each.count for questions in of_each.values() for each in questions)
        for to, questions in of_each.items():
            for each in questions:
                count = of_set.questions * each.count / whole
                by_place[to].append(Questions(count, each.tokens, each.quoted, is_verdict=True))
    answer = max(map(longest_answer, config.players.values()), default=0)
    for place, player in config.every_player():
        if isinstance(player, Endpoint):
            yield endpoint_plan(place, player, by_place[place], answer)


def endpoint_plan(
    place: str, player: Endpoint, questions: Sequence[Questions], answer: int
) -> EndpointPlan:
    """The plan of one endpoint; `answer`: tokens of the longest answer that may be quoted."""
    count = math.ceil(sum(each.count for each in questions))
    longest = player.max_new_tokens
    usual_money = 0.0
    most_money = 0.0
    for each in questions:
        usual_reply = USUAL_SHARE * longest
        if each.is_verdict:
            usual_reply = min(USUAL_VERDICT, longest)
        usual_read = each.tokens + each.quoted * USUAL_SHARE * answer
        longest_read = each.tokens + each.quoted * answer
        usual_money += each.count * player.cost(usual_read, usual_reply)
        most_money += each.count * player.cost(longest_read, longest)
    has_prices = player.prices is not None
    return EndpointPlan(
        place=place,
        account=player.account or player.model,
        questions=count,
        requests=count * player.most_requests,
        money=usual_money if has_prices else None,
        money_at_most=most_money if has_prices else None,
        most_money=most_money * player.most_requests if has_prices else None,
        budget={name: limit for name, limit in player.budget if limit is not None},
        currency="" if player.prices is None else player.prices.currency,
    )


def judge_places(config: RunConfig) -> dict[str, Judge]:
    """Place in the configuration -> judge; of equal judges the first."""
    places: dict[str, Judge] = {"judge": config.judge}
    for name, judge in config.judges.items():
        places[f"judges.{name}"] = judge
    if config.evaluate.judge is not None:
        places["evaluate.judge"] = config.evaluate.judge
    for number, measure in enumerate(config.measures):
        if isinstance(measure, JudgeScore):
            places[f"measures.{number}.judge"] = measure.judge
    by_name: dict[str, str] = {}
    for place, judge in places.items():
        by_name.setdefault(judge.name, place)
    return {place: places[place] for place in by_name.values()}


def judge_questions(
    config: RunConfig, judge: Judge, place: str, seats: int, prompt: float
) -> dict[str, list[Questions]]:
    """Place of a player -> what a judge asks it about one match of so many seats.

    A judge with no model of its own asks the run's players, which share its questions.
    """
    pool = len(config.players)
    by_place: dict[str, list[Questions]] = defaultdict(list)
    for to, asking in asked_players(judge, place):
        count = asking.questions(seats, pool) or judge.questions(seats, pool)
        tokens = question_tokens(asking) + prompt
        by_place[to].append(Questions(count, tokens, asking.quoted_answers(seats)))
    if not by_place:
        count = judge.questions(seats, pool) / pool
        tokens = question_tokens(judge) + prompt
        for name in config.players:
            by_place[f"players.{name}"].append(
                Questions(count, tokens, judge.quoted_answers(seats))
            )
    return by_place


def asked_players(
    part: Any, place: str, asking: Judge | None = None
) -> Iterator[tuple[str, Judge]]:
    """(place, the innermost judge that asks it) of every player in a judge's settings."""
    if isinstance(part, Player):
        assert asking is not None, "a judge asks its players"
        yield place, asking
        return
    if isinstance(part, Judge):
        asking = part
    for name, inner in named_within(part):
        yield from asked_players(inner, f"{place}.{name}", asking)


def question_tokens(judge: Judge) -> float:
    """About how many tokens a judge's question has without what it quotes."""
    question = getattr(judge, "question", None)
    if isinstance(question, Question):
        return len(question.template.source.encode()) / BYTES_PER_TOKEN
    return TEMPLATE_TOKENS
