"""`equipoise chat`: a conversation in the terminal with what `equipoise serve` would serve."""

from __future__ import annotations

import json as js
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise import seeds
from equipoise.errors import ConfigError, EquipoiseError
from equipoise.serve.engine import extension_offers
from equipoise.serve.settings import ChatSettings, with_extensions
from equipoise.system import interrupts
from equipoise.system.command_options import Served, Trust, json_text, say, settings_option
from equipoise.types import Message, user

if TYPE_CHECKING:
    import asyncio

    from equipoise.serve.catalogue import Catalogue, ServedModel
    from equipoise.serve.engine import Engine, EngineRequest, Extension

SETTINGS = with_extensions(ChatSettings)
PlayerName = Annotated[
    str,
    typer.Option(
        help="who answers, as the server names it: policy@3, mixture", show_default="the newest"
    ),
]
System = Annotated[str, typer.Option(help="the system message")]
JsonLines = Annotated[
    bool, typer.Option("--json", help="print one JSON object per answer, one per line")
]


@dataclass(slots=True)
class Exchange:
    """A question, its answer or `error`, and what an extension keeps `hidden` from the client."""

    question: str
    answer: str = ""
    finish: str = "error"
    tokens: int = 0
    error: str = ""
    hidden: dict[str, Any] = field(default_factory=dict)


class ChatSession:
    """Questions and answers in turn. An answer's seed depends on its place in the conversation."""

    def __init__(
        self, engine: Engine, extensions: Mapping[str, Extension], defaults: EngineRequest
    ) -> None:
        """`defaults` holds the seed, the sampling, and the messages at the beginning."""
        self._engine, self._extensions, self._defaults = engine, extensions, defaults
        self._wishes: dict[str, str] = {}
        self._turn = 0
        self.messages = defaults.messages

    def wish(self, field: str, value: str) -> None:
        """Ask something of an extension from now on. Raises Refused where it cannot be."""
        self._extensions[field].describe(value)
        self._wishes[field] = value

    def describe(self, field: str) -> str:
        """The short name of what an extension does now."""
        return self._extensions[field].describe(self._wishes.get(field))

    def reset(self) -> None:
        """Forget what was said."""
        self.messages = self._defaults.messages

    async def ask(self, question: str, show: Callable[[str], None]) -> Exchange:
        """The answer as it comes; not remembered if it breaks off before the first text."""
        exchange = Exchange(question)
        request = replace(
            self._defaults,
            messages=(*self.messages, user(question)),
            seed=seeds.child(self._defaults.seed, "conversation", self._turn),
        )
        self._turn += 1
        try:
            await self._answer(request, exchange, show)
        except EquipoiseError as error:
            exchange.error = str(error)
        finally:
            if exchange.answer:
                answer = Message("assistant", exchange.answer)
                self.messages = (*self.messages, user(question), answer)
        return exchange

    async def _answer(
        self, request: EngineRequest, exchange: Exchange, show: Callable[[str], None]
    ) -> None:
        engine = self._engine
        for field_name, extension in self._extensions.items():
            wish = self._wishes.get(field_name)
            engine = extension.wrap(engine, wish, report=True)
        async with aclosing(engine.generate(request)) as pieces:
            async for piece in pieces:
                show(piece.text)
                exchange.answer += piece.text
                exchange.tokens += piece.tokens
                if piece.finish:
                    exchange.finish, exchange.error = piece.finish, piece.error
                    exchange.hidden = dict(piece.fields.get("equipoise", {}))


