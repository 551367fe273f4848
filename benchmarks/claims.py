"""The papers' claims as data: what is compared with what, in which raw result, and which doses stand
before the verdict. The words follow in `verdicts`.

A trial's primary claim, its doses and its power are written before it is run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.comparing import Claimed


@dataclass(frozen=True)
class Dose:
    """What must have been given for a verdict to mean anything.

    Args: kind: `least`: |column of `arm`, less that of `other`| is at least so much; `found`: a
    difference that was planted is found, its interval above `least`; `swept`: each arm has the best
    of the same settings, on reserved seeds; `given`: by construction, as `what` says.
    """

    what: str
    kind: Literal["least", "found", "swept", "given"] = "least"
    arm: str = ""
    column: str = ""
    least: float = 0.0
    other: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim about a raw result: `first` has more, less or as much of `column` as `second`; of
    either, "ARM:COLUMN" is another column.

    Args: name: of the page and the claim; margin: within which two are equal; share: shown in
    points; withdrawn: why nothing tests it, where that is so.
    """

    name: str
    text: str
    world: str
    file: str
    first: str
    second: str
    column: str
    claimed: Claimed = "more"
    doses: tuple[Dose, ...] = ()
    margin: float = 0.0
    share: bool = True
    withdrawn: str = ""


@dataclass(frozen=True)
class Trial:
    """What is set before an experiment is run: its claims, the primary one first; settings that
    every arm is swept over, on reserved seeds, the best by `best` of `column`; `spread`, the
    standard deviation between seeds that is expected of the primary difference, and the `effect`
    that is to be found.
    """

    claims: Sequence[Claim]
    seeds: Sequence[int] = ()
    swept: Mapping[str, Sequence[str]] | None = None
    reserved: Sequence[int] = ()
    column: str = ""
    best: Literal["most", "least"] = "most"
    effect: float = 0.0
    spread: float = 1.0


# Nats: in six games outside the trial .049 and .029, so that a policy goes some two nats in all.
EXACT = (
    Dose("the reference that was planted", "found", "one", "cyclic, last", 0.02, "one, planted"),
    Dose("nats an update, one past policy", arm="one", column="cyclic, nats", least=0.01),
    Dose("nats an update, two past policies", arm="two", column="cyclic, nats", least=0.01),
)
GAMES = "exact games, 60 updates"


def _exact(name: str, text: str, first: str, second: str, column: str, world: str = GAMES) -> Claim:
    return Claim(
        f"mnpo.{name}", text, world, "history", first, second, column, "less", EXACT, share=False
    )


HISTORY = Trial(
    claims=(
        _exact(
            "last",
            "MNPO's last policy is exploited less with two past policies than with one, where "
            "preferences cycle, at step 1 (primary)",
            "two",
            "one",
            "cyclic, last",
        ),
        *(
            _exact(f"last{size}", f"… {size} actions", "two", "one", f"cyclic {size}, last")
            for size in (3, 9, 49)
        ),
        _exact("last_three", "… three past policies than two", "three", "two", "cyclic, last"),
        _exact("last_four", "… four past policies than three", "four", "three", "cyclic, last"),
        _exact(
            "own_step",
            "… each at the step that is best for it on reserved games",
            "two, own step",
            "one, own step",
            "cyclic, last",
        ),
        _exact(
            "own_three",
            "… three past policies against one, each at its best step",
            "three, own step",
            "one, own step",
            "cyclic, last",
        ),
        _exact(
            "own_uniform",
            "… whose average is nearer to the equilibrium than the uniform policy",
            "three, own step",
            "uniform",
            "cyclic, average",
        ),
        _exact("mixed", "… two against one in mixed games, at step 1", "two", "one", "mixed, last"),
        _exact("antisymmetric", "… in random ones", "two", "one", "antisymmetric, last"),
        _exact("average", "… the average policy", "two", "one", "cyclic, average"),
        *(
            _exact(
                f"uniform{size}",
                f"MNPO ½ ½'s average is nearer to the equilibrium than the uniform policy, {size} "
                "actions",
                "two",
                "uniform",
                f"cyclic {size}, average",
            )
            for size in (3, 9, 49)
        ),
    ),
    seeds=range(300, 500),
    reserved=range(1000, 1040),
    # Between games, from forty others: the mean over sizes falls by .04, spread .12.
    effect=-0.04,
    spread=0.12,
)
TRIALS: dict[str, Trial] = {"history": HISTORY}
