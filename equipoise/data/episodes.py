"""From judged matches to episodes: each move of a learner with what it is paid, and
which moves compete with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Real

from equipoise.data.normalising import Normalising
from equipoise.data.shaping import Term
from equipoise.errors import ConfigError, EquipoiseError
from equipoise.games.base import Game
from equipoise.types import Episode, Judgement, Match, PlayerId, Prompt, Turn, record_id


def episodes(
    matches: Sequence[Match],
    judgements: Mapping[str, Judgement],
    learner: PlayerId,
    game: Game,
    prompts: Mapping[str, Prompt],
    utility: str = "score",
    terms: Sequence[Term] = (),
    normalise: Normalising | None = None,
) -> tuple[list[Episode], dict[str, int]]:
    """(an episode for each move of `learner`, in order; how many of its moves gave
    none, by why).

        reward = utility of the seat + Σ over the terms of that seat's role,  normalised where that is asked for

    `judgements` by match id, `prompts` by id. A move whose seat was not judged, or that
    failed, is left out: it is not paid 0. Raises ConfigError for a utility that nobody
    gave, EquipoiseError for a term that has not one finite number for each text.
    """
    mine = [
        (match, place, turn)
        for match in matches
        for place, turn in enumerate(match.turns)
        if match.seats[turn.seat] == learner
    ]
    made = [
        row for row in mine if row[2].move.finish != "error" and row[2].move.token_ids
    ]
    dropped = Counter({"failed": len(mine) - len(made)})
    found: list[Episode] = []
    sources: list[str] = []
    sides: list[Mapping[str, float]] = []
    for (match, place, turn), added in zip(
        made, _shaped(made, game, prompts, terms), strict=True
    ):
        judgement = judgements.get(match.id)
        scores = judgement.utilities(turn.seat) if judgement else {}
        if utility not in scores:
            dropped["unjudged"] += 1
            continue
        sources.append(prompts[match.prompt].source)
        sides.append(scores)
        role, parts = game.role(turn.seat), {utility: scores[utility], **added}
        found.append(
            Episode(
                id=record_id("episode", match.id, place, learner),
                generation=match.generation,
                match=match.id,
                turn=place,
                role=role,
                group=record_id(
                    role, *((m.role, m.content) for m in turn.view.messages)
                ),
                reward=sum(parts.values()),
                parts=parts,
            )
        )
    if not found and dropped["unjudged"] and judgements:
        names = {
            name for judgement in judgements.values() for name in judgement.names()
        }
        if names and utility not in names:
            raise ConfigError(
                f"utility: no judgement has '{utility}'; known: {', '.join(sorted(names))}"
            )
    found = normalise.applied(found, sources, sides) if normalise is not None else found
    return found, {why: count for why, count in dropped.items() if count}


def _shaped(
    made: Sequence[tuple[Match, int, Turn]],
    game: Game,
    prompts: Mapping[str, Prompt],
    terms: Sequence[Term],
) -> list[dict[str, float]]:
    """For each move, term -> what it adds; terms of one name are summed."""
    shaped: list[dict[str, float]] = [{} for _ in made]
    for term in terms:
        rows = [
            row
            for row, (_, _, turn) in enumerate(made)
            if game.role(turn.seat) == term.role
        ]
        texts = [made[row][2].move.text for row in rows]
        values = term.values(
            texts, [prompts[made[row][0].prompt].messages[-1].content for row in rows]
        )
        if len(values) != len(texts):
            raise EquipoiseError(
                f"shaping '{term.name}' gave {len(values)} numbers for {len(texts)} texts"
            )
        for row, text, value in zip(rows, texts, values, strict=True):
            if not (isinstance(value, Real) and isfinite(value)):
                raise EquipoiseError(
                    f"shaping '{term.name}' gave {value!r}, no finite number, for {text[:80]!r}"
                )
            shaped[row][term.name] = shaped[row].get(term.name, 0.0) + float(value)
    return shaped
