"""Every packaged recipe is parsed, planned, and run for one generation."""

import json
from pathlib import Path

import pytest
import torch
import yaml
from small_runs import SMALL, settings

from equipoise import open_run
from equipoise.ledger.ledger import MEETING
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.runs.make_examples import OPPONENTS
from equipoise.system.packaged_recipes import variants

TABLE = settings(
    generations=1, prompts__per_generation=6, prompts__held_out=8, learner__batch_size=6
)  # a game of roles, likewise
ROLES = [*TABLE, *settings(evaluate__crossplay=2)]
OWN = {
    "rock_paper_scissors": settings(generations=1),
    "gpo_matrix": settings(generations=1),
    "gpo_contextual": settings(generations=1),
    "psro_matrix": settings(generations=1),
    "psro_kuhn": settings(generations=1),
    "kuhn_poker": settings(generations=1, prompts__count=40, prompts__per_generation=12),
    "kuhn_poker_optimistic": settings(
        generations=1, prompts__count=200, prompts__per_generation=100, learner__epochs=2
    ),
    "kuhn_poker_smollm2": settings(
        generations=1,
        prompts__count=40,
        prompts__per_generation=12,
        policy__model="builtin",
        policy__max_length=256,
        game__examples=[],  # longer than what the built-in model reads
        learner__estimator="role_baseline",
    ),
    "quickstart": SMALL,
    "prosper_clerks": SMALL,
    "many_parts": [*SMALL, *settings(prompts__per_generation=6)],
    "smollm2_cycle": settings(
        generations=1,
        prompts__per_generation=12,
        prompts__held_out=8,
        policy__model="builtin",
        policy__max_length=128,
        policy__max_new_tokens=12,
        judge__judges__relevant__embedding="hashed",
        judge__judges__relevant__threshold=1.0,  # answers of no form are told apart by this alone
        evaluate__judge__embedding="hashed",
    ),
    "gpo_clerks": [*ROLES, *settings(prompts__count=40)],
    "sparta_clerks": [*SMALL, *settings(prompts__per_generation=6, prompts__test=4)],
}
TASKS = ("gtalign", "gtalign_as_released", "gtalign_task", "gtalign_task_as_released")
TASKS += ("gtalign_medium_as_released", "gtalign_grpo")
QUESTIONS = [
    {
        "prompt": f"What is {a} + {a + 1}?",
        "answer": str(2 * a + 1),
        "chosen": f"It is {2 * a + 1}.",
        "rejected": "No idea.",
    }
    for a in range(40)
]
REQUESTS = [
    {"prompt": f"How do I {act} {thing}?", "harmful": act == "burn"}
    for act in ("burn", "paint")
    for thing in (
        "the barn",
        "a car",
        "my fence",
        "the boat",
        "my house",
        "a bike",
        "the shop",
        "her coat",
    )
]


