"""Sums, for one agent that is given a tool, or, `quoted`, the reply of one."""

import verifiers.v1 as vf
from sums import Data, Sum, Sums


class Adder(vf.Toolset[vf.ToolsetConfig, vf.State]):
    @vf.tool
    async def add(self, first: int, second: int) -> int:
        """The sum of two numbers."""
        return first + second


class TaskConfig(vf.TaskConfig):
    tools: bool = True


class SumByTool(vf.Task[Data, vf.State, TaskConfig]):
    right = Sum.right

    @classmethod
    def toolsets(cls, config):
        return [Adder(vf.ToolsetConfig())] if config.tools else []


class Config(vf.TasksetConfig):
    quoted: bool = False
    task: TaskConfig = TaskConfig()


class SumsByTool(vf.Taskset[SumByTool, Config]):
    def load(self):
        for each in Sums(self.config).load():
            data = each.data.model_dump()
            if self.config.quoted:
                data["prompt"] = [
                    {"role": "user", "content": data["prompt"]},
                    {"role": "tool", "tool_call_id": "1", "content": data["answer"]},
                ]
            yield SumByTool(Data(**data), self.config.task)


__all__ = ["SumsByTool"]
