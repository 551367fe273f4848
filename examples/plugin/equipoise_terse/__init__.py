"""A judge, a game and a loss that Equipoise finds by the entry points of this package."""
