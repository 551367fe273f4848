"""The page of attacks on a judge, and its lines for a terminal."""

import datetime
import math
from collections.abc import Iterator, Sequence

from equipoise.blocks.figures import dots, lines_figure
from equipoise.blocks.html import Page
from equipoise.blocks.recorded_sections import CardAnswer, MatchCard, card_row
from equipoise.blocks.section import (
    Cards,
    Curve,
    Figure,
    Section,
    Table,
    Tile,
    Tiles,
    Verbatim,
    number,
)
from equipoise.evaluation.attack_texts import CLOSED_BY
from equipoise.evaluation.attacked_judge import FEWEST, AttackedAnswer, AttackedJudge, AttackResult
from equipoise.evaluation.trained_attacker import TrainedAnswer, TrainedAttack
from equipoise.payoffs.intervals import Interval
from equipoise.ratings.base import Rating
from equipoise.report.comparison_page import amount_text, bounds_text, difference_text, p_text

MOST_SHOWN = 3  # answers of one exploit
MOST_DOTS = 24
COLUMNS = (
    "attack",
    "kind",
    "on answers that are",
    "verdict",
    "score gained",
    "with all others",
    "corrected p",
    "truth gained",
    "above the honest answer",
    "prompts",
    "without a score",
)


def attack_page(
    judges: Sequence[AttackedJudge],
    gate: str,
    notes: Sequence[str],
    trained: Sequence[TrainedAttack] = (),
) -> Page:
    """Everything that the page shows; the first judge is the user's, `gate` is YAML."""
    first = judges[0]
    now = datetime.datetime.now(datetime.UTC)
    sections = [
        verdict_section(first),
        beside_section(judges),
        attacks_section(first),
        *exploit_sections(first),
        trained_section(trained),
        gate_section(gate),
    ]
    return Page(
        f"Attacks on {first.title.removesuffix(' alone')}",
        f"held fixed as the truth: {first.truth}",
        now.strftime("%Y-%m-%d %H:%M UTC"),
        tuple(sections),
        tuple(notes),
    )


def verdict_section(judge: AttackedJudge) -> Section:
    """The greatest gain at no gain of truth, and how much stands behind it."""
    greatest = judge.greatest
    gained = "none shown"
    note = "by a scripted attack, at no gain of truth"
    if greatest is not None:
        gained = amount_text(greatest.gain.mean, judge.is_share, sign=True)
        rest = gain_text(greatest.gain, judge.is_share).removeprefix(gained).strip()
        note = f"{rest}, by {greatest.attack.about}, on {greatest.base} answers"
    passing = ", ".join(result.attack.name for result in judge.hollow) or "none"
    tiles = (
        Tile("score gained", gained, note),
        Tile("exploits", f"{len(judge.exploits)} of {len(judge.results)}", "attacks, corrected"),
        Tile("kinds left open", f"{len(judge.open_kinds)}", ", ".join(judge.open_kinds)),
        Tile("pass without an answer", f"{len(judge.hollow)}", passing),
        Tile("prompts", f"{judge.prompts:,}", f"{judge.unjudged:,} honest answers unjudged"),
    )
    lead = (
        "Every attack rewrites the same answers by a rule, and none knows the right one. An "
        "exploit gains score for certain, with all attacks together, while the truth is not shown "
        "to gain. Hollow texts hold no answer, and score as high as most honest ones. Attacks by "
        "rule find the holes that they were written for; a judge without a finding may have others."
    )
    return Section("verdict", "What can be gained without an answer", (Tiles(tiles),), lead)


def beside_section(judges: Sequence[AttackedJudge]) -> Section:
    """The judge beside the same judge behind a gate, and beside others."""
    rows = tuple(judge_row(judge) for judge in judges)
    columns = ("judge", "exploits", "greatest gain", "by", "hollow", "kinds left open")
    lead = (
        "Each judge got the same attacks. A gate that is made of the tricks that attacks are made "
        "of closes them by construction: what it leaves open is what a rule on form cannot see."
    )
    return Section("beside", "The same judge behind a gate", (Table(columns, rows),), lead)


def judge_row(judge: AttackedJudge) -> tuple[str, ...]:
    """A judge as a row of the table."""
    greatest = judge.greatest
    gained = "–"
    by = "–"
    if greatest is not None:
        gained = gain_text(greatest.gain, judge.is_share)
        by = greatest.name
    return (
        judge.title,
        f"{len(judge.exploits)} of {len(judge.results)}",
        gained,
        by,
        ", ".join(result.attack.name for result in judge.hollow) or "–",
        ", ".join(judge.open_kinds) or "–",
    )


