"""What `plan` says beforehand is what a run then does."""

from types import SimpleNamespace

import pytest
from small_runs import RED_TEAM_RUN, settings

from equipoise.ledger.ledger import Ledger
from equipoise.planning import counts
from equipoise.planning.checks import check_run
from equipoise.runs import recipe_loader
from equipoise.runs.named_sets.set_plan import SetPlan, plan_sets
from equipoise.runs.roster import expected_generations
from equipoise.runs.turns import BestResponse
from equipoise.types import PlayerId, Prompt, user


def planned(command, *arguments) -> dict:
    done = command("plan", "gpo_clerks", *RED_TEAM_RUN, *arguments, "--json")
    assert done.code == 0, done.err
    return done.facts["counts"]


@pytest.mark.long
def test_a_game_of_roles_is_counted_as_it_is_played(command, red_team_run):
    counts = planned(command)
    with Ledger.open(red_team_run / "ledger.sqlite") as ledger:
        records = ledger.counts()
        matches = [match for part in ("train", "held_out") for match in ledger.matches(part)]
        learned = [facts for _, _, _, facts, _ in ledger.stages("learn")]
        prompts = {part: len(ledger.prompts(part)) for part in ("train", "held_out")}
    assert counts["matches"] == sum(match.split == "train" for match in matches)
    assert counts["held_out_matches"] == sum(match.split == "held_out" for match in matches)
    assert counts["judgements"] == records["judgements"]
    assert counts["answers"] == sum(len(match.turns) for match in matches)
    assert counts["episodes_at_most"] == records["episodes"] > 0
    assert counts["pairs_at_most"] == 0
    assert counts["optimizer_steps_at_most"] == sum(facts["steps"] for facts in learned)
    assert (counts["prompts"], counts["held_out_prompts"]) == (
        prompts["train"],
        prompts["held_out"],
    )


@pytest.mark.long
def test_only_those_whose_turn_it_is_are_taught(command):
    one = planned(command, *settings(turns="{kind: one, player: adversary}", generations=3))
    everyone = planned(command, *settings(turns="everyone", generations=3))
    assert one["matches"] == everyone["matches"]
    assert one["optimizer_steps_at_most"] == 3
    assert everyone["optimizer_steps_at_most"] == 6
    assert (
        one["episodes_at_most"]
        < everyone["episodes_at_most"]
        <= 2 * one["episodes_at_most"] + 3 * 8
    )


@pytest.mark.long
def test_when_advantages_are_whitened_is_said(command):
    def notes(*arguments):
        return command("plan", "gpo_clerks", *RED_TEAM_RUN, *arguments, "--json").err

    assert "a standard deviation of at least whiten_floor = 0.01" in notes()
    assert "whiten_floor" not in notes(*settings(learner__whiten_advantages=False))


@pytest.mark.long
def test_rarer_measurements_and_less_crossplay_take_fewer_matches(command):
    often = planned(command, *settings(generations=4))["held_out_matches"]
    rare = planned(command, *settings(generations=4, evaluate__every=4))["held_out_matches"]
    without = planned(command, *settings(generations=4, evaluate__every=4, evaluate__crossplay=0))[
        "held_out_matches"
    ]
    # Start and end: 12 prompts as they are or harmless, 6 attacked; between them 2 cells of 4
    # prompts.
    assert without == 2 * (12 + 6)
    assert rare == without + 2 * 4
    assert often > rare


@pytest.mark.long
def test_prompts_asked_as_they_are_have_no_adversary(command):
    raw = planned(command, *settings(schedule__raw=1.0))
    attacked = planned(command)
    assert raw["matches"] == attacked["matches"]
    assert raw["answers"] < attacked["answers"]


def test_a_plan_reads_the_prompts(command):
    done = command(
        "plan",
        "gpo_clerks",
        *RED_TEAM_RUN,
        "-s",
        "prompts={kind: files, path: none.jsonl, per_generation: 8, held_out: 12}",
        "--json",
    )
    assert done.code == 2
    assert "none.jsonl: no such file" in done.err


@pytest.mark.long
def test_answers_are_counted_no_longer_than_the_context(command):
    tiny = settings(policy__max_new_tokens=4000)
    done = command("plan", "quickstart", *QUICK, *tiny, "--json")
    assert done.code == 0, done.err
    facts = done.facts
    context = 128  # the recipe's max_length
    assert facts["counts"]["sampled_tokens_at_most"] == (context * facts["counts"]["answers"])
    assert "players.policy: max_new_tokens is 4000" in done.err


@pytest.mark.parametrize(("most", "ages"), [(1, [2, 2]), (3, [3, 1])])
def test_best_responses_are_foreseen_at_their_longest(most, ages):
    turns = BestResponse(kind="best_response", order=("defender", "adversary"), most=most)
    found = expected_generations(turns, ["defender", "adversary"], 4)
    assert len(found) == 5
    assert found[-1][1] == ()
    assert [player.generation for player in found[-1][0]] == ages


QUICK = settings(
    generations=1,
    prompts__per_generation=12,
    prompts__held_out=8,
    evaluate__samples=2,
    policy__batch_size=8,
)


