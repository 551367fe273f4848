"""`equipoise chat`: a conversation in the terminal with what `equipoise serve` would serve."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise import seeds
from equipoise.errors import ConfigError, EquipoiseError
from equipoise.serve.settings import ChatSettings, with_extensions
from equipoise.system import interrupts
from equipoise.system.command_options import Served, Trust, json_text, say, settings_option
from equipoise.types import Message, user

if TYPE_CHECKING:
    import asyncio

    from equipoise.serve.catalogue import Catalogue, ServedModel
    from equipoise.serve.engine import Engine, EngineRequest

SETTINGS = with_extensions(ChatSettings)
HELP = "/reset  /quit; Ctrl-C stops an answer, Ctrl-D ends"
PlayerName = Annotated[
    str,
    typer.Option(
        help="who answers, as the server names it: policy@3, policy@3:subscription, mixture",
        show_default="the newest",
    ),
]
System = Annotated[str, typer.Option(help="the system message")]
JsonLines = Annotated[
    bool, typer.Option("--json", help="print one JSON object per answer, one per line")
]


@dataclass(slots=True)
class Exchange:
    """A question, and its answer, the thoughts before it, or `error`."""

    question: str
    answer: str = ""
    thoughts: str = ""
    finish: str = "error"
    tokens: int = 0
    error: str = ""


class ChatSession:
    """Questions and answers in turn. An answer's seed depends on its place in the conversation."""

    def __init__(self, engine: Engine, defaults: EngineRequest) -> None:
        """`defaults` holds the seed, the sampling, and the messages at the beginning."""
        self._engine = engine
        self._defaults = defaults
        self._turn = 0
        self.messages = defaults.messages

    def reset(self) -> None:
        """Forget what was said."""
        self.messages = self._defaults.messages

    async def ask(
        self,
        question: str,
        show: Callable[[str], None],
        show_thoughts: Callable[[str], None] = lambda text: None,
    ) -> Exchange:
        """The answer as it comes; not remembered if it breaks off before the first text. Thoughts
        are shown and forgotten.
        """
        exchange = Exchange(question)
        request = replace(
            self._defaults,
            messages=(*self.messages, user(question)),
            seed=seeds.child(self._defaults.seed, "conversation", self._turn),
        )
        self._turn += 1
        try:
            async with aclosing(self._engine.generate(request)) as pieces:
                async for piece in pieces:
                    if piece.thoughts:
                        show_thoughts(piece.thoughts)
                        exchange.thoughts += piece.thoughts
                    show(piece.text)
                    exchange.answer += piece.text
                    exchange.tokens += piece.tokens
                    if piece.finish:
                        exchange.finish = piece.finish
                        exchange.error = piece.error
        except EquipoiseError as error:
            exchange.error = str(error)
        finally:
            if exchange.answer:
                answer = Message("assistant", exchange.answer)
                self.messages = (*self.messages, user(question), answer)
        return exchange


class Terminal:
    """Reads questions and commands, has them answered, and prints the answers."""

    def __init__(self, session: ChatSession, runner: asyncio.Runner, *, json: bool) -> None:
        """`runner` has the event loop that the engine lives in."""
        self._session = session
        self._runner = runner
        self._json = json
        self._live = sys.stdin.isatty() and not json
        self._thinking = False  # the last that was shown
        self.failed = 0  # questions and commands

    def talk(self) -> None:
        """Answer until /quit or the end of the input."""
        if self._live:
            self.note(HELP)
        for line in self.lines():
            if line == "/quit":
                return
            if line == "/reset":
                self._session.reset()
                self.note("the conversation starts afresh")
            elif line == "/help":
                self.note(HELP)
            elif line.startswith("/"):
                self.fail(unknown_command(line))
            elif line:
                self.answer(line)

    def lines(self) -> Iterator[str]:
        """The lines that are typed or piped in."""
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
                self.note(HELP)
                continue
            yield line.strip()

    def answer(self, question: str) -> None:
        """Print the answer as it comes, and what became of it."""
        try:
            exchange = self._runner.run(self._session.ask(question, self.show, self.show_thoughts))
        except KeyboardInterrupt:
            if not self._live:
                raise
            interrupts.stop_first()
            print()
            self.note("stopped")
            return
        self.failed += bool(exchange.error)
        if self._json:
            say(json_text(asdict(exchange)))
            return
        if exchange.answer or (exchange.thoughts and self._live):
            print(flush=True)
        if exchange.error:
            say(f"error: {exchange.error}", err=True)
        if exchange.finish == "length":
            self.note("cut off by max_tokens, which counts hidden tokens too")

    def show(self, text: str) -> None:
        """Print a part of an answer; as JSON it comes whole."""
        if self._json or not text:
            return
        if self._thinking:
            say("\n" if self._live else "", err=not self._live)
        self._thinking = False
        say(text, nl=False)

    def show_thoughts(self, text: str) -> None:
        """Print a part of the thoughts in grey; beside the output, where that is piped."""
        if not self._json:
            self._thinking = True
            self.print_dimmed(text, "")

    def note(self, text: str) -> None:
        """Print a remark, dimmed."""
        self.print_dimmed(text, "\n")

    def print_dimmed(self, text: str, end: str) -> None:
        """Print a text in grey."""
        from rich.text import Text

        from equipoise.blocks.terminal import terminal

        terminal(stderr=not self._live).print(Text(text, "dim"), soft_wrap=True, end=end)

    def fail(self, text: str) -> None:
        """Print a fault, and count it."""
        self.failed += 1
        say(f"error: {text}", err=True)


def unknown_command(line: str) -> str:
    """The message for a command that is none."""
    name = line.partition(" ")[0]
    if name in ("/steer", "/blocks"):
        return (
            f"no command {name}; start with -s steering=NAME or --player policy@3:NAME; with "
            "-s steering=off the blocks are shown"
        )
    return f"no command {name}; {HELP}"


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
    catalogue = catalogue_of(target, settings.player, extended, trusted)
    for note in catalogue.notes:
        say(f"note: {note}", err=True)
    with asyncio.Runner() as runner:
        try:
            served = runner.run(find_model(catalogue, player or catalogue.default, settings.seed))
            defaults = _defaults(served.defaults, system, settings)
            terminal = Terminal(ChatSession(served.engine, defaults), runner, json=json)
            terminal.talk()
        finally:
            runner.run(catalogue.close())
    if terminal.failed:
        raise typer.Exit(1)


async def find_model(catalogue: Catalogue, player: str, seed: int) -> ServedModel:
    """The served model of that name. Raises ConfigError."""
    from equipoise.serve.protocol import Problem

    try:
        return await catalogue.find(player, seed)
    except Problem as problem:
        raise ConfigError(f"--player {player}: {problem}") from problem


def _defaults(player: EngineRequest, system: str, settings: Any) -> EngineRequest:
    """The start of every question: the player's sampling, where the settings leave it open."""
    temperature = settings.temperature
    if temperature is None:
        temperature = player.temperature
    messages: tuple[Message, ...] = ()
    if system:
        messages = (Message("system", system),)
    return replace(
        player,
        seed=settings.seed,
        messages=messages,
        temperature=temperature,
        max_tokens=settings.max_tokens or player.max_tokens,
    )
