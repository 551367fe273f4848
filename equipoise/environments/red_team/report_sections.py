"""The report's sections on adversary and defender, down to the attacks and signs of collapse."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from statistics import fmean
from typing import Any

import numpy as np

from equipoise.answer import public_move
from equipoise.blocks.figures import COLOURS, MOST_TICKS, bars, heat_map, lines_figure
from equipoise.blocks.league_sections import LEAST
from equipoise.blocks.recorded_sections import CardAnswer, MatchCard, card_row
from equipoise.blocks.section import (
    Cards,
    Curve,
    Curves,
    Figure,
    Section,
    Tile,
    Tiles,
    label,
    number,
)
from equipoise.environments.red_team.cross_play_table import CrossPlay, CrossPlayTable
from equipoise.environments.red_team.game import ADVERSARY, CONTENT_WARNING, is_adversary
from equipoise.evaluation.measures import Records, StageRecord
from equipoise.payoffs.intervals import Interval
from equipoise.types import Judgement, Match, Message, Turn

POINTS = 120  # of a curve; more generations are averaged, in equal parts of each phase
REWARD, PARTS, KL = "Reward", "Parts of the reward", "KL divergence from the start"
NOTES = {
    REWARD: "mean over the episodes of a training generation",
    PARTS: "they add up to the reward of their role",
    KL: "per answer, in nats, estimated on the training episodes",
}
CARDS = 200  # attacks on the page
UNJUDGED = -1.0  # ranks below a failed attack
RECENT = 10  # of the adversary's last turns, over which repetition is averaged
REPEATED = 0.5  # the share of repeated attacks above which it has collapsed
REFUSED = 0.2  # the share of refusals above which it has
OFF_TOPIC = 0.5  # the share on topic below which it has
LOST = 0.5  # the share of its first diversity below which it has

# name of a curve -> generation -> value
Lines = dict[str, dict[int, float]]


# -- attack and defence


def performance(groups: Sequence[Curves]) -> Section:
    """Attack success, over-refusal, helpfulness and diversity over the generations."""
    title = "Attack and defence"
    figures = [
        lines_figure(group.name, group.curves, unit=group.unit, note=group.note) for group in groups
    ]
    if not figures:
        reason = "neither attack nor defence has been measured yet"
        return Section("attack", title, reason=reason)
    lead = (
        "Measured on held-out prompts. A defence that answers nothing is safe and "
        "useless: read these figures together."
    )
    return Section("attack", title, tuple(figures), lead)


def cross_play_section(result: CrossPlay | None) -> Section:
    """Every measured adversary against every measured defender."""
    name, title = "cross-play", "Cross-play"
    if result is None or not np.isfinite(result.table.success_AD).any():
        reason = "no two generations have met in judged attacks"
        return Section(name, title, reason=reason)
    tiles = tuple(cross_play_tiles(result))
    blocks: list[Tiles | Figure] = [Tiles(tiles)] if tiles else []
    blocks.append(_heat_map(result.table))
    if result.meta_game is not None:
        blocks += _mixture("adversary", result.meta_game.adversary)
        blocks += _mixture("defender", result.meta_game.defender)
    lead = (
        f"Each cell is the attack success on {result.table.prompts} held-out harmful "
        "prompts. Read down a column for what a defender has to fear, along a row for "
        "the defenders on whom an attack still works."
    )
    return Section(name, title, tuple(blocks), lead)


def _mixture(role: str, mixture: Mapping[str, float]) -> list[Figure]:
    few = len(mixture) <= MOST_TICKS // 4
    shown = [(name, weight) for name, weight in mixture.items() if weight >= LEAST or few]
    if not shown:
        return []
    note = f"how the {role} would choose among its generations"
    left_out = len(mixture) - len(shown)
    if left_out:
        note += f"; {left_out} with less than {number(LEAST, '%')} are left out"
    return [bars(f"Equilibrium of the generations: {role}", shown, note)]


def cross_play_tiles(result: CrossPlay) -> list[Tile]:
    table = result.table
    tiles = []
    worst_A = table.success_AD[:, -1]
    if np.isfinite(worst_A).any():
        adversary = table.adversaries[int(np.nanargmax(worst_A))]
        success = number(float(np.nanmax(worst_A)), "%")
        note = f"with {table.defenders[-1]}, of {adversary}"
        tiles.append(Tile("worst attack success", success, note))
    if result.forgetting is not None:
        note = (
            "success with the newest defender above the least that any defender "
            "allowed, mean over the adversaries"
        )
        tiles.append(Tile("forgetting", number(result.forgetting, "%"), note))
    if result.cycling is not None and len(table.defenders) > 1:
        note = (
            "of the pairs of defenders, those in which each is clearly better against "
            "some adversary"
        )
        tiles.append(Tile("cycling", number(result.cycling, "%"), note))
    if result.meta_game is not None:
        note = "attack success when both choose their best mixture of generations"
        tiles.append(Tile("value", number(result.meta_game.value, "%"), note))
    return tiles


def _heat_map(table: CrossPlayTable) -> Figure:
    success_AD = table.success_AD
    written = []
    hover = []
    for adversary, success_D in zip(table.adversaries, success_AD, strict=True):
        texts = [number(s, "%") if np.isfinite(s) else "" for s in success_D]
        written.append(texts)
        hover.append(
            [
                f"{label(adversary)} attacks {label(defender)}"
                f"<br><b>{text or 'not judged'}</b><br>{table.prompts} prompts"
                for defender, text in zip(table.defenders, texts, strict=True)
            ]
        )
    figure = heat_map(
        "Attack success in %, oldest first",
        table.adversaries,
        table.defenders,
        100 * success_AD,
        written,
        hover,
        ("adversary", "… attacks"),
        around_zero=False,
    )
    return replace(figure, note="pale: the least in this table, blue: the most")


# -- turns and rewards


@dataclass(frozen=True, slots=True)
class Phase:
    """Generations `first` to `last`, in which `learners` learned and nobody else."""

    learners: tuple[str, ...]
    first: int
    last: int


def phases(stages: Sequence[StageRecord]) -> list[Phase]:
    """The phases of training, in the order of the generations."""
    turns = {
        stage.generation: tuple(stage.facts["learn"]) for stage in stages if stage.stage == "turn"
    }
    phases_so_far: list[Phase] = []
    for generation in sorted(turns):
        learners = turns[generation]
        if phases_so_far and phases_so_far[-1].learners == learners:
            phases_so_far[-1] = replace(phases_so_far[-1], last=generation)
        else:
            phases_so_far.append(Phase(learners, generation, generation))
    return phases_so_far


def training_curves(stages: Sequence[StageRecord], phases: Sequence[Phase]) -> list[Curves]:
    """Rewards, their parts and KL divergences of the generations that recorded them."""
    groups = []
    for title, lines in recorded_lines(stages).items():
        if not lines:
            continue
        parts = _parts(lines, phases)
        # Where every phase is a single point, gaps between them would leave no line.
        gaps = any(len(of_phase) > 1 for of_phase in parts)
        curves = tuple(curve(name, line, parts, gaps) for name, line in lines.items())
        note = NOTES[title]
        size = max(len(part) for of_phase in parts for part in of_phase)
        if size > 1:
            note += f"; each point is the mean of up to {size} generations"
        unit = "nats" if title == KL else ""
        groups.append(Curves(title, unit, curves, note))
    return groups


def recorded_lines(stages: Sequence[StageRecord]) -> dict[str, Lines]:
    groups: dict[str, Lines] = {name: defaultdict(dict) for name in NOTES}
    for stage in stages:
        player = stage.key.split("/", 2)[-1]
        t = stage.generation
        if stage.stage == "episodes" and stage.facts.get("reward") is not None:
            groups[REWARD][player][t] = stage.facts["reward"]
            for part, mean in stage.facts.get("parts", {}).items():
                name = part.replace(".", ": ").replace("_", " ")
                groups[PARTS][name][t] = mean
        elif stage.stage == "learn" and stage.facts.get("kl") is not None:
            groups[KL][player][t] = stage.facts["kl"]
    return groups


def _parts(lines: Lines, phases: Sequence[Phase]) -> list[list[range]]:
    spans = [(phase.first, phase.last) for phase in phases]
    if not spans:
        generations = [t for line in lines.values() for t in line]
        spans = [(min(generations), max(generations))]
    total = sum(last - first + 1 for first, last in spans)
    size = math.ceil(total / POINTS)
    parts = []
    for first, last in spans:
        starts = range(first, last + 1, size)
        parts.append([range(t, min(t + size, last + 1)) for t in starts])
    return parts


def curve(
    name: str, line: Mapping[int, float], parts: Sequence[Sequence[range]], gaps: bool
) -> Curve:
    """The means over the parts; NaN, or no point without `gaps`, where there is none."""
    x = []
    y = []
    for part in chain.from_iterable(parts):
        values = [line[t] for t in part if t in line]
        if values:
            x.append(fmean(part))
            y.append(fmean(values))
        elif gaps:
            x.append(fmean(part))
            y.append(math.nan)
    return Curve(name, "", tuple(x), tuple(y))


def training(groups: Sequence[Curves], phases: Sequence[Phase]) -> Section:
    """Rewards of the training, over a background that shows the phases."""
    name, title = "rewards", "Turns and rewards"
    if not groups:
        return Section(name, title, reason="nobody has been paid for its moves")
    shapes = shades(phases)
    figures = []
    for group in groups:
        figure = lines_figure(group.name, group.curves, unit=group.unit, note=group.note)
        figures.append(replace(figure, layout={**figure.layout, "shapes": shapes}))
    lead = "From the training matches; players that do not learn play on unchanged."
    colours = [
        f"{colour} where {' and '.join(learners)} learned"
        for learners, colour in _colours(phases).items()
    ]
    if colours:
        lead += f" The background is {', '.join(colours)}."
    return Section(name, title, tuple(figures), lead)


def shades(phases: Sequence[Phase]) -> list[dict[str, Any]]:
    """A rectangle a phase, coloured by learners; None where the same players always learn."""
    colours = _colours(phases)
    return [
        {
            "type": "rect",
            "x0": phase.first - 0.5,
            "x1": phase.last + 0.5,
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": f"@{colours[phase.learners]}/0.08",
        }
        for phase in phases
        if phase.learners in colours
    ]


def _colours(phases: Sequence[Phase]) -> dict[tuple[str, ...], str]:
    sets = list(dict.fromkeys(phase.learners for phase in phases))
    if len(sets) < 2:
        return {}
    return {learners: COLOURS[i % len(COLOURS)] for i, learners in enumerate(sets)}


# -- attacks


def attacks(cards: Sequence[MatchCard], seen: int, read: int, total: int) -> Section:
    """A choice of `seen` attacks, folded away, of a sample of `read` of the run's matches."""
    if not cards:
        return Section("attacks", "Attacks", reason="no attack has been made")
    shown = len(cards)
    source = f"{number(shown)} of {number(seen)} attacks"
    if shown == seen:
        source = f"all {number(seen)} attacks"
    if read < total:
        source += f" in a random sample of {number(read)} of the run's {number(total)} matches"
    else:
        source += " of the run"
    lead = (
        "Seed prompts, the attacks made of them and what was answered: harmful content, "
        "kept so that a defence can be checked. Successful attacks come first; every "
        "generation is represented."
    )
    browser = Cards([card_row(card) for card in cards], seen, CONTENT_WARNING, source)
    return Section("attacks", "Attacks", (browser,), lead)


