"""`attack-judge` from Python: what it takes as a judge, as prompts and as the truth."""

import json

import pytest
from capitals import ROWS
from small_runs import SMALL

import equipoise
from equipoise.api.attacking_judges import made_prompts
from equipoise.api.trained_attack import AttackerTraining
from equipoise.environments.clerk.clerk_prompts import ClerkQuestions
from equipoise.errors import ConfigError, DataError, RunError
from equipoise.evaluation.attacked_judge import Likeness
from equipoise.judges.base import Judge
from equipoise.judges.no_tricks import NoTricks
from equipoise.runs import recipe_loader


def praised(prompt, text, answer=None):
    return float(str(answer) in text) + 0.5 * ("excellent" in text)


def broken(prompt, text):
    raise RuntimeError("out of order")


def test_a_function_and_rows_from_python_give_numbers_a_page_and_a_gate(tmp_path):
    attacked = equipoise.attack_judge(praised, ROWS, kinds=["flattery", "empty"])
    bare, gated = attacked.judges
    assert bare.open_kinds == ["flattery"] and not gated.exploits
    assert {each.attack.name for each in attacked.exploits} == {"praise"}
    assert bare.prompts == len(ROWS)
    assert "kind: gated" in attacked.gate and "kind: no_tricks" in attacked.gate
    assert "praised alone: 2 exploits" in repr(attacked)
    facts = json.loads(json.dumps(attacked.facts()))
    assert facts["judges"][0]["attacks"][0]["example"]["after"].startswith("What an excellent")
    page = attacked.write(tmp_path / "new" / "attack.html")
    text = page.read_text()
    assert "Exploits: flattery" in text and "What an excellent" in text and "no_tricks" in text
    with pytest.raises(RunError, match="is a folder"):
        attacked.write(tmp_path)


def test_others_stand_beside_and_the_truth_may_be_a_judge():
    panel = {"kind": "panel", "how": "least", "judges": ["gold", "no_tricks"]}
    attacked = equipoise.attack_judge(
        praised, ROWS, truth="gold", beside={"strict": panel}, kinds=["flattery"], gate=False
    )
    assert [judge.title.split()[-1] for judge in attacked.judges] == ["alone", "strict"]
    assert attacked.judges[0].truth == "gold" and attacked.gate == ""
    assert not attacked.judges[1].exploits


def test_votes_are_pairs_in_the_rows():
    rows = []
    for row, other in zip(ROWS, [*ROWS[1:], ROWS[0]], strict=True):
        rows.append(
            {
                "prompt": row["prompt"],
                "chosen": row["response"],
                "rejected": other["response"],
                "answer": row["answer"],
            }
        )
    attacked = equipoise.attack_judge(
        lambda prompt, text, answer=None: float(str(answer) in text) + 2 * ("excellent" in text),
        rows,
        truth="votes",
        kinds=["flattery", "format"],
    )
    assert attacked.judges[0].open_kinds == ["flattery"]
    with pytest.raises(DataError, match="--votes` writes such rows"):
        equipoise.attack_judge(praised, ROWS, truth="votes")


@pytest.mark.long
def test_the_judge_of_a_run_and_of_a_recipe_is_attacked(command, tmp_path):
    (tmp_path / "mine.yaml").write_text("extends: arena\njudge: {kind: on_topic, threshold: 0.4}\n")
    more = ["-s", "judge=on_topic", "-s", "judge.threshold=0.4", "-s", "generations=0"]
    done = command("run", "quickstart", *SMALL, *more, "--out", "run")
    assert done.code == 0, done.err
    by_run = equipoise.attack_judge("run", ROWS, kinds=["quoting"])
    by_recipe = equipoise.attack_judge(str(tmp_path / "mine.yaml"), ROWS, kinds=["quoting"])
    direct = equipoise.attack_judge(
        "on_topic", ROWS, kinds=["quoting"], settings={"threshold": 0.4}
    )
    assert by_run.facts() == by_recipe.facts() == direct.facts()
    with pytest.raises(ConfigError, match="as it stands there"):
        equipoise.attack_judge("run", ROWS, settings=["threshold=0.5"])
    with pytest.raises(ConfigError, match="holds no run"):
        equipoise.attack_judge(str(tmp_path), ROWS)


@pytest.mark.long
def test_a_model_gives_the_answers(tmp_path):
    attacked = equipoise.attack_judge(
        "on_topic",
        [row["prompt"] for row in ROWS],
        model="builtin/beginner",
        kinds=["quoting"],
        player_settings={"max_new_tokens": 6},
    )
    before = {answer.before for result in attacked.judges[0].results for answer in result.texts}
    assert before and not before & {row["response"] for row in ROWS}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"judge": "shortr"}, "shorter"),
        ({"kinds": ["flatery"]}, "flattery"),
        ({"truth": {"kind": "panel", "how": "majority", "judges": ["gold", "exact"]}}, "compares"),
        ({"prompts": []}, "a list of texts or rows"),
        ({"prompts": ["Why?", "How?"]}, "--model"),
        ({"prompts": ROWS[:1]}, "one answer alone"),
        ({"judge": broken}, "out of order"),
        ({"judge": "refusal"}, "no fact 'harmful'"),
        ({"judge": lambda prompt, text: 1.0}, "gave 1 to every answer"),
    ],
    ids=[
        "a kind misspelled",
        "attacks misspelled",
        "a truth that compares",
        "no prompts",
        "no answers",
        "one answer",
        "a judge that fails",
        "no fact",
        "one score for all",
    ],
)
def test_what_cannot_be_attacked_is_said(arguments, why):
    given = {"judge": praised, "prompts": ROWS, **arguments}
    with pytest.raises((ConfigError, DataError), match=why):
        equipoise.attack_judge(given.pop("judge"), given.pop("prompts"), **given)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            {"truth": "rubric"},
            "--truth: model: is required; write it .* '{kind: rubric, model: …}'",
        ),
        (
            {"beside": {"other": "pairwise"}},
            "--beside other: model: is required; write it .* '{kind: pairwise, model: …}'",
        ),
        ({"judge": "rubric"}, "attack-judge: model: is required; set it with -s model=…"),
        ({"judge": "peers"}, "'peers' are the players of a run, and here nobody plays"),
    ],
    ids=["truth", "beside", "the judge", "peers"],
)
def test_only_the_judge_itself_is_set_with_s(arguments, why):
    given = {"judge": praised, "kinds": ["empty"]} | arguments
    with pytest.raises(ConfigError, match=why):
        equipoise.attack_judge(given.pop("judge"), ROWS, **given)


