"""Sums that several runs of one agent answer at the same time; there are three, though more are
promised.
"""

import asyncio

import verifiers.v1 as vf
from sums import Data, Sum


class Races(vf.Taskset[Sum, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for i in range(3):
            yield Sum(Data(idx=i, prompt=f"{i} + 1 = ?", answer=str(i + 1)))
        raise LookupError("no more sums")


class RaceConfig(vf.EnvConfig):
    runner: vf.AgentConfig = vf.AgentConfig()


class Race(vf.Env[RaceConfig]):
    async def run(self, task, agents):
        await asyncio.gather(*(agents.runner.run(task) for _ in range(3)))


__all__ = ["Race", "Races"]
