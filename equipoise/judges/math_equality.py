"""Equality of two pieces of mathematics, by math-verify in a process of its own.

An answer may be built so that comparing it never ends (a tower of powers, say), in C code that no
signal interrupts; and the time limits of math-verify are signals, which work in the main thread
only. So a helper process parses and compares. A comparison that takes too long ends it, and the
next one starts another process. What counts is the time that the helper computes, so that verdicts
do not depend on how busy the machine is.
"""

from __future__ import annotations

import json
import re
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from types import TracebackType
from typing import Any

from equipoise.answer import normalised
from equipoise.errors import ConfigError, EquipoiseError
from equipoise.judges.math_in_answer import (
    SPELLED,
    TEXT,
    as_latex,
    final_piece,
    plain_words,
    readings,
    right_piece,
    says_in_words,
)
from equipoise.system.subprocesses import (
    DEVNULL,
    PIPE,
    Process,
    child_environment,
    python_command,
    start_process,
)

DIGITS = 50  # to which exact numbers are compared
EXACTLY = 1e-30  # the share by which their values may differ
TOLERANCE = 5e-6  # half of a unit in the sixth digit: 1/3 is 0.333333
COUNTED = 2**53  # whole numbers below are counts, which are equal or not
READY = "ready\n"
MEMORY = 4 << 30  # bytes of address space that the helper may use
PATIENCE = 60  # times its computing time that a comparison may last by the clock


class Checker:
    """A helper process that compares answers, each in `timeout` seconds of computing."""

    def __init__(self, timeout: float) -> None:
        if find_spec("math_verify") is None:
            raise ConfigError(
                "judge: mathematics needs the package `math-verify`: pip install 'equipoise[train]'"
            )
        self._timeout = timeout
        self._process: Process[str] | None = None

    def __enter__(self) -> Checker:
        return self

    def __exit__(
        self, kind: type | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def equal(self, gold: str, answer: str) -> bool | str:
        """True if equal, or the reason why unknown, such as a `gold` without mathematics.

        An answer without mathematics is wrong.
        """
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps([gold, answer]) + "\n")
            process.stdin.flush()
            reply = process.stdout.readline()
        except BrokenPipeError:
            reply = ""
        if reply:
            return json.loads(reply)
        code = self._stop()
        return (
            f"the answer could not be compared within {self._timeout:g} s of "
            f"computing and {MEMORY >> 30} GiB (exit {code})"
        )

    def _start(self) -> Process[str]:
        self._process = start_process(
            python_command("equipoise.judges.math_equality", self._timeout),
            child_environment(bare=True),  # answers are strangers' texts
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,  # where the watchdog writes its traceback
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != READY:
            self._stop()
            raise EquipoiseError(
                "the helper for mathematics did not start; to see why: "
                f"{sys.executable} -m {__name__} 5"
            )
        return self._process

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):  # what it never read
                    pipe.close()
        return code


def serve(timeout: float) -> None:
    """Compare what standard input asks; end when one computes for more than `timeout` s."""
    import logging

    import math_verify
    import math_verify.grader

    compare_numbers_relatively(math_verify.grader)
    limit_memory()
    if hasattr(signal, "SIGPROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    logging.disable(logging.WARNING)  # of math-verify's, that its time limits are off
    write_line(READY)
    for line in sys.stdin:
        set_alarm(timeout)
        verdict = answers_equal(math_verify, *json.loads(line))
        set_alarm(0)
        write_line(json.dumps(verdict) + "\n")


def set_alarm(timeout: float) -> None:
    """End the process after this many seconds of computing; 0 takes the alarm back.

    PATIENCE times as many by the clock end it, too, fewer where computing is not counted.
    """
    import faulthandler

    counts_computing = hasattr(signal, "setitimer")
    if counts_computing:
        signal.setitimer(signal.ITIMER_PROF, timeout)
    if timeout:
        last = PATIENCE * timeout if counts_computing else timeout
        faulthandler.dump_traceback_later(last, exit=True)
    else:
        faulthandler.cancel_dump_traceback_later()


def write_line(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most < 0 else min(MEMORY, most), most))


def answers_equal(math_verify: Any, gold: str, answer: str) -> bool | str:
    """True if the final mathematics of `answer` equals `gold`; a reason where `gold` has none."""
    right = right_piece(gold)
    piece = final_piece(normalised(answer))
    right_text = plain_words(right)
    if right_text and piece and right_text == plain_words(piece.text, bare=True):
        return True
    if right_text and piece and not piece.apart and says_in_words(piece.text, right_text):
        return True
    if right_text and TEXT.fullmatch(right):
        return False
    if SPELLED.fullmatch(right.replace(" ", "")):
        spelled = SPELLED.findall(re.sub(r"\s*:\s*", ":", piece.text)) if piece else []
        return bool(spelled) and spelled[-1] == right.replace(" ", "")
    golds = read_mathematics(math_verify, (f"${as_latex(right)}$", right))
    if not golds:
        return f"the gold answer cannot be read as mathematics: {right[:80]}"
    if piece is None:
        return False
    if without_spaces(piece.text) == without_spaces(right):
        return True  # E_1 + E_2 is Euler's number to the parser
    answers = read_mathematics(math_verify, tuple(readings(piece, right)))
    equal = math_verify.verify(golds, answers, timeout_seconds=None, allow_set_relation_comp=True)
    return bool(answers) and bool(equal)


def without_spaces(formula: str) -> str:
    """A formula without the spaces, dollars and full stop that mean nothing in it."""
    return "".join(formula.split()).strip("$.")


@lru_cache(1024)  # a right answer is met with many answers
def read_mathematics(math_verify: Any, forms: tuple[str, ...]) -> list[Any]:
    """Mathematics in the first of `forms` that parses to more than text, else nothing."""
    for form in forms:
        parsed = math_verify.parse(form, parsing_timeout=None)
        if any(not isinstance(part, str) for part in parsed):
            return parsed
    return []


def compare_numbers_relatively(grader: Any) -> None:
    """Let math-verify's `grader` compare numbers by their ratio.

    Its own comparison rounds to six decimals, to which all small numbers are equal.
    """
    of_symbols = grader.sympy_numeric_eq

    def numeric_equal(first: Any, second: Any, *rounding: int) -> bool:
        if not (getattr(first, "is_number", False) and getattr(second, "is_number", False)):
            return of_symbols(first, second, *rounding)
        if numbers_equal(first.doit(), second.doit()):
            return True
        # 12 % is 12 where the question asks for per cent, as well as 0.12.
        bare = [grader.get_pct_val(each, each) for each in (first, second)]
        is_percent = bare != [first, second]
        return is_percent and min(map(abs, bare)) >= 1 and numbers_equal(*bare)

    grader.sympy_numeric_eq = numeric_equal


def numbers_equal(first: Any, second: Any) -> bool:
    """True if two numbers of SymPy are equal: exactly, or to six digits where one is a decimal."""
    from sympy import Float

    if first == second:
        return True
    values = [each.evalf(DIGITS) for each in (first, second)]
    largest = max(map(abs, values))
    distance = abs(values[0] - values[1])
    if not (largest.is_finite and distance.is_finite):
        return False
    if not (first.has(Float) or second.has(Float)):
        return bool(distance < EXACTLY * largest)
    if largest < COUNTED and all(value == int(value) for value in values if value.is_real):
        return bool(distance == 0)
    return bool(distance <= TOLERANCE * largest)


if __name__ == "__main__":
    serve(float(sys.argv[1]))
