"""Games of many turns, from OpenSpiel and TextArena."""

from collections.abc import Mapping

MODELS: Mapping[str, str] = {"builtin/cards": "model"}
KINDS: Mapping[str, Mapping[str, str]] = {
    "Benchmark": {"nash_conv": "equipoise.environments.text_games.nash_conv:NashConvBenchmark"},
    "Evaluation": {
        "game_league": "equipoise.environments.text_games.game_league:GameLeague",
        "nash_conv": "equipoise.environments.text_games.nash_conv:NashConv",
    },
    "Game": {
        "open_spiel": "equipoise.environments.text_games.open_spiel:OpenSpiel",
        "textarena": "equipoise.environments.text_games.text_arena:TextArena",
    },
    "Judge": {"game_outcome": "equipoise.environments.text_games.game:GameOutcome"},
    "PairMaker": {
        "mean_outcomes": "equipoise.environments.text_games.parted_pairs:MeanOutcomes",
        "parted_trajectories": "equipoise.environments.text_games.parted_pairs:PartedTrajectories",
    },
    "Prompts": {"deals": "equipoise.environments.text_games.game:Deals"},
}
