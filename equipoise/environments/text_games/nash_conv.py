"""Exact exploitability of language models in small games of OpenSpiel.

Of a run's learners, or of any local model as a set, `equipoise evaluate MODEL --on nash_conv`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import ClassVar, Literal

import msgspec
import numpy as np
from pydantic import Field

from equipoise.environments.text_games.game_tree import GameTree, TreeQuestions, game_tree
from equipoise.environments.text_games.measures import MOST_STATES, NashConvMeasures
from equipoise.environments.text_games.open_spiel import OpenSpiel
from equipoise.errors import ConfigError, DataError
from equipoise.evaluation.base import Arena, Evaluation
from equipoise.evaluation.measures import Measures
from equipoise.evaluation.sets.base import Benchmark
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.ledger.facts import Estimate
from equipoise.ledger.item_scores import Answers, BenchmarkResult, Item, Items, ItemScores, Judged
from equipoise.types import PlayerId, Prompt, record_id


class NashConv(Evaluation):
    """The gain of best replies to each learner's policy, read off at every information state.

    Also to the average of all measured generations, and to the equilibrium over the league of all.
    A learner sits in every seat. A mixture of policies plays as one of them, drawn before the game.
    """

    kind: Literal["nash_conv"] = "nash_conv"
    measures: ClassVar[type[Measures]] = NashConvMeasures
    largest: int = Field(
        100_000,
        ge=1,
        description="positions of the largest game that is written down (Kuhn poker has "
        "58, Leduc poker 9,457, tic-tac-toe 549,946)",
    )

    def check(
        self, game: Game, player_of_role: Mapping[str, str], judges: Sequence[Judge], tests: bool
    ) -> None:
        """Raise ConfigError for a game not of OpenSpiel, or seats of different players."""
        if not isinstance(game, OpenSpiel):
            raise ConfigError(
                f"evaluate: 'nash_conv' measures games of open_spiel; this is '{game.kind}'"
            )
        if len(set(player_of_role.values())) > 1:
            raise ConfigError(
                "evaluate: 'nash_conv' seats each learner everywhere, and the schedule "
                "gives the seats to different players"
            )

    def faults(self, game: Game) -> Iterator[str]:
        """A fault where the game is too large, or of a kind that cannot be written down."""
        assert isinstance(game, OpenSpiel)
        try:
            game_tree(game, self.largest)
        except ConfigError as error:
            yield str(error)

    def solves(self, game: Game) -> bool:
        """True for games of two; without a constant sum the mixture is empty."""
        return isinstance(game, OpenSpiel) and game.players == 2

    def reads(self, game: Game) -> tuple[str, ...]:
        return ("solver",)

    def measure(self, arena: Arena, t: int) -> NashConvMeasures:
        """NashConv of generation t, in the game's units. ConfigError without log-probabilities."""
        game = arena.game
        assert isinstance(game, OpenSpiel)
        tree = game_tree(game, self.largest)
        newest = arena.learners(t) or arena.others()
        pasts = {player: arena.past(player) for player in newest}
        league = [old for past in pasts.values() for old in reversed(past)]
        reading = TreeQuestions.of(tree)
        # the newest first: they are in memory, and the past is recorded
        policies = {
            player: reading.policy(tree, arena.logprobs(player, reading.answers))
            for player in [*newest, *chain.from_iterable(pasts.values())]
        }

        def mixture_nash_conv(players: Sequence[PlayerId], weight_N: np.ndarray) -> float:
            policy_NF = np.stack([policies[player].policy_F for player in players])
            return nash_conv(tree, tree.mixture(policy_NF, weight_N))

        payoff_NN = payoffs(tree, [policies[player].policy_F for player in league])
        mixture_N = arena.solver.solve(payoff_NN) if len(payoff_NN) else np.zeros(0)
        lasts = {str(p): nash_conv(tree, policies[p].policy_F) for p in newest}
        averages = {
            str(player): mixture_nash_conv(past, np.ones(len(past)))
            for player, past in pasts.items()
        }
        shown = tree.states if len(tree.states) <= MOST_STATES else []
        mixture = dict(zip(map(str, league), mixture_N.tolist(), strict=False))
        illegal = {str(p): float(policies[p].illegal_S.mean()) for p in newest}
        worst_illegal = {str(p): float(policies[p].illegal_S.max()) for p in newest}
        return NashConvMeasures(
            players=[str(player) for player in league],
            payoff=payoff_NN.tolist(),
            mixture=mixture,
            nash_conv=lasts,
            average=averages,
            mixture_nash_conv=mixture_nash_conv(league, mixture_N) if len(mixture_N) else None,
            uniform=nash_conv(tree, tree.uniform()),
            illegal=illegal,
            worst_illegal=worst_illegal,
            exploitability=max(lasts.values()),
            average_exploitability=max(averages.values()),
            states=[state.key for state in shown],
            moves=[list(state.view.actions) for state in shown],
            policies={str(p): policies[p].policy_F.tolist() for p in newest if shown},
        )


