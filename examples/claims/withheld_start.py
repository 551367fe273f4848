"""A start for the red team whose adversary cannot write two of the disguises.

python withheld_start.py FOLDER         about five minutes of one core
"""

import sys
from pathlib import Path

from equipoise.environments.clerk import build_red_team, disguises

# The disguises that fool the packaged defender most.
WITHHELD = ("sum_first", "translation")

if __name__ == "__main__":
    taught = [style for style in disguises.STYLES if style not in WITHHELD]
    build_red_team.build(Path(sys.argv[1]), styles=taught)
