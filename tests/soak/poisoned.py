"""Poisoned files of models, tokenizers and adapters, each in a run of its own: nothing of theirs
is executed, nothing hangs, and what is refused is refused in one message.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import struct
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.running import with_settings
from tests.soak._forked import Moment, command, load
from tests.soak._outcome import Outcome

SIZE = 1  # rounds; every poison once
PATIENCE = 90.0  # seconds until a run counts as hung
MEMORY = 12 << 30  # bytes of address space
TINY = (
    "generations=1",
    "prompts.per_generation=4",
    "prompts.held_out=4",
    "evaluate.samples=1",
    "evaluate.sets=null",
    "learner.epochs=0.5",
)
POOL = (*TINY, "prompts.test=4", "schedule.k=1")
Poison = Callable[[Path], object]


class _Touch:
    """Leaves a mark where it is unpickled."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.mark,)


def mark_of(folder: Path) -> Path:
    """What exists once something of the folder's was executed."""
    return folder.parent / "executed"


def code_of(folder: Path) -> str:
    """Python that leaves the mark."""
    return f"import os\nos.mkdir({str(mark_of(folder))!r})\n"


def changed(name: str, **values: Any) -> Poison:
    """Other values in a JSON file."""

    def write(folder: Path) -> None:
        path = folder / name
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(before | values))

    return write


def text(name: str, content: str) -> Poison:
    """Another text in place of a file's."""
    return lambda folder: (folder / name).write_text(content)


def template(content: str) -> Poison:
    """Another chat template."""
    return text("chat_template.jinja", content)


def tokenizer(change: Callable[[dict[str, Any]], object]) -> Poison:
    """A changed tokenizer.json."""

    def write(folder: Path) -> None:
        path = folder / "tokenizer.json"
        rules = json.loads(path.read_text())
        change(rules)
        path.write_text(json.dumps(rules))

    return write


def split(pattern: str) -> Poison:
    """A tokenizer that cuts texts by this expression."""
    rule = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}

    def change(rules: dict[str, Any]) -> None:
        rules["pre_tokenizer"] = {
            "type": "Sequence",
            "pretokenizers": [rule, rules["pre_tokenizer"]],
        }

    return tokenizer(change)


