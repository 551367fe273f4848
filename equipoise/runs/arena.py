"""The arena in which evaluations measure: held-out play and its judgement, recorded as all is."""

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from equipoise import seeds
from equipoise.data.opponent_logprobs import CHUNK, text_key
from equipoise.errors import ConfigError
from equipoise.evaluation.base import Arena, JudgedMatch
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import MEETING
from equipoise.matches.base import Seatings
from equipoise.models.resources import Resources
from equipoise.payoffs.table import Meeting, preference
from equipoise.players.base import Distribution, Scorer
from equipoise.runs.contexts import judge_context
from equipoise.runs.judge_matches import record_judgements
from equipoise.runs.open_run import OpenRun
from equipoise.runs.play_matches import chunks, record_matches
from equipoise.runs.prompt_splits import MADE
from equipoise.types import Match, Message, PlayerId, Prompt, Turn, record_id

PlayerScores = dict[str, list[float | None]]


class RunArena(Arena):
    """The arena of one open run; everything measured is remembered while the run is open."""

    def __init__(self, run: OpenRun) -> None:
        self.run = run
        self.game = run.config.game
        self.utility = run.config.utility
        self.solver = run.config.solver
        self.ratings = run.config.league_ratings
        self.player_of_role = run.config.schedule.player_of_role
        self._policies: dict[PlayerId, np.ndarray] = {}
        self._encodings: dict[str, str] = {}  # of a player's generations, which read text alike
        self._scores: dict[tuple[PlayerId, int, str, str], PlayerScores] = {}
        self._answers: dict[tuple[PlayerId, int], dict[str, list[Turn]]] = {}
        self._judged: dict[tuple[str, str], list[JudgedMatch]] = {}
        self._meetings: dict[tuple[PlayerId, PlayerId, int, str], list[Meeting]] = {}

    @property
    def resources(self) -> Resources:
        return self.run.population.resources

    @property
    def held_out(self) -> list[Prompt]:
        return self.run.prompts.held_out

    @property
    def test(self) -> list[Prompt]:
        return self.run.prompts.test

    def judge_of(self, player: PlayerId) -> Judge:
        return self.run.config.judge_of(player.name)

    def learners(self, t: int) -> list[PlayerId]:
        return self.run.roster.learners(t)

    def others(self) -> list[PlayerId]:
        return self.run.roster.others()

    def past(self, player: PlayerId) -> list[PlayerId]:
        return self.run.roster.measured(player)

    def players_by_role(self, t: int) -> Mapping[str, PlayerId]:
        return self.run.roster.seated(t)

    def opponent_weights(self, player: PlayerId, t: int) -> dict[PlayerId, float]:
        config = self.run.config
        roster = self.run.roster
        if player.name not in config.learning:
            return {}
        loss = config.loss_at(player.name, t)
        if loss is None or config.learner_of(player.name).needs == "episodes":
            return {}
        return dict(loss.scored_against(roster.opponent_pool(player, t)))

    # -- each player alone

    def scores(
        self, player: PlayerId, samples: int, judge: Judge, part: str = "held_out"
    ) -> PlayerScores:
        key = (player, samples, judge.name, part)
        if key not in self._scores:
            t = player.generation
            stage, seatings = self._alone(player, samples, part)
            matches = record_matches(self.run, stage, seatings, t, part, player.name)
            utility = self.utility
            judgements = record_judgements(
                self.run,
                f"{t}/{part}/{player.name}/judge/{judge.name}",
                judge,
                judge_context(self.run, self.run.roster.measured_at(player)),
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
        return self.test if part == "test" else self.held_out

    def _alone(self, player: PlayerId, samples: int, part: str) -> tuple[str, Seatings]:
        """The stage and its seatings, the player in every seat, for so many answers a prompt."""
        seats = dict.fromkeys(self.game.seats, player)
        rounds = -(-samples // len(seats))
        seatings = [(prompt, seats) for prompt in self._prompts(part) * rounds]
        return f"{player.generation}/{part}/{player.name}/play", seatings

    # -- two players' answers side by side

    def meetings(
        self, first: PlayerId, second: PlayerId, samples: int, judge: Judge
    ) -> list[Meeting]:
        key = (first, second, samples, judge.name)
        if key not in self._meetings:
            t = max(first.generation, second.generation)
            matches = self._side_by_side(first, second, samples, t)
            stage = f"{t}/meet/{first}/{second}/{judge.name}"
            if not self.run.ledger.has_finished(stage):
                self.run.ledger.add_matches(matches)
            judgements = record_judgements(
                self.run,
                stage,
                judge,
                judge_context(self.run, t),
                matches,
                {prompt.id: prompt for prompt in self.held_out},
                t,
            )
            results = []
            for match, judgement in zip(matches, judgements, strict=True):
                chance, other = (judgement.score(seat, self.utility) for seat in "12")
                payoff = None if chance is None else 2 * chance - 1
                if judge.score_range == (-inf, inf):  # of scores without a scale the order counts
                    payoff = preference(chance, other)
                elif chance is not None and not 0 <= chance <= 1:
                    raise ConfigError(
                        f"judge '{judge.kind}': compares, so that a score is the chance to win, "
                        f"in [0, 1]; it gave {chance:g}"
                    )
                results.append(Meeting(str(first), str(second), payoff, match.prompt))
            self._meetings[key] = results
        return self._meetings[key]

    def _side_by_side(self, first: PlayerId, second: PlayerId, samples: int, t: int) -> list[Match]:
        """Matches that set the i-th recorded answers of both to a prompt side by side."""
        first_answers = self.answers(first, samples)
        second_answers = self.answers(second, samples)
        matches = []
        for prompt, turns in first_answers.items():
            others = second_answers.get(prompt, ())
            for i, pair in enumerate(zip(turns, others, strict=False)):
                matches.append(self._meeting(prompt, i, (first, second), pair, t))
        return matches

    def _meeting(
        self,
        prompt: str,
        i: int,
        players: tuple[PlayerId, PlayerId],
        answers: tuple[Turn, Turn],
        t: int,
    ) -> Match:
        seed = self.run.config.seed
        identity = record_id(MEETING, seed, prompt, i, *players)
        first, second = answers
        turns = (Turn("1", first.view, first.move), Turn("2", second.view, second.move))
        return Match(
            id=identity,
            generation=t,
            split="held_out",
            game=MEETING,
            prompt=prompt,
            seats=dict(zip("12", players, strict=True)),
            seed=seeds.child(seed, "match", identity),
            turns=turns,
        )

    def answers(self, player: PlayerId, samples: int) -> dict[str, list[Turn]]:
        if (player, samples) not in self._answers:
            answers: dict[str, list[Turn]] = {}
            stage, seatings = self._alone(player, samples, "held_out")
            t = player.generation
            for match in record_matches(self.run, stage, seatings, t, "held_out", player.name):
                turns = match.last_turns().values()
                answers.setdefault(match.prompt, []).extend(turns)
            self._answers[player, samples] = {
                prompt: turns[:samples] for prompt, turns in answers.items()
            }
        return self._answers[player, samples]

    # -- players in the roles of a game

    def play(
        self,
        roles: Mapping[str, PlayerId],
        prompts: Sequence[Prompt],
        judge: Judge,
        t: int,
        label: str,
        temperature: float | None = None,
    ) -> list[JudgedMatch]:
        players = "+".join(map(str, roles.values()))
        born = max((player.generation for player in roles.values()), default=0)
        if temperature is not None:
            label = f"{label} at temperature {temperature:g}"
        key = f"{born}/held_out/{label}/{players}"
        if (key, judge.name) not in self._judged:
            dealt = {prompt.id for prompt in self.held_out}
            made = [prompt for prompt in prompts if prompt.id not in dealt]
            self.run.ledger.add_prompts(made, MADE, born)
            seatings = [(prompt, self._seats(prompt, roles)) for prompt in prompts]
            matches = record_matches(
                self.run, f"{key}/play", seatings, born, "held_out", players, temperature
            )
            judgements = record_judgements(
                self.run,
                f"{key}/judge/{judge.name}",
                judge,
                judge_context(self.run, t),
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
        if player not in self._policies:
            actor = self.run.population.actor(player)
            if not isinstance(actor, Distribution):
                raise ConfigError(f"players.{player.name}: exact measures need a tabular player")
            self._policies[player] = np.asarray(actor.probabilities(actions))
        return self._policies[player]

    def logprobs(
        self, player: PlayerId, answers: Sequence[tuple[tuple[Message, ...], str]]
    ) -> list[float]:
        if player.name not in self._encodings:
            self._encodings[player.name] = self._scorer(player).encoding
        encoding = self._encodings[player.name]
        keys = [text_key(chat, text) for chat, text in answers]
        known = self.run.ledger.logprobs(player, encoding, keys)
        rows = dict(zip(keys, answers, strict=True))
        missing = [key for key in rows if key not in known]
        for chunk in chunks(missing, CHUNK):
            chats, texts = zip(*(rows[key] for key in chunk), strict=True)
            values = self._scorer(player).logprobs(chats, texts, whole=True)
            self.run.ledger.add_logprobs(player, encoding, chunk, values)
            known.update(zip(chunk, values, strict=True))
        return [known[key][0] for key in keys]

    def _scorer(self, player: PlayerId) -> Scorer:
        actor = self.run.population.actor(player)
        if not isinstance(actor, Scorer):
            raise ConfigError(
                f"players.{player.name}: has no log-probabilities, by which its policy "
                "could be read; measure a local model"
            )
        return actor
