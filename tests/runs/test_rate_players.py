"""A generation's matches as ratings read them: who graded one answer only counts for neither, for
the pair and for the reputations alike.
"""

import shutil
from unittest.mock import MagicMock

import msgspec
import pytest

from equipoise.api import rerate as rerate_module
from equipoise.errors import ConfigError
from equipoise.judges.base import Judge
from equipoise.ledger.ledger import FinishedStage, Ledger
from equipoise.ratings.base import Duel, Ratings
from equipoise.ratings.reputation import Reputation, weighted_means
from equipoise.runs import rate_players, recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.open_run import OpenRun
from equipoise.runs.rate_players import duels, rate
from equipoise.types import Judgement, Match, Move, PlayerId, Turn, View, Vote, user

NAMES = ("a", "b", "j1", "j2")
MATCH = Match(
    "m",
    0,
    "train",
    "answers",
    "p",
    {"1": PlayerId("a", 0), "2": PlayerId("b", 0)},
    0,
    tuple(Turn(seat, View((user("?"),)), Move(seat)) for seat in "12"),
)
VOTES = (
    Vote("j1@0", "1", 8.0),
    Vote("j1@0", "2", 8.0),
    Vote("j2@0", "1", 2.0),
    Vote("j2@0", "2", None, reason="the judge's verdict could not be read: Hm."),
)


@pytest.fixture
def ledger(tmp_path):
    with Ledger.create(tmp_path / "ledger.sqlite") as ledger:
        ledger.add_matches([MATCH])
        judgement = Judgement("g", MATCH.id, "peers", None, votes=VOTES)
        ledger.add_judgements([(MATCH, judgement)])
        yield ledger


def test_who_graded_one_answer_moves_no_reputation(ledger):
    (duel,) = duels(ledger, "peers", 0, "score")
    assert duel.scores == {"j1": (8.0, 8.0)}
    ratings = Reputation(resamples=40).training_ratings(NAMES, [[duel]])
    assert {rating.name: rating.value for rating in ratings} == dict.fromkeys(NAMES, 100.0)


def test_as_released_the_unread_judge_counts_five_twice(ledger):
    peers = Judge.build({"kind": "peers", "unreadable": "as_released"})
    (duel,) = duels(ledger, "peers", 0, "score", peers.grades_by_votes)
    assert duel.scores == {"j1": (8.0, 8.0), "j2": (5.0, 5.0)}


def test_nobody_duels_with_itself(ledger):
    own = {"1": PlayerId("a", 0), "2": PlayerId("a", 1)}
    ledger.add_matches([msgspec.structs.replace(MATCH, id="own", seats=own)])
    assert [duel[:2] for duel in duels(ledger, "peers", 0, "score")] == [("a", "b")]


def test_comparisons_count_by_the_scores_that_were_made_of_them(ledger):
    votes = (Vote("pairwise", "1", 0.9, "2"), Vote("pairwise", "2", 0.3, "1"))
    scores = {"1": {"score": 0.8}, "2": {"score": 0.2}}
    judgement = Judgement("c", MATCH.id, "pairwise", scores, votes=votes)
    ledger.add_judgements([(MATCH, judgement)])
    (duel,) = duels(ledger, "pairwise", 0, "score")
    assert duel.scores == {"pairwise": (0.8, 0.2)}


def test_seats_that_a_judge_never_compared_have_not_met(ledger):
    seats = {"1": PlayerId("a"), "2": PlayerId("b"), "3": PlayerId("c")}
    ring = msgspec.structs.replace(MATCH, id="ring", seats=seats)
    votes = (Vote("pairwise", "1", 1.0, "2"), Vote("pairwise", "2", None, "3"))
    scores = {seat: {"score": score} for seat, score in zip("123", (1.0, 0.0, 0.5), strict=True)}
    ledger.add_matches([ring])
    ledger.add_judgements([(ring, Judgement("r", "ring", "pairwise", scores, votes=votes))])
    met = {duel[:2]: duel.scores for duel in duels(ledger, "pairwise", 0, "score")}
    assert met[("a", "b")] == {"pairwise": (1.0, 0.0)}
    assert met[("a", "c")] == met[("b", "c")] == {}


@pytest.mark.long
def test_answers_are_ranked_by_the_reputations_after_all_duels(recorded_folder, tmp_path):
    """SPARTA's pairs: not by those under which the judges voted."""
    shutil.copytree(recorded_folder("pool", generations=1, per_generation=8), tmp_path / "run")
    with RunDirectory.open(tmp_path / "run") as run:
        opened, name = OpenRun(run), run.config.judge.name
        matches = run.ledger.matches("train", 0)
        recorded = run.ledger.judgements_of((match.id for match in matches), name)
        ranked = rate(opened, matches, list(recorded.values()), 0)
        final = {row["name"]: row["value"] for row in run.ledger.stage_facts("0/rate")["ratings"]}
        met = duels(run.ledger, name, 0, "score", run.config.judge.grades_by_votes)
    assert len(ranked) == len(met) == 8
    for judgement, duel in zip(ranked, met, strict=True):
        scores = [judgement.scores[seat]["score"] for seat in ("1", "2")]
        assert scores == pytest.approx(weighted_means(duel.scores, final))
        assert scores != pytest.approx(weighted_means(duel.scores, dict.fromkeys(final, 100.0)))


