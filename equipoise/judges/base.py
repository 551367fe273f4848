"""The base of judges, which score each seat of a match or give a reason why they cannot."""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr
from pydantic_core import PydanticCustomError

from equipoise.answer import UNFINISHED, public_match
from equipoise.component import Component, fixed_settings, function_path, import_object, import_path
from equipoise.errors import ConfigError, EquipoiseError, UserError
from equipoise.games.base import Game
from equipoise.models.loading import missing_kernel
from equipoise.models.quantization import missing_package
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player, WordProbabilities, WordReader
from equipoise.players.together import MoveRequest, act_together
from equipoise.system.addresses import lacks_scheme
from equipoise.system.effects import Text
from equipoise.system.user_parts import file_hash, is_users, stays_unimported
from equipoise.types import (
    Judgement,
    Match,
    Move,
    PlayerId,
    Prompt,
    Review,
    Turn,
    View,
    Vote,
    record_id,
)

Questions = tuple[Player | PlayerId, Sequence[View], Sequence[int]]
"""A player, what it is asked, and a seed for each view."""
Grades = dict[str, dict[str, float]]
"""Voter -> seat -> its grade of the seat's answer."""
CODE = "source_hash"  # beside a user's class's settings: a hash of its file as it judged


def mean_grades(votes: Sequence[Vote]) -> Grades:
    """The mean of each voter's readable votes on each answer alone, not of comparisons."""
    values: dict[str, dict[str, list[float]]] = {}
    for vote in votes:
        if vote.value is not None and not vote.other:
            by_seat = values.setdefault(vote.by, {})
            by_seat.setdefault(vote.seat, []).append(vote.value)
    return {
        by: {seat: fmean(of_seat) for seat, of_seat in by_seat.items()}
        for by, by_seat in values.items()
    }


def comparable(grades: Grades) -> Grades:
    """The grades of the voters who graded every seat that anybody graded.

    Means over different judges on either side would compare the judges, not the answers.
    """
    seats = set().union(*grades.values())
    return {by: given for by, given in grades.items() if given.keys() == seats}


WordsRead = Callable[[WordReader, Sequence[View], Sequence[str]], Sequence[WordProbabilities | str]]


def _read_words(
    reader: WordReader, views: Sequence[View], texts: Sequence[str]
) -> Sequence[WordProbabilities | str]:
    return reader.word_probabilities(views, texts)


@dataclass(frozen=True)
class JudgeContext:
    """The part of a run that a judge may know and ask.

    seed: of everything that the judge leaves to chance. pool: the players that take part now,
    learners first. ratings: by name, before these matches; empty where all start alike. resources:
    keeps the models that it opens. actor: opens a player of the run, or one that only the judge's
    settings know. act: has several answer at the same time. read_words: has one say how likely
    words are to begin its answers.
    """

    game: Game
    seed: int
    pool: Sequence[PlayerId]
    ratings: Mapping[str, float]
    resources: Resources
    actor: Callable[[Player | PlayerId], Actor]
    act: Callable[[Sequence[MoveRequest]], list[list[Move]]] = act_together
    read_words: WordsRead = _read_words

    def ask(
        self, player: Player | PlayerId, views: Sequence[View], seeds: Sequence[int]
    ) -> list[Move]:
        """One move for each view, in order."""
        return self.ask_together([(player, views, seeds)])[0]

    def ask_together(self, questions: Sequence[Questions]) -> list[list[Move]]:
        """Moves of several players for their own views and seeds, one batch for each base."""
        requests = [
            MoveRequest(self.actor(player), views, seeds)
            for player, views, seeds in questions
            if views
        ]
        moves = iter(self.act(requests))
        return [next(moves) if views else [] for _, views, _ in questions]