@pytest.fixture
def estimate(command):
    """estimate(learner__batch_size=4) -> (the one estimate, what was noted)"""

    def of(**changes):
        done = command("plan", "quickstart", *QUICK, *settings(**changes), "--json")
        assert done.code == 0, done.err
        [found] = done.facts["estimates"]
        return found, done.err

    return of


@pytest.mark.long
def test_prompts_are_counted_with_their_template(estimate):
    config = recipe_loader.load("quickstart", QUICK[1::2])
    encoding = config.players["policy"].encoding()
    prompts = config.prompts.load().training
    lengths = [len(encoding.prompt_ids(prompt.messages)) for prompt in prompts]
    bare = [len(encoding.text_ids(prompt.messages[0].content)) for prompt in prompts]
    found, _ = estimate()
    mean = sum(lengths) / len(lengths)
    assert mean > sum(bare) / len(bare) + 1
    assert found["mean_prompt_tokens"] == pytest.approx(mean, abs=1)


@pytest.mark.long
def test_settings_that_save_memory_are_read(estimate):
    plain, _ = estimate()
    smaller = [
        estimate(learner__gradient_checkpointing=True)[0],
        estimate(learner__precision="bf16")[0],
        estimate(learner__batch_size=2)[0],
    ]
    peaks = [found["training_memory_bytes"] for found in smaller]
    assert max(peaks) < plain["training_memory_bytes"]
    divided, _ = estimate(learner__launch="{config: fsdp2, num_processes: 4}")
    assert divided["training_memory_bytes"] < plain["training_memory_bytes"]
    assert "each of 4 processes" in divided["memory_while_training"]
    for name in ("sampling", "training", "scoring"):
        assert plain[f"{name}_seconds"] > 0


@pytest.mark.long
def test_what_does_not_fit_says_what_to_set(estimate):
    found, _ = estimate(policy__batch_size=20_000_000)
    assert not found["fits"]
    assert found["peak_memory_bytes"] > found["memory_bytes"]
    assert "does not fit in" in found["peak_memory"]
    assert "; set policy.batch_size=10000000" in found["peak_memory"]


@pytest.mark.long
def test_a_run_that_will_hardly_move_is_noted(estimate, command):
    assert "fewer than 50" in estimate()[1]
    assert "optimizer steps" not in estimate(prompts__per_generation=1000)[1]
    noted = command(
        "plan", "gpo_clerks", *RED_TEAM_RUN, *settings(learner__warmup_steps=100), "--json"
    ).err
    assert "warmup_steps = 100 is no less than the" in noted


# -- the answer, and hardware that is not here


@pytest.mark.long
def test_the_answer_comes_first_and_the_configuration_when_asked_for(command):
    short = command("plan", "quickstart", *QUICK)
    full = command("plan", "quickstart", *QUICK, "--full")
    assert short.code == full.code == 0, short.err + full.err
    first = short.out.splitlines()[1].split()
    assert first[:4] == ["can", "it", "run", "yes,"]
    assert "policy:" not in short.out
    assert "policy:" in full.out
    facts = command("plan", "quickstart", *QUICK, "--json").facts
    assert facts["answer"]["obstacles"] == []
    assert facts["answer"]["seconds"] > 0
    assert any("will hardly move" in note for note in facts["notes"])
    measured = command("plan", "quickstart", *QUICK, "-s", "generations=0", "--json").facts
    assert not any("optimizer steps" in note for note in measured["notes"]), "nothing is to learn"
    assert facts["configuration"]["players"]
    assert facts["hardware"] is None


@pytest.mark.long
def test_a_plan_for_accelerators_shares_the_work_among_them(command):
    eight = settings(
        executor="{processes: 8}",
        learner__launch="{config: fsdp2, num_processes: 8}",
        policy__device="cuda:1",
    )

    def planned_on(on, *arguments):
        done = command("plan", "quickstart", *QUICK, *arguments, "--on", on, "--json")
        assert done.code == 0, done.err
        return done

    one = planned_on("1,80,989,3350").facts
    done = planned_on("8xH100-80GB", *eight)
    many, [cost] = done.facts, done.facts["estimates"]
    assert "accelerators" not in done.err
    assert many["hardware"]["count"] == 8
    assert cost["memory_bytes"] == 80e9
    assert one["estimates"][0]["sampling_seconds"] > 4 * cost["sampling_seconds"]
    assert one["estimates"][0]["training_memory_bytes"] > cost["training_memory_bytes"]
    assert {part["phase"]: part["processes"] for part in many["phases"]} == {"play": 8, "learn": 8}
    few = planned_on("4xL4", *eight).facts["answer"]
    assert "8 processes want an accelerator each, of 4" in few["can it run"]
    assert "uses 1 of 8 accelerators" in planned_on("8xH100-80GB").err


