"""Splitting prompts: disjoint parts, a held-out part that training never sees, and what is said of
too few.
"""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.errors import DataError
from equipoise.prompts.base import Blank, PromptSource, Shuffle
from equipoise.prompts.prompt_files import Files
from equipoise.prompts.row_prompts import to_prompt
from equipoise.prompts.split import PromptSplit, content, fit_counts, split, split_source
from equipoise.types import Message, Prompt, user


def prompts(*texts: str):
    return [to_prompt(text, "", "") for text in texts]


def numbered(count: int):
    return prompts(*(f"prompt {i}" for i in range(count)))


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([f"{word}{i}" for word in "abAB " for i in range(12)])),
    st.integers(0, 9),
    st.booleans(),
)
def test_parts_are_disjoint_and_nothing_is_lost(texts, seed, reuse):
    pool = prompts(*texts)
    try:
        result = split(
            PromptSource(pool), generations=3, per_generation=4, held_out=5, seed=seed, reuse=reuse
        )
    except DataError:
        distinct = {content(prompt) for prompt in pool}
        assert len(distinct) < 5 + (1 if reuse else 12) or len({p.id for p in pool}) > len(distinct)
        return
    size = len(result.parts[0])
    assert size == 4 or (reuse and size < 4)
    assert [len(part) for part in result.parts] == [size] * 3
    assert len(result.held_out) == 5
    kept_apart = {content(prompt) for prompt in result.held_out}
    assert not kept_apart & {content(prompt) for part in result.parts for prompt in part}
    ids = [prompt.id for part in result.parts for prompt in part]
    assert reuse or len(set(ids)) == 12
    assert all(len({prompt.id for prompt in part}) == size for part in result.parts)


def test_the_order_of_the_rows_does_not_matter_but_the_seed_does():
    pool = numbered(50)
    asked = {"generations": 2, "per_generation": 10, "held_out": 10}
    first = split(PromptSource(pool), seed=1, **asked)
    assert first == split(PromptSource(pool[::-1]), seed=1, **asked)
    assert first.parts != split(PromptSource(pool), seed=2, **asked).parts


def test_duplicates_and_empty_prompts_are_dropped_and_counted():
    pool = [*numbered(6), *numbered(2), *prompts("", "  \n")]
    result = split(PromptSource(pool), generations=1, per_generation=4, held_out=2, seed=0)
    assert result.dropped == {"duplicate": 2, "empty": 2}


def test_an_own_held_out_part_is_kept_apart_by_content():
    pool = prompts("one", "TWO\n words ", "three", "four")
    own = prompts("two  words", "Three", "five")
    result = split(PromptSource(pool, own), generations=1, per_generation=2, held_out=2, seed=0)
    assert {prompt.messages[0].content for prompt in result.parts[0]} == {"one", "four"}
    assert len(result.held_out) == 2
    assert result.dropped == {"in_held_out": 2}


def test_every_turn_has_an_order_of_its_own():
    asked = {"generations": 3, "per_generation": 20, "held_out": 0, "seed": 0}
    parts = split(PromptSource(numbered(20)), reuse=True, **asked).parts
    orders = {tuple(prompt.id for prompt in part) for part in parts}
    assert len(orders) == 3
    assert len({frozenset(order) for order in orders}) == 1


def test_reuse_plays_every_prompt_before_any_again():
    pool = numbered(10)
    result = split(
        PromptSource(pool), generations=5, per_generation=4, held_out=0, seed=0, reuse=True
    )
    plays = [prompt.id for part in result.parts for prompt in part]
    assert sorted(plays.count(prompt.id) for prompt in pool) == [2] * 10
    assert len({tuple(prompt.id for prompt in part) for part in result.parts}) == 5


def test_a_part_over_the_end_of_a_turn_holds_no_prompt_twice():
    asked = {"generations": 4, "per_generation": 4, "held_out": 0, "reuse": True}
    for seed in range(10):  # a turn's order may well begin with what the part holds
        for part in split(PromptSource(numbered(5)), seed=seed, **asked).parts:
            assert len({prompt.id for prompt in part}) == 4


