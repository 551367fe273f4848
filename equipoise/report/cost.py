"""The section on what a run took: calls and money by account, tokens by player."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.report.elements import SampleSize
from equipoise.report.section import Section, Table, number


@dataclass(frozen=True, slots=True)
class Account:
    """What one endpoint's account was asked for: calls, tokens (asked and answered),
    money in its prices' currency.
    """

    name: str
    calls: int
    tokens: int
    money: float


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens that one player, or a judge that is none, took: its `answers`, what was
    `read` for them, and `judging`.
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


def cost_section(
    accounts: Sequence[Account], tokens: Sequence[Tokens], sample: SampleSize
) -> Section:
    """What endpoints were asked for, and the tokens that each player took in play and
    in judging.
    """
    spent = [usage for usage in tokens if usage.any]
    if not accounts and not spent:
        return Section(
            "cost",
            "Cost",
            reason="no endpoint was asked, and no player or judge counts tokens",
        )
    tables = []
    if accounts:
        tables.append(_accounts(accounts))
    if spent:
        tables.append(_tokens(spent))
    return Section("cost", "Cost", tuple(tables), _lead(bool(accounts), sample))


def _accounts(accounts: Sequence[Account]) -> Table:
    totals = Account(
        "all",
        sum(account.calls for account in accounts),
        sum(account.tokens for account in accounts),
        sum(account.money for account in accounts),
    )
    listed = [*accounts, totals] if len(accounts) > 1 else accounts
    rows = tuple(
        (
            account.name,
            number(account.calls),
            number(account.tokens),
            number(account.money),
        )
        for account in listed
    )
    return Table(("account", "calls", "tokens", "money"), rows, "Endpoints")


def _tokens(spent: Sequence[Tokens]) -> Table:
    columns = (
        "player or judge",
        "answers",
        "tokens generated",
        "tokens read",
        "tokens in judging",
    )
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
