"""Answers compared as mathematics: which are equal, and the helper process that compares them."""

import sys
from pathlib import Path

import math_verify
import pytest

from equipoise.errors import EquipoiseError
from equipoise.judges import math_equality
from equipoise.judges.math_equality import MEMORY, Checker
from equipoise.judges.math_in_answer import looks_mathematical


@pytest.mark.long
@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        ("4", "So it is 4.", True),
        ("4", "5", False),
        ("5", "four", False),
        ("#### 4", "First 3.\n#### 4", True),
        ("Of 3 and 4\n#### 7", "Of 3 and 7\n#### 4", False),
        ("####", "####", "the gold answer cannot be read as mathematics: ####"),
        ("1,\\!000", "1000", True),
        ("\\frac{1}{2}", "0.5", True),
        ("x = 3", "3", True),
        ("4.5e3", "4500", True),
        ("4500", "4.5e3", True),
        ("4.5 \\times 10^{3}", "$4.5e3$", True),
        ("2x", "x + x", True),
        ("2x", "\\boxed{x + x}", True),
        ("3", "3x + 4", False),
        ("(1, 2)", "(1, 2)", True),
        ("(1, 2)", "(2, 1)", False),
        ("\\frac{1}{3}E_{1}+E_{2}", "\\boxed{\\frac{1}{3} E_{1} + E_{2}}", True),
        ("PQRS=WXYZ", "$PQRS = WXYZ$.", True),
        ("PQRS=WXYZ", "$PQRS = WXYQ$.", False),
        ("2400000", "About $2.4M in all", True),
        ("1200", "1.2k", True),
        ("12", "12; check: 36 / 12 = 3", True),
        ("3.5e-4", "\\boxed{3.5 \\times 10^{-4}\\ \\mathrm{m^2/s}}", True),
        ("5k", "5k", True),
        ("?!" * 60, "4", f"the gold answer cannot be read as mathematics: {'?!' * 40}"),
    ],
)  # fmt: skip
def test_which_answers_are_equal(gold, answer, equal):
    assert math_equality.answers_equal(math_verify, gold, answer) == equal


@pytest.mark.parametrize(
    ("answer", "looks"),
    [
        (4, True),
        (0.5, True),
        (True, False),
        ([1, 2], False),
        ("four", False),
        ("4", True),
        ("x + y", True),
        ("xy", False),
        ("2 apples", False),
        ("2 is it", True),
        ("sqrt(2)", True),
        ("arcsin(2)", False),
        ("\\frac{a}{b}", True),
        ("\\text{cat}", True),
        ("cat \\text{cat}", False),
        ("\\begin{pmatrix}1\\end{pmatrix}", True),
        ("a = b", True),
    ],
)
def test_what_looks_like_mathematics(answer, looks):
    assert looks_mathematical(answer) is looks


@pytest.mark.long
def test_the_helper_is_bounded_kept_and_ended():
    with Checker(30) as checker:
        assert checker.equal("4", "2 + 2") is True
        assert checker.equal("4", "5") is False
        process = checker._process
        assert process is not None
        assert checker.equal("x", "4") is False
        assert checker._process is process
        limits = Path(f"/proc/{process.pid}/limits")
        if limits.is_file():
            [line] = [each for each in limits.read_text().splitlines() if "address space" in each]
            assert line.split()[3] == str(MEMORY)
        process.kill()
        process.wait()
        assert checker.equal("4", "4") == (
            "the answer could not be compared within 30 s of computing and 4 GiB (exit -9)"
        )
        assert checker.equal("4", "4") is True  # by another
        last = checker._process
    assert last is not None
    assert last.poll() == -9
    assert last.stdin.closed
    assert last.stdout.closed
    assert checker._process is None
    assert checker._stop() is None


@pytest.mark.long
def test_what_takes_too_long_is_given_up():
    with Checker(1) as checker:
        said = checker.equal("4", "$9^{9^{9^{9}}}$")
        assert isinstance(said, str)
        assert said.startswith("the answer could not be compared within 1 s of computing")
        assert checker.equal("4", "4") is True


@pytest.mark.long
def test_a_helper_that_does_not_start_says_how_to_see_why(monkeypatch):
    command = [sys.executable, "-c", ""]
    monkeypatch.setattr(math_equality, "python_command", lambda *arguments: command)
    checker = Checker(1)
    with pytest.raises(
        EquipoiseError, match=r"to see why: .* -m equipoise.judges.math_equality 5$"
    ):
        checker.equal("4", "4")
    assert checker._process is None
