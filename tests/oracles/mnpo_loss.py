"""MNPO's loss as released (arXiv 2509.23102 and its code), row by row:

    (Δ(π) − ratio·Δ(ref) − (1 − ratio)·Σ_k λ_k Δ(history_k) − 1/(2η))²

λ are the first weights, scaled to add up to one over the histories that are there.
"""

from random import Random

CASES = (  # ratio, eta, beta, weights, histories, rows
    (1 / 3, 0.0075, 10.0, [1.0], 0, 5),
    (1 / 3, 0.0075, 10.0, [1.0, 1.0], 2, 4),
    (0.85, 0.01, 0.1, [0.25, 0.75], 2, 3),
    (0.0, 0.1, 1.0, [2.0, 1.0, 1.0], 3, 4),
    (0.2, 0.5, 2.0, [3.0, 1.0], 1, 3),
    (1.0, 0.05, 5.0, [1.0], 1, 2),
)


def vectors() -> list:
    dice = Random(11)

    def nats(rows: int) -> list[float]:
        return [round(dice.uniform(-40, -20), 4) for _ in range(rows)]

    cases = []
    for ratio, eta, beta, weights, histories, rows in CASES:
        chosen, rejected, ref_chosen, ref_rejected = (nats(rows) for _ in range(4))
        history = [[nats(rows), nats(rows)] for _ in range(histories)]
        present = weights[:histories]
        loss = []
        for b in range(rows):
            wanted = ratio * (ref_chosen[b] - ref_rejected[b]) + 1 / (2 * eta)
            for weight, (best, worst) in zip(present, history, strict=True):
                wanted += (1 - ratio) * weight / sum(present) * (best[b] - worst[b])
            loss.append((chosen[b] - rejected[b] - wanted) ** 2)
        cases.append(
            {
                "ratio": ratio,
                "eta": eta,
                "beta": beta,
                "history_weights": weights,
                "max_history": max(histories, 1),
                "policy_chosen": chosen,
                "policy_rejected": rejected,
                "ref_chosen": ref_chosen,
                "ref_rejected": ref_rejected,
                "history": history,
                "loss": loss,
                "chosen_rewards": [beta * (p - r) for p, r in zip(chosen, ref_chosen, strict=True)],
                "rejected_rewards": [
                    beta * (p - r) for p, r in zip(rejected, ref_rejected, strict=True)
                ],
            }
        )
    return cases
