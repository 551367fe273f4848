"""Models, adapters and tokenizers from a folder or the Hugging Face hub.

A generation folder is what `save_pretrained` writes: a whole model, or a PEFT adapter of the base.
The tokenizer always comes from the base.
"""

import base64
import datetime
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from pydantic import Field

from equipoise.errors import ModelError, first_line, unreadable
from equipoise.models.adapters import (
    Lora,
    add_adapter,
    check_folder,
    holds_adapter,
    load_adapter,
    packaged_models,
    resolve,
)
from equipoise.models.chat_encoding import CLOCK, Encoding
from equipoise.models.device import choose_device
from equipoise.models.progress import quiet
from equipoise.models.quantization import (
    Quantization,
    keep_gradients,
    loading_options,
    missing_package,
)
from equipoise.system.effects import MODEL_CODE
from equipoise.system.hugging_face import OnHub, ask_hub
from equipoise.system.interrupts import time_limit

T = TypeVar("T")
Dtype = Literal["auto", "float32", "bfloat16", "float16"]
OwnCode = Annotated[
    bool, MODEL_CODE, Field(description="let Python code of the model's own folder run here")
]
Day = Annotated[
    datetime.date | None,
    Field(
        description="the day, as 2026-05-17, that a chat template is given which prints the date; "
        "null: the day on which the run begins, which is written here"
    ),
]
READERS = {
    "AutoModelForCausalLM": "causal language model",
    "AutoModelForSequenceClassification": "reward model",
    "AutoModel": "text encoder",
}
OWN_CODE = "Its folder holds Python code, which runs here only with trust_remote_code: true"
MASKED = ("auto", "sdpa", "flex_attention", "eager")  # attention with which answers share prompts
FLASH = {"flash_attention_2": "flash_attn", "flash_attention_3": "flash_attn_interface"}
# Tokens of prompt and answer where the configuration does not give them, or the model's context if
# shorter.
LONGEST = 2048
# The most that a configuration may say, of what its reader loops over.
MOST = {
    "num_hidden_layers": 2_000,
    "num_attention_heads": 100_000,
    "num_key_value_heads": 100_000,
    "num_experts": 100_000,
    "num_local_experts": 100_000,
    "n_routed_experts": 100_000,
    "hidden_size": 2**24,
    "vocab_size": 2**28,
}
TOKENIZER_FILE = "tokenizer_config.json"
LARGEST_ID = 2**26  # of a token: the tokenizer keeps a place for each below it
MOST_GROWTH = 1_000  # characters that a normalizer makes of one
# Read once where a tokenizer is opened: some fail, or panic, at letters that they lack.
TRIED = "".join(map(chr, range(32, 127))) + " é 漢 🙂\n"
ACTIVATIONS = 24  # numbers that a layer keeps per hidden number in training, where nothing is tried


@dataclass(frozen=True, slots=True)
class Description:
    """A model's size, for planning."""

    parameters: int
    hidden: int
    layers: int
    vocabulary: int
    context: int | None
    kv_numbers: int  # that the cache keeps for each token of a context
    trainable: int  # of the parameters
    short: bool  # its own type has two bytes a number
    linear: int = 0  # of the parameters, in layers that `quantization` makes short
    checkpoints: bool = True  # its layers can be computed again in the backward pass
    shared: bool = False  # a weight stands in two of those layers


class Loading(NamedTuple):
    """The way in which a model is loaded, as in `load_model`."""

    dtype: Dtype = "auto"
    device: str = "auto"
    attention: str = "auto"
    quantization: Quantization = None
    liger: bool = False


def load_tokenizer(model: str, trust_remote_code: bool = False) -> Any:
    """The tokenizer of a model folder or hub id. Raises ModelError."""
    from transformers import AutoTokenizer

    with unreadable(f"model '{model}' has no usable tokenizer (tokenizer.json beside config.json)"):
        check_tokens(Path(resolve(model, weights=False)))
        return fetch(model, AutoTokenizer.from_pretrained, trust_remote_code)


