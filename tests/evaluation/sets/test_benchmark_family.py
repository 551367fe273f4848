"""What every kind of benchmark has in common; a new one passes by being listed."""

from __future__ import annotations

import pytest

from equipoise.errors import DataError
from equipoise.evaluation.sets.base import Benchmark
from equipoise.evaluation.sets.published_set import Published

NEEDED = {
    "lm_eval": {"tasks": "arc_easy"},
    "prompts": {"prompts": "prompts.jsonl", "judge": "shorter"},
}
KINDS = sorted(Benchmark.known_kinds())
PUBLISHED = [kind for kind in KINDS if issubclass(Benchmark.find(kind), Published)]


@pytest.mark.parametrize("kind", KINDS)
def test_settings_make_the_same_benchmark_again(kind: str):
    benchmark = Benchmark.build({"kind": kind, **NEEDED.get(kind, {})})
    again = Benchmark.build(benchmark.settings())
    assert again == benchmark
    assert again.digest == benchmark.digest
    assert benchmark.headline
    assert benchmark.part == "test"
    other = Benchmark.build({**benchmark.settings(), "limit": 3, "part": "dev"})
    assert other.digest == benchmark.digest
    assert Benchmark.build({**benchmark.settings(), "seed": 1}).digest != other.digest


@pytest.mark.parametrize("kind", PUBLISHED)
def test_where_the_data_lie_does_not_name_a_result(kind: str):
    first, second = (Benchmark.build({"kind": kind, "path": p}) for p in ("a", "b"))
    assert first.digest == second.digest


@pytest.mark.long
@pytest.mark.parametrize("kind", PUBLISHED)
def test_without_a_hub_the_id_the_setting_and_the_licence_are_named(
    kind: str, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    benchmark = Benchmark.build(kind)
    with pytest.raises(DataError) as raised:
        benchmark.items()
    message = str(raised.value)
    assert message.startswith(f"{kind}: ")
    assert "path" in message
    assert benchmark.licence
    assert benchmark.licence in message
