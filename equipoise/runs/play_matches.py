"""The stage that plays: matches in fixed chunks, so that a resumed run has the same records."""

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TypeVar, overload

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.games.base import Game
from equipoise.ledger.recorded_matches import RecordedMatches
from equipoise.matches.base import Planned, Seatings
from equipoise.matches.match_play import Batch
from equipoise.matches.match_play import play as play_together
from equipoise.players.base import EngineSampled
from equipoise.players.local import Local
from equipoise.players.together import MoveRequest
from equipoise.runs.contexts import match_context
from equipoise.runs.monitor import within
from equipoise.runs.open_run import OpenRun
from equipoise.runs.prompt_splits import MADE
from equipoise.types import Match, Move, Prompt, record_id

T = TypeVar("T")
AHEAD = 4  # batches of answers that are measured between two commits


def play(run: OpenRun, prompts: Sequence[Prompt], t: int) -> Sequence[Match]:
    """Play the scheduled matches of generation t; none where its pairs are the data's."""
    if not run.config.plays(t):
        return []
    run.live.begin(run.roster.learners(t))
    seatings = run.config.schedule.seatings(prompts, match_context(run, t))
    dealt = {prompt.id for prompt in prompts}
    made = [prompt for prompt, _ in seatings if prompt.id not in dealt]
    run.ledger.add_prompts(made, MADE, t)
    return record_matches(run, f"{t}/play", seatings, t, "train")


def record_matches(
    run: OpenRun,
    key: str,
    seatings: Seatings,
    t: int,
    part: str,
    player: str = "",
    temperature: float | None = None,
) -> Sequence[Match]:
    """All matches of the stage `key`, in order, played if not recorded yet.

    They are read from the ledger when they are asked for, a part at a time: a generation of many
    prompts is not held in memory, neither while it is played nor later.

    `player`: the name of the only player in all the seats, if there is only one; `temperature`: of
    all players' sampling, None for their own.
    """
    planned = PlannedMatches(run.config.seed, seatings, t, part, temperature)
    played = RecordedMatches(run.ledger, [plan.id for plan in planned])
    if not run.ledger.has_finished(key):
        title = "play" if part == "train" else f"play {part.replace('_', '-')}"
        run.show(title, len(planned), t, player)
        engines: dict[str, EngineSampled] = {}
        act = partial(request_moves, run, engines=engines, temperature=temperature)
        with run.stage("play", key, t) as facts:
            for chunk in unplayed_chunks(run, planned):
                with within(run.monitor, len(chunk), moves_of(run.config.game, chunk)):
                    made = play_together(chunk, run.config.game, None, act)
                run.ledger.add_matches(made)
            facts.update(matches=len(planned))
            if not run.config.game.raw_moves and (thoughts := count_thoughts(played)):
                facts["thoughts"] = thoughts
            if engines:
                answered_by = {name: engine.sampler_facts() for name, engine in engines.items()}
                facts["samplers"] = answered_by
                for name, sampler in answered_by.items():
                    others = sampler.get("not_told_from")
                    if others:
                        message = f"{name} could not be told from {', '.join(others)}"
                        run.monitor.numbers(below_precision=message)
    return played


def count_thoughts(matches: Iterable[Match]) -> dict[str, dict[str, int]]:
    """Player's name -> its moves, those with thoughts, and those that are nothing else; only of
    players that think.
    """
    counts: dict[str, dict[str, int]] = {}
    for match in matches:
        for turn in match.turns:
            name = match.seats[turn.seat].name
            count = counts.setdefault(name, {"moves": 0, "thought": 0, "unfinished": 0})
            answer = answer_of(turn.move)
            count["moves"] += 1
            count["thought"] += bool(answer.thoughts)
            count["unfinished"] += answer.unfinished
    return {
        name: count for name, count in counts.items() if count["thought"] or count["unfinished"]
    }


class PlannedMatches(Sequence[Planned]):
    """The matches of a stage, each made of its seating when it is asked for."""

    def __init__(
        self, seed: int, seatings: Seatings, t: int, part: str, temperature: float | None = None
    ) -> None:
        self._seed = seed
        self._seatings = seatings
        self._t = t
        self._part = part
        self._cooled = () if temperature is None else (temperature,)

    def __len__(self) -> int:
        return len(self._seatings)

    @overload
    def __getitem__(self, index: int) -> Planned: ...
    @overload
    def __getitem__(self, index: slice) -> list[Planned]: ...
    def __getitem__(self, index: int | slice) -> Planned | list[Planned]:
        places = range(len(self))[index]
        if isinstance(places, range):
            return [self[place] for place in places]
        prompt, seats = self._seatings[places]
        seating = ",".join(f"{seat}={player}" for seat, player in seats.items())
        identity = record_id(
            "match", self._seed, self._part, self._t, places, prompt.id, seating, *self._cooled
        )
        dice = seeds.child(self._seed, "match", identity)
        return Planned(identity, self._t, self._part, prompt, seats, dice)


def unplayed_chunks(run: OpenRun, planned: Sequence[Planned]) -> Iterator[Sequence[Planned]]:
    """The whole chunks of matches in which one is not recorded yet, in order.

    Matches of fewer seats than the game has, as in evaluations, are more to a chunk: as many
    answers grow together. What is measured, of which every answer may have another length, comes in
    `AHEAD` batches of its local player: those that wait take the places of answers that have ended.
    """
    seats = 1
    measured = False
    names: set[str] = set()
    for plan in planned:
        seats = max(seats, len(plan.seats))
        if plan.split != "train":
            measured = True
            names.update(player.name for player in plan.seats.values())
    answers = answers_at_once(run)
    if measured:
        players = [run.config.players.get(name) for name in names]
        batches = [player.batch_size for player in players if isinstance(player, Local)]
        answers = max(answers, AHEAD * max(batches, default=0))
    size = max(run.config.commit_every, answers // max(1, seats))
    for chunk in chunks(planned, size):
        ids = {plan.id for plan in chunk}
        if len(run.ledger.recorded_ids("matches", ids)) < len(ids):
            yield chunk
        run.monitor.advance(len(chunk))


def answers_at_once(run: OpenRun) -> int:
    """The answers of `commit_every` matches in which all seats are taken."""
    return run.config.commit_every * len(run.config.game.seats)


def moves_of(game: Game, planned: Sequence[Planned]) -> int:
    """The most moves in these matches."""
    return sum(sum(game.moves(plan.prompt).values()) for plan in planned)


def request_moves(
    run: OpenRun,
    batches: Sequence[Batch],
    engines: dict[str, EngineSampled],
    temperature: float | None = None,
) -> list[list[Move]]:
    """The moves of several players at once; `engines` notes those that are sampled elsewhere."""
    requests = []
    for player, views, dice in batches:
        actor = run.population.actor_with(player, temperature, whole_context=False)
        if isinstance(actor, EngineSampled):
            engines[str(player)] = actor
        requests.append(MoveRequest(actor, views, dice))
    started = time.perf_counter()
    moves = run.dispatcher.act(requests)
    tokens = sum(move.tokens for batch in moves for move in batch)
    if tokens:
        run.monitor.numbers(tokens_per_second=tokens / (time.perf_counter() - started))
    return moves


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The values in order, `size` at a time."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
