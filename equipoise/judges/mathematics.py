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

from equipoise.errors import ConfigError, EquipoiseError
from equipoise.system.subprocesses import (
    DEVNULL,
    PIPE,
    Process,
    child_environment,
    python_command,
    start_process,
)

SCIENTIFIC = re.compile(r"(?<![\w.\\])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?![\w.])")
FORMULA = re.compile(r"\$|\\boxed|\\\[|\\\(")
FUNCTIONS = frozenset({"sqrt", "sin", "cos", "tan", "log", "exp"})
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
            python_command("equipoise.judges.mathematics", self._timeout),
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


def looks_mathematical(answer: Any) -> bool:
    """True if an answer is a number, or a text with mathematical symbols and no words.

    Symbols are digits, operators and LaTeX commands; a word has three letters or more.
    """
    if isinstance(answer, (list, tuple, bool)):
        return False
    text = re.sub(r"\\(?:begin|end){[a-z]*}", "", str(answer))
    closed, brace, rest = text.rpartition("}")  # what follows is never closed
    text = re.sub(r"\\(?:text|mbox|mathrm)\s*{[^}]*}", "", closed + brace) + rest
    names = re.findall(r"[A-Za-z]{3,}", re.sub(r"\\[A-Za-z]+", "", text))
    has_symbols = re.search(r"\d|\\[A-Za-z]|[=^+*/]", str(answer)) is not None
    return has_symbols and FUNCTIONS.issuperset(names)


def serve(timeout: float) -> None:
    """Compare what standard input asks; end when one computes for more than `timeout` s."""
    import logging

    import math_verify

    _limit_memory()
    if hasattr(signal, "SIGPROF"):
        signal.signal(signal.SIGPROF, signal.SIG_DFL)  # which ends the process
    logging.disable(logging.WARNING)  # of math-verify's, that its time limits are off
    _write(READY)
    for line in sys.stdin:
        _set_alarm(timeout)
        verdict = _equal(math_verify, *json.loads(line))
        _set_alarm(0)
        _write(json.dumps(verdict) + "\n")


def _set_alarm(timeout: float) -> None:
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


def _write(line: str) -> None:
    sys.stdout.write(line)
    sys.stdout.flush()


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # not on this system
        return
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY if most < 0 else min(MEMORY, most), most))


def _equal(math_verify: Any, gold: str, answer: str) -> bool | str:
    gold, answer = _final(gold), _final(answer)
    golds = _read(math_verify, (f"${gold}$", gold))
    if not golds:
        return f"the gold answer cannot be read as mathematics: {gold[:80]}"
    # An answer may be prose around mathematics, or a bare formula, of which prose rules would read
    # the last number.
    forms = (answer, f"${answer}$") if len(answer) < 200 else (answer,)
    bare = looks_mathematical(answer) and not FORMULA.search(answer)
    answers = _read(math_verify, forms[::-1] if bare else forms)
    return bool(answers) and bool(math_verify.verify(golds, answers, timeout_seconds=None))


def _final(text: str) -> str:
    """The text behind the last "####" (GSM8K's mark), without LaTeX's thin spaces."""
    final = text.rpartition("####")[2]
    return (final if final.strip() else text).replace(",\\!", "")


@lru_cache(1024)  # a right answer is met with many answers
def _read(math_verify: Any, forms: tuple[str, ...]) -> list[Any]:
    """Mathematics in the first of `forms` that parses to more than text, else nothing."""
    for form in forms:
        parsed = math_verify.parse(_decimal_powers(form), parsing_timeout=None)
        if any(not isinstance(part, str) for part in parsed):
            return parsed
    return []


def _decimal_powers(text: str) -> str:
    """4.5e33 as LaTeX, in dollars, since math-verify would read 4.5 or 4.5·e·33."""
    power = r"\1 \\times 10^{\2}"
    return SCIENTIFIC.sub(power if "$" in text or "\\" in text else f"${power}$", text)


if __name__ == "__main__":
    serve(float(sys.argv[1]))