@pytest.mark.parametrize(("kind", "read"), [("elo", [2]), ("reputation", [0, 1, 2])])
def test_only_what_a_rating_needs_is_read(kind, read, ledger, monkeypatch):
    """Reputations are of all generations; what went before costs the others nothing."""
    asked = []
    monkeypatch.setattr(rate_players, "duels", lambda ledger, judge, t, *_: asked.append(t) or [])
    monkeypatch.setattr(rate_players, "training_ratings", lambda run, t: {})
    run = MagicMock()
    run.config.teachers = {"peers": MagicMock()}
    run.ledger.has_finished.return_value = False
    run.config.training_ratings = Ratings.build({"kind": kind})
    run.config.seed = 0
    run.roster.players.return_value = [PlayerId("a", 0), PlayerId("b", 0)]
    rate(run, [MATCH], [], 2)
    assert asked == read


def test_judgements_are_weighed_by_their_own_judge_after_the_duels(monkeypatch):
    """Two judges; the ratings of every generation are other ones."""
    monkeypatch.setattr(rate_players, "training_ratings", lambda run, t: {"a": 10.0 * t})
    weighed = {"kind": MagicMock(), "strict": MagicMock()}
    for name, judge in weighed.items():
        judge.reweigh = lambda judgement, ratings, name=name: (name, judgement.id, ratings)
    run = MagicMock()
    run.config.teachers = weighed
    run.roster.players.return_value = [PlayerId("a", 4)]
    judgements = [Judgement(f"j{n}", "m", name, None) for n, name in enumerate(("strict", "kind"))]
    after = {"a": 50.0}
    assert rate(run, [MATCH], judgements, 4) == [("strict", "j0", after), ("kind", "j1", after)]


def test_ratings_anew_stand_at_their_generation_where_the_first_was_not_played(monkeypatch):
    """Its pairs were the data's; the places of the list are generations."""
    met = {1: [Duel("a", "b", {"peers": (1.0, 0.0)})]}
    monkeypatch.setattr(rerate_module, "duels", lambda ledger, judge, t, *_: met.get(t, []))
    stages = {
        name: [FinishedStage(f"1/{name}", 1, name, {"judge": "peers"}, 0.0)]
        for name in ("judge", "play")
    }
    run = MagicMock()
    run.ledger.stages = stages.get
    run.config.players, run.config.learning, run.config.seed = ("a", "b"), (), 0
    rerating = rerate_module.rerate(run, Ratings.build("bradley_terry"), "matches", "peers")
    assert [[rating.name for rating in rated] for rated in rerating.ratings] == [[], ["a", "b"]]


PANEL = "judge={kind: panel, how: mean, standardise: true, judges: {peers: peers, right: clerk}}"
UNFIT = {
    "panel": ([PANEL], "training_ratings: 'reputation' needs .* judge 'panel' scores otherwise"),
    "rule": (
        ["judge=clerk"],
        "training_ratings: 'reputation' needs .* judge 'clerk' scores otherwise",
    ),
    "gated peers": (
        ["judge={kind: gated, judge_of_answers: {kind: peers, text: rubric_compact}}"],
        "judge 'gated' scores otherwise",
    ),
    "league": (["league_ratings=reputation"], "league_ratings: 'reputation' needs"),
    "starts": (
        ["training_ratings={kind: reputation, initial: {sums: 1, asker: 2}}"],
        "training_ratings.initial: has no task score of guard, helper, veteran, novice",
    ),
    "weights": (
        ["training_ratings={kind: reputation, weights: {sums: 2, nobody: 0.5}}"],
        "training_ratings.weights: 'nobody' is no player; they are sums, asker",
    ),
}


@pytest.mark.parametrize(("settings", "why"), UNFIT.values(), ids=UNFIT)
def test_ratings_that_the_judge_cannot_feed_are_refused_before_anything_is_played(settings, why):
    with pytest.raises(ConfigError, match=why):
        recipe_loader.load("sparta_clerks", settings)


@pytest.mark.parametrize(
    "settings",
    [
        ["judge={kind: meta_rewarding, text: rubric_compact}"],
        [PANEL, "training_ratings=bradley_terry"],
        [PANEL, "generations=0"],
        ["training_ratings={kind: reputation, weights: {sums: 2}}"],
    ],
    ids=["themselves", "by wins", "nothing is played", "a player's weight"],
)
def test_ratings_that_can_be_computed_are_taken(settings):
    assert recipe_loader.load("sparta_clerks", settings).players.keys() > {"sums", "guard"}
