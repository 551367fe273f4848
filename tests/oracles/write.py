"""Write every oracle's numbers beside it: `python -m oracles.write`, from `tests/`."""

import json
from importlib import import_module
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in ("__init__", "write"))


def text(name: str) -> str:
    """What the oracle of this name prints."""
    return json.dumps(import_module(f"oracles.{name}").vectors()) + "\n"


if __name__ == "__main__":
    for name in NAMES:
        (FOLDER / f"{name}.json").write_text(text(name))
