"""Equipoise among its neighbours: their matches as runs, a leaderboard, their environments."""
