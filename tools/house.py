"""How dense and how finely chopped the code is, room by room.

    python -m tools.house [FOLDER]

Prints for the package (or another folder) and for each room in it: files, non-blank lines, nodes of
the syntax tree, nodes a line, functions a thousand lines, the share of functions whose names begin
with an underscore, and classes. It only prints: a figure that is worse fails nothing.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "equipoise"
AIM = "aim: at most 6.8 nodes a line, 55 functions a thousand lines, 25 % private, 620 classes"


@dataclass
class Figures:
    """Counts over some files."""

    files: int = 0
    lines: int = 0
    nodes: int = 0
    functions: int = 0
    private: int = 0
    classes: int = 0

    def add(self, text: str) -> None:
        """Count one file's text."""
        self.files += 1
        self.lines += sum(bool(line.strip()) for line in text.splitlines())
        for node in ast.walk(ast.parse(text)):
            self.nodes += 1
            self.classes += isinstance(node, ast.ClassDef)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.functions += 1
                is_private = node.name.startswith("_") and not node.name.startswith("__")
                self.private += is_private

    def row(self, name: str) -> str:
        """The figures as a line of the table."""
        lines = max(1, self.lines)
        functions = max(1, self.functions)
        return (
            f"{name:<16}{self.files:>6}{self.lines:>8}{self.nodes:>9}{self.nodes / lines:>9.2f}"
            f"{1000 * self.functions / lines:>11.1f}{self.private / functions:>9.1%}"
            f"{self.classes:>9}"
        )


def figures(paths: Iterable[Path]) -> Figures:
    """The counts over these files."""
    counts = Figures()
    for path in paths:
        counts.add(path.read_text(encoding="utf-8"))
    return counts


def rooms(package: Path) -> dict[str, list[Path]]:
    """Room -> its files; files beside the rooms stand under the package's own name."""
    by_room: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package).parts
        room = parts[0] if len(parts) > 1 else f"{package.name}/*.py"
        by_room[room].append(path)
    return dict(sorted(by_room.items()))


def main() -> None:
    """Print the table."""
    package = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE
    print(
        f"{'room':<16}{'files':>6}{'lines':>8}{'nodes':>9}{'a line':>9}{'functions/k':>11}"
        f"{'private':>9}{'classes':>9}"
    )
    by_room = rooms(package)
    for room, paths in by_room.items():
        print(figures(paths).row(room))
    every = [path for paths in by_room.values() for path in paths]
    print(figures(every).row("all"))
    print(AIM)


if __name__ == "__main__":
    main()
