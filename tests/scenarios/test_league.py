"""A league of different players and judges, played for real: two learners, a frozen one, judges of
three kinds.
"""

import json
import shutil
from collections import defaultdict

import pytest
import yaml

from equipoise.cli.rate import judge, rate
from equipoise.data.opponent_logprobs import text_key
from equipoise.errors import ConfigError, UserError
from equipoise.ledger.ledger import MEETING
from equipoise.planning.new_run import new_run
from equipoise.players.population import Population
from equipoise.runs import recipe_loader
from equipoise.runs.arena import RunArena
from equipoise.runs.contexts import match_context
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.runs.rate_players import duels
from equipoise.types import PlayerId

pytestmark = pytest.mark.long  # they share a whole run


TINY = {
    "kind": "local",
    "model": "builtin",
    "max_length": 256,
    "max_new_tokens": 12,
    "lora": {"r": 2, "alpha": 4},
}
GRADER = {"kind": "scripted", "call": "scripted_models:by_length"}
COMPARER = {"kind": "scripted", "call": "scripted_models:prefers_longer"}
VALUES = {
    "generations": 1,
    "players": {
        "alice": {**TINY, "learns": True},
        "bob": {**TINY, "learns": True},
        "carol": {"kind": "scripted", "texts": ["The vet can show you.", "12", "Plus what?"]},
    },
    "prompts": {
        "kind": "clerk_questions",
        "count": 40,
        "per_generation": 8,
        "held_out": 6,
        "test": 5,
    },
    "game": {"kind": "answers", "samples": 2},
    "schedule": {"kind": "sparta", "k": 1},
    "judge": {"kind": "rubric", "model": GRADER},
    "judges": {"bob": "shorter"},
    "training_ratings": "elo",
    "training_matches": "own",
    "loss": {"kind": "mnpo", "against": "peers"},
    "learner": {"kind": "preference", "batch_size": 4, "learning_rate": 1e-3},
    "evaluate": {"kind": "held_out", "samples": 2},
}


def play(values: dict, folder) -> None:
    with new_run(recipe_loader.build(values, "test"), folder) as run:
        league(OpenRun(run), run.config.generations)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("league") / "run"
    play(VALUES, folder)
    with RunDirectory.read(folder) as run:
        yield run


def test_each_learner_is_taught_by_its_own_judge(played):
    judges = {
        name
        for (name,) in played.ledger.rows(
            "SELECT DISTINCT judge FROM judgements WHERE split = 'train'"
        )
    }
    assert judges == {played.config.judge.name, "shorter"}
    for name, whose in (("alice", played.config.judge.name), ("bob", "shorter")):
        taught = played.ledger.pairs(0, PlayerId(name))
        assert taught
        words = played.ledger.judgements_of((pair.match for pair in taught), whose)
        for pair in taught:
            scores = {found["score"] for found in words[pair.match].scores.values()}
            assert {pair.chosen_score, pair.rejected_score} == scores


def test_a_learner_is_taught_by_matches_that_it_sat_in(played):
    matches = {match.id: match for match in played.ledger.matches("train", 0)}
    for name in ("alice", "bob"):
        pairs = played.ledger.pairs(0, PlayerId(name))
        assert all(PlayerId(name) in matches[pair.match].seats.values() for pair in pairs)


def test_the_votes_of_a_rubric_are_kept(played):
    matches = played.ledger.matches("train", 0)
    for word in played.ledger.judgements_of(
        (m.id for m in matches), played.config.judge.name
    ).values():
        assert {vote.seat for vote in word.votes} == {"1", "2"}
        assert all(vote.by == played.config.judge.name for vote in word.votes)


def test_peers_are_each_others_opponents(played):
    """Each answer was weighed by the other learner, and by nobody else where it taught one only."""
    weighed = defaultdict(set)
    for name, other in (("alice", "bob@0"), ("bob", "alice@0")):
        for pair in played.ledger.pairs(0, PlayerId(name)):
            for text, cut in ((pair.chosen, pair.chosen_cut), (pair.rejected, pair.rejected_cut)):
                weighed[text_key(pair.messages, text, cut)].add(other)
    known = defaultdict(set)
    for key, player in played.ledger.rows("SELECT text, player FROM logprobs"):
        known[key].add(player)
    assert known == weighed
    assert {"alice@0"} in known.values()
    assert {"bob@0"} in known.values()