TINY = {"model": "builtin", "max_length": 128, "max_new_tokens": 12, "temperature": 1.0}
TINY_JUDGES = {**TINY, "max_length": 256, "lora": {"r": 4, "alpha": 8}}
TASK_ROWS = [
    {
        "prompt": [{"role": "user", "content": f"Who owns house {n}?"}],
        "data_source": "ambig_qa",
        "reward_model": {
            "ground_truth": f"singleAnswer###{n}" if n % 2 else "multipleQAs###Meaning 0: …"
        },
        "extra_info": {"chat_history": [{"role": "user", "content": f"Who owns house {n}?"}]},
    }
    for n in range(40)
]
ASSISTANT = {"model": "builtin/assistant", "max_length": 256, "max_new_tokens": 24}
GRADER = {"model": "builtin/pool", "max_length": 256, "max_new_tokens": 12}
TALK = settings(
    generations=1, prompts__per_generation=6, prompts__held_out=8, learner__minibatches=1
)
RED_TEAM = {"model": "builtin/red_team", "max_length": 128, "max_new_tokens": 12}
GUARDED = settings(judge__guard="clerk_guard", game__text="rewrite_compact")
BOTH = [*settings(players__defender=RED_TEAM, players__adversary=RED_TEAM), *GUARDED]
RED_TEAM_RECIPES = {  # recipes for a game of roles that ask for models, a guard and prompts
    **dict.fromkeys(("gpo", "gpo_no_diversity", "gpo_as_released", "rlhf"), BOTH),
    "gpo_jailbreaks": [*BOTH, *settings(evaluate__judge__guard="refusal", evaluate__sets="null")],
    "gpo_paraphrase": [*BOTH[:4], "-s", "judge.guard=clerk_guard"],
    "rlhf_attacker": BOTH,
    "self_play": [*settings(players__policy=RED_TEAM), *GUARDED],
    "gpo_psro": BOTH,
    "anchored_self_play": BOTH,
}
TRI_PLAY = settings(
    **{f"players__{role}": RED_TEAM for role in ("defender", "adversary")},
    players__evaluator={**RED_TEAM, "max_length": 256},
    game__text=str(Path(__file__).parents[1] / "helpers" / "fixtures" / "a_or_b.txt"),
    game__game__text="rewrite_compact",
    judge__gold__guard="clerk_guard",
    judge__pays="gold",  # a model that never learned to compare gives no verdicts
    max_unjudged=1.0,
)
OWN["smollm2_gtalign"] = settings(
    generations=1,
    prompts__per_generation=4,
    prompts__held_out=6,
    schedule__samples=4,
    assistant__model="builtin",
    assistant__max_length=96,
    assistant__max_new_tokens=12,
    judge__tasks__everyday_harmless__judges__relevant__embedding="hashed",
    learner__minibatches=1,
    evaluate__every=1,
)
OWN["smollm2_gpo"] = settings(
    players__defender=RED_TEAM,
    players__adversary=RED_TEAM,
    generations=1,
    prompts__per_generation=12,
    prompts__held_out=8,
    evaluate__crossplay=2,
    judge__helper__judges__relevant__embedding="hashed",
)
OWN["smollm2_sparta"] = settings(
    player_defaults__model="builtin",
    generations=1,
    prompts__count=12,
    prompts__per_generation=12,
    prompts__held_out=8,
    pairs="best_worst",  # a model that knows no field finds every answer unlikely
)
OWN["mnpo_attacked"] = [  # prompts whose answers are not all alike to the guard
    *BOTH,
    *settings(
        prompts={"kind": "clerk_requests", "count": 60, "per_generation": 24},
        prompts__held_out=8,
        prompts__reuse=True,
        generations=1,
        evaluate__crossplay=2,
        judge__helper="clerk",
        players__defender__temperature=1.2,
        players__defender__top_p=1.0,
    ),
]
POOL = {  # members that learned to grade
    name: {"adapter": f"builtin/{name}"} for name in ("sums", "asker", "novice")
}
POOL_MEMBERS = settings(
    players=POOL,
    player_defaults__model="builtin/pool",
    player_defaults__max_new_tokens=12,
    player_defaults__max_length=256,
    max_unjudged=1.0,
    prompts__per_generation=6,
    prompts__held_out=4,
    learner__batch_size=4,
)
OF_POOL = [*POOL_MEMBERS, *settings(judge__text="rubric_compact")]
ARENA = {
    "players": {
        "ann": {"kind": "scripted", "text": "It is 7."},
        "bob": {"kind": "scripted", "text": "I do not know."},
    },
    "judge": "exact",
}
SHORT_TEXT = {"begins": "learner", "max_length": 128, "max_prompt": 96, "opponents_max_prompt": 64}
PLAYERS = {
    "mnpo": settings(players__policy=TINY),
    "mnpo_as_released": settings(players__policy=TINY, learner__pair_text=SHORT_TEXT),
    **dict.fromkeys(
        ("mnpo_one_gpu", "mnpo_eight_gpus", "mnpo_two_nodes"),
        settings(players__policy=TINY, executor="local", learner__launch="null"),
    ),
    "mnpo_optimistic": settings(players__policy=TINY),
    "prosper": settings(players__policy=TINY, evaluate__judge="exact"),
    "mnpo_external": settings(players__policy=TINY, players__outsider=TINY),
    "mnpo_served": settings(
        players__policy=TINY,
        players__outsider__model="tiny",
        players__outsider__base_url="http://127.0.0.1:9/v1",  # where it runs: a server's
    ),
    "mnpo_heterogeneous": settings(
        players__alice=TINY, players__bob=TINY, judges={"alice": "exact", "bob": "shorter"}
    ),
    "mnpo_heterogeneous_as_released": settings(
        players__alice=TINY,
        players__bob=TINY,
        judges={"alice": "exact", "bob": "shorter"},
        learner__pair_text=SHORT_TEXT,
    ),
    "mnpo_heterogeneous_three": settings(
        **{f"players__{name}": TINY for name in ("armo", "athene", "skywork")},
        judges={"armo": "exact", "athene": "shorter", "skywork": "exact"},
        learner__pair_text=SHORT_TEXT,
    ),
    # Models that never learned to grade: an unreadable grade counts as the middle, so that there is
    # something to teach.
    "sparta": settings(
        players=dict.fromkeys(("ann", "ben", "cat"), TINY_JUDGES),
        judge={"kind": "peers", "text": "rubric_compact", "unreadable": "midpoint"},
        max_unjudged=1.0,
        prompts__per_generation=4,
        prompts__held_out=2,
        evaluate__samples=1,
        learner__batch_size=4,
    ),
    # They grade by a bare number, which the released code does not read.
    "sparta_as_released": [*OF_POOL, *settings(judge__grade_reading="strict")],
    "sparta_self_rewarding": OF_POOL,
    "sparta_meta_rewarding": [*OF_POOL, *settings(judge__meta_text="meta_judge_compact")],
    "sparta_sppo": OF_POOL,
    "sparta_spin": POOL_MEMBERS,
}
JUDGED_BY_NAME = [name for name in PLAYERS if "heterogeneous" in name or "sparta" in name]