def payoffs(tree: GameTree, policy_NF: Sequence[np.ndarray]) -> np.ndarray:
    """payoff_NN in shares of the most that is paid; empty but for two players, constant sum."""
    spiel = tree.game.spiel
    if tree.game.players != 2 or spiel.utility_sum() is None:
        return np.zeros((0, 0))
    return (tree.payoffs(policy_NF) - spiel.utility_sum() / 2) / spiel.max_utility()


def nash_conv(tree: GameTree, policy_F: np.ndarray) -> float:
    return tree.nash_conv([policy_F] * tree.game.players)


class NashConvBenchmark(Benchmark):
    """Gain of best replies to a model in every seat of a small game of OpenSpiel, exactly.

    In the game's units: `nash_conv` is of the legal moves' probabilities at every information
    state, `illegal` the mean mass on other answers, which is left out of the policy.
    """

    kind: Literal["nash_conv"] = "nash_conv"
    lower_is_better: ClassVar[tuple[str, ...]] = ("nash_conv", "illegal")
    game: Game = Field(
        default="open_spiel", description="the game: {kind: open_spiel, name: leduc_poker}"
    )  # type: ignore[assignment]
    largest: int = Field(
        100_000, ge=1, description="positions of the largest game that is written down"
    )

    @property
    def headline(self) -> str:
        return "nash_conv"

    @property
    def tree(self) -> GameTree:
        """The game, written down. Raises ConfigError for one that cannot be."""
        assert isinstance(self.game, OpenSpiel)
        return game_tree(self.game, self.largest)

    def load(self) -> list[Item]:
        """An item for each view, the legal moves its choices. Raises DataError, ConfigError."""
        if not isinstance(self.game, OpenSpiel):
            raise DataError(f"game: 'nash_conv' needs a game of open_spiel, not '{self.game.kind}'")
        self.game.check()
        choices: dict[tuple, list[str]] = {}
        for messages, text in TreeQuestions.of(self.tree).answers:
            choices.setdefault(messages, []).append(text)
        items = []
        for number, (messages, texts) in enumerate(choices.items()):
            name = record_id(self.kind, *(m.content for m in messages))
            prompt = Prompt(name, messages, source=self.game.name)
            items.append(Item(id=str(number), prompt=prompt, choices=tuple(texts), ended=True))
        return items

    def faults(self, items: Items, context: JudgeContext) -> Iterator[str]:
        """Faults: a limit, since the whole game is needed, or a judge."""
        if self.limit is not None:
            yield "'nash_conv' needs the whole game; take away limit"
        if self.judge is not None:
            yield "'nash_conv' is computed; take away its judge"

    def score(self, items: Items, answers: Answers, judged: Sequence[Judged]) -> list[ItemScores]:
        """The mass on illegal moves of each view; the log-probabilities as facts."""
        rows = []
        for item in items:
            [answer] = answers[item.id]
            logprobs = [each.logprob for each in answer.likelihoods]
            values: dict[str, float | None] = {
                "illegal": max(0.0, 1 - float(np.exp(logprobs).sum()))
            }
            rows.append(ItemScores(item=item.id, values=values, facts={"logprobs": logprobs}))
        return rows

    def summary(self, scores: Sequence[ItemScores], items: Items) -> BenchmarkResult:
        """NashConv of the policy, with that of uniform play in the note."""
        tree = self.tree
        reading = TreeQuestions.of(tree)
        logprobs = {}
        for item, row in zip(items, scores, strict=True):
            for text, logprob in zip(item.choices, row.facts["logprobs"], strict=True):
                logprobs[(item.prompt.messages, text)] = logprob
        policy = reading.policy(tree, [logprobs[answer] for answer in reading.answers])
        exact = {
            "nash_conv": nash_conv(tree, policy.policy_F),
            "illegal": float(policy.illegal_S.mean()),
        }
        uniform = nash_conv(tree, tree.uniform())
        metrics = {
            name: Estimate(value, None, None, len(tree.states)) for name, value in exact.items()
        }
        return msgspec.structs.replace(
            super().summary(scores, items),
            unscored=0,
            no_shares=("nash_conv",),
            metrics=metrics,
            note=f"over {len(tree.states)} information states of "
            f"{tree.game.name}; NashConv of uniform play: {uniform:.4f}",
        )
