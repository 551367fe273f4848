"""A person takes a seat in a game, against players of a run."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from equipoise import seeds
from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError, EquipoiseError, RunError
from equipoise.evaluation.measures import Measures
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.ledger.journal import PEOPLE, PlayedMatch, check_name, played_matches
from equipoise.matches.base import Planned
from equipoise.matches.match_play import Act, OpenMatch
from equipoise.players.population import Population
from equipoise.runs.config import RunConfig
from equipoise.runs.directory import Announce, RunDirectory
from equipoise.system.locks import check_writable
from equipoise.types import Judgement, Match, Move, PlayerId, Prompt, View, record_id, user

MIXTURE = "mixture"
Opponents = Mapping[str, PlayerId]  # seat -> who sits there


class PlayServer:
    """Opens matches of one game between a person and players of a run; see `open_play_server`.

    A match is a function of its id and the person's moves, so one that was cut off can go on.
    """

    def __init__(
        self,
        run: RunDirectory,
        population: Population,
        game: Game,
        seat: str,
        against: Sequence[str] = (),
        prompt: str = "",
        judge: Judge | None = None,
    ) -> None:
        """Arguments as of `open_play_server`; the run stays open."""
        self.folder = run.folder
        self.game = game
        self.seat = seat
        self._config = run.config
        self._population = population
        self._judge = judge
        dealt = _prompts(run, prompt)
        self._prompts = [each for each in dealt if seat in game.seats_for(each)] or dealt
        self._mixture = _mixture(run)
        self._against = tuple(against)
        self._journal = played_matches(run.folder)
        self._recorded = {played.match.id for played in self._journal.read()}
        example = self._prompts[0]
        if fault := next(iter(game.faults([example])), ""):
            raise ConfigError(f"{fault}; --prompt gives another")
        if seat not in game.seats_for(example):
            hint = nearest(seat, list(game.seats_for(example)))
            raise ConfigError(f"--seat {seat}: '{game.kind}' has no such seat; {hint}")
        for each in against:  # what cannot be seated is refused now
            self._player(each.rpartition("=")[2], 0)
        self._opponents(example, 0)

    def open_match(self, name: str, match: str = "", moves: Sequence[str] = ()) -> HumanMatch:
        """A new match for a person, or `match`, in which they made these moves.

        Raises DataError for a name that cannot be one, RunError where a player's weights are gone.
        """
        human = PlayerId(check_name(name))
        if human.name in self._config.players:
            raise DataError(f"'{human.name}' is a player of the run; take another name")
        identity = match or record_id(PEOPLE, human, secrets.token_hex(16))
        dice = seeds.child(self._config.seed, "match", identity)
        prompt = self._prompts[seeds.child(dice, "prompt") % len(self._prompts)]
        seats = {**self._opponents(prompt, dice), self.seat: human}
        ordered = {seat: seats[seat] for seat in self.game.seats_for(prompt)}
        plan = Planned(identity, 0, PEOPLE, prompt, ordered, dice)
        actor = self._population.actor
        return HumanMatch(plan, self.game, human, lambda p, v, s: actor(p).act(v, s), moves)

    def record(self, human_match: HumanMatch) -> PlayedMatch:
        """Judge a match that is over, where a rule can, and keep it; once."""
        match = human_match.result()
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        judgement = self._judge_match(match, human_match.plan.prompt)
        played = PlayedMatch(match, human_match.plan.prompt, judgement, now)
        if match.id not in self._recorded:
            self._journal.add(played)
            self._recorded.add(match.id)
        return played

    def _judge_match(self, match: Match, prompt: Prompt) -> Judgement | None:
        """The judgement of the match; None where no judge of this game is there."""
        if self._judge is None:
            return None
        context = JudgeContext(
            self.game,
            seeds.child(self._config.seed, PEOPLE),
            [PlayerId(name) for name in self._config.players],
            {},
            self._population.resources,
            self._population.actor,
        )
        try:
            [judgement] = self._judge.at(context).checked_judgements([match], {prompt.id: prompt})
        except EquipoiseError as error:  # a match that was played is kept, unjudged
            return self._judge.judgement(match, None, str(error))
        return judgement

    def _opponents(self, prompt: Prompt, dice: int) -> dict[str, PlayerId]:
        others = [seat for seat in self.game.seats_for(prompt) if seat != self.seat]
        given = dict(each.split("=", 1) for each in self._against if "=" in each)
        every = [each for each in self._against if "=" not in each]
        if unknown := given.keys() - {*others, *map(self.game.role, others)}:
            raise ConfigError(
                f"--against: '{self.game.kind}' has nobody else at "
                f"{', '.join(sorted(unknown))}; {nearest(min(unknown), others)}"
            )
        by_role = self._by_role()
        seated = {}
        for seat in others:
            role = self.game.role(seat)
            name = given.get(seat) or given.get(role) or (every[-1] if every else "")
            seated[seat] = self._player(name or by_role.get(role, ""), dice)
        return seated

    def _by_role(self) -> Mapping[str, str]:
        """role -> the player whom the run's schedule seats there, in the run's own game."""
        same = self.game == self._config.game
        return self._config.schedule.player_of_role if same else {}

    def _player(self, name: str, dice: int) -> PlayerId:
        """The player `policy@3`, `policy` (newest), `mixture` (drawn), "" (first learner)."""
        if name == MIXTURE and MIXTURE not in self._config.players:
            if not self._mixture:
                raise ConfigError("--against mixture: the run has measured none of a league")
            names = list(self._mixture)
            weights = [self._mixture[each] for each in names]
            drawn = seeds.generator(dice, MIXTURE).choice(len(names), p=weights)
            return PlayerId.parse(names[drawn])
        known = [*self._config.learning, *self._config.players]
        name = name or known[0]
        stem, at, age = name.partition("@")
        if stem not in self._config.players:
            hint = nearest(stem, list(self._config.players))
            raise ConfigError(f"--against {name}: the run has no such player; {hint}")
        kept = self._population.kept(stem)
        if not at:
            return PlayerId(stem, kept[-1])
        if not age.isdecimal() or int(age) not in kept:
            there = ", ".join(map(str, kept))
            raise ConfigError(f"--against {name}: of {stem} the generations {there} are kept")
        return PlayerId(stem, int(age))


@contextmanager
def open_play_server(
    folder: Path,
    seat: str = "",
    game: Game | None = None,
    against: Sequence[str] = (),
    prompt: str = "",
    judge: Judge | None = None,
    trust: bool = False,
    announce: Announce = lambda notes: None,
) -> Iterator[PlayServer]:
    """A place where people play against players of the run in `folder`.

    Args: seat: the person's, "" for the first; game: None: the run's; against: who sits in the
    other seats, one player for all of them or `SEAT=PLAYER` for a seat or role (`policy@3`,
    `policy`, `mixture`), none: whom the run's schedule seats there, else the newest of the first
    learner; prompt: what every match starts from, "" for the run's own; judge: None: the run's
    judge in its own game; announce: gets what the user should know before the run's own parts are
    imported.

    Raises RunError where there is no run or nothing can be written, and for somebody else's run
    that reaches for something, without `trust`; ConfigError for a seat, player or prompt that does
    not fit.
    """
    with RunDirectory.read(folder, trust) as run:
        run.agree(trust, announce)
        config = run.config
        chosen = game or config.game
        chosen.check()
        if not seat:
            seat = chosen.seats[0]
        check_writable(folder)
        population = Population(run.players_anywhere(), run.folder / "players")
        judge = judge or _own_judge(config, chosen)
        try:
            yield PlayServer(run, population, chosen, seat, against, prompt, judge)
        finally:
            population.release()


def _own_judge(config: RunConfig, game: Game) -> Judge | None:
    """The run's judge, where it judges this game and asks no model."""
    names = config.learning or list(config.players)
    judge = config.judge_of(names[0])
    asks = judge.questions(len(game.seats), len(config.players)) or judge.in_units
    return None if asks or game != config.game else judge


