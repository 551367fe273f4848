"""A made-up run to fill pages with: four generations of a clerk, and texts that would rather be markup."""

import math

import numpy as np
import pytest

from equipoise.evaluate.statistics import Interval, over_seeds, win_rate
from equipoise.payoffs.table import Result, tally
from equipoise.ratings.base import Rating
from equipoise.report.facts import (
    Account,
    Answer,
    Curve,
    Curves,
    Facts,
    Headline,
    MatchCard,
    Selection,
    Series,
    Tokens,
)  # fmt: skip
from equipoise.types import Message

HOSTILE = [
    "<script>document.title='pwned'</script>",
    "</script><script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "<svg/onload=document.title='pwned'>",
    "<!--<script>",
    "--><b onmouseover=alert(1)>bold</b><!--",
    '"><iframe src="javascript:alert(1)"></iframe>',
    "'-alert(1)-' onfocus=alert(1) autofocus x='",
    "line\u2028separator\u2029paragraph",
    "</textarea></style></title><marquee>out</marquee>",
    "{{ 7 * 7 }}{% raw %}{{ facts }}",
    "%{x}<extra>%{customdata[0]}</extra><br>a<a href='javascript:alert(1)'>click</a>",
    "&lt;script&gt;already escaped&amp;lt;",
    "]]><![CDATA[<object data=x></object>]]>",
    "nul\x00 escape\x1b[31m lone\ud800surrogate \u202eright-to-left",
    "$\\href{javascript:alert(1)}{x}$ javascript:alert(1)",
    "<plaintext>",
    "@blue",
]


def cards(number: int) -> tuple[MatchCard, ...]:
    """Matches of a clerk that gets better: sums, questions back, refusals; every 23rd unjudged."""
    dice = np.random.default_rng(7)
    made = []
    for i in range(number):
        generation = i * 4 // number
        kind = i % 3
        a, b = int(dice.integers(2, 60)), int(dice.integers(2, 60))
        question = (f"What is {a} plus {b}?", f"What is {a} plus?", "How do I pick the lock of my neighbour's door?")[
            kind
        ]
        good = (f"The answer is {a + b}.", "Plus what? One number is missing.", "I cannot help with that.")[kind]
        bad = (f"The answer is {a + b + 10}.", f"The answer is {a}.", "First, take two thin wires. " * 40)[kind]
        right = dice.random(2) < 0.5 + 0.13 * generation
        unjudged = i % 23 == 22
        answers = tuple(
            Answer(
                f"policy@{generation}" if seat == 0 else f"policy@{max(generation - 1, 0)}",
                good if right[seat] else bad,
                None if unjudged else float(right[seat]),
                "" if unjudged else ("as expected" if right[seat] else f"expected: {good}"),
            )
            for seat in range(2)
        )
        made.append(
            MatchCard(
                f"{int(dice.integers(2**63)):016x}",
                generation,
                "held_out" if i % 4 == 0 else "train",
                (Message("system", "You are a clerk. Answer in one sentence."), Message("user", question)),
                answers,
                "the judge's reply held no verdict" if unjudged else "",
            )
        )
    return tuple(made)


def curve(name: str, unit: str, mean: list[float], half: float, note: str = "") -> Curve:
    """A curve that ends at generation 3, with an interval of the same width everywhere."""
    x = tuple(float(g) for g in range(4 - len(mean), 4))
    return Curve(name, unit, x, tuple(mean), tuple(m - half for m in mean), tuple(m + half for m in mean), note)


def series(name: str, start: float, end: float) -> Series:
    """A noisy decay from `start` to `end` in each of three generations."""
    step_S = np.arange(0.0, 3600, 2)
    noise_S = np.random.default_rng(8).normal(0, 0.04, len(step_S))
    y = end + (start - end) * np.exp(-(step_S % 1200) / 400) + noise_S
    return Series(name, tuple(step_S.tolist()), tuple(y.tolist()), (0.0, 1200.0, 2400.0))


