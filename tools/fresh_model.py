"""A language model from nothing: a tokenizer fitted to a corpus, a small random Llama by seed.

    python -m tools.fresh_model --corpus prompts.jsonl --out start --context 2048

The folder is a standard model folder with a chat template, so that a run needs no hub.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError, UserError
from equipoise.prompts import prompt_files
from equipoise.system.command_options import Json, say, show
from equipoise.system.folder import write_folder
from equipoise.system.locks import check_place, check_writable

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, END, ROLES = "<|pad|>", "<|end|>", ("system", "user", "assistant")
SPECIAL = (PAD, END, *(f"<|{role}|>" for role in ROLES))
SMALLEST_VOCABULARY = 256 + len(SPECIAL)
# How byte-level BPE splits a text into words, numbers and marks (GPT-2's expression).
SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEXT_FILES = (".txt", ".md", ".text")


@dataclass(frozen=True, slots=True)
class Size:
    """The shape of a Llama: width, depth, attention heads, width of the feed-forward layers."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int


SIZES = {
    "tiny": Size(128, 4, 4, 384),
    "small": Size(320, 7, 5, 896),
    "medium": Size(512, 12, 8, 1408),
}


def resize(
    size: str, *, hidden: int | None = None, layers: int | None = None, heads: int | None = None
) -> Size:
    """The size of that name with some numbers replaced. Raises ConfigError for an unknown name."""
    if size not in SIZES:
        raise ConfigError(f"size: unknown size '{size}'; {nearest(size, list(SIZES))}")
    base = SIZES[size]
    width = hidden or base.hidden
    feed_forward = base.feed_forward * width // base.hidden
    return Size(width, layers or base.layers, heads or base.heads, feed_forward)


@dataclass(frozen=True, slots=True)
class NewModel:
    """The new model: folder, parameters, tokens of its vocabulary, tokens of the corpus."""

    folder: Path
    parameters: int
    vocabulary: int
    corpus_tokens: int


def fit_tokenizer(
    texts: Sequence[str], vocabulary: int, context: int, pieces: str = "", shrink: bool = False
) -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of exactly `vocabulary` tokens, with the chat template.

    With `shrink`, of fewer where the corpus supports no more. Matches of the regular expression
    `pieces` are cut out first, so that a frequent one can be a single token. Raises ConfigError for
    a vocabulary below the 256 bytes and special tokens, or above the corpus's own.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    if vocabulary < SMALLEST_VOCABULARY:
        raise ConfigError(
            f"vocabulary: {vocabulary} is too small; bytes and special tokens alone are "
            f"{SMALLEST_VOCABULARY}"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if pieces:
        cut = [pieces, rf"\A(?:{pieces})\z|{SPLIT}"]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in cut]
            + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    reached = tokenizer.get_vocab_size()
    if reached < vocabulary and not shrink:
        raise ConfigError(
            f"vocabulary: the corpus supports no more than {reached} tokens, not "
            f"{vocabulary}; choose {reached} or fewer, let it shrink, or give a larger corpus"
        )
    fitted = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[f"<|{role}|>" for role in ROLES],
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )
    fitted.chat_template = TEMPLATE
    return fitted


def new_model(
    texts: Iterable[str],
    out: Path,
    *,
    vocabulary: int = 3000,
    size: Size = SIZES["tiny"],
    context: int = 512,
    seed: int = 0,
    pieces: str = "",
    shrink: bool = False,
) -> NewModel:
    """Fit a tokenizer to `texts`, draw a Llama's weights from `seed`, and save both in `out`.

    `pieces` and `shrink` as for `fit_tokenizer`. Equal arguments give equal files. An empty or
    absent `out` appears whole or not at all. Raises DataError
    for an empty corpus, ConfigError for misfits.
    """
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    texts = [text for text in texts if text.strip()]
    if not texts:
        raise DataError("corpus: no text in it")
    if size.hidden % (2 * size.heads):
        raise ConfigError(
            f"heads: {size.heads} do not divide a hidden width of {size.hidden} into even parts"
        )
    tokenizer = fit_tokenizer(texts, vocabulary, context, pieces, shrink)
    vocabulary = len(tokenizer)
    # Special tokens come first, in their order.
    end, pad = SPECIAL.index(END), SPECIAL.index(PAD)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.feed_forward,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads,
        max_position_embeddings=context,
        tie_word_embeddings=True,
        initializer_range=1 / math.sqrt(size.hidden) / 2,
        bos_token_id=None,
        eos_token_id=end,
        pad_token_id=pad,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(eos_token_id=end, pad_token_id=pad)
    _save(out, model, tokenizer)
    ids = tokenizer(texts, add_special_tokens=False)["input_ids"]
    corpus_tokens = sum(map(len, ids))
    return NewModel(out, model.num_parameters(), vocabulary, corpus_tokens)


