"""What a stranger types first, and the one message that says what to type instead."""

import json
import re
import shlex
import sys

import pytest

QUESTIONS = [{"prompt": f"What is {a} + 1?", "answer": str(a + 1)} for a in range(40)]
LINES = "".join(json.dumps(row) + "\n" for row in QUESTIONS)
FILES = {
    **{f"{column}.jsonl": LINES.replace('"prompt"', f'"{column}"') for column in ("text", "user")},
    "p.jsonl": LINES,
    "two.txt": "What is 2 + 2?\nWhat is 3 + 5?\n",
    "gbk.jsonl": '{"prompt": "你好"}\n'.encode("gbk"),
    "list.jsonl": json.dumps(QUESTIONS),
    "single.jsonl": str(QUESTIONS[0]),
    "lines.json": LINES,
    "data/p.jsonl": LINES,
    "p.xlsx": "PK",
    "p.arrow": "ARROW1",
    "p.jsonl.gz": b"\x1f\x8b",
    "one.csv": "your name; your question|aim\nAda\n",
    "tabs.yaml": "extends: mnpo\nplayers:\n\tpolicy: {}\n",
    "trl.yaml": "model_name_or_path: x\nper_device_train_batch_size: 1\nlearning_rate: 1e-6\n",
    "r.json": '{"extends": "quickstart"}',
    "commas.jsonl": LINES.replace("}\n", "},\n"),
    "frame.json": json.dumps({"prompt": {"0": "What is 1?", "1": "What is 2?"}}),
    "bare.csv": "What is 1 + 1?\nWhat is 2 + 2?\n",
    "body.jsonl": LINES.replace('"prompt"', '"body"'),
    "title.jsonl": LINES.replace('"prompt"', '"title": "sums", "body"'),
    "myloss.py": "class MyLoss:\n    pass\n",
    "leaves.py": "import sys\n\ndef score(prompt, text):\n    sys.exit(1)\n",
    "left.py": "def score(prompt, text):\n    return 1.0\n\nraise SystemExit(3)\n",
    "words.py": "def score(prompt, text, target=5):\n    return -abs(len(text) - target)\n",
    "judge.txt": "def score(prompt, text):\n    return 1.0\n",
    "adapter/adapter_config.json": "{}",
    "runs/q/ledger.sqlite": "",
    "runs/q/players/policy/1/config.json": "{}",
}
OWN = "plan mnpo -s policy.model=builtin -s judge=exact -s prompts.path="
FITS = f"{OWN}p.jsonl -s policy.max_length=200 -s policy.max_new_tokens=32"
ENDPOINT = "plan mnpo -s prompts.path=p.jsonl -s judge=exact -s 'policy={kind: endpoint, model: m, "

INIT = "init first.yaml --model builtin --data p.jsonl"

