"""A judge that ranks all answers to one prompt in one question."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from statistics import fmean
from string import ascii_uppercase
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge, JudgeContext, last_answers, reasons_without_answer
from equipoise.judges.question import (
    FAILED,
    PLACEHOLDERS,
    UNREADABLE,
    Question,
    QuestionSettings,
    brief_reason,
    control_tokens_of,
)
from equipoise.judges.quoting import transcript
from equipoise.judges.read_verdict import NOUN, Unread, VerdictForm, as_text, last_verdict
from equipoise.players.base import Player
from equipoise.system.effects import TemplateText
from equipoise.types import Judgement, Match, Message, Move, Prompt, View, Vote

RANKING_KEYS = ("ranking", "ranked", "order")


@dataclass(frozen=True, slots=True)
class Lineup:
    """A question: the distinct texts of a group in the order in which they are shown, each with
    the seats that gave it.
    """

    match: Match
    messages: tuple[Message, ...]
    texts: Sequence[str]
    seats: Sequence[Sequence[str]]
    seed: int

    @property
    def labels(self) -> Sequence[str]:
        """The letters under which the texts are shown."""
        return ascii_uppercase[: len(self.texts)]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The places of a lineup's texts, the best first, or why there are none."""

    lineup: Lineup
    places: Sequence[int]
    reason: str = ""
    tokens: int = 0
    cost: float = 0.0

    def votes(self, by: str) -> list[Vote]:
        """One vote for every two texts, on that shown first: 1 where it is ranked above the other.

        What the question cost stands in the first.
        """
        place_of = {text: place for place, text in enumerate(self.places)}
        votes = []
        for first, second in combinations(range(len(self.lineup.texts)), 2):
            value = None
            if not self.reason:
                value = float(place_of[first] < place_of[second])
            for seat, other in product(self.lineup.seats[first], self.lineup.seats[second]):
                tokens = 0 if votes else self.tokens
                cost = 0.0 if votes else self.cost
                votes.append(Vote(by, seat, value, other, self.reason, tokens, cost))
        return votes

    def shares(self) -> dict[str, float]:
        """Seat -> the share of the group's other seats that it is ranked above; ½ of its equals."""
        groups = [self.lineup.seats[text] for text in self.places]
        total = sum(map(len, groups))
        below = total
        shares = {}
        for group in groups:
            below -= len(group)
            won = below + 0.5 * (len(group) - 1)
            shares.update(dict.fromkeys(group, won / (total - 1)))
        return shares


