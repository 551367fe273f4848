"""What can be known to fail is said by `plan` and by `run` alike, before anything is played; and
nothing is left behind.
"""

import json
import shlex
import shutil
from pathlib import Path

import pytest
from small_runs import SMALL, settings

from equipoise.errors import ConfigError, DataError, ModelError
from equipoise.planning.checks import check_endpoints, check_run
from equipoise.players import local_settings
from equipoise.prompts.row_prompts import to_prompt
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.runs.room_for_prompts import without_too_long
from equipoise.runs.unread_settings import UNREAD, unread_settings

PLAIN = [{"prompt": f"Tell me about the number {n}."} for n in range(40)]
CHAT = [{"prompt": [{"role": "user", "content": f"What is {n} + 1?"}]} for n in range(40)]
MODEL = settings(policy__model="builtin", policy__max_length=128)


def overrides(arguments):
    return [part for part in arguments if part != "-s"]


def mnpo(path, *further):
    return recipe_loader.load("mnpo", overrides([*MODEL, *settings(prompts__path=path), *further]))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ["judge: 'gold'", "30 of 30 training prompts", "'answer'", "max_unjudged"]),
        ({"judge": "exact"}, ["judge: 'exact'", "8 of 8 held-out", "fact 'answer'"]),
        (
            {"judge": "shorter", "evaluate__judge": "math"},
            ["evaluate.judge: 'math'", "fact 'answer'"],
        ),
        ({"judge": "peers"}, ["judge: 'peers' needs at least three players"]),
        ({"judge": "matrix"}, ["judge: 'matrix' judges finite games"]),
        (
            {"judge": "shorter", "loss": "{kind: sppo, wins: judged}"},
            ["loss: 'sppo'", "'shorter' lie between -inf and 0", "loss.wins: counted"],
        ),
        (
            {
                "judge": "{kind: panel, judges: [shorter, on_topic]}",
                "loss": "{kind: sppo, wins: judged}",
            },
            ["loss: 'sppo'", "'panel'"],
        ),
        (
            {
                "judge": "{kind: rubric, model: {kind: scripted, text: '5'}}",
                "loss": "{kind: mnpo, target: probability, wins: judged}",
            },
            ["loss: 'mnpo'", "between 1 and 10", "loss.wins: counted"],
        ),
        (
            {"judge": "shorter", "pairs": "meta_rewarding", "loss": "sppo"},
            ["loss: 'sppo'", "pairs: meta_rewarding brings gradings", "dpo"],
        ),
        (
            {
                "judge": "shorter",
                "pairs": "{kind: data, then: meta_rewarding}",
                "loss": "distill_dpo",
            },
            ["loss: 'distill_dpo'", "the size of scores"],
        ),
        ({"judge": "shorter", "game__samples": 1}, ["pairs: ", "game.samples"]),
        ({"judge": "shorter", "schedule": "sparta"}, ["two players or more"]),
        (
            {"judge": "shorter", "policy__model": "no/folder/here"},
            ["players.policy: ", "'no/folder/here'"],
        ),
        (
            {"judge": "{kind: rubric, model: {kind: local, model: absent/judge}}"},
            ["judge.model: ", "'absent/judge'"],
        ),
        ({"judge": "{kind: reward_model, model: absent/reward}"}, ["judge: ", "'absent/reward'"]),
        (
            {
                "judge": "shorter",
                "players__other": "{kind: endpoint, base_url: 'http://x.test/v1', "
                "model: m, api_key_env: SURELY_NOT_SET}",
            },
            ["players.other: ", "SURELY_NOT_SET is not set"],
        ),
        (
            {"judge": "shorter", "policy": "{kind: scripted, text: hi, learns: true}"},
            ["learner: 'preference'", "'local', not 'scripted'"],
        ),
        ({"judge": "shorter", "prompts": "{kind: blank, held_out: 2}"}, ["prompts: ", "'answers'"]),
    ],
)
def test_parts_that_do_not_fit_together(rows, changes, words):
    with pytest.raises(ConfigError) as raised:
        check_run(mnpo(rows(PLAIN), *settings(**changes)))
    assert all(word in str(raised.value) for word in words), raised.value


