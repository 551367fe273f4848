"""Pages for people: `equipoise play RUN`, a seat against the run's players; `vote RUN`, answers to
compare.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equipoise.answer import public_move
from equipoise.system.command_options import (
    Access,
    Json,
    RunFolder,
    Trust,
    announce_page,
    say,
    serves,
    show,
)

if TYPE_CHECKING:
    from equipoise.ledger.votes_and_matches import PlayedMatch
    from equipoise.people.play_server import HumanMatch, PlayServer
    from equipoise.types import Message

LEAVE = "/quit"


GameOption = Annotated[
    str,
    typer.Option(
        help="a kind of game, a YAML file, or YAML: {kind: open_spiel, name: …}",
        show_default="the run's",
    ),
]
Seat = Annotated[str, typer.Option(help="the seat you take", show_default="the first")]
Against = Annotated[
    list[str],
    typer.Option(
        metavar="[SEAT=]PLAYER",
        help="who sits elsewhere: policy@3, policy (its newest) or mixture; for one "
        "seat or role only with SEAT=",
        show_default="as the run's schedule seats them, else the newest learner",
    ),
]
PromptText = Annotated[
    str, typer.Option(help="what the match starts from", show_default="one of the run's")
]
JudgeOption = Annotated[
    str,
    typer.Option(
        help="the judge of the match: a kind of judge, or YAML",
        show_default="the run's judge, where it asks no model",
    ),
]
Name = Annotated[str, typer.Option(help="your name in the records")]
Page = Annotated[bool, typer.Option("--page", help="serve a page to play on instead")]


@serves(port=8011)
def play(
    folder: RunFolder,
    game: GameOption = "",
    seat: Seat = "",
    against: Against = [],  # noqa: B006
    prompt: PromptText = "",
    judge: JudgeOption = "",
    name: Name = "guest",
    page: Page = False,
    access: Access = Access(),  # noqa: B008
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Play a game against a run's players yourself.

    In the terminal, or with --page on a page. A match that is played to its end is recorded under
    your name.
    """
    from equipoise.api.handle import ask_for_trust
    from equipoise.serve import play_page
    from equipoise.serve.server import choose_token

    options: dict[str, Any] = {
        "seat": seat,
        "game": game or None,
        "against": against,
        "prompt": prompt,
        "judge": judge or None,
        "trust": ask_for_trust(folder, trust),
    }
    if page:
        play_page.play(
            folder,
            **options,
            host=access.host,
            port=access.port,
            token=choose_token(access.token_env, access.no_token, access.host),
            announce=lambda address: announce_page(address, access.token_env, json),
        )
        return
    with play_page.play_server(folder, **options) as play_server:
        play_at_terminal(play_server, name, json)


def play_at_terminal(play_server: PlayServer, name: str, json: bool) -> None:
    """Play one match, a move at a time."""
    sitting = play_server.open_match(name)
    warning = play_server.game.content_warning(sitting.plan.prompt)
    if warning:
        say(f"warning: {warning}", err=True)
    seen: tuple[Message, ...] = ()
    while (view := sitting.view) is not None:
        _print(unseen_messages(seen, view.messages), json)
        seen = view.messages
        if not take_move(sitting, view.actions):
            say("left; the match is not recorded", err=True)
            return
    print_result(play_server.record(sitting), json)


def unseen_messages(seen: tuple[Message, ...], messages: tuple[Message, ...]) -> Sequence[Message]:
    """The others' messages since the chat was shown; all of them where it is another chat."""
    if not seen or messages[: len(seen)] != seen:
        return messages
    return [each for each in messages[len(seen) :] if each.role != "assistant"]


def _print(messages: Sequence[Message], json: bool) -> None:
    from equipoise.errors import clean

    for message in messages:
        say(f"[{message.role}] {clean(message.content)}", err=json)


def take_move(sitting: HumanMatch, actions: Sequence[str]) -> bool:
    """Ask for a move until one is possible, and make it."""
    from equipoise.errors import DataError

    hint = f"your move ({', '.join(actions)})" if actions else "your move"
    while True:
        say(f"{hint}, or {LEAVE}: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line or line.strip() == LEAVE:
            return False
        try:
            sitting.move(line.rstrip("\n"))
        except DataError as error:
            say(str(error), err=True)
            continue
        return True


def print_result(played: PlayedMatch, json: bool) -> None:
    """Print how the match ended."""
    from equipoise.errors import clean

    match, judgement = played.match, played.judgement
    scores = {} if judgement is None else judgement.scores
    reason = "" if judgement is None else judgement.reason
    if json:
        seats = {seat: str(player) for seat, player in match.seats.items()}
        moves = [{"seat": turn.seat, "text": turn.move.text} for turn in match.turns]
        show(
            {"match": match.id, "seats": seats, "moves": moves, "scores": scores, "reason": reason}
        )
        return
    say("the match is over:")
    for turn in match.turns:
        player = match.seats[turn.seat]
        move = public_move(turn.move)
        text = clean(move.text or move.error)
        say(f"{turn.seat} ({player}): {text}")
    for seat, values in (scores or {}).items():
        listed = ", ".join(f"{name} {value:g}" for name, value in values.items())
        say(f"{seat}: {listed}")
    if reason:
        say(f"not judged: {reason}")


@serves(port=8010)
def vote(
    folder: RunFolder,
    part: Annotated[
        Literal["held_out", "train", "test"] | None,
        typer.Option(
            help="the part of the run whose answers are shown",
            show_default="the first part with two answers to choose from",
        ),
    ] = None,
    overlap: Annotated[
        float,
        typer.Option(
            min=0, max=1, help="share of questions that somebody else has decided already"
        ),
    ] = 0.1,
    access: Access = Access(),  # noqa: B008
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Let people vote on answers of a run's players.

    A page shows two answers to a prompt, blind and in random order. Votes are kept as judgements by
    `human`; `equipoise rate RUN --judge human` ranks the players by them.
    """
    from equipoise.serve import vote_page
    from equipoise.serve.server import choose_token

    vote_page.vote(
        folder,
        part=part or "",
        overlap=overlap,
        host=access.host,
        port=access.port,
        token=choose_token(access.token_env, access.no_token, access.host),
        trust=trust,
        announce=lambda address: announce_page(address, access.token_env, json),
    )
