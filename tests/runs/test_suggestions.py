"""What people mean by names that there are not: kinds, settings, options, verbs."""

import pytest

from equipoise.api import extending
from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader, suggestions
from equipoise.runs.recipe_loader import with_defaults
from equipoise.runs.suggestions import suggest_kind, suggest_option, suggest_settings, verb_called


@pytest.fixture(scope="module")
def values():
    """The quickstart's settings with their defaults, as messages see them."""
    return recipe_loader.load("quickstart", []).model_dump(mode="json")


def unknown(kind):
    return {"type": "unknown_kind", "ctx": {"kind": kind}}


@pytest.mark.parametrize(
    ("keys", "kind", "said"),
    [
        (["judge"], "Exact", "unknown kind 'Exact'; did you mean 'exact'?"),
        (["judges", "a"], "none", "unknown kind 'none'; nothing is written null"),
        (["players", "policy"], "gpt-9", "a model is named by -s policy.model=gpt-9"),
        (
            ["players", "policy"],
            "http://a/v1",
            "a server's model plays as {kind: endpoint, base_url: http://a/v1, model: …}",
        ),
        (["prompts"], "rows.jsonl", "is named by -s prompts.path=rows.jsonl"),
        (["prompts"], "org/set", "is named by -s prompts.path=org/set"),
        (["prompts"], "nothing", ""),
        (
            ["judge"],
            "http://a/v1",
            "judges as {kind: rubric, model: {kind: endpoint, base_url: http://a/v1, model: …}}",
        ),
        (["judge"], "org/reward", "a reward model is {kind: reward_model, model: org/reward}"),
        (["guard", "judge"], "gpt-x", "a reward model is {kind: reward_model, model: gpt-x}"),
        (["judge"], "org/mine.py", ""),
        (["game"], "nothing", ""),
        ([], "nothing", ""),
    ],
)
def test_a_kind_that_there_is_not(keys, kind, said, values):
    found = suggest_kind(unknown(kind), keys, values)
    assert bool(found) == bool(said)
    assert said in found
    assert not found or found.startswith(f"unknown kind '{kind}'; ")


def test_a_player_that_there_is_not(values):
    fault = {"type": "kind", "ctx": {}}
    assert suggest_kind(fault, ["players", "policyy"], values) == (
        "there is no such player; did you mean 'policy'?"
    )
    assert suggest_kind(fault, ["players", "zzz"], values) == ""
    assert suggest_kind(fault, ["judge"], values) == ""
    assert suggest_kind({"type": "missing"}, ["judge"], values) == ""


@pytest.mark.parametrize(
    ("option", "line", "said"),
    [
        ("", "run quickstart generations=3 -s seed=1 --set a=2", "Write -s generations=3"),
        ("", "run quickstart a=1 b=2", "Write -s a=1 -s b=2"),
        ("", "run quickstart -s seed=1", ""),
        ("--config", "run --config a.yaml", "The recipe has no option: equipoise run RECIPE"),
        ("--generations", "run q --generations 3", "Write -s generations=3"),
        ("--generations", "run q --generations=3", "Write -s generations=3"),
        ("--generations", "run q --generations", "Write -s generations=…"),
        ("--generations", "run q --generations --json", "Write -s generations=…"),
        ("--learner.epochs", "run q --learner.epochs 2", "Write -s learner.epochs=2"),
        ("--temperature", "run q --temperature 0", "Write -s policy.temperature=0"),
        ("--zzzzzz", "run q --zzzzzz 0", ""),
    ],
)
def test_an_option_that_there_is_not(option, line, said, values):
    assert suggest_option(option, line.split(), values) == said


def test_names_of_other_programs(values):
    for table in ("options", "verbs", "settings"):
        names = suggestions.other_names(table)
        assert names
        assert all(names.values())
    verbs = suggestions.other_names("verbs")
    assert {name: verb_called(name) for name in verbs} == {n: v[0] for n, v in verbs.items()}
    assert verb_called("zzz") == ""
    for name, (option, *_) in suggestions.other_names("options").items():
        said = suggest_settings(name, values, {})
        assert said == f"it is no setting, but on the command line there is {option}"
        assert suggest_option(f"--{name}", ["run"], values) == f"Write {option}"