def test_an_adapter_of_modules_that_are_not_there_is_refused(rows):
    lora = "{target_modules: [q_projection]}"
    with pytest.raises(ConfigError, match=r"players.policy: lora.target_modules.*q_projection"):
        check_run(mnpo(rows(PLAIN), *settings(judge="shorter", policy__lora=lora)))


def test_a_players_endpoint_that_is_away_is_a_note_and_a_judges_an_error(rows):
    away = "{kind: endpoint, base_url: 'http://127.0.0.1:9/v1', model: m}"
    changes = settings(judge="shorter", players__other=away)
    (note,) = check_endpoints(mnpo(rows(PLAIN), *changes))
    assert note.startswith("players.other: http://127.0.0.1:9/v1: cannot be reached")
    changes = settings(judge="{kind: rubric, model: " + away + "}")
    with pytest.raises(ConfigError, match=r"^judge.model: http://127.0.0.1:9/v1: cannot be reac"):
        check_endpoints(mnpo(rows(PLAIN), *changes))


def test_a_tracker_that_cannot_send_is_told_before_anything_is_played(rows, monkeypatch, tmp_path):
    config = mnpo(rows(PLAIN), *settings(judge="shorter"))
    tracked = [config.model_copy(update={"report_to": (kind,)}) for kind in ("wandb", "mlflow")]
    for name, value in {
        "WANDB_MODE": "online",
        "HOME": str(tmp_path),
        "MLFLOW_TRACKING_URI": "http://127.0.0.1:9",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    for each, words in zip(tracked, ("it has no key", "does not answer"), strict=True):
        with pytest.raises(ConfigError, match=words):
            check_endpoints(each)
    (tmp_path / ".netrc").write_text("machine api.wandb.ai login user password key\n")
    check_endpoints(tracked[0])


def test_all_faults_are_said_at_once(rows):
    with pytest.raises(ConfigError) as raised:
        check_run(mnpo(rows(PLAIN), *settings(judge="peers", game__samples=1)))
    assert {line.partition(":")[0] for line in str(raised.value).splitlines()} == {"judge", "pairs"}


ALWAYS_READ = """
    name seed generations players prompts game judge judges max_unjudged utility learners
    by_generation evaluate measures commit_every ledger executor unit_rows report_to
    readable_by_others
"""


def test_of_every_setting_it_is_known_what_reads_it():
    assert sorted([*UNREAD, *ALWAYS_READ.split()]) == sorted(RunConfig.model_fields)


ROLES = ["defender", "adversary"]


@pytest.mark.parametrize(
    ("recipe", "changes", "words"),
    [
        ("mnpo", {"learner": "policy_gradient", "loss": "dpo"}, ["loss: ", "-s loss=null"]),
        (
            "mnpo",
            {"learner": "policy_gradient", "loss.eta": 3},
            ["loss: ", "policy_gradient learns from rewards"],
        ),
        ("mnpo", {"learner": "sft", "loss": "dpo"}, ["loss: ", "the winners' answers", "=null"]),
        (
            "mnpo",
            {"learner": "policy_gradient", "loss": "null", "pairs": "all_pairs"},
            ["pairs: ", "-s pairs=best_worst"],
        ),
        ("mnpo", {"shaping": "[{kind: cosine, role: answer}]"}, ["shaping", "-s shaping=[]"]),
        ("mnpo", {"normalise": "{method: rank}"}, ["normalise: ", "-s normalise.method=none"]),
        ("rlhf", {"shaping": "[cosine]"}, ["shaping: ", "adversary does not learn"]),
        ("gtalign", {"normalise": "{by: all}"}, ["normalise: ", "normalises nothing"]),
        (
            "mnpo",
            {"pairs": "{kind: data, generations: 9}", "schedule": "against_history"},
            ["schedule: ", "nothing is played", "-s schedule=self_play"],
        ),
        ("mnpo", {"training_ratings": "elo"}, ["training_ratings: ", "one player"]),
        (
            "mnpo",
            {"policy__learns": "false", "keep": 9, "training_matches": "own"},
            ["training_matches, keep: ", "nobody learns"],
        ),
        ("rock_paper_scissors", {"truncated": "drop"}, ["truncated: ", "the game's rules"]),
        (
            "rock_paper_scissors",
            {"league_ratings": "elo"},
            ["league_ratings: ", "finite uses none"],
        ),
        ("rock_paper_scissors", {"solver": "alpha_rank"}, ["solver: ", "finite uses none"]),
        ("psro_matrix", {"loss": "mnpo"}, ["loss: ", "an aim of their own"]),
        ("psro_matrix", {"league_ratings": "elo"}, ["league_ratings: ", "meta_game uses none"]),
        ("sparta_clerks", {"learner": "{kind: sft}", "loss": "null"}, []),
        ("mnpo", {"learner": "policy_gradient", "loss": "null"}, []),
        ("mnpo", {"generations": 0, "policy__learns": "false"}, []),
        ("mnpo", {"solver": "alpha_rank", "league_ratings": "elo", "keep": 3}, []),
        ("psro_matrix", {"solver": "alpha_rank"}, []),
    ],
)
def test_a_setting_that_nothing_reads_is_refused(recipe, changes, words):
    given = settings(**changes)
    for name in {"mnpo": ["policy"], "gtalign": ["assistant"], "rlhf": ROLES}.get(recipe, ()):
        given += settings(prompts__path="p.jsonl", **{f"{name}__model": "builtin"})
    given += settings(judge__guard="clerk_guard") if recipe == "rlhf" else []
    faults = list(unread_settings(recipe_loader.load(recipe, overrides(given))))
    assert len(faults) == bool(words), faults
    assert all(word in faults[0] for word in words), faults


PAIRS = [{**row, "chosen": f"It is {n}.", "rejected": "No."} for n, row in enumerate(PLAIN)]
FIRST_ITERATION = {"pairs": "data", "generations": 1, "evaluate__judge": "shorter"}
SMALL_WINDOW = {"policy__max_new_tokens": 32}


@pytest.mark.parametrize(
    ("recipe", "changes", "left_out"),
    [
        ("mnpo", FIRST_ITERATION, {}),
        ("mnpo_as_released", FIRST_ITERATION | SMALL_WINDOW, {}),
        ("mnpo", {"learner": "policy_gradient"}, {"loss": "policy_gradient learns from rewards"}),
        (
            "mnpo_as_released",
            {"learner": "policy_gradient"} | SMALL_WINDOW,
            {"loss": "policy_gradient learns from rewards"},
        ),
        ("mnpo", {"learner": "sft"}, {"loss": "the winners' answers"}),
        ("mnpo", {"policy__learns": "false"}, {"learner, loss": "nobody learns"}),
    ],
)
def test_what_a_recipe_sets_and_nothing_reads_yields_and_is_named(rows, recipe, changes, left_out):
    given = [*MODEL, *settings(prompts__path=rows(PAIRS), **{"judge": "shorter", **changes})]
    config = recipe_loader.load(recipe, overrides(given))
    checked = check_run(config)
    assert not list(unread_settings(config))
    named = [note for note in checked.notes if "what the recipe sets" in note]
    assert len(named) == len(left_out)
    for note, (name, reason) in zip(named, left_out.items(), strict=True):
        assert note.startswith(f"{name}: ")
        assert reason in note
    recipe_loader.build(checked.config.model_dump(mode="json"), "again")


def test_what_a_recipe_says_of_players_who_no_longer_learn_yields():
    """And what the user says of them is refused."""
    given = ["alice.learns=false", "alice.model=builtin", "bob.model=builtin", "prompts.path=p"]
    given.append("judges.bob=shorter")
    config = recipe_loader.load("mnpo_heterogeneous_as_released", given)
    assert config.learning == ["bob"]
    assert list(config.losses) == ["bob"]
    assert {name for name in config.by_generation if "alice" in name} == set()
    assert [note.partition(":")[0] for note in config.yielded] == ["judges", "losses"]
    with pytest.raises(ConfigError, match="losses: 'alice' does not learn"):
        recipe_loader.load("mnpo_heterogeneous_as_released", [*given, "losses.alice.eta=3"])


def test_turns_of_players_who_no_longer_learn_yield():
    models = ["defender.model=builtin", "adversary.model=builtin", "judge.guard=clerk_guard"]
    given = [*models, "prompts.path=p.jsonl", "adversary.learns=false", "shaping=[]"]
    config = recipe_loader.load("gpo", given)
    assert config.learning == ["defender"]
    assert config.turns.named_players() == ("defender",)
    assert not config.learners
    assert [note.partition(":")[0] for note in config.yielded] == ["learners", "turns.steps"]
    with pytest.raises(ConfigError, match="turns: 'adversary' does not learn"):
        recipe_loader.load("gpo", [*given, "turns.steps.adversary=7"])


def test_a_file_of_the_users_own_is_held_to_what_it_says(tmp_path):
    """What it extends yields; what it says itself is refused where nothing reads it."""
    mine = tmp_path / "mine.yaml"
    mine.write_text("extends: mnpo\nlearner: policy_gradient\n")
    given = ["policy.model=builtin", "prompts.path=p.jsonl"]
    assert recipe_loader.load(mine, given).loss is None
    mine.write_text("extends: mnpo\nlearner: policy_gradient\nloss: {eta: 3}\n")
    (fault,) = unread_settings(recipe_loader.load(mine, given))
    assert fault.startswith("loss: nothing reads it")


@pytest.mark.parametrize(
    "changes",
    [
        {"judge": "shorter"},
        {"judge": "gold", "max_unjudged": 1},
        {"judge": "{kind: panel, judges: [gold, shorter]}"},
        {"judge": "on_topic", "loss": "sppo"},
        {"judge": "shorter", "loss": "{kind: sppo, target: constant}"},
        {"judge": "shorter", "loss": "{kind: mnpo, target: reward}"},
    ],
)
def test_parts_that_fit(rows, changes):
    check_run(mnpo(rows(PLAIN), *settings(**changes)))


def test_who_judges_nothing_in_training_need_not_be_able_to(rows):
    """Generation 0 learns from the data's pairs; only what is played is judged."""
    pairs = [{**row, "chosen": f"It is {n}.", "rejected": "No."} for n, row in enumerate(PLAIN)]
    given = settings(pairs="data", evaluate__judge="shorter", generations=1)
    path = rows(pairs)
    check_run(mnpo(path, *given))
    with pytest.raises(ConfigError, match=r"'gold' can judge no answer to (\d+) of \1 tr"):
        check_run(mnpo(path, *given, *settings(generations=2)))


def test_a_few_prompts_without_an_answer_are_noted(rows):
    answered = [{**row, "answer": str(n)} for n, row in enumerate(PLAIN)]
    checked = check_run(mnpo(rows([*answered[:37], *PLAIN[37:]]), *settings(judge="exact")))
    assert any("'exact' can judge no answer to" in note for note in checked.notes)


ENDLESS = [{"prompt": f"Tell me about {word} and " * 90} for word in ("hay", "ice")]


def test_prompts_that_leave_no_room_for_an_answer_are_said_first_where_they_are_to_stop(rows):
    with pytest.raises(ConfigError) as caught:
        given = settings(judge="shorter", too_long="stop")
        check_run(mnpo(rows([*PLAIN, *ENDLESS]), *given))
    in_training, held_out = str(caught.value).splitlines()
    for fault in (in_training, held_out):
        assert fault.startswith("players.policy: a prompt of ")
        assert "no room for an answer within max_length = 128 (it begins 'Tell" in fault
    assert in_training.endswith("(training)")
    assert held_out.endswith("(held-out)")


@pytest.mark.parametrize("rule", ["drop", "cut_answer"])
def test_prompts_that_leave_no_room_for_an_answer_are_left_out_and_counted(rows, rule):
    checked = check_run(mnpo(rows([*PLAIN, *ENDLESS]), *settings(judge="shorter", too_long=rule)))
    assert checked.split.dropped == {"too_long": 2}
    assert any("2 too long to leave room for an answer" in note for note in checked.notes)
    dealt = [*checked.split.training, *checked.split.held_out]
    assert len(dealt) == 38
    assert all(len(p.messages[0].content) < 90 for p in dealt)


def test_prompts_may_be_cut_to_leave_room_and_that_is_counted(rows):
    given = settings(judge="shorter", too_long="cut_prompt", policy__max_new_tokens=40)
    checked = check_run(mnpo(rows([*PLAIN, *ENDLESS]), *given))
    policy = checked.config.players["policy"]
    assert policy.max_prompt == 88
    assert not checked.split.dropped
    assert "prompts: 2 lose their first tokens (too_long: cut_prompt)" in checked.notes
    encoding = policy.encoding()
    chat = to_prompt(ENDLESS[0], "", "").messages
    whole = encoding.whole_prompt_ids(chat)
    assert encoding.prompt_ids(chat) == whole[-88:]
    assert len(whole) > 128


def test_a_bound_on_prompts_needs_the_rule_that_cuts_them(rows):
    with pytest.raises(ConfigError, match=r"players.policy.max_prompt: .* too_long: cut_prompt"):
        mnpo(rows(PLAIN), *settings(policy__max_prompt=40))
    with pytest.raises(ConfigError, match="leave no room for an answer within max_length: 128"):
        mnpo(rows(PLAIN), *settings(policy__max_prompt=128, too_long="cut_prompt"))


def test_a_model_that_cannot_be_read_is_tried_once_for_its_prompts(rows, monkeypatch):
    """Each try of a hostile template may take half a minute."""
    tried = []

    def unreadable(*given, **more):
        tried.append(given)
        raise ModelError("the chat template cannot render a user's message")

    config = mnpo(rows(PLAIN), *settings(judge="shorter"))
    monkeypatch.setattr(local_settings, "load_encoding", unreadable)
    source = config.prompts.load()
    assert without_too_long(source, config).training == source.training
    assert len(tried) == 1


def test_kept_repeats_and_leaks_are_noted(rows):
    leaky = [*PLAIN, *PLAIN[:9]]
    apart = rows([PLAIN[3], {"prompt": "Only here."}], "apart.jsonl")
    given = settings(judge="shorter", prompts__held_out_path=apart, prompts__repeats="keep")
    checked = check_run(mnpo(rows(leaky), *given))
    (note,) = [note for note in checked.notes if "prompts.repeats" in note]
    assert "9 repeated, 2 also among the held-out ones" in note
    assert note.endswith("are in part of what was trained on")


def test_counts_shrink_to_the_file(rows):
    checked = check_run(mnpo(rows(PLAIN), *settings(judge="shorter")))
    prompts = checked.config.prompts
    assert (prompts.per_generation, prompts.held_out) == (10, 8)
    assert [len(part) for part in checked.split.parts] == [10, 10, 10]
    assert len(checked.split.held_out) == 8
    (note,) = checked.notes
    assert "40 prompts" in note
    assert "per_generation 1,000 → 10" in note


def test_counts_shrink_for_a_test_of_their_own_and_no_further_than_needed(rows):
    more = settings(judge="shorter", prompts__test=50, prompts__per_generation=7)
    checked = check_run(mnpo(rows(PLAIN), *more))
    prompts = checked.config.prompts
    assert (prompts.per_generation, prompts.held_out, prompts.test) == (7, 8, 4)


def test_counts_that_fit_stay_as_they_are(rows):
    exact = settings(judge="shorter", prompts__per_generation=10, prompts__held_out=10)
    checked = check_run(mnpo(rows(PLAIN), *exact))
    assert checked.notes == ()
    assert len(checked.split.held_out) == 10


@pytest.mark.parametrize(
    ("count", "further", "words"),
    [(3, {}, "at least 4, and 3 are there"), (40, {"prompts__shrink": False}, "too few prompts")],
)
def test_too_few_prompts(rows, count, further, words):
    with pytest.raises(DataError, match=words):
        check_run(mnpo(rows(PLAIN[:count]), *settings(judge="shorter", **further)))


def test_prompts_and_parts_that_fail_are_named_together(tmp_path):
    """And a model without a chat template is noted."""
    (tmp_path / "odd.jsonl").write_text('{"words": 1}\n')
    with pytest.raises(ConfigError, match=r"odd\.jsonl[\s\S]*there is no|does not exist"):
        check_run(mnpo(tmp_path / "odd.jsonl", *settings(policy__model=str(tmp_path / "none"))))


def test_a_model_without_a_chat_template_is_noted(rows, model_folder, tmp_path):
    folder = shutil.copytree(model_folder("llama"), tmp_path / "plain")
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        file = folder / name
        if name.endswith(".json"):
            kept = json.loads(file.read_text())
            kept.pop("chat_template", None)
            file.write_text(json.dumps(kept))
        else:
            file.unlink(missing_ok=True)
    few = settings(judge="shorter", prompts__per_generation=10, prompts__held_out=10)
    short = settings(policy__model=str(folder), policy__max_length=64)
    (note,) = check_run(mnpo(rows(PLAIN), *few, *short)).notes
    assert "has no chat template" in note


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_the_command_says_it_and_leaves_nothing_behind(command, rows, tmp_path, verb):
    out = ["--out", "runs/mine"] if verb == "run" else []
    for path in (rows(PLAIN), tmp_path / "absent.jsonl"):
        done = command(verb, "mnpo", *MODEL, *settings(prompts__path=path), *out)
        assert done.code == 2
        assert "'gold'" in done.err or "absent.jsonl" in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"prompts.jsonl"}


