"""The OpenAI-compatible server: a trained player, a mixture of players, or a model."""
