"""The records that flow through Equipoise. They are frozen, and this file imports nothing of ours.

A `Prompt` becomes a `View` for each seat of a game; a player answers a view with a `Move`; a seat's
view and move make a `Turn`, and the turns a `Match`. A judge gives a match a `Judgement`; two
judged answers make a `Pair`, a rewarded move an `Episode`. Records are msgspec structs:
`msgspec.json.encode(record)` is their form in the ledger.
"""

import hashlib
from typing import Any, Literal, Self

import msgspec


class PlayerId(msgspec.Struct, frozen=True, order=True):
    """A player at one generation, `policy@3`; generation 0 is the player as given."""

    name: str
    generation: int = 0

    def __str__(self) -> str:
        return f"{self.name}@{self.generation}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """`"policy@3"` -> PlayerId("policy", 3); a bare name is generation 0."""
        name, _, generation = text.partition("@")
        return cls(name, int(generation or 0))


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One chat message; `role` is system, user, assistant or tool.

    `further` holds more fields for chat templates, as a JSON object: an assistant's calls, the call
    that a tool answers. The `tools` of a chat stand in its first message.
    """

    role: str
    content: str
    further: str = ""


def user(content: str) -> Message:
    """A message from the user."""
    return Message("user", content)


class Turns(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer of several turns: those of the assistant are learned but for the places in
    `context`; what users and tools say between them never is.
    """

    messages: tuple[Message, ...]
    context: tuple[int, ...] = ()

    def learned(self, place: int) -> bool:
        """True if the message at this place is learned."""
        return self.messages[place].role == "assistant" and place not in self.context


def answer_messages(answer: "str | Turns") -> tuple[Message, ...]:
    """The messages of an answer."""
    if isinstance(answer, str):
        return (Message("assistant", answer),)
    return answer.messages


def text_of(answer: "str | Turns") -> str:
    """The text of an answer; of several turns all of them, each but the first with its role."""
    if isinstance(answer, str):
        return answer
    first, *others = answer.messages
    parts = [first.content]
    parts += [f"[{message.role}] {message.content}" for message in others]
    return "\n\n".join(parts)


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """An answer that came with a prompt's row, and what the row says of it.

    Of several turns, all are in `messages`, and the assistant's are learned but for the places in
    `context`. `label` says if the answer was wanted, `chosen` if it was preferred to another of its
    row. An answer with a `fault` is left out of what is learned.
    """

    messages: tuple[Message, ...]
    score: float | None = None
    label: bool | None = None
    weight: float | None = None
    chosen: bool | None = None
    context: tuple[int, ...] = ()
    fault: str = ""

    @property
    def text(self) -> str:
        """The last text of the assistant's."""
        value = self.value
        return value if isinstance(value, str) else self.messages[-1].content

    @property
    def value(self) -> str | Turns:
        """Its text, or its turns where users or tools speak in between.

        Messages of the assistant's alone are one text, a line each.
        """
        plain = all(each.role == "assistant" and not each.further for each in self.messages)
        if plain and not self.context:
            return "\n".join(message.content for message in self.messages)
        return Turns(self.messages, self.context)


class Prompt(msgspec.Struct, frozen=True, omit_defaults=True):
    """The start of a match, from `source`; judges alone see the `facts`, such as `answer`.

    `answers` came with it. `learned` are the places of the assistant's messages in the chat that
    fine-tuning learns, too.
    """

    id: str
    messages: tuple[Message, ...]
    facts: dict[str, Any] = {}
    source: str = ""
    answers: tuple[Answer, ...] = ()
    learned: tuple[int, ...] = ()


class View(msgspec.Struct, frozen=True, omit_defaults=True):
    """The chat that a seat sees when it is asked to move; in a finite game also the legal
    `actions`.

    `schema` is a JSON schema for the answer; players that cannot enforce one ignore it.
    """

    messages: tuple[Message, ...] = ()
    actions: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None


class Marks(msgspec.Struct, frozen=True, omit_defaults=True):
    """The texts that stand before and after a thought, by the template of the player that thinks.

    `opened`: the prompt ended with `opening`, so that the move itself begins within a thought.
    """

    opening: str
    closing: str
    opened: bool = False


class Move(msgspec.Struct, frozen=True, omit_defaults=True):
    """A player's answer, with its thoughts; `equipoise.answer` parts them.

    Local players give `token_ids` and `logprobs`, the end token included. These are nats under the
    distribution that was sampled from, so after temperature, top-k and top-p, renormalised; at
    temperature 0, which takes the most likely token, under the model's own. Where top-k or top-p
    cut, `uncut` are those after temperature alone; an engine in another process may give only one
    of the two. `finish` says why the answer ended; on "error", `error` says what happened and
    `text` is empty. `completion_tokens` and `cost` (in the currency of the player's prices) are an
    endpoint's account of the move. `thoughts` are those that a server gave apart from the text;
    `marks` part those in the text, where the player's template says by which. `forced` are (start,
    end) of tokens that were not sampled: the end of thoughts that reached their limit.
    """

    text: str
    finish: Literal["stop", "length", "error"] = "stop"
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    prompt_tokens: int = 0
    error: str = ""
    completion_tokens: int = 0
    cost: float = 0.0
    uncut: tuple[float, ...] = ()
    thoughts: str = ""
    marks: Marks | None = None
    forced: tuple[int, int] | None = None

    @property
    def tokens(self) -> int:
        """The number of generated tokens."""
        return len(self.token_ids) or self.completion_tokens


class Turn(msgspec.Struct, frozen=True):
    """One seat's view and the move it made."""

    seat: str
    view: View
    move: Move


class Match(msgspec.Struct, frozen=True):
    """One played game. `seats` are the players by seat; several seats may hold the same player."""

    id: str
    generation: int
    split: str  # "train" | "held_out"
    game: str
    prompt: str
    seats: dict[str, PlayerId]
    seed: int
    turns: tuple[Turn, ...] = ()

    def last_turns(self) -> dict[str, Turn]:
        """Each seat's last turn, in the order of the seats, without those that never moved."""
        turns = {turn.seat: turn for turn in self.turns}
        return {seat: turns[seat] for seat in self.seats if seat in turns}


class Vote(msgspec.Struct, frozen=True, omit_defaults=True):
    """One verdict behind a judgement: that of `by` on the answer of `seat`, alone or against that
    of `other`, which was shown second.

    `value` is the score that was given, or, in a comparison, 1 where `seat` was preferred, 0 where
    `other` was, ½ for a tie (or a probability). It is None where the reply could not be read;
    `reason` says why. `by` is a player of the run as `name@generation`, or the name of another
    judge. `tokens` (of question and reply) and `cost` are what the vote took.
    """

    by: str
    seat: str
    value: float | None
    other: str = ""
    reason: str = ""
    tokens: int = 0
    cost: float = 0.0


class Review(msgspec.Struct, frozen=True, omit_defaults=True):
    """A judge's replies about one answer, set against each other by a judge of judges.

    `by` was asked `messages` about the answer of `seat`; `replies` are those with a readable grade.
    Each of `battles` is (shown first, shown second, winner), by their places in `replies`. `tokens`
    (of questions and verdicts) and `cost` are what the battles took.
    """

    by: str
    seat: str
    messages: tuple[Message, ...]
    replies: tuple[str, ...]
    battles: tuple[tuple[int, int, int], ...] = ()
    tokens: int = 0
    cost: float = 0.0


class Judgement(msgspec.Struct, frozen=True, omit_defaults=True):
    """A judge's scores of a match: seat -> {utility: value}, or None and the reason.

    A seat absent from `scores` is unjudged too; a missing score is never a number. `votes` are the
    verdicts that the scores were made from, where models gave them; `reviews` are of replies behind
    these, where they were judged too.
    """

    id: str
    match: str
    judge: str
    scores: dict[str, dict[str, float]] | None
    reason: str = ""
    votes: tuple[Vote, ...] = ()
    reviews: tuple[Review, ...] = ()

    def score(self, seat: str, utility: str) -> float | None:
        """The value of one utility for one seat, or None where it was not judged."""
        return self.utilities(seat).get(utility)

    def utilities(self, seat: str) -> dict[str, float]:
        """Everything that was scored for one seat; empty where it was not judged."""
        return (self.scores or {}).get(seat, {})

    def by_seat(self, utility: str) -> dict[str, float]:
        """The value of one utility for each seat that has it."""
        return {
            seat: values[utility]
            for seat, values in (self.scores or {}).items()
            if utility in values
        }

    def compared(self) -> set[frozenset[str]] | None:
        """The pairs of seats that its votes compared; None where no vote compares, and so the
        scores of all seats can be.
        """
        votes = [vote for vote in self.votes if vote.other]
        pairs = {frozenset((vote.seat, vote.other)) for vote in votes if vote.value is not None}
        return pairs if votes else None

    def names(self) -> set[str]:
        """The names of the utilities that any seat has."""
        return {name for values in (self.scores or {}).values() for name in values}


class Pair(msgspec.Struct, frozen=True, omit_defaults=True):
    """Two answers to one prompt, of which `chosen` was judged better than `rejected`.

    `chosen_win` and `rejected_win` are P(answer beats those that the loss sets it against), where
    the loss wants that; by weights of which one is negative they may leave [0, 1]. An answer that
    is `cut` ended at a limit: its end was never sampled. `only` one of the two is there where data
    label single answers; the other is an empty text, which nothing learns.
    """

    id: str
    generation: int
    prompt: str
    messages: tuple[Message, ...]
    chosen: str | Turns
    rejected: str | Turns
    chosen_score: float
    rejected_score: float
    match: str = ""
    chosen_win: float | None = None
    rejected_win: float | None = None
    chosen_cut: bool = False
    rejected_cut: bool = False
    only: Literal["", "chosen", "rejected"] = ""

    def has(self, side: Literal["chosen", "rejected"]) -> bool:
        """True if the answer of this side is there."""
        return self.only in ("", side)


class Episode(msgspec.Struct, frozen=True):
    """One move of a learner and its reward, to learn from by policy gradients.

    `turn` is the move's place among the match's turns. Moves of one `group` answered the same chat
    in the same role, so that their rewards can be compared. `reward` is the sum of `parts`.
    """

    id: str
    generation: int
    match: str
    turn: int
    role: str
    group: str
    reward: float
    parts: dict[str, float] = {}


def record_id(*parts: object) -> str:
    """A 128-bit hex id: a hash of everything that determines the record."""
    text = "\x1f".join(map(str, parts))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