@pytest.mark.parametrize(
    ("key", "part", "said"),
    [
        ("temperature", "", "did you mean 'policy.temperature'?"),
        ("temperature", "players.policy", "did you mean 'temperature'?"),
        ("temprature", "players.policy", "did you mean 'temperature'?"),
        ("epochs", "", "did you mean 'learner.epochs'?"),
        ("epoch", "learner", "did you mean 'epochs'?"),
        ("policyy", "", "did you mean 'policy'?"),
        ("exact", "judge", "a kind is written {kind: exact, …}"),
        ("zzzzzz", "", ""),
    ],
)
def test_a_setting_that_there_is_not(key, part, said, values):
    assert suggest_settings(key, values, {}, part) == said


def test_settings_that_may_change_once_a_run_has_begun():
    with pytest.raises(ConfigError, match="name the player"):
        extending.check_allowed("player_defaults.budget.calls", "-s x")
    for key in ("generations", "keep", "players.a.budget.calls", "judge.timeout", "report_to"):
        extending.check_allowed(key, "-s x")
    for key, why in (
        ("seed", "every choice so far came from it"),
        ("players.a.temperature", "the answers so far are of other players"),
        ("evaluate.sets.a", "the generations so far were not measured on it"),
        ("evaluate.samples", "the measurements so far would not be comparable"),
        ("learner.epochs", "what is recorded depends on it"),
        ("judges", "what is recorded depends on it"),
    ):
        with pytest.raises(ConfigError) as refused:
            extending.check_allowed(key, f"-s {key}=1")
        said = str(refused.value)
        assert said.startswith(f"-s {key}=1: cannot change once the run has begun: {why}")
        assert "These may: generations (more of them" in said
        assert "retries, timeout" in said


def test_what_may_only_grow():
    def changed(*settings):
        return recipe_loader.load("rock_paper_scissors", ["generations=3", *settings])

    base = changed("max_unjudged=0.5")
    assert [*extending.refused_changes(base, base)] == []
    assert [*extending.refused_changes(base, changed("generations=4", "max_unjudged=0.75"))] == []
    first, second = extending.refused_changes(base, changed("generations=2", "max_unjudged=0.25"))
    assert first.startswith("the run has 3 generations and can only get more")
    assert second.startswith("max_unjudged is 0.5 and can only rise")
    same = changed("max_unjudged=0.5", "prompts.reuse=same")
    [third] = extending.refused_changes(base, same)
    assert third.startswith("prompts.reuse can only become true, and only with more generations")
    assert with_defaults({"name": "a"})["name"] == "a"


def test_a_setting_of_the_same_part_is_meant_before_all_others():
    parts = {"judge": {"temperature": 1}, "players.a": {"temperature": 1}}
    assert suggestions._same_name("temperature", "judge", parts) == ["judge.temperature"]
    assert suggestions._same_name("temperature", "players.a", parts) == ["players.a.temperature"]
    assert suggestions._same_name("temperature", "", {"game": {}}) == []


def test_at_most_two_settings_are_named_for_one_word(values):
    players = dict.fromkeys("abc", values["players"]["policy"])
    assert suggestions._likely("temperature", {**values, "players": players}) == [
        "a.temperature",
        "b.temperature",
    ]


def test_defaults_without_a_kind_are_every_players():
    config = recipe_loader.load("quickstart", ["player_defaults.lora={r: 16}"])
    lora = config.players["policy"].settings()["lora"]
    assert lora["r"] == 16
    with pytest.raises(ConfigError, match="nonsense"):
        recipe_loader.load("quickstart", ["player_defaults.nonsense=1"])


@pytest.mark.parametrize("keep", [0, -1])
def test_the_newest_generation_always_stays(keep):
    with pytest.raises(ConfigError, match="keep"):
        recipe_loader.load("quickstart", {"loss": "dpo", "keep": keep})


def test_a_path_with_dots_in_a_file_is_shown_as_a_file_writes_it(command, tmp_path):
    (tmp_path / "dots.yaml").write_text("extends: quickstart\nprompts.held_out: 7\n")
    done = command("plan", "dots.yaml")
    assert done.code == 2
    said = "dots.yaml: unknown key 'prompts.held_out'; in a recipe it is written prompts: {held_out: …}"
    assert said in done.err