def test_parts_are_dealt_alike_in_any_order():
    asked = {"generations": 9, "per_generation": 4, "held_out": 2, "seed": 3, "reuse": True}
    forth, back = (split(PromptSource(numbered(13)), **asked) for _ in range(2))
    assert [back.parts[t] for t in range(8, -1, -1)] == list(forth.parts)[::-1]
    assert forth.parts[-2:] == [forth.parts[7], forth.parts[8]]
    assert len(forth.parts) == 9
    assert forth.count == 36
    assert {p.id for p in forth.training} == {prompt.id for part in forth.parts for prompt in part}
    with pytest.raises(IndexError):
        forth.parts[9]


@pytest.mark.parametrize("reuse", [True, "same"])
def test_a_generation_plays_all_there_are_where_these_are_few(reuse):
    pool = numbered(7)
    result = split(
        PromptSource(pool), generations=3, per_generation=1000, held_out=2, seed=0, reuse=reuse
    )
    ids = {prompt.id for prompt in pool} - {prompt.id for prompt in result.held_out}
    assert [{prompt.id for prompt in part} for part in result.parts] == [ids] * 3


def test_the_same_prompts_in_every_generation():
    asked = {"generations": 4, "per_generation": 3, "held_out": 2, "seed": 5}
    result = split(PromptSource(numbered(40)), reuse="same", **asked)
    fresh = split(PromptSource(numbered(40)), reuse=False, **asked)
    assert result.parts == [fresh.parts[0]] * 4
    assert result.held_out == fresh.held_out


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"generations": 3, "per_generation": 4}, "need 12, but 8 are there, 2 held out"),
        (
            {"generations": 3, "per_generation": 9, "reuse": True, "held_out": 10},
            "0 are there, 10 held out",
        ),
        (
            {"generations": 1, "per_generation": 1, "held_out": 20},
            "need 1, but 0 are there, 10 held out",
        ),
    ],
)
def test_too_few_prompts(asked, words):
    with pytest.raises(DataError) as caught:
        split(PromptSource(numbered(10)), **{"held_out": 2, "seed": 0, **asked})
    assert words in str(caught.value)
    assert ("prompts.reuse" in str(caught.value)) is not asked.get("reuse", False)


@pytest.mark.parametrize("own", [[], prompts(" ")])
def test_an_empty_held_out_part(own):
    with pytest.raises(DataError, match="held-out part is empty"):
        split(PromptSource(numbered(9), own), generations=1, per_generation=1, held_out=1, seed=0)
    assert (
        split(
            PromptSource(numbered(9), own), generations=1, per_generation=1, held_out=0, seed=0
        ).held_out
        == []
    )


def test_a_leak_is_caught():
    good = split(PromptSource(numbered(9)), generations=2, per_generation=3, held_out=3, seed=0)
    with pytest.raises(AssertionError, match="generation 1 would train on held-out"):
        dataclasses.replace(
            good, held_out=prompts(good.parts[1][0].messages[0].content.upper())
        ).check()
    with pytest.raises(AssertionError, match="twice"):
        PromptSplit([good.parts[0], good.parts[0]], []).check()
    PromptSplit([good.parts[0], good.parts[0]], []).check(reuse=True)


def test_blanks_are_distinct_and_last_for_ever():
    source = Blank(per_generation=3, held_out=2)
    loaded = source.load()
    result = split(loaded, generations=4, per_generation=3, held_out=2, seed=0, reuse=source.reuse)
    assert [len(part) for part in result.parts] == [3] * 4
    assert len(result.held_out) == 2
    every = [*loaded.training, *result.held_out]
    assert len({prompt.id for prompt in every}) == 5
    assert len({prompt.facts["number"] for prompt in every}) == 5  # all that tells a game of them
    assert all(prompt.messages == () for prompt in loaded.training)


