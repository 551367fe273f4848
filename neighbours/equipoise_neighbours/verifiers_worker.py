"""An environment of verifiers at work, under the interpreter of an environment that has it.

A script that imports the standard library and what verifiers brings. It reads JSON, a line each,
and writes the same to its output:

    {"env": "kuhn-poker", "settings": {...}}  the first line
        -> {"agents": ["player0", ...], "tasks": null | 100}, or {"fault": "..."}
    {"episode": "a1", "task": 7}  -> what the episode does next, see below
    {"episode": "a1", "answer": "..."}  likewise
    {"episode": "a1"}  the episode is given up

    {"episode": "a1", "agent": "player0", "messages": [...]}  an agent's model is asked
    {"episode": "a1", "rewards": {"player0": 1.0, ...}, "fault": ""}  the episode is over

Each agent runs verifiers' loop of a plain chat, in this process; its model is the address of a
server on loopback, which turns a request into a line and the next answer into its reply.
"""

import asyncio
import json
import os
import sys
from itertools import islice
from statistics import fmean
from types import ModuleType
from typing import Any

HARNESS = "equipoise_chat"


def chat_module() -> ModuleType:
    """A module with the harness of a plain chat, as verifiers finds one by its name."""
    import httpx  # pyright: ignore[reportMissingImports]
    from verifiers.v1.configs.harness import HarnessConfig  # pyright: ignore[reportMissingImports]
    from verifiers.v1.dialects.chat import message_to_wire  # pyright: ignore[reportMissingImports]
    from verifiers.v1.harness import Harness  # pyright: ignore[reportMissingImports]
    from verifiers.v1.runtimes import ProgramResult  # pyright: ignore[reportMissingImports]

    class PlainChat(Harness[HarnessConfig]):
        """Asks the model once a turn, without tools."""

        APPENDS_SYSTEM_PROMPT = True
        SUPPORTS_RESUME = True
        EXECUTES_CODE = False
        NEEDS_CONTAINER = False

        async def launch(
            self,
            ctx: Any,
            trace: Any,
            runtime: Any,
            endpoint: str,
            secret: str,
            urls: Any,
            data: Any,
        ) -> Any:
            system, prompt = self.resolve_prompt(data)
            chat = [{"role": "system", "content": system}] if system else []
            if isinstance(prompt, str):
                chat.append({"role": "user", "content": prompt})
            else:
                chat += [message_to_wire(message) for message in prompt or ()]
            async with httpx.AsyncClient(timeout=None) as client:
                reply = await client.post(
                    f"{endpoint}/chat/completions",
                    json={"model": ctx.model, "messages": chat},
                    headers={"Authorization": f"Bearer {secret}"},
                )
            code = int(reply.status_code >= 400)
            return ProgramResult(exit_code=code, stdout="", stderr=reply.text if code else "")

    module = ModuleType(HARNESS)
    module.__dict__.update(PlainChat=PlainChat, __all__=["PlainChat"])
    return module


def environment_of(job: dict[str, Any]) -> Any:
    """The environment with each agent in the plain chat, asking a model of the agent's name."""
    from verifiers.v1.configs.agent import agent_config_fields  # pyright: ignore[reportMissingImports]
    from verifiers.v1.utils.loaders import load_environment, resolve_env_config  # pyright: ignore[reportMissingImports]

    sys.modules[HARNESS] = chat_module()
    given = job["settings"]
    settings = {**given, "taskset": {**given.get("taskset", {}), "id": job["env"]}}
    own = {"harness": {"id": HARNESS}, "runtime": {"type": "subprocess"}}
    for name in agent_config_fields(resolve_env_config(json.loads(json.dumps(settings)))):
        settings[name] = {**settings.get(name, {}), **own, "model": name}
    return load_environment(resolve_env_config(settings))