def arguments(name, rows) -> list[str]:
    """What a recipe needs to run here: small parts, and where it asks for models and prompts,
    those.
    """
    if name in OWN:
        return OWN[name]
    if name in TASKS:
        grader = {"kind": "scripted", "call": "scripted_models:full_marks"}
        small = settings(game__text="assistance_compact")
        if name != "gtalign_grpo":  # which has no critic
            small += settings(learner__critic="head")
        return [
            *TALK,
            *small,
            *settings(players__assistant=ASSISTANT, prompts__path=rows(TASK_ROWS)),
            *(settings(judge__grader=grader) if name.endswith(("_released", "grpo")) else []),
        ]
    if name == "gtalign_peers":
        peers = {
            "players.ann": {**GRADER, "adapter": "builtin/sums"},
            "players.ben": {**GRADER, "adapter": "builtin/asker"},
            "players.cat": {**GRADER, "adapter": "builtin/novice"},
            "judge.otherwise.text": "rubric_compact",
        }
        return [
            *TALK,
            *settings(players__assistant=ASSISTANT, max_unjudged=1.0, **peers),
            *settings(game__text="assistance_compact", learner__critic="head"),
            *settings(prompts__path=rows(QUESTIONS)),
        ]
    if name.startswith("gtalign_"):
        return [*TALK, *settings(prompts__count=60, players__assistant__max_new_tokens=24)]
    if name == "tri_play":
        return [*TABLE, *TRI_PLAY, *settings(prompts__path=rows(REQUESTS))]
    if name in RED_TEAM_RECIPES:
        return [*ROLES, *RED_TEAM_RECIPES[name], *settings(prompts__path=rows(REQUESTS))]
    if name.startswith("instructions"):
        few = settings(
            prompts__count=24,
            prompts__per_generation=24,
            prompts__several=[1, 1],
            prompts__instructions=["punctuation:no_comma", "keywords:letter_frequency"],
            judge__judges__relevant__embedding="hashed",
            players__policy={**TINY, "max_length": 256, "temperature": 1.5},
        )
        if name == "instructions_grpo":
            return [*few, *settings(generations=1, prompts__held_out=8)]
        return [*SMALL, *few]
    if name == "arena":
        return settings(prompts__path=rows(QUESTIONS), **ARENA)
    own_judge = [] if name in JUDGED_BY_NAME or name == "prosper" else settings(judge="exact")
    return [*SMALL, *own_judge, *settings(prompts__path=rows(QUESTIONS)), *PLAYERS[name]]


