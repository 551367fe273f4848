"""A run directory of six players over five generations as a pool of peers leaves it, without any
model.
"""

from pathlib import Path
from typing import Any

import numpy as np
from recorded_run import add_judged, estimate, recorded_run, user_prompt

from equipoise.models.resources import Spending
from equipoise.runs.directory import RunDirectory
from equipoise.types import Match, Message, Move, PlayerId, Turn, View, Vote, record_id

Facts = dict[str, Any]

NAMES = ("sums", "asker", "guard", "helper", "veteran", "novice")
SKILL = dict(zip(NAMES, (0.2, 0.5, 0.1, -0.3, 0.7, -0.9), strict=True))


def write(
    folder: Path, generations: int = 5, per_generation: int = 120, seed: int = 3, duels: int = 120
) -> Path:
    """Write the run; everyone votes on the matches of others, `guard` prefers itself, `novice`
    cannot be read. `duels` are what the ratings say they were made of.
    """
    dice = np.random.default_rng(seed)
    with recorded_run(folder, "sparta_clerks", [f"generations={generations}"]) as run:
        for t in range(generations):
            prompts = [user_prompt(f"p{t}-{i}", f"What is {i} plus {t}?") for i in range(20)]
            run.ledger.add_prompts(prompts, "train", t)
            _play(run, t, per_generation, dice)
            run.ledger.finish(f"{t}/rate", t, "rate", _standing(t, dice, duels), 0.1)
            run.ledger.finish(f"{t}/measure", t, "measure", _measure(t), 2.0)
        run.ledger.finish(
            f"{generations}/measure", generations, "measure", _measure(generations), 2.0
        )
        run.ledger.finish("select", generations, "select", _select(generations), 1.0)
        for i in range(30):
            account = "house" if i % 3 else "guest"
            request = run.ledger.reserve(account, Spending(1))
            charge = Spending(1, 220 + i, 0.0004)
            run.ledger.settle(request, account, charge, {}, record_id("r", i))
    return folder


def _play(run: RunDirectory, t: int, number: int, dice: np.random.Generator) -> None:
    judge = run.config.judge.name
    for i in range(number):
        a, b = dice.choice(6, 2, replace=False)
        seats = {"1": PlayerId(NAMES[a], t), "2": PlayerId(NAMES[b], t)}
        match = _match("train", t, i, seats, dice)
        good = {s: SKILL[p.name] * (1 + 0.1 * t) + dice.normal(0, 0.6) for s, p in seats.items()}
        votes = []
        for voter in NAMES:
            for seat, player in seats.items():
                own = 0.9 if voter == player.name == "guard" else 0.0
                value = float(np.clip(round(3 + good[seat] + own + dice.normal(0, 0.5)), 1, 5))
                lost = voter == "novice" and dice.random() < 0.3
                votes.append(
                    Vote(
                        f"{voter}@{t}",
                        seat,
                        None if lost else value,
                        reason="no number" if lost else "",
                        tokens=64,
                    )
                )
        means = {
            s: {"score": float(np.mean([v.value for v in votes if v.seat == s and v.value]))}
            for s in seats
        }
        if i % 29 == 28:
            add_judged(run, match, judge, None, "nobody could be read", votes)
        else:
            add_judged(run, match, judge, means, votes=votes)
        exact = {s: {"score": float(value > 0.2)} for s, value in good.items()}
        add_judged(run, match, "clerk", exact)
    facts: Facts = {
        "judge": judge,
        "answers": 2 * number,
        "unjudged_share": 1 / 29,
        "reasons": {"nobody": number // 29},
    }
    run.ledger.finish(f"{t}/judge/{judge}", t, "judge", facts, 1.0)
    for i in range(6):  # recorded answers side by side: no matches of their own
        seats = {"1": PlayerId("sums", t), "2": PlayerId("asker", t)}
        run.ledger.add_matches([_match("held_out", t, i, seats, dice, "meeting")])


def _match(
    split: str,
    t: int,
    i: int,
    seats: dict[str, PlayerId],
    dice: np.random.Generator,
    game: str = "answers",
):
    view = View((Message("user", f"What is {i % 20} plus {t}?"),))
    turns = tuple(
        Turn(
            seat,
            view,
            Move(
                f"The answer is {int(dice.integers(40))}." + " Really." * int(dice.integers(6)),
                prompt_tokens=12,
                completion_tokens=int(dice.integers(5, 30)),
            ),
        )
        for seat in seats
    )
    return Match(record_id(split, t, i, game), t, split, game, f"p{t}-{i % 20}", seats, i, turns)


def _standing(t: int, dice: np.random.Generator, duels: int) -> Facts:
    rows = [
        {"name": n, "value": v, "low": v - 40, "high": v + 40}
        for n in NAMES
        if not (n == "novice" and t == 2)  # met nobody then
        for v in [1500 + 120 * SKILL[n] * (1 + 0.25 * t) + float(dice.normal(0, 25))]
    ]
    return {"ratings": sorted(rows, key=lambda row: -row["value"]), "duels": duels}


def _measure(t: int) -> Facts:
    league = [f"{name}@{g}" for name in NAMES for g in range(t + 1)]
    n = len(league)
    # Each beats the next and loses to the one after it: every second triple is a circle.
    payoff = np.array(
        [
            [0 if i == j else (0.3 if (j - i) % n <= n // 2 else -0.3) for j in range(n)]
            for i in range(n)
        ]
    )
    payoff = np.triu(payoff, 1) - np.triu(payoff, 1).T

    newest = [f"{name}@{t}" for name in NAMES]
    return {
        "players": league,
        "judges": dict.fromkeys(newest, "clerk"),
        "payoff": payoff.tolist(),
        "se": np.full((n, n), 0.04).tolist(),
        "count": np.full((n, n), 300).tolist(),
        "mixture": {name: 1 / 6 if name.endswith(f"@{t}") else 0.0 for name in league},
        "gap": {f"{name}@{t}": max(0.02, 0.4 - 0.06 * t - 0.1 * SKILL[name]) for name in NAMES},
        "exploitability": 0.3,
        "cycle_share": 0.42,
        "cyclic_triples": 0.4,
        "ratings": [{"name": name, "value": 1500.0, "low": None, "high": None} for name in league],
        "scores": {
            f"{name}@{t}": estimate(0.4 + 0.06 * t + 0.2 * SKILL[name], 0.04, 300) for name in NAMES
        },
        "win_rates": {f"{name}@{t}": estimate(0.5 + 0.04 * t, 0.04, 300) for name in NAMES}
        if t
        else {},
    }


def _select(t: int) -> Facts:
    chosen, start = f"veteran@{t}", "veteran@0"
    return {
        "chosen": chosen,
        "start": start,
        "held_out": {chosen: estimate(0.84, n=200), start: estimate(0.54, n=200)},
        "test": {chosen: estimate(0.81, n=200), start: estimate(0.55, n=200)},
        "win_rate": estimate(0.72, n=200),
    }