def _prompts(run: RunDirectory, text: str) -> list[Prompt]:
    """The prompts that matches start from: the text, or the run's that nobody is taught."""
    if text:
        return [Prompt(record_id(PEOPLE, text), (user(text),), source=PEOPLE)]
    for part in ("held_out", "test", "train"):
        prompts = run.ledger.prompts(part)
        if prompts:
            return prompts
    raise RunError(f"{run.folder}: has no prompts yet; --prompt gives one")


def _mixture(run: RunDirectory) -> dict[str, float]:
    """player -> its weight in the run's last equilibrium, summing to 1."""
    measured = run.ledger.stages("measure")
    if not measured:
        return {}
    weights = Measures.read(measured[-1].facts).mixture
    held = {name: weight for name, weight in weights.items() if weight > 0}
    return {name: weight / sum(held.values()) for name, weight in held.items()}


LONGEST_MOVE = 20_000  # characters


class HumanMatch:
    """A match in which a person plays; `view` is the person's, None at the end."""

    def __init__(
        self, plan: Planned, game: Game, human: PlayerId, act: Act, moves: Sequence[str] = ()
    ) -> None:
        """`moves` are those made already. Raises DataError for impossible ones."""
        self.plan = plan
        self.human = human
        self.moves: list[str] = []
        self._game = game
        self._act = act
        self._match = OpenMatch(plan, game.referee(plan.prompt), game.raw_moves)
        self._go_on()
        for text in moves:
            self.move(text)

    @property
    def view(self) -> View | None:
        """The view that the person is asked to answer, None at the end."""
        place = self._waiting()
        return None if place is None else self._match.asks[place].view

    def move(self, text: str) -> None:
        """Make the person's move, then the players', until the person is asked again.

        Raises DataError for an empty, overlong or impossible move, and after the end.
        """
        place = self._waiting()
        if place is None:
            raise DataError("the match is over")
        if not text.strip():
            raise DataError("a move has at least one character")
        if len(text) > LONGEST_MOVE:
            raise DataError(f"a move has at most {LONGEST_MOVE} characters")
        actions = self._match.asks[place].view.actions
        if actions:
            text = _matching_action(text, actions)
        self._match.moves[place] = Move(text)
        self.moves.append(text)
        self._go_on()

    def result(self) -> Match:
        """The match as it was played. Raises DataError before its end."""
        if self._match.asks:
            raise DataError("the match is not over yet")
        return self._match.result(self._game.kind)

    def _waiting(self) -> int | None:
        """The place of the ask that the person has not answered."""
        for place, ask in enumerate(self._match.asks):
            seated = self.plan.seats[ask.seat]
            if seated == self.human and self._match.moves[place] is None:
                return place
        return None

    def _go_on(self) -> None:
        while self._match.asks:
            self._play()
            if self._waiting() is not None:
                return
            self._match.advance()

    def _play(self) -> None:
        match = self._match
        by_player: dict[PlayerId, list[int]] = {}
        for place, ask in enumerate(match.asks):
            player = self.plan.seats[ask.seat]
            if player != self.human and match.moves[place] is None:
                by_player.setdefault(player, []).append(place)
        for player, places in by_player.items():
            views = [match.asks[place].view for place in places]
            dice = [match.seed(place) for place in places]
            for place, move in zip(places, self._act(player, views, dice), strict=True):
                match.moves[place] = move


def _matching_action(text: str, actions: Sequence[str]) -> str:
    """The action that is meant; its case does not matter. Raises DataError for none."""
    for action in actions:
        if action.casefold() == text.strip().casefold():
            return action
    raise DataError(f"'{text[:60]}' is none of {', '.join(actions)}")
