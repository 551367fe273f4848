"""Environments of verifiers as games: each agent is a seat, and its rewards are what it is paid."""

import sys
import uuid
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from equipoise.answer import answer_of
from equipoise.environments.text_games.game import Play, PlayedGame, Result
from equipoise.errors import ConfigError
from equipoise.games.base import Ask
from equipoise.prompts.written_chat import THOUGHTS, read_chat
from equipoise.system.effects import COMMAND, DeclaredEffect, Text, effect_in
from equipoise.types import Match, Prompt, View
from equipoise_neighbours import verifiers_worker
from equipoise_neighbours.interpreter import Interpreter


class Verifiers(PlayedGame):
    """An environment of verifiers 0.4, which runs under an interpreter that has it.

    An agent's model is whoever has its seat; agents run verifiers' plain chat and call no tools.
    The n-th of the prompts, of kind `deals`, is the n-th task. A seat's pay-off is the sum of its
    agent's weighted rewards, the mean where the agent runs several times.
    """

    kind: Literal["verifiers"] = "verifiers"
    env: Annotated[str, DeclaredEffect("executes", "runs the environment {}")] = Field(
        description="the environment's name, an installed package"
    )
    python: Annotated[str | None, COMMAND] = Field(
        None, description="the interpreter that has verifiers and the environment; null: this one"
    )
    agents: tuple[Text, ...] = Field(
        ("agent",), min_length=1, description="the names of its agents, a seat each"
    )
    options: Annotated[dict[str, Any], effect_in("verifiers")] = Field(
        default_factory=dict, description="the environment's own, as below --env of vf-eval"
    )
    longest: int = Field(
        50, ge=1, description="moves of a seat after which a match counts as endless, unjudged"
    )

    @property
    def seats(self) -> tuple[str, ...]:
        return self.agents

    @cached_property
    def process(self) -> "Worker":
        """The environment at work, started when it is first asked for."""
        return Worker(self.python or sys.executable, self.env, self.options)

    def check(self) -> None:
        """Raise ConfigError where it cannot be loaded, or has other agents."""
        agents = tuple(self.process.facts["agents"])
        if set(agents) != set(self.agents):
            raise ConfigError(
                f"game.agents: the agents of '{self.env}' are {', '.join(agents)}; write "
                f"agents: [{', '.join(agents)}]"
            )

    def faults(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        tasks = self.process.facts["tasks"]
        for prompt in prompts:
            if not isinstance(prompt.facts.get("deal"), int):
                yield "game 'verifiers' plays prompts of kind deals, the n-th for the n-th task"
                return
            if tasks is not None and prompt.facts["deal"] >= tasks:
                yield (
                    f"'{self.env}' has {tasks:,} tasks; prompts.count, held_out and test ask for "
                    "more together"
                )
                return

    def moves(self, prompt: Prompt) -> dict[str, int]:
        """An even share of `longest`, for nobody knows how long a match lasts."""
        return dict.fromkeys(self.seats, self.longest)

    def play(self, prompt: Prompt) -> Play:
        episode, answers = uuid.uuid4().hex, []
        step = self.process.ask(episode, task=prompt.facts["deal"])
        try:
            while isinstance(step, Ask) and len(answers) < self.longest * len(self.seats):
                answer = yield step
                answers.append(answer)
                step = self.process.ask(episode, answer=answer)
        finally:
            self.process.give_up(episode)
        if isinstance(step, Ask):
            return Result(None, f"the match did not end within game.longest = {self.longest} moves")
        self.process.results[prompt.id, tuple(answers)] = step
        return step

    def replay(self, match: Match, prompt: Prompt) -> Result:
        """The result as the environment gave it, or, in another process, by playing again."""
        answers = tuple(answer_of(turn.move).text for turn in match.turns)
        known = self.process.results.get((prompt.id, answers))
        return known or super().replay(match, prompt)


class Worker(Interpreter):
    """An environment in a process of its own; see `verifiers_worker`."""

    def __init__(self, python: str, env: str, settings: dict[str, Any]) -> None:
        """Raises ConfigError where the interpreter, verifiers or the environment is missing."""
        super().__init__(
            python, verifiers_worker.__file__, f"the environment '{env}'", "game.python"
        )
        self.results: dict[tuple[str, tuple[str, ...]], Result] = {}
        self.ended: dict[str, dict[str, Any]] = {}  # episodes, while others were asked
        self.facts = self.begin(env=env, settings=settings)
        if fault := self.facts.get("fault"):
            raise ConfigError(f"game: '{env}' cannot be loaded in {python}: {fault}")

    def ask(self, episode: str, **order: Any) -> Ask | Result:
        """The next request of an episode, or its result, after an order to it."""
        self.write(episode=episode, **order)
        while episode not in self.ended:
            reply = self.read("episode")
            if reply["episode"] == episode:
                break
            self.ended[reply["episode"]] = reply  # by itself, as at a limit of the environment's
        else:
            reply = self.ended.pop(episode)
        if "messages" in reply:
            shown = [without_thoughts(message) for message in reply["messages"]]
            chat = read_chat(shown, f"the environment's chat with {reply['agent']}")
            return Ask(reply["agent"], View(chat))
        if reply["fault"]:
            return Result(None, f"the environment failed: {reply['fault']}")
        return Result(reply["rewards"])

    def give_up(self, episode: str) -> None:
        """End an episode that nobody waits for, if it goes on."""
        self.ended.pop(episode, None)
        self.write(episode=episode)


def without_thoughts(message: dict[str, Any]) -> dict[str, Any]:
    """A message as others read it: without what its writer thought."""
    return {key: value for key, value in message.items() if key not in THOUGHTS}
