"""Equipoise among its neighbours: their matches as runs, their environments."""
