"""Every parser of what a model wrote, on texts that no model should write.

Two questions: does any text raise what is not the parser's own error, and does the work grow in
proportion to the text? `--size` is the number of fuzzed texts; each goes to SHARE of the parsers,
by turns.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any

from benchmarks.withheld import style_of
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.payoff_matrix import MatrixError, read_matrix
from equipoise.environments.assistance.responses import (
    asks_about,
    gives_several,
    named_on_frontier,
    response_action,
)
from equipoise.environments.assistance.steering_engine import VisibleResponse, strip_hidden
from equipoise.environments.clerk.clerk_answers import offers_alternative, reply_action
from equipoise.judges.math_in_answer import looks_mathematical
from equipoise.judges.multiple_choice import stated_option
from equipoise.judges.quoting import code_of, harmless
from equipoise.judges.read_verdict import read_choice, read_score
from equipoise.judges.rules import Refusal, last_number, plain_text
from equipoise.players.server_reply import UnusableReplyError, decode, read_reply
from tests.soak._outcome import Outcome

SIZE = 1_000_000
SIZES_KB = (1, 10, 100, 1000)
STEEPEST = 40  # times the work for ten times the text; 100 is quadratic
LEAST_SECONDS = 0.02  # of computing, below which a ratio means nothing
SHARE = 6  # parsers that a fuzzed text goes to
DEAREST = 12  # shapes of each parser that are tried at all sizes
CODE = code_of(7)
OPTIONS = {"A": "Paris", "B": "New Paris", "C": "no"}
FRONT = ("DQ_DA", "VQ_AQ")
REFUSAL = Refusal.model_validate({})
OWN_ERRORS = (MatrixError, UnusableReplyError)

Parser = Callable[[str], Any]
Shape = tuple[str, str, str]  # what a text begins with, ends with, and repeats


def visible(text: str) -> str:
    """What a client sees of an output that comes in two pieces."""
    response = VisibleResponse()
    half = len(text) // 2
    seen = response.add(text[:half]) + response.add(text[half:]) + response.end()
    return seen or response.whole_text()


PARSERS: dict[str, Parser] = {
    "four blocks": lambda text: parse(text).chosen,
    "pay-off matrix": read_matrix,
    "named actions": lambda text: named_on_frontier(text, FRONT),
    "response's action": response_action,
    "question back": lambda text: asks_about(text, "Which bank?"),
    "readings given": gives_several,
    "hidden blocks": strip_hidden,
    "visible response": visible,
    "grade": lambda text: read_score(text, 1, 10),
    "grade with code": lambda text: read_score(text, 1, 10, CODE),
    "boxed grade": lambda text: read_score(text, 0, 1, keys=("boxed",)),
    "verdict": lambda text: read_choice(text, ("A", "B", "tie")),
    "verdict with code": lambda text: read_choice(text, ("A", "B", "tie"), CODE),
    "multiple choice": lambda text: stated_option(text, OPTIONS),
    "exact answer": plain_text,
    "last number": last_number,
    "mathematics or not": looks_mathematical,
    "refusal": REFUSAL.refuses,
    "clerk's action": lambda text: reply_action("What is 1 + 2?", text),
    "clerk's offer": offers_alternative,
    "clerk's disguise": style_of,
    "quotation": lambda text: harmless(text, CODE, 20_000),
    "endpoint's reply": lambda text: read_reply(decode(text.encode("utf-8", "replace"))),
    "endpoint's content": lambda text: read_reply({"choices": [{"message": {"content": text}}]}),
}

PIECES = (
    *("<thinking>", "</thinking>", "<payoff>", "</payoff>", "<analyze>"),
    *("</analyze>", "<response>", "</response>", "<think>", "</think>"),
    *("{", "}", "[", "]", "[[", "]]", "(", ")", '"', "'", ":", ",", ";", "."),
    *('{"score": 7}', '{"score":', "{'score': 7}", '{"a":[', '"score": 7', "score: 7"),
    *("score ", "7/10", "7 out of 10", "-7", "9", "1e999", "0x", "0xffff", "1,000"),
    *("verdict: A", '{"verdict": "A"', "Answer A", "tie", "[[A]]", "**", "```", "```json"),
    *(f'"code": "{CODE}"', f"{CODE}: 7", f"{CODE}: A", CODE, "\\boxed{", "\\boxed{7}"),
    *("\\text{", "\\frac{1}{2}", "$", "####", "\\", "|", "<", ">", "</", "/", "=", "+"),
    *("DQ_DA", "VQ_AQ", "DQ", "DA", "CQ ", "choose ", "best ", "over ", "not ", "but "),
    *("is dominated ", "is ", "by ", "DA over ", "answer ", "and ", "ask ", "answer and "),
    *("directly ", "clarify ", "which ", "do you mean ", "if you mean ", "alternatively "),
    *("A", "B)", "(C)", "A is ", "Paris", "New Paris", "no", "the answer is ", "\nB\n"),
    *("can ", "glad ", "sorry", "can't ", "boss's barn", "burn ", "How do I ", "?", "!"),
    *(" ", "  ", "\n", "\n\n", "\t", "\r\n", "\x00", "\x85", "\u2028", "\u200b", "\u202e"),
    *("a", "Z", "_", "-", "–", "−", "’", "“", "é", "ß", "İ", "ﬁ", "𝟗", "٣", "中", "😀"),
    *("\u0301", "\u0316\u0301", "\ud83d", "\udc00", "<|im_end|>", "[INST]", "<s>"),
    *('{"choices": [{"message": {"content": "', '"usage": {"prompt_tokens":', "NaN"),
    *("null", "true", "Infinity", '"finish_reason": "abort"', "\\ud83d", "\\u0000"),
    *('{"DQ_AQ": {"LLM": 1, "user": 2},', "{'DQ_AQ':", "1+", "~", "lambda:", "f'{"),
)
# Texts that repeat a piece, between a beginning and an end.
FRAMES = (("", ""), ("{", ""), ('{"score": "7', 'x"}'), ("Score: 7", "x"), ("A", "x"))


def fuzzed(dice: random.Random) -> str:
    """A text of some pieces, now and then with one of them many times over."""
    pieces = dice.choices(PIECES, k=dice.randint(1, 12))
    if dice.random() < 0.02:
        pieces[0] *= dice.randint(2, 2000)
    return "".join(pieces)


def fault_of(parser: Parser, text: str) -> str | None:
    """What a parser raised that is not its own error, with the place; None: nothing."""
    try:
        parser(text)
    except OWN_ERRORS:
        return None
    except Exception as error:  # noqa: BLE001  that is what is looked for
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} in {last.name}: {str(error)[:80]}"
    return None


def tried(
    count: int, seed: int = 0, until: float = float("inf")
) -> Iterator[tuple[str, str, str | None]]:
    """(parser, text, fault or None) of `count` fuzzed texts, each at SHARE parsers; none begins
    after that moment of `time.monotonic`.
    """
    dice = random.Random(seed)
    turn = cycle(PARSERS.items())
    for _ in range(count):
        if time.monotonic() > until:
            return
        text = fuzzed(dice)
        for name, parser in islice(turn, SHARE):
            yield name, text, fault_of(parser, text)


def faults(count: int, seed: int = 0) -> list[str]:
    """What of `count` fuzzed texts raised what it may not."""
    tries = tried(count, seed)
    return [f"{name}: {fault}, of {text!r}" for name, text, fault in tries if fault]


def repeated(shape: Shape, size: int) -> str:
    """About `size` characters: the piece over and over, in its frame."""
    head, tail, piece = shape
    return head + piece * max(1, size // len(piece)) + tail


def seconds_of(parser: Parser, text: str) -> float:
    """Seconds of computing that the parser takes."""
    start = time.process_time()
    fault_of(parser, text)
    return time.process_time() - start


def growth(parser: Parser, shape: Shape, sizes: Sequence[int]) -> tuple[float, float]:
    """The steepest factor of work from one size to the next, and what the last took.

    Sizes are in characters. What computes for too short a time is not compared; after a factor that
    is too steep no larger size is tried.
    """
    steepest, before, took = 1.0, 0.0, 0.0
    for size in sizes:
        text = repeated(shape, size)
        took = seconds_of(parser, text)
        if took > STEEPEST * max(before, LEAST_SECONDS / 10):
            took = min(took, seconds_of(parser, text), seconds_of(parser, text))
        if took > LEAST_SECONDS:
            steepest = max(steepest, took / max(before, LEAST_SECONDS / 10))
        if steepest > STEEPEST:
            break
        before = took
    return steepest, took


def steep(parser: Parser, sizes: Sequence[int], dearest: int) -> tuple[float, float, list[str]]:
    """(steepest factor, seconds of the dearest text, shapes whose work grows too fast).

    All shapes are tried at the first two sizes, and the dearest of them at all sizes.
    """
    shapes = [(*frame, piece) for frame in FRAMES for piece in PIECES]
    costs = {shape: growth(parser, shape, sizes[:2]) for shape in shapes}
    tried = sorted(shapes, key=lambda shape: -costs[shape][1])[:dearest]
    for shape in tried:
        factor, took = growth(parser, shape, sizes[1:])
        costs[shape] = max(factor, costs[shape][0]), took
    too_steep = [
        f"{head}{piece!r} times many{tail} ({factor:.0f}×, {took:.1f} s)"
        for (head, tail, piece), (factor, took) in costs.items()
        if factor > STEEPEST
    ]
    factors, seconds = zip(*costs.values(), strict=True)
    return max(factors), max(seconds), too_steep


def soak(size: int, minutes: float | None = None) -> Outcome:
    """Repetitions of 1 to 1000 KB to every parser, then `size` fuzzed texts to SHARE parsers each;
    no text begins after so many minutes.
    """
    until = time.monotonic() + 60 * minutes if minutes else float("inf")
    failures: list[str] = []
    rows: dict[str, dict[str, Any]] = {}
    sizes = tuple(1000 * kb for kb in SIZES_KB)
    for name, parser in PARSERS.items():
        worst, dearest, too_steep = steep(parser, sizes, DEAREST)
        failures += [f"{name}: {text}" for text in too_steep]
        rows[name] = {
            "parser": name,
            "texts": 0,
            "exceptions": 0,
            "repetitions": len(FRAMES) * len(PIECES),
            "steepest ×10": f"{worst:.0f}×",
            "dearest of 1 MB": f"{dearest:.2f} s",
        }
    for name, text, fault in tried(size, until=until):
        rows[name]["texts"] += 1
        if fault:
            rows[name]["exceptions"] += 1
            failures.append(f"{name}: {fault}, of {text[:200]!r}")
    return Outcome(list(rows.values()), failures)
