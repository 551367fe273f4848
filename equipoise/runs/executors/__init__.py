"""Executors of a run's model work: in this process, in several, or on a Ray cluster."""