@pytest.mark.long
@pytest.mark.parametrize("prompts", [PLAIN, CHAT], ids=["standard", "conversational"])
def test_the_headline_command_of_the_readme(command, rows, tmp_path, prompts):
    """As printed, with its judge, a tiny model, and less of everything."""
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    blocks = [text.replace("\\\n", " ") for text in readme.split("```")]
    (judge,) = [text for text in blocks if text.startswith("python\n# myjudge.py")]
    (tmp_path / "myjudge.py").write_text(judge.removeprefix("python\n"))
    (line,) = [text.strip() for text in blocks if text.strip().startswith("equipoise run mnpo")]
    words = shlex.split(line, comments=True)
    rows(prompts)
    little = settings(
        policy__model="builtin",
        policy__max_length=128,
        policy__max_new_tokens=8,
        generations=1,
        evaluate__samples=1,
        game__samples=2,
    )
    done = command(*words[1:], *little, "--json")
    assert done.code == 0, done.err
    assert "note: the source has 40 prompts" in done.err
    assert done.facts["records"]["pairs"] > 0
    kept = recipe_loader.read(Path("runs/first/config.yaml"))
    assert (kept["prompts"]["per_generation"], kept["prompts"]["held_out"]) == (32, 8)


def test_weights_that_are_missing_leave_no_folder(command, rows, tmp_path):
    from equipoise.models.adapters import resolve

    folder = tmp_path / "model"
    folder.mkdir()
    for file in Path(resolve("builtin")).iterdir():
        if file.suffix != ".safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    done = command(
        *["run", "mnpo", *SMALL, *settings(policy__model=folder, judge="shorter")],
        *settings(prompts__path=rows(PLAIN), policy__max_length=128),
        *["--out", "run"],
    )
    assert done.code == 2
    assert str(folder) in done.err
    assert not (tmp_path / "run").exists()


@pytest.mark.long
def test_a_plan_shows_the_counts_that_a_run_will_have(command, rows):
    path = settings(prompts__path=rows(PLAIN), judge="shorter")
    done = command("plan", "mnpo", *MODEL, *path, "--json")
    assert done.code == 0
    assert "note: the source has 40 prompts" in done.err
    planned = json.loads(done.out)
    assert planned["counts"]["prompts"] == 30
    assert planned["configuration"]["prompts"]["per_generation"] == 10


def test_of_prompts_that_a_game_refuses_nothing_else_is_asked():
    blank = "{kind: blank, per_generation: 2, held_out: 2}"
    config = recipe_loader.load("gpo_clerks", overrides(settings(prompts=blank, generations=1)))
    with pytest.raises(ConfigError) as caught:
        check_run(config)
    words = "prompts: game 'red_team' takes prompts with a text, and these say nothing"
    assert str(caught.value).splitlines() == [f"{words} (training)", f"{words} (held-out)"]