def check_files(model: str) -> None:
    """Raises ModelError where a folder lacks weights, or a part of them; they are not read."""
    from safetensors import safe_open
    from transformers import utils

    folder = Path(model).expanduser()
    if not folder.is_dir():
        return
    with unreadable(f"model '{model}' has no whole weights (is its download finished?)"):
        names = (utils.SAFE_WEIGHTS_NAME, utils.SAFE_WEIGHTS_INDEX_NAME)
        names += (utils.WEIGHTS_NAME, utils.WEIGHTS_INDEX_NAME)
        first = next((name for name in names if (folder / name).is_file()), names[0])
        parts = {first}
        if first.endswith(".json"):
            parts = set(json.loads((folder / first).read_bytes())["weight_map"].values())
        for part in sorted(parts):
            if not (folder / part).is_file():
                raise FileNotFoundError(f"there is no {part}")
            if part.endswith(".safetensors"):
                with safe_open(folder / part, "pt"):
                    pass


def load_encoding(
    model: str,
    max_length: int | None = None,
    template: str | None = None,
    template_options: Mapping[str, Any] | None = None,
    trust_remote_code: bool = False,
    *,
    max_prompt: int | None = None,
    date: datetime.date | None = None,
) -> Encoding:
    """The encoding that every generation of a player on `model` shares. Raises ModelError.

    `max_prompt` and `date` as `Encoding` takes them.
    """
    length = row_length(model, max_length, trust_remote_code)
    tokenizer = load_tokenizer(model, trust_remote_code)
    stops = generation_stops(model)
    embeddings = getattr(
        load_config(model, trust_remote_code).get_text_config(), "vocab_size", None
    )
    with unreadable(f"model '{model}' has no usable tokenizer"), time_limit():
        tokenizer.encode(TRIED, add_special_tokens=False)
        return Encoding(
            tokenizer,
            length,
            template,
            template_options,
            stops,
            max_prompt=max_prompt,
            date=date,
            embeddings=embeddings,
        )


def prints_date(model: str, template: str | None = None, trust_remote_code: bool = False) -> bool:
    """True if the chat template, of the file or else of the model, prints the date.

    Raises ModelError for a model that is not there.
    """
    if template is not None:
        path = Path(template).expanduser()
        return path.is_file() and CLOCK.encode() in path.read_bytes()
    folder = Path(resolve(model, weights=False))
    if folder.is_dir():
        files = [*folder.glob("*.jinja"), *folder.glob("*chat_template*"), folder / TOKENIZER_FILE]
        return any(CLOCK.encode() in file.read_bytes() for file in files if file.is_file())
    return CLOCK in (load_tokenizer(model, trust_remote_code).chat_template or "")


def row_length(model: str, max_length: int | None, trust_remote_code: bool = False) -> int:
    """Tokens of a row: `max_length`, else the model's context up to 2048. ModelError if beyond."""
    context = _context(load_config(model, trust_remote_code))
    if max_length is not None and context is not None and max_length > context:
        raise ModelError(
            f"max_length = {max_length} is beyond the context of model '{model}', {context} "
            f"tokens; set max_length to {context} or less, or null"
        )
    return max_length or min(context or LONGEST, LONGEST)


def whole_context(model: str, max_length: int | None) -> int:
    """Tokens of the model's context; of one without bounds `max_length`, at least 2048."""
    return _context(load_config(model)) or max(max_length or 0, LONGEST)


def load_config(model: str, trust_remote_code: bool = False) -> Any:
    """The model's transformers configuration. Raises ModelError."""
    from transformers import AutoConfig

    if (path := Path(model).expanduser()).is_dir():
        check_folder(path, model)
    with unreadable(f"model '{model}' has no usable config.json"):
        config = fetch(model, AutoConfig.from_pretrained, trust_remote_code)
        sizes = config.get_text_config()
        for name, most in MOST.items():
            value = getattr(sizes, name, None)
            if isinstance(value, int) and not 1 <= value <= most:
                raise ValueError(f"{name} is {value}; at most {most:,} can be read")
        attention = getattr(config, "_attn_implementation", None)
        if isinstance(attention, str) and "/" in attention:
            raise ValueError(
                f"attention is to be computed by code of the hub ({attention!r}); take "
                "the setting out, or choose an `attention` yourself"
            )
        return config


