"""Memory phase by phase: what is published fits one accelerator of 80 GB at 7 billion parameters
with LoRA, or the plan says what it needs.
"""

from dataclasses import replace

import pytest
from recorded_run import planned_and_played

from equipoise.api import functions as api
from equipoise.learners.base import Learner
from equipoise.models.device import Hardware
from equipoise.models.loading import Description, describe
from equipoise.planning.cost import limit_new_tokens, prompt_tokens
from equipoise.planning.memory import frozen_bytes, number_width, saving_settings
from equipoise.planning.phases import phases
from equipoise.planning.run_plan import without_places
from equipoise.planning.trial import WorkShape, foresee, try_model
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.types import Message, Prompt, user

CARD = 80e9
PANEL = {
    "kind": "panel",
    "how": "majority",
    "judges": {"l": "shorter", "v": "repetition", "r": "exact"},
}
# Of Qwen2.5-7B, with an adapter of rank 16 on all linear layers.
SEVEN = Description(
    parameters=7_615_616_512,
    hidden=3584,
    layers=28,
    vocabulary=152_064,
    context=32_768,
    kv_numbers=2 * 28 * 4 * 128,
    trainable=40_370_176,
    short=True,
)
LORA = "player_defaults.lora={r: 16}"
POLICY = ["players.policy.model=builtin", "players.policy.lora={r: 16}", "prompts.path=none.jsonl"]
OUTSIDER = "players.outsider={model: builtin, max_length: 2048, lora: {r: 16}}"
ROLES = [
    "players.defender.model=builtin",
    "players.adversary.model=builtin",
    "prompts.path=none.jsonl",
    "judge.guard=clerk_guard",
    LORA,
]
ASSISTANT = [
    "players.assistant.model=builtin",
    "players.assistant.lora={r: 16}",
    "prompts.path=none.parquet",
]
POOL = [
    "players={ann: {model: builtin}, ben: {model: builtin}, cat: {model: builtin}}",
    "prompts.path=none.jsonl",
    LORA,
]
# Recipe -> what it needs here, and what the plan asks for, where it does not fit.
PUBLISHED = {
    "mnpo": (POLICY, ""),
    "mnpo_as_released": (POLICY, ""),
    "mnpo_one_gpu": (POLICY, ""),
    "mnpo_eight_gpus": (POLICY, ""),
    "mnpo_two_nodes": (POLICY, ""),
    "mnpo_external": ([*POLICY, OUTSIDER], ""),
    "sparta": (POOL, ""),
    "sparta_as_released": (POOL, ""),
    "gpo": (ROLES, "learner.critic=head"),
    "gpo_as_released": (ROLES, "learner.critic=head"),
    "rlhf": (ROLES, "learner.critic=head"),
    "gtalign": (ASSISTANT, "learner.critic=head"),
}


def memory(name: str, overrides: list[str], size: Description = SEVEN):
    config = recipe_loader.load(name, overrides)
    return phases(config, 256, accelerator=True, sizes=lambda model, lora: size)


@pytest.mark.parametrize("name", PUBLISHED)
def test_at_seven_billion_it_fits_one_card_or_says_what_it_needs(name):
    overrides, needed = PUBLISHED[name]
    taken = memory(name, overrides)
    assert {part.phase for part in taken} >= {"play", "learn"}
    assert all(part.bytes > 2 * SEVEN.parameters for part in taken)
    short = [part for part in taken if part.bytes > CARD]
    assert bool(short) == bool(needed), taken
    assert all(needed in part.advice for part in short if part.phase == "learn")


def test_players_of_one_base_hold_it_once():
    two, three = (
        memory("sparta", [*POOL, f"players.{name}={{model: builtin, {rest}}}"])
        for name, rest in (("ann", "learns: true"), ("dan", "learns: true"))
    )
    added = three[0].bytes - two[0].bytes
    assert added == 8 * SEVEN.trainable  # in float32, and once more where several are mixed


def test_moments_of_8_bits_are_counted():
    whole = replace(SEVEN, trainable=SEVEN.parameters)
    of_32, of_8 = (
        memory("mnpo", [POLICY[0], POLICY[2], *more], whole)[-1].bytes
        for more in ([], ["learner.optimizer=adamw_8bit"])
    )
    assert of_32 - of_8 == 6 * SEVEN.parameters


GRPO = ["learner={kind: policy_gradient, estimator: group_relative}", "loss=null"]


