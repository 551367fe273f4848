"""What models share in a process: opened models, what they say of their progress, mixed adapters,
grammars.
"""

import logging
import os
import warnings
from dataclasses import astuple

import numpy as np
import pytest
import torch

from equipoise.errors import ConfigError, DataError
from equipoise.models import grammar, progress
from equipoise.models.mixed_adapters import MixedAdapters, tuned_layers
from equipoise.models.progress import ProgressReports, following, quiet, report_progress
from equipoise.models.resources import MemoryReplies, Resources, Spending

# -- resources


class Thing:
    """A resource that can be watched, and lends."""

    released = 0

    def release(self):
        self.released += 1


def test_what_is_forgotten_stays_for_those_who_use_it():
    resources, made = Resources(), []

    def make():
        made.append(Thing())
        return made[-1]

    first = resources.get("a", make)
    other = resources.get("b", Thing)
    assert resources.get("a", make) is first
    assert len(made) == 1
    resources.clear(keep=["b"])
    assert first.released == other.released == 1
    assert resources.get("b", make) is other
    assert resources.get("a", make) is first  # somebody has it still
    resources.clear()
    made.clear()
    del first
    again = resources.get("a", make)
    assert made == [again]
    resources.get("number", lambda: 3)
    resources.clear()  # a number cannot be watched
    assert resources.get("number", lambda: 4) == 4


def test_spending_is_added_up_and_told():
    one, two = Spending(1, 20, 0.5, 1, 2, 0.25), Spending(1_000, 2_000, 1.0)
    assert astuple(one + two) == (1_001, 2_020, 1.5, 1, 2, 0.25)
    assert astuple(two.without_answer()) == (1_000, 2_000, 1.0, 1_000, 2_000, 1.0)
    assert two.text() == "1,000 calls, 2,000 tokens, 1 of money"
    assert one.text("EUR") == (
        "1 call, 20 tokens, 0.5 EUR; of these unanswered: 1 call, 2 tokens, 0.25 EUR"
    )
    assert Spending(0, 0).text() == "0 calls, 0 tokens"
    assert Spending(0, 0).text("EUR") == "0 calls, 0 tokens, 0 EUR"


def test_a_request_is_charged_at_most_until_it_is_settled():
    replies = MemoryReplies()
    request = replies.reserve("lab", Spending(1, 70, 0.5))
    assert replies.spent("lab") == Spending(1, 70, 0.5, 1, 70, 0.5)
    other = replies.reserve("else", Spending(1, 7, 0.1))
    replies.settle(request, "lab", Spending(1, 20, 0.25), {"text": "so"}, "key")
    replies.settle(other, "else", Spending(), {"text": "no"})
    assert replies.spent("lab") == Spending(1, 20, 0.25)
    assert replies.spent("else") == Spending()
    assert replies.reply("key") == {"text": "so"}
    assert replies.reply("") is None


# -- progress


def test_rows_are_told_to_the_nearest_who_follows():
    heard, inner = [], []
    report_progress(1)
    with following(heard.append):
        report_progress(2)
        report_progress(0)
        report_progress(-1)
        with following(inner.append):
            report_progress(3)
        report_progress(4)
    report_progress(5)
    assert (heard, inner) == ([2, 4], [3])


def test_a_batch_is_looked_at_twice_a_second(monkeypatch):
    now, looked, heard = [0.0], [], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])

    def rows():
        looked.append(now[0])
        return 2 * now[0]

    telling = ProgressReports()
    now[0] = 0.6
    telling.look(rows)  # nobody follows
    with following(heard.append):
        for now[0] in (0.6, 0.7, 1.0, 1.1, 1.6, 1.7):
            telling.look(rows)
        telling.end(3.0)
        telling.end(5.0)
    assert looked == [0.6, 1.1, 1.6]
    assert heard == pytest.approx([1.2, 1.0, 1.0, 1.8])
    fresh = ProgressReports()
    with following(heard.append):
        fresh.look(rows)
        assert len(looked) == 3, "not at once"


@pytest.mark.parametrize("bars", [True, False])
def test_transformers_is_quiet_for_a_while(bars, capsys):
    from transformers.utils import logging as talk

    before = talk.get_verbosity(), talk.is_progress_bar_enabled()
    try:
        talk.set_verbosity_info()
        (talk.enable_progress_bar if bars else talk.disable_progress_bar)()
        with pytest.raises(KeyError), quiet():
            assert talk.get_verbosity() == logging.ERROR
            assert not talk.is_progress_bar_enabled()
            os.write(2, b"")
            print("shown", file=__import__("sys").stderr)
            raise KeyError
        assert talk.get_verbosity() == logging.INFO
        assert talk.is_progress_bar_enabled() is bars
        with quiet(all_bars=True):
            print("hidden", file=__import__("sys").stderr)
        assert capsys.readouterr().err == "shown\n"
    finally:
        talk.set_verbosity(before[0])
        (talk.enable_progress_bar if before[1] else talk.disable_progress_bar)()


