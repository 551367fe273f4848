"""From what was measured of the assistant's game to the numbers, points and answers of
its report.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from equipoise.environments.assistance.blocks import BLOCKS, ParsedOutput
from equipoise.environments.assistance.conversation import assistant_answers
from equipoise.environments.assistance.game import ASSISTANT, Assistance
from equipoise.environments.assistance.payoff_matrix import ACTIONS, QUESTION_TYPES
from equipoise.environments.assistance.written_game import GIVEN
from equipoise.payoffs.intervals import Interval
from equipoise.report import facts
from equipoise.report.facts import Answer, Curve, Curves, Headline, Part, Plane, Written
from equipoise.report.measured import Measured, interval
from equipoise.report.section import number
from equipoise.report.terminal import Change
from equipoise.types import Judgement, Match, Message, Prompt

MEASURES = (
    ("welfare", "welfare", "", True),
    ("utilities.user", "utility to the user", "", True),
    ("utilities.llm", "utility to the model", "", True),
    ("right", "right moves", "%", True),
    ("rates.format", "well-formed answers", "%", True),
    ("length.tokens", "tokens of an answer", "", False),
    ("length.quality_per_1000_tokens", "answer score per 1000 tokens", "", True),
    ("length.response_share", "response's share of the answer", "%", True),
)  # where it is found, what it is called, its unit, whether more of it is better


def value(found: Mapping[str, Any], name: str) -> Interval | None:
    """One of MEASURES as it was measured; None where it was not. Lengths have no
    interval.
    """
    first, _, second = name.partition(".")
    one = found.get(first) or {}
    if first == "length":
        mean = one.get(second)
        return (
            None
            if mean is None
            else Interval(mean, math.nan, math.nan, len(found.get("points", ())))
        )
    known = interval(one.get(second) if second else one)
    return known if known and known.n else None


def changes(measured: Measured) -> list[Change]:
    """Every measure, at the start and now."""
    return [
        Change(title, before, after, unit, better)
        for title, unit, better, before, after in _compared(measured)
    ]


def headlines(measured: Measured) -> Iterator[Headline]:
    """The same, ready to read."""
    for title, unit, _, before, after in _compared(measured):
        yield Headline(
            title,
            _told(after, unit),
            "" if before is None else f"{_told(before, unit)} at the start",
        )


def _compared(
    measured: Measured,
) -> Iterator[tuple[str, str, bool, Interval | None, Interval]]:
    seen = _seen(measured)
    for name, title, unit, better in MEASURES if seen else ():
        after = value(seen[-1][1], name)
        if after is not None:
            yield title, unit, better, value(seen[0][1], name), after


def _told(found: Interval, unit: str) -> str:
    """With its interval where it can have one."""
    return number(found.mean, unit) if math.isnan(found.low) else found.text(unit)


def _seen(measured: Measured) -> list[tuple[int, dict[str, Any]]]:
    """What this game's own measure found: another one records no utilities."""
    return [(t, found) for t, found in measured if "utilities" in found]


def assistance(
    measured: Measured, beside: Sequence[Plane] = (), harmful: bool = False
) -> facts.Assistance:
    """Everything that the report shows of the game; `beside` are other runs' planes."""
    seen = _seen(measured)
    ends = dict((seen[0], seen[-1])) if seen else {}
    own = [
        plane(f"generation {t}", found)
        for t, found in ends.items()
        if found.get("points")
    ]
    return facts.Assistance(
        measured=tuple(_groups(seen)),
        alone=tuple(_alone(seen)),
        planes=(*own, *beside),
        moves={
            (q, t): shares
            for q in _questions(ends)
            for t, found in ends.items()
            if (shares := _moves(found, q))
        },
        written=_written(seen[-1][1]) if seen else None,
        choices=tuple(_choices(seen)),
        sources={
            row: told for t, found in ends.items() for row, told in _sources(t, found)
        },
        beaten=dict(seen[-1][1].get("beaten", {})) if seen else {},
        harmful=harmful,
    )


def plane(name: str, found: Mapping[str, Any]) -> Plane:
    """What one measurement says of every prompt."""
    points = found["points"]
    places = {prompt: i for i, prompt in enumerate(points)}
    front_F = np.array([places[prompt] for prompt in found.get("front", ())], int)
    return Plane(
        name,
        np.array(list(points.values()), float).reshape(-1, 2),
        front_F,
        found.get("hypervolume"),
    )


