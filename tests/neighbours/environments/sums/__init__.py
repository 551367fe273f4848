"""Sums, for one agent."""

import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class Sum(vf.Task[Data]):
    @vf.reward
    async def right(self, task, trace) -> float:
        return float(trace.last_reply == self.data.answer)


class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        for i in range(40):
            yield Sum(Data(idx=i, prompt=f"{i} + 1 = ?", answer=str(i + 1)))


__all__ = ["Sums"]
