"""The steps of a generation, each done once: recorded under its key, skipped when the run is
resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from equipoise import seeds
from equipoise.evaluation.measures import Measures
from equipoise.judges.base import Judge
from equipoise.models.resources import Resources
from equipoise.players.population import Population
from equipoise.runs.arena import RunArena
from equipoise.runs.contexts import Contexts
from equipoise.runs.directory import RunDirectory
from equipoise.runs.duels import duels
from equipoise.runs.executors.crew import Crew
from equipoise.runs.executors.sharing import Sharing
from equipoise.runs.live_learners import LiveLearners
from equipoise.runs.memory import Memory
from equipoise.runs.model_card import write_cards
from equipoise.runs.monitor import Monitor
from equipoise.runs.named_sets.measurement import BenchmarkMeasurement
from equipoise.runs.named_sets.results import set_criterion
from equipoise.runs.opponents_answers import OpponentsAnswers
from equipoise.runs.prompt_parts import MADE, PromptParts
from equipoise.runs.recorder import Recorder
from equipoise.runs.roster import Roster
from equipoise.runs.teaching import Teaching
from equipoise.runs.trackers import Trackers
from equipoise.runs.training import Training
from equipoise.types import Episode, Judgement, Match, Pair, PlayerId, Prompt


class RunStages:
    """What the loop does, over a run directory."""

    def __init__(
        self,
        run: RunDirectory,
        roster: Roster,
        prompt_parts: PromptParts,
        contexts: Contexts,
        recorder: Recorder,
        live: LiveLearners,
        teaching: Teaching,
        training: Training,
        arena: RunArena,
        sets: BenchmarkMeasurement,
        monitor: Monitor,
        trackers: Trackers,
    ) -> None:
        self._run = run
        self._config = run.config
        self._ledger = run.ledger
        self._roster = roster
        self._prompt_parts = prompt_parts
        self._contexts = contexts
        self._recorder = recorder
        self._live = live
        self._teaching = teaching
        self._training = training
        self._arena = arena
        self._sets = sets
        self._monitor = monitor
        self._trackers = trackers

    @classmethod
    def of(
        cls,
        run: RunDirectory,
        monitor: Monitor,
        trackers: Trackers | None = None,
        crew: Crew | None = None,
    ) -> RunStages:
        """The stages of an open run, with everything that they need; by default no trackers, and no
        workers.
        """
        sharing = Sharing(crew, run.config.unit_rows)
        trackers = trackers or Trackers(run, [])
        config = run.config
        ledger = run.ledger
        resources = Resources(ledger, config.unit_rows)
        roster = Roster(config, ledger)
        memory = Memory(config, ledger)
        live = LiveLearners(config, ledger, run.folder, resources, monitor)
        population = Population(
            config.playing,
            run.folder / "players",
            resources=resources,
            live=live.actor,
            opened=sharing.open,
        )
        recorder = Recorder(config, ledger, population, monitor, sharing)
        contexts = Contexts(config, ledger, roster, population, memory, sharing)
        parts = PromptParts(config, ledger, recorder, monitor)
        answers = OpponentsAnswers(config, roster, recorder, contexts, parts)
        return cls(
            run,
            roster,
            parts,
            contexts,
            recorder,
            live,
            Teaching(config, ledger, parts, memory, resources, recorder, monitor, answers),
            Training(run, roster, population, contexts, live, recorder, monitor, trackers, sharing),
            RunArena(config, ledger, roster, population, recorder, contexts, parts),
            BenchmarkMeasurement(run, population, recorder, contexts, monitor),
            monitor,
            trackers,
        )

    def close(self) -> None:
        """End what stands by for the next generation."""
        self._live.close()

    # -- matches and judgements

    def deal(self, t: int) -> list[Prompt]:
        """The prompts of generation t."""
        return self._prompt_parts.train(t)

    def play(self, prompts: Sequence[Prompt], t: int) -> list[Match]:
        """The scheduled matches of generation t; none where its pairs are the data's."""
        if not self._config.plays(t):
            return []
        self._live.begin(self._roster.learners(t))
        context = self._contexts.match(t)
        seatings = self._config.schedule.seatings(prompts, context)
        dealt = {prompt.id for prompt in prompts}
        made = [prompt for prompt, _ in seatings if prompt.id not in dealt]
        self._ledger.add_prompts(made, MADE, t)
        return self._recorder.matches(f"{t}/play", seatings, t, "train")

    def judge(self, matches: Sequence[Match], t: int) -> list[Judgement]:
        """The judgements of every judge that teaches somebody, on each match of generation t."""
        if not matches:
            return []
        prompts = self._prompt_parts.played(t)
        judgements: list[Judgement] = []
        for name, judge in self._teachers().items():
            judgements += self._recorder.judgements(
                f"{t}/judge/{name}", judge, self._contexts.judge(t), matches, prompts, t
            )
        return judgements

    def rate(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], t: int
    ) -> list[Judgement]:
        """Rate the players after these matches; the judgements, weighed by the ratings of their
        judges.
        """
        judges = self._teachers()
        key = f"{t}/rate"
        names = [player.name for player in self._roster.players(t)]
        comparable = len(names) > 1 and self._config.game.symmetric
        if comparable and matches and self._ledger.finished(key) is None:
            self._monitor.stage("ratings", None, t)
            with self._recorder.stage("rate", key, t) as facts:
                judge = next(iter(judges.values()))
                utility = self._config.utility
                by_generation = [
                    duels(self._ledger, judge.name, g, utility, judge.grades_by_votes)
                    for g in range(t + 1)
                ]
                seed = seeds.child(self._config.seed, "standing", t)
                ratings = self._config.training_ratings
                rated = ratings.training_ratings(names, by_generation, seed)
                facts["duels"] = len(by_generation[-1])
                facts["ratings"] = [
                    {"name": r.name, "value": r.value, "low": r.low, "high": r.high} for r in rated
                ]
        ratings = self._contexts.training_ratings(t + 1)
        return [judges[judgement.judge].weighed(judgement, ratings) for judgement in judgements]

    def _teachers(self) -> dict[str, Judge]:
        """The judges that teach somebody, by name; where nobody learns, all."""
        judges = map(self._config.judge_of, self._config.measured)
        return {judge.name: judge for judge in judges}

    # -- learning

    def turn(self, t: int) -> list[PlayerId]:
        """Who learns in generation t; the others stay as they are."""
        return self._roster.turn(t)

    def examples(
        self, matches: Sequence[Match], judgements: Sequence[Judgement], learner: PlayerId, t: int
    ) -> Sequence[Pair | Episode]:
        """What `learner` is taught of the matches of generation t: pairs of answers, or episodes of
        its own moves.
        """
        return self._teaching.examples(matches, judgements, learner, t)

    def learn(
        self, examples: Mapping[PlayerId, Sequence[Pair | Episode]], t: int
    ) -> list[PlayerId]:
        """Train each of these learners, by what it is taught, into its next generation."""
        self._training.begin(examples, t)
        return [self._training.learn(of, who, t) for who, of in examples.items()]

    # -- measures

    def measure(self, t: int) -> None:
        """How strong generation t is, and what can still beat it; only where a measurement is
        due.
        """
        if not self._roster.due(t):
            return
        learners = self._roster.learners(t)
        key = f"{t}/measure"
        self._live.begin(learners)
        if self._ledger.finished(key) is None:
            with self._recorder.stage("measure", key, t) as facts:
                self._live.save(learners)
                measured = learners or self._roster.others()
                ages = {player.name: player.generation for player in measured}
                measures = self._config.evaluate.measure(self._arena, t)
                self._benchmarks(measured)
                facts.update(measures.facts(ages))
                self._run.metric(key, generation=t, **measures.numbers())
                self._trackers.measured(measures, t)
        write_cards(self._run, learners)
        measures = Measures.read(self._ledger.finished(key) or {})
        self._monitor.numbers(**measures.watched())

    def _benchmarks(self, players: Sequence[PlayerId]) -> None:
        """What each of the players scores on every named set of the recipe."""
        sets = self._config.evaluate.sets
        items = {name: benchmark.items() for name, benchmark in sets.items()}
        for name, benchmark in sets.items():
            for player in players:
                self._sets.measure(name, benchmark, items[name], player)

    def select(self, t: int) -> None:
        """The best player of all generations up to t, tested once on the prompts that were set
        aside for it.
        """
        evaluation = self._config.evaluate
        if not self._config.prompts.test and evaluation.select_by is None:
            return
        if self._ledger.finished("select") is None:
            with self._recorder.stage("select", "select", t) as facts:
                criterion = None
                if evaluation.select_by is not None:
                    criterion = set_criterion(self._ledger, evaluation.select_by)
                selected = evaluation.select(self._arena, t, criterion)
                facts.update(selected.facts())