class Listwise(QuestionSettings, Judge):
    """Scores each seat by `model`'s ranking of all answers to one prompt, in one question.

        score_a = mean over the orders shown of (seats ranked below a) / (seats − 1)

    A group of n takes `orders` questions, where pairwise takes n(n − 1). Answers are shown in a
    random order; every second order is the one before it turned round, so that with an even number
    a preference for places cancels. Equal texts are shown once, and share their place. A ranking
    that leaves out an answer, names one twice or another one is none; a group is judged where all
    its orders were read. Every two answers of a ranking are a vote, on the one shown first, so that
    reports show the bias of places and how often the orders contradict each other.

    Source: relative scores of a group in one call, as RULER (OpenPipe's ART) asks for them.
    """

    placeholders: ClassVar[tuple[str, ...]] = (*PLACEHOLDERS, "answers", "labels")
    compares: ClassVar[bool] = True
    bounds: ClassVar = (0.0, 1.0)
    known_utilities: ClassVar = ("score",)

    kind: Literal["listwise"] = "listwise"
    model: Player = Field(description="the judging model, a player that no seat holds")
    text: TemplateText = Field(
        default="listwise",
        description="the question's template: a file, or a packaged one (listwise, or "
        "listwise_compact for small models)",
    )
    orders: int = Field(
        default=2, ge=1, description="orders in which a group is shown, each a question"
    )

    def at(self, judge_context: JudgeContext) -> Self:
        game = judge_context.game
        if not game.asks_alike:
            raise ConfigError(
                f"judge: 'listwise' ranks answers to one chat, and no two seats of game "
                f"'{game.kind}' are asked alike; set judge.kind: transcript"
            )
        if len(game.seats) > len(ascii_uppercase):
            raise ConfigError(
                f"judge: 'listwise' ranks {len(ascii_uppercase)} answers at most, and game "
                f"'{game.kind}' has {len(game.seats)} seats; set judge.kind: pairwise"
            )
        return super().at(judge_context)

    def prepare(self) -> None:
        _ = self.question

    @cached_property
    def question(self) -> Question:
        """The template of the question. Raises DataError."""
        question = self.question_with(("answers",), {"labels": ""}, needed=("answers",))
        return replace(question, verdict="ranking")

    def questions(self, seats: int, pool: int) -> int:
        return self.orders if seats > 1 else 0

    def quoted_answers(self, seats: int) -> int:
        return seats

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        lineups: list[Lineup] = []
        for match in matches:
            lineups += self.lineups(match)
        tokens = control_tokens_of(self.judge_context.actor(self.model))
        questions = [self.question_about(lineup) for lineup in lineups]
        views = []
        for lineup, question in zip(lineups, questions, strict=True):
            prompt = prompts[lineup.match.prompt]
            views.append(self.view(question, lineup, prompt, tokens))
        dice = [lineup.seed for lineup in lineups]
        moves = self.judge_context.ask(self.model, views, dice) if views else []
        rankings: dict[str, list[Ranking]] = {match.id: [] for match in matches}
        for lineup, question, view, move in zip(lineups, questions, views, moves, strict=True):
            rankings[lineup.match.id].append(read_lineup(move, lineup, question.code(view)))
        return [self.judgement_by_rankings(match, rankings[match.id]) for match in matches]

    def groups(self, match: Match) -> list[list[str]]:
        """The seats of a match that answered the same chat."""
        by_chat: dict[tuple[Message, ...], list[str]] = {}
        for seat, turn in last_answers(match).items():
            by_chat.setdefault(turn.view.messages, []).append(seat)
        return list(by_chat.values())

    def lineups(self, match: Match) -> list[Lineup]:
        """The questions about a match; none about a group whose texts are all the same."""
        turns = match.last_turns()
        lineups = []
        for group in self.groups(match):
            seats_of: dict[str, list[str]] = {}
            for seat in group:
                seats_of.setdefault(turns[seat].move.text, []).append(seat)
            texts = list(seats_of)
            if len(texts) < 2:
                continue
            messages = turns[group[0]].view.messages
            about = ("listwise", self.name, match.id, *group)
            dice = seeds.generator(self.judge_context.seed, *about)
            order: Sequence[int] = ()
            for number in range(self.orders):
                order = order[::-1] if number % 2 else dice.permutation(len(texts)).tolist()
                shown = [texts[place] for place in order]
                seed = seeds.child(self.judge_context.seed, *about, number)
                own = [seats_of[text] for text in shown]
                lineups.append(Lineup(match, messages, shown, own, seed))
        return lineups

    def question_about(self, lineup: Lineup) -> Question:
        """The question with the labels of a lineup."""
        items = {"type": "string", "enum": list(lineup.labels)}
        count = len(lineup.labels)
        schema = {"type": "array", "items": items, "minItems": count, "maxItems": count}
        labels = ", ".join(lineup.labels)
        constants = {**self.question.constants, "labels": labels}
        return replace(self.question, constants=constants, verdict_schema=schema)

    def view(
        self, question: Question, lineup: Lineup, prompt: Prompt, tokens: Sequence[str]
    ) -> View:
        """The question about a lineup, as the model sees it."""
        answers = []
        for name, text in zip(lineup.labels, lineup.texts, strict=True):
            answers.append((f"answer {name}", text))
        quotes = {
            "question": ("request", transcript(lineup.messages)),
            "answers": answers,
            "reference": ("reference", self.reference(prompt)),
        }
        return question.view(quotes, lineup.seed, tokens)

    def judgement_by_rankings(self, match: Match, rankings: Sequence[Ranking]) -> Judgement:
        """The judgement on a match by the rankings of its groups."""
        reasons = dict.fromkeys(reasons_without_answer(match))
        scores: dict[str, dict[str, float]] = {}
        votes: list[Vote] = []
        for ranking in rankings:
            votes += ranking.votes(self.name)
        for group in self.groups(match):
            if len(group) < 2:
                reasons["nobody else answered the same chat"] = None
                continue
            own = [each for each in rankings if group[0] in _seats_of(each.lineup)]
            unread = [each.reason for each in own if each.reason]
            for reason in unread:
                reasons[brief_reason(reason)] = None
            if unread:
                continue
            shares = [ranking.shares() for ranking in own]
            for seat in group:
                value = fmean(each[seat] for each in shares) if shares else 0.5
                scores[seat] = {"score": value}
        return self.judgement(match, scores or None, "; ".join(reasons), votes)