def _save(out: Path, *parts: Any) -> None:
    """Write model and tokenizer, whole or not at all but where they join what is there."""
    from equipoise.models.progress import quiet

    def write(folder: Path) -> None:
        with quiet():
            for part in parts:
                part.save_pretrained(folder)

    if out.is_dir() and any(out.iterdir()):
        write(out)
    else:
        write_folder(out, write)


def read_texts(paths: Sequence[str], columns: Sequence[str] = ()) -> Iterator[str]:
    """Every text of the files, in order, but blanks; of rows only `columns`. Raises DataError."""
    for file, part in prompt_files.find(tuple(paths), Path()):
        is_text = file.suffix.lower() in TEXT_FILES
        texts = _lines(file) if is_text else _rows(file, part, columns)
        empty = True
        for text in texts:
            if text.strip():
                empty = False
                yield text
        if empty:
            raise DataError(f"{file}: holds no text; a corpus needs some")


def _lines(file: Path) -> Iterator[str]:
    try:
        yield from file.read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{file}: is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise DataError(f"{file}: cannot be read: {error.strerror or error}") from error


def _rows(file: Path, part: str, columns: Sequence[str]) -> Iterator[str]:
    for where, row in prompt_files.read(file, part):
        for column in columns:
            if not isinstance(row, dict) or column not in row:
                known = [str(key) for key in row] if isinstance(row, dict) else []
                hint = nearest(column, known) if known else "the row has no columns"
                raise DataError(f"{where}: no column '{column}'; {hint}")
        yield from _texts([row[column] for column in columns] if columns else row)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, dict):
        is_message = {"role", "content"} <= value.keys()
        value = [value["content"]] if is_message else list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


# -- the command


def command(
    corpus: Annotated[
        list[str],
        typer.Option(help="a file or pattern: text, JSONL, JSON or Parquet; may be repeated"),
    ],
    out: Annotated[Path, typer.Option(help="the folder to write the model into")],
    size: Annotated[
        str,
        typer.Option(help="tiny (about 1M parameters), small (about 10M) or medium (about 40M)"),
    ] = "tiny",
    vocabulary: Annotated[
        int, typer.Option(help="tokens of the tokenizer, special ones included")
    ] = 3000,
    shrink: Annotated[
        bool, typer.Option("--shrink", help="fewer tokens where the corpus has no more")
    ] = False,
    context: Annotated[
        int, typer.Option(min=16, help="longest text the model can read, in tokens")
    ] = 512,
    hidden: Annotated[
        int | None, typer.Option(min=2, help="width", show_default="the size's")
    ] = None,
    layers: Annotated[
        int | None, typer.Option(min=1, help="depth", show_default="the size's")
    ] = None,
    heads: Annotated[
        int | None, typer.Option(min=1, help="attention heads", show_default="the size's")
    ] = None,
    column: Annotated[
        list[str] | None, typer.Option(help="of rows, read this column only; may be repeated")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="seed of the random weights")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="write into a folder that is not empty")
    ] = False,
    json: Json = False,
) -> None:
    """Make a small untrained model and its tokenizer from a corpus."""
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not overwrite):
        raise ConfigError(
            f"{out}: is not an empty folder; choose another --out, or --overwrite to write into it"
        )
    if overwrite:
        check_writable(out)
    else:
        check_place(out)
    texts = list(read_texts(corpus, column or ()))
    shape = resize(size, hidden=hidden, layers=layers, heads=heads)
    made = new_model(
        texts, out, vocabulary=vocabulary, size=shape, context=context, seed=seed, shrink=shrink
    )
    if json:
        show(asdict(made))
        return
    size_text = f"{made.parameters:,} parameters, {made.vocabulary:,} tokens of vocabulary"
    say(f"{size_text} in {made.folder}")
    say(f"the corpus: {len(texts):,} texts, {made.corpus_tokens:,} tokens")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; a user's mistake is one line, and exit code 2."""
    program = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    program.command()(command)
    try:
        program(args=None if arguments is None else list(arguments), standalone_mode=False)
    except UserError as error:
        say(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
