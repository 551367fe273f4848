"""Everything that a report shows, as plain data: filled from the ledger by the run,
read by the sections.

A number that is not known is NaN or None, never 0; a field without data stays empty,
and its section says so. A curve or interval whose `unit` is "%" holds shares in [0, 1].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from equipoise.payoffs.table import PayoffTable
from equipoise.ratings.base import Rating
from equipoise.report.cards import CardAnswer as Answer  # noqa: F401
from equipoise.report.cards import CardPart as Part  # noqa: F401
from equipoise.report.cards import MatchCard
from equipoise.report.cost import Account, Tokens
from equipoise.report.elements import Curve, Curves, Headline, Series
from equipoise.report.selection import Selection


@dataclass(frozen=True, slots=True)
class Phase:
    """Generations `first` to `last`, in which `names` learned and nobody else."""

    names: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CrossPlay:
    """`success_AD[a, d]` is the attack success of `adversaries[a]` with `defenders[d]`,
    on `prompts` seed prompts.

    `value` and the two mixtures solve the zero-sum game of choosing a generation; None
    and empty where not known.
    """

    adversaries: tuple[str, ...]
    defenders: tuple[str, ...]
    success_AD: np.ndarray
    prompts: int
    forgetting: float | None = None
    cycling: float | None = None
    value: float | None = None
    adversary: Mapping[str, float] = field(default_factory=dict)
    defender: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attack:
    """What a game of attack and defence adds to a run; its texts are harmful.

    `trained` are measures over every generation's training, `phases` whose turn it was
    then; `measured` are on held-out prompts. `diverse` lists (generation, diversity,
    attack success). `cards` are attacks out of `seen` that were read.
    """

    trained: tuple[Curves, ...] = ()
    phases: tuple[Phase, ...] = ()
    measured: tuple[Curves, ...] = ()
    diverse: tuple[tuple[int, float, float], ...] = ()
    crossplay: CrossPlay | None = None
    cards: tuple[MatchCard, ...] = ()
    seen: int = 0


@dataclass(frozen=True, slots=True)
class Plane:
    """What every prompt is worth to both sides.

    `point_N2` are (user, model), `front_F` the indices of those on the front; `area` is
    what they dominate above (0, 0), None where it was not measured.
    """

    name: str
    point_N2: np.ndarray
    front_F: np.ndarray
    area: float | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """Matrices that an assistant wrote at one generation, and what it chose in them.

    `means` is by the question's type: cell -> (the user's mean pay-off, the model's).
    `chosen` counts the cells that were chosen, "none" included. `paid` is what was
    really got: question -> move -> (user, model, how often). `typed` is how often the
    chosen cell is of the question's true type.
    """

    matrices: int
    means: Mapping[str, Mapping[str, tuple[float, float]]]
    chosen: Mapping[str, int]
    paid: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    typed: float | None = None


@dataclass(frozen=True, slots=True)
class Assistance:
    """What the assistant's game adds to a run.

    `planes` are generation 0, the last measured one, then other runs; `moves` are
    (question, generation) -> shares of the moves; `written` is of the last generation,
    `choices` says how many of them follow from the written game by one solution or
    another. `sources` is (data set, generation) -> the measures' names -> values, ready
    to read. `beaten` is an earlier generation -> the share of the prompts at which it
    dominates the last. `harmful`: prompts that ask for harm are among the matches.
    """

    measured: tuple[Curves, ...] = ()
    alone: tuple[Curve, ...] = ()
    planes: tuple[Plane, ...] = ()
    moves: Mapping[tuple[str, int], Mapping[str, float]] = field(default_factory=dict)
    written: Written | None = None
    choices: tuple[Curves, ...] = ()
    sources: Mapping[tuple[str, int], Mapping[str, str]] = field(default_factory=dict)
    beaten: Mapping[str, float] = field(default_factory=dict)
    harmful: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run.

    `payoff_NN[i, j]` is what `players[i]` gets when it meets `players[j]`; `se_NN` its
    standard error, `count_NN` the judged matches behind it. `counts` are shown in their
    order, a key that ends in "share" as percent; its "matches" is the number of which
    `matches` are a sample. `dropped` counts what was left out, by reason. `curves` are
    of a single learner, `compared` of several. `pool` names the players without
    generations; `standing` holds a curve for each of them. `met` says who met whom in
    training matches, by the word of `met_judge`; `judges` is what
    `evaluate.judges.judge_report` says of them. `met`, `judges` and `tokens` come from
    `sample` = (matches that were read, matches that there are); `tokens` are scaled up.
    """

    title: str
    subtitle: str = ""
    created: str = ""
    configuration_yaml: str = ""
    headline: tuple[Headline, ...] = ()
    curves: tuple[Curve, ...] = ()
    compared: tuple[Curves, ...] = ()
    losses: tuple[Series, ...] = ()
    players: tuple[str, ...] = ()
    payoff_NN: np.ndarray | None = None
    se_NN: np.ndarray | None = None
    count_NN: np.ndarray | None = None
    mixture: Mapping[str, float] = field(default_factory=dict)
    exploitability: Curve | None = None
    cycle_share: float | None = None
    cyclic_triples: float | None = None
    gaps: Curves | None = None
    ratings: tuple[Rating, ...] = ()
    rating_unit: str = ""
    pool: tuple[str, ...] = ()
    standing: tuple[Curve, ...] = ()
    standing_unit: str = ""
    met: PayoffTable | None = None
    met_judge: str = ""
    judges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    selection: Selection | None = None
    accounts: tuple[Account, ...] = ()
    tokens: tuple[Tokens, ...] = ()
    sample: tuple[int, int] = (0, 0)
    counts: Mapping[str, int | float] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    matches: tuple[MatchCard, ...] = ()
    attack: Attack | None = None
    assistance: Assistance | None = None
    warnings: tuple[str, ...] = ()

    @property
    def roles(self) -> bool:
        """Whether the players are in different roles, so that no table compares them."""
        return self.attack is not None or self.assistance is not None
