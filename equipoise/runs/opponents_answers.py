"""The answers of those whom a loss sets an answer against, for P(answer beats them)."""

from __future__ import annotations

from collections.abc import Sequence

from equipoise.data.win_probabilities import Samples
from equipoise.errors import ConfigError
from equipoise.runs.config import RunConfig
from equipoise.runs.contexts import Contexts
from equipoise.runs.prompt_parts import PromptParts
from equipoise.runs.recorder import Recorder
from equipoise.runs.roster import Roster
from equipoise.types import Judgement, Match, PlayerId

PART = "opponents"
"""The split, by its recorded name, of answers that opponents gave for this alone."""


class OpponentsAnswers:
    """Plays and judges what the matches of a generation do not hold already."""

    def __init__(
        self,
        config: RunConfig,
        roster: Roster,
        recorder: Recorder,
        contexts: Contexts,
        prompt_parts: PromptParts,
    ) -> None:
        self._config = config
        self._roster = roster
        self._recorder = recorder
        self._contexts = contexts
        self._prompt_parts = prompt_parts

    def players(self, learner: PlayerId, t: int) -> list[tuple[PlayerId, float]]:
        """Whom an answer has to beat, with weights that add up to one."""
        loss = self._config.loss_at(t)
        assert loss is not None
        peers = [peer for peer in self._roster.learners(t) if peer != learner]
        past = self._roster.past(learner)
        return loss.scored_against(past, peers, self._roster.others())

    def samples(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId, t: int
    ) -> Samples:
        """The scored answers of all of `players` to generation t's prompts.

        Those that sat in none of the matches answer the prompts in every seat, as often as the game
        has seats; the answers and their scores stay in the ledger. Raises ConfigError for a judge
        that only compares, or a game of different roles.
        """
        samples = Samples()
        samples.add(matches, judgements, self._config.utility)
        there = samples.players()
        for player, _ in self.players(learner, t):
            if player not in there:
                played, judged = self._answers(player, learner, t)
                samples.add(played, judged, self._config.utility)
        return samples

    def _answers(
        self, player: PlayerId, learner: PlayerId, t: int
    ) -> tuple[list[Match], list[Judgement]]:
        config = self._config
        judge = config.judge_of(learner.name)
        if judge.compares or not config.game.symmetric:
            raise ConfigError(
                "loss.wins: P(answer beats an opponent) takes the opponent's own "
                "answers, scored alone, in a game whose seats are alike; use a judge "
                "that scores, or another loss.target"
            )
        prompts = self._prompt_parts.train(t)
        seats = dict.fromkeys(config.game.seats, player)
        key = f"{t}/{PART}/{learner.name}/{player}"
        played = self._recorder.matches(
            f"{key}/play", [(prompt, seats) for prompt in prompts], t, PART, player.name
        )
        judged = self._recorder.judgements(
            f"{key}/judge/{judge.name}",
            judge,
            self._contexts.judge(t),
            played,
            {prompt.id: prompt for prompt in prompts},
            t,
            player.name,
        )
        return played, judged
