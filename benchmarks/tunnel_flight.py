"""One rule in the wind tunnel: played, measured, swept over its settings, killed and resumed.

Every figure of a row comes from `fly`, which plays a rule on a batch of games until its evaluations
are spent. The settings of a row, one for its last policies and one for its averages, are those with
the smallest mean gap on games that are not measured.
"""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tunnel_games import ABSENT, FAMILIES, Games, Judged, Preferences, normalised
from benchmarks.tunnel_rules import Rule, load

RESERVED = 100_000  # the first number of the games on which settings are chosen
LOOKS = 10  # times at which the last policy's gap is looked at on its way
LOST = 0.001  # an equilibrium's action that is played less than this is lost
SMALL = 0.005  # a gap that is no difference any more
POKER = {"kuhn": (8, 4), "leduc": (2, 1)}  # starts that are measured, and those to choose on
CONDITIONS: dict[str, dict[str, Any]] = {
    "8 samples": {"samples": 8, "flipped": 0.0, "saturated": False},
    "noisy judge": {"samples": 8, "flipped": 0.2, "saturated": False},
    "saturated judge": {"samples": 0, "flipped": 0.0, "saturated": True},
}
TOLD = "random"
"""The family whose gains a rule is told otherwise, and what it is told in their place."""


class Size(NamedTuple):
    """How much is played: games that are measured, games to choose settings on, evaluations."""

    games: int
    reserved: int
    evaluations: int

    def of(self, family: str) -> Size:
        """A poker game is one game from a few starts, and is given twice the evaluations."""
        if family not in POKER:
            return self
        measured, reserved = POKER[family]
        least = Size(min(measured, self.games), min(reserved, self.reserved), self.evaluations)
        return least._replace(evaluations=2 * self.evaluations)


class Past(list):
    """The policies so far; `reach` is the largest number of newest ones that a rule has read,
    without the start.
    """

    reach = 0

    def __getitem__(self, place: Any) -> Any:
        length = len(self)
        places = range(length)[place]
        for at in [places] if isinstance(places, int) else places:
            if at:
                self.reach = max(self.reach, length - at)
        return super().__getitem__(place)


class Flight(NamedTuple):
    """What a rule did: all its policies, the numbers of evaluations after which they were there,
    the newest policies that it read.
    """

    log_TRA: list[np.ndarray]
    spent_T: list[int]
    reach: int


class State(NamedTuple):
    """All that a rule goes on from."""

    log_TRA: list[np.ndarray]
    spent_T: list[int]
    records: list[tuple[np.ndarray, np.ndarray]]

    def write(self, file: Path) -> None:
        """Write it whole or not at all."""
        draft = file.with_suffix(".part")
        draft.write_bytes(pickle.dumps(tuple(self)))
        os.replace(draft, file)

    @classmethod
    def read(cls, file: Path) -> State:
        """The state that this program wrote."""
        return cls(*pickle.loads(file.read_bytes()))


def fly(
    rule: Rule,
    games: Games,
    setting: tuple[float, float],
    budget: int,
    state: State | None = None,
    keep: Path | None = None,
) -> Flight:
    """Play a rule until `budget` evaluations are spent, from the start or from a state.

    keep: where the state is written after every move. A rule that would need more evaluations than
    are left makes its last move all the same, so that nobody stops early. Raises ValueError where
    a rule makes no finite logits of the right shape.
    """
    games.budget = budget
    past = Past([games.start_RA])
    spent_T = [0]
    if state is not None:
        past = Past(state.log_TRA)
        spent_T = list(state.spent_T)
        games.records = list(state.records)
    games.evaluations = spent_T[-1]
    while games.evaluations < budget:
        before = games.evaluations
        logit_RA = np.asarray(rule.move(games, past, *setting), dtype=float)
        if logit_RA.shape != games.start_RA.shape or not np.isfinite(logit_RA).all():
            raise ValueError(
                f"{rule.name}: must make finite logits of shape {games.start_RA.shape}, "
                f"made {logit_RA.shape} after {len(past) - 1} moves at step {setting[0]:g}"
            )
        if games.evaluations == before:
            games.evaluations += 1  # a move that asks nothing new costs one, so that it ends
        past.append(normalised(logit_RA))
        spent_T.append(games.evaluations)
        if keep is not None:
            State(list(past), spent_T, games.records).write(keep)
    return Flight(list(past), spent_T, past.reach)


def last_gap(flight: Flight, games: Games) -> np.ndarray:
    """Of the last policy, [G]."""
    return games.gap(np.exp(flight.log_TRA[-1]))


def average_gap(flight: Flight, games: Games) -> np.ndarray:
    """Of the average of all policies, [G]."""
    return games.gap(games.average(flight.log_TRA))


def mean_gap(flight: Flight, games: Games) -> np.ndarray:
    """Of the last policies at LOOKS times over the budget, their mean, [G]."""
    places = np.linspace(0, len(flight.log_TRA) - 1, LOOKS + 1).round().astype(int)[1:]
    gaps = [games.gap(np.exp(flight.log_TRA[place])) for place in places]
    return np.mean(gaps, axis=0)


def entropy(log_RA: np.ndarray, games: Games) -> float:
    """Of the policies, as a share of that of equal chances, the mean over rows with a choice."""
    policy_RA = np.exp(log_RA)
    nats_R = -(policy_RA * log_RA).sum(axis=1)
    present_R = (games.start_RA > ABSENT / 2).sum(axis=1)
    most_R = np.log(np.maximum(present_R, 2))
    return float((nats_R / most_R)[present_R > 1].mean())