def texts(part):
    return sorted(prompt.messages[0].content for prompt in part)


def test_a_test_is_drawn_from_training_after_the_held_out_part():
    without = split(PromptSource(numbered(30)), generations=2, per_generation=5, held_out=6, seed=3)
    result = split(
        PromptSource(numbered(30)), generations=2, per_generation=5, held_out=6, test=4, seed=3
    )
    assert result.held_out == without.held_out
    assert without.test == []
    assert len(result.test) == 4
    parts = [*result.parts, result.held_out, result.test]
    assert len({content(prompt) for part in parts for prompt in part}) == 20


def test_a_test_of_its_own_is_kept_out_of_training_and_of_the_held_out_part():
    source = PromptSource(
        prompts("one", "TWO", "three", "four"),
        prompts("Two", "FOUR", "five"),
        prompts("four ", "six"),
    )
    result = split(source, generations=1, per_generation=2, held_out=9, test=9, seed=0)
    assert (texts(result.parts[0]), texts(result.held_out), texts(result.test)) == (
        ["one", "three"],
        ["Two", "five"],
        ["four ", "six"],
    )
    assert result.dropped == {"in_held_out": 1, "in_test": 1, "held_out_in_test": 1}
    unused = split(source, generations=1, per_generation=2, held_out=9, seed=0)
    assert unused.test == []
    assert unused.parts == result.parts


def test_an_own_part_and_a_drawn_one():
    pool = numbered(20)
    for source in (PromptSource(pool, pool[:5]), PromptSource(pool, None, pool[:5])):
        result = split(source, generations=2, per_generation=5, held_out=5, test=5, seed=0)
        own = result.held_out if source.held_out else result.test
        assert texts(own) == texts(pool[:5])
        assert (
            len(
                {content(p) for part in [*result.parts, result.held_out, result.test] for p in part}
            )
            == 20
        )


def test_an_empty_test():
    with pytest.raises(DataError, match=r"prompts\.test is 2"):
        split(
            PromptSource(numbered(9), None, []),
            generations=1,
            per_generation=1,
            held_out=1,
            test=2,
            seed=0,
        )
    pool = numbered(9)
    with pytest.raises(DataError, match=r"held-out part is empty \(2 "):
        split(
            PromptSource(pool, pool[:2], pool[:2]),
            generations=1,
            per_generation=1,
            held_out=1,
            test=2,
            seed=0,
        )


def test_a_leak_of_the_test_is_caught():
    good = split(
        PromptSource(numbered(9)), generations=1, per_generation=3, held_out=3, test=3, seed=0
    )
    with pytest.raises(AssertionError, match="generation 0 would train on test"):
        dataclasses.replace(good, test=good.parts[0][:1]).check()
    with pytest.raises(AssertionError, match="the test would hold held-out"):
        dataclasses.replace(good, test=good.held_out[:1]).check()


def test_texts_that_only_look_otherwise_are_the_same_text():
    plain, wide, spaced = (
        Prompt(str(n), (user(text),))
        for n, text in enumerate(("What is 1?", "\uff37hat is \uff11?", " what  IS 1?"))
    )
    assert content(plain) == content(wide) == content(spaced)
    assert content(plain) != content(Prompt("3", (user("What is 2?"),)))
    system = Message("system", "What is 1?")
    assert content(plain) != content(Prompt("4", (system,)))


def test_prompts_that_were_dropped_are_counted_where_too_few_are_left():
    kept = Files.model_validate({"path": "x", "held_out": 2, "shrink": True})
    with pytest.raises(DataError, match=r"0 are there \(dropped: 2 empty\)"):
        fit_counts(kept, PromptSource(prompts(" ", "\n")), 1)
    with pytest.raises(DataError, match=r"\(dropped: 2 empty\)"):
        split(PromptSource(prompts(" ", "\n")), generations=1, per_generation=1, held_out=1, seed=0)


