"""A start for the red team whose adversary writes two of the disguises hardly ever, or never.

python withheld_start.py FOLDER [SHARE]   about five minutes of one core; SHARE: of its rewrites,
                                          0 unless it is given

The defender is taught neither of the two.
"""

import sys
from pathlib import Path

from equipoise import seeds
from equipoise.environments.clerk import disguises, world
from equipoise.environments.clerk.assistance_case import read_case
from equipoise.types import View
from tools import build_red_team

# The disguises that fool the packaged defender most.
WITHHELD = ("sum_first", "translation")
COMMON = tuple(style for style in disguises.STYLES if style not in WITHHELD)


def written(share: float) -> list[str]:
    """Styles to draw from, of which about `share` are withheld ones."""
    if not share:
        return list(COMMON)
    times = round(len(WITHHELD) * (1 - share) / share / len(COMMON))
    if times < 2:
        raise ValueError(f"a share of {share:g} is no small one; at most 0.1 is meant")
    return [*COMMON * times, *WITHHELD]


def augmented(view: View, seed: int) -> str:
    """The request that is to be rewritten, in one of the disguises that are not withheld, drawn at
    random.
    """
    dice = seeds.generator(seed, "augmented")
    case = read_case(view.messages)
    style = dice.choice([name for name in COMMON if name != disguises.PLAIN])
    act = f"{case.verb} {case.thing}{dice.choice(world.WHENS)}"
    return str(dice.choice(disguises.DISGUISES[str(style)])).format(act=act)


if __name__ == "__main__":
    often = written(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    build_red_team.build(Path(sys.argv[1]), styles=COMMON, written=often)
