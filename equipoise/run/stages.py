"""The steps of a generation, each done once: recorded under its key, skipped when the
run is resumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from statistics import fmean

from equipoise import seeds
from equipoise.evaluate.measures import Measures
from equipoise.judges.base import JudgeContext
from equipoise.matches.base import MatchContext
from equipoise.players.population import Population
from equipoise.prompts.split import dealt
from equipoise.ratings.base import Duel
from equipoise.run.arena import RunArena
from equipoise.run.directory import Run
from equipoise.run.ledger import Ledger
from equipoise.run.memory import Memory
from equipoise.run.recorder import Monitor, Recorder, Seat
from equipoise.run.roster import Roster
from equipoise.run.teaching import Teaching
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt, Vote


class RunStages:
    """`loop.Stages` over a run directory."""

    def __init__(self, run: Run, monitor: Monitor) -> None:
        self.run, self.config, self.ledger, self.monitor = (
            run,
            run.config,
            run.ledger,
            monitor,
        )
        self.population = Population(
            self.config.players, run.folder / "players", run.ledger
        )
        self.recorder = Recorder(run, monitor, self.population)
        self.arena = RunArena(self)
        self.memory = Memory(self.config, run.ledger)
        self.teaching = Teaching(self)
        self.roster = Roster(self.config.turns, self.config.learning, run.ledger)
        self.now = 0  # the generation of the loop that is under way

    # -- who is there

    def learners(self, t: int) -> list[PlayerId]:
        """Every player that learns, as old as it is when generation t begins."""
        return self.roster.at(t)

    def past(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself, newest first."""
        return [PlayerId(player.name, g) for g in range(player.generation, -1, -1)]

    def measured(self, player: PlayerId) -> list[PlayerId]:
        """The generations of `player` up to itself at which it was measured, newest
        first; itself among them.
        """
        ages = {
            old.generation
            for t in range(self.now + 1)
            if self.due(t)
            for old in self.learners(t)
            if old.name == player.name
        }
        return [
            PlayerId(player.name, g)
            for g in sorted(ages | {player.generation}, reverse=True)
            if g <= player.generation
        ]

    def others(self) -> list[PlayerId]:
        """The players that do not learn; they stay as given."""
        return [
            PlayerId(name)
            for name, player in self.config.players.items()
            if not player.learns
        ]

    def ratings(self, t: int) -> dict[str, float]:
        """How the players stood before the matches of generation t, by name; empty at
        first.
        """
        found = self.ledger.finished(f"{t - 1}/rate") or {}
        return {rating["name"]: rating["value"] for rating in found.get("ratings", ())}

    def judge_context(self, t: int) -> JudgeContext:
        """Where the judges of generation t sit."""
        seed = seeds.child(self.config.seed, "bench", t)
        return Seat(
            self.config.game,
            seed,
            self.learners(t) + self.others(),
            self.ratings(t),
            self.population,
        )

    # -- prompts

    def deal(self, t: int) -> list[Prompt]:
        """The prompts of generation t."""
        self.deal_all()
        return self.ledger.prompts("train", t)

    def deal_all(self) -> None:
        """Read the source once and record every part, so that a resumed run does not
        depend on the file any more.
        """
        if self.ledger.finished("deal") is not None:
            return
        self.monitor.stage("prompts")
        with self.recorder.stage("deal", "deal", 0) as facts, self.ledger.transaction():
            parts = dealt(
                self.config.prompts, self.config.generations, self.config.seed
            )
            self.ledger.add_prompts(parts.held_out, "held_out", 0)
            self.ledger.add_prompts(parts.test, "test", 0)
            for t, part in enumerate(parts.parts):
                self.ledger.add_prompts(part, "train", t)
            facts.update(
                prompts=sum(map(len, parts.parts)),
                held_out=len(parts.held_out),
                test=len(parts.test),
            )
            facts.update(dropped=parts.dropped)

    # -- matches and verdicts

    def play(self, prompts: Sequence[Prompt], t: int) -> list[Match]:
        """The scheduled matches of generation t."""
        self.now = t
        seatings = self.config.schedule.seatings(prompts, self.match_context(t))
        dealt = {prompt.id for prompt in prompts}
        self.ledger.add_prompts(
            (prompt for prompt, _ in seatings if prompt.id not in dealt), "attack", t
        )
        return self.recorder.matches(f"{t}/play", seatings, t, "train")

    def asked(self, t: int) -> dict[str, Prompt]:
        """The prompts of generation t's matches, by id: those that were dealt, and old
        attacks on them.
        """
        return {
            prompt.id: prompt
            for part in ("train", "attack")
            for prompt in self.ledger.prompts(part, t)
        }

    def match_context(self, t: int) -> MatchContext:
        """Who may be seated in generation t, and what is known of them."""
        learners = self.learners(t)
        last = max(g for g in range(t + 1) if self.due(g))
        league = self.ledger.finished(f"{last}/measure") or {}
        names = [PlayerId.parse(name) for name in league.get("players", ())]
        rows = league.get("payoff", ())
        return MatchContext(
            self.config.game,
            learners + self.others(),
            [old for learner in learners for old in self.past(learner)[1:]],
            seeds.child(self.config.seed, "seats", t),
            self.ratings(t),
            {
                PlayerId.parse(name): weight
                for name, weight in league.get("mixture", {}).items()
            },
            {
                (names[i], names[j]): (1 + value) / 2
                for i, row in enumerate(rows)
                for j, value in enumerate(row)
            },
            learners,
            self.memory.successful_texts(t) if self.config.schedule.remembers else (),
        )

    def judge(self, matches: Sequence[Match], t: int) -> list[Judgement]:
        """The word of every judge that teaches somebody, on each match of generation t."""
        prompts = self.asked(t)
        judges = {
            judge.name: judge
            for judge in map(self.config.judge_of, self.config.learning)
        }
        judgements: list[Judgement] = []
        for name, judge in judges.items():
            judgements += self.recorder.judgements(
                f"{t}/judge/{name}", judge, self.judge_context(t), matches, prompts, t
            )
        return judgements

    def rate(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], t: int
    ) -> list[Judgement]:
        """Where the players stand after generation t's matches; the judgements, weighed
        by that.
        """
        judges = {
            judge.name: judge
            for judge in map(self.config.judge_of, self.config.learning)
        }
        names, key = (
            [player.name for player in self.learners(t) + self.others()],
            f"{t}/rate",
        )
        if (
            len(names) > 1
            and self.config.game.symmetric
            and self.ledger.finished(key) is None
        ):
            self.monitor.stage("ratings", None, t)
            with self.recorder.stage("rate", key, t) as facts:
                judge = next(iter(judges.values()))
                met = [
                    duels(self.ledger, judge.name, g, self.config.utility, judge.value)
                    for g in range(t + 1)
                ]
                found = self.config.standing.standing(
                    names, met, seeds.child(self.config.seed, "standing", t)
                )
                facts["duels"] = len(met[-1])
                facts["ratings"] = [
                    {"name": r.name, "value": r.value, "low": r.low, "high": r.high}
                    for r in found
                ]
        ratings = self.ratings(t + 1)
        return [
            judges[judgement.judge].weighed(judgement, ratings)
            for judgement in judgements
        ]

    # -- lessons

    def turn(self, t: int) -> list[PlayerId]:
        """Who learns in generation t; the others stay as they are."""
        names = self.roster.turn(t)
        return [player for player in self.learners(t) if player.name in names]

    def training_batch(
        self,
        matches: Sequence[Match],
        judgements: Sequence[Judgement],
        learner: PlayerId,
        t: int,
    ) -> Sequence[Pair | Episode]:
        """What `learner` is taught of the matches of generation t."""
        return self.teaching.training_batch(matches, judgements, learner, t)

    def learn(
        self, taught: Sequence[Pair | Episode], learner: PlayerId, t: int
    ) -> PlayerId:
        """Train `learner` into its next generation."""
        return self.teaching.learn(taught, learner, t)

    # -- measures

    def due(self, t: int) -> bool:
        """Whether generation t is measured."""
        return self.config.evaluate.due(t, self.config.generations)

    def measure(self, t: int) -> None:
        """How strong generation t is, and what can still beat it; only where a
        measurement is due.
        """
        if not self.due(t):
            return
        self.now, key = t, f"{t}/measure"
        found = self.ledger.finished(key)
        if found is None:
            with self.recorder.stage("measure", key, t) as facts:
                self.teaching.write_down(t)
                ages = {player.name: player.generation for player in self.learners(t)}
                measures = self.config.evaluate.measure(self.arena, t)
                if isinstance(measures, Measures):
                    facts.update(measures.facts(ages))
                else:
                    facts.update(measures, ages=ages)
                self.run.metric(
                    key,
                    generation=t,
                    **{n: v for n, v in facts.items() if isinstance(v, (int, float))},
                )
            found = self.ledger.finished(key) or {}
        self.monitor.numbers(
            **{
                n: found[n]
                for n in ("win_rate", "exploitability", "score", "best_score")
                if n in found
            }
        )

    def select(self, t: int) -> None:
        """The best player of all generations up to t, tested once on the prompts that
        were set aside for it.
        """
        if self.config.prompts.test and self.ledger.finished("select") is None:
            with self.recorder.stage("select", "select", t) as facts:
                facts.update(self.config.evaluate.select(self.arena, t).facts())