COMMANDS = [  # the command, and what its message says
    ("--verbose", "No such option: --verbose"),
    ("help", "Did you mean '--help'?"),
    ("mnpo", "Did you mean 'run mnpo'?"),
    ("trl.yaml", "Did you mean 'run trl.yaml'?"),
    ("train quickstart", "Did you mean 'run'?"),
    ("watch runs/a", "Did you mean 'status'?"),
    ("frobnicate", "No such command 'frobnicate'"),
    ("plan", "Missing argument 'recipe'"),
    ("plan builtin", "mnpo -s policy.model=builtin"),
    ("plan Qwen/Qwen2.5", "mnpo -s policy.model=Qwen/Qwen2.5"),
    ("plan r.json", "a recipe's file is YAML, and its name ends in .yaml"),
    ("plan quickstrat", "did you mean 'quickstart'?"),
    ("run quickstart.yaml", "the packaged recipe is 'quickstart'"),
    ("plan quickstart --generations 2", "Write -s generations=2."),
    ("plan quickstart --generations=2", "Write -s generations=2."),
    ("plan quickstart generations=2 seed=3", "Write -s generations=2 -s seed=3."),
    ("run quickstart --set generations 2", "Write -s generations=2."),
    ("plan quickstart -s judge={kind: shorter}", "quoted: -s 'judge={kind: shorter}'"),
    ("chat builtin -s steering={pricing: none}", "quoted: -s 'steering={pricing: none}'"),
    ("plan quickstart -s a=1 -s b=2 c=3", "Write -s c=3."),
    ("run quickstart --output x", "Write --out FOLDER"),
    ("run quickstart --foo 3", "A setting is given as -s KEY=VALUE"),
    ("run quickstart --use_lora", "Write -s policy.lora=…"),
    ("chat builtin --temperature 3", "A setting is given as -s KEY=VALUE"),
    ("chat ./nothere", "'./nothere' does not exist"),
    ("chat runs/none", "no run and no model in 'runs/none'"),
    ("serve runs/none", "no run and no model in 'runs/none'"),
    ("report runs/none", "no run here"),
    ("status quickstart", "no run here"),
    ("evaluate runs/none@policy --on gsm8k", "there is no run in runs/none"),
    ("evaluate runs/none --on gsm8k", "no run and no model in 'runs/none'"),
    ("evaluate builtin --on ifevall", "did you mean 'ifeval'?"),
    ("evaluate builtin --on humaneval", "known: alpaca_eval, arena"),
    ("evaluate builtin --on math,gsm8k", "--on math --on gsm8k"),
    ("evaluate builtin --on arc", "write {kind: lm_eval, tasks: [arc_challenge]}"),
    ("evaluate builtin --on mt_bench", "import-scores --from mt_bench"),
    ("evaluate builtin --on '{kind: truthfulqa}'", "tasks: [truthfulqa_mc2]"),
    ("evaluate builtin --on hellaswag_de", "--on '{kind: lm_eval, tasks: [hellaswag_de]}'"),
    ("evaluate builtin --tasks gsm8k", "sets are named by --on gsm8k"),
    ("plan trl.yaml", "'players.NAME.model'", "'learner.batch_size'", "'learner.learning_rate'"),
    ("plan tabs.yaml", "YAML is indented by spaces, not tabs"),
    ("plan sparta -s prompts.path=p.jsonl", "players={a: {model: …}, b: {model: …}}"),
    ("plan sparta -s prompts.path=p.jsonl -s model=builtin", "'NAME.model'"),
    (f"{OWN}text.jsonl", "-s prompts.prompt_column=text"),
    (f"{OWN}user.jsonl", "-s prompts.prompt_column=user"),
    (f"{OWN}user.jsonl -s prompt_column=user", "did you mean 'prompts.prompt_column'?"),
    (f"{OWN}two.txt", "too few prompts"),
    (f"{OWN}gbk.jsonl", "gbk.jsonl:1: is not UTF-8 text"),
    (f"{OWN}list.jsonl", "is the file one list of rows? Then name it .json"),
    (f"{OWN}single.jsonl", "JSON has double quotes"),
    (f"{OWN}lines.json", "is it JSON Lines? Then name it .jsonl"),
    (f"{OWN}data", "is a folder; name its files, e.g. data/*.jsonl"),
    (f"{OWN}p.xlsx", "save the sheet as .csv"),
    (f"{OWN}p.arrow", "write it by to_parquet()"),
    (f"{OWN}p.jsonl.gz", "unpack it first"),
    (f"{OWN}https://example.org/p.jsonl", "download the file and name it"),
    (f"{OWN}one.csv", "no column 'prompt' among your name; your question|aim"),
    (f"{OWN}body.jsonl", "-s prompts.prompt_column=body"),
    (f"{OWN}title.jsonl", "-s prompts.prompt_column=body"),
    (f"{FITS} -s judge=localhost:8000/v1", "endpoint, base_url: http://localhost:8000/v1"),
    (f"{FITS} -s policy=api.example.com/v1", "endpoint, base_url: http://api.example.com/v1"),
    (f"{FITS} -s policy.model=localhost:8000", "is a server's address, which begins with http://"),
    ("evaluate localhost:8000/v1 --on gsm8k", "begins with http://, as http://localhost:8000/v1"),
    (
        f"{FITS} -s judge=words.py -s judge.target=8",
        "unknown key 'target'; a function has no settings",
    ),
    (
        f"{FITS} -s 'judge={{kind: call, function: words.py, target: 8}}'",
        "a judge with settings is a class (docs/change_a_piece.md, 'A judge')",
    ),
    (f"{FITS} -s 'judge={{kind: call, fuction: words.py}}'", "did you mean 'function'?"),
    (f"{FITS} -s judge=left", "did you mean 'left.py'?"),
    (f"{FITS} -s loss=left.py", "this part is a class", "left.py has none"),
    (f"{FITS} -s loss=myloss.py", "name the class in the file, as 'myloss.py:MyLoss'"),
    (f"{FITS} -s 'judge={{kind:shorter}}'", "a space behind each colon: '{kind: shorter}'"),
    ("evaluate builtin --on gsm8k --judge '{kind:shorter}'", "'{kind: shorter}'"),
    ("evaluate runs/q:policy:1 --on gsm8k", "as runs/q@PLAYER or runs/q@PLAYER@GENERATION"),
    ("compare runs/q:1 runs/q:0 --on p.jsonl", "as runs/q@PLAYER or runs/q@PLAYER@GENERATION"),
    (f"{OWN}p.jsonl", "max_length = 2048 is beyond the context", "256 or less, or null"),
    (f"{OWN}p.jsonl -s policy.model=./nomodel", "model folder './nomodel' does not exist"),
    (f"{OWN}p.jsonl -s policy.model=builtin/clerk", "did you mean 'builtin/cards'?"),
    (f"{OWN}p.jsonl -s policy.model=org/name", "there is no folder 'org/name' here"),
    (f"{OWN}p.jsonl -s policy.device=gpu", "device 'gpu' is not known", "cuda"),
    (f"{OWN}p.jsonl -s judge.api_key=x", "judge: unknown key 'api_key'"),
    (f"{OWN}p.jsonl -s polcy.model=builtin", "unknown key 'polcy'; did you mean 'policy'?"),
    (f"{OWN}commas.jsonl", "a line is one row, without a comma after it"),
    (f"{OWN}frame.json", "to_json(orient='records')"),
    (f"{OWN}bare.csv", "a file's first line must name its columns"),
    (f"{OWN}p.jsonl,list.jsonl", "several are named by [first.jsonl, second.jsonl]"),
    (f"{OWN}https://huggingface.co/datasets/org/name", "a data set of the hub as org/name"),
    (f"{OWN}p.jsonl -s policy.model=https://huggingface.co/org/name", "the hub is 'org/name'"),
    (f"{OWN}p.jsonl -s policy.model=http://x/v1", "behind a server plays as kind: endpoint"),
    (f"{OWN}p.jsonl -s policy=http://x/v1", "plays as {kind: endpoint, base_url: http://x/v1"),
    (f"{OWN}p.jsonl -s policy.model=adapter", "is an adapter; name its base as model"),
    (f"{OWN}p.jsonl -s policy.model=runs/q", "name a generation, as runs/q/players/policy/1"),
    (f"{OWN}p.jsonl -s policy.model=runs/q@policy@1", "the run has runs/q/players/policy/1"),
    ("serve runs/q@policy@9", "the run has runs/q/players/policy/1"),
    (
        f"{FITS} -s judge=http://x/v1",
        "{kind: rubric, model: {kind: endpoint, base_url: http://x/v1",
    ),
    (f"{FITS} -s judge=judge.txt", "lies in a file that ends in .py"),
    (f"{FITS} -s judge=leaves.py", "leaves.py:score raised SystemExit: 1", "line 4"),
    (f"{FITS} -s judge=left.py", "cannot import 'left.py:score': SystemExit: 3"),
    (f"{FITS} -s 'judge={{kind: reward_model, model: builtin}}'", "without a head that scores"),
    (f"{FITS} -s policy.temperature=0", "set policy.temperature to 0.8"),
    ("plan QuickStart", "did you mean 'quickstart'?"),
    ("plan quickstart --on 0xH100-80GB", "there must be one or more"),
    ("plan quickstart --on '8 x H100 80GB'", "did you mean 'H100-80GB'?"),
    ("plan quickstart -s evaluate=red_team", "measures the defender, and game 'answers' has none"),
    ("plan gpo_clerks -s schedule=self_play", "schedule.roles gives defender no player"),
    ("evaluate builtin --on lm_eval:hellaswag", "{kind: lm_eval, tasks: [hellaswag]}"),
    ("evaluate builtin --on p.jsonl", "name a judge, as --judge KIND"),
    ("status runs/q/players", "did you mean 'runs/q'?"),
    ("resume trl.yaml", "it is a recipe: equipoise run trl.yaml"),
    (f"{INIT} --judge exact --method grpo", "or the name of a loss of pairs, such as dpo"),
    (f"{INIT} --judge exact --method mpno", "did you mean 'mnpo'?"),
    (f"{INIT} --judge exact --method gtalign", "gtalign's task rows and judges are set by hand"),
    (f"{INIT} --judge exact --hours inf", "--hours: must be more than 0"),
    (f"{INIT} --judge localhost:8000/v1", "begins with http://, as http://localhost:8000/v1"),
    (f"{ENDPOINT}base_url: api.openai.com/v1}}'", "must begin with http:// or https://"),
    (f"{ENDPOINT}base_url: http://x, api_key: x}}'", "did you mean 'api_key_env'?"),
    (f"{ENDPOINT}base_url: http://x, api_key_env: sk-1}}'", "never the key"),
    (f"{ENDPOINT}base_url: http://x, learns: true}}'", "an endpoint cannot learn"),
    (f"{ENDPOINT}}}'", "players.policy.base_url: is required"),
]
SETTINGS = [  # a setting of the quickstart, and what its message says
    ("lr=3", "did you mean 'learner.learning_rate'?"),
    ("learner.lr=1e-6", "did you mean 'learning_rate'?"),
    ("learning-rate=1e-6", "did you mean 'learner.learning_rate'?"),
    ("policy.learning_rate=1e-6", "did you mean 'learner.learning_rate'?"),
    ("learner.learning_rate=1,000", "should be a valid number"),
    ("learner.temperature=1", "did you mean 'policy.temperature'?"),
    ("learner.value_clip=2", "it is a setting of other kinds: policy_gradient"),
    ("lora=true", "did you mean 'policy.lora'?"),
    ("lora_rank=8", "did you mean 'policy.lora.r'?"),
    ("policy.lora=16", "give true, null or settings, e.g. {r: 16}"),
    ("max_tokens=8", "did you mean 'policy.max_new_tokens'?"),
    ("num_generations=8", "'game.samples' or 'evaluate.samples'"),
    ("output_dir=x", "on the command line there is --out FOLDER"),
    ("trainer.n_gpus_per_node=8", "write -s 'executor={processes: N}'"),
    ("optim.lr=1e-6", "did you mean 'learner.learning_rate'?"),
    ("generatons=2", "did you mean 'generations'?"),
    ("generations=2.5", "should be a valid integer"),
    ("generations:2", "write it as -s key.path=value"),
    ("generations=", "generations: is required"),
    ("foo.bar=3", "unknown key 'foo'; known: by_generation"),
    ("dataset=p.jsonl", "did you mean 'prompts.path'?"),
    ("prompts=p.jsonl", "is named by -s prompts.path=p.jsonl"),
    ("policy=builtin", "a model is named by -s policy.model=builtin"),
    ("players=[policy]", "players: Input should be a valid dictionary"),
    ("players.policy=null", "players={a: {model: …}, b: {model: …}}"),
    ("players.polcy.model=x", "there is no such player; did you mean 'policy'?"),
    ("policy.dtype=bf16", "'bfloat16'"),
    ("policy.top_p=95", "less than or equal to 1"),
    ("policy.base_url=http://x", "it is a setting of other kinds: endpoint"),
    ("keep=last", "keep: ", "'all'"),
    ("report_to=wandb", "pip install wandb"),
    ("report_to=wandbb", "'wandb'"),
    ("learner=grpo", "did you mean 'policy_gradient'?"),
    ("training_ratings=elo", "training_ratings: nothing reads it: there is one player"),
    ("learner=none", "nothing is written null"),
    ("loss=DPO", "did you mean 'dpo'?"),
    ("loss=grpo", "-s learner=policy_gradient -s loss=null"),
    ("loss=sigmoid", "did you mean 'dpo'?"),
    ("loss={dpo: {beta: 1}}", "a kind is written {kind: dpo, …}"),
    ("loss={dpo:{beta:1}}", "not YAML"),
    ("loss.gamma=2", "it is a setting of other kinds: simpo"),
    ("schedule=history", "did you mean 'against_history'?"),
    ("schedule=sparta", "needs two players or more"),
    ("game.samples=1", "set game.samples to 2 or more"),
    ("judge=llm", "did you mean 'rubric'?"),
    ("judge=gpt-4o", "kind: rubric, model: {kind: endpoint, base_url: …"),
    ("judge=./judge.py", "./judge.py: No such file"),
    ("judge=judge.py:score", "there is no file", "judge.py"),
    ("judge.model=2", "reward_model"),
    ("judge=peers", "needs at least three players"),
    (
        "utility=foo",
        "utility: judge: 'clerk' gives no 'foo'; known: answered, asked, declined, score",
    ),
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The stranger's folder, in which a mistake leaves nothing; a tracker is not installed."""
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setenv("COLUMNS", "200")
    before = set(tmp_path.rglob("*"))
    yield
    left = set(tmp_path.rglob("*")) - before
    assert not [path for path in left if "__pycache__" not in str(path)]


@pytest.mark.parametrize(("typed", "words"), [(typed, words) for typed, *words in COMMANDS])
def test_a_command(command, folder, typed, words):
    check(command(*shlex.split(typed)), words)


@pytest.mark.parametrize(("setting", "words"), [(setting, words) for setting, *words in SETTINGS])
def test_a_setting(command, folder, setting, words):
    check(command("plan", "quickstart", "-s", setting), words)


def check(done, words):
    """One message, which says all of these words."""
    assert done.code == 2
    assert len(re.findall(r"^[Ee]rror: ", done.err, re.MULTILINE)) == 1, done.err
    message = " ".join(done.err.split())
    assert all(word in message for word in words), message