def missing_kernel(attention: str, device: str) -> str:
    """A message about a kernel of attention that is not here; "" where nothing speaks against it.

    Without the package transformers takes the kernel from the hub, where `kernels` is installed.
    """
    if attention not in FLASH:
        return ""
    package = FLASH[attention]
    if find_spec(package) is None and find_spec("kernels") is None:
        return (
            f"attention: {attention} is by the package {package}, which is not installed; install "
            "it, or set sdpa"
        )
    if choose_device(device).type == "cpu":
        return f"attention: {attention} is not for CPUs, and device is {device}; set sdpa"
    return ""


def load_model(
    model: str,
    weights: Path | None = None,
    lora: Lora | None = None,
    *,
    dtype: Dtype = "auto",
    device: str = "auto",
    attention: str = "auto",
    quantization: Quantization = None,
    liger: bool = False,
    trainable: bool = False,
) -> Any:
    """A causal language model, in evaluation mode.

    `weights` is a generation folder (None: the model as given). With `lora` the result is a PEFT
    model, its adapter read from `weights` or, when `trainable`, fresh (of torch's generator); with
    neither it is the base alone. `dtype` auto is, on an accelerator, that of the model as given,
    for all its generations; on a CPU float32. Raises ModelError.
    """
    if weights is not None and holds_adapter(weights, lora):
        loading = Loading(dtype, device, attention, quantization, liger)
        base = load_model(model, **loading._asdict())
        return load_adapter(base, model, weights, "default", trainable=trainable).eval()
    target = choose_device(device)
    kind = torch_dtype(model, dtype, target)
    folder = model if weights is None else str(weights)
    base = _load_whole(folder, kind, target, attention, quantization=quantization)
    # Numbers of opponents, and ratios, are taken without a model's own dropout.
    for module in base.modules():
        for name, value in vars(module).items():
            if isinstance(value, float) and ("drop" in name or "Dropout" in type(module).__name__):
                setattr(module, name, 0.0)
    if liger:
        from liger_kernel.transformers import monkey_patch  # pyright: ignore[reportMissingImports]

        kind = base.config.model_type
        if kind not in monkey_patch.MODEL_TYPE_TO_APPLY_LIGER_FN:
            raise ModelError(f"liger: has no kernels for models of type '{kind}'; set false")
        options = {"cross_entropy": False, "fused_linear_cross_entropy": False}
        # The output head's numbers are taken by `output_head`.
        monkey_patch._apply_liger_kernel_to_instance(base, **options)
    head = base.get_output_embeddings()
    if head is not None:
        head.register_forward_pre_hook(contiguous)
    if not trainable:
        # Where weights need gradients, torch multiplies by them in another order.
        return base.requires_grad_(False)
    return base if lora is None else add_adapter(base, lora).eval()