def _groups(seen: Measured) -> Iterator[Curves]:
    """Measures that share an axis."""
    lines: dict[
        str, tuple[str, str, dict[str, Callable[[Mapping[str, Any]], Interval | None]]]
    ] = {
        "Welfare and both utilities": (
            "",
            "mean over the held-out prompts",
            {
                "welfare": _reader("welfare"),
                "user": _reader("utilities.user"),
                "model": _reader("utilities.llm"),
            },
        ),
        "Form and moves": (
            "%",
            "right: asked back where the question is vague, answered where it is clear",
            {
                "right move": _reader("right"),
                "well-formed": _reader("rates.format"),
                "readable": _reader("rates.readable"),
            },
        ),
        "Quality of the response": (
            "%",
            "as the task's judge says",
            {
                "to the user": _reader("rates.quality_user"),
                "to the model": _reader("rates.quality_llm"),
            },
        ),
    }
    for title, (unit, note, readers) in lines.items():
        drawn = tuple(
            curve
            for name, read in readers.items()
            if (curve := _curve(name, unit, seen, read)).x
        )
        if drawn:
            yield Curves(title, unit, drawn, note)


def _choices(seen: Measured) -> Iterator[Curves]:
    """How many choices follow from the written game: in all of it, and in what the
    question leaves of it.
    """
    told = [found.get("written", {}).get("consistent", {}) for _, found in seen]
    names = list(dict.fromkeys(name for shares in told for name in shares))
    for title, note, ending in (
        ("Choices that follow from the written game", "of all six cells", ""),
        (
            "Choices that follow, the question given",
            "of the three cells of its row",
            GIVEN,
        ),
    ):
        mine = [name for name in names if name.endswith(GIVEN) == bool(ending)]
        drawn = tuple(
            _curve(_words(name.removesuffix(GIVEN)), "%", seen, _consistency(name))
            for name in mine
        )
        if drawn:
            said = "share of the written matrices whose chosen cell is one that this solution of that very game names"
            yield Curves(title, "%", drawn, f"{said}, {note}")


def _alone(seen: Measured) -> Iterator[Curve]:
    """Measures with an axis of their own."""

    def area(facts: Mapping[str, Any]) -> Interval | None:
        return _bare(facts.get("hypervolume"))

    for name, unit, read, note in (
        ("Tokens of an answer", "", _reader("length.tokens"), "mean over the answers"),
        (
            "Answer score per 1000 tokens",
            "",
            _reader("length.quality_per_1000_tokens"),
            "quality to the model",
        ),
        (
            "Response's share of the answer",
            "%",
            _reader("length.response_share"),
            "of its characters",
        ),
        (
            "Hypervolume",
            "",
            area,
            "area above (0, 0) that the prompts' points dominate",
        ),
    ):
        curve = _curve(name, unit, seen, read, note)
        if curve.x:
            yield curve


def _reader(name: str) -> Callable[[Mapping[str, Any]], Interval | None]:
    return lambda found: value(found, name)


def _consistency(name: str) -> Callable[[Mapping[str, Any]], Interval | None]:
    return lambda found: _bare(found.get("written", {}).get("consistent", {}).get(name))


def _bare(mean: float | None) -> Interval | None:
    return None if mean is None else Interval(mean, math.nan, math.nan, 0)


def _curve(
    name: str,
    unit: str,
    seen: Measured,
    read: Callable[[Mapping[str, Any]], Interval | None],
    note: str = "",
) -> Curve:
    points = [(float(t), found) for t, told in seen if (found := read(told))]
    bands = ([one.low for _, one in points], [one.high for _, one in points])
    low, high = map(tuple, bands) if any(map(math.isfinite, bands[0])) else ((), ())
    return Curve(
        name,
        unit,
        tuple(t for t, _ in points),
        tuple(one.mean for _, one in points),
        low,
        high,
        note,
    )


def _questions(ends: Mapping[int, Mapping[str, Any]]) -> list[str]:
    """The types of questions that were asked, in the order in which they were measured."""
    return list(
        dict.fromkeys(
            question for found in ends.values() for question in found.get("actions", ())
        )
    )


def _moves(found: Mapping[str, Any], question: str) -> dict[str, float]:
    shares = found.get("actions", {}).get(question, {})
    return {
        name: shares[name] for name in ("DA", "CQ", "AQ", "none", "n") if name in shares
    }


def _written(found: Mapping[str, Any]) -> Written | None:
    told = found.get("written") or {}
    if not told.get("matrices"):
        return None
    means = {
        q: {name: (cell[0], cell[1]) for name, cell in cells.items()}
        for q, cells in told["means"].items()
    }
    return Written(
        told["matrices"], means, told["chosen"], told.get("paid", {}), told.get("typed")
    )


def _words(name: str) -> str:
    return name.replace("_", " ")


