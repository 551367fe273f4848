"""Configuration is read within limits; what is refused is named with file, line and key."""

import math

import pytest
import yaml
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from equipoise.errors import ConfigError
from equipoise.runs import recipe_loader
from equipoise.system.packaged_recipes import recipe_folder
from equipoise.system.yaml_text import DEPTH, LENGTH, check_plain, parse_yaml, read_yaml, yaml_text

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED = {
    "brackets": ("a: " + "[" * 3_000, "mine.yaml: a: more than 64"),
    "unending brackets": ("[" * 900_000, "more than 64"),
    "laughs": (LAUGHS, "line 6: f: more than 100,000 values"),
    "long": ("a: " + "x" * LENGTH, "longer than"),
    "digits": ("seed: " + "9" * 5_000, "seed: a number of 5,000 characters"),
    "forty digits": ("seed: " + "9" * 41, "seed: a whole number of more than 40 digits"),
    "infinity": ("a:\n  rate: .inf\n", "line 2: a.rate: inf is no finite number"),
    "no number": ("a: [1, -.NaN]\nb: .nan", "b: nan"),
    "overflow": ("a: 1.0e+999", "a: inf"),
    "twice": ("a: 1\nb: 2\na: 3\n", "mine.yaml, line 3: the key 'a' stands here twice"),
    "yes as a key": ("on: 1", "the key True"),
    "nothing as a key": ("~: 1", "the key None"),
    "a list as a key": ("? [a]\n: 1", "cannot be a key"),
    "itself": ("a: &a [*a]", "*a names nothing"),
    "tag": ("a: !!python/object:os.x 1", "tag"),
    "two documents": ("a: 1\n---\nb: 2\n", "another document"),
    "escape": ("a: \x1b[31m", "not YAML"),
    "surrogate": ("a: \ud800", "not YAML"),
    "open": ("a: [1, 2", "not YAML"),
}


@pytest.mark.parametrize("text, words", REFUSED.values(), ids=REFUSED)
def test_refused(text, words):
    with pytest.raises(ConfigError) as refusal:
        parse_yaml(text, "mine.yaml")
    assert words in str(refusal.value)
    assert str(refusal.value).startswith("mine.yaml")
    assert len(str(refusal.value)) < 400


@pytest.mark.long
def test_packaged_recipes_read_as_pyyaml_reads_them():
    for file in recipe_folder().iterdir():
        if file.name.endswith(".yaml"):
            text = file.read_text(encoding="utf-8")
            assert parse_yaml(text, file.name) == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x {b: 1}\nc: {<<: *x, d: 2}\ne: {b: 3, <<: [*x, {d: 4}]}\n",
        "[1, -2, 0x1f, 010, 1_000, 1e3, 1.5e+3, yes, Off, ~, null, '1', \"a\\nb\"]",
        "",
        "by: {0: .5, 2: 1}",
    ],
)
def test_aliases_numbers_and_words_read_as_pyyaml_reads_them(text):
    assert parse_yaml(text, "") == yaml.safe_load(text)


def test_dates_stay_texts():
    assert parse_yaml("[2024-01-01, =, <<]", "") == ["2024-01-01", "=", "<<"]


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**39), 10**39) | st.text(max_size=8)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)  # fmt: skip


@profile(max_examples=30)
@given(plain)
def test_what_is_written_reads_the_same(value):
    assert parse_yaml(yaml_text(value), "") == value


def test_files(tmp_path):
    path = tmp_path / "mine.yaml"
    for content, words in [
        (None, "no such file"),
        (b"\xff", "UTF-8"),
        (b"a" * 5_000_000, "longer"),
    ]:
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigError, match=words):
            read_yaml(path)


@pytest.mark.parametrize(
    "settings",
    [
        {"learner.learning_rate": math.inf},
        {"learner": {"learning_rate": math.nan}},
        {"learner.learning_rate": "inf"},
        {"seed": 10**50},
        ["learner.learning_rate=.inf"],
        ["learner.learning_rate=1e999"],
        ["by_generation={loss: {ratio: {0: .inf}}}"],
    ],
)
def test_infinities_are_refused_wherever_they_come_from(settings):
    with pytest.raises(ConfigError, match=r"finite|digits"):
        recipe_loader.load("quickstart", settings)


def test_a_mapping_that_holds_itself():
    around = {}
    around["around"] = around
    for recipe, overrides in [(around, ()), ("quickstart", {"judge": around})]:
        with pytest.raises(ConfigError, match="more than 64"):
            recipe_loader.load(recipe, overrides)


def test_recipes_that_extend_one_another_without_end(tmp_path):
    for number in range(30):
        (tmp_path / f"{number}.yaml").write_text(f"extends: {number + 1}.yaml\n")
    with pytest.raises(ConfigError, match="extend one another"):
        recipe_loader.load(tmp_path / "0.yaml")


def test_values_from_python_may_be_as_deep_as_those_of_a_file():
    """The outermost value is the first level."""

    def nested(levels):
        value = 1
        for _ in range(levels - 1):
            value = [value]
        return value

    check_plain(nested(DEPTH), "settings")
    with pytest.raises(ConfigError, match="settings"):
        check_plain(nested(DEPTH + 1), "settings")


def test_the_kind_that_is_meant_by_default_may_be_named():
    recipe = {"extends": "quickstart", "evaluate": {"kind": "held_out", "every": 2}}
    ours = recipe_loader.load(recipe).evaluate
    by_option = recipe_loader.load("quickstart", ["evaluate={kind: held_out, every: 2}"]).evaluate
    assert ours == by_option
    assert ours.every == 2
    assert list(ours.sets) == ["greedy"]
    other = recipe_loader.load("quickstart", ["evaluate={kind: sets, every: 2}"]).evaluate
    assert not other.sets  # another kind replaces it whole


@pytest.mark.parametrize("text", ["executor={processes: 0}", "judge={kind: shorter, unt: 1}"])
def test_a_fault_within_an_override_is_the_overrides(text):
    with pytest.raises(ConfigError) as refused:
        recipe_loader.load("quickstart", [text])
    assert str(refused.value).startswith(f"-s {text}: ")


def test_a_runs_own_configuration_extends_nothing(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("extends: mnpo\n")
    with pytest.raises(ConfigError, match="extends: a run's own configuration is whole"):
        recipe_loader.read_resolved(path)
    path.write_text("name: mine\n")
    assert recipe_loader.read_resolved(path) == {"name": "mine"}