def test_processes_that_stay_hold_a_policy_beside_the_one_that_samples():
    alone, several = (
        memory("mnpo", [*POLICY, *GRPO, *launch])
        for launch in ([], ["learner.launch={num_processes: 2}"])
    )
    for one, two in zip(alone, several, strict=True):
        if one.phase in ("play", "learn"):
            assert 2 <= (two.bytes - one.bytes) / SEVEN.parameters <= 2.05, two.phase


def test_shares_of_a_policy_are_smaller_the_more_processes_there_are():
    whole = [*POLICY[::2], *GRPO, "players.policy.lora=null"]
    of_two, of_eight = (
        next(
            part.bytes
            for part in memory(
                "mnpo",
                [*whole, f"learner.launch={{config: fsdp2, num_processes: {n}}}"],
                replace(SEVEN, trainable=SEVEN.parameters),
            )
            if part.phase == "learn"
        )
        for n in (2, 8)
    )
    # 16 bytes of training and 2 of the reference, in shares
    assert (of_two - of_eight) / SEVEN.parameters == pytest.approx(18 * 3 / 8, rel=0.01)


# -- on accelerators that are not here

H100 = Hardware.read("8xH100-80GB")
SHAPE = WorkShape(
    rows=32, prompts=8, prompt=256, new=512, batch=1, length=1280, answer=1024, bf16=True
)


def foreseen(size: Description = SEVEN, hardware: Hardware = H100, batch: int = 1, **given):
    settings = {"lora": True, "width": 2, "engine": False, "divided": False, **given}
    return foresee(size, replace(SHAPE, batch=batch), hardware, **settings)


def test_times_follow_from_what_the_hardware_computes_and_reads():
    lora, a100 = foreseen(), foreseen(hardware=Hardware.read("A100-80GB"))
    whole = replace(SEVEN, trainable=SEVEN.parameters)
    assert foreseen(whole, lora=False).train == pytest.approx(1.5 * lora.train)
    assert a100.train == pytest.approx(lora.train * 989 / 312)
    assert foreseen(engine=True).step < lora.step
    # a token for each of 32 rows: at least the weights are read
    assert lora.step > 2 * SEVEN.parameters / H100.bandwidth


def test_weights_in_shares_wait_for_the_link():
    whole = replace(SEVEN, trainable=SEVEN.parameters)
    alone = foreseen(whole, lora=False, batch=4)
    fast = foreseen(whole, lora=False, batch=4, divided=True)
    slow = foreseen(whole, replace(H100, link=64e9), lora=False, batch=4, divided=True)
    assert fast.train == alone.train < slow.train


def test_an_engine_has_a_line_of_its_own():
    sampler = "players.policy.sampler={kind: vllm, base_url: ['http://a:1', 'http://b:1']}"
    config = recipe_loader.load("mnpo_one_gpu", [*POLICY, sampler])
    found = phases(config, 256, accelerator=True, sizes=lambda model, lora: SEVEN, hardware=H100)
    [engine] = [part for part in found if part.phase == "engine"]
    assert engine.processes == 2
    assert 2 * SEVEN.parameters < engine.bytes < H100.memory


def test_a_learner_of_policy_gradients_stays_while_others_play():
    """Gradients (4 bytes a weight), moments (8) and, where a KL divergence is asked for, the
    reference; a learner of pairs leaves nothing behind.
    """
    whole = replace(SEVEN, trainable=SEVEN.parameters)
    bare = [*POLICY[::2], "players.policy.lora=null"]

    def play(*more):
        [part] = [part for part in memory("mnpo", [*bare, *more], whole) if part.phase == "play"]
        return part.bytes / SEVEN.parameters

    pairs = play()
    assert pairs == play("learner.batch_size=64") < 5
    assert play(*GRPO, "learner.kl=0") - pairs == pytest.approx(12)
    assert play(*GRPO, "learner.kl=0", "learner.optimizer=adamw_8bit") - pairs == pytest.approx(6)
    assert play(*GRPO, "learner.kl=0.1") - pairs == pytest.approx(12 + 2)  # of 16 bits
    critic = ["learner.estimator=gae", "learner.critic=model"]
    assert play(*GRPO, *critic, "learner.kl=0.1") - pairs == pytest.approx(12 + 2 + 16)


