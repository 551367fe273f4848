"""The measures of the assistant's game as the run's report, status and commands show them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Self

from equipoise.blocks.recorded_sections import CardAnswer, CardPart, MatchCard
from equipoise.blocks.section import Section
from equipoise.environments.assistance.blocks import ParsedOutput
from equipoise.environments.assistance.game import ASSISTANT, Assistance, assistant_answers
from equipoise.environments.assistance.moves import moves_section, written_section
from equipoise.environments.assistance.payoff_matrix import ACTIONS, QUESTION_TYPES, cell_name
from equipoise.environments.assistance.record import AssistanceRecord
from equipoise.environments.assistance.welfare_section import (
    QUANTITIES,
    plane_section,
    welfare_section,
)
from equipoise.errors import RunError
from equipoise.evaluation.measures import History, Quantity, Records
from equipoise.types import Judgement, Match, Prompt, Turn


class AssistanceMeasures(AssistanceRecord, frozen=True, kw_only=True, omit_defaults=True):
    """Numbers about one generation of the assistant, with what is shown of them."""

    quantities: ClassVar[tuple[Quantity, ...]] = QUANTITIES
    card_note: ClassVar[str] = (
        "Each of the assistant's answers block by block; the user sees the response "
        "alone. The cell that <analyze> chooses is in brackets. Search for “faults” to "
        "find outputs that are not well-formed."
    )

    def check_beside(self, run: str) -> None:
        """Raises RunError where no prompt has both utilities, so that there is nothing to draw."""
        if not self.points:
            raise RunError(f"{run}: has no prompt with both utilities that could be drawn")

    @classmethod
    def sections(cls, history: History[Self], records: Records) -> Iterable[Section]:
        yield welfare_section(history)
        yield plane_section(history)
        yield moves_section(history)
        yield written_section(history)

    @classmethod
    def card(
        cls, match: Match, prompt: Prompt, judgements: Sequence[Judgement], history: History[Self]
    ) -> MatchCard | None:
        """Every turn in its blocks; of another game nothing of its own."""
        if not isinstance(history.game, Assistance):
            return None
        return match_card(match, prompt, history.game, judgements, history.utility)


def match_card(
    match: Match, prompt: Prompt, game: Assistance, judgements: Sequence[Judgement], utility: str
) -> MatchCard:
    """The card of a match: the question, and every turn; the first judgement gives the scores."""
    outputs = {id(answer.turn): answer.output for answer in assistant_answers(match, prompt, game)}
    last = max((i for i, turn in enumerate(match.turns) if turn.seat == ASSISTANT), default=-1)
    answers = []
    for i, turn in enumerate(match.turns):
        output = None if turn.move.finish == "error" else outputs.get(id(turn))
        notes = [f"ended by {turn.move.finish}"] if turn.move.finish != "stop" else []
        if i == last:
            notes += utility_notes(turn, judgements, utility)
        answers.append(
            CardAnswer(
                str(match.seats[turn.seat]),
                turn.move.text or turn.move.error,
                judgements[0].score(turn.seat, utility) if judgements else None,
                ", ".join(notes),
                () if output is None else output_parts(output),
            )
        )
    return MatchCard(
        match.id,
        match.generation,
        match.split,
        prompt.messages,
        tuple(answers),
        reasons(judgements),
    )


def reasons(judgements: Sequence[Judgement]) -> str:
    if not judgements:
        return "not judged yet"
    if len(judgements) == 1:
        return judgements[0].reason
    return "; ".join(
        f"{judgement.judge}: {judgement.reason}" for judgement in judgements if judgement.reason
    )


def utility_notes(turn: Turn, judgements: Sequence[Judgement], utility: str) -> Iterator[str]:
    for judgement in judgements[:1]:
        utilities = judgement.utilities(turn.seat)
        if "user" in utilities:
            yield f"user {utilities['user']:.4g}"
        if "llm" in utilities:
            yield f"model {utilities['llm']:.4g}"
        yield from (f"move {action}" for action in ACTIONS if utilities.get(action))
        for name, value in utilities.items():
            if name not in ("user", "llm", utility, *ACTIONS):
                title = name.replace("_", " ").replace("llm", "model")
                yield f"{title} {value:.4g}"
    for judgement in judgements[1:]:
        score = judgement.score(turn.seat, utility)
        if score is not None:
            yield f"{judgement.judge}: {utility} {score:.4g}"


def output_parts(output: ParsedOutput) -> tuple[CardPart, ...]:
    """The four blocks, a faulty output's faults and whole text; nothing without blocks."""
    blocks = [
        _block_part(output, name, content)
        for name, content in output.contents.items()
        if content is not None
    ]
    if output.faults:
        faults = CardPart("faults", "; ".join(output.faults))
        return (faults, *blocks, CardPart("the whole output", output.text))
    return tuple(blocks) if output.thinking is not None else ()


def _block_part(output: ParsedOutput, name: str, content: str) -> CardPart:
    if name == "payoff" and output.matrix is not None:
        return CardPart(name, rows=matrix_rows(output))
    if name == "analyze" and output.chosen:
        return CardPart(f"analyze: {output.chosen}", content)
    return CardPart(name, content)


def matrix_rows(output: ParsedOutput) -> tuple[tuple[str, ...], ...]:
    """Either side's pay-offs of a detailed and a vague question; the chosen cell's in brackets."""
    assert output.matrix is not None
    actions = ACTIONS[::-1]
    rows: list[tuple[str, ...]] = [("", *actions)]
    for question in QUESTION_TYPES:
        for side, title in enumerate(("user", "LLM")):
            cells = []
            for action in actions:
                name = cell_name(question, action)
                value = f"{output.matrix[name][side]:g}"
                cells.append(f"[{value}]" if name == output.chosen else value)
            rows.append((f"{question} {title}", *cells))
    return tuple(rows)
