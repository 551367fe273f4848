"""A whole run of players whose every word is a rule, all its numbers computed a second time from its
records: three generations of two learners, with shares of two opponents, among two that stay.
"""

import json
import shutil
from itertools import chain, combinations
from statistics import fmean

import numpy as np
import pytest
from recorded_run import planned_and_played
from small_runs import Noting
from teachable_players import BATCH, logprob

from equipoise import seeds
from equipoise.api.rejudge import rejudge
from equipoise.api.rerate import rerate
from equipoise.blocks.section import Tiles
from equipoise.errors import RunError
from equipoise.judges.base import Judge
from equipoise.ledger.facts import Estimate
from equipoise.ledger.frames import (
    judgement_rows,
    match_rows,
    measured_rows,
    pair_rows,
    rating_rows,
)
from equipoise.planning.new_run import new_run
from equipoise.ratings.base import Duel
from equipoise.report.page import page
from equipoise.report.summary import progress, summary
from equipoise.runs import recipe_loader
from equipoise.runs.contexts import judge_context, match_context
from equipoise.runs.damage import examine, mend
from equipoise.runs.directory import RunDirectory
from equipoise.runs.loop import league
from equipoise.runs.open_run import OpenRun
from equipoise.types import PlayerId

SEED, GENERATIONS = 11, 3
SKILLS = {"alice": 0, "bob": 3, "carol": 1, "dan": 2}
LEARNERS = ("alice", "bob")
ETA, RATES = [0.5, 2.0, 2.0], {"alice": [1.0, 1.0, 1.0], "bob": [1.0, 2.0, 3.0]}


def settings(prompts):
    players = {
        name: {"kind": "teachable_players:Taught", "skill": skill, "learns": name in LEARNERS}
        for name, skill in SKILLS.items()
    }
    return {
        "generations": GENERATIONS,
        "seed": SEED,
        "players": players,
        "prompts": {
            "kind": "files",
            "path": prompts,
            "per_generation": 8,
            "held_out": 5,
            "test": 4,
        },
        "game": {"kind": "answers", "samples": 2},
        "schedule": {"kind": "sparta", "k": 1},
        "judge": "peers",
        "training_ratings": {"kind": "reputation", "resamples": 40},
        "training_matches": "own",
        "loss": {"kind": "mnpo", "weights": [0.75, 0.25], "eta": {0: ETA[0], 1: ETA[1]}},
        "learner": "teachable_players:Teaching",
        "learners": {"bob": {"rate": RATES["bob"]}},
        "evaluate": {"kind": "held_out", "samples": 2, "judge": "shorter"},
        "keep": 2,
    }


@pytest.fixture(scope="module")
def noted():
    return Noting()


@pytest.fixture(scope="module")
def run(tmp_path_factory, noted):
    folder = tmp_path_factory.mktemp("by_hand")
    rows = [json.dumps({"prompt": f"question {n}"}) + "\n" for n in range(40)]
    (folder / "prompts.jsonl").write_text("".join(rows))
    config = recipe_loader.build(settings(str(folder / "prompts.jsonl")), "test")
    with new_run(config, folder / "run") as made, OpenRun(made, noted) as opened:
        league(opened, GENERATIONS)
    with RunDirectory.read(folder / "run") as directory, OpenRun(directory) as opened:
        yield opened


def grades(judgement):
    """voter's name -> seat -> its grade."""
    found = {}
    for vote in judgement.votes:
        found.setdefault(PlayerId.parse(vote.by).name, {})[vote.seat] = vote.value
    return found


def judged(run, t):
    """The training matches of generation t, with the peers' grades."""
    matches = run.ledger.matches("train", t)
    judgements = run.ledger.judgements_of([match.id for match in matches], "peers")
    return [(match, grades(judgements[match.id])) for match in matches]


def ratings(run, t):
    """After generation t."""
    return {row["name"]: row["value"] for row in run.ledger.stage_facts(f"{t}/rate")["ratings"]}


def given(run, name, t):
    """What the learner was given in generation t."""
    path = run.population.home(PlayerId(name, t + 1)) / BATCH
    return json.loads(path.read_text())