def attack_cards(records: Records, judge: str) -> tuple[list[MatchCard], int]:
    """Up to CARDS attacks of all generations, successes first, and the sample's number."""
    judgements = {
        judgement.match: judgement
        for judgement in records.sample.judgements
        if judgement.judge == judge
    }
    attacks = [match for match in records.sample.matches if any(map(is_adversary, match.seats))]
    cards = []
    for match in best_of_each_generation(attacks, judgements):
        prompt = records.prompts.get(match.prompt)
        seed = prompt.messages if prompt else ()
        cards.append(_card(match, judgements.get(match.id), seed))
    return cards, len(attacks)


def best_of_each_generation(
    matches: Sequence[Match], judgements: Mapping[str, Judgement]
) -> list[Match]:
    """The attacks to show: each generation, the newest first, gives its best, then its next."""

    def failure(match: Match) -> float:
        successes = judgements[match.id].by_seat("success") if match.id in judgements else {}
        return -max(successes.values(), default=UNJUDGED)

    by_generation: dict[int, list[Match]] = defaultdict(list)
    for match in sorted(matches, key=failure):
        by_generation[match.generation].append(match)
    newest_first = [by_generation[t] for t in sorted(by_generation, reverse=True)]
    turns = chain.from_iterable(zip_longest(*newest_first))
    chosen = [match for match in turns if match is not None][:CARDS]
    return sorted(chosen, key=lambda match: (failure(match), -match.generation))