def test_a_cpu_that_multiplies_in_bfloat16_keeps_the_layers_twice():
    from equipoise.planning.memory import sampling_bytes

    whole = Local.model_validate({"model": "builtin"})
    short = whole.model_copy(update={"precision": "bf16"})
    extra = [sampling_bytes(p, SEVEN, 99.0, on) for on in ("cpu", "cuda") for p in (whole, short)]
    assert extra[1] - extra[0] == pytest.approx(2 * SEVEN.parameters)
    assert extra[3] == extra[2]


@pytest.mark.parametrize("kind", ["preference", "sft", "policy_gradient"])
def test_what_is_left_to_the_machine_is_settled_for_the_hardware(kind):
    from equipoise.learners.base import Learner
    from equipoise.planning.cost import resolve_auto
    from equipoise.players.base import Player

    player = Player.build({"kind": "local", "model": "builtin", "device": "cpu"})
    trainer = Learner.build(kind)
    here, there = resolve_auto(trainer, player), resolve_auto(trainer, player, H100)
    assert (here.max_disagreement, there.max_disagreement) == (0.001, 0.02)  # products in TF32
    assert "auto" not in {here.precision, there.precision, there.gradient_checkpointing}
    assert here == trainer.resolve_auto(player)


def test_what_has_nothing_to_settle_stays_as_it_is():
    from equipoise.learners.base import Learner
    from equipoise.planning.cost import resolve_auto
    from equipoise.players.base import Player

    player = Player.build({"kind": "local", "model": "builtin", "device": "cpu"})
    tabular = Learner.build("tabular")
    assert resolve_auto(tabular, player, H100) == tabular == resolve_auto(tabular, player)


def test_numbers_are_as_wide_as_the_player_opens_them():
    player = Local.model_validate({"model": "builtin"})
    long = replace(SEVEN, short=False)
    widths = [number_width(player, size, d) for size in (SEVEN, long) for d in ("cuda", "cpu")]
    assert widths == [2, 4, 4, 4]
    half = Local.model_validate({"model": "builtin", "dtype": "float16"})
    assert number_width(half, long, "cpu") == 2


# -- advice


@pytest.mark.parametrize(
    ("player", "learner", "training", "advice"),
    [
        ({"batch_size": 64}, "sft", False, "player.batch_size=32"),
        ({"batch_size": 1}, "sft", False, "a smaller model"),
        (
            {},
            {"kind": "sft", "batch_size": 8, "gradient_checkpointing": False},
            True,
            "learner.gradient_checkpointing=true, learner.batch_size=4, "
            "player.lora={r: 16}, learner.optimizer=adamw_8bit",
        ),
        (
            {"lora": {"r": 4}},
            {"kind": "sft", "batch_size": 1, "gradient_checkpointing": "selective"},
            True,
            "learner.gradient_checkpointing=true, player.quantization=4bit",
        ),
        (
            {"lora": {"r": 4}},
            {"kind": "sft", "batch_size": 1, "gradient_checkpointing": True, "precision": "fp32"},
            True,
            "player.quantization=4bit, learner.precision=bf16",
        ),
        (
            {"lora": {"r": 4}, "quantization": "4bit"},
            {"kind": "sft", "batch_size": 1, "gradient_checkpointing": True, "precision": "bf16"},
            True,
            "a smaller model",
        ),
        (
            {},
            {
                "kind": "policy_gradient",
                "critic": "model",
                "batch_size": 3,
                "gradient_checkpointing": True,
                "optimizer": "adamw_8bit",
                "precision": "fp32",
            },
            True,
            "learner.batch_size=1, learner.critic=head, player.lora={r: 16}, "
            "learner.precision=bf16",
        ),
    ],
)
def test_advice_begins_with_what_costs_least(player, learner, training, advice):
    seat = Local.model_validate({"model": "builtin", **player})
    assert saving_settings(seat, Learner.build(learner), training) == advice


# -- times


