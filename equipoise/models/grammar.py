"""Answers of a given form, JSON by a schema or a grammar: which tokens may come next.

The optional library llguidance compiles schemas and grammars, and follows each answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch

from equipoise.errors import ConfigError, DataError, first_line

LIBRARY = "llguidance"
# Between the tokens of JSON: a space, or a new line with its indentation; never without end.
WHITESPACE = {"whitespace_pattern": r"(\n {0,16}| )"}


def check_library() -> None:
    """Raises ConfigError where the library is not installed."""
    if find_spec(LIBRARY) is None:
        raise ConfigError("needs llguidance: pip install 'equipoise[structured]'")


class GrammarCompiler:
    """Makes the grammars of one tokenizer's answers."""

    def __init__(self, tokenizer: Any, vocabulary: int, stop_ids: Sequence[int]) -> None:
        """`vocabulary`: the number of the model's logits; an answer ends with one of `stop_ids`.

        Raises ConfigError without the library, DataError for a tokenizer that it cannot read.
        """
        check_library()
        try:
            self._tokenizer = import_module(f"{LIBRARY}.hf").from_tokenizer(
                tokenizer, n_vocab=vocabulary, eos_token=list(stop_ids)
            )
        except ValueError as error:
            raise DataError(f"this model's tokenizer is not supported: {first_line(error)}") from (
                error
            )
        self._vocabulary = vocabulary

    def compile(self, grammar: str, begun_ids: Sequence[int] = ()) -> TokenGrammar:
        """The follower of an answer that begins with `begun_ids`; `grammar`: Lark's notation.

        Raises DataError for a grammar or schema that cannot be followed, or a wrong beginning.
        """
        LLMatcher = import_module(LIBRARY).LLMatcher
        matcher = LLMatcher(
            self._tokenizer, LLMatcher.grammar_from_lark("%llguidance {}\n" + grammar), log_level=0
        )
        if matcher.is_error():
            raise DataError(_reason(matcher.get_error()))
        if matcher.try_consume_tokens(list(begun_ids)) < len(begun_ids):
            raise DataError("the answer's beginning does not have this form")
        return TokenGrammar(matcher, self._vocabulary)


def _reason(error: str) -> str:
    """The compiler's own words without the grammar that it repeats."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith("error:")]
    return (named or lines or ["it cannot be followed"])[0][:300]


class TokenGrammar:
    """An answer's place in its grammar."""

    def __init__(self, matcher: Any, vocabulary: int) -> None:
        self._matcher = matcher
        self._vocabulary = vocabulary

    def allowed(self) -> np.ndarray:
        """True for each token that may come next, [V] of bool."""
        return np.frombuffer(self._matcher.compute_logit_bias(), np.uint8) != 0

    def take(self, token: int) -> bool:
        """Append a token; true where nothing more can come. Raises DataError as a limit is hit."""
        self._matcher.consume_token(token)
        if self._matcher.is_error():
            raise DataError(_reason(self._matcher.get_error()))
        return self._matcher.is_stopped()


def allow_next(logits_BV: torch.Tensor, grammars: Sequence[TokenGrammar | None]) -> torch.Tensor:
    """The logits [B, V], −∞ where a row's grammar does not allow the token."""
    if not any(grammars):
        return logits_BV
    allowed_BV = np.ones(logits_BV.shape, dtype=bool)
    for row, grammar in enumerate(grammars):
        if grammar is not None:
            allowed_BV[row] = grammar.allowed()
    forbidden_BV = torch.from_numpy(~allowed_BV).to(logits_BV.device)
    return logits_BV.masked_fill(forbidden_BV, -torch.inf)