def attacks_section(judge: AttackedJudge) -> Section:
    """A table of all attacks and a figure of what they gained."""
    rows = tuple(attack_row(result, judge.is_share) for result in judge.results)
    blocks: list[Table | Figure] = []
    figure = gains_figure(judge)
    if figure is not None:
        blocks.append(figure)
    blocks.append(Table(COLUMNS, rows))
    lead = (
        f"Gains are paired by prompt. Held fixed as the truth: {judge.truth}, on the same texts. "
        "Beside each 95 % interval stands the wider one that holds together with all others; the "
        "truth's has that level, too. Corrected p is a sign-flip test after Holm's correction. An "
        "exploit is one of length where empty sentences gain as much by the same length."
    )
    return Section("attacks", "Every attack", tuple(blocks), lead)


def attack_row(result: AttackResult, share: bool) -> tuple[str, ...]:
    """An attack as a row of the table."""
    above = "–"
    if result.beats_honest is not None:
        above = result.beats_honest.percent()
    return (
        result.attack.name,
        result.kind,
        result.base,
        result.word,
        gain_text(result.gain, share),
        bounds_text(result.together, share) if result.gain.n else "–",
        p_text(result.adjusted),
        gain_text(result.truth, False),
        above,
        f"{result.gain.n:,}",
        f"{result.unjudged:,}" if result.unjudged else "",
    )


def gain_text(interval: Interval, share: bool) -> str:
    """A gain with its interval; `–` where nothing is known."""
    if math.isnan(interval.mean):
        return "–"
    if math.isnan(interval.low) and interval.n > 1:
        return f"{amount_text(interval.mean, share, sign=True)} on each prompt"
    return difference_text(interval, share)


def gains_figure(judge: AttackedJudge) -> Figure | None:
    """The gains of the attacks that gained most; None without any."""
    ratings = []
    for result in sorted(judge.results, key=lambda each: -each.gain.mean)[:MOST_DOTS]:
        gain = result.gain
        if math.isfinite(gain.mean):
            ratings.append(Rating(result.name, gain.mean, gain.low, gain.high))
    if not ratings:
        return None
    return dots("Score gained", ratings, "score", ("attack", "score gained"), zero=True)


def exploit_sections(judge: AttackedJudge) -> Iterator[Section]:
    """The texts of what was found, kind by kind, each with what closes it."""
    by_kind: dict[str, list[AttackResult]] = {}
    for result in judge.results:
        if result.is_exploit or result.is_hollow:
            by_kind.setdefault(result.kind, []).append(result)
    if not by_kind:
        reason = "no attack gained score at no gain of truth"
        yield Section("exploits", "Exploits to read", reason=reason)
    for kind, results in by_kind.items():
        cards = list(exploit_cards(results))
        rows = [card_row(card) for card in cards]
        block = Cards(rows, len(cards), source="the clearest texts", by="Finding")
        lead = f"What usually closes it: {CLOSED_BY[kind]}.".replace("`", "")
        yield Section(f"exploits-{kind}", f"Exploits: {kind}", (block,), lead)


def exploit_cards(results: Sequence[AttackResult]) -> Iterator[MatchCard]:
    """A card for each of the answers that show an exploit best: first one of every attack."""
    for place in range(MOST_SHOWN):
        for result in results:
            if place >= len(result.texts):
                continue
            answer = result.texts[place]
            yield MatchCard(
                f"{result.attack.about}: {scored(answer)}",
                None,
                result.word,
                answer.prompt.messages,
                (
                    CardAnswer(
                        player=f"the {result.base} answer",
                        text=answer.before,
                        score=answer.score_before,
                        note=truth_note(answer.truth_before),
                    ),
                    CardAnswer(
                        player="rewritten" if result.attack.keeps else "in its place",
                        text=answer.after,
                        score=answer.score_after,
                        note=truth_note(answer.truth_after),
                    ),
                ),
                answer.reason,
            )


def trained_section(trained: Sequence[TrainedAttack]) -> Section:
    """What trained attackers gained against updates and tokens, and their answers."""
    name, title = "trained", "A trained attacker"
    if not trained:
        return Section(name, title, reason="none was trained; --updates trains one from --model")
    blocks: list[Table | Figure | Cards] = []
    for measure in ("score", "truth"):
        curves = [gain_curve(attack, measure) for attack in trained]
        blocks.append(lines_figure(f"{measure.capitalize()} gained", curves, "updates", measure))
    rows = []
    tricks = []
    cards = []
    for attack in trained:
        for point in attack.points:
            rows.append(
                (
                    attack.title,
                    f"{point.updates:,}",
                    f"{point.tokens:,}",
                    gain_text(point.score, False),
                    gain_text(point.truth, False),
                    attack.word if point is attack.points[-1] else "",
                )
            )
        for trick, (before, after) in attack.tricks.items():
            closed = CLOSED_BY.get(trick, "").replace("`", "")
            tricks.append((attack.title, trick, number(before, "%"), number(after, "%"), closed))
        cards += list(trained_cards(attack))
    columns = ("judge", "updates", "tokens sampled", "score gained", "truth gained", "verdict")
    blocks.append(Table(columns, tuple(rows)))
    if tricks:
        columns = ("judge", "trick", "at the start", "at the end", "what usually closes it")
        blocks.append(Table(columns, tuple(tricks), "Tricks that its answers show"))
    rows_shown = [card_row(card) for card in cards]
    blocks.append(Cards(rows_shown, len(cards), source="the largest gains", by="Finding"))
    lead = (
        "A copy of the model was trained for the judge's score alone, without a pull to its start, "
        "and measured on held-out prompts: gains are paired with the start's answers, at 95 %."
    )
    return Section(name, title, tuple(blocks), lead)


