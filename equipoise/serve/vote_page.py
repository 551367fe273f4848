"""The page on which people vote: what its script asks, and what it is answered."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field
from starlette.applications import Starlette

from equipoise.errors import clean
from equipoise.ledger.votes_and_matches import AnswerRef, Choice
from equipoise.people.ballot import Ballot, open_ballot
from equipoise.serve.app import PageHead, page_app
from equipoise.serve.asgi_endpoint import Limits
from equipoise.serve.protocol import Body, validate_body
from equipoise.serve.server import PAGE_LIMITS, serve_page

HEAD = PageHead(
    title="Which answer is better?",
    subtitle="counts",
    name_label="Your name, as it shall stand beside your votes",
    field="voter",
    begin="Begin",
)


class AnswerPlace(Body):
    """The answer of one seat of a recorded match."""

    match: str = Field(max_length=100)
    seat: str = Field(max_length=100)

    @property
    def ref(self) -> AnswerRef:
        """As the records have it."""
        return AnswerRef(self.match, self.seat)


class QuestionRequest(Body):
    """A voter, and the ids of pairs that this voter would not decide."""

    voter: str = Field(max_length=1000)
    skipped: list[str] = Field([], max_length=1000)


class VoteRequest(Body):
    """A vote, as the page sends it."""

    voter: str = Field(max_length=1000)
    left: AnswerPlace
    right: AnswerPlace
    choice: Choice
    reason: str = Field("", max_length=20_000)


NAMES = frozenset({"match", "seat"})
# A run's part -> its prompts as a voter reads of them.
PROMPTS = {
    "held_out": "prompts that were not trained on",
    "test": "the prompts of its last test",
    "train": "prompts that it was trained on",
}


def vote_app(ballot: Ballot, limits: Limits, token: str | None) -> Starlette:
    """The application on which people vote."""
    one_at_a_time = asyncio.Lock()

    async def question(values: dict[str, Any]) -> Any:
        request = validate_body(QuestionRequest, values, NAMES)
        async with one_at_a_time:
            shown = await asyncio.to_thread(ballot.question, request.voter, request.skipped)
        facts = {
            "about": about(ballot),
            "votes": ballot.count(request.voter.strip()),
            "all": ballot.count(),
        }
        if shown is None:
            return {**facts, "question": None}
        left = {**place(shown.left), "text": clean(shown.left_text)}
        right = {**place(shown.right), "text": clean(shown.right_text)}
        chat = [
            {"role": clean(message.role), "text": clean(message.content)}
            for message in shown.messages
        ]
        content = {
            "id": shown.pair,
            "chat": chat,
            "left": left,
            "right": right,
            "warning": shown.warning,
        }
        return {**facts, "question": content}

    async def vote(values: dict[str, Any]) -> Any:
        request = validate_body(VoteRequest, values, NAMES)
        async with one_at_a_time:
            kept = await asyncio.to_thread(
                ballot.vote,
                request.voter,
                request.left.ref,
                request.right.ref,
                request.choice,
                request.reason,
            )
        return {"choice": kept.choice, "votes": ballot.count(kept.voter)}

    return page_app("vote", HEAD, {"question": question, "vote": vote}, limits, token)


def about(ballot: Ballot) -> str:
    """The run that is voted on, and the use of the votes, for the page's head."""
    purpose = (
        "Your votes can teach the next run."
        if ballot.part == "train"
        else "Your votes tell how good its players and judges are; nothing is trained on them."
    )
    prompts = PROMPTS[ballot.part]
    return f"You compare answers of the run “{clean(ballot.title)}” to {prompts}. {purpose}"


def place(ref: AnswerRef) -> dict[str, str]:
    return {"match": ref.match, "seat": ref.seat}


def vote(
    folder: Path,
    *,
    part: str = "",
    overlap: float = 0.1,
    host: str = "127.0.0.1",
    port: int = 8010,
    token: str | None,
    trust: bool = False,
    announce: Callable[[str], None] = lambda address: None,
) -> int:
    """Have people vote on a run's answers, on a page, until Ctrl-C or SIGTERM; the votes it has
    then.

    part, overlap, trust: as of `open_ballot`; token: None is for this machine alone; announce: is
    called with the page's address. Raises as `open_ballot`, and ConfigError where the port is
    taken.
    """
    with open_ballot(folder, part, overlap, trust) as ballot:
        serve_page(vote_app(ballot, PAGE_LIMITS, token), host, port, token, announce)
        ballot.record()
        return ballot.count()