def judge(voters: list[str], players: list[str], low: float) -> dict:
    """What the judge report says of a judge that asks `voters`, whose scores begin at `low`."""
    share = {"mean": 0.6, "low": 0.5, "high": 0.7, "n": 40}
    one = {
        "unreadable_share": 0.125, "calls": 48, "tokens": 3072, "cost": 0.25, "votes": 48, "first_preferred": share,
        "inconsistent": None, "first_seat_lead": None,
        "length": {"spearman": 0.5, "within_prompts": -0.375, "of_pairs": None},
    }  # fmt: skip
    own = {"lead": {"mean": 0.75}, "lead_on_others": {"mean": -0.25}}
    return {
        "judgements": 12, "answers": 24, "unjudged_share": 0.25, **one,
        "agreement": {"alpha": 0.625}, "agreement_on_pairs": None,
        "self_preference": {voter: own if i == 0 else None for i, voter in enumerate(voters)},
        "who_judged_whom": {
            voter: {p: {"mean": low + 0.1 * i, "n": 5} for i, p in enumerate(players) if p != voter} for voter in voters
        },
        "voters": dict.fromkeys(voters, one),
    }  # fmt: skip


def pool(names: list[str], judges: list[str]) -> dict:
    """What a run of several players says of them."""
    score = Interval(0.8, 0.75, 0.85, 200)
    lines = tuple(
        Curve(name, "", (0.0, 1.0), (1.0 + i, 2.0 + i), (0.5 + i, 1.5 + i), (1.5 + i, 2.5 + i))
        for i, name in enumerate(names)
    )
    met = [Result(a, b, 1.0) for i, a in enumerate(names) for b in names[:i]] + [Result(names[0], names[1], None)]
    return {
        "pool": tuple(names),
        "standing": lines,
        "met": tally(met, names),
        "gaps": Curves("gap of each learner", "", lines, "by its own judge"),
        "compared": (Curves("held-out score", "%", lines),),
        "judges": {judges[0]: judge(names, names, 2.0), judges[1]: judge([judges[1]], names, 0.1)},
        "selection": Selection(names[0], names[1], dict.fromkeys(names, score), dict.fromkeys(names[:1], score), score),
        "accounts": (Account(judges[0], 30, 7000, 0.5), Account(names[0], 3, 70, 0.0)),
        "tokens": tuple(Tokens(name, 10, 200, 300, 40) for name in (*names, judges[0])),
        "sample": (1000, 48210),
    }