class Judge(Component):
    """Judges matches; what cannot be judged has `scores=None` and a reason."""

    KINDS: ClassVar = {
        "exact": "equipoise.judges.rules:Exact",
        "math": "equipoise.judges.rules:Math",
        "refusal": "equipoise.judges.rules:Refusal",
        "shorter": "equipoise.judges.rules:Shorter",
        "call": "equipoise.judges.rules:Call",
        "choice": "equipoise.judges.multiple_choice:Choice",
        "on_topic": "equipoise.judges.on_topic:OnTopic",
        "repetition": "equipoise.judges.rules:Repetition",
        "gold": "equipoise.judges.gold:Gold",
        "rubric": "equipoise.judges.grading:Rubric",
        "pairwise": "equipoise.judges.pairwise:Pairwise",
        "listwise": "equipoise.judges.listwise:Listwise",
        "transcript": "equipoise.judges.transcript:Transcript",
        "peers": "equipoise.judges.peers:Peers",
        "meta_rewarding": "equipoise.judges.peers:MetaRewarding",
        "first_place": "equipoise.judges.panel:FirstPlace",
        "panel": "equipoise.judges.panel:Panel",
        "gated": "equipoise.judges.gated:Gated",
        "no_tricks": "equipoise.judges.no_tricks:NoTricks",
        "reward_model": "equipoise.judges.reward_model:RewardModel",
        "preference_model": "equipoise.judges.preference_model:PreferenceModel",
        "guard": "equipoise.judges.guard:Guard",
        "harm_classifier": "equipoise.judges.harm_classifier:HarmClassifier",
        "recorded": "equipoise.judges.base:Recorded",
    }

    READ: ClassVar = ("name", "compares")

    compares: ClassVar[bool] = False
    """True if scores only compare the seats of one match, so that those of two matches mean nothing
    together.
    """

    by_players: ClassVar[bool] = False
    """True if all its votes are grades by players of the run, whose reputation can weigh them."""

    whole_matches: ClassVar[bool] = False
    """True if it reads more of a match than each seat's own answer: who said what before, or the
    verdicts that were given in it. A part of the match means something else to it.
    """

    _context: JudgeContext | None = PrivateAttr(None)
    _code: str = PrivateAttr("")  # a hash of the file of a user's class, once `as_it_is`

    known_utilities: ClassVar[tuple[str, ...] | None] = None
    """The names of all utilities that its scores can have; None where only its work shows them."""

    in_units: ClassVar[bool] = False
    """True if it judges each match by itself with a model of its own, asking no player, so that an
    executor's workers can do it, some matches at a time.
    """

    bounds: ClassVar[tuple[float, float] | None] = None
    """The value of `score_range`, where it is the same whatever the settings."""

    @classmethod
    def build(cls, value: Any) -> Any:
        """The judge for a mapping with `kind`, a kind, or the path of a function."""
        path = value.get("kind") if isinstance(value, Mapping) else value
        path = cls.plugin_path(path) if isinstance(path, str) else path
        if not isinstance(path, str) or path in cls.packaged_kinds():
            return super().build(value)
        code = ""
        if isinstance(value, Mapping) and CODE in value:
            value = dict(value)
            code = str(value.pop(CODE))
        judge = super().build(cls._by_path(path, value))
        judge._code = code
        return judge

    def settings(self) -> dict[str, Any]:
        """As every part's; of a user's class, once `as_it_is`, with the hash of its file."""
        settings = super().settings()
        return {**settings, CODE: self._code} if self._code else settings

    @classmethod
    def _by_path(cls, path: str, value: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
        """The value with a function's path as settings of `call`. Raises PydanticCustomError."""
        if path in Player.known_kinds():
            raise PydanticCustomError(
                "player",
                "'{kind}' answers and does not judge; to have it grade, write {rubric}; to have it "
                "compare, kind: pairwise",
                {"kind": path, "rubric": f"{{kind: rubric, model: {{kind: {path}, …}}}}"},
            )
        path = function_path(path)
        settings = {**value, "kind": path} if isinstance(value, Mapping) else {"kind": path}
        if (
            ":" not in path
            or "://" in path
            or lacks_scheme(path)
            or stays_unimported(path)
            or isinstance(import_object(path), type)
        ):
            return settings
        return {**settings, "kind": "call", "function": path}

    @abstractmethod
    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """One judgement per match, in order; `prompts` by id."""

    def checked_judgements(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """`judge`, checked for one judgement per match, in order. Raises EquipoiseError.

        The judge is shown answers, without the thoughts before them, unless its game has
        them read whole moves. A move that thought to the end of its tokens counts as failed.
        """
        if self._context is None or not self._context.game.raw_moves:
            matches = [public_match(match) for match in matches]
        judgements = self.judge(matches, prompts)
        judged = [judgement.match for judgement in judgements]
        if judged != [match.id for match in matches]:
            raise EquipoiseError(
                f"judge '{self.kind}' gave {len(judgements)} judgements for "
                f"{len(matches)} matches, or not in their order; judge() must return "
                "one per match, in order, each with the id of its match"
            )
        for judgement in judgements:
            for seat, utilities in (judgement.scores or {}).items():
                for name, value in utilities.items():
                    if not (isinstance(value, int | float) and math.isfinite(value)):
                        raise EquipoiseError(
                            f"judge '{self.kind}' gave {seat} of match {judgement.match} "
                            f"{name} = {value!r}, which no ledger can hold; give a number, or no "
                            "score and a reason"
                        )
        return judgements

    def at(self, judge_context: JudgeContext) -> Self:
        """A copy of this judge that works in `judge_context`; raises what `prepare` does."""
        if missing := missing_package(getattr(self, "quantization", None)):
            raise ConfigError(missing)
        attention = getattr(self, "attention", "auto")
        if missing := missing_kernel(attention, getattr(self, "device", "auto")):
            raise ConfigError(missing)
        judge = self.model_copy()
        judge._context = judge_context
        judge.prepare()
        return judge

    def as_it_is(self) -> Self:
        """The judge under a name that tells what the files of a user's class and functions, and of
        the judges in it, hold now.
        """
        changed: dict[str, Any] = {}
        for field in type(self).model_fields:
            value = getattr(self, field)
            if isinstance(value, Judge):
                changed[field] = value.as_it_is()
            elif isinstance(value, dict) and any(
                isinstance(each, Judge) for each in value.values()
            ):
                changed[field] = {name: judge.as_it_is() for name, judge in value.items()}
        path = str(self.kind) if ":" in str(self.kind) else import_path(type(self))
        code = file_hash(path) if is_users(path) else ""
        same = all(getattr(self, field) == value for field, value in changed.items())
        if code == self._code and same:
            return self
        judge = self.model_validate({**super().settings(), **changed})
        judge._code = code
        return judge

    def prepare(self) -> None:
        """Check that the judge can work, before anything is asked.

        Raises ConfigError, DataError or ModelError where it cannot.
        """

    def faults(self, judge_context: JudgeContext) -> Iterator[str]:
        """Reasons why the judge cannot work here, one message each; nothing is sampled."""
        try:
            self.at(judge_context)
        except UserError as error:
            yield str(error).removeprefix("judge: ")

    def why_unjudgeable(self, prompt: Prompt) -> str:
        """The reason why no answer to a prompt can be judged, "" for none."""
        return ""

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """Reasons why the judge cannot judge answers to these prompts, found by trying."""
        for judge in self.inner_judges():
            yield from judge.faults_of_prompts(prompts)

    def inner_judges(self) -> Sequence[Judge]:
        """The judges that this one asks about all prompts."""
        return ()

    @property
    def score_range(self) -> tuple[float, float] | None:
        """The least and the greatest score that it can give; None where it is unknown."""
        return self.bounds

    @property
    def judge_context(self) -> JudgeContext:
        """The context of the judge. Raises ConfigError before `at` was called."""
        if self._context is None:
            raise ConfigError(
                f"judge: '{self.kind}' has no context yet: use judge.at(judge_context)"
            )
        return self._context

    def grades_by_votes(self, votes: Sequence[Vote]) -> Grades:
        """Each voter's grade of each seat of one match, by the match's recorded votes."""
        return mean_grades(votes)

    def judged_seats(self, match: Match) -> Collection[str]:
        """The seats of a match that it scores, or gives a reason why it cannot."""
        return match.seats

    def quoted_answers(self, seats: int) -> int:
        """The answers that one of its questions quotes, of a match with so many seats."""
        return 1

    def questions(self, seats: int, pool: int) -> int:
        """The most questions to models for a match with such numbers of seats and players."""
        return 0

    def reweigh(self, judgement: Judgement, ratings: Mapping[str, float]) -> Judgement:
        """The judgement under these ratings of its voters; most judges do not weigh votes."""
        return judgement

    @property
    def title(self) -> str:
        """The judge's name for readers: its kind, and the model that it asks."""
        model = getattr(self, "model", None)
        if isinstance(model, Player):
            model = getattr(model, "model", None)
        if not isinstance(model, str):
            return str(self.kind)
        return f"{self.kind} by {Path(model).name}"

    @cached_property
    def name(self) -> str:
        """The judge's name in the ledger: its kind, with a hash of changed settings.

        Settings that a resumed run may change (budgets, addresses) are left out, and so is the day
        that chat templates are given, which is one for a whole run.
        """
        settings = self.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
        changed = fixed_settings(settings, but=("date",))
        if self._code:
            changed[CODE] = self._code
        if not changed:
            return self.kind
        text = json.dumps(changed, sort_keys=True, default=str)
        digest = hashlib.blake2b(text.encode(), digest_size=3).hexdigest()
        return f"{self.kind}-{digest}"

    def judgement(
        self,
        match: Match,
        scores: dict[str, dict[str, float]] | None,
        reason: str = "",
        votes: Sequence[Vote] = (),
        reviews: Iterable[Review] = (),
    ) -> Judgement:
        """This judge's judgement of `match`, as a record."""
        return Judgement(
            record_id("judgement", match.id, self.name),
            match.id,
            self.name,
            scores,
            reason,
            tuple(votes),
            tuple(reviews),
        )


class Recorded(Judge):
    """The judge of matches that were imported (`equipoise import-matches`); it judges no more."""

    kind: Literal["recorded"] = "recorded"
    source: Text = Field(description="its name in the ledger")

    @cached_property
    def name(self) -> str:
        """Its name where it judged."""
        return self.source

    @property
    def title(self) -> str:
        return self.source

    def judge(self, matches: Sequence[Match], prompts: Mapping[str, Prompt]) -> list[Judgement]:
        """None of these matches has a score."""
        reason = f"'{self.source}' judged imported matches only"
        return [self.judgement(match, None, reason) for match in matches]


def last_answers(match: Match) -> dict[str, Turn]:
    """The last turns without those of seats whose last move failed."""
    turns = match.last_turns()
    return {seat: turn for seat, turn in turns.items() if turn.move.finish != "error"}


def reasons_without_answer(match: Match) -> list[str]:
    """The reasons why seats of the match have no last answer."""
    turns = match.last_turns()
    reasons = []
    for turn in turns.values():
        if turn.move.error == UNFINISHED:
            reasons.append(f"no answer: {UNFINISHED}")
        elif turn.move.finish == "error":
            reasons.append(f"the move failed: {turn.move.error}")
    if not turns.keys() >= match.seats.keys():
        reasons.append("no answer was given")
    return reasons
