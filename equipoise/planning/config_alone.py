"""Plan players whose folder holds a model's `config.json` and no weights.

So a model can be planned before it is downloaded, or where access to it is still to be granted:
its configuration says how many numbers it has. A player of this sort is planned and cannot play.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.errors import UserError
from equipoise.models.loading import TOKENIZER_FILE, describe, generation_stops, row_length
from equipoise.players.local import Local
from equipoise.runs.config import RunConfig
from equipoise.sampling.engines.remote_engine import sampler_faults

if TYPE_CHECKING:
    from equipoise.models.chat_encoding import Encoding

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*", "*.gguf")
TOKENIZERS = ("tokenizer.json", "tokenizer.model", TOKENIZER_FILE)
# Pieces of a text that stand for a token each: a sign of Chinese, Japanese or Korean, up to five
# letters or three digits with the space before them, or any other sign.
PIECES = (
    r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}]"
    r"| ?\p{L}{1,5}| ?\p{N}{1,3}|\s+| ?[^\s\p{L}\p{N}]"
)


def has_config_alone(model: str) -> bool:
    """True for a folder with a `config.json` and no file of weights, not even a part of them."""
    folder = Path(model).expanduser()
    if not (folder / "config.json").is_file():
        return False
    return not any(file for pattern in WEIGHTS for file in folder.glob(pattern))


class ConfigAlone(Local):
    """A local player on a folder without weights, for planning."""

    @property
    def has_tokenizer(self) -> bool:
        """True if the tokenizer lies beside the configuration."""
        folder = Path(self.model).expanduser()
        return any((folder / name).is_file() for name in TOKENIZERS)

    def faults(self) -> Iterator[str]:
        """Messages about the configuration, the tokenizer, the adapter and the sampler."""
        try:
            encoding = self.encoding()
            if self.has_tokenizer:
                yield from self._thinking_faults(encoding)
            describe(self.model, self.lora)
        except UserError as error:
            yield str(error)
        yield from sampler_faults(self.sampler)

    def lacks_template(self) -> bool:
        return self.has_tokenizer and super().lacks_template()

    def encoding(self) -> Encoding:
        """The model's own encoding, or without a tokenizer one that counts pieces of texts."""
        from equipoise.models.chat_encoding import Encoding

        if self.has_tokenizer:
            return super().encoding()
        return Encoding(
            counting_tokenizer(),
            row_length(self.model, self.max_length),
            self.template,
            self.chat_options,
            generation_stops(self.model),
            max_prompt=self.max_prompt,
            date=self.date,
        )


def counting_tokenizer() -> Any:
    """A tokenizer that gives about as many tokens as a model's own would; all of them are alike."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel({"<piece>": 0, "<end>": 1}, unk_token="<piece>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), "isolated")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<piece>", eos_token="<end>"
    )


def plan_without_weights(config: RunConfig) -> tuple[RunConfig, tuple[str, ...]]:
    """The configuration with its players without weights replaced by planned ones, and what is
    said of them.
    """
    players: dict[str, Any] = {}
    notes: list[str] = []
    for name, player in config.players.items():
        if not isinstance(player, Local) or not has_config_alone(player.model):
            continue
        planned = ConfigAlone.model_construct(**dict(player))
        players[name] = planned
        counted = ""
        if not planned.has_tokenizer:
            counted = (
                "; there is no tokenizer either, so a token is taken for five letters, and the "
                "chat template is not looked at"
            )
        notes.append(
            f"players.{name}: '{player.model}' holds config.json and no weights, which is enough "
            f"for a plan and not for a run{counted}"
        )
    if not players:
        return config, ()
    changed = config.model_copy(update={"players": {**config.players, **players}})
    return changed, tuple(notes)