def test_the_standing_rates_everybody_who_met(played):
    ((_, _, _, facts, _),) = played.ledger.stages("rate")
    met = duels(played.ledger, played.config.judge.name, 0, "score")
    assert facts["duels"] == len(met) == 8
    assert {rating["name"] for rating in facts["ratings"]} == {
        name for duel in met for name in duel[:2]
    }


def test_every_gap_is_by_the_learners_own_judge(played):
    found = played.ledger.stage_facts("1/measure")
    assert found["judges"] == {"alice@1": played.config.judge.name, "bob@1": "shorter"}
    assert found["gap"].keys() == {"alice@1", "bob@1"}
    assert found["exploitability"] == max(found["gap"].values())
    assert set(found["players"]) == {"alice@0", "alice@1", "bob@0", "bob@1", "carol@0"}
    assert found["score"] == pytest.approx(sum(s["mean"] for s in found["scores"].values()) / 2)


def test_the_best_of_all_generations_is_tested_once(played):
    found = played.ledger.stage_facts("select")
    measured = {
        **played.ledger.stage_facts("0/measure")["scores"],
        **played.ledger.stage_facts("1/measure")["scores"],
    }
    alices = {name: score["mean"] for name, score in measured.items() if name.startswith("alice")}
    assert found["held_out"][found["chosen"]]["mean"] >= max(alices.values())
    assert PlayerId.parse(found["start"]).generation == 0
    tested = {str(p) for match in played.ledger.matches("test") for p in match.seats.values()}
    assert tested == {found["chosen"], found["start"]} == set(found["test"])


def test_a_schedule_knows_what_was_measured_and_rated(played, tmp_path):
    shutil.copytree(played.folder, tmp_path / "run")
    with RunDirectory.open(tmp_path / "run") as run:  # whose turn it is, is recorded
        context = match_context(OpenRun(run), 1)
    assert context.learners == [PlayerId("alice", 1), PlayerId("bob", 1)]
    assert context.players[-1] == PlayerId("carol")
    assert context.ratings.keys() >= {"alice", "bob"}
    assert sum(context.mixture.values()) == pytest.approx(1)
    alice, carol = PlayerId("alice", 1), PlayerId("carol")
    assert context.win_rate[alice, carol] == pytest.approx(1 - context.win_rate[carol, alice])


def test_a_judge_that_compares_is_shown_answers_beside_each_other(played, tmp_path):
    """The same run, measured by comparisons: its recorded answers are set beside each other, and
    nothing is played.
    """
    folder = tmp_path / "run"
    shutil.copytree(played.folder, folder)
    evaluate = {"kind": "held_out", "samples": 2, "judge": {"kind": "pairwise", "model": COMPARER}}
    with RunDirectory.open(folder) as run:
        run.config = recipe_loader.build({**VALUES, "evaluate": evaluate}, "test")
        before = len([m for m in run.ledger.matches("held_out") if m.game != MEETING])
        arena = RunArena(OpenRun(run))
        measures = run.config.evaluate.measure(arena, 1)
        meetings = [m for m in run.ledger.matches("held_out") if m.game == MEETING]
        assert len(run.ledger.matches("held_out")) - len(meetings) == before
        assert len(meetings) == 10 * 6 * 2
        table = dict(zip(measures.players, measures.payoff, strict=True))
        i, j = (measures.players.index(name) for name in ("alice@1", "carol@0"))
        texts = {m.id: {seat: t.move.text for t in m.turns for seat in [t.seat]} for m in meetings}
        signs = [
            (len(texts[m.id]["1"]) > len(texts[m.id]["2"]))
            - (len(texts[m.id]["1"]) < len(texts[m.id]["2"]))
            for m in meetings
            if m.seats == {"1": PlayerId("alice", 1), "2": PlayerId("carol")}
        ]
        assert len(signs) == 12
        assert table["alice@1"][j] == pytest.approx(sum(signs) / 12)
        assert table["carol@0"][i] == pytest.approx(-sum(signs) / 12)
        assert measures.scores == {}
        with pytest.raises(ConfigError, match="only compares"):
            run.config.evaluate.select(arena, 1)


