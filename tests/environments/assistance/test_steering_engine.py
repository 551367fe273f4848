"""A steered model: what is asked of it, what goes on from where, and what a client sees."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from equipoise.environments.assistance.blocks import parse, write
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, write_matrix
from equipoise.environments.assistance.steering import Steering
from equipoise.environments.assistance.steering_engine import SteeringEngine
from equipoise.environments.assistance.steering_extension import client_steering
from equipoise.serve.detokenizer import StopTexts
from equipoise.serve.engine import EngineRequest, Piece, Refused
from equipoise.types import Message, user

# Without steering the largest sum and product is DQ_DA's; a subscription makes long answers dear
# for the model.
MATRIX = {
    "DQ_AQ": Cell(2.0, 1.0),
    "DQ_CQ": Cell(1.0, 2.5),
    "DQ_DA": Cell(3.0, 2.0),
    "VQ_AQ": Cell(1.0, 0.5),
    "VQ_CQ": Cell(1.5, 1.0),
    "VQ_DA": Cell(0.5, 0.5),
}
SAYS = {"AQ": "19. Anything else?", "CQ": "Plus what?", "DA": "19"}
COSTS = {
    "kind": "costs",
    "llm": {"DA": 4.0, "AQ": 4.0, "CQ": 0.0},
    "user": {"DA": 0.0, "AQ": 0.0, "CQ": 0.0},
}
QUESTION = EngineRequest(
    (Message("system", "be brief"), user("What is 7 + 12?")), seed=5, max_tokens=1000
)


def model(asked: EngineRequest) -> str:
    """A model that writes four blocks; begun, it goes on with the outcome that <analyze> names."""
    if not asked.prefix:
        return write(
            "DQ: both numbers are there.", MATRIX, "Front: DQ_DA. Choose DQ_DA.", SAYS["DA"]
        )
    cell = parse(f"{asked.prefix}</analyze>").chosen
    rest = "" if "<analyze>" in asked.prefix else "<analyze>Choose DQ_DA."
    return f"{rest}</analyze><response>{SAYS[(cell or 'DQ_DA')[3:]]}</response>"


class Scripted:
    """An engine that says what `says` does, in pieces of one token each, of lengths drawn by
    `cuts`.
    """

    def __init__(
        self, says: Callable[[EngineRequest], str] = model, cuts: int = 0, error: str = ""
    ) -> None:
        self.says, self.asked, self.closed, self.error = says, [], 0, error
        self._dice = np.random.default_rng(cuts)

    async def generate(self, asked: EngineRequest) -> AsyncGenerator[Piece, None]:
        self.asked.append(asked)
        text, stops, left = self.says(asked), StopTexts(asked.stop), asked.max_tokens
        try:
            while text and left > 0:
                cut = int(self._dice.integers(1, 12))
                said, stopped = stops.add(text[:cut])
                text, left = text[cut:], left - 1
                if stopped:
                    yield Piece(said, "stop", 1)
                    return
                yield Piece(said, tokens=1)
                await asyncio.sleep(0)
            if self.error:
                yield Piece(finish="error", error=self.error)
            else:
                yield Piece(stops.end(), "length" if text else "stop")
        finally:
            self.closed += 1

    async def count(self, messages: Sequence[Message], prefix: str = "", tools=()) -> int | None:
        return sum(len(message.content) for message in messages)

    async def close(self) -> None:
        self.closed += 1


def steering(**settings: Any) -> Steering:
    return Steering.model_validate(settings)


def answered(
    engine: Scripted, how: Steering, asked: EngineRequest = QUESTION, *, report: bool = True
) -> list[Piece]:
    async def go() -> list[Piece]:
        return [piece async for piece in SteeringEngine(engine, how, report=report).generate(asked)]

    return asyncio.run(go())


def text(pieces: list[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


def facts(pieces: list[Piece]) -> dict[str, Any]:
    return dict(pieces[-1].fields["equipoise"])


@pytest.mark.parametrize("cuts", range(20))
def test_the_answer_goes_on_from_the_edited_matrix(cuts: int):
    engine = Scripted(cuts=cuts)
    pieces = answered(engine, steering(pricing=COSTS, by="sum"))
    found = facts(pieces)
    assert text(pieces) == "Plus what?"
    assert pieces[-1].finish == "stop"
    assert found["chosen"] == "DQ_CQ"
    first, second = engine.asked
    assert first.prefix == ""
    assert set(first.stop) == {"</payoff>", "</response>"}
    edited = {
        name: Cell(*((cell.user, cell.llm - 4.0) if name[3:] != "CQ" else cell))
        for name, cell in MATRIX.items()
    }
    assert second.prefix == (
        f"<thinking>DQ: both numbers are there.</thinking><payoff>{write_matrix(edited)}</payoff>"
        "<analyze>Front: DQ_CQ, DQ_DA, VQ_CQ. Choose DQ_CQ."
    )
    assert found["steered"]
    assert found["written"]["DQ_DA"] == {"LLM": 2.0, "user": 3.0}
    assert found["edited"]["DQ_DA"]["LLM"] == pytest.approx(-2.0)
    assert found["faults"] == []
    assert found["thinking"] == "DQ: both numbers are there."
    assert found["analyze"].endswith("Choose DQ_CQ.")
    assert engine.closed == 2


def test_nothing_hidden_is_seen_and_no_report_comes_unasked():
    pieces = answered(Scripted(), steering(pricing=COSTS), report=False)
    assert all(not piece.fields for piece in pieces)
    assert not any("<" in piece.text for piece in pieces)
    assert [piece.finish for piece in pieces[:-1]] == [None] * (len(pieces) - 1)


def test_a_levelled_matrix_keeps_each_sides_largest_pay_off():
    engine = Scripted()
    costs = {"kind": "costs", "llm": dict.fromkeys(("DA", "AQ", "CQ"), 4.0), "user": {"CQ": 1.0}}
    found = facts(answered(engine, steering(pricing=costs, by="sum", level=True)))
    shown = parse(f"{engine.asked[1].prefix.partition('<analyze>')[0]}").matrix
    assert shown is not None
    assert found["edited"]["DQ_CQ"] == {"LLM": -1.5, "user": 0.0}
    # the constant is gone, not the cost
    assert shown["DQ_CQ"] == Cell(0.0, 2.5)
    assert shown["DQ_DA"] == MATRIX["DQ_DA"]


def test_the_models_own_setting_of_blocks_is_kept():
    engine = Scripted(lambda asked: model(asked).replace("><", ">\n<"))
    answered(engine, steering(pricing=COSTS, by="sum"))
    assert "</thinking>\n<payoff>{" in engine.asked[1].prefix
    assert "}</payoff>\n<analyze>" in engine.asked[1].prefix


def test_the_lead_may_open_the_response_itself():
    engine = Scripted(lambda asked: "us what?</response>" if asked.prefix else model(asked))
    lead = "{cell} it is.</analyze><response>Pl"
    assert text(answered(engine, steering(pricing=COSTS, by="sum", lead=lead))) == "Plus what?"


@pytest.mark.parametrize(
    "question, thinking, chosen",
    [
        ("any", "VQ: a number is missing.", "DQ_DA"),
        ("written", "VQ: a number is missing.", "VQ_CQ"),
        ("written", "The question is vague.", "VQ_CQ"),
        ("written", "DQ or VQ? Who knows.", "DQ_DA"),
        ("VQ", "DQ: both numbers are there.", "VQ_CQ"),
    ],
)
def test_outcomes_may_be_those_of_one_type_of_question(question: str, thinking: str, chosen: str):
    engine = Scripted(lambda asked: model(asked).replace("DQ: both numbers are there.", thinking))
    assert facts(answered(engine, steering(by="sum", question=question)))["chosen"] == chosen


def test_asked_anew_the_model_is_told_the_outcome():
    def says(asked: EngineRequest) -> str:
        return (
            "Plus what?" if "The outcome chosen is" in asked.messages[-1].content else model(asked)
        )

    engine = Scripted(says)
    pieces = answered(engine, steering(pricing=COSTS, by="sum", mode="reask"))
    assert text(pieces) == "Plus what?"
    assert facts(pieces)["chosen"] == "DQ_CQ"
    assert facts(pieces)["thinking"]
    told = engine.asked[1].messages[-1].content
    assert told.startswith("What is 7 + 12?")
    assert "DQ_CQ: ask the one question" in told
    assert '"DQ_DA":{"LLM":-2.0' in told
    assert engine.asked[1].prefix == ""
    assert engine.asked[1].messages[0].content == "be brief"


def test_asked_anew_a_model_may_still_write_blocks():
    engine = Scripted(lambda asked: model(replace(asked, prefix="")))
    assert text(answered(engine, steering(mode="reask"))) == "19"


def test_stripped_the_model_chooses_by_itself():
    engine = Scripted()
    pieces = answered(engine, steering(mode="strip"))
    assert text(pieces) == "19"
    assert len(engine.asked) == 1
    found = facts(pieces)
    assert not found["steered"]
    assert found["chosen"] == "DQ_DA"
    assert found["written"]["DQ_DA"]["user"] == 3.0


def test_off_a_model_without_blocks_answers_as_it_does():
    engine = Scripted(lambda asked: " It is 19.\n")
    pieces = answered(engine, steering(mode="off"), replace(QUESTION, stop=("9",), prefix=" "))
    assert text(pieces) == " It is 1"
    assert engine.asked == [replace(QUESTION, stop=("9",), prefix=" ")]


@pytest.mark.parametrize("broken", ["not JSON", '{"DQ_DA": 1}'])
def test_an_unreadable_matrix_is_gone_on_from_without_steering_and_said(broken: str):
    engine = Scripted(lambda asked: model(asked).replace(write_matrix(MATRIX), broken))
    pieces = answered(engine, steering(pricing=COSTS))
    assert text(pieces) == "19"
    assert engine.asked[1].prefix.endswith(f"<payoff>{broken}</payoff>")
    assert not facts(pieces)["steered"]
    assert "<payoff>" in facts(pieces)["why"]
    assert facts(pieces)["chosen"] == "DQ_DA"
    failed = answered(engine, steering(pricing=COSTS, unreadable="error"))
    assert failed[-1].finish == "error"
    assert "cannot be steered: <payoff>" in failed[-1].error
    assert not text(failed)


def test_a_pay_off_too_large_to_reckon_with_is_not_steered_by():
    vast = write_matrix(MATRIX).replace("3.0", "1e299", 1)
    pieces = answered(
        Scripted(lambda asked: model(asked).replace(write_matrix(MATRIX), vast)),
        steering(pricing=COSTS),
    )
    assert text(pieces) == "19"
    assert "too large" in facts(pieces)["why"]


def test_a_response_before_the_matrix_is_seen_at_once_and_not_steered():
    engine = Scripted(
        lambda asked: "<thinking>quick</thinking><response>19</response><payoff>{}</payoff>"
    )
    pieces = answered(engine, steering(pricing=COSTS))
    assert text(pieces) == "19"
    assert len(engine.asked) == 1
    assert "before a matrix" in facts(pieces)["why"]


def test_a_model_that_writes_no_blocks_gives_its_text_or_an_error():
    def says(asked: EngineRequest) -> str:
        return "It is 19."

    for mode in ("prefix", "strip", "reask"):
        assert text(answered(Scripted(says), steering(mode=mode))) == "It is 19."
        last = answered(Scripted(says), steering(mode=mode, unopened="error"))[-1]
        assert last.finish == "error"
        assert "<response>" in last.error
        assert not last.text


def test_hidden_tokens_count_and_an_answer_used_up_by_them_is_empty():
    engine = Scripted()
    pieces = answered(engine, steering(pricing=COSTS), replace(QUESTION, max_tokens=10))
    assert text(pieces) == ""
    assert pieces[-1].finish == "length"
    assert sum(piece.tokens for piece in pieces) == 10
    assert "before its matrix" in facts(pieces)["why"]
    assert facts(pieces)["thinking"] is None
    spent = sum(piece.tokens for piece in answered(engine, steering(pricing=COSTS)))
    assert engine.asked[-1].max_tokens < 1000
    assert spent < 1000
    short = answered(
        Scripted(),
        steering(pricing=COSTS),
        replace(QUESTION, max_tokens=engine.asked[1].max_tokens // 20),
    )
    assert short[-1].finish in ("length", "stop")


def test_a_failure_of_the_model_is_passed_on():
    engine = Scripted(lambda asked: "<thinking>hm", error="the model failed")
    assert answered(engine, steering(pricing=COSTS))[-1].error == "the model failed"


def test_the_clients_stop_ends_the_answer_and_the_work_on_it():
    engine = Scripted(
        lambda asked: model(asked).replace("both", "END both").replace("19", "one END two " * 100)
    )
    pieces = answered(engine, steering(), replace(QUESTION, stop=("END",)))
    assert text(pieces) == "one"
    assert pieces[-1].finish == "stop"
    assert engine.closed == 2


def test_closing_the_answer_closes_the_engines():
    engine = Scripted(lambda asked: model(asked).replace("19", "nineteen " * 1000))

    async def go() -> None:
        answer = SteeringEngine(engine, steering(by="sum")).generate(QUESTION)
        async for piece in answer:
            if piece.text:
                break
        await answer.aclose()

    asyncio.run(go())
    assert engine.closed == 2
    assert engine.asked[1].prefix


def test_the_games_own_text_asks_for_the_blocks():
    engine = Scripted()
    how = steering(text="assistance_compact", mode="strip")
    answered(engine, how)
    assert engine.asked[0].messages[-1].content.startswith("Answer in four blocks")
    shown = len(engine.asked[0].messages[-1].content) + len("be brief")
    count = asyncio.run(SteeringEngine(engine, how).count(QUESTION.messages))
    assert count == shown


def test_a_begun_answer_cannot_be_steered():
    with pytest.raises(Refused, match="begun"):
        answered(Scripted(), steering(), replace(QUESTION, prefix="It"))


def test_ties_are_drawn_by_the_seed_alone():
    even = write_matrix(dict.fromkeys(CELLS, Cell(1.0, 1.0)))
    engine = Scripted(lambda asked: model(asked).replace(write_matrix(MATRIX), even))

    def chosen(seed: int) -> str:
        return facts(
            answered(engine, steering(by="product_released"), replace(QUESTION, seed=seed))
        )["chosen"]

    drawn = [chosen(seed) for seed in range(12)]
    assert len(set(drawn)) > 1
    assert drawn == [chosen(seed) for seed in range(12)]


def test_a_clients_wish_names_a_pricing_or_settings_of_one():
    base = steering(lead="Take {cell}.", text="assistance_compact")
    assert client_steering("subscription", base).pricing.kind == "subscription"
    assert client_steering("subscription", base).lead == base.lead
    assert client_steering("strip", base).mode == "strip"
    assert client_steering("off", base).mode == "off"
    assert client_steering(COSTS, base).pricing.kind == "costs"
    mine = client_steering({"pricing": COSTS, "by": "sum", "question": "written"}, base)
    assert (mine.by, mine.question, mine.pricing.kind, mine.text) == (
        "sum",
        "written",
        "costs",
        "assistance_compact",
    )
    assert client_steering({"by": {"kind": "ces", "rho": -2}}, base).by.value(
        1.0, 1.0
    ) == pytest.approx(1.0)
    stripped = steering(mode="strip")
    assert (
        client_steering("per_token", stripped).mode == "prefix"
    )  # who names a pricing wants to be steered


@pytest.mark.parametrize(
    "wish, words",
    [
        ("subscripton", "did you mean 'subscription'"),
        ("os:system", "unknown"),
        ({"kind": "os:system"}, "unknown"),
        ({"pricing": {"kind": "os:system"}}, "unknown"),
        ({"text": "/etc/passwd"}, "text"),
        ({"again": "/etc/passwd"}, "again"),
        ({"lead": "x" * 10}, "lead"),
        ({"pricing": COSTS | {"llm": {"DA": "much"}}}, "llm"),
        (7, "steering"),
        ({"by": "os:system"}, "unknown"),
        ({"by": "goodness"}, "unknown choice"),
        ({"by": {"kind": "os:system"}}, "unknown"),
        ({"kind": "per_token", "price": 1e308}, "too large"),
        ({"kind": "latency", "speed": 1e-300}, "too small"),
    ],
)
def test_a_wish_that_cannot_be_is_refused_in_one_line(wish: Any, words: str):
    with pytest.raises(Refused, match=words) as caught:
        client_steering(wish, steering())
    assert caught.value.param == "steering"
    assert "\n" not in str(caught.value)


def test_a_lead_names_the_outcome():
    with pytest.raises(ValidationError, match="cell"):
        steering(lead="Choose wisely.")