def test_a_held_out_count_that_is_lowered_says_how_it_can_be_had():
    asked = {"path": "x", "held_out": 30, "shrink": True}
    source = PromptSource(numbered(60))
    fitted, notes = fit_counts(Files.model_validate(asked), source, 3)
    assert (fitted.held_out, fitted.per_generation) == (12, 16)
    assert "prompts.held_out 30 → 12" in notes[0]
    assert notes[1] == (
        "prompts.held_out=30 can be had with prompts.shrink=false and "
        "prompts.per_generation=10 at most"
    )
    exact = Files.model_validate({**asked, "shrink": False, "per_generation": 10})
    result = split_source(source, exact, 3, 0)
    assert (len(result.held_out), [len(part) for part in result.parts]) == (30, [10, 10, 10])
    with pytest.raises(DataError, match="too few prompts"):
        split_source(source, exact.model_copy(update={"per_generation": 11}), 3, 0)
    _, notes = fit_counts(Files.model_validate({**asked, "held_out": 58}), source, 3)
    assert len(notes) == 1, "nothing would be left to train on"


def with_repeats():
    """Nine prompts, three of them twice or with other spaces, and parts that share some of them."""
    pool = prompts(*(f"prompt {i}" for i in range(9)), "prompt 1", "prompt 1", " ", "Prompt  2")
    return PromptSource(pool, prompts("prompt 3", "apart"), prompts("prompt 1", "PROMPT 3", "last"))


def test_repeats_and_overlaps_are_left_out_and_counted():
    asked = {"generations": 1, "per_generation": 6, "held_out": 2, "test": 3, "seed": 0}
    result = split(with_repeats(), **asked)
    assert result.dropped == {"empty": 1, "duplicate": 2, "in_test": 2, "held_out_in_test": 1}
    assert not result.kept


def test_repeats_and_overlaps_are_kept_where_that_is_asked_for_and_counted():
    asked = {"generations": 1, "per_generation": 12, "held_out": 2, "test": 3, "seed": 0}
    result = split(with_repeats(), repeats="keep", **asked)
    assert result.dropped == {"empty": 1}
    assert result.kept == {"duplicate": 2, "in_held_out": 1, "in_test": 4, "held_out_in_test": 1}
    texts = sorted(prompt.messages[-1].content for prompt in result.parts[0])
    assert texts.count("prompt 1") == 3
    assert len(texts) == 12
    assert len({prompt.id for prompt in result.parts[0]}) == 12, "a repeat is a prompt of its own"


def test_of_kept_repeats_some_may_be_held_out_and_that_is_counted():
    pool = prompts(*["the same"] * 8)
    asked = {"generations": 2, "per_generation": 3, "held_out": 2, "seed": 0}
    result = split(PromptSource(pool), repeats="keep", **asked)
    assert result.kept == {"duplicate": 7, "in_held_out": 6}
    with pytest.raises(DataError, match="7 duplicate"):
        split(PromptSource(pool), **asked)


def test_what_a_source_left_out_is_counted_with_the_rest():
    source = PromptSource(numbered(4), dropped={"too_long": 3})
    result = split(source, generations=1, per_generation=2, held_out=1, seed=0)
    assert result.dropped == {"too_long": 3}
    with pytest.raises(DataError, match="3 too_long"):
        split(source, generations=9, per_generation=2, held_out=1, seed=0)


def test_rows_can_be_dealt_as_the_library_datasets_shuffles_them():
    datasets = pytest.importorskip("datasets")
    rows = [Prompt(str(n), (Message("user", f"row {n}"),)) for n in range(12)]
    result = split(
        PromptSource(rows), generations=3, per_generation=4, held_out=0, seed=5, shuffle=Shuffle(42)
    )
    shuffled = datasets.Dataset.from_dict({"n": list(range(12))}).shuffle(seed=42)["n"]
    dealt = [int(prompt.id) for part in result.parts for prompt in part]
    assert dealt == list(shuffled)
