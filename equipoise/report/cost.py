"""The section on what a run took: calls and money by account, tokens by player."""

from __future__ import annotations

from equipoise.report.facts import Facts
from equipoise.report.section import Section, Table, number


def cost(facts: Facts) -> Section | None:
    """What endpoints were asked for, and the tokens that each player took in play and
    in judging.
    """
    spent = [one for one in facts.tokens if one.generated or one.read or one.judging]
    if not facts.accounts and not spent:
        return Section(
            "cost",
            "Cost",
            reason="no endpoint was asked, and no player or judge counts tokens",
        )
    blocks: list[Table] = []
    if facts.accounts:
        rows = [
            (one.name, number(one.calls), number(one.tokens), number(one.money))
            for one in facts.accounts
        ]
        if len(rows) > 1:
            calls, tokens = (
                sum(values)
                for values in zip(
                    *((a.calls, a.tokens) for a in facts.accounts), strict=True
                )
            )
            rows.append(
                (
                    "all",
                    number(calls),
                    number(tokens),
                    number(sum(a.money for a in facts.accounts)),
                )
            )
        blocks.append(
            Table(("account", "calls", "tokens", "money"), tuple(rows), "Endpoints")
        )
    if spent:
        rows = [
            tuple(map(number, (t.answers, t.generated, t.read, t.judging)))
            for t in spent
        ]
        columns = (
            "player or judge",
            "answers",
            "tokens generated",
            "tokens read",
            "tokens in judging",
        )
        named = tuple((t.name, *row) for t, row in zip(spent, rows, strict=True))
        blocks.append(Table(columns, named, "Tokens"))
    read, total = facts.sample
    about = (
        f" Tokens are estimated from a random sample of {number(read)} of {number(total)} matches."
        if read < total
        else ""
    )
    free = "" if facts.accounts else " Everything ran here: no endpoint was asked."
    lead = (
        f"Money is in the currency of the prices that were set.{about}"
        if facts.accounts
        else (free + about).strip()
    )
    return Section("cost", "Cost", tuple(blocks), lead)
