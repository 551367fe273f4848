"""Kuhn poker with two agents, the betting refereed by the environment."""

import random
from itertools import count

import verifiers.v1 as vf

LEGAL = {
    "": ("check", "bet"),
    "check": ("check", "bet"),
    "bet": ("fold", "call"),
    "check-bet": ("fold", "call"),
}


class Data(vf.TaskData):
    seed: int


class Hand(vf.Task[Data]):
    pass


class Hands(vf.Taskset[Hand, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        for i in count():
            yield Hand(Data(idx=i, name=f"hand {i}", prompt=None, seed=i))


class PokerConfig(vf.EnvConfig):
    first: vf.AgentConfig = vf.AgentConfig()
    second: vf.AgentConfig = vf.AgentConfig()


class Poker(vf.Env[PokerConfig]):
    async def run(self, task, agents):
        cards = random.Random(task.data.seed).sample("JQK", 2)
        seats = [
            vf.Task(
                vf.TaskData(
                    idx=task.data.idx, prompt=None, system_prompt=f"Kuhn poker. Your card: {card}."
                )
            )
            for card in cards
        ]
        history, lost = [], None
        async with (
            agents.first.interaction(seats[0]) as one,
            agents.second.interaction(seats[1]) as two,
        ):
            players = [one, two]
            while (key := "-".join(history)) in LEGAL:
                seat = len(history) % 2
                legal = LEGAL[key]
                question = f"So far: {key or 'nothing'}. Legal: {', '.join(legal)}."
                reply = (await players[seat].turn(question)).last_reply
                chosen = [move for move in legal if move in reply]
                if len(chosen) != 1:
                    lost = seat
                    break
                history += chosen
        higher = 1 if "JQK".index(cards[0]) > "JQK".index(cards[1]) else -1
        if lost is not None:
            net = 1 if lost else -1
        else:
            net = {"check-check": higher, "bet-fold": 1, "check-bet-fold": -1}.get(
                "-".join(history), 2 * higher
            )
        one.trace.record_reward("payoff", net)
        two.trace.record_reward("payoff", -net)


__all__ = ["Hands", "Poker"]