def contiguous(head: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The head's input in one piece: of a view torch would copy the whole head once a row."""
    return (arguments[0].contiguous(), *arguments[1:])


def load_classifier(
    model: str,
    *,
    dtype: Dtype = "auto",
    device: str = "auto",
    attention: str = "auto",
    quantization: Quantization = None,
    head: str | None = None,
    trust_remote_code: bool = False,
) -> Any:
    """A sequence classification model (a reward or preference model) in evaluation mode.

    `head`: the last layer's name in the weights, where that differs. A language model without such
    a head is refused: transformers would give it a random one. Raises ModelError.
    """
    config = load_config(model, trust_remote_code)
    reader = "AutoModelForSequenceClassification"
    own_code = reader in (getattr(config, "auto_map", None) or ())
    extra: dict[str, Any] = {"quantization": quantization}
    if head is not None:
        extra["key_mapping"] = {rf"^{re.escape(head)}\.": "score."}
    target = choose_device(device)
    kind = torch_dtype(model, dtype, target, trust_remote_code)
    try:
        built = _load_whole(model, kind, target, attention, reader, trust_remote_code, **extra)
    except ModelError as error:
        if own_code and not trust_remote_code:
            raise ModelError(f"{error}. {OWN_CODE}") from error
        raise
    return built.requires_grad_(False)


def load_encoder(
    model: str,
    *,
    dtype: Dtype = "auto",
    device: str = "auto",
    attention: str = "auto",
    trust_remote_code: bool = False,
) -> Any:
    """A model that gives a vector for each token; a pooler may be absent. Raises ModelError."""
    config = load_config(model, trust_remote_code)
    if config.is_encoder_decoder:
        raise ModelError(
            f"model '{model}' is an encoder with a decoder behind it; "
            "name an encoder, such as a BERT"
        )
    target = choose_device(device)
    kind = torch_dtype(model, dtype, target, trust_remote_code)
    built = _load_whole(
        model, kind, target, attention, "AutoModel", trust_remote_code, ("pooler.",)
    )
    return built.requires_grad_(False)


def describe(model: str, lora: Lora | None = None) -> Description:
    """A model's size from its configuration alone; no weights are loaded. Raises ModelError."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.modeling_layers import GradientCheckpointingLayer

    config = load_config(model)
    what = f"model '{model}' is not a causal language model"
    with unreadable(what), time_limit(), torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    parameters = built.num_parameters()
    layers = (each for each in built.modules() if isinstance(each, torch.nn.Linear))
    head = built.get_output_embeddings()
    linear = sum(layer.weight.numel() for layer in layers if layer is not head)
    again = [each for each in built.modules() if isinstance(each, GradientCheckpointingLayer)]
    stands = Counter(id(weight) for layer in again for weight in layer.parameters())
    text = config.get_text_config()
    asking = getattr(text, "num_attention_heads", 0)  # Mamba has none, and no keys to keep
    heads = getattr(text, "num_key_value_heads", None) or asking
    width = getattr(text, "head_dim", None) or text.hidden_size // max(1, asking)
    trainable = parameters
    if lora is not None:
        with torch.device("meta"):
            adapted = add_adapter(built, lora)
        trainable = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    return Description(
        parameters=parameters,
        hidden=text.hidden_size,
        layers=text.num_hidden_layers,
        vocabulary=text.vocab_size,
        context=_context(config),
        kv_numbers=2 * text.num_hidden_layers * heads * width,
        trainable=trainable,
        short=config.dtype in (torch.bfloat16, torch.float16),
        linear=linear,
        checkpoints=bool(built.supports_gradient_checkpointing),
        shared=max(stands.values(), default=1) > 1,
    )


def _load_whole(
    model: str,
    dtype: Any,
    device: Any,
    attention: str,
    reader: str = "AutoModelForCausalLM",
    trust_remote_code: bool = False,
    unneeded: tuple[str, ...] = (),
    quantization: Quantization = None,
    **extra: Any,
) -> Any:
    """The model on `device` by transformers' class `reader`, but `unneeded`. Raises ModelError."""
    import transformers

    if attention != "auto":
        extra["attn_implementation"] = attention
    missing = missing_package(quantization)
    if missing:
        raise ModelError(missing)
    if quantization is not None:
        with quiet(all_bars=True):
            extra |= loading_options(quantization, dtype, device)
    from_pretrained = getattr(transformers, reader).from_pretrained
    read = partial(from_pretrained, dtype=dtype, output_loading_info=True, **extra)
    load_config(model, trust_remote_code)  # its faults have clearer messages
    with unreadable(f"model '{model}' cannot be loaded"):
        try:
            built, loading = fetch(model, read, trust_remote_code, weights=True)
        except ValueError as error:
            if "configuration class" not in str(error):
                raise
            what = f"model '{model}' is not a {READERS[reader]}"
            raise ModelError(f"{what}: {first_line(error)}") from error
    keys = loading["missing_keys"]
    missing = sorted(key for key in keys if not key.startswith(unneeded))
    if missing:
        unread = loading["unexpected_keys"]
        note = f"; its weight {min(unread)} was not read" if unread else ""
        raise ModelError(
            f"model '{model}', read as a {READERS[reader]}, lacks {len(missing)} of its "
            f"weights, the first of them {missing[0]}{note}"
        )
    if quantization is None:
        return built.to(device).eval()
    keep_gradients(built)
    return built.eval()


def torch_dtype(model: str, dtype: Dtype, device: Any, trust_remote_code: bool = False) -> Any:
    """The torch dtype; "auto": the model's on an accelerator, else float32. Raises ModelError."""
    import torch

    if dtype != "auto":
        return getattr(torch, dtype)
    if device.type == "cpu":
        return torch.float32
    return load_config(model, trust_remote_code).dtype or torch.float32


def written_dtype(model: str, dtype: Dtype = "auto") -> Any:
    """The torch dtype to write a model's weights in; "auto": what its own have. Raises ModelError.

    That is what its configuration says, else what most of its first file of weights have.
    """
    import torch

    if dtype != "auto":
        return getattr(torch, dtype)
    named = load_config(model).dtype
    if named is not None:
        return named
    folder = Path(resolve(model, weights=False))
    sizes: Counter[str] = Counter()
    with unreadable(f"model '{model}' has no readable weights"):
        for file in sorted(folder.glob("*.safetensors"))[:1]:
            with file.open("rb") as opened:
                length = int.from_bytes(opened.read(8), "little")
                header = json.loads(opened.read(length))
            header.pop("__metadata__", None)
            for tensor in header.values():
                begin, end = tensor["data_offsets"]
                sizes[tensor["dtype"]] += end - begin
    most = sizes.most_common(1)
    short = {"BF16": torch.bfloat16, "F16": torch.float16}
    return short.get(most[0][0], torch.float32) if most else torch.float32


def fetch(
    model: str, read: Callable[..., T], trust_remote_code: bool = False, weights: bool = False
) -> T:
    place = resolve(model, weights=weights)
    # Always passed: where it is left out, transformers would ask the user.
    load = partial(read, place, trust_remote_code=trust_remote_code)
    try:
        with quiet():
            return here_or_from_hub(model, place, load)
    except ValueError as error:
        if "trust_remote_code=True" in str(error):
            raise ModelError(f"model '{model}' cannot be read without more: {OWN_CODE}") from error
        raise


def here_or_from_hub(model: str, place: str, load: Callable[..., T]) -> T:
    try:
        return load(local_files_only=True)
    except OSError as error:
        if Path(place).is_dir() or model in packaged_models():
            raise ModelError(
                f"model '{model}' cannot be read from {place}: {first_line(error)}"
            ) from error
    answer = ask_hub(place, "model")
    if answer.state is not OnHub.THERE:
        raise ModelError(
            f"there is no folder '{model}' here, and {answer.reason}; name a folder, or a model of "
            "the hub"
        )
    try:
        return load()
    except OSError as error:
        raise ModelError(
            f"model '{model}' of the hub cannot be read: {first_line(error)}"
        ) from error


def _context(config: Any) -> int | None:
    return getattr(config.get_text_config(), "max_position_embeddings", None)


def generation_stops(model: str) -> list[int]:
    from transformers import GenerationConfig

    try:
        with unreadable(f"model '{model}' has no usable generation_config.json"):
            end = fetch(model, GenerationConfig.from_pretrained).eos_token_id
    except ModelError as error:
        if isinstance(error.__cause__, OSError):  # it has none
            return []
        raise
    if isinstance(end, list):
        ends = end
    elif end is not None:
        ends = [end]
    else:
        ends = []
    if not all(isinstance(token, int) for token in ends):
        raise ModelError(
            f"model '{model}': generation_config.json: eos_token_id is {end!r}; write token ids"
        )
    return ends


def check_tokens(folder: Path) -> None:
    """Raises ValueError for a folder's tokenizer.json with ids or replacements without bounds."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return
    rules = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    vocabulary = (rules.get("model") or {}).get("vocab")
    ids = list(vocabulary.values()) if isinstance(vocabulary, Mapping) else []
    ids += [token.get("id") for token in rules.get("added_tokens") or []]
    for number in ids:
        if isinstance(number, int) and number > LARGEST_ID:
            raise ValueError(f"a token has the id {number}")
    growth = 1
    for rule in _inner(rules.get("normalizer")):
        if rule.get("type") == "Precompiled" and not is_character_map(rule):
            raise ValueError("its normalizer's character map is damaged")
        growth *= max(1, len(rule.get("content") or ""))
    if growth > MOST_GROWTH:
        raise ValueError(f"its normalizer makes {growth:,} characters of one")


def _inner(rule: Any) -> Iterator[Mapping[str, Any]]:
    """A normalizer and those within it."""
    if isinstance(rule, Mapping):
        yield rule
        for inner in rule.get("normalizers") or ():
            yield from _inner(inner)


def is_character_map(rule: Mapping[str, Any]) -> bool:
    """True if the length of the map's index, which comes first, can be right."""
    content = base64.b64decode(rule.get("precompiled_charsmap") or "")
    return 0 < int.from_bytes(content[:4], "little") <= len(content) - 4
