"""Measures of players: every generation as a recipe asks, and named sets."""
