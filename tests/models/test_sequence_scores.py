"""Numbers of rows of token ids: equal rows once, batches of like length, padding that ends no text;
and what is kept of this machine's speed and memory.
"""

import json
from types import SimpleNamespace

import pytest
import torch
from transformers.modeling_outputs import ModelOutput

from equipoise.errors import ModelError
from equipoise.models import device
from equipoise.models.progress import following
from equipoise.models.sequence_scores import NextToken, SequenceScores, next_tokens, read_once


def test_rows_are_read_once_the_longest_first():
    asked, heard = [], []

    def read(batch):
        asked.append(batch)
        return [sum(row) for row in batch]

    rows = [[1], [2, 3, 4], [1], [5, 6], [7], [8, 9]]
    with following(heard.append):
        assert read_once(rows, 2, read, "it", "batch_size") == [1, 9, 1, 11, 7, 17]
    assert asked == [[(2, 3, 4), (5, 6)], [(8, 9), (1,)], [(7,)]]
    assert heard == [2, 2, 1]
    assert read_once([], 2, read, "it", "batch_size") == []
    assert len(asked) == 3


def test_too_little_memory_names_what_to_lower():
    def read(batch):
        raise torch.OutOfMemoryError("CUDA out of memory.\nmore")

    said = (
        r"^it ran out of memory on 2 texts of up to 3 tokens; lower width or depth "
        r"\(CUDA out of memory\.\)$"
    )
    with pytest.raises(ModelError, match=said):
        read_once([[1], [2, 3, 4], [5]], 2, read, "it", "width or depth")


class Counts(torch.nn.Module):
    """Gives each row the sum of its tokens that are no padding, and their number."""

    device = torch.device("cpu")

    def __init__(self, pad=None, labels=("a", "b"), width=2):
        super().__init__()
        self.config = SimpleNamespace(pad_token_id=pad, id2label=dict(enumerate(labels)))
        self.config.get_text_config = lambda: self.config
        self.width, self.seen = width, []

    def forward(self, input_ids, attention_mask):
        self.seen.append((input_ids.tolist(), self.config.pad_token_id))
        total_B = (input_ids * attention_mask).sum(1)
        value = torch.stack([total_B, attention_mask.sum(1)], 1)[:, : self.width]
        return ModelOutput(logits=value, first=value[:, 0], odd=value[:1], none=None)


def test_numbers_are_those_of_the_row_alone_whatever_is_beside_it():
    model = Counts()
    scores = SequenceScores("it", model)
    rows = [[3, 0], [4, 1, 1], [9]]
    assert scores.values(rows, 2) == [[3, 2], [6, 3], [9, 1]]
    assert model.seen == [([[4, 1, 1], [3, 0, 2]], 2), ([[9]], 0)]
    assert model.config.pad_token_id is None  # as it was
    own = Counts(pad=7)
    SequenceScores("it", own).values(rows[:2], 2)
    assert own.seen == [([[4, 1, 1], [3, 0, 7]], 7)]
    assert own.config.pad_token_id == 7
    assert scores.values(rows, 3, "first") == [[3], [6], [9]]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("score", "has no output 'score'; its outputs are logits, first, odd$"),
        ("none", "has no output 'none'; "),
        ("odd", r"has the output 'odd' of shape \[1, 2\] for 2 texts; it must be \[B, K\]"),
    ],
)
def test_outputs_that_are_none_are_refused(field, said):
    with pytest.raises(ModelError, match=said):
        SequenceScores("it", Counts()).values([[1], [2]], 2, field)


def test_labels_have_names_or_are_counted():
    assert SequenceScores("it", Counts(labels=("fine", "harmful"))).labels == ("fine", "harmful")
    assert SequenceScores("it", Counts(labels=("LABEL_0", "LABEL_1"))).labels is None