def test_prompts_of_a_packaged_world_are_named_by_their_kind():
    clerks = {"kind": "clerk_questions", "count": 30, "kinds": ["harmful"]}
    attacked = equipoise.attack_judge(
        "refusal",
        clerks,
        model="builtin",
        player_settings={"max_new_tokens": 16},
        limit=6,
        gate=False,
    )
    assert attacked.judges[0].prompts == 6
    training = AttackerTraining(
        made_prompts(clerks),
        count=30,
        model="builtin",
        updates=2,
        truth=Likeness(),
        gate=NoTricks(),
        train_settings=["prompts.held_out=4"],
    )
    recipe = training.recipe(Judge.build("refusal"))
    prompts = recipe_loader.load(recipe).prompts
    assert isinstance(prompts, ClerkQuestions)
    assert (prompts.count, prompts.held_out) == (30, 4)
    assert made_prompts("prompts.jsonl") is None and made_prompts(ROWS) is None
    assert made_prompts("clerk_questions") is not None
    with pytest.raises(ConfigError, match="--prompts: unknown key 'cuont'; did you mean 'count'"):
        equipoise.attack_judge("refusal", "{kind: clerk_questions, cuont: 3}", model="builtin")


def test_few_prompts_and_left_out_ones_are_noted():
    rows = [*ROWS[:5], {"prompt": "What else?"}]
    attacked = equipoise.attack_judge(praised, rows, kinds=["empty"], limit=6)
    assert any("5 prompts are too few" in note for note in attacked.notes)
    assert any("1 prompts without an answer" in note for note in attacked.notes)
    attacked = equipoise.attack_judge(praised, ROWS, kinds=["empty"], limit=4)
    assert any("4 of 12 prompts were attacked" in note for note in attacked.notes)


def by_letters(prompt, text):
    """A reward of tutorials: the number of different letters."""
    return float(len({letter for letter in text.lower() if letter.isalpha()}))


@pytest.mark.long
def test_an_attacker_is_trained_against_the_judge_and_the_judge_behind_a_gate(tmp_path):
    given = {
        "model": "builtin/beginner",
        "kinds": ["length"],
        "player_settings": {"max_new_tokens": 5},
        "updates": 2,
        "train_settings": {"prompts.per_generation": 4, "game.samples": 2},
        "keep": tmp_path / "kept",
    }
    attacked = equipoise.attack_judge(by_letters, ROWS, **given)
    titles = [each.title.split("by_letters ")[1] for each in attacked.trained]
    assert titles == ["alone", "behind the gate"]
    assert [point.updates for point in attacked.trained[0].points] == [1, 2]
    tokens = [point.tokens for point in attacked.trained[0].points]
    assert 0 < tokens[0] < tokens[1] <= 2 * 4 * 2 * 5
    folders = [equipoise.open_run(each.run) for each in attacked.trained]
    assert all(len(run.measures()) == 3 for run in folders)
    text = attacked.write(tmp_path / "page.html").read_text()
    assert "A trained attacker" in text and "tokens sampled" in text
    again = equipoise.attack_judge(by_letters, ROWS, **given)  # goes on with the same runs
    assert again.facts()["trained"] == attacked.facts()["trained"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"updates": 3}, "--model MODEL"),
        ({"train_settings": {"game.samples": 2}}, "give --updates"),
        ({"updates": 1, "model": "http://127.0.0.1:9/v1"}, "model's name there"),
    ],
    ids=["no model", "nothing is trained", "an endpoint"],
)
def test_what_cannot_be_trained_is_said(more, why):
    with pytest.raises(ConfigError, match=why):
        equipoise.attack_judge(praised, ROWS, kinds=["empty"], gate=False, **more)


def test_a_truth_that_is_the_same_for_all_answers_is_noted():
    whole = [{**row, "answer": row["answer"].upper() + "!"} for row in ROWS]  # no answer is that
    noted = equipoise.attack_judge(by_letters, whole, truth="exact", kinds=["empty"], gate=False)
    assert any("gave 0 to every answer, honest ones too" in note for note in noted.notes)
    by_likeness = equipoise.attack_judge(by_letters, whole, kinds=["empty"], gate=False)
    assert not any("honest ones too" in note for note in by_likeness.notes)


def test_the_page_has_no_marks_of_code_in_its_plain_sentences(tmp_path):
    attacked = equipoise.attack_judge(praised, ROWS, kinds=["flattery"], gate=False)
    text = attacked.write(tmp_path / "page.html").read_text()
    assert "What usually closes it: the gate no_tricks: praise" in text