def held_out(run, split="held_out"):
    """player -> prompt -> the scores of its answers: fewer letters are better."""
    found = {}
    for t in range(GENERATIONS + 1):
        for match in run.ledger.matches(split, t):
            for turn in match.turns:
                by_prompt = found.setdefault(str(match.seats[turn.seat]), {})
                by_prompt.setdefault(match.prompt, []).append(-float(len(turn.move.text)))
    return found


def mean_score(by_prompt):
    return fmean(chain.from_iterable(by_prompt.values()))


def payoff(first, second):
    """P(first is better) − P(second is better), answers to the same prompt compared."""
    signs = [np.sign(a - b) for p in first for a in first[p] for b in second[p]]
    return fmean(signs)


def test_players_are_as_old_as_the_generation_and_judges_sit_in_no_seat(run):
    for t in range(GENERATIONS):
        played = judged(run, t)
        assert len(played) == 8
        ages = {name: t if name in LEARNERS else 0 for name in SKILLS}
        for match, by_voter in played:
            assert all(player.generation == ages[player.name] for player in match.seats.values())
            sitting = {player.name for player in match.seats.values()}
            assert len(sitting) == 2
            assert set(by_voter) == set(SKILLS) - sitting
            for voter, by_seat in by_voter.items():
                strictness = 1 + (SKILLS[voter] + ages[voter]) % 3
                for turn in match.turns:
                    text = turn.move.text
                    assert by_seat[turn.seat] == min(10, 1 + len(text) // strictness)


def test_reputations_are_of_all_duels_so_far(run):
    by_generation = []
    for t in range(GENERATIONS):
        duels = []
        for match, by_voter in judged(run, t):
            (a, first), (b, second) = match.seats.items()
            scores = {voter: (found[a], found[b]) for voter, found in by_voter.items()}
            duels.append(Duel(first.name, second.name, scores))
        by_generation.append(duels)
        names = [*LEARNERS, "carol", "dan"]
        dice = seeds.child(SEED, "standing", t)
        rated = run.config.training_ratings.training_ratings(names, by_generation, dice)
        assert {row.name: row.value for row in rated} == ratings(run, t)
        [facts] = [row.facts for row in run.ledger.stages("rate") if row.generation == t]
        assert facts["duels"] == 8


def test_pairs_are_weighed_by_the_reputations_after_the_generations_duels(run):
    for t in range(1, GENERATIONS):  # the first one's weights are not kept
        after = ratings(run, t)
        for name in LEARNERS:
            expected = {}
            for match, by_voter in judged(run, t):
                if name not in {player.name for player in match.seats.values()}:
                    continue
                weights = [after[voter] for voter in by_voter]
                score = {
                    turn.seat: np.average(
                        [g[turn.seat] for g in by_voter.values()], weights=weights
                    )
                    for turn in match.turns
                }
                best, worst = sorted(match.turns, key=lambda turn: -score[turn.seat])
                texts = best.move.text, worst.move.text
                if texts[0] == texts[1] or np.isclose(score["1"], score["2"], atol=1e-12):
                    continue
                cuts = [turn.move.finish == "length" for turn in (best, worst)]
                expected[match.id] = (*texts, *cuts, score[best.seat], score[worst.seat])
            taught = {
                row["match"]: (
                    *(row["chosen"], row["rejected"]),
                    *(row.get("chosen_cut", False), row.get("rejected_cut", False)),
                    *(pytest.approx(row["chosen_score"]), pytest.approx(row["rejected_score"])),
                )
                for row in given(run, name, t)["pairs"]
            }
            assert taught == expected != {}


def test_each_training_has_its_own_seed_settings_and_opponents(run):
    batches = [(name, t, given(run, name, t)) for name in LEARNERS for t in (1, 2)]
    assert len({batch["seed"] for _, _, batch in batches}) == 4
    for name, t, batch in batches:
        assert batch["learner"] == f"{name}@{t}"
        assert batch["seed"] == seeds.child(SEED, "learn", f"{name}@{t}")
        assert (batch["loss"]["eta"], batch["rate"]) == (ETA[t], RATES[name][t])
        assert batch["weights"] == str(t)
        assert batch["past"] == [*(str(g) for g in range(t, 0, -1)), "None"]
        assert batch["opponents"] == {f"{name}@{t}": 0.75, f"{name}@{t - 1}": 0.25}
        for k, skill in enumerate((SKILLS[name] + t, SKILLS[name] + t - 1)):
            for answer in ("chosen", "rejected"):
                assert batch[answer][k] == [
                    logprob(skill, row[answer], row.get(f"{answer}_cut", False))
                    for row in batch["pairs"]
                ]
    for key, line in run.ledger.metrics():
        if "/learn/" in key and "loss" in line:
            t, _, name = key.split("/")
            assert line["loss"] == SKILLS[name] + int(t) + 1


def test_the_league_is_that_of_the_held_out_answers(run):
    scores = held_out(run)
    for t in range(GENERATIONS + 1):
        facts = run.ledger.stage_facts(f"{t}/measure")
        names = [f"{name}@{g}" for name in LEARNERS for g in range(t + 1)] + ["carol@0", "dan@0"]
        table_NN = [[payoff(scores[a], scores[b]) for b in names] for a in names]
        assert facts["players"] == names
        assert facts["payoff"] == pytest.approx(np.array(table_NN))
        assert np.array(facts["count"])[0, -1] == 5 * 2 * 2
        newest = [f"{name}@{t}" for name in LEARNERS]
        means = {name: mean_score(scores[name]) for name in newest}
        assert {n: found["mean"] for n, found in facts["scores"].items()} == pytest.approx(means)
        gaps = {name: max(row[names.index(name)] for row in table_NN) for name in newest}
        assert facts["gap"] == pytest.approx(gaps)
        assert facts["exploitability"] == pytest.approx(max(gaps.values()))
        mixture_N = np.array([facts["mixture"][name] for name in names])
        assert (mixture_N @ np.array(table_NN)).min() > -1e-9
        assert mixture_N.sum() == pytest.approx(1)
        for name in LEARNERS if t else ():
            wins = (1 + payoff(scores[f"{name}@{t}"], scores[f"{name}@0"])) / 2
            assert facts["win_rates"][f"{name}@{t}"]["mean"] == pytest.approx(wins)


def test_schedules_and_judges_know_what_was_measured_before(run):
    for t in range(GENERATIONS):
        facts, context = run.ledger.stage_facts(f"{t}/measure"), match_context(run, t)
        ids = [PlayerId.parse(name) for name in facts["players"]]
        assert context.mixture == dict(zip(ids, facts["mixture"].values(), strict=True))
        for (i, first), (j, second) in combinations(enumerate(ids), 2):
            wins = (1 + facts["payoff"][i][j]) / 2
            assert context.win_rate[first, second] == pytest.approx(wins)
            assert context.win_rate[second, first] == pytest.approx(1 - wins)
        bench = judge_context(run, t)
        before = ratings(run, t - 1) if t else dict.fromkeys(SKILLS, 100.0)
        assert context.ratings == bench.ratings == before
        present = [PlayerId(name, t) for name in LEARNERS] + [PlayerId("carol"), PlayerId("dan")]
        assert context.players == bench.pool == present
        history = [PlayerId(name, g) for name in LEARNERS for g in range(t - 1, -1, -1)]
        assert context.history == history
    dice = [(match_context(run, t).seed, judge_context(run, t).seed) for t in range(GENERATIONS)]
    assert len({seed for both in dice for seed in both}) == 2 * GENERATIONS


def test_the_best_player_is_chosen_kept_and_tested(run):
    scores = held_out(run)
    means = {name: mean_score(by_prompt) for name, by_prompt in scores.items()}
    best, start = max(means, key=means.get), max((n for n in means if n[-1] == "0"), key=means.get)
    found = run.ledger.stage_facts("select")
    assert (found["chosen"], found["start"]) == (best, start) == ("alice@1", "carol@0")
    tested = held_out(run, "test")
    assert set(tested) == {best, start}
    assert len(tested[best]) == 4
    for name in (best, start):
        assert found["held_out"][name]["mean"] == pytest.approx(means[name])
        on_test = mean_score(tested[name])
        assert found["test"][name]["mean"] == pytest.approx(on_test)
    wins = (1 + payoff(tested[best], tested[start])) / 2
    assert found["win_rate"]["mean"] == pytest.approx(wins)
    # the two newest generations' weights stay, and those of the chosen player
    assert {name: run.population.kept(name)[1:] for name in LEARNERS} == {
        "alice": [1, 2, 3],
        "bob": [2, 3],
    }
    births = {str(birth.player): birth for birth in run.ledger.players()}
    assert str(births["bob@2"].parent) == "bob@1"


def test_the_plan_had_counted_all_of_it(run):
    planned, played = planned_and_played(run.directory)
    assert planned.pop("pairs_at_most") >= played.pop("pairs_at_most") > 0
    assert planned == played
    assert played["judgements"] == 24 + played["held_out_matches"]


# -- the same records as readers see them


def test_frames_hold_the_records(run):
    directory = run.directory
    every = {m.id: m for part in ("train", "held_out", "test") for m in run.ledger.matches(part)}
    seats = list(match_rows(directory.ledger, None, None))
    assert len(seats) == 2 * len(every)
    for row in seats:
        match = every[row["match"]]
        [move] = [turn.move for turn in match.turns if turn.seat == row["seat"]]
        assert (row["answer"], row["finish"], row["turns"]) == (move.text, move.finish, 1)
        assert (row["generation"], row["split"]) == (match.generation, match.split)
        assert row["player"] == str(match.seats[row["seat"]])
    trained = list(judgement_rows(directory.ledger, "score", "train", 1))
    assert len(trained) == 16
    assert {row["judge"] for row in trained} == {"peers"}
    for one, other in zip(trained[::2], trained[1::2], strict=True):
        assert one["match"] == other["match"]
        assert one["seat"] != other["seat"]
        assert one["margin"] == pytest.approx(one["score"] - other["score"])
        assert other["margin"] == pytest.approx(-one["margin"])
    taught = [row for row in pair_rows(directory.ledger, 2) if row["name"] == "bob"]
    assert {row["player"] for row in taught} == {"bob@2"}
    assert [(row["pair"], row["chosen"], row["rejected"]) for row in taught] == [
        (row["id"], row["chosen"], row["rejected"]) for row in given(run, "bob", 2)["pairs"]
    ]
    rated = [row for row in rating_rows(directory.ledger) if row["by"] == "matches"]
    for t in range(GENERATIONS):
        of_t = {row["player"]: row["rating"] for row in rated if row["generation"] == t}
        ages = {name: t if name in LEARNERS else 0 for name in SKILLS}
        assert of_t == {f"{name}@{ages[name]}": value for name, value in ratings(run, t).items()}
    for row in measured_rows(run.ledger):
        facts = run.ledger.stage_facts(f"{row['generation']}/measure")
        assert row["player"] == f"{row['name']}@{row['generation']}"
        score, gap = facts["scores"][row["player"]], facts["gap"][row["player"]]
        assert [row[f"score{part}"] for part in ("", "_low", "_n")] == [
            score[part] for part in ("mean", "low", "n")
        ]
        assert row["gap"] == gap
        assert row["exploitability"] == facts["exploitability"]


def test_it_is_summed_up_and_rated_again_as_it_was(run):
    brief, told = summary(run.directory), progress(run.directory)
    assert (brief.state, brief.generation, brief.generations) == ("finished", 3, 3)
    assert [learner.player for learner in brief.players] == ["alice@3", "bob@3"]
    measured = run.ledger.stage_facts("3/measure")["scores"]
    for learner in brief.players:
        assert learner.now == Estimate(**measured[learner.player]).interval.text()
    assert told["finished"]
    assert told["last_stage"] == "select"
    assert told["records"]["matches"] == 82
    judges = {(row["judge"], row["part"]): row["judgements"] for row in told["judges"]}
    assert judges == {("peers", "train"): 24, ("shorter", "held_out"): 50, ("shorter", "test"): 8}
    newest = run.ledger.stage_facts("3/measure")
    by_matches = rerate(run.directory)
    assert by_matches.rated_by == "matches"
    assert len(by_matches.ratings) == GENERATIONS
    for t, rated in enumerate(by_matches.ratings):
        assert {row.name: row.value for row in rated} == ratings(run, t)
    by_league = rerate(run.directory, rated_by="league")
    assert {row.name: pytest.approx(row.value) for row in by_league.ratings[0]} == {
        row["name"]: row["value"] for row in newest["ratings"]
    }


@pytest.mark.long
def test_a_finished_run_is_played_no_second_time(run):
    before = run.ledger.counts(), run.ledger.stages()
    with RunDirectory.open(run.directory.folder) as directory, OpenRun(directory) as again:
        league(again, GENERATIONS)
    assert (run.ledger.counts(), run.ledger.stages()) == before


@pytest.fixture(scope="module")
def sections(run):
    return {section.name: section for section in page(run.directory).sections}


def tiles(section):
    [block] = [block for block in section.blocks if isinstance(block, Tiles)]
    return {tile.label: tile.value for tile in block.tiles}


def shown(estimate, unit=""):
    return Estimate(**estimate).interval.text(unit)


def test_the_page_heads_what_was_measured_and_chosen(run, sections):
    facts, chosen = run.ledger.stage_facts("3/measure"), run.ledger.stage_facts("select")
    head = tiles(sections["headline"])
    for name in LEARNERS:
        new, old = f"{name}@3", f"{name}@0"
        assert head[f"held-out score of {new}"] == shown(facts["scores"][new])
        assert head[f"win rate of {new} over {old}"] == shown(facts["win_rates"][new], "%")
    assert tiles(sections["selection"]) == {
        "chosen": "alice@1",
        "its test score": shown(chosen["test"]["alice@1"]),
        "wins over carol@0": shown(chosen["win_rate"], "%"),
    }
    table = sections["selection"].blocks[-1]
    assert [row[0] for row in table.rows] == ["alice@1", "carol@0"]
    for name, on_held_out, on_test in table.rows:
        assert on_held_out == shown(chosen["held_out"][name])
        assert on_test == shown(chosen["test"][name])
    used = tiles(sections["records"])
    counts = run.ledger.counts()
    for name in ("prompts", "matches", "judgements", "pairs"):
        assert used[name] == str(counts[name])


def test_the_page_draws_the_tables_of_the_records(run, sections):
    newest = run.ledger.stage_facts("3/measure")
    payoffs = sections["payoffs"].blocks[0].data[0]
    assert np.array(payoffs["z"], float) == pytest.approx(np.array(newest["payoff"]))
    points = sections["ratings"].blocks[0].data
    rows = sorted(newest["ratings"], key=lambda row: -row["value"])
    assert points[0]["x"] == [row["value"] for row in rows]
    assert all(row["low"] < row["value"] < row["high"] for row in rows)
    reach = points[0]["error_x"]
    assert reach["array"] == pytest.approx([row["high"] - row["value"] for row in rows])
    assert reach["arrayminus"] == pytest.approx([row["value"] - row["low"] for row in rows])
    met, given_by = {}, {}
    for t in range(GENERATIONS):
        after = ratings(run, t)
        for match, by_voter in judged(run, t):
            names = {seat: player.name for seat, player in match.seats.items()}
            weights = [after[voter] for voter in by_voter]
            one, two = (
                np.average([found[seat] for found in by_voter.values()], weights=weights)
                for seat in "12"
            )
            sign = float(np.sign(round(one - two, 9)))
            met.setdefault((names["1"], names["2"]), []).append(sign)
            met.setdefault((names["2"], names["1"]), []).append(-sign)
            for voter, by_seat in by_voter.items():
                for seat, grade in by_seat.items():
                    given_by.setdefault((voter, names[seat]), []).append(grade)
    for section, expected in (("match-ups", met), ("who-judged-whom", given_by)):
        cells = sections[section].blocks[0].data[0]["z"]
        for i, one in enumerate(SKILLS):
            for j, other in enumerate(SKILLS):
                found = expected.get((one, other))
                assert (cells[i][j] is None) == (found is None), (section, one, other)
                if found:
                    assert cells[i][j] == pytest.approx(fmean(found)), (section, one, other)


def test_who_watches_hears_of_every_step(run, noted):
    assert all(done == (total or 0) for _, total, _, done in noted.stages)
    for t in range(GENERATIONS):
        heard = [(name, total) for name, total, g, _ in noted.stages if g == t]
        heard = heard[heard.index(("play", 8)) : heard.index(("learn bob", 1)) + 1]
        scored = [
            2 * len(run.ledger.pairs(t, PlayerId(name, t))) * min(t + 1, 2) for name in LEARNERS
        ]
        assert heard == [
            ("play", 8),
            ("judge", 8),
            ("ratings", None),
            *((f"pair {name}", None) for name in LEARNERS),
            ("opponents' log-probabilities alice", scored[0]),
            ("learn alice", 1),
            ("opponents' log-probabilities bob", scored[1]),
            ("learn bob", 1),
        ]
    newest, last = run.ledger.stage_facts("3/measure"), {}
    for named in noted.named:
        last |= named
    for name in ("score", "best_score", "win_rate", "exploitability"):
        assert last[name] == newest[name]
    assert (last["unjudged_share"], last["loss"]) == (0.0, 6.0)


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run.directory.folder, tmp_path / "copy")


