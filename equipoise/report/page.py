"""The report's page before it is drawn: a frame of plain texts around its sections."""

from __future__ import annotations

from dataclasses import dataclass

from equipoise.report.section import Section


@dataclass(frozen=True, slots=True)
class Page:
    """A title, the sections in their order, and what a reader must be told first."""

    title: str
    subtitle: str = ""
    created: str = ""
    sections: tuple[Section, ...] = ()
    warnings: tuple[str, ...] = ()
