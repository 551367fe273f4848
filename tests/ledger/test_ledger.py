"""The ledger: what is added is there, once; a failed transaction leaves nothing; another version is
refused.
"""

import sqlite3

import pytest

from equipoise.errors import DiskFull, RunError
from equipoise.ledger.ledger import FailedStage, Ledger
from equipoise.models.resources import Spending
from equipoise.types import (
    Episode,
    Judgement,
    Match,
    Move,
    Pair,
    PlayerId,
    Prompt,
    Turn,
    View,
    record_id,
    user,
)

PARTS = "SELECT split, generation, count(*), sum(judged) FROM judgements GROUP BY 1, 2"


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        yield ledger


def match(i: int, generation: int = 0, split: str = "train") -> Match:
    turn = Turn(
        "1",
        View((user(f"question {i}"),)),
        Move(f"answer {i}", token_ids=(1, 2), logprobs=(-0.25, -1.5)),
    )
    return Match(
        record_id(split, i),
        generation,
        split,
        "answers",
        f"p{i}",
        {"1": PlayerId("policy", 2)},
        i,
        (turn,),
    )


def test_records_come_back_as_they_went_in(ledger):
    prompt = Prompt(
        "p1", (user("what? \u2028 </script>"),), {"harmful": False, "answer": "7"}, "clerk"
    )
    judgement = Judgement("j", match(1).id, "exact", {"1": {"score": 1.0}})
    pair = Pair("x", 0, "p1", prompt.messages, "yes", "no", 1.0, 0.0, match(1).id)
    ledger.add_prompts([prompt], "train", 0)
    ledger.add_matches([match(1), match(2, 1)])
    ledger.add_judgements([(match(1), judgement)])
    ledger.add_pairs([pair], PlayerId("policy", 0))
    ledger.add_logprobs(PlayerId("policy", 1), "enc", ["a", "b"], [(-1.25, 3), (-0.5, 1)])
    ledger.add_player(PlayerId("policy", 1), PlayerId("policy", 0), "preference", {"loss": 0.5})
    assert ledger.prompts("train", 0) == [prompt]
    assert ledger.matches("train", 0) == [match(1)]
    assert ledger.matches("train") == [match(1), match(2, 1)]
    assert ledger.judgements_of([match(1).id]) == {match(1).id: judgement}
    assert ledger.pairs(0, PlayerId("policy", 0)) == [pair]
    assert ledger.pairs(0, PlayerId("policy", 1)) == []
    assert ledger.logprobs(PlayerId("policy", 1), "enc", ["b", "c", "a"]) == {
        "a": (-1.25, 3),
        "b": (-0.5, 1),
    }
    assert ledger.logprobs(PlayerId("policy", 1), "other", ["a"]) == {}
    assert ledger.players() == [(PlayerId("policy", 1), "policy@0", "preference", {"loss": 0.5})]


def test_writing_again_inserts_nothing(ledger):
    for _ in range(2):
        ledger.add_matches([match(i) for i in range(700)])
    assert ledger.counts()["matches"] == 700
    assert ledger.recorded_ids("matches", [match(5).id, "absent"]) == {match(5).id}


def test_an_interrupted_transaction_leaves_nothing(ledger):
    with pytest.raises(KeyboardInterrupt), ledger.transaction():
        ledger.add_matches([match(1)])
        raise KeyboardInterrupt
    assert ledger.counts()["matches"] == 0


def test_a_missing_verdict_is_counted_and_never_a_number(ledger):
    ledger.add_matches([match(1), match(2)])
    ledger.add_judgements(
        [
            (match(1), Judgement("j1", match(1).id, "exact", None, "unreadable")),
            (match(2), Judgement("j2", match(2).id, "exact", {"1": {"score": 0.0}})),
        ]
    )
    assert list(ledger.rows(PARTS)) == [("train", 0, 2, 1)]


def test_stages_are_finished_once(ledger):
    assert ledger.stage_facts("0/play") is None
    ledger.finish("0/play", 0, "play", {"matches": 3}, 1.5)
    ledger.finish("0/play", 0, "play", {"matches": 4}, 9.0)
    assert ledger.stage_facts("0/play") == {"matches": 3}
    assert ledger.stages("play") == [("0/play", 0, "play", {"matches": 3}, 1.5)]