@pytest.mark.long
@pytest.mark.parametrize("name", recipe_loader.recipe_descriptions())
def test_a_recipe_resolves_to_itself(name, rows):
    overrides = [part for part in arguments(name, rows) if part != "-s"]
    resolved = recipe_loader.load(name, overrides)
    assert recipe_loader.build(yaml.safe_load(resolved.yaml()), "again").yaml() == resolved.yaml()


# One a method; their variants run among the slow tests, which add what only those set.
REPRESENTATIVES = {
    "mnpo",
    "sparta",
    "gpo",
    "gtalign",
    "instructions_grpo",
    "rock_paper_scissors",
    "psro_matrix",
}


# Recipe -> the one that runs in CI with the same parts: at the sizes of tests only this differs.
LIKE_ANOTHER = {
    "gtalign_task": "gtalign",  # nothing
    "mnpo_eight_gpus": "mnpo_one_gpu",  # steps accumulated
    "mnpo_two_nodes": "mnpo_one_gpu",  # steps accumulated
    "gpo_no_diversity": "gpo",  # no shaping
    "gtalign_task_as_released": "gtalign_as_released",  # the reward's variant, normalisation
    "rlhf": "gpo_paraphrase",  # the adversary's text, seed prompts as they are
}
DIFFERS = {"game.text", "judge.variant", "normalise.method", "schedule.raw", "shaping"}
DIFFERS |= {"learner.batch_size", "learner.gradient_accumulation"}


def marks_of(name):
    """Marks of the test that runs a recipe."""
    if name in REPRESENTATIVES:
        return []
    if name in LIKE_ANOTHER:
        return [pytest.mark.slow, pytest.mark.nightly]
    return [pytest.mark.slow]


@pytest.mark.long
@pytest.mark.parametrize("name", LIKE_ANOTHER)
def test_a_recipe_that_runs_at_night_differs_from_one_of_ci_as_it_says(name, rows):
    def values_of(recipe):
        overrides = [part for part in arguments(recipe, rows) if part != "-s"]
        return dict(leaves(recipe_loader.load(recipe, overrides).model_dump(mode="json")))

    own, other = values_of(name), values_of(LIKE_ANOTHER[name])
    names = own.keys() | other.keys()
    different = {each for each in names if own.get(each) != other.get(each)}
    assert different - {"name"} <= DIFFERS
    assert LIKE_ANOTHER[name] not in LIKE_ANOTHER