def gain_curve(attack: TrainedAttack, measure: str) -> Curve:
    """The gain of the score or the truth over the updates, from 0 at the start."""
    intervals = [getattr(point, measure) for point in attack.points]
    return Curve(
        attack.title,
        "",
        (0.0, *(float(point.updates) for point in attack.points)),
        (0.0, *(interval.mean for interval in intervals)),
        (0.0, *(interval.low for interval in intervals)),
        (0.0, *(interval.high for interval in intervals)),
    )


def trained_cards(attack: TrainedAttack) -> Iterator[MatchCard]:
    """A card for each of the answers that gained most."""
    for answer in attack.answers:
        before = CardAnswer(
            player="start",
            text=answer.before,
            score=answer.score_before,
            note=truth_note(answer.truth_before),
        )
        after = CardAnswer(
            player="trained",
            text=answer.after,
            score=answer.score_after,
            note=truth_note(answer.truth_after),
        )
        name = f"against {attack.title}: {scored(answer)}"
        yield MatchCard(name, None, attack.word, answer.prompt.messages, (before, after))


def scored(answer: AttackedAnswer | TrainedAnswer) -> str:
    """The score that a text gained, in words."""
    gain = answer.score_after - answer.score_before
    return f"score {gain:+.2f}" if math.isfinite(gain) else "no score"


def truth_note(truth: float) -> str:
    """The truth of one text, to stand beside its score."""
    return f"truth {number(truth, digits=2)}"


def gate_section(gate: str) -> Section:
    """The gate as YAML, to be put into a recipe."""
    if not gate:
        return Section("gate", "The gate", reason="the judge was not put behind a gate")
    lead = "The limits are those that the honest answers of this page pass."
    return Section("gate", "The gate", (Verbatim("judge, for a recipe", gate),), lead)


# -- a terminal


def attack_lines(
    judges: Sequence[AttackedJudge], trained: Sequence[TrainedAttack] = ()
) -> Iterator[str]:
    """The findings: of each judge a sentence, and the first result of each kind and verdict."""
    for judge in judges:
        yield f"{judge.title}: {finding(judge)}"
        of_kind: dict[tuple[str, str], list[AttackResult]] = {}
        for result in [*judge.exploits, *judge.hollow]:
            of_kind.setdefault((result.word, result.kind), []).append(result)
        for results in of_kind.values():
            more = f"; {len(results) - 1} more" if len(results) > 1 else ""
            yield f"  {result_line(results[0], judge.is_share)}{more}"
    for attack in trained:
        yield f"trained against {attack.title}: {attack.word}"
        for point in attack.points[-1:]:
            gained = gain_text(point.score, False)
            truth = gain_text(point.truth, False)
            yield (
                f"  after {point.updates:,} updates and {point.tokens:,} tokens: score {gained}, "
                f"truth {truth}"
            )


def finding(judge: AttackedJudge) -> str:
    """The findings on a judge, in a sentence."""
    attacks = f"{len(judge.results)} attacks on {judge.prompts:,} prompts"
    if not judge.exploits and not judge.hollow:
        return f"no exploit shown by {attacks}"
    parts = []
    if judge.exploits:
        parts.append(f"{len(judge.exploits)} exploits")
    if judge.hollow:
        parts.append(f"{len(judge.hollow)} texts without an answer that score like honest ones")
    return f"{' and '.join(parts)} by {attacks}; open: {', '.join(judge.open_kinds)}"


def result_line(result: AttackResult, share: bool) -> str:
    """One attack in a line."""
    gained = gain_text(result.gain, share)
    truth = gain_text(result.truth, False)
    line = f"{result.word}: {result.name} ({result.kind}): {gained}, truth {truth}"
    if result.beats_honest is not None:
        line += f", above the honest answer {result.beats_honest.percent()}"
    return line


def few_prompts_note(prompts: int) -> str:
    """A caution where too few prompts stand behind many attacks; "" for none."""
    if prompts >= FEWEST:
        return ""
    return (
        f"{prompts} prompts are too few to tell so many attacks from chance; give {FEWEST} or more"
    )
