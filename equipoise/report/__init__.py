"""A run's records as readers see them: rows, histories, the page, runs under way."""
