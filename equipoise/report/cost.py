"""The section on what a run took: time by stage, calls and money by account, tokens by player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.report.elements import SampleSize
from equipoise.report.section import Section, Table, number


@dataclass(frozen=True, slots=True)
class Account:
    """What one endpoint's account was asked for: calls, tokens (asked and answered), money in its
    prices' currency.
    """

    name: str
    calls: int
    tokens: int
    money: float


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that one player, or a judge that is none, took: its `answers`, what was `read` for
    them, and `judging`.
    """

    name: str
    answers: int = 0
    generated: int = 0
    read: int = 0
    judging: int = 0

    @property
    def any(self) -> bool:
        """Whether it took any."""
        return bool(self.generated or self.read or self.judging)


@dataclass(frozen=True, slots=True)
class Duration:
    """The seconds that all stages of a name took, `inside` the stage of another name."""

    stage: str
    seconds: float
    inside: str = ""


def cost_section(
    accounts: Sequence[Account],
    tokens: Sequence[Tokens],
    sample: SampleSize,
    durations: Sequence[Duration] = (),
) -> Section:
    """Where the time went, what endpoints were asked for, and the tokens that each player took in
    play and in judging.
    """
    spent = [usage for usage in tokens if usage.any]
    if not accounts and not spent and not durations:
        return Section(
            "cost",
            "Cost",
            reason="no stage has ended, no endpoint was asked, and no player or judge "
            "counts tokens",
        )
    tables = []
    if accounts:
        tables.append(_accounts(accounts))
    if spent:
        tables.append(_tokens(spent))
    if durations:
        tables.append(_durations(durations))
    return Section("cost", "Cost", tuple(tables), _lead(bool(accounts), sample))


def _durations(durations: Sequence[Duration]) -> Table:
    whole = sum(each.seconds for each in durations if not each.inside)
    rows = [
        (
            f"{each.stage}, inside {each.inside}" if each.inside else each.stage,
            f"{each.seconds:,.1f}",
            number(each.seconds / whole, "%") if whole else "–",
        )
        for each in durations
    ]
    rows.append(("all, each second once", f"{whole:,.1f}", ""))
    return Table(("stage", "seconds", "share"), tuple(rows), "Time")


def _accounts(accounts: Sequence[Account]) -> Table:
    totals = Account(
        "all",
        sum(account.calls for account in accounts),
        sum(account.tokens for account in accounts),
        sum(account.money for account in accounts),
    )
    listed = [*accounts, totals] if len(accounts) > 1 else accounts
    rows = tuple(
        (account.name, number(account.calls), number(account.tokens), number(account.money))
        for account in listed
    )
    return Table(("account", "calls", "tokens", "money"), rows, "Endpoints")


def _tokens(spent: Sequence[Tokens]) -> Table:
    columns = ("player or judge", "answers", "tokens generated", "tokens read", "tokens in judging")
    rows = tuple(
        (
            usage.name,
            number(usage.answers),
            number(usage.generated),
            number(usage.read),
            number(usage.judging),
        )
        for usage in spent
    )
    return Table(columns, rows, "Tokens")


def _lead(paid: bool, sample: SampleSize) -> str:
    sentences = (
        "Money is in the currency of the prices that were set."
        if paid
        else "Everything ran here: no endpoint was asked."
    )
    if sample.is_partial:
        sentences += (
            f" Tokens are estimated from a random sample of {number(sample.read)} of "
            f"{number(sample.total)} matches."
        )
    return sentences
