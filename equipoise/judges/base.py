"""What a judge is: it says how each seat of a match did, or why it cannot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Protocol

from equipoise.component import Component, essence
from equipoise.errors import EquipoiseError
from equipoise.games.base import Game
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.types import (
    Judgement,
    Match,
    Move,
    PlayerId,
    Prompt,
    View,
    Vote,
    record_id,
)


class JudgeContext(Protocol):
    """Where a judge sits: what it may ask of the run that it judges for."""

    @property
    def game(self) -> Game:
        """The rules of the matches."""
        ...

    @property
    def seed(self) -> int:
        """The seed of everything that a judge leaves to chance."""
        ...

    @property
    def pool(self) -> Sequence[PlayerId]:
        """The players at the table now, learners first."""
        ...

    @property
    def ratings(self) -> Mapping[str, float]:
        """The players' ratings by name as they stand before these matches; empty when
        nobody was rated yet.
        """
        ...

    @property
    def resources(self) -> Resources:
        """Where what is opened is kept, to be shared and to be closed by the run."""
        ...

    def ask(
        self, who: Player | PlayerId, views: Sequence[View], seeds: Sequence[int]
    ) -> list[Move]:
        """One move a view from a player of the run, or from a player that only the
        judge's settings know.
        """
        ...


class Judge(Component):
    """Judges matches. One judgement a match, in order; what cannot be judged has
    `scores=None` and a reason.
    """

    KINDS: ClassVar = {
        "exact": "equipoise.judges.rules:Exact",
        "math": "equipoise.judges.rules:Math",
        "refusal": "equipoise.judges.rules:Refusal",
        "shorter": "equipoise.judges.rules:Shorter",
        "call": "equipoise.judges.rules:Call",
        "choice": "equipoise.judges.choice:Choice",
        "on_topic": "equipoise.judges.on_topic:OnTopic",
        "gold": "equipoise.judges.gold:Gold",
        "rubric": "equipoise.judges.rubric:Rubric",
        "pairwise": "equipoise.judges.pairwise:Pairwise",
        "peers": "equipoise.judges.peers:Peers",
        "panel": "equipoise.judges.panel:Panel",
        "reward_model": "equipoise.judges.reward_model:RewardModel",
        "preference_model": "equipoise.judges.preference_model:PreferenceModel",
        "guard": "equipoise.judges.guard:Guard",
        "harm_classifier": "equipoise.judges.harm:HarmClassifier",
    }

    compares: ClassVar[bool] = False
    """Whether scores only say how seats did against each other, so that those of two
    matches mean nothing together.
    """

    def judge(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """One judgement per match; `prompts` by id."""
        raise TypeError(f"{type(self).__name__} must define judge()")

    def verdicts(
        self, matches: Sequence[Match], prompts: Mapping[str, Prompt]
    ) -> list[Judgement]:
        """What `judge` says, held to its word. Raises EquipoiseError unless it is one
        judgement a match, in order.
        """
        said = self.judge(matches, prompts)
        if [judgement.match for judgement in said] != [match.id for match in matches]:
            raise EquipoiseError(
                f"judge '{self.kind}' gave {len(said)} judgements for {len(matches)} matches, or not in their order; "
                "judge() must return one a match, in order, each with its match's id"
            )
        return said

    def at(self, judge_context: JudgeContext) -> Judge:
        """This judge, seated: judges that ask models, or need to know the rules or the
        pool, take the bench here.
        """
        return self

    def value(self, vote: Vote) -> float | None:
        """What a recorded vote counts as, or None."""
        return vote.value

    def questions(self, seats: int, pool: int) -> int:
        """How many questions to models a match of so many seats takes at most, in a
        pool of so many players.
        """
        return 0

    def weighed(self, judgement: Judgement, ratings: Mapping[str, float]) -> Judgement:
        """The judgement as it reads under these ratings of those who voted; most judges
        weigh nobody.
        """
        return judgement

    @cached_property
    def name(self) -> str:
        """What the ledger calls this judge: its kind, with a hash of the settings that
        are not the defaults.

        Settings that may change midway (budgets, addresses) are no part of it: a
        resumed run knows its judge again.
        """
        changed = essence(
            self.model_dump(mode="json", exclude_defaults=True, exclude={"kind"})
        )
        if not changed:
            return self.kind
        text = json.dumps(changed, sort_keys=True, default=str)
        return (
            f"{self.kind}-{hashlib.blake2b(text.encode(), digest_size=3).hexdigest()}"
        )

    def judgement(
        self,
        match: Match,
        scores: dict[str, dict[str, float]] | None,
        reason: str = "",
        votes: Sequence[Vote] = (),
    ) -> Judgement:
        """The record of this judge's word on `match`."""
        return Judgement(
            record_id("judgement", match.id, self.name),
            match.id,
            self.name,
            scores,
            reason,
            tuple(votes),
        )
