"""Equipoise trains language models by letting them play: games, judges, pay-offs,
equilibria, learners.

Start reading at `equipoise.run.loop`. Importing this package loads no torch.
"""

__version__ = "0.1.0"