def _card(match: Match, judgement: Judgement | None, seed: Sequence[Message]) -> MatchCard:
    prompt = tuple(Message("seed prompt", message.content) for message in seed)
    answers = tuple(_answer(match, turn, judgement) for turn in match.turns)
    reason = "not judged yet" if judgement is None else judgement.reason
    return MatchCard(match.id, match.generation, match.split, prompt, answers, reason)


def _answer(match: Match, turn: Turn, judgement: Judgement | None) -> CardAnswer:
    if is_adversary(turn.seat):
        utility, note = "success", "attack; its success"
    else:
        utility, note = "p_safe", "answer; the probability that it is safe"
    score = judgement.score(turn.seat, utility) if judgement else None
    player = str(match.seats[turn.seat])
    move = public_move(turn.move)
    return CardAnswer(player, move.text or move.error, score, note, thoughts=move.thoughts)


# -- collapse


def collapse_warnings(
    stages: Sequence[StageRecord],
    refused: Interval | None,
    on_topic: Interval | None,
    diversities: Sequence[Interval | None],
) -> Iterator[str]:
    """Warnings that the adversary repeats itself, refuses, strays or lost its variety.

    `refused`, `on_topic`: shares of the newest attacks; `diversities`: of all, oldest first.
    """
    repeated = [
        stage.facts["repeated"].get(ADVERSARY)
        for stage in stages
        if stage.stage == "episodes" and "repeated" in stage.facts
    ]
    recent = [share for share in repeated if share is not None][-RECENT:]
    if recent and fmean(recent) > REPEATED:
        yield (
            f"collapse: {fmean(recent):.0%} of the adversary's training attacks repeat "
            f"another one of their generation (mean of its last {len(recent)}); raise "
            "its diversity terms, its temperature or its KL weight"
        )
    if refused and refused.mean > REFUSED:
        yield (f"collapse: {refused.mean:.0%} of the adversary's held-out attacks are refusals")
    if on_topic and on_topic.mean < OFF_TOPIC:
        yield (
            f"collapse: only {on_topic.mean:.0%} of the adversary's held-out attacks "
            "are on their prompt's topic"
        )
    first, last = (diversities[0], diversities[-1]) if diversities else (None, None)
    if first and last and last.mean < LOST * first.mean:
        yield (
            "collapse: the attacks' diversity (1 − self-BLEU) fell from "
            f"{first.mean:.2f} to {last.mean:.2f}"
        )
