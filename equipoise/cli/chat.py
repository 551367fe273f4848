"""`equipoise chat`: a conversation in the terminal with what `equipoise serve` would
serve.
"""

from __future__ import annotations

import asyncio
import json as js
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli.options import (
    Adapter,
    Model,
    Served,
    Set,
    Steered,
    Upstream,
    UpstreamKey,
    UpstreamModel,
)

if TYPE_CHECKING:
    from equipoise.serve.conversation import Conversation, Exchange

HELP = "/steer NAME  /blocks  /reset  /quit; Ctrl-C stops an answer, Ctrl-D ends"


class Terminal:
    """Reads questions and commands, has them answered, and prints what comes."""

    def __init__(
        self,
        conversation: Conversation,
        runner: asyncio.Runner,
        *,
        json: bool,
        blocks: bool,
    ) -> None:
        """`runner` has the event loop that the engine lives in."""
        self._conversation, self._runner, self._json, self._blocks = (
            conversation,
            runner,
            json,
            blocks,
        )
        self._live = sys.stdin.isatty() and not json
        self.failed = 0  # questions and commands

    def talk(self) -> None:
        """Until /quit or the end of the input."""
        if self._live:
            self._note(HELP)
        for line in self._lines():
            if line == "/quit":
                return
            if line.startswith("/"):
                self._command(line)
            elif line:
                self._answer(line)

    def _lines(self) -> Iterator[str]:
        if not self._live:
            yield from (line.strip() for line in sys.stdin)
            return
        import readline  # noqa: F401  so that lines can be edited and called back

        while True:
            try:
                line = input("you> ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print()
                self._note(HELP)
                continue
            yield line.strip()

    def _command(self, line: str) -> None:
        from equipoise.serve.engine import Refused

        name, _, what = line.partition(" ")
        what = what.strip()
        match name:
            case "/steer" if what:
                try:
                    self._conversation.steer(what)
                    self._note(f"steering: {what}")
                except Refused as error:
                    self._fail(str(error))
            case "/steer":
                now = self._conversation.steering
                self._note(
                    f"steering: {now.mode if now.mode in ('strip', 'off') else now.pricing.kind}"
                )
            case "/blocks":
                self._blocks = not self._blocks
                self._note(
                    f"hidden blocks are {'shown' if self._blocks else 'not shown'}"
                )
            case "/reset":
                self._conversation.reset()
                self._note("forgotten")
            case "/help":
                self._note(HELP)
            case _:
                self._fail(f"no command {name}; {HELP}")

    def _answer(self, question: str) -> None:
        try:
            found = self._runner.run(self._conversation.ask(question, self._show))
        except KeyboardInterrupt:
            if not self._live:
                raise
            print()
            self._note("stopped")
            return
        if self._json:
            facts = found.facts()
            print(
                js.dumps(
                    facts if self._blocks else {**facts, "hidden": {}},
                    ensure_ascii=False,
                ),
                flush=True,
            )
        elif found.answer:
            print(flush=True)
        if found.error:
            self.failed += 1
            if not self._json:
                typer.echo(f"error: {found.error}", err=True)
        elif self._blocks and not self._json:
            self._hidden(found)
        if found.finish == "length" and not self._json:
            self._note("cut: --max-tokens, which hidden blocks count towards")

    def _show(self, text: str) -> None:
        if not self._json:
            print(text, end="", flush=True)

    def _hidden(self, found: Exchange) -> None:
        for name, value in found.hidden.items():
            if value not in (None, []):
                self._note(
                    f"{name}: {js.dumps(value) if isinstance(value, dict | list) else value}"
                )

    def _note(self, text: str) -> None:
        """Beside the conversation: where answers alone are wanted, it does not stand
        among them.
        """
        from rich.console import Console
        from rich.text import Text

        Console(stderr=not self._live).print(Text(text, "dim"), soft_wrap=True)

    def _fail(self, text: str) -> None:
        self.failed += 1
        typer.echo(f"error: {text}", err=True)


def chat(
    folder: Served = None,
    player: Annotated[
        str,
        typer.Option(
            help="who answers, as the server names it: policy@3, mixture [newest]"
        ),
    ] = "",
    model: Model = "",
    adapter: Adapter = "",
    upstream: Upstream = "",
    upstream_model: UpstreamModel = "",
    upstream_key_env: UpstreamKey = "",
    set: Set = [],  # noqa: B006
    steering: Steered = "",
    steer: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="a pricing, strip or off, as /steer takes it"
        ),
    ] = "",
    blocks: Annotated[
        bool, typer.Option("--blocks", help="show the hidden blocks after each answer")
    ] = False,
    system: Annotated[str, typer.Option(help="the system's message")] = "",
    seed: Annotated[int, typer.Option(min=0, help="of the answers' dice")] = 0,
    temperature: Annotated[
        float | None, typer.Option(min=0, help="of sampling [as the player's]")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option(min=1, help="of an answer, hidden blocks included")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="one JSON object an answer, one a line")
    ] = False,
) -> None:
    """Talk with a trained player, a mixture of players, or a model. Lines that are
    piped in are answered one by one.
    """
    from equipoise.cli.serve import catalogue_of, steering_of
    from equipoise.serve.conversation import Conversation
    from equipoise.types import Message

    catalogue = catalogue_of(
        folder, model, adapter, upstream, upstream_model, upstream_key_env, set
    )
    base = steering_of(steering, folder)
    for note in catalogue.notes:
        typer.echo(f"note: {note}", err=True)
    with asyncio.Runner() as runner:
        try:
            found = runner.run(catalogue.find(player or catalogue.default, seed))
            given = replace(
                found.given,
                seed=seed,
                messages=(Message("system", system),) if system else (),
                temperature=found.given.temperature
                if temperature is None
                else temperature,
                max_tokens=max_tokens or found.given.max_tokens,
            )
            conversation = Conversation(found.engine, base, given)
            if steer:
                conversation.steer(steer)
            terminal = Terminal(conversation, runner, json=json, blocks=blocks)
            terminal.talk()
        finally:
            runner.run(catalogue.close())
    if terminal.failed:
        raise typer.Exit(1)