def _seats_of(lineup: Lineup) -> list[str]:
    seats: list[str] = []
    for group in lineup.seats:
        seats += group
    return seats


def read_lineup(move: Move, lineup: Lineup, code: str) -> Ranking:
    """The ranking that a reply gives a lineup; code: must stand with it, "" for none."""
    tokens = move.prompt_tokens + move.tokens
    if move.finish == "error":
        return Ranking(lineup, (), f"{FAILED}: {move.error}", tokens, move.cost)
    answer = answer_of(move)
    ranked = read_ranking(answer.text, lineup.labels, code)
    if isinstance(ranked, Unread):
        cut = " (the reply was cut at max_new_tokens)" if move.finish == "length" else ""
        reason = f"{UNREADABLE}: {ranked.reason}{cut}"
        return Ranking(lineup, (), reason, tokens, move.cost)
    places = [lineup.labels.index(label) for label in ranked]
    return Ranking(lineup, places, "", tokens, move.cost)


def read_ranking(reply: str, labels: Sequence[str], code: str = "") -> tuple[str, ...] | Unread:
    """All labels in the order that the reply ends with, the best first, or why there is none.

    Without a code the reply must be the ranking and nothing else.

    >>> read_ranking('{"ranking": ["B", "A"], "code": "c1"}', "AB", "c1")
    ('B', 'A')
    >>> read_ranking("B > A > C", "ABC")
    ('B', 'A', 'C')
    """

    def parse(value: Any) -> tuple[str, ...] | Unread:
        return ranking_of(value, labels)

    options = "|".join(map(re.escape, labels))
    label = rf"(?:{NOUN})?\(?(?:{options})\)?(?!\w)"
    pattern = rf"{label}(?:\s*(?:>|,|;|\u227b)\s*{label})+"
    return last_verdict(reply, VerdictForm(RANKING_KEYS, pattern, parse, code, not code))


def ranking_of(value: Any, labels: Sequence[str]) -> tuple[str, ...] | Unread:
    """A whole ranking, of a list of labels or of a text such as `B > A`; or what it lacks."""
    parts = value
    if isinstance(value, str):
        parts = re.split(r"[>,;\u227b]", value)
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return Unread(f"the ranking {as_text(value)[:60]!r} is no list of letters")
    known = {name.casefold(): name for name in labels}
    ranked = []
    for part in parts:
        bare = re.sub(rf"^{NOUN}", "", part.strip().casefold()).strip(" .()[]*\"'")
        if bare not in known:
            return Unread(f"the ranking names {part.strip()[:20]!r}, which is no answer")
        ranked.append(known[bare])
    twice = [name for name, count in Counter(ranked).items() if count > 1]
    if twice:
        return Unread(f"the ranking names {', '.join(twice)} twice")
    missing = [name for name in labels if name not in ranked]
    if missing:
        return Unread(f"the ranking leaves out {', '.join(missing)}")
    return tuple(ranked)