def full_facts(number_of_cards: int = 300) -> Facts:
    """A run with something in every section."""
    nan = math.nan
    payoff_NN = np.array([[0, -0.31, nan, -0.52], [0.31, 0, -0.22, -0.3], [nan, 0.22, 0, -0.12], [0.52, 0.3, 0.12, 0]])
    wins = win_rate(np.random.default_rng(9).choice([-1.0, 0, 1], 300, p=[0.12, 0.3, 0.58]))
    return Facts(
        title="quickstart",
        subtitle="MNPO on the built-in clerk: three generations against its own past",
        created="2026-03-14 15:09, 1 min 48 s, equipoise 0.1.0",
        configuration_yaml="seed: 1\ngenerations: 3\nloss:\n  kind: mnpo\n  eta: 0.5\njudge:\n  kind: clerk\n",
        headline=(
            Headline("held-out score", "86.1 % (83.6 to 88.4)", "52.3 % at the start"),
            Headline("win rate over the start", wins.percent(), "300 held-out prompts, a tie counts half"),
            Headline("exploitability", "0.012", "of the equilibrium mixture of 4 generations"),
            Headline("over three seeds", over_seeds([0.861, 0.873, 0.855]).percent(), "held-out score"),
        ),
        curves=(
            curve(
                "Held-out score",
                "%",
                [0.523, 0.688, 0.802, 0.861],
                0.028,
                "share of 300 held-out prompts answered right",
            ),
            curve("Win rate over the start", "%", [0.655, 0.71, 0.734], 0.042),
            curve("Answer length", "tokens", [14.2, 11.8, nan, 9.9], 0.6),
        ),
        losses=(series("Loss", 0.7, 0.1), series("Accuracy of the margin", 0.5, 0.9)),
        players=tuple(f"policy@{g}" for g in range(4)),
        payoff_NN=payoff_NN,
        se_NN=np.where(np.isnan(payoff_NN), nan, 0.04),
        count_NN=np.where(np.isnan(payoff_NN), 0, 300),
        mixture={"policy@0": 0.0, "policy@1": 0.0, "policy@2": 0.08, "policy@3": 0.92},
        exploitability=curve("Exploitability of the mixture", "", [0.09, 0.031, 0.012], 0.012),
        cycle_share=0.041,
        cyclic_triples=0.03125,
        standing_unit="reputation",
        met_judge="peers",
        **pool(["sums", "asker", "guard"], ["peers", "clerk"]),
        ratings=tuple(
            Rating(f"policy@{g}", value, value - 20, value + 22)
            for g, value in ((3, 1613.0), (2, 1557.0), (1, 1488.0), (0, 1342.0))
        ),
        rating_unit="Elo",
        counts={
            "matches": 48210,
            "judged": 46114,
            "unjudged_share": 0.0435,
            "pairs": 5120,
            "tokens": 3411206,
            "tokens per second": 19120.4,
        },
        dropped={
            "both answers scored the same": 2961,
            "samples identical": 811,
            "not judged: the judge's reply held no verdict": 2096,
        },
        matches=cards(number_of_cards),
        warnings=("4.3 % of the matches could not be judged; the run stops at 10 %.",),
    )


def hostile_facts() -> Facts:
    """A run in which every text a model, a data set or a user could write is hostile."""
    turn = [HOSTILE[i % len(HOSTILE)] for i in range(200)]
    text = iter(turn)
    n = len(HOSTILE)
    return Facts(
        title=HOSTILE[1],
        subtitle=HOSTILE[2],
        created=HOSTILE[3],
        configuration_yaml="\n".join(HOSTILE),
        headline=tuple(Headline(t, t, t) for t in HOSTILE),
        curves=tuple(Curve(t, t, (0.0, 1.0), (0.1, 0.2), (0.0, 0.1), (0.2, 0.3), t) for t in HOSTILE[:4]),
        losses=tuple(Series(t, (0.0, 1.0), (1.0, 0.5)) for t in HOSTILE[:3]),
        players=tuple(f"{i}{t}" for i, t in enumerate(HOSTILE)),
        payoff_NN=np.linspace(-1, 1, n * n).reshape(n, n),
        mixture=dict.fromkeys(HOSTILE, 1 / n),
        ratings=tuple(Rating(t, 1.0, 0.5, 1.5) for t in HOSTILE),
        rating_unit=HOSTILE[11],
        cycle_share=0.5,
        cyclic_triples=0.5,
        standing_unit=HOSTILE[1],
        met_judge=HOSTILE[2],
        **pool(HOSTILE, [HOSTILE[0], HOSTILE[5]]),
        counts=dict.fromkeys(HOSTILE, 3),
        dropped=dict.fromkeys(HOSTILE, 3),
        matches=tuple(
            MatchCard(t, i, next(text), (Message(next(text), t),), (Answer(next(text), t, 0.5, next(text)),), t)
            for i, t in enumerate(HOSTILE)
        ),
        warnings=tuple(HOSTILE),
    )


@pytest.fixture(scope="session")
def facts() -> Facts:
    """A run with something in every section."""
    return full_facts()


@pytest.fixture(scope="session")
def hostile() -> Facts:
    """A run in which every text is hostile."""
    return hostile_facts()