class Terminal:
    """Reads questions and commands, has them answered, and prints the answers."""

    def __init__(
        self, session: ChatSession, runner: asyncio.Runner, *, json: bool, show_hidden: bool
    ) -> None:
        """`runner` has the event loop that the engine lives in."""
        self._session, self._runner = session, runner
        self._json, self._show_hidden = json, show_hidden
        self._live = sys.stdin.isatty() and not json
        self._wishes = {f"/{o.wish}": o.field for o in extension_offers().values()}
        self._reports = {f"/{o.report}": o.report for o in extension_offers().values()}
        self.failed = 0  # questions and commands

    def talk(self) -> None:
        """Answer until /quit or the end of the input."""
        if self._live:
            self._note(self._help())
        for line in self._lines():
            if line == "/quit":
                return
            if line.startswith("/"):
                self._command(line)
            elif line:
                self._answer(line)

    def _help(self) -> str:
        wishes = [f"{command} NAME" for command in self._wishes]
        commands = "  ".join([*wishes, *self._reports, "/reset", "/quit"])
        return f"{commands}; Ctrl-C stops an answer, Ctrl-D ends"

    def _lines(self) -> Iterator[str]:
        if not self._live:
            yield from (line.strip() for line in sys.stdin)
            return
        import readline  # noqa: F401  so that lines can be edited and recalled

        while True:
            try:
                line = input("you> ")
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                interrupts.stop_first()
                print()
                self._note(self._help())
                continue
            yield line.strip()

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        if name in self._wishes:
            self._wish(self._wishes[name], argument.strip())
        elif name in self._reports:
            self._show_hidden = not self._show_hidden
            state = "shown" if self._show_hidden else "not shown"
            self._note(f"hidden {self._reports[name]} are {state}")
        elif name == "/reset":
            self._session.reset()
            self._note("the conversation starts afresh")
        elif name == "/help":
            self._note(self._help())
        else:
            self._fail(f"no command {name}; {self._help()}")

    def _wish(self, field: str, value: str) -> None:
        """Ask something of an extension from now on; without a value, say what it does."""
        from equipoise.serve.engine import Refused

        if not value:
            self._note(f"{field}: {self._session.describe(field)}")
            return
        try:
            self._session.wish(field, value)
        except Refused as error:
            self._fail(str(error))
        else:
            self._note(f"{field}: {value}")

    def _answer(self, question: str) -> None:
        try:
            exchange = self._runner.run(self._session.ask(question, self._show))
        except KeyboardInterrupt:
            if not self._live:
                raise
            interrupts.stop_first()
            print()
            self._note("stopped")
            return
        self.failed += bool(exchange.error)
        if self._json:
            self._print_json(exchange)
        else:
            self._print_end(exchange)

    def _show(self, text: str) -> None:
        if not self._json:
            say(text, nl=False)

    def _print_json(self, exchange: Exchange) -> None:
        facts = asdict(exchange)
        if not self._show_hidden:
            facts["hidden"] = {}
        say(json_text(facts))

    def _print_end(self, exchange: Exchange) -> None:
        if exchange.answer:
            print(flush=True)
        if exchange.error:
            say(f"error: {exchange.error}", err=True)
        elif self._show_hidden:
            for name, value in exchange.hidden.items():
                if value not in (None, []):
                    is_data = isinstance(value, dict | list)
                    self._note(f"{name}: {js.dumps(value) if is_data else value}")
        if exchange.finish == "length":
            self._note("cut off by max_tokens, which counts hidden tokens too")

    def _note(self, text: str) -> None:
        from rich.text import Text

        from equipoise.blocks.terminal import terminal

        terminal(stderr=not self._live).print(Text(text, "dim"), soft_wrap=True)

    def _fail(self, text: str) -> None:
        self.failed += 1
        say(f"error: {text}", err=True)


def chat(
    target: Served,
    player: PlayerName = "",
    set: Annotated[list[str], settings_option(SETTINGS)] = [],  # noqa: B006
    system: System = "",
    trust: Trust = False,
    json: JsonLines = False,
) -> None:
    """Talk with a player or a model.

    The player can be a mixture, as `serve` offers it. Lines that are piped in are answered one by
    one.
    """
    import asyncio

    from equipoise.api.handle import ask_for_trust
    from equipoise.runs import recipe_loader
    from equipoise.serve.engine import extensions
    from equipoise.serve.settings import catalogue_of, game_of

    settings = recipe_loader.settings(SETTINGS, set)
    trusted = ask_for_trust(target, trust)
    extended = extensions(settings, game_of(target, trusted))
    catalogue = catalogue_of(target, settings.player, trust=trusted)
    for note in catalogue.notes:
        say(f"note: {note}", err=True)
    with asyncio.Runner() as runner:
        try:
            served = runner.run(_find_model(catalogue, player or catalogue.default, settings.seed))
            session = ChatSession(
                served.engine, extended, _defaults(served.defaults, system, settings)
            )
            for field, offer in extension_offers().items():
                wish = getattr(settings, offer.wish)
                if wish is not None:
                    session.wish(field, wish)
            show_hidden = any(
                getattr(settings, offer.report) for offer in extension_offers().values()
            )
            terminal = Terminal(session, runner, json=json, show_hidden=show_hidden)
            terminal.talk()
        finally:
            runner.run(catalogue.close())
    if terminal.failed:
        raise typer.Exit(1)


async def _find_model(catalogue: Catalogue, player: str, seed: int) -> ServedModel:
    from equipoise.serve.protocol import Problem

    try:
        return await catalogue.find(player, seed)
    except Problem as problem:
        raise ConfigError(f"--player {player}: {problem}") from problem


def _defaults(player: EngineRequest, system: str, settings: Any) -> EngineRequest:
    """The start of every question: the player's sampling, where the settings leave it open."""
    temperature = settings.temperature
    return replace(
        player,
        seed=settings.seed,
        messages=(Message("system", system),) if system else (),
        temperature=player.temperature if temperature is None else temperature,
        max_tokens=settings.max_tokens or player.max_tokens,
    )