def test_one_base_serves_every_adapter(played):
    population = Population(played.config.players, played.folder / "players")
    models = set()
    for who in (PlayerId("alice"), PlayerId("alice", 1), PlayerId("bob", 1)):
        with population.actor(who)._model() as model:
            models.add(id(model))
    assert len(models) == 1


def said(capsys, verb, *arguments, **options):
    verb(*arguments, **options, set=[], json=True)
    return json.loads(capsys.readouterr().out)


def test_ratings_are_recomputed_from_the_ledger(played, capsys):
    ((_, _, _, facts, _),) = played.ledger.stages("rate")
    again = said(capsys, rate, played.folder, by="", of="matches", judge="")
    assert again["ratings"] == [facts["ratings"]]
    by_others = said(capsys, rate, played.folder, by="openskill", of="matches", judge="shorter")
    assert {r["name"] for r in by_others["ratings"][0]} == {"alice", "bob", "carol"}
    league = said(
        capsys, rate, played.folder, by="{kind: bradley_terry, prior: 2}", of="league", judge=""
    )
    assert {r["name"] for r in league["ratings"][0]} == set(
        played.ledger.stage_facts("1/measure")["players"]
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"by": "elo", "of": "ladder", "judge": ""}, "--of ladder"),
        ({"by": "elow", "of": None, "judge": ""}, "did you mean 'elo'"),
        ({"by": "{kind: elo, kk: 3}", "of": None, "judge": ""}, "--by: .*unknown key 'kk'"),
        (
            {"by": "elo", "of": "matches", "judge": "nobody"},
            "has no judgements by 'nobody'; known: .*shorter",
        ),
    ],
)
def test_a_wrong_rating_is_one_message(played, options, words):
    with pytest.raises(UserError, match=words):
        rate(played.folder, **options, set=[], json=True)


def test_another_judge_speaks_on_recorded_matches(played, capsys, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(played.folder, folder)
    other = json.dumps({"kind": "pairwise", "model": COMPARER})
    found = said(capsys, judge, folder, by=other, part="train", generation=None)
    assert found["matches"] == 8
    assert found["beside"] == played.config.judge.name
    # The rubric's model and this one both go by length, so wherever both prefer an answer it is the
    # same one.
    assert found["agreement"]["same_winner"]["mean"] == 1
    assert found["report"]["judgements"] == 8
    before = (folder / "ledger.sqlite").stat().st_mtime_ns
    assert said(capsys, judge, folder, by=other, part="train", generation=None) == found
    assert found["scores"].keys() == found["scores_beside"].keys()
    assert (folder / "ledger.sqlite").stat().st_mtime_ns == before
    with pytest.raises(UserError, match="no held-out matches in generation 7"):
        judge(folder, by="shorter", part="held_out", generation=7, set=[], json=True)


MIXED = """
kind: mnpo
against: {history: [0.3, 0.2], peers: {alice: 0.2, bob: 0.1}, reference: 0.1}
"""


def test_past_peers_and_reference_are_opponents_at_once(tmp_path):
    """Two learners for two generations, each against the other and its own past."""
    play({**VALUES, "generations": 2, "loss": yaml.safe_load(MIXED)}, tmp_path / "run")
    with RunDirectory.open(tmp_path / "run") as run:
        scored = {player for (player,) in run.ledger.rows("SELECT DISTINCT player FROM logprobs")}
        assert scored == {"alice@0", "alice@1", "bob@0", "bob@1"}
        loss, roster = run.config.loss, OpenRun(run).roster
        alice, bob = (
            {str(player): weight for player, weight in loss.opponents(roster.opponent_pool(id, 1))}
            for id in (PlayerId("alice", 1), PlayerId("bob", 1))
        )
        assert alice == pytest.approx({"alice@1": 0.3, "alice@0": 0.3, "bob@1": 0.1})
        assert bob == pytest.approx({"bob@1": 0.3, "bob@0": 0.3, "alice@1": 0.2})
