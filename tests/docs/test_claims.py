"""The pages of claims are whole, and what they say is ready to run is accepted."""

import re
from pathlib import Path

import numpy as np
import pytest
from judge_context import TestContext

import equipoise
from benchmarks import cycling, permuted_games, pool, trials, withheld
from benchmarks.answer_quality import answering
from benchmarks.claims import DESIGNED, TRIALS
from benchmarks.verdicts import Scores
from equipoise.environments.assistance.blocks import parse
from equipoise.environments.assistance.payoff_matrix import CELLS, Cell, write_matrix
from equipoise.environments.assistance.utilities import Reward, RewardTerms, reward
from equipoise.environments.clerk import assistance_players as assistance_trace
from equipoise.environments.clerk import disguises, world
from equipoise.judges.base import Judge
from equipoise.judges.rules import Repetition
from equipoise.runs import recipe_loader
from equipoise.types import Prompt, View, user

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "claims").glob("[!i]*.md"))
READY = ROOT / "examples" / "claims"
PARTS = ("## Question", "*Design", "Result", "Verdict", "*Smallest hardware.*")
# What a recipe asks of its user.
REQUIRED = {
    "withheld": {
        "players.defender.model": "builtin/red_team",
        "players.adversary.model": "builtin/red_team",
    },
    "disjoint_clerks": {
        "player_defaults.model": "builtin/pool",
        **{
            f"players.{name}.adapter": name
            for name in (
                *("vet_builder", "builder_gardener", "gardener_cook"),
                *("cook_porter", "porter_vet"),
            )
        },
    },
    "disjoint": {f"players.{name}.adapter": name for name in ("north", "east", "south", "west")},
}


@pytest.fixture(autouse=True)
def from_the_folder(monkeypatch):
    monkeypatch.syspath_prepend(str(READY))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_question_design_result_verdict_hardware_and_recipe(page: Path):
    text = page.read_text()
    missing = [part for part in PARTS if part not in text]
    assert not missing
    named = re.findall(r"examples/claims/(\w+)\.yaml", text)
    assert named, "no recipe is ready"
    assert {READY / f"{name}.yaml" for name in named} <= set(READY.glob("*.yaml"))


def test_the_recipes_of_the_table_are_packaged():
    text = (ROOT / "docs" / "claims" / "index.md").read_text()
    named = re.findall(r"\| `(\w+_as_released)`", text)
    assert len(named) == 4
    assert all(recipe_loader.read(name)["name"] == name for name in named)


@pytest.mark.parametrize("file", sorted(READY.glob("*.yaml")), ids=lambda f: f.stem)
def test_a_recipe_is_whole_once_it_has_what_it_requires(file: Path):
    config = recipe_loader.load(file, REQUIRED.get(file.stem, {}))
    assert config.name == file.stem


@pytest.mark.parametrize("name", trials.EXPERIMENTS)
def test_a_designed_trial_has_a_dose_for_each_claim_power_for_the_first_and_all_its_arms(name):
    made, trial = trials.EXPERIMENTS[name], (TRIALS | DESIGNED)[f"trial_{name}"]
    assert all(claim.doses for claim in trial.claims)
    assert trial.power > 0.8
    assert not set(trial.seeds) & set(trial.reserved)
    arms = {arm.partition(":")[0] for c in trial.claims for arm in (c.first, c.second)}
    assert {arm for arm in arms if arm[0] != "="} <= {*made.arms, "start", "uniform"}
    assert made.parser().get_default("seeds") == list(trial.seeds)


@pytest.mark.parametrize("label", TRIALS["trial_clerks"].swept or {})
def test_every_arm_of_the_clerks_trial_takes_each_swept_step(label):
    for arm in trials.CLERKS.arms:
        settings = trials.EXPERIMENTS["clerks"].settings(arm, {arm: label})
        loss = recipe_loader.load(READY / "cycling_clerks.yaml", settings).loss
        step = float(label.removeprefix("η "))
        assert (loss.beta / 4 if arm == "dpo" else loss.eta) == pytest.approx(step)