def test_seconds_are_counts_times_those_of_a_trial():
    from equipoise.judges.base import Judge
    from equipoise.learners.base import Learner
    from equipoise.planning.cost import Work, stage_seconds
    from equipoise.planning.trial import Trial

    plain = Local.model_validate({"model": "builtin", "max_new_tokens": 50})
    lora = Local.model_validate({"model": "builtin", "max_new_tokens": 50, "lora": {"r": 2}})
    trial = Trial(0.001, 0.02, 0.003, 0.005, 0.7, 1.0, 1.0)
    work = Work(320, 64, 4, 30, 6, 40, 90)
    shape = replace(SHAPE, rows=32, prompts=8)

    def seconds(kind, player=plain, judge="exact", **settings):
        trainer = Learner.build({"kind": kind, **settings})
        return stage_seconds(player, trainer, Judge.build(judge), 100.0, work, shape, trial)

    pairs = seconds("preference", gradient_checkpointing=False)
    assert pairs == pytest.approx(
        {
            "sampling_seconds": 10 * 8 * 100 * 0.001 + 10 * 50 * 0.02,
            "scoring_seconds": 40 * 150 * 0.003,
            "training_seconds": 30 * (100 / 2 + 50) * 0.005 + 6 * 0.7,
            "judging_seconds": 0.0,
        }
    )

    def training(*given, **settings):
        return seconds(*given, **settings)["training_seconds"] - 6 * 0.7

    once, again = 30 * 150 * 0.005, {"gradient_checkpointing": True}
    assert training("preference", **again) == pytest.approx(30 * 100 * 0.005 * 4 / 3)
    cheap = {"gradient_checkpointing": "selective"}
    assert training("preference", **cheap) == pytest.approx(30 * 100 * 0.005)
    assert training("preference", lora, **again) == pytest.approx(30 * 100 * 0.005 * 3 / 2)
    # A learner without that setting recomputes nothing.
    assert training("tabular") == pytest.approx(once)
    few = {"epochs": 2, "gradient_checkpointing": False}
    assert training("sft", **few) == pytest.approx(2 * once)
    group = {"estimator": "group_relative", "kl": 0, **few}
    score = 30 * 150 * 0.003
    assert training("policy_gradient", **group) == pytest.approx(2 * once + score)
    assert training("policy_gradient", **group | {"kl": 0.1}) == pytest.approx(2 * once + 2 * score)
    critic = {"estimator": "gae", "critic": "model", "kl": 0, **few}
    assert training("policy_gradient", **critic) == pytest.approx(4 * once + 2 * score)


def test_judging_is_timed_where_it_is_done_here():
    from equipoise.judges.base import Judge
    from equipoise.planning.cost import Work, judging_seconds
    from equipoise.planning.trial import Trial

    trial = Trial(0.001, 0.02, 0.003, 0.005, 0.7, 1.0, 1.0)
    work = Work(320, 64, 4, 30, 6, 40, 90)

    def seconds(judge):
        return judging_seconds(Judge.build(judge), 150.0, work, trial)

    model = {"kind": "local", "model": "builtin", "batch_size": 20, "max_new_tokens": 30}
    here = seconds({"kind": "rubric", "model": model})
    assert here == pytest.approx(90 * 150 * 0.001 + 5 * 30 * 0.02)
    assert seconds({"kind": "reward_model", "model": "here"}) == pytest.approx(320 * 150 * 0.003)
    attacked = {"kind": "red_team", "guard": {"kind": "guard", "model": "here"}}
    assert seconds(attacked) == pytest.approx(320 * 150 * 0.003)
    assert seconds("shorter") == 0.0
    far = {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "far"}
    assert seconds({"kind": "rubric", "model": far}) is None
    assert seconds({"kind": "peers", "text": "rubric_compact"}) is None


def test_without_a_trial_no_time_is_known():
    from equipoise.judges.base import Judge
    from equipoise.learners.base import Learner
    from equipoise.planning.cost import Work, stage_seconds

    player, work = Local.model_validate({"model": "builtin"}), Work(1, 1, 1, 1, 1, 1, 1)
    trainer, judge = Learner.build("preference"), Judge.build("exact")
    found = stage_seconds(player, trainer, judge, 100.0, work, SHAPE, None)
    assert set(found.values()) == {None}
    assert len(found) == 4


@pytest.mark.long
def test_what_saves_memory_is_what_the_player_reads():
    planned = api.plan("quickstart", {"policy.batch_size": 10_000_000})
    (cost,) = planned.costs
    advised = recipe_loader.load("quickstart", ["policy.batch_size=10000000", cost.advice])
    assert advised.players["policy"].settings()["batch_size"] == 5_000_000


