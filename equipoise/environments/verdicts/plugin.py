"""Games with a judge at the table: debate, leader and follower, and the judge who learns; questions
that players set each other, and solutions that they check.
"""

from __future__ import annotations

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Evaluation": {"at_table": "equipoise.environments.verdicts.at_table:AtTable"},
    "Game": {
        "challenge": "equipoise.environments.verdicts.challenge:Challenge",
        "debate": "equipoise.environments.verdicts.game:Debate",
        "judged": "equipoise.environments.verdicts.game:Judged",
        "leader_follower": "equipoise.environments.verdicts.game:LeaderFollower",
        "prover_verifier": "equipoise.environments.verdicts.prover_verifier:ProverVerifier",
    },
    "Judge": {
        "challenge": "equipoise.environments.verdicts.challenge:ChallengeJudge",
        "prover_verifier": "equipoise.environments.verdicts.prover_verifier:ProverVerifierJudge",
        "stands_for_answer": "equipoise.environments.verdicts.judge:StandsForAnswer",
        "verdict": "equipoise.environments.verdicts.judge:Verdict",
    },
}