def weights(change: Callable[[dict[str, Any]], object], name: str = "model.safetensors") -> Poison:
    """Changed tensors."""

    def write(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        tensors = load_file(folder / name)
        change(tensors)
        save_file(tensors, folder / name, {"format": "pt"})

    return write


def fill(value: float) -> Callable[[dict[str, Any]], object]:
    """Every tensor full of this value."""
    return lambda tensors: [tensor.fill_(value) for tensor in tensors.values()]


def reshape(tensors: dict[str, Any]) -> None:
    """The first tensor, of another shape."""
    name = min(tensors)
    tensors[name] = tensors[name].reshape(-1)[:7].clone()


def header(content: bytes, length: int | None = None, name: str = "model.safetensors") -> Poison:
    """Safetensors with this header, said to be of this length."""
    size = len(content) if length is None else length
    return lambda folder: (folder / name).write_bytes(struct.pack("<Q", size) + content)


def pickled(name: str, instead: str) -> Poison:
    """A pickle with a payload in place of safetensors."""

    def write(folder: Path) -> None:
        (folder / instead).unlink()
        (folder / name).write_bytes(pickle.dumps(_Touch(mark_of(folder))))

    return write


def zipped(name: str, instead: str) -> Poison:
    """The same in torch's own archive."""

    def write(folder: Path) -> None:
        import torch

        (folder / instead).unlink()
        torch.save({"weight": _Touch(mark_of(folder))}, folder / name)

    return write


def pipe(name: str) -> Poison:
    """A named pipe that nobody writes into."""

    def write(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return write


def own_code(name: str, **values: Any) -> Poison:
    """A JSON file that names code of the folder's own, and the code."""

    def write(folder: Path) -> None:
        (folder / "evil.py").write_text(code_of(folder))
        (folder.parent / "evil.py").write_text(code_of(folder))
        changed(name, **values)(folder)

    return write


def both(*poisons: Poison) -> Poison:
    """One after the other."""
    return lambda folder: [poison(folder) for poison in poisons]


AUTO = {
    "AutoConfig": "evil.Config",
    "AutoModelForCausalLM": "evil.Model",
    "AutoTokenizer": ["evil.Slow", "evil.Fast"],
}
ESCAPE = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
OPENS = "{{ cycler.__init__.__globals__.os.mkdir('executed') }}"
DEEP = "[" * 100_000
MODELS: Mapping[str, Poison] = {
    "nothing": lambda folder: None,
    "weights: a pickle": pickled("pytorch_model.bin", "model.safetensors"),
    "weights: torch's archive with a payload": zipped("pytorch_model.bin", "model.safetensors"),
    "weights: a header of 2^60 bytes": header(b"{}", 2**60),
    "weights: a header of nested lists": header(DEEP.encode()),
    "weights: negative offsets": header(
        b'{"a": {"dtype": "F32", "shape": [4], "data_offsets": [-16, 0]}}'
    ),
    "weights: a shape of 2^62": header(
        b'{"a": {"dtype": "F32", "shape": [4611686018427387904], "data_offsets": [0, 16]}}'
        + b"\0" * 16
    ),
    "weights: another shape": weights(reshape),
    "weights: all NaN": weights(fill(float("nan"))),
    "weights: all infinite": weights(fill(float("inf"))),
    "weights: empty": text("model.safetensors", ""),
    "weights: a pipe": pipe("model.safetensors"),
    "weights: an index that leaves the folder": both(
        lambda folder: (folder / "model.safetensors").unlink(),
        changed(
            "model.safetensors.index.json",
            metadata={},
            weight_map={"model.embed_tokens.weight": "../../../../../../etc/passwd"},
        ),
    ),
    "config: names code": own_code("config.json", auto_map=AUTO, model_type="evil"),
    "config: names code, known type": own_code("config.json", auto_map=AUTO),
    "config: a kernel of the hub": changed(
        "config.json", _attn_implementation="evil/kernel", attn_implementation="evil/kernel"
    ),
    "config: experts of the hub": changed("config.json", _experts_implementation="evil/kernel"),
    "config: quantised": changed(
        "config.json", quantization_config={"quant_method": "torchao", "quant_type": "evil"}
    ),
    "config: unknown quantisation": changed(
        "config.json", quantization_config={"quant_method": "evil"}
    ),
    "config: a billion layers": changed("config.json", num_hidden_layers=10**9),
    "config: as wide as 10^12": changed("config.json", hidden_size=10**12),
    "config: a vocabulary of 10^15": changed("config.json", vocab_size=10**15),
    "config: minus three layers": changed("config.json", num_hidden_layers=-3),
    "config: no heads": changed("config.json", num_attention_heads=0, num_key_value_heads=0),
    "config: a context of 10^12": changed("config.json", max_position_embeddings=10**12),
    "config: text for numbers": changed("config.json", hidden_size="many"),
    "config: odd rope": changed("config.json", rope_parameters={"rope_type": "evil"}),
    "config: odd type of numbers": changed("config.json", dtype="os.system"),
    "config: odd activation": changed("config.json", hidden_act="os.system"),
    "config: nested lists": text("config.json", DEEP),
    "config: a list": text("config.json", "[]"),
    "config: a number of 5,000 digits": text(
        "config.json", '{"model_type": "llama", "vocab_size": ' + "9" * 5000 + "}"
    ),
    "config: a pipe": pipe("config.json"),
    "generation: nested lists": text("generation_config.json", DEEP),
    "generation: an odd end": changed("generation_config.json", eos_token_id={"a": [1]}),
    "generation: an end of text": changed("generation_config.json", eos_token_id="1"),
    "generation: an end beyond": changed("generation_config.json", eos_token_id=[1, 10**12, None]),
    "generation: a list": text("generation_config.json", "[1]"),
    "tokenizer: names code": own_code(
        "tokenizer_config.json", auto_map=AUTO, tokenizer_class="Evil"
    ),
    "tokenizer: a class of elsewhere": changed(
        "tokenizer_config.json", tokenizer_class="subprocess.Popen"
    ),
    "tokenizer: another class": changed("tokenizer_config.json", tokenizer_class="BertTokenizer"),
    "tokenizer: an odd end": changed("tokenizer_config.json", eos_token={"__type": "Evil"}),
    "tokenizer: a list": text("tokenizer_config.json", "[]"),
    "tokenizer: nested lists": text("tokenizer_config.json", DEEP),
    "tokens: nested lists": text("tokenizer.json", DEEP),
    "tokens: no model": text("tokenizer.json", "{}"),
    "tokens: an empty expression": split(""),
    "tokens: an expression that backtracks": split(r"(?:.|..|...)+\z!"),
    "tokens: a wrong expression": split("("),
    "tokens: merges of nothing": tokenizer(lambda r: r["model"].update(merges=[["a", "zzzz"]])),
    "tokens: merges in a circle": tokenizer(
        lambda r: r["model"].update(merges=[["a", "b"], ["b", "a"]] * 3)
    ),
    "tokens: a number beyond": tokenizer(lambda r: r["model"]["vocab"].update({"a": 2**31})),
    "tokens: a special one beyond": tokenizer(lambda r: r["added_tokens"][2].update(id=10**9)),
    "tokens: texts that grow": tokenizer(
        lambda r: r.update(
            normalizer={
                "type": "Sequence",
                "normalizers": [{"type": "Replace", "pattern": {"Regex": "."}, "content": "a" * 30}]
                * 7,
            }
        )
    ),
    "tokens: a bogus character map": tokenizer(
        lambda r: r.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAAAAAA"})
    ),
    "tokens: a pipe": pipe("tokenizer.json"),
    "template: no end": template("{% for i in range(10**9) %}{% endfor %}a"),
    "template: many loops": template(
        "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}a"
    ),
    "template: memory": template("{{ 'a' * 10**11 }}"),
    "template: a number without end": template("{{ 9 ** 9 ** 9 }}"),
    "template: a field of 10^12": template("{{ '%999999999999d' % 1 }}"),
    "template: calls itself": template("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}"),
    "template: classes": template(ESCAPE),
    "template: the system": template(OPENS),
    "template: nothing": template(""),
    "template: no message": template("hello"),
    "template: deep": template("{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}"),
    "template: an error": template("{{ raise_exception('no\x1b]0;evil\x07') }}"),
    "template: division": template("{{ 1 // 0 }}"),
    "template: an unknown name": template("{{ a.b.c }}"),
    "template: a pipe": pipe("chat_template.jinja"),
}
ADAPTER = "adapter_config.json"
ADAPTERS: Mapping[str, Poison] = {
    "adapter: nothing": lambda folder: None,
    "adapter: a pickle": pickled("adapter_model.bin", "adapter_model.safetensors"),
    "adapter: torch's archive with a payload": zipped(
        "adapter_model.bin", "adapter_model.safetensors"
    ),
    "adapter: a base elsewhere": changed(ADAPTER, base_model_name_or_path="/etc"),
    "adapter: a base of text": changed(ADAPTER, base_model_name_or_path={"a": 1}),
    "adapter: maps to code": own_code(
        ADAPTER, auto_mapping={"base_model_class": "Evil", "parent_library": "evil"}
    ),
    "adapter: a core of its own": own_code(ADAPTER, megatron_config={"a": 1}, megatron_core="evil"),
    "adapter: another kind": changed(ADAPTER, peft_type="PREFIX_TUNING"),
    "adapter: unknown kind": changed(ADAPTER, peft_type="evil"),
    "adapter: a rank of 10^9": changed(ADAPTER, r=10**9),
    "adapter: a rank of -1": changed(ADAPTER, r=-1),
    "adapter: an odd rank": changed(ADAPTER, r="many"),
    "adapter: an expression that backtracks": changed(ADAPTER, target_modules=r"(?:(?:\w|\.)+)+!"),
    "adapter: all modules copied": changed(ADAPTER, modules_to_save=["lm_head", "embed_tokens"]),
    "adapter: layers repeated": changed(ADAPTER, layer_replication=[[0, 3]] * 100_000),
    "adapter: unknown settings": changed(ADAPTER, evil="yes"),
    "adapter: starts by a file": changed(ADAPTER, init_lora_weights="eva", eva_config={"rho": -1}),
    "adapter: nested lists": text(ADAPTER, DEEP),
    "adapter: a list": text(ADAPTER, "[]"),
    "adapter: all NaN": weights(fill(float("nan")), "adapter_model.safetensors"),
    "adapter: another shape": weights(reshape, "adapter_model.safetensors"),
    "adapter: a header of 2^60 bytes": header(b"{}", 2**60, "adapter_model.safetensors"),
    "adapter: a pipe": pipe("adapter_model.safetensors"),
}


# Those that are held by a limit on memory, which a test cannot have.
LARGE = (
    "template: memory",
    "template: a field of 10^12",
    "config: as wide as 10^12",
    "config: a vocabulary of 10^15",
    "adapter: a rank of 10^9",
)


def soak(size: int) -> Outcome:
    """Every poison `size` times, in the folder of a model or of an adapter."""
    from equipoise.models.adapters import packaged_adapters, packaged_models

    load()
    rows: list[dict[str, Any]] = []
    failures: list[str] = []
    model, adapter = packaged_models()["builtin/beginner"], packaged_adapters()["builtin/sums"]
    parts = (
        (MODELS, model, ["quickstart", *with_settings([*TINY, "policy.model=poisoned"])]),
        (
            ADAPTERS,
            adapter,
            ["sparta_clerks", *with_settings([*POOL, "players.sums.adapter=poisoned"])],
        ),
    )
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    for poisons, source, recipe in parts:
        for name, poison in poisons.items() if size else ():
            with tempfile.TemporaryDirectory() as home:
                row, wrong = _poisoned(name, source, poison, recipe, Path(home))
            rows.append(row)
            failures += wrong
            print(row, flush=True)
    return Outcome(rows, failures)


def _poisoned(
    name: str, source: Path, poison: Poison, recipe: list[str], home: Path
) -> tuple[dict[str, Any], list[str]]:
    shutil.copytree(source, home / "poisoned")
    poison(home / "poisoned")
    ended = command(
        ["run", *recipe, "--out", "run", "--json"], home, Moment("at any time", PATIENCE)
    )
    output = ended.output
    failures = []
    if (home / "executed").exists():
        failures.append(f"{name}: was executed")
    if ended.code is None:
        failures.append(f"{name}: hangs, or was killed: {output[-200:]!r}")
    if ended.code not in (0, 1, 2, None):
        failures.append(f"{name}: exit code {ended.code}")
    if "Traceback" in output or "\x1b]" in output:  # a panic prints its own trace, then our error
        failures.append(f"{name}: {output[-600:]}")
    errors = [line for line in output.splitlines() if "rror" in line]
    row = {
        "what": name,
        "code": "killed" if ended.code is None else ended.code,
        "seconds": round(ended.seconds, 1),
        "message": (errors or [""])[-1][:160] if ended.code else "",
    }
    return row, failures
