"""The arena in which evaluations measure: held-out play and its judgement, recorded like everything
else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from equipoise import seeds
from equipoise.data.logprobs import CHUNK, text_key
from equipoise.errors import ConfigError
from equipoise.evaluation.base import JudgedMatch
from equipoise.games.base import Game
from equipoise.judges.base import Judge
from equipoise.models.resources import Resources
from equipoise.payoffs.table import Meeting
from equipoise.players.base import Distribution, Scorer
from equipoise.players.population import Population
from equipoise.ratings.base import Ratings
from equipoise.runs.config import RunConfig
from equipoise.runs.contexts import Contexts
from equipoise.runs.directory import RunDirectory
from equipoise.runs.ledger import MEETING, Ledger
from equipoise.runs.memory import Memory
from equipoise.runs.monitor import Monitor
from equipoise.runs.prompt_parts import MADE, PromptParts
from equipoise.runs.recorder import Recorder, chunks
from equipoise.runs.roster import Roster
from equipoise.solvers.base import Solver
from equipoise.types import Match, Message, PlayerId, Prompt, Turn, record_id

PlayerScores = dict[str, list[float | None]]


class RunArena:
    """`evaluate.Arena` over a run's records."""

    def __init__(
        self,
        config: RunConfig,
        ledger: Ledger,
        roster: Roster,
        population: Population,
        recorder: Recorder,
        contexts: Contexts,
        prompt_parts: PromptParts,
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._roster = roster
        self._population = population
        self._prompt_parts = prompt_parts
        self.recorder = recorder
        self.contexts = contexts
        self._policies: dict[PlayerId, np.ndarray] = {}
        self._encodings: dict[str, str] = {}  # how a player's generations read text
        self._scores: dict[tuple[PlayerId, int, str, str], PlayerScores] = {}
        self._answered: dict[tuple[PlayerId, int], dict[str, list[Turn]]] = {}
        self._judged: dict[tuple[str, str], list[JudgedMatch]] = {}
        self._meetings: dict[tuple[PlayerId, PlayerId, int, str], list[Meeting]] = {}

    @classmethod
    def of(cls, run: RunDirectory, monitor: Monitor) -> RunArena:
        """The arena of a run that nobody learns in: every player is opened from its weights on
        disk.
        """
        config = run.config
        ledger = run.ledger
        population = Population(config.playing, run.folder / "players", ledger)
        roster = Roster(config, ledger)
        memory = Memory(config, ledger)
        recorder = Recorder(config, ledger, population, monitor)
        contexts = Contexts(config, ledger, roster, population, memory)
        prompt_parts = PromptParts(config, ledger, recorder, monitor)
        return cls(config, ledger, roster, population, recorder, contexts, prompt_parts)

    def close(self) -> None:
        """Close the players that are open."""
        self._population.release()

    @property
    def game(self) -> Game:
        """The run's game."""
        return self._config.game

    @property
    def utility(self) -> str:
        """Which of the judges' utilities is played for."""
        return self._config.utility

    @property
    def solver(self) -> Solver:
        """How the run finds equilibria."""
        return self._config.solver

    @property
    def ratings(self) -> Ratings:
        """How the run rates the league."""
        return self._config.league_ratings

    @property
    def resources(self) -> Resources:
        """What is open in the run."""
        return self._population.resources

    @property
    def held_out(self) -> list[Prompt]:
        """The held-out prompts."""
        return self._prompt_parts.held_out

    @property
    def test(self) -> list[Prompt]:
        """The prompts that are kept for one last test."""
        return self._prompt_parts.test

    def judge_of(self, player: PlayerId) -> Judge:
        """The judge that teaches this player."""
        return self._config.judge_of(player.name)

    def learners(self, t: int) -> list[PlayerId]:
        """Every player that learns, at generation t."""
        return self._roster.learners(t)

    def others(self) -> list[PlayerId]:
        """The players that do not learn."""
        return self._roster.others()

    def faced(self, player: PlayerId, t: int) -> dict[PlayerId, float]:
        """Whom the loss of generation t sets a learner's answers against; empty without a loss of
        pairs.
        """
        loss = self._config.loss_at(t)
        if player.name not in self._config.learning:
            return {}
        if loss is None or self._config.learner_of(player.name).needs == "episodes":
            return {}
        learners = self._roster.learners(t)
        others = self._roster.others()
        past = self._roster.past(player)
        peers = [p for p in learners if p.name != player.name]
        return dict(loss.scored_against(past, peers, others))

    def past(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself that were measured, newest first."""
        return self._roster.measured(player)

    @property
    def player_of_role(self) -> Mapping[str, str]:
        """role -> the name of the player that has it, where the schedule says so."""
        return self._config.schedule.player_of_role

    def seated(self, t: int) -> Mapping[str, PlayerId]:
        """role -> the player that has it in generation t.

        Raises ConfigError where the schedule gives no role to a player.
        """
        return self._roster.seated(t)

    # -- each player alone

    def scores(
        self, player: PlayerId, samples: int, judge: Judge, part: str = "held_out"
    ) -> PlayerScores:
        """Prompt id -> the scores of `player`'s answers, None where unjudged."""
        key = (player, samples, judge.name, part)
        if key not in self._scores:
            matches = self._played_alone(player, samples, part)
            t = player.generation
            utility = self._config.utility
            judgements = self.recorder.judgements(
                f"{t}/{part}/{player.name}/judge/{judge.name}",
                judge,
                self.contexts.judge(t),
                matches,
                {prompt.id: prompt for prompt in self._prompts(part)},
                t,
                player.name,
            )
            scores: PlayerScores = {}
            for match, judgement in zip(matches, judgements, strict=True):
                by_seat = [judgement.score(seat, utility) for seat in match.seats]
                scores.setdefault(match.prompt, []).extend(by_seat)
            self._scores[key] = {
                prompt: of_prompt[:samples] for prompt, of_prompt in scores.items()
            }
        return self._scores[key]

    def _prompts(self, part: str) -> list[Prompt]:
        assert part in ("held_out", "test")
        parts = self._prompt_parts
        return parts.test if part == "test" else parts.held_out

    def _played_alone(self, player: PlayerId, samples: int, part: str) -> list[Match]:
        """Matches with the player in every seat, enough for so many answers a prompt."""
        seats = dict.fromkeys(self.game.seats, player)
        rounds = -(-samples // len(seats))
        seatings = [(prompt, seats) for prompt in self._prompts(part) * rounds]
        key = f"{player.generation}/{part}/{player.name}/play"
        return self.recorder.matches(key, seatings, player.generation, part, player.name)

    # -- two players' answers side by side

    def meetings(
        self, first: PlayerId, second: PlayerId, samples: int, judge: Judge
    ) -> list[Meeting]:
        """What `first` gets from meeting `second`: 2·P(win) − 1 of each pair of answers; None where
        unjudged.
        """
        key = (first, second, samples, judge.name)
        if key not in self._meetings:
            t = max(first.generation, second.generation)
            matches = self._side_by_side(first, second, samples, t)
            judgements = self.recorder.judgements(
                f"{t}/meet/{first}/{second}/{judge.name}",
                judge,
                self.contexts.judge(t),
                matches,
                {prompt.id: prompt for prompt in self.held_out},
                t,
            )
            results = []
            for match, judgement in zip(matches, judgements, strict=True):
                chance = judgement.score("1", self._config.utility)
                payoff = None if chance is None else 2 * chance - 1
                results.append(Meeting(str(first), str(second), payoff, match.prompt))
            self._meetings[key] = results
        return self._meetings[key]

    def _side_by_side(self, first: PlayerId, second: PlayerId, samples: int, t: int) -> list[Match]:
        """Matches in which the i-th recorded answer of `first` to a prompt sits beside the i-th of
        `second`.
        """
        first_answers = self._answers(first, samples)
        second_answers = self._answers(second, samples)
        matches = []
        for prompt, turns in first_answers.items():
            others = second_answers.get(prompt, ())
            for i, pair in enumerate(zip(turns, others, strict=False)):
                matches.append(self._meeting(prompt, i, (first, second), pair, t))
        self._ledger.add_matches(matches)
        return matches

    def _meeting(
        self,
        prompt: str,
        i: int,
        players: tuple[PlayerId, PlayerId],
        answers: tuple[Turn, Turn],
        t: int,
    ) -> Match:
        seed = self._config.seed
        identity = record_id(MEETING, seed, prompt, i, *players)
        first, second = answers
        return Match(
            id=identity,
            generation=t,
            split="held_out",
            game=MEETING,
            prompt=prompt,
            seats=dict(zip("12", players, strict=True)),
            seed=seeds.child(seed, "match", identity),
            turns=(Turn("1", first.view, first.move), Turn("2", second.view, second.move)),
        )

    def _answers(self, player: PlayerId, samples: int) -> dict[str, list[Turn]]:
        """Prompt id -> the player's recorded answers; read once, since it meets everybody in the
        league.
        """
        if (player, samples) not in self._answered:
            answers: dict[str, list[Turn]] = {}
            for match in self._played_alone(player, samples, "held_out"):
                turns = match.last_turns().values()
                answers.setdefault(match.prompt, []).extend(turns)
            self._answered[player, samples] = {
                prompt: turns[:samples] for prompt, turns in answers.items()
            }
        return self._answered[player, samples]

    # -- players in the roles of a game

    def play(
        self,
        roles: Mapping[str, PlayerId],
        prompts: Sequence[Prompt],
        judge: Judge,
        t: int,
        label: str,
    ) -> list[JudgedMatch]:
        """Matches on these prompts with these players in the roles, judged as of generation t of
        the loop; done once, then remembered.

        `prompts` are held-out prompts or made of them by the game (a prompt that occurs twice is
        played twice); `label` names the selection in the ledger, and another selection must have
        another label.
        """
        players = "+".join(map(str, roles.values()))
        born = max((player.generation for player in roles.values()), default=0)
        key = f"{born}/held_out/{label}/{players}"
        if (key, judge.name) not in self._judged:
            dealt = {prompt.id for prompt in self.held_out}
            made = [prompt for prompt in prompts if prompt.id not in dealt]
            self._ledger.add_prompts(made, MADE, born)
            seatings = [(prompt, self._seats(prompt, roles)) for prompt in prompts]
            matches = self.recorder.matches(f"{key}/play", seatings, born, "held_out", players)
            judgements = self.recorder.judgements(
                f"{key}/judge/{judge.name}",
                judge,
                self.contexts.judge(t),
                matches,
                {prompt.id: prompt for prompt in prompts},
                born,
                players,
            )
            self._judged[key, judge.name] = list(zip(matches, judgements, strict=True))
        return self._judged[key, judge.name]

    def _seats(self, prompt: Prompt, roles: Mapping[str, PlayerId]) -> dict[str, PlayerId]:
        seats = self.game.seats_for(prompt)
        return {seat: roles[self.game.role(seat)] for seat in seats}

    # -- exact policies

    def probabilities(self, player: PlayerId, actions: Sequence[str]) -> np.ndarray:
        """A tabular player's probabilities of `actions`."""
        if player not in self._policies:
            actor = self._population.actor(player)
            if not isinstance(actor, Distribution):
                raise ConfigError(f"players.{player.name}: exact measures need a tabular player")
            self._policies[player] = np.asarray(actor.probabilities(actions))
        return self._policies[player]

    def logprobs(
        self, player: PlayerId, answers: Sequence[tuple[tuple[Message, ...], str]]
    ) -> list[float]:
        """log p(answer | chat) of each, in nats, from the ledger where it is kept."""
        if player.name not in self._encodings:
            self._encodings[player.name] = self._scorer(player).encoding
        encoding = self._encodings[player.name]
        keys = [text_key(chat, text) for chat, text in answers]
        known = self._ledger.logprobs(player, encoding, keys)
        rows = dict(zip(keys, answers, strict=True))
        missing = [key for key in rows if key not in known]
        for chunk in chunks(missing, CHUNK):
            chats, texts = zip(*(rows[key] for key in chunk), strict=True)
            values = self._scorer(player).logprobs(chats, texts, whole=True)
            self._ledger.add_logprobs(player, encoding, chunk, values)
            known.update(zip(chunk, values, strict=True))
        return [known[key][0] for key in keys]

    def _scorer(self, player: PlayerId) -> Scorer:
        actor = self._population.actor(player)
        if not isinstance(actor, Scorer):
            raise ConfigError(
                f"players.{player.name}: has no log-probabilities, by which its policy "
                "could be read; measure a local model"
            )
        return actor
