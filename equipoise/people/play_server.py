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
from equipoise.ledger.votes_and_matches import PEOPLE, PlayedMatch, check_name, played_matches
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
        dealt = starting_prompts(run, prompt)
        fitting = [each for each in dealt if seat in game.seats_for(each)]
        self._prompts = fitting or dealt
        self._mixture = weights_of_mixture(run)
        self._against = tuple(against)
        self._journal = played_matches(run.folder)
        self._recorded = {played.match.id for played in self._journal.read()}
        example = self._prompts[0]
        faults = list(game.faults([example]))
        if faults:
            raise ConfigError(f"{faults[0]}; --prompt gives another")
        seats = list(game.seats_for(example))
        if seat not in seats:
            hint = nearest(seat, seats)
            raise ConfigError(f"--seat {seat}: '{game.kind}' has no such seat; {hint}")
        for each in against:  # what cannot be seated is refused now
            name = each.rpartition("=")[2]
            self.find_player(name, 0)
        self.opponents(example, 0)

    def open_match(self, name: str, match: str = "", moves: Sequence[str] = ()) -> HumanMatch:
        """A new match for a person, or `match`, in which they made these moves.

        Raises DataError for a name that cannot be one, RunError where a player's weights are gone.
        """
        human = PlayerId(check_name(name))
        if human.name in self._config.players:
            raise DataError(f"'{human.name}' is a player of the run; take another name")
        identity = match or record_id(PEOPLE, human, secrets.token_hex(16))
        dice = seeds.child(self._config.seed, "match", identity)
        drawn = seeds.child(dice, "prompt") % len(self._prompts)
        prompt = self._prompts[drawn]
        seated = self.opponents(prompt, dice)
        seated[self.seat] = human
        ordered = {seat: seated[seat] for seat in self.game.seats_for(prompt)}
        plan = Planned(identity, 0, PEOPLE, prompt, ordered, dice)

        def act(player: PlayerId, views: Sequence[View], dice: Sequence[int]) -> list[Move]:
            return self._population.actor(player).act(views, dice)

        return HumanMatch(plan, self.game, human, act, moves)

    def record(self, human_match: HumanMatch) -> PlayedMatch:
        """Judge a match that is over, where a rule can, and keep it; once."""
        match = human_match.result()
        prompt = human_match.plan.prompt
        now = datetime.datetime.now(datetime.UTC)
        moment = now.isoformat(timespec="seconds")
        judgement = self.judge_match(match, prompt)
        played = PlayedMatch(match, prompt, judgement, moment)
        if match.id not in self._recorded:
            self._journal.add(played)
            self._recorded.add(match.id)
        return played

    def judge_match(self, match: Match, prompt: Prompt) -> Judgement | None:
        """The judgement of the match; None where no judge of this game is there."""
        if self._judge is None:
            return None
        context = JudgeContext(
            game=self.game,
            seed=seeds.child(self._config.seed, PEOPLE),
            pool=[PlayerId(name) for name in self._config.players],
            ratings={},
            resources=self._population.resources,
            actor=self._population.actor,
        )
        judge = self._judge.at(context)
        try:
            (judgement,) = judge.checked_judgements([match], {prompt.id: prompt})
        except EquipoiseError as error:  # a match that was played is kept, unjudged
            return self._judge.judgement(match, None, str(error))
        return judgement

    def opponents(self, prompt: Prompt, dice: int) -> dict[str, PlayerId]:
        """Seat -> the player there, of all seats but the person's. Raises ConfigError."""
        others = [seat for seat in self.game.seats_for(prompt) if seat != self.seat]
        by_seat: dict[str, str] = {}
        anywhere = ""
        for each in self._against:
            place, is_named, name = each.partition("=")
            if is_named:
                by_seat[place] = name
            else:
                anywhere = each
        roles = {seat: self.game.role(seat) for seat in others}
        unknown = by_seat.keys() - roles.keys() - set(roles.values())
        if unknown:
            raise ConfigError(
                f"--against: '{self.game.kind}' has nobody else at "
                f"{', '.join(sorted(unknown))}; {nearest(min(unknown), others)}"
            )
        of_schedule: Mapping[str, str] = {}
        if self.game == self._config.game:
            of_schedule = self._config.schedule.player_of_role
        seated = {}
        for seat, role in roles.items():
            name = by_seat.get(seat) or by_seat.get(role) or anywhere or of_schedule.get(role, "")
            seated[seat] = self.find_player(name, dice)
        return seated

    def find_player(self, name: str, dice: int) -> PlayerId:
        """The player `policy@3`, `policy` (newest), `mixture` (drawn), "" (first learner)."""
        players = self._config.players
        if name == MIXTURE and MIXTURE not in players:
            if not self._mixture:
                raise ConfigError("--against mixture: the run has measured none of a league")
            names = list(self._mixture)
            weights = list(self._mixture.values())
            drawn = seeds.generator(dice, MIXTURE).choice(len(names), p=weights)
            return PlayerId.parse(names[drawn])
        if not name:
            name = next(iter([*self._config.learning, *players]))
        stem, at, age = name.partition("@")
        if stem not in players:
            hint = nearest(stem, list(players))
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
        judge = judge or own_judge(config, chosen)
        try:
            yield PlayServer(run, population, chosen, seat, against, prompt, judge)
        finally:
            population.release()


