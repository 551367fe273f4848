"""Where a run's model work is done: in this process, in several, or on a Ray cluster."""