def leaves(values, before=""):
    """(dotted name, value) of each setting."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def work_done(folder):
    """What was played, sampled, scored and learned in a run, by the plan's names for it."""
    moves, tokens = 0, 0
    with RunDirectory.read(folder) as run:
        for part in ("train", OPPONENTS, "held_out", "test"):
            for match in run.ledger.matches(part):
                if match.game == MEETING:  # of answers that stand in other matches
                    continue
                for turn in match.turns:
                    player = run.config.players.get(match.seats[turn.seat].name)
                    moves += 1
                    tokens += len(turn.move.token_ids) if isinstance(player, Local) else 0
        # NashConv keeps the chances of legal moves among the opponents' log-probabilities.
        is_exact = run.config.evaluate.kind == "nash_conv"
        of_opponents = 0 if is_exact else run.ledger.counts()["logprobs"]
        return {
            "answers": moves,
            "sampled_tokens_at_most": tokens,
            "opponent_log_probabilities_at_most": of_opponents,
            "optimizer_steps_at_most": sum(
                born.facts.get("steps") or 0 for born in run.ledger.players()
            ),
        }


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=marks_of(name)) for name in recipe_loader.recipe_descriptions()],
)
def test_a_recipe_plans_and_runs_one_generation(name, rows, command, tmp_path, request):
    given = arguments(name, rows)
    if name == "mnpo_served":
        server = request.getfixturevalue("openai_server")
        given += settings(players__outsider__base_url=server.url)
    planned = command("plan", name, *given, "--json")
    assert planned.code == 0, planned.err
    done = command("run", name, *given, "--out", "run", "--json")
    assert done.code == 0, done.err
    counts = planned.facts["counts"]
    records = done.facts["records"]
    spared = (
        4 if counts["test_prompts"] else 0
    )  # the chosen player may be the best of the start: one test, not two
    assert counts["matches"] + counts["held_out_matches"] - records["matches"] in (0, spared)
    assert counts["judgements"] - records["judgements"] in (0, spared)
    assert records["pairs"] <= counts["pairs_at_most"]
    assert records["episodes"] <= counts["episodes_at_most"]
    for bound, count in work_done(tmp_path / "run").items():
        assert count <= counts[bound], bound
    resolved = recipe_loader.load(name, [part for part in arguments(name, rows) if part != "-s"])
    generations = [m["generation"] for m in done.facts["measured"]]
    if not resolved.generations:  # players that only meet
        assert set(generations) == {0}
        return
    assert generations == [0, 1]
    (learned,) = resolved.turns.expected_learners(resolved.learning, 1)
    for learner in resolved.learning:
        assert (tmp_path / "run" / "players" / learner / "1").is_dir() == (learner in learned)
    assert "<html" in (tmp_path / "run" / "report.html").read_text()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize(
    "name", ["quickstart", "mnpo", "sparta", "gpo", "gtalign", "instructions_grpo"]
)
def test_a_recipe_learns_in_bfloat16_on_a_gpu(name, rows, command):
    given = [*arguments(name, rows), *settings(learner__precision="bf16")]
    done = command("run", name, *given, "--out", "run", "--json")
    assert done.code == 0, done.err
    assert [m["generation"] for m in done.facts["measured"]] == [0, 1]


@pytest.mark.long
@pytest.mark.parametrize("loss", ["{against: {}, weights: null}", "{distance: bernoulli}"])
def test_mnpo_runs_against_nobody_and_by_the_bernoulli_distance(loss, command, tmp_path):
    given = settings(generations=2, loss=loss, evaluate__tau=0.1)
    done = command("run", "rock_paper_scissors", *given, "--out", "run")
    assert done.code == 0, done.err
    gains = open_run(tmp_path / "run").measures().deviation_gains
    assert len(gains) == 3
    assert (gains >= 0).all()


def test_the_talk_does_not_compare_answers_with_themselves():
    """From the second turn on hardly two chats are one, and a group is of one answer."""
    learner = recipe_loader.load("gtalign_talk").learner
    assert learner.estimator.kind == "batch"
    assert not learner.estimator.by_group


@pytest.mark.long
def test_jailbreaks_are_asked_and_a_second_judge_measures(rows, command, tmp_path):
    """The guard that pays judges training alone."""
    file = str(rows(REQUESTS))
    given = [part for part in arguments("gpo_jailbreaks", rows) if "sets=null" not in part]
    given = [part for part in given if part != "-s"]
    given += [
        "evaluate.sets.jailbreaks.judge=refusal",
        f"evaluate.sets.jailbreaks.path={file}",
        f"evaluate.sets.over_refusal.path={file}",
    ]
    with_s = [part for setting in given for part in ("-s", setting)]
    done = command("run", "gpo_jailbreaks", *with_s, "--out", "run", "--json")
    assert done.code == 0, done.err
    run = open_run(tmp_path / "run")
    training, measuring = (set(run.judgements(part).judge) for part in ("train", "held_out"))
    assert training
    assert measuring
    assert not training & measuring
    asked = run.benchmarks()
    assert {"attack_success", "over_refusal"} <= set(asked.metric)
    assert set(asked.benchmark) == {"attacks", "over_refusal"}