class Server:
    """The episodes under way, and the requests of their agents' models."""

    def __init__(self, environment: Any, output: Any) -> None:
        self.environment, self.output = environment, output
        self.tasks: list[Any] = []
        self.source = iter(environment.taskset)
        self.playing: dict[str, asyncio.Task[None]] = {}
        self.asked: dict[str, asyncio.Future[str]] = {}
        self.turns: dict[str, asyncio.Lock] = {}  # agents that ask at once wait for each other
        self.address = ""

    def send(self, **line: Any) -> None:
        print(json.dumps(line), file=self.output, flush=True)

    async def reply(self, request: Any) -> Any:
        """The answer to a request of an agent's model, once it is given."""
        from aiohttp import web  # pyright: ignore[reportMissingImports]

        body, episode = await request.json(), request.match_info["episode"]
        roles = {message["role"] for message in body["messages"]}
        if body.get("tools") or "tool" in roles:
            error = {"message": "this player calls no tools, and the environment needs them"}
            return web.json_response({"error": error}, status=400)
        async with self.turns[episode]:
            self.asked[episode] = asyncio.get_running_loop().create_future()
            self.send(episode=episode, agent=body["model"], messages=body["messages"])
            message = {"role": "assistant", "content": await self.asked[episode]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        head = {"id": episode, "object": "chat.completion", "created": 0, "model": body["model"]}
        return web.json_response({**head, "choices": [choice]})

    async def play(self, episode: str, index: int) -> None:
        """Play the task of this index to its end, and send that."""
        try:
            rewards, fault = await self.outcome(episode, index)
        except Exception as error:  # noqa: BLE001  an environment raises whatever it does
            rewards, fault = {}, f"{type(error).__name__}: {error}"
        self.send(episode=episode, rewards=rewards, fault=fault)

    async def outcome(self, episode: str, index: int) -> tuple[dict[str, float], str]:
        """Each agent's reward, and why the episode failed, "" where it did not."""
        from verifiers.v1.clients import EvalClientConfig, ModelContext  # pyright: ignore[reportMissingImports]

        self.tasks += islice(self.source, max(0, index + 1 - len(self.tasks)))
        if index >= len(self.tasks):
            return {}, f"there is no task {index}"
        client = EvalClientConfig(base_url=f"{self.address}/{episode}", api_key_var="NO_KEY")
        context = ModelContext(model="agent", client=client)
        played = await self.environment.run_episode(self.tasks[index], context)
        errors = [*played.errors, *(e for trace in played.traces for e in trace.errors)]
        rewards: dict[str, list[float]] = {}
        for trace in played.traces:
            rewards.setdefault(trace.agent.name, []).append(trace.reward)
        fault = (
            f"{errors[-1].type}: {errors[-1].message}" if errors else "" if played.ok else "failed"
        )
        return {agent: fmean(values) for agent, values in rewards.items()}, fault

    async def serve(self) -> None:
        """Do as the lines say until there are no more."""
        from aiohttp import web  # pyright: ignore[reportMissingImports]

        app = web.Application(client_max_size=2**30)
        app.router.add_post("/{episode}/{rest:.*}", self.reply)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        loop = asyncio.get_running_loop()
        async with self.environment.serving():
            while line := await loop.run_in_executor(None, sys.stdin.readline):
                order = json.loads(line)
                episode = order["episode"]
                if "task" in order:
                    self.turns[episode] = asyncio.Lock()
                    self.playing[episode] = asyncio.ensure_future(self.play(episode, order["task"]))
                elif "answer" in order:
                    asked = self.asked.pop(episode)
                    if not asked.done():  # nor given up by who asked
                        asked.set_result(order["answer"])
                else:
                    self.turns.pop(episode)
                    self.playing.pop(episode).cancel()  # which a finished one does not mind


def main() -> None:
    """Serve the environment that the first line names."""
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the environment prints
    try:
        environment = environment_of(json.loads(sys.stdin.readline()))
        taskset, server = environment.taskset, Server(environment, output)
        own = taskset.task_type().toolsets(taskset.config.task)
        if own or taskset.toolsets(taskset.config):
            return server.send(fault="its tasks come with tools, and players here call none")
        if environment.taskset.bounded:
            server.tasks = list(server.source)
        from verifiers.v1.configs.agent import agent_config_fields  # pyright: ignore[reportMissingImports]
    except Exception as error:  # noqa: BLE001  an environment raises whatever it does
        said = " ".join(str(error).split())
        print(json.dumps({"fault": f"{type(error).__name__}: {said}"}), file=output, flush=True)
        return
    tasks = len(server.tasks) if environment.taskset.bounded else None
    agents = list(agent_config_fields(environment.config))
    server.send(agents=agents, tasks=tasks)
    asyncio.run(server.serve())


if __name__ == "__main__":
    main()
