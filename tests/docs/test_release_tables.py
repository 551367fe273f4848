"""The tables "From the release to here": each row names a setting, recipe or command that exists, or
says why it is not built; and no flag of a release's scripts is left out.
"""

import re
import shlex
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from pydantic import BaseModel
from typer.core import TyperGroup

from equipoise.cli import app
from equipoise.component import Component
from equipoise.runs import recipe_loader
from equipoise.runs.config import RunConfig
from equipoise.system.packaged_recipes import recipe_descriptions

DOCS = Path(__file__).resolve().parents[2] / "docs"
RELEASES = ("mnpo", "sparta", "gpo", "gtalign")
HEADINGS = ("| in the release | here |", "| in the paper | here |")
PLAYERS = ("policy", "defender", "adversary", "assistant")
WHY_NOT = "not built, because "
SCRIPTS = {  # the flags and variables of each release's scripts and configurations
    "mnpo": """--num_splits --seed --dataset_name --json_save_path --temperature --top_p --max_tokens
        --seeds --sanity_check --num_gpu --batch_size --cache_dir --generation_file_dir ratio eta
        beta max_history_t weights het_loss_weight --ref_model --last_model --history_paths
        learning_rate lr_scheduler_type warmup_ratio optim bf16 torch_dtype attn_implementation
        chat_template gradient_checkpointing gradient_accumulation_steps max_length
        max_prompt_length per_device_train_batch_size per_device_eval_batch_size num_train_epochs
        eval_steps metric_for_best_model load_best_model_at_end save_strategy save_total_limit
        logging_steps report_to run_name output_dir push_to_hub seed mask_prompt len_penalty
        model_name_or_path dataset_mixer dataset_splits preprocessing_num_workers log_level do_eval
        margin_scale choose_type loss_type eot_token eos_padding lora_r optimizer_type""",
    "sparta": """BASE_MODEL MODEL_NAMES INIT_MODEL_DIR DATA_DIR MAX_ITERATIONS NUM_INSTRUCTIONS TASK
        DIFFICULTY SCORE_TYPE RANDOM_MATCH_PROB NUM_OPPONENTS RANDOM_SEED RANDOM_SELECT USE_FAIR
        FREEZE_RATINGS INITIAL_K MIN_K WINDOW_SIZE MIN_DEVIATION EPSILON DECAY_RATE DECAY_STEPS
        SCALING_FACTOR NUM_EPOCHS BS GAS MSEQLEN LR QLORA COMPUTE_DTYPE ATTN_IMPLEMENTATION GPU_IDS
        FIRST_GPU BATCH_SIZE ACCELERATE_CONFIG WANDB_PROJECT EXPERIMENT_NAME""",
    "gpo": """--model_save_path --policy_model_path --adv_model_path --critic_model_path
        --tokenizer_name_or_path --llama_guard_path --similarity_model_path --data_path --logdir
        --lr --critic_lr --seed --batch_size --train_steps --warmup_steps --save_per_step --beta1
        --beta2 --eps --num_workers --num_prefetch --maxlen_prompt --maxlen_res
        --gradient_checkpoint --num_rollouts --rollout_batch_size --ppo_pretrain_data_path
        --ppo_pretrain_data_type --ppo_pretrain_batch_size_ratio --ppo_pretrain_loss_weight
        --kl_penalty_weight --advantage_clip --vf_loss_weight --entropy_loss_weight --reward_clip
        --entropy_clip --pg_clip --value_clip --gamma --lam --use_reward_clip --use_reward_scaling
        --use_reward_norm --use_critic_loss_clip --use_policy_loss_clip --use_advantage_norm
        --use_advantage_clip --use_ppo_pretrain_loss --use_entropy_loss --temperature
        --repetition_penalty --topp --no_split_dialog --lang --bleu_weight --embed_weight
        --defend_stage_steps --attack_stage_steps""",
    "gtalign": """adv_estimator train_files val_files train_batch_size max_prompt_length
        max_response_length filter_overlong_prompts truncation shuffle model.path optim.lr
        ppo_mini_batch_size use_dynamic_bsz ppo_max_token_len_per_gpu use_remove_padding
        param_offload enable_gradient_checkpointing use_kl_loss use_kl_in_reward rollout.name
        rollout.mode gpu_memory_utilization judge_ip judge_port normalize_method critic_warmup
        logger experiment_name n_gpus_per_node nnodes validation_data_dir save_freq test_freq
        total_epochs""",
}


def rows_of(page: str) -> list[tuple[str, str]]:
    """(in the release or paper, here) for every row of a page's tables."""
    rows = []
    inside = False
    for line in (DOCS / f"{page}.md").read_text().splitlines():
        if line in HEADINGS:
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and not line.startswith("|---"):
            first, second = line.strip("| ").split(" | ", 1)
            rows.append((first, second))
    return rows