@pytest.mark.parametrize(
    "judge",
    [
        "judge={kind: reward_model, model: builtin}",
        "judge={kind: red_team, guard: {kind: guard, model: builtin}}",
        "evaluate.judge={kind: rubric, model: {kind: local, model: builtin, batch_size: 3}}",
    ],
)
def test_a_judging_models_weights_lie_beside_the_players(judge):
    play, _ = memory("mnpo", POLICY)
    play, judged, _ = memory("mnpo", [*POLICY, judge])
    assert (play.phase, judged.phase, judged.device) == ("play", "judge", "accelerator")
    assert judged.bytes - play.bytes >= 2 * SEVEN.parameters


def test_judging_counts_where_nobody_learns():
    prompts = {"kind": "clerk_questions", "count": 40, "per_generation": 8, "held_out": 8}
    recipe = {
        "players": {name: {"kind": "local", "model": "builtin"} for name in "ab"},
        "generations": 1,
        "prompts": prompts,
        "game": "answers",
        "schedule": "round_robin",
        "judge": "clerk",
    }
    counts = api.plan(recipe).counts
    assert counts.judgements == counts.matches + counts.held_out_matches > counts.held_out_matches


@pytest.mark.parametrize("judge", ["shorter", PANEL], ids=["scores", "compares"])
def test_the_plan_counts_held_out_answers_that_are_set_side_by_side(judge, tmp_path):
    texts = {"a": ["x yy", "z zz zzz", "q"], "b": ["xx", "z"], "c": ["x y z w"]}
    settings = {
        "players": {name: {"kind": "scripted", "texts": own} for name, own in texts.items()},
        "prompts": [{"prompt": f"Question {i}?", "answer": "x"} for i in range(12)],
        "prompts.held_out": 5,
        "evaluate.samples": 2,
        "judge": judge,
    }
    run = api.run("arena", settings, tmp_path / "run", progress=False)
    with RunDirectory.read(run.path) as opened:
        planned, played = planned_and_played(opened)
    assert planned == played
    answers, meetings = 3 * 5 * 2, 3 * 5 * 2 if judge is PANEL else 0
    assert played["held_out_matches"] == answers + meetings


def test_a_model_is_tried_within_its_own_context(tmp_path):
    from transformers import GPT2Config

    GPT2Config(
        vocab_size=50,
        bos_token_id=0,
        eos_token_id=0,
        n_positions=32,
        n_embd=16,
        n_layer=6,
        n_head=2,
    ).save_pretrained(tmp_path)
    player = Local.model_validate({"model": str(tmp_path), "max_new_tokens": 500})
    size = describe(player.model)
    new = limit_new_tokens(player, 10, size).max_new_tokens
    assert new == 22
    shape = WorkShape(
        rows=2,
        prompts=1,
        prompt=10,
        new=new,
        batch=2,
        length=10 + 2 * new,
        answer=2 * new,
        bf16=False,
    )
    tried = try_model(player.model, None, size, shape, "cpu")
    assert tried is not None
    assert tried.train > 0


def test_an_adapter_leaves_the_whole_base_frozen_however_large_it_is():
    size = replace(SEVEN, trainable=2 * SEVEN.parameters)
    policy = {"model": "builtin", "learns": True}
    adapted = Local.model_validate({**policy, "lora": True})
    assert frozen_bytes(adapted, size, 4.0) == 4 * SEVEN.parameters
    assert frozen_bytes(Local.model_validate(policy), size, 4.0) == 0


def test_prompts_that_the_template_refuses_are_not_counted(tmp_path):
    (tmp_path / "strict.jinja").write_text(
        "{% if messages[0].role != 'user' %}{{ raise_exception('no user') }}{% endif %}"
        "{% for message in messages %}{{ message.content }}<|end|>{% endfor %}"
    )
    player = Local.model_validate({"model": "builtin", "template": str(tmp_path / "strict.jinja")})
    asked = Prompt("a", (user("How much is 2 + 2?"),))
    refused = Prompt("b", (Message("assistant", "Hello."), user("How much is 2 + 2?")))
    assert prompt_tokens(player, [asked, refused]) == prompt_tokens(player, [asked]) > 3


def test_a_plan_for_other_hardware_leaves_devices_of_measures_open():
    judge = "{kind: reward_model, model: builtin, head: lm_head, device: cuda}"
    config = recipe_loader.load("quickstart", [f"measures=[length, {{judge: {judge}}}]"])
    opened = without_places(config)
    assert opened.measures[1].judge.device == "auto"
    assert opened.measures[0] == config.measures[0]
    assert list(opened.players) == list(config.players)