def test_others_bars_and_warnings_are_left_out(monkeypatch):
    names = ("TQDM_DISABLE", "HF_HUB_DISABLE_PROGRESS_BARS", "HF_DATASETS_DISABLE_PROGRESS_BARS")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(names[1], "0")
    progress.no_foreign_bars()
    assert [os.environ[name] for name in names] == ["1", "0", "1"]
    libraries = ("bitsandbytes", "torchao", "torch.utils._pytree")
    levels = {name: logging.getLogger(name).level for name in libraries}
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            progress.ignore_known_warnings()
            warnings.warn("its is_gradient_checkpointing is going", FutureWarning, stacklevel=1)
            warnings.warn("its is_gradient_checkpointing is going", UserWarning, stacklevel=1)
        assert [each.category for each in caught] == [UserWarning]
        assert {logging.getLogger(name).level for name in libraries} == {logging.ERROR}
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


# -- adapters side by side


@pytest.fixture
def tuned():
    """A model of two layers, with an adapter of rank 2 on both, and one of rank 3 on one."""
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 5))
    both = LoraConfig(r=2, lora_alpha=3, target_modules=["0", "2"])
    last = LoraConfig(r=3, lora_alpha=3, target_modules=["2"])
    made = get_peft_model(model, both, "both")
    made.add_adapter("last", last)
    for name, weight in made.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight)
    return made.eval()


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("order", [[0, 1, 2, 1], [0, 0, 1, 1], [2, 2, 2, 2]])
def test_each_row_has_its_own_adapter(tuned, length, order):
    """As PEFT alone computes them, one by one."""
    names = ["both", None, "last"]
    rows_BTI = torch.randn(4, length, 4, generator=torch.Generator().manual_seed(1))
    expected = []
    for row, place in zip(rows_BTI, order, strict=True):
        if names[place] is None:
            with tuned.disable_adapter():
                expected.append(tuned(row))
        else:
            tuned.set_adapter(names[place])
            expected.append(tuned(row))
    mixed = MixedAdapters(tuned, names)
    with torch.no_grad():
        for shift in (0, 1):  # rows that follow have an order of their own
            mixed.set_rows(torch.tensor(order).roll(shift))
            with mixed.applied():
                found = tuned.base_model.model(rows_BTI.roll(shift, 0))
            torch.testing.assert_close(found, torch.stack(expected).roll(shift, 0))
    assert all("forward" not in vars(layer) for layer in tuned_layers(tuned))
    with mixed.applied(), pytest.raises(AssertionError, match="rows have lost their order"):
        tuned.base_model.model(rows_BTI[:2])
    tuned.set_adapter("both")
    torch.testing.assert_close(tuned(rows_BTI[0]), _of(tuned, "both", rows_BTI[0]))


def _of(model, name, row):
    model.set_adapter(name)
    return model(row)


def test_rows_that_lie_together_are_one_piece(tuned):
    mixed = MixedAdapters(tuned, ["both", "last"])
    mixed.set_rows(torch.tensor([0, 1, 1, 1, 0]))
    assert mixed.rows_of(1) == slice(1, 4)
    assert mixed.rows_of(2) is None
    assert mixed.rows_of(0).tolist() == [0, 4]
    own = mixed.own((1, 2), torch.zeros(1, dtype=torch.float64))
    assert own.dtype == torch.float64
    assert own.tolist() == [[1, 0, 0], [0, 1, 1], [0, 1, 1], [0, 1, 1], [1, 0, 0]]
    assert mixed.own((1, 2), own) is own
    mixed.set_rows(torch.tensor([1]))
    assert mixed.own((1, 2), own).tolist() == [[0, 1, 1]]
    assert mixed.rows_of(0) is None


# -- grammars


def test_grammars_need_their_library(monkeypatch):
    monkeypatch.setattr(grammar, "find_spec", lambda name: None)
    said = r"needs llguidance: pip install 'equipoise\[structured\]'"
    for call in (grammar.check_library, lambda: grammar.GrammarCompiler(None, 3, [0])):
        with pytest.raises(ConfigError, match=said):
            call()


def test_the_compilers_own_words_are_kept():
    assert grammar._reason("grammar:\n  a\nerror: no such rule\nerror: else") == (
        "error: no such rule"
    )
    assert grammar._reason("\n first \n second") == "first"
    assert grammar._reason(" \n") == "it cannot be followed"
    assert grammar._reason("x" * 400) == "x" * 300


class Follows:
    """A matcher by hand: these tokens may come, each once; the last one ends it."""

    def __init__(self, tokens):
        self.tokens, self.error = list(tokens), ""

    def compute_logit_bias(self):
        bias = np.zeros(4, np.uint8)
        bias[self.tokens[:1]] = 200
        return bias.tobytes()

    def consume_token(self, token):
        self.error = "" if token in self.tokens else "limit\nerror: too long"
        self.tokens.remove(token) if token in self.tokens else None

    def is_error(self):
        return bool(self.error)

    def get_error(self):
        return self.error

    def is_stopped(self):
        return not self.tokens


def test_what_a_grammar_forbids_is_impossible():
    logits_BV = torch.arange(8.0).reshape(2, 4)
    first = grammar.TokenGrammar(Follows([2, 1]), 4)
    found = grammar.allow_next(logits_BV, [None, first])
    none = -torch.inf
    assert found.tolist() == [[0, 1, 2, 3], [none, none, 6, none]]
    assert grammar.allow_next(logits_BV, [None, None]) is logits_BV
    assert not first.take(2)
    assert first.take(1)
    with pytest.raises(DataError, match=r"^error: too long$"):
        first.take(3)