def test_another_version_and_other_files_are_refused(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger.create(path).close()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'schema'")
    with pytest.raises(RunError, match=r"another version .* 99"):
        Ledger.open(path)
    with pytest.raises(RunError, match="no ledger here"):
        Ledger.open(tmp_path / "absent.sqlite")
    (tmp_path / "text.sqlite").write_text("hello " * 1000)
    with pytest.raises(RunError, match=r"text\.sqlite"):
        Ledger.open(tmp_path / "text.sqlite")


def test_a_full_disk_is_said_and_loses_nothing(ledger):
    ledger.add_matches([match(1)])
    pages = next(iter(ledger.rows("PRAGMA page_count")))[0]
    list(ledger.rows(f"PRAGMA max_page_count = {pages + 4}"))
    with pytest.raises(DiskFull, match="free some space"):
        ledger.add_matches([match(i) for i in range(5000)])
    assert ledger.matches("train") == [match(1)]


# -- which records are whose


def pair(name: str, generation: int) -> Pair:
    return Pair(name, generation, "p", (user("?"),), "yes", "no", 1.0, 0.0)


def episode(name: str, generation: int) -> Episode:
    return Episode(name, generation, "m", 0, "answer", "g", 0.5, {"score": 0.5})


def test_a_learner_is_taught_its_own_pairs_of_this_generation(ledger):
    one, other = PlayerId("policy", 1), PlayerId("rival", 1)
    ledger.add_pairs([pair("b", 1), pair("a", 1)], one)
    ledger.add_pairs([pair("c", 0)], one)
    ledger.add_pairs([pair("d", 1)], other)
    assert [p.id for p in ledger.pairs(1, one)] == ["b", "a"]
    assert [p.id for p in ledger.pairs(0, one)] == ["c"]
    assert [p.id for p in ledger.pairs(1, other)] == ["d"]
    ledger.add_episodes([episode("y", 1), episode("x", 1)], one)
    ledger.add_episodes([episode("z", 1)], other)
    assert [e.id for e in ledger.episodes(one)] == ["y", "x"]
    assert [e.id for e in ledger.episodes(other)] == ["z"]


def test_a_part_is_of_one_split_and_generation_in_the_order_of_writing(ledger):
    ledger.add_matches([match(3), match(1), match(2, 1)])
    ledger.add_matches([match(7, 0, "held_out")])
    assert ledger.matches("train", 0) == [match(3), match(1)]
    assert ledger.matches("train", 1) == [match(2, 1)]
    assert ledger.matches("train", limit=2) == [match(3), match(1)]
    assert ledger.matches("held_out") == [match(7, 0, "held_out")]


def judgement(name: str, judge: str, value: float | None) -> Judgement:
    scores = None if value is None else {"1": {"score": value}}
    return Judgement(name, match(1).id, judge, scores, "" if scores else "unreadable")


def test_judges_speak_beside_each_other_and_the_newest_counts(ledger):
    ledger.add_matches([match(1)])
    first, second = judgement("j1", "exact", 1.0), judgement("j2", "rubric", None)
    ledger.add_judgements([(match(1), first)])
    ledger.add_judgements([(match(1), second)])
    ids = [match(1).id]
    assert ledger.judgements_of(ids) == {match(1).id: second}
    assert ledger.judgements_of(ids, "exact") == {match(1).id: first}
    assert ledger.judgements_of(ids, "other") == {}
    ledger.add_judgements([(match(1), judgement("j3", "third", 0.5))])
    assert list(ledger.rows(PARTS)) == [("train", 0, 3, 2)]


def test_a_judgement_stays_as_it_was_recorded(ledger):
    ledger.add_matches([match(1)])
    for value in (1.0, 0.0):
        ledger.add_judgements([(match(1), judgement("j1", "exact", value))])
    assert ledger.judgements_of([match(1).id]) == {match(1).id: judgement("j1", "exact", 1.0)}


def test_log_probabilities_are_of_a_player_and_an_encoding(ledger):
    one, other = PlayerId("policy", 1), PlayerId("policy", 2)
    ledger.add_logprobs(one, "b", ["text"], [(-1.0, 2)])
    ledger.add_logprobs(one, "c", ["text"], [(-9.0, 2)])
    assert ledger.logprobs(one, "a", ["text"]) == {}
    assert ledger.logprobs(one, "b", ["text"]) == {"text": (-1.0, 2)}
    assert ledger.logprobs(other, "b", ["text"]) == {}


def test_an_account_pays_for_its_own_replies(ledger):
    def pay(account, charge, text="", key=""):
        request = ledger.reserve(account, Spending(1, 99, 9.0))
        assert ledger.spent(account).unanswered_tokens >= 99
        ledger.settle(request, account, charge, {"text": text}, key)

    pay("alice", Spending(1, 10, 0.5), "a", "1")
    pay("bob", Spending(1, 30, 2.0), "b", "2")
    pay("bob", Spending(1, 7, 1.0))  # it could not be used
    pay("carol", Spending(1, 99, 9.0).without_answer())
    pay("dan", Spending())  # it never left
    assert ledger.accounts() == {
        "alice": Spending(1, 10, 0.5),
        "bob": Spending(2, 37, 3.0),
        "carol": Spending(1, 99, 9.0, 1, 99, 9.0),
    }
    assert (ledger.spent("bob"), ledger.spent("dan")) == (Spending(2, 37, 3.0), Spending())
    assert ledger.reply("2") == {"text": "b"}
    assert ledger.reply("3") is None
    ledger.check_rows()


def test_only_what_may_cost_something_begins_a_run(ledger):
    for charge in (Spending(), Spending(1).without_answer()):
        ledger.settle(ledger.reserve("a", Spending(1, 9)), "a", charge, {"error": "no"})
        assert not ledger.has_begun()
    ledger.reserve("a", Spending(1, 9))
    assert ledger.has_begun()


def test_lines_of_a_stage_are_written_once_with_it(ledger):
    ledger.log("0/learn", {"loss": 2.0})
    assert ledger.metrics() == []
    for stage in ("0/learn", "0/later", "0/early"):
        ledger.finish(stage, 0, "learn", {}, 0.0)
    ledger.log("0/learn", {"loss": 1.0})
    ledger.finish("1/learn", 1, "learn", {}, 0.0)
    ledger.finish("0/learn", 0, "learn", {}, 0.0)
    assert ledger.metrics() == [("0/learn", {"loss": 2.0})]
    assert [s.key for s in ledger.stages()] == [*("0/learn", "0/later", "0/early", "1/learn")]


def test_players_know_where_they_come_from(ledger):
    ledger.add_player(PlayerId("policy", 2), PlayerId("policy", 1), "preference", {})
    ledger.add_player(PlayerId("policy", 0), None, "none", {})
    assert [birth.parent for birth in ledger.players()] == ["policy@1", None]


def test_more_records_than_fit_one_statement_are_found(ledger):
    ledger.add_matches([match(i) for i in range(1203)])
    ids = [match(i).id for i in range(1203)]
    assert ledger.recorded_ids("matches", ids) == set(ids)
    assert len(ledger.matches_of(ids)) == 1203


def test_transactions_within_each_other_are_one(ledger):
    with pytest.raises(KeyboardInterrupt), ledger.transaction():
        with ledger.transaction():
            ledger.add_matches([match(1)])
        raise KeyboardInterrupt
    assert ledger.counts()["matches"] == 0
    assert not ledger.has_begun()
    with ledger.transaction():
        ledger.add_matches([match(1)])
        ledger.add_pairs([pair("a", 0)], PlayerId("policy", 0))
    assert ledger.counts()["matches"] == ledger.counts()["pairs"] == 1


def test_a_stage_that_failed_is_known_with_what_it_had_found(ledger):
    """Though it lacks what a finished one always has; forgotten once the stage is finished."""
    assert ledger.failed_stage() is None
    ledger.fail("0/judge", "judge", "no server", {"answers": 3})
    failed = ledger.failed_stage()
    assert failed == FailedStage("0/judge", "judge", "no server", {"answers": 3})
    ledger.finish("0/judge", 0, "judge", {"answers": 4, "unjudged_share": 0.0}, 1.5)
    assert ledger.failed_stage() is None
    [stage] = ledger.stages()
    assert stage == ("0/judge", 0, "judge", {"answers": 4, "unjudged_share": 0.0}, 1.5)
    ledger.amend("0/judge", new_key="1/judge")
    ledger.amend("1/judge", {"answers": 5, "unjudged_share": 0.5})
    [stage] = ledger.stages()
    assert stage == ("1/judge", 0, "judge", {"answers": 5, "unjudged_share": 0.5}, 1.5)