def test_another_judge_judges_the_same_answers(run, copy):
    """`shorter` beside the peers, in the second generation's training."""
    with RunDirectory.open(copy) as directory:
        found = rejudge(directory, Judge.build("shorter"), "train", 1)
        assert directory.ledger.counts()["judgements"] == 82 + 8
    lengths, grade, agreed = {}, {}, []
    matches = run.ledger.matches("train", 1)
    recorded = run.ledger.judgements_of([match.id for match in matches], "peers")
    for match in matches:
        peers = recorded[match.id].by_seat("score")
        for turn in match.turns:
            name = str(match.seats[turn.seat])
            lengths.setdefault(name, []).append(-len(turn.move.text))
            grade.setdefault(name, []).append(peers[turn.seat])
        one, two = (len(turn.move.text) for turn in match.turns)
        agreed.append(np.sign(peers["1"] - peers["2"]) == np.sign(two - one))
    assert (found.matches, found.judge, found.beside) == (8, "shorter", "peers")
    assert found.scores == pytest.approx({name: fmean(own) for name, own in lengths.items()})
    assert found.scores_beside == pytest.approx({name: fmean(own) for name, own in grade.items()})
    assert found.agreement is not None
    assert found.report is not None


def test_damage_is_found_where_it_is(copy, command):
    def states():
        return {finding.part: finding.state for finding in examine(copy)}

    whole = states()
    assert set(whole.values()) == {"whole"}
    weights = [f"players/{name}/{t}" for name, t in (("alice", 1), ("alice", 3), ("bob", 2))]
    assert {"config.yaml", "ledger.sqlite", *weights} <= whole.keys()
    (copy / "players" / "bob" / "2" / "skill.json").write_text("9")
    assert states() == whole | {"players/bob/2": "damaged"}
    (copy / "config.yaml").unlink()
    assert states() == whole | {"players/bob/2": "damaged", "config.yaml": "missing"}
    checked = command("check", copy)
    assert checked.code == 2
    assert "config.yaml: check --mend writes it anew" in checked.out
    assert [text.partition(":")[0] for text in mend(copy)] == ["config.yaml", "players/bob/2"]
    assert states()["config.yaml"] == "whole"
    assert "players/bob/2" not in states()
    (copy / "ledger.sqlite").unlink()
    assert states()["ledger.sqlite"] == "missing"
    (copy / "config.yaml").unlink()
    with pytest.raises(RunError, match="no run here"):
        examine(copy)