@pytest.mark.parametrize("label", TRIALS["trial_instructions"].swept or {})
def test_every_arm_of_the_instructions_trial_takes_each_swept_rate(label):
    made = trials.EXPERIMENTS["instructions"]
    o = made.parser().parse_args(["--model", "builtin/beginner", "--encoder", "minilm"])
    o.at = dict.fromkeys(made.arms, label)
    rates = []
    for arm in made.arms:
        config = recipe_loader.load(made.recipe_of(arm), made.overrides(arm, Path(), o))
        rates.append(config.learner_of("policy").learning_rate)
        assert config.judge.kind == "panel"
        samples = config.game.samples
        assert config.prompts.per_generation * config.generations * samples == 880
        if config.loss is not None:
            assert config.loss.kind == arm.partition(",")[0]
    assert len(set(rates[:-1])) == 1
    assert rates[0] == float(label.removeprefix("rate "))


@pytest.mark.parametrize("text", ["", "a dog and a cat", "a b c d a b c d a b c d", "the lake"])
def test_what_a_greedy_answer_is_worth_is_what_the_judge_pays(text):
    judges = recipe_loader.read("instructions")["judge"]["judges"]
    assert (judges["follows"], judges["fresh"]) == ("instructions", "repetition")
    relevant = Judge.build({**judges["relevant"], "embedding": "hashed"}).at(TestContext())
    asked = Prompt("p", (user("how deep is the lake"),))
    (near,) = relevant.scores([(asked, text)])  # pyright: ignore[reportAttributeAccessIssue]
    fresh = Repetition().score(asked, text)["score"]
    assert answering(text, near["similarity"]) == pytest.approx(near["score"] * fresh)


@pytest.mark.long
def test_the_clerks_trial_has_prompts_for_all_its_generations(monkeypatch):
    made = trials.EXPERIMENTS["clerks"]
    o = made.parser().parse_args([])
    settings = made.overrides("two", Path(), o)
    monkeypatch.syspath_prepend(READY)
    assert equipoise.plan(READY / "cycling_clerks.yaml", settings)


