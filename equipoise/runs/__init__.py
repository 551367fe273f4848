"""A run: its loop, its stages, its settings, its directory. Start at `equipoise.runs.loop`."""