@pytest.mark.long
def test_generation_0_learns_from_the_pairs_of_the_data(rows, command, tmp_path):
    """It plays nothing then; from generation 1 on the pairs are made of matches."""
    given = [
        *arguments("mnpo", rows),
        *settings(generations=2, pairs={"kind": "data", "then": "all_pairs"}),
    ]
    counts = command("plan", "mnpo", *given, "--json").facts["counts"]
    assert counts["pairs_at_most"] == 12 + 12 * 10
    done = command("run", "mnpo", *given, "--out", "run", "--json")
    assert done.code == 0, done.err
    run = open_run(tmp_path / "run")
    first, later = run.pairs(0), run.pairs(1)
    assert set(run.matches("train").generation) == {1}
    assert len(first) == 12
    assert set(first.rejected) == {"No idea."}
    assert all(text.startswith("It is ") for text in first.chosen)
    assert len(later)
    assert not set(later.rejected) & {"No idea."}


def test_sparta_as_released_samples_its_grades_and_sorts_equals():
    """Where `sparta` takes the expectation over the next token, and draws among equals."""
    given = [
        f"players={json.dumps(POOL)}",
        "player_defaults.model=builtin/pool",
        "prompts.path=none.jsonl",
        "judge.text=rubric_compact",
    ]
    ours, released = (recipe_loader.load(name, given) for name in ("sparta", "sparta_as_released"))
    assert ours.judge.read_by_next_token == tuple(range(1, 11))
    assert released.judge.read_by_next_token == ()
    assert (ours.schedule.ties, released.schedule.ties) == ("random", "order")


@pytest.mark.parametrize("name", ["mnpo_one_gpu", "mnpo_eight_gpus", "mnpo_two_nodes"])
def test_however_many_gpus_there_are_a_step_is_of_as_many_pairs(name):
    given = ["players.policy.model=builtin", "prompts.path=none.jsonl"]
    learner, first = (recipe_loader.load(of, given).learner for of in (name, "mnpo"))
    processes = 1 if learner.launch is None else learner.launch.processes
    assert learner.step_size(processes) == first.step_size(1) == 16


def test_rows_without_pairs_are_refused_before_the_run(rows, command):
    bare = [{"prompt": row["prompt"], "answer": row["answer"]} for row in QUESTIONS]
    given = [*arguments("mnpo", rows), *settings(prompts__path=rows(bare))]
    planned = command("plan", "mnpo", *given, *settings(pairs="data"))
    assert planned.code == 2
    assert "no answer under chosen and rejected" in planned.err


def test_variants_stand_under_the_recipe_that_they_extend(command):
    groups = variants()
    names = [*groups, *(name for group in groups.values() for name in group)]
    assert sorted(names) == list(recipe_loader.recipe_descriptions())
    assert 10 <= len(groups) <= 24
    assert {"mnpo_eight_gpus", "mnpo_as_released"} <= set(groups["mnpo"])
    shown = command("recipes").out
    assert all(f"{name} " in shown for name in groups)
    assert "gtalign_task" not in shown
    assert "gtalign_task " in command("recipes", "gtalign").out
    assert set(command("recipes", "gpo", "--json").facts["variants"]) == set(groups["gpo"])


def test_every_recipe_says_what_it_is(command):
    listed = command("recipes", "--json").facts
    assert set(listed) == set(recipe_loader.recipe_descriptions())
    assert all(len(text) > 20 for text in listed.values())