class Next(torch.nn.Module):
    """Logits of three tokens at each position, from the token there; `keeps`: of some alone."""

    device = torch.device("cpu")

    def __init__(self, keeps):
        super().__init__()
        self.kept = []
        if not keeps:
            self.forward = self.whole

    def whole(self, input_ids, use_cache):
        token_BT = input_ids.float()
        logits = torch.stack([token_BT, 0 * token_BT, -token_BT], -1)
        return SimpleNamespace(logits=logits)

    def forward(self, input_ids, use_cache, logits_to_keep):
        self.kept.append(logits_to_keep.tolist())
        logits = self.whole(input_ids, use_cache).logits
        return SimpleNamespace(logits=logits[:, logits_to_keep])


@pytest.mark.parametrize("keeps", [True, False])
def test_the_next_token_is_that_behind_each_row(keeps):
    model = Next(keeps)
    found = next_tokens(model, [[9, 1], [2], [5, 5, -3]], [2, 0], 8, 3)
    for row, last in zip(found, (1, 2, -3), strict=True):
        logprobs = torch.log_softmax(torch.tensor([last, 0.0, -last]), 0).tolist()
        assert row.logprobs == pytest.approx((logprobs[2], logprobs[0]))
        assert row.likeliest == (0 if last > 0 else 2)
        assert row.known
        assert row.highest == pytest.approx(max(logprobs))
    assert model.kept == ([[0, 1, 2]] if keeps else [])
    assert not NextToken((), 0, float("nan")).known


def test_whether_bfloat16_is_faster_is_tried_once(monkeypatch, tmp_path):
    """By a clock of the test's own: float32 takes three times as long, then bfloat16 does."""
    monkeypatch.setattr(device, "user_cache", lambda: tmp_path / "cache")
    slow, now, tried = [torch.float32], [0.0], []

    def product(a, b):
        tried.append(a.dtype)
        now[0] += 3.0 if a.dtype is slow[0] else 2.0

    monkeypatch.setattr(torch, "matmul", product)
    monkeypatch.setattr(device.time, "perf_counter", lambda: now[0])
    fresh = device.bfloat16_is_faster.__wrapped__
    assert fresh() is True
    assert tried.count(torch.bfloat16) == tried.count(torch.float32) == 8
    [(key, ratio)] = json.loads((tmp_path / "cache" / "products.json").read_text()).items()
    assert ratio == 1.5
    assert f"torch {torch.__version__}" in key
    slow[0] = torch.bfloat16
    assert fresh() is True and len(tried) == 16, "it is kept"
    (tmp_path / "cache" / "products.json").unlink()
    assert fresh() is False


def test_memory_is_the_machines_or_its_containers(monkeypatch, tmp_path):
    sizes = {"SC_PHYS_PAGES": 1_000, "SC_PAGE_SIZE": 4_096}
    monkeypatch.setattr(device.os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(device, "CONTAINER", tmp_path / "memory.max")
    cpu = torch.device("cpu")
    assert device.machine_memory(cpu) == 4_096_000.0
    for limit, size in (("1000\n", 1_000), ("max", 4_096_000), ("9999999999", 4_096_000)):
        device.CONTAINER.write_text(limit)
        assert device.machine_memory(cpu) == float(size)
    assert device.accelerator_count() == 0


@pytest.mark.long
def test_the_program_takes_what_the_system_says():
    import resource

    taken = device.program_memory()
    assert 1e8 < taken <= 1.05 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("keeps", [True, False])
def test_a_word_of_two_tokens_is_read_in_the_same_pass(keeps):
    model = Next(keeps)
    rows = [[9, 1], [2], [5, 5, -3]]
    read = next_tokens(model, rows, [2, 0], 8, 3, [1, 2])
    plain = next_tokens(Next(keeps), rows, [2, 0], 8, 3)
    for row, alone, last in zip(read, plain, (1, 2, -3), strict=True):
        assert row.logprobs == alone.logprobs  # a later token changes nothing before it
        first = torch.log_softmax(torch.tensor([last, 0.0, -last]), 0)[1]
        second = torch.log_softmax(torch.tensor([1.0, 0.0, -1.0]), 0)[2]  # behind the token 1
        assert row.several == pytest.approx(float(first + second), abs=1e-6)
    assert model.kept == ([[0, 1, 2, 3]] if keeps else [])