def test_accelerators_are_not_planned_for_a_learner_on_the_cpu(command):
    on_cpu = settings(policy__device="cpu")
    done = command("plan", "quickstart", *QUICK, *on_cpu, "--on", "H100-80GB")
    assert done.code == 2
    assert "-s policy.device=auto" in done.err
    done = command("plan", "quickstart", "--on", "8xH100")
    assert done.code == 2
    assert "H100-80GB or H100-NVL-94GB or H100-PCIe-80GB" in done.err


@pytest.mark.long
def test_a_recipe_for_many_accelerators_is_not_planned_on_this_cpu_unsaid(command):
    eight = settings(learner__launch="{config: ddp, num_processes: 800}")
    done = command("plan", "quickstart", *QUICK, *eight, "--json")
    assert "--on 800xH100-80GB" in done.err
    assert "they would share its CPU" in done.err
    assert "shared by 800 processes" in done.facts["answer"]["can it run"]
    on_cpu = settings(policy__device="cpu")
    meant = command("plan", "quickstart", *QUICK, *eight, *on_cpu, "--json")
    assert "accelerator" not in meant.err


@pytest.mark.long
@pytest.mark.parametrize("schedule", ["self_play", "round_robin"])
def test_generations_that_are_alike_are_counted_once(schedule):
    """A plan of many generations neither deals all prompts nor seats everybody anew."""
    changes = ["prompts.reuse=true", "prompts.per_generation=7", f"schedule={schedule}"]
    changes += ["loss=mnpo"]
    config = recipe_loader.load(
        "quickstart", [*changes, "generations=9", "learner.epochs={0: 1, 6: 2}"]
    )
    split = check_run(config).split
    rosters = expected_generations(config.turns, config.learning, config.generations)
    expected = counts.TrainingWork()
    for t, (learners, turn) in enumerate(rosters[:-1]):
        expected.add(counts.generation_work(config, split.parts[t], t, learners, turn))
    assert counts.training_work(config, split) == expected
    assert expected.pairs
    assert expected.scored
    long = recipe_loader.load("quickstart", [*changes, "generations=10000"])
    dealt = check_run(long).split
    totals = counts.training_work(long, dealt)
    assert totals.matches == 70_000
    assert dealt.count == 70_000
    assert len(vars(dealt.parts)["_parts"]) < 10


def test_a_learners_past_is_newest_first_down_to_its_start():
    assert counts.past_generations(PlayerId("a", 3)) == [PlayerId("a", t) for t in (2, 1, 0)]
    assert counts.past_generations(PlayerId("a", 0)) == []


def test_prompts_on_which_seats_move_differently_often_are_not_alike():
    prompts = [Prompt(f"p{n}", (user("x"),), facts={"moves": n}) for n in (1, 2)]
    game = SimpleNamespace(moves=lambda prompt: {"1": prompt.facts["moves"]})
    config = SimpleNamespace(game=game)
    assert counts.same_moves(config, prompts[:1] * 2)
    assert counts.same_moves(config, [])
    assert not counts.same_moves(config, prompts)


def test_a_sets_plan_names_what_there_is_of():
    plan = SetPlan("s", 1200, 3, 3600, 0, 7200, 9, 0.5)
    assert plan.text() == (
        "1,200 items × 3 players and generations; 3,600 answers; 7,200 questions to judges; "
        "about 0.50 in money"
    )


@pytest.mark.parametrize("compares", [False, True])
def test_a_sets_plan_multiplies_items_players_and_generations(rows, compares):
    """Four prompts of 40 bytes are 10 tokens each; prices are of a million tokens."""
    data = rows([{"prompt": f"{n}" * 40, "best": "yes"} for n in range(4)])

    def endpoint(most, paid_in, paid_out):
        prices = {"input": paid_in, "output": paid_out}
        far = {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "far"}
        return {**far, "max_new_tokens": most, "prices": prices}

    kind = {"kind": "pairwise"} if compares else {"kind": "rubric"}
    judge = {**kind, "model": endpoint(40, 1.0, 5.0)}
    beside = {"reference": "best"} if compares else {}
    given = {"kind": "prompts", "prompts": str(data), "samples": 3, "judge": judge, **beside}
    values = {
        "name": "two players",
        "generations": 0,
        "players": {"far": endpoint(100, 2.0, 10.0), "near": {"kind": "scripted", "text": "yes"}},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "exact",
        "evaluate": {"kind": "sets", "sets": {"mine": {**given, "max_new_tokens": 60}}},
    }
    config = recipe_loader.build(values, "test")
    [plan] = plan_sets(config, 7)  # nobody learns: once, however often it is measured
    seats = 2 if compares else 1
    asked = 12 * config.evaluate.sets["mine"].judge.questions(seats, 2)
    assert asked == (24 if compares else 12)
    answering = 12 * (10 * 2.0 + 60 * 10.0)
    judging = 2 * asked * ((10 + seats * 60 + 300) * 1.0 + 40 * 5.0)
    assert plan == SetPlan(
        name="mine",
        items=4,
        players=2,
        answers=2 * 12,
        likelihoods=0,
        questions=2 * asked,
        sampled_tokens_at_most=12 * 60,
        money=pytest.approx((answering + judging) / 1e6),
    )