def classes_in(annotation: Any) -> list[type[BaseModel]]:
    """The classes of settings that a value of this type may be, of every kind."""
    if not isinstance(annotation, type):
        return [found for inner in get_args(annotation) for found in classes_in(inner)]
    if not issubclass(annotation, BaseModel):
        return []
    if issubclass(annotation, Component) and "KINDS" in annotation.__dict__:
        return [annotation.find(kind) for kind in annotation.packaged_kinds()]
    return [annotation]


def is_setting(path: str) -> bool:
    """True if some part of some kind has a setting at this dotted path."""
    keys = path.split(".")
    if keys[0] in PLAYERS:
        keys = ["players", *keys]
    if keys[0] == "player_defaults":
        keys = ["players", "any", *keys[1:]]
    holders: list[type[BaseModel]] = [RunConfig]
    while keys:
        key = keys.pop(0)
        fields = [c.model_fields[key] for c in holders if key in c.model_fields]
        if not fields:
            return False
        annotations = [field.annotation for field in fields]
        holders = [found for annotation in annotations for found in classes_in(annotation)]
        named = any(str(annotation).startswith("dict") for annotation in annotations)
        if keys and named and not any(keys[0] in c.model_fields for c in holders):
            keys.pop(0)  # a player's or a source's name
    return True


def is_command(text: str) -> bool:
    """True if the command has this verb."""
    verbs = typer.main.get_command(app())
    assert isinstance(verbs, TyperGroup)
    name, verb, rest = verbs.resolve_command(
        verbs.make_context("equipoise", [], resilient_parsing=True), shlex.split(text)[1:]
    )
    if isinstance(verb, TyperGroup):
        context = verb.make_context(str(name), [], resilient_parsing=True)
        name, verb, rest = verb.resolve_command(context, rest)
    return verb is not None


def settings_in(cell: str) -> tuple[list[str], list[str]]:
    """(what a cell names that exists, dotted settings that it names and that do not)."""
    there = []
    wrong = []
    for text in re.findall(r"`([^`]+)`", cell):
        if text.startswith("equipoise "):
            (there if is_command(text) else wrong).append(text)
            continue
        for part in text.split(" -s "):
            path = re.split(r"[=:]", part.removeprefix("-s "))[0].strip()
            if not re.fullmatch(r"[a-z_]+(\.[a-zA-Z_]+)*", path):
                continue
            if path in recipe_descriptions() or is_setting(path):
                there.append(path)
            elif "." in path and not path.endswith((".jsonl", ".json", ".py")):
                wrong.append(path)
    return there, wrong


@pytest.mark.parametrize("page", RELEASES)
def test_every_row_names_what_exists_or_says_why_it_is_not_built(page):
    rows = rows_of(page)
    assert len(rows) > 20
    empty = []
    for first, here in rows:
        there, wrong = settings_in(here)
        assert not wrong, (first, wrong)
        if not there and WHY_NOT not in here:
            empty.append(first)
    assert not empty


@pytest.mark.parametrize("page", RELEASES)
def test_no_flag_of_a_release_is_left_out(page):
    released = " ".join(first for first, _ in rows_of(page))
    named = set(re.split(r"[`\s,:()=]+", released))
    endings = {name.split(".", 1)[-1] for name in named} | {name.rsplit(".")[-1] for name in named}
    missing = [flag for flag in SCRIPTS[page].split() if flag not in named | endings]
    assert not missing


def test_a_row_of_something_else_is_noticed():
    assert settings_in("`loss.etta`") == ([], ["loss.etta"])
    assert settings_in("`loss.eta: 3`, `mnpo_as_released`, `equipoise report RUN`")[1] == []
    assert settings_in("`intended` is what is written") == ([], [])
    assert is_setting("losses.armo.eta")
    assert not is_setting("learner.policy_loss.clamp")


@pytest.mark.parametrize("page", RELEASES)
def test_the_released_configuration_on_the_page_is_one(page, tmp_path):
    """It loads as it stands, and takes what it says."""
    text = (DOCS / f"{page}.md").read_text().partition("## From the release to here")[2]
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "released.yaml").write_text(block)
    config = recipe_loader.load(tmp_path / "released.yaml")
    assert config.name.endswith("_as_released")
    assert not config.yielded
    if page == "mnpo":
        launched = config.learner_of("policy").settings()
        assert launched["gradient_accumulation"] * launched["batch_size"] == 32
        assert config.by_generation["loss"]["eta"] == {0: 0.0075, 1: 0.005}
    if page == "gpo":
        assert config.evaluate.settings()["best"] == "raw"
        assert config.learner_of("adversary").settings()["critic_model"] == "reward-model"