Counts = Callable[[Vote], float | None]


def duels(
    ledger: Ledger,
    judge: str,
    t: int,
    utility: str,
    value: Counts = lambda vote: vote.value,
) -> list[Duel]:
    """The meetings of two different players in generation t, in order, with what each
    voter gave both.

    `judge` by its name in the ledger; `value` says what a vote counts as. A judge
    without votes counts as one voter, by its scores. A meeting that nobody scored is a
    duel without scores.
    """
    matches = ledger.matches("train", t)
    judgements = ledger.judgements_of((match.id for match in matches), judge)
    return [
        Duel(
            first.name,
            second.name,
            _both(judgements.get(match.id), a, b, utility, value),
        )
        for match in matches
        for (a, first), (b, second) in combinations(match.seats.items(), 2)
        if first.name != second.name
    ]


def _both(
    judgement: Judgement | None, first: str, second: str, utility: str, value: Counts
) -> dict[str, tuple[float, float]]:
    """voter -> (score of the first seat, score of the second), of those who scored
    both.
    """
    given: dict[str, dict[str, list[float]]] = {}
    alone = [vote for vote in judgement.votes if not vote.other] if judgement else []
    for vote in alone:
        found = value(vote)
        if found is not None:
            given.setdefault(PlayerId.parse(vote.by).name, {}).setdefault(
                vote.seat, []
            ).append(found)
    if judgement and not alone:
        scores = judgement.by_seat(utility)
        given[judgement.judge] = {seat: [score] for seat, score in scores.items()}
    return {
        voter: (fmean(by_seat[first]), fmean(by_seat[second]))
        for voter, by_seat in given.items()
        if first in by_seat and second in by_seat
    }
