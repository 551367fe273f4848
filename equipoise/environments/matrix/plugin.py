"""Two-player games given by a matrix."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Judge": {"matrix": "equipoise.environments.matrix.game:MatrixPayoff"},
    "Game": {"matrix": "equipoise.environments.matrix.game:Matrix"},
}