def lost(log_RA: np.ndarray, games: Games) -> float | None:
    """The share of the actions of an equilibrium that are hardly played any more."""
    played_RA = games.support()
    if played_RA is None:
        return None
    return float((np.exp(log_RA) < LOST)[played_RA].mean())


class Swept(NamedTuple):
    """The mean gaps of every setting on the reserved games, [S], and the best for each."""

    settings: list[tuple[float, float]]
    last_S: np.ndarray
    average_S: np.ndarray

    @property
    def for_last(self) -> tuple[float, float]:
        """The setting with the smallest mean gap of the last policies."""
        return self.settings[int(self.last_S.argmin())]

    @property
    def for_average(self) -> tuple[float, float]:
        """The setting with the smallest mean gap of the averages."""
        return self.settings[int(self.average_S.argmin())]

    def forgiving(self) -> float | None:
        """The share of the steps with which the last policies, at their best pull, end at no more
        than one and a half times the best gap; None of a rule without a choice.
        """
        steps = sorted({step for step, _ in self.settings})
        if len(steps) < 2:
            return None
        best_of = dict.fromkeys(steps, np.inf)
        for (step, _), gap in zip(self.settings, self.last_S, strict=True):
            best_of[step] = min(best_of[step], float(gap))
        bound = 1.5 * float(self.last_S.min()) + SMALL
        return sum(gap <= bound for gap in best_of.values()) / len(steps)


def sweep(rule: Rule, games: Games, budget: int) -> Swept:
    """Play every setting of a rule."""
    settings = rule.settings()
    last_S, average_S = [], []
    for setting in settings:
        flight = fly(rule, games, setting, budget)
        last_S.append(last_gap(flight, games).mean())
        average_S.append(average_gap(flight, games).mean())
    return Swept(settings, np.array(last_S), np.array(average_S))


def measured(rule: Rule, family: str, size: Size) -> dict[str, Any]:
    """The figures of a rule in a family: gaps game by game, what was chosen, collapse, cost."""
    own = size.of(family)
    reserved = FAMILIES[family](range(RESERVED, RESERVED + own.reserved))
    swept = sweep(rule, reserved, own.evaluations)
    games = FAMILIES[family](range(own.games))
    flight = fly(rule, games, swept.for_last, own.evaluations)
    averaged = flight
    if swept.for_average != swept.for_last:
        averaged = fly(rule, games, swept.for_average, own.evaluations)
    moves = len(flight.log_TRA) - 1
    return {
        "family": family,
        "rule": rule.name,
        "last": rounded(last_gap(flight, games)),
        "average": rounded(average_gap(averaged, games)),
        "over": rounded(mean_gap(flight, games)),
        "setting": swept.for_last,
        "average_setting": swept.for_average,
        "forgiving": swept.forgiving(),
        "entropy": round(entropy(flight.log_TRA[-1], games), 4),
        "lost": lost(flight.log_TRA[-1], games),
        "evaluations": round(flight.spent_T[-1] / moves, 2),
        "policies": flight.reach,
    }


def rounded(gap_G: np.ndarray) -> list[float]:
    """Gaps as a raw file holds them."""
    return [round(float(gap), 5) for gap in gap_G]


def judged(rule: Rule, condition: str, size: Size) -> dict[str, Any]:
    """The gaps of the last policies in games of `TOLD` that are told as the condition says; steps
    and pulls are chosen under the same condition.
    """
    told = CONDITIONS[condition]

    def batch(first: int, count: int) -> Judged:
        games = FAMILIES[TOLD](range(first, first + count))
        assert isinstance(games, Preferences)
        return Judged(games, **told, seed=first)

    swept = sweep(rule, batch(RESERVED, size.reserved), size.evaluations)
    games = batch(0, size.games)
    flight = fly(rule, games, swept.for_last, size.evaluations)
    return {
        "family": condition,
        "rule": rule.name,
        "last": rounded(last_gap(flight, games)),
        "setting": swept.for_last,
    }


def half_way(given: Sequence[str], rules: Sequence[Rule], folder: str, budget: int) -> None:
    """Play rules, writing the state of each after every move, and die in the middle of the last.

    given: the rules of one's own, to be loaded again.
    """
    every = [*rules, *(load(each) for each in given)]
    for number, rule in enumerate(every):
        games = FAMILIES["mixed"](range(2))
        fly(rule, games, middle(rule), budget // 2, keep=Path(folder) / str(number))
    os.kill(os.getpid(), signal.SIGKILL)


def middle(rule: Rule) -> tuple[float, float]:
    """One of a rule's settings."""
    settings = rule.settings()
    return settings[len(settings) // 2]


def resumed(given: Sequence[str], rules: Sequence[Rule], budget: int) -> Iterator[tuple[str, bool]]:
    """(rule, whether a player that was killed half way and goes on from its file ends with the very
    numbers of one that was not), each.
    """
    with tempfile.TemporaryDirectory(prefix="tunnel-") as folder:
        arguments = (given, rules, folder, budget)
        process = get_context("spawn").Process(target=half_way, args=arguments)
        process.start()
        process.join()
        if process.exitcode != -signal.SIGKILL:
            raise RuntimeError(f"the process that was to be killed ended with {process.exitcode}")
        for number, rule in enumerate([*rules, *(load(each) for each in given)]):
            setting = middle(rule)
            games = FAMILIES["mixed"](range(2))
            whole = fly(rule, games, setting, budget)
            again = FAMILIES["mixed"](range(2))
            state = State.read(Path(folder) / str(number))
            rest = fly(rule, again, setting, budget, state)
            yield rule.name, np.array_equal(whole.log_TRA[-1], rest.log_TRA[-1])