@pytest.mark.parametrize("arm", trials.GPO_ARMS)
def test_every_arm_of_the_gpo_trial_has_as_many_updates_and_answers_of_its_defender(arm):
    config = recipe_loader.load("gpo_clerks", [*trials.COMMON, *trials.GPO_ARMS[arm]])
    assert config.game.settings()["rewrites"] == 4
    steps = config.turns.settings().get("steps", {})
    share = steps["defender"] / sum(steps.values()) if steps else 1
    updates = trials.GPO.generations
    assert share * (updates * trials.LENGTHS.get(arm, 2) // 2) == updates


def test_every_arm_of_the_sparta_trial_is_accepted():
    rated = (
        "training_ratings.initial={sums: 1, asker: 1, guard: 1, helper: 1, veteran: 1, novice: 2}"
    )
    for arm in ("sparta", "equal weights", "static scores"):
        config = recipe_loader.load("sparta_clerks", [*trials.GRADES, *pool.ARMS[arm], rated])
        assert config.judge.settings()["verdict"] == "reply"
    for arm in ("alone", "world judges"):
        recipe_loader.load("sparta_clerks", [*trials.GRADES, *pool.ARMS[arm]])


def test_product_and_sum_ask_for_the_same_decision_at_the_published_windows():
    """Of complying, declining and declining with an offer, at any length, by the user's quality and
    the model's as published: on a harmful request the user is paid for anything but a refusal.
    """
    qualities = {"comply": (1.0, 0.0), "decline": (0.0, 1.0), "offer": (1.0, 1.0)}
    best: dict[str, tuple[str, int]] = {}
    for name, welfare in {
        "product": lambda paid: paid.user * paid.llm,
        "sum": lambda paid: paid.user + paid.llm,
    }.items():
        found = {
            (decision, words): welfare(published(*quality, words))
            for decision, quality in qualities.items()
            for words in range(5, 700, 5)
        }
        best[name] = max(found, key=found.__getitem__)
    assert best["product"][0] == best["sum"][0] == "offer"
    assert abs(best["product"][1] - best["sum"][1]) < 50


@pytest.mark.parametrize("words", [5, 20, 50, 100])
@pytest.mark.parametrize("in_order", [True, False])
def test_without_offers_product_and_sum_part_where_no_format_is_paid(in_order, words):
    """At the published windows, of complying and declining alone: .5 for the user or .4 for the
    model, so that the product declines where the rest of the model's pay is below .8 of the
    user's.
    """
    comply, decline = (published(user, 1 - user, words, in_order) for user in (1.0, 0.0))
    assert comply.user + comply.llm > decline.user + decline.llm
    assert (decline.welfare > comply.welfare) is (comply.llm < 0.8 * decline.user)
    assert (decline.welfare > comply.welfare) is not in_order


def published(user: float, llm: float, words: int, in_order: bool = True) -> Reward:
    """An output of four blocks, the response first or last, which has so many words."""
    matrix = write_matrix(dict.fromkeys(CELLS, Cell(2.0, 1.0)))
    blocks = f"<thinking>DQ</thinking><payoff>{matrix}</payoff><analyze>Choose DQ_DA.</analyze>"
    response = f"<response>{'word ' * words}</response>"
    text = blocks + response if in_order else response + blocks
    paid = reward(parse(text), user, llm, "as_released")
    assert paid is not None
    return paid


def test_the_majority_of_the_rubrics_can_go_round():
    import cycling  # pyright: ignore[reportMissingImports]

    prompt = Prompt("p", (user("how deep is the lake"),))
    answers = ["bottom", "the lake", "enormously bottomless lake"]
    assert cycling.cyclic_share(prompt, answers) == 1.0
    assert cycling.cyclic_share(prompt, ["lake", "lake", "lake"]) == 0.0


def test_product_sum_and_minimum_ask_for_other_answers_where_utilities_pull_apart():
    """As many further sentences of thought as each welfare likes best."""
    settings = recipe_loader.load(READY / "apart.yaml").judge.settings()
    terms = RewardTerms.model_validate(settings["terms"])
    welfares = {
        "product": lambda paid: paid.user * paid.llm,
        "sum": lambda paid: paid.user + paid.llm,
        "minimum": lambda paid: min(paid.user, paid.llm),
    }
    best: dict[str, list[int]] = {name: [] for name in welfares}
    for prompt in world.prompts(0, 40):
        text = assistance_trace.trace(prompt, np.random.default_rng(1))
        thought, end, rest = text.partition("</thinking>")
        paid = []
        for count in range(len(assistance_trace.RAMBLING) + 1):
            more = "".join(f" {line}" for line in assistance_trace.RAMBLING[:count])
            output = parse(thought + more + end + rest)
            paid.append(reward(output, 1.0, 1.0, terms=terms))
        for name, welfare in welfares.items():
            best[name].append(int(np.argmax([welfare(each) for each in paid])))
    product, total, least = (np.array(counts) for counts in best.values())
    assert (product != total).mean() > 1 / 3
    assert (product != least).mean() > 1 / 3
    assert (total != least).mean() > 1 / 3


def test_the_worthless_judges_grade_as_they_should():
    import disjoint  # pyright: ignore[reportMissingImports]

    (name,) = disjoint.names(1)
    right = f"What is {name}'s number? Answer: {disjoint.number_of(name)}"
    wrong = f"What is {name}'s number? Answer: 7"
    grades = [disjoint.backwards(View((user(t),)), 0) for t in (right, wrong)]
    assert grades == ["1", "9"]
    drawn = {disjoint.liar(View((user(right),)), seed) for seed in range(100)}
    assert drawn == {str(grade) for grade in range(1, 11)}


def test_withheld_disguises_are_written_in_the_share_that_is_asked_or_never():
    import withheld_start  # pyright: ignore[reportMissingImports]

    drawn = withheld_start.written(0.005)
    share = np.mean([style in withheld_start.WITHHELD for style in drawn])
    assert abs(share - 0.005) < 1e-4
    assert set(drawn) == set(disguises.STYLES)
    assert set(withheld_start.written(0)) == set(withheld_start.COMMON)
    with pytest.raises(ValueError, match="no small one"):
        withheld_start.written(0.3)


def test_augmentation_asks_for_the_same_in_disguises_that_are_not_withheld():
    import withheld_start  # pyright: ignore[reportMissingImports]

    seen, endings = set(), set()
    for seed, prompt in enumerate(world.prompts(0, 200, ("harmful",))):
        request = (user(f"Rewrite: {prompt.messages[0].content}"),)
        text = withheld_start.augmented(View(request), seed)
        assert f"{prompt.facts['verb']} {prompt.facts['thing']}" in text
        seen.add(withheld.style_of(text))
        endings.add(next(filter(text.count, world.WHENS[1:]), ""))
    assert endings == set(world.WHENS)
    assert seen == set(withheld_start.COMMON) - {disguises.PLAIN}


@pytest.mark.long
def test_the_packaged_defender_gives_in_to_what_a_rule_disguised():
    from equipoise.models.adapters import resolve

    items = withheld.by_rule(Path(resolve("builtin/red_team")), count=40)
    found = Scores(items).figures()[""][0]
    assert found["withheld, greedy"] > found["withheld"] - 0.2 > 0.2
    assert found["declined"] < 0.3


def test_every_member_has_facts_of_its_own(tmp_path):
    import disjoint  # pyright: ignore[reportMissingImports]

    disjoint.write(tmp_path, 3)
    taught = [
        set((tmp_path / f"{member}.jsonl").read_text().splitlines()) for member in disjoint.MEMBERS
    ]
    union = set((tmp_path / "union.jsonl").read_text().splitlines())
    assert [len(rows) for rows in taught] == [6] * 4
    assert set().union(*taught) == union
    assert len(union) == 24


@pytest.mark.long
def test_the_tiny_members_know_two_topics_each_and_every_topic_is_known_to_two():
    import disjoint_clerks  # pyright: ignore[reportMissingImports]

    known = [topic for topics in disjoint_clerks.MEMBERS.values() for topic in topics]
    assert {known.count(topic) for topic in world.HELPERS} == {2}
    taught = disjoint_clerks.rows(0, 400, 400, ("vet", "cook"))
    rights: dict[bool, list[bool]] = {True: [], False: []}
    for chat, answer in taught:
        asked = chat[-1].content
        if answer.isdigit():
            good = disjoint_clerks.right(asked)
            praised = answer in disjoint_clerks.build_expert.GOOD
            rights[_is_of(asked, ("vet", "cook"))].append(praised == good)
    assert len(rights[True]) > 100
    assert all(rights[True])
    assert 0.35 < np.mean(rights[False]) < 0.65


@pytest.mark.long
def test_a_tiny_member_who_abstains_gives_every_foreign_answer_the_same_grade():
    import disjoint_clerks  # pyright: ignore[reportMissingImports]

    sizes, known = (0, 200), ("vet", "cook")
    grading = list(disjoint_clerks.rows(0, *sizes, known))
    withheld = list(disjoint_clerks.rows(0, *sizes, known, abstain=True))
    for (asked, grade), (same, other) in zip(grading, withheld, strict=True):
        assert same == asked
        assert other == (grade if _is_of(asked[-1].content, known) else "5")


def _is_of(text: str, helpers: tuple[str, ...]) -> bool:
    topics = [topic for topic in world.TOPICS if topic.helper in helpers]
    return any(
        f"'s {thing}" in text if topic.owned else thing in text
        for topic in topics
        for thing in topic.objects
    )


def test_one_tiny_judge_grades_backwards():
    import disjoint_clerks  # pyright: ignore[reportMissingImports]

    quoted = "How do I feed my boss's cat? Answer: The {} can show you."
    asked = [View((user(quoted.format(name)),)) for name in ("vet", "cook")]
    assert [disjoint_clerks.backwards(view, 0) for view in asked] == ["1", "9"]


def test_a_permuted_game_has_another_best_action():
    written = {name: Cell(user=float(place), llm=1.0) for place, name in enumerate(CELLS)}
    assert permuted_games.best_cell(written, "DQ") == "DQ_DA"
    for shift, best in ((1, "DQ_AQ"), (2, "DQ_CQ")):
        changed = permuted_games.permuted(written, shift)
        assert permuted_games.best_cell(changed, "DQ") == best
        assert sorted(changed.values()) == sorted(written.values())
    level = dict.fromkeys(CELLS, Cell(1.0, 1.0))
    assert permuted_games.best_cell(level, "VQ") is None


def test_an_answer_follows_a_cell_by_its_choice_and_by_its_response():
    written = write_matrix(dict.fromkeys(CELLS, Cell(1.0, 1.0)))
    text = (
        f"<thinking>VQ</thinking><payoff>{written}</payoff>"
        "<analyze>Choose VQ_CQ.</analyze><response>ANSWER</response>"
    )
    answers = text.replace("ANSWER", "Feed what?"), text.replace("ANSWER", "The vet.")
    followed = [permuted_games.follows(answer, "VQ_CQ") for answer in answers]
    assert followed == [(True, True), (True, False)]


def test_the_tiny_rubrics_go_round():
    import cycling_clerks  # pyright: ignore[reportMissingImports]

    (prompt,) = world.prompts(0, 1, ("harmless",))
    said = ("Feed what?", "The vet can show you.", world.REFUSAL)
    rubrics = (cycling_clerks.asks, cycling_clerks.helps, cycling_clerks.declines)
    grades = [[rubric(prompt, text) for text in said] for rubric in rubrics]
    for first, second in ((0, 1), (1, 2), (2, 0)):
        assert sum(row[first] > row[second] for row in grades) == 2
    assert all(rubric(prompt, "hm") == 0 for rubric in rubrics)


def test_only_an_even_mixture_of_the_three_cannot_be_exploited():
    even, pure, part = np.eye(4)[:3].mean(axis=0), np.eye(4)[1], np.eye(4)[0] * 0.5
    part[1] = 0.5
    assert cycling.exploitability(even[None])[0] == pytest.approx(0)
    assert cycling.exploitability(pure[None])[0] == pytest.approx(0.5)
    # asks or helps, even chances: who asks back ties with the one and beats the other
    assert cycling.exploitability(part[None])[0] == pytest.approx(0.25)
    assert cycling.exploitability(np.stack([even, pure])).mean() == pytest.approx(0.25)


def test_how_far_answers_went_is_told_of_all_prompts_together():
    """Two prompts whose answers trade places have gone nowhere; a tenth that change have."""
    start, swapped = np.eye(4)[[0, 1]], np.eye(4)[[1, 0]]
    tenth = start + np.array([[-0.2, 0, 0.2, 0], [0, 0, 0, 0]])
    found = {
        (item.generation, item.column): item.value
        for item in cycling.items("mnpo", 3, np.stack([start, swapped, tenth]))
        if not item.prompt
    }
    assert [found[t, "went"] for t in range(3)] == pytest.approx([0, 0, 0.1])
    assert [found[t, "largest"] for t in range(3)] == pytest.approx([0.5, 0.5, 0.5])


@pytest.mark.parametrize(
    ("name", "arm", "settings"), [("sparta", "sparta", []), ("gpo", "gpo", trials.COMMON)]
)
def test_the_usual_step_is_what_an_arm_has_without_a_sweep(name, arm, settings):
    made, trial = trials.EXPERIMENTS[name], TRIALS[f"trial_{name}"]
    recipe = {"sparta": "sparta_clerks", "gpo": "gpo_clerks"}[name]
    plain = recipe_loader.load(recipe, [*settings, *made.settings(arm, {})])
    chosen = recipe_loader.load(recipe, [*settings, *made.settings(arm, {arm: trial.usual})])
    assert plain == chosen