def own_judge(config: RunConfig, game: Game) -> Judge | None:
    """The run's judge, where it judges this game and asks no model."""
    if game != config.game:
        return None
    names = [*config.learning, *config.players]
    judge = config.judge_of(names[0])
    questions = judge.questions(len(game.seats), len(config.players))
    if questions or judge.in_units:
        return None
    return judge


def starting_prompts(run: RunDirectory, text: str) -> list[Prompt]:
    """The prompts that matches start from: the text, or the run's that nobody is taught."""
    if text:
        return [Prompt(record_id(PEOPLE, text), (user(text),), source=PEOPLE)]
    for part in ("held_out", "test", "train"):
        prompts = run.ledger.prompts(part)
        if prompts:
            return prompts
    raise RunError(f"{run.folder}: has no prompts yet; --prompt gives one")


def weights_of_mixture(run: RunDirectory) -> dict[str, float]:
    """player -> its weight in the run's last equilibrium, summing to 1."""
    measured = run.ledger.stages("measure")
    if not measured:
        return {}
    weights = Measures.read(measured[-1].facts).mixture
    held = {name: weight for name, weight in weights.items() if weight > 0}
    total = sum(held.values())
    return {name: weight / total for name, weight in held.items()}


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
        self.go_on()
        for text in moves:
            self.move(text)

    @property
    def view(self) -> View | None:
        """The view that the person is asked to answer, None at the end."""
        place = self.waiting_place()
        if place is None:
            return None
        return self._match.asks[place].view

    def move(self, text: str) -> None:
        """Make the person's move, then the players', until the person is asked again.

        Raises DataError for an empty, overlong or impossible move, and after the end.
        """
        place = self.waiting_place()
        if place is None:
            raise DataError("the match is over")
        if not text.strip():
            raise DataError("a move has at least one character")
        if len(text) > LONGEST_MOVE:
            raise DataError(f"a move has at most {LONGEST_MOVE} characters")
        actions = self._match.asks[place].view.actions
        if actions:
            text = matching_action(text, actions)
        self._match.moves[place] = Move(text)
        self.moves.append(text)
        self.go_on()

    def result(self) -> Match:
        """The match as it was played. Raises DataError before its end."""
        if self._match.asks:
            raise DataError("the match is not over yet")
        return self._match.result(self._game.kind)

    def waiting_place(self) -> int | None:
        """The place of the ask that the person has not answered."""
        for place, ask in enumerate(self._match.asks):
            seated = self.plan.seats[ask.seat]
            if seated == self.human and self._match.moves[place] is None:
                return place
        return None

    def go_on(self) -> None:
        """Have the players move until the person is asked, or the match is over."""
        match = self._match
        while match.asks:
            places_of: dict[PlayerId, list[int]] = {}
            for place, ask in enumerate(match.asks):
                player = self.plan.seats[ask.seat]
                if player != self.human and match.moves[place] is None:
                    places_of.setdefault(player, []).append(place)
            for player, places in places_of.items():
                views = [match.asks[place].view for place in places]
                dice = [match.seed(place) for place in places]
                moves = self._act(player, views, dice)
                for place, move in zip(places, moves, strict=True):
                    match.moves[place] = move
            if self.waiting_place() is not None:
                return
            match.advance()


def matching_action(text: str, actions: Sequence[str]) -> str:
    """The action that is meant; its case does not matter. Raises DataError for none."""
    for action in actions:
        if action.casefold() == text.strip().casefold():
            return action
    raise DataError(f"'{text[:60]}' is none of {', '.join(actions)}")
