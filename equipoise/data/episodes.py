"""From judged matches to episodes: each move of a learner with its reward and its group."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from numbers import Real
from typing import NamedTuple

from equipoise.answer import answer_of
from equipoise.data.normalising import Normalising
from equipoise.data.pairs import check_utility
from equipoise.data.shaping import Term
from equipoise.data.truncation import is_truncated
from equipoise.errors import EquipoiseError
from equipoise.games.base import Game
from equipoise.types import Episode, Judgement, Match, PlayerId, Prompt, Turn, record_id


class MoveMade(NamedTuple):
    """A move of the learner: its match, its place among the match's turns, the turn."""

    match: Match
    place: int
    turn: Turn


def episodes(
    matches: Sequence[Match],
    judgements: Mapping[str, Judgement],
    learner: PlayerId,
    game: Game,
    prompts: Mapping[str, Prompt],
    utility: str = "score",
    terms: Sequence[Term] = (),
    normalise: Normalising | None = None,
    share_of_outcome: Callable[[int], float] = lambda later: 1.0,
    drop_truncated: bool = False,
) -> tuple[list[Episode], dict[str, int]]:
    """(an episode for each move of `learner`, in order; the number of its moves that gave none, by
    reason).

        reward = share(later) · utility of the seat + Σ over the terms of its role

    `later` is the number of the seat's following moves; normalised if `normalise` is given. A move
    whose seat was not judged, that failed, or with `drop_truncated` was cut, is left out. Raises
    ConfigError for a utility that no judgement has, EquipoiseError for a term that has not one
    finite number for each text.
    """
    own: list[MoveMade] = []
    for match in matches:
        for place, turn in enumerate(match.turns):
            if match.seats[turn.seat] == learner:
                own.append(MoveMade(match, place, turn))
    sampled = [move for move in own if move.turn.move.finish != "error"]
    given = [move for move in sampled if move.turn.move.token_ids]
    made = [move for move in given if not (drop_truncated and is_truncated(move.turn))]
    later = _later(own)
    dropped = Counter({"failed": len(own) - len(given), "truncated": len(given) - len(made)})
    paid: list[Episode] = []
    sources: list[str] = []
    utilities: list[Mapping[str, float]] = []
    shaped: list[dict[str, float]] = [{} for _ in made]
    for term in terms:
        rows = [n for n, move in enumerate(made) if game.role(move.turn.seat) == term.role]
        moves = [made[row] for row in rows]
        values = _values(term, moves, prompts, game.raw_moves)
        for row, value in zip(rows, values, strict=True):
            shaped[row][term.name] = shaped[row].get(term.name, 0.0) + value
    for move, added in zip(made, shaped, strict=True):
        judgement = judgements.get(move.match.id)
        scores = {} if judgement is None else judgement.utilities(move.turn.seat)
        if utility not in scores:
            dropped["unjudged"] += 1
            continue
        share = share_of_outcome(later[move.match.id, move.place])
        parts = {utility: share * scores[utility], **added}
        paid.append(episode(move, learner, game.role(move.turn.seat), parts))
        sources.append(prompts[move.match.prompt].source)
        utilities.append(scores)
    if not paid and dropped["unjudged"]:
        check_utility(utility, judgements.values())
    if normalise is not None:
        paid = normalise.apply(paid, sources, utilities)
    return paid, {reason: count for reason, count in dropped.items() if count}


def _later(moves: Sequence[MoveMade]) -> dict[tuple[str, int], int]:
    """(match, place of a move) -> the number of moves of its seat that follow it."""
    count: Counter[tuple[str, str]] = Counter()
    later = {}
    for match, place, turn in reversed(moves):
        later[match.id, place] = count[match.id, turn.seat]
        count[match.id, turn.seat] += 1
    return later


def episode(move: MoveMade, learner: PlayerId, role: str, parts: dict[str, float]) -> Episode:
    match, place, turn = move
    chat = [(message.role, message.content) for message in turn.view.messages]
    return Episode(
        id=record_id("episode", match.id, place, learner),
        generation=match.generation,
        match=match.id,
        turn=place,
        role=role,
        group=record_id(role, *chat),
        reward=sum(parts.values()),
        parts=parts,
    )


def _values(
    term: Term, moves: Sequence[MoveMade], prompts: Mapping[str, Prompt], raw_moves: bool
) -> list[float]:
    """The term's addition to each move. Raises EquipoiseError unless it is a finite number each."""
    texts = [move.turn.move.text if raw_moves else answer_of(move.turn.move).text for move in moves]
    chats = [prompts[move.match.prompt].messages for move in moves]
    seeds = [messages[-1].content if messages else "" for messages in chats]
    values = term.values(texts, seeds)
    if len(values) != len(texts):
        raise EquipoiseError(
            f"shaping '{term.name}' gave {len(values)} numbers for {len(texts)} texts"
        )
    for text, value in zip(texts, values, strict=True):
        if not (isinstance(value, Real) and isfinite(value)):
            raise EquipoiseError(
                f"shaping '{term.name}' gave {value!r}, no finite number, for {text[:80]!r}"
            )
    return [float(value) for value in values]
