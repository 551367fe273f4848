"""Games with a judge at the table: debate, leader and follower, and the judge who learns."""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {"at_table": "equipoise.environments.verdicts.at_table:AtTable"},
    "Game": {
        "debate": "equipoise.environments.verdicts.game:Debate",
        "judged": "equipoise.environments.verdicts.game:Judged",
        "leader_follower": "equipoise.environments.verdicts.game:LeaderFollower",
    },
    "Judge": {
        "stands_for_answer": "equipoise.environments.verdicts.judge:StandsForAnswer",
        "verdict": "equipoise.environments.verdicts.judge:Verdict",
    },
}