def _sources(
    t: int, found: Mapping[str, Any]
) -> Iterator[tuple[tuple[str, int], dict[str, str]]]:
    """The main numbers of each data set, ready to read."""
    for source, told in found.get("sources", {}).items():
        names = {
            "welfare": "",
            "user": "",
            "llm": "",
            "quality_llm": "%",
            "format": "%",
            "right": "%",
        }
        said = {
            "model" if name == "llm" else _words(name).replace("llm", "model"): _short(
                one, unit, name == "welfare"
            )
            for name, unit in names.items()
            for one in [interval(told.get(name))]
        }
        said["tokens"] = number(told.get("tokens"))
        said["score per 1000 tokens"] = number(told.get("quality_per_1000_tokens"))
        said["response share"] = number(told.get("response_share"), "%")
        yield (source, t), said


def _short(found: Interval | None, unit: str, whole: bool) -> str:
    """In a wide table: with its interval only where that is the column that counts."""
    if found is None or not found.n:
        return "–"
    return found.text(unit) if whole else number(found.mean, unit)


def card(
    match: Match,
    prompt: Prompt,
    game: Assistance,
    judgements: Sequence[Judgement],
    utility: str,
) -> tuple[tuple[Message, ...], tuple[Answer, ...]]:
    """What was asked, and every turn; of the assistant's, each block by itself. By the
    last stands what it is worth.
    """
    said = {id(one.turn): one.output for one in assistant_answers(match, prompt, game)}
    last = max(
        (i for i, turn in enumerate(match.turns) if turn.seat == ASSISTANT), default=-1
    )
    answers = []
    for i, turn in enumerate(match.turns):
        found = [
            (judgement.judge, judgement.utilities(turn.seat))
            for judgement in judgements
        ]
        notes = [f"ended by {turn.move.finish}"] if turn.move.finish != "stop" else []
        if i == last and found:
            notes += _utilities(found[0][1], utility)
            notes += [
                f"{judge}: {utility} {paid[utility]:.4g}"
                for judge, paid in found[1:]
                if utility in paid
            ]
        score = found[0][1].get(utility) if found else None
        parts = (
            _parts(said[id(turn)])
            if id(turn) in said and turn.move.finish != "error"
            else ()
        )
        text = turn.move.text or turn.move.error
        answers.append(
            Answer(str(match.seats[turn.seat]), text, score, ", ".join(notes), parts)
        )
    return prompt.messages, tuple(answers)


def _utilities(paid: Mapping[str, float], utility: str) -> Iterator[str]:
    """Both sides' first, then what they are made of; of the moves the one that was
    made.
    """
    for name in ("user", "llm"):
        if name in paid:
            yield f"{'model' if name == 'llm' else name} {paid[name]:.4g}"
    yield from (f"move {name}" for name in ACTIONS if paid.get(name))
    for name, worth in paid.items():
        if name not in ("user", "llm", utility, *ACTIONS):
            yield f"{_words(name).replace('llm', 'model')} {worth:.4g}"


def _parts(output: ParsedOutput) -> tuple[Part, ...]:
    """The four blocks, and of a faulty output what is wrong and its whole text; nothing
    where no blocks were asked.
    """
    made = []
    if output.faults:
        made.append(Part("faults", "; ".join(output.faults)))
    for name in BLOCKS:
        content = _contents(output)[name]
        if content is None:
            continue
        if name == "payoff" and output.matrix is not None:
            made.append(Part("payoff", rows=_matrix(output)))
        else:
            made.append(
                Part(
                    f"analyze: {output.chosen}"
                    if name == "analyze" and output.chosen
                    else name,
                    content,
                )
            )
    if output.faults:
        made.append(Part("the whole output", output.text))
    return tuple(made) if output.faults or output.thinking is not None else ()


def _contents(output: ParsedOutput) -> dict[str, str | None]:
    """The blocks' contents by name."""
    return {
        "thinking": output.thinking,
        "payoff": output.payoff,
        "analyze": output.analyze,
        "response": output.response,
    }


def _matrix(output: ParsedOutput) -> tuple[tuple[str, ...], ...]:
    """Four rows: either side's pay-offs of a detailed and of a vague question; the
    chosen cell's are in brackets.
    """
    assert output.matrix is not None
    rows: list[tuple[str, ...]] = [("", *reversed(ACTIONS))]
    for question in QUESTION_TYPES:
        for side, who in enumerate(("user", "LLM")):
            cells = [
                (
                    f"{question}_{action}",
                    f"{output.matrix[f'{question}_{action}'][side]:g}",
                )
                for action in rows[0][1:]
            ]
            rows.append(
                (
                    f"{question} {who}",
                    *(
                        f"[{text}]" if name == output.chosen else text
                        for name, text in cells
                    ),
                )
            )
    return tuple(rows)
