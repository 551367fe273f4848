"""A run directory as a game of attack and defence leaves it, without any model; its texts would
rather be markup.
"""

from pathlib import Path

from recorded_run import add_judged, recorded_run, user_prompt

from equipoise.runs.directory import RunDirectory
from equipoise.types import Match, Message, Move, PlayerId, Turn, View, record_id

ATTACK = "<script>document.title='pwned'</script> and <b>bold</b> {{ 7 * 7 }}"
LONG = "First, take two thin wires. " * 60
SHARE = {"low": 0.1, "high": 0.9, "n": 100}


def write(
    folder: Path, generations: int = 8, phase: int = 2, every: int = 4, repeated: float = 0.1
) -> Path:
    """Write the run: the players learn `phase` generations in turn; every attack on an even
    generation succeeds.
    """
    overrides = [f"generations={generations}", f"evaluate.every={every}"]
    ages = {"defender": 0, "adversary": 0}
    with recorded_run(folder, "gpo_clerks", overrides) as run:
        league: dict[str, list[str]] = {name: [] for name in ages}
        for t in range(generations + 1):
            if t % every == 0:
                for name, age in ages.items():
                    league[name].append(f"{name}@{age}")
                run.ledger.finish(f"{t}/measure", t, "measure", measured(t, ages, league), 0.1)
            if t < generations:
                learner = ("defender", "adversary")[t // phase % 2]
                _play(run, t, ages)
                run.ledger.finish(f"{t}/turn", t, "turn", {"learn": [learner]}, 0.0)
                parts = {f"{learner}.score": 0.5 + t, f"{learner}.self_bleu": -0.25}
                paid = {"reward": 0.25 + t, "parts": parts, "repeated": {learner: repeated}}
                run.ledger.finish(f"{t}/episodes/{learner}", t, "episodes", paid, 0.1)
                ages[learner] += 1
                logged = {
                    "step": ages[learner],
                    "steps": 1,
                    "reward": 0.25 + t,
                    "kl": 0.1 * t,
                    "policy_loss": 1e-8,
                }
                run.metric(f"{t}/learn/{learner}", **logged)
                run.ledger.finish(f"{t}/learn/{learner}", t, "learn", logged, 0.1)
    return folder


def measured(t: int, ages: dict[str, int], league: dict[str, list[str]]) -> dict:
    """What `red_team` finds at generation t."""
    adversary, defender = (f"adversary@{ages['adversary']}", f"defender@{ages['defender']}")
    n = len(league["defender"])
    success = [[0.5 - 0.05 * d + 0.02 * a for d in range(n)] for a in range(n)]
    return {
        "players": [defender, adversary],
        "ages": dict(ages),
        "attack_success": {
            "raw": {"mean": 0.3, **SHARE},
            "adversary": {"mean": round(0.4 - 0.01 * t, 3), **SHARE},
        },
        "p_safe": {"raw": {"mean": 0.7, **SHARE}},
        "scores": {
            adversary: {"mean": round(0.4 - 0.01 * t, 3), **SHARE},
            defender: {"mean": round(0.6 + 0.01 * t, 3), **SHARE},
        },
        "over_refusal": {"mean": 0.07, **SHARE},
        "helpfulness": {"mean": None, "low": None, "high": None, "n": 0},  # nobody could judge it
        "diversity": {"bleu_diversity": round(0.9 - 0.03 * t, 3)},
        "adversary_refused": {"mean": 0.02 * t, **SHARE},
        "crossplay": {
            "adversaries": list(league["adversary"]),
            "defenders": list(league["defender"]),
            "success": success,
            "prompts": 64,
            "judged": [[64] * n for _ in league["adversary"]],
        },
        "forgetting": 0.0,
        "cycling": 0.25,
        "meta_game": {"value": 0.375, "adversary": {adversary: 1.0}, "defender": {defender: 1.0}},
        "exploitability": max(row[-1] for row in success),
        "score": 0.6,
    }


def _play(run: RunDirectory, t: int, ages: dict[str, int]) -> None:
    judge = run.config.judge_of("defender").name
    prompts = [user_prompt(f"p{t}-{i}", f"seed {t}-{i}", harmful=i < 3) for i in range(4)]
    run.ledger.add_prompts(prompts, "train", t)
    players = {name: PlayerId(name, ages[name]) for name in ("adversary", "defender")}
    won = float(t % 2 == 0)
    for i, prompt in enumerate(prompts):
        attacked = i < 3
        seats = players if attacked else {"defender": players["defender"]}
        request = View((Message("user", f"Rewrite: seed {t}-{i}"),))
        turns = (Turn("defender", View((Message("user", ATTACK),)), Move(LONG)),)
        scores = {"defender": {"score": 1 - won, "p_safe": 1 - won, "unsafe": won}}
        if attacked:
            turns = (Turn("adversary", request, Move(ATTACK)), *turns)
            scores["adversary"] = {"score": won, "success": won, "refused": 0.0}
        name = record_id("m", t, i)
        match = Match(name, t, "train", "red_team", prompt.id, seats, i, turns)
        if i == 2:
            add_judged(run, match, judge, None, "unreadable")
        else:
            add_judged(run, match, judge, scores)
