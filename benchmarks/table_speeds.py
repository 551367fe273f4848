"""The rows of the tables on what is served, and how fast: from the raw results, one function a
benchmark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.limit import decoding_share, step_speed, training_products, training_speed
from benchmarks.limit import speed as tokens_per_second
from benchmarks.table_rows import RESULTS, Results, Row, percent


def steering(results: Results) -> Row:
    """Clarifying questions, steered and not."""
    figures = results["figures"]
    asked = {arm: percent(said["said"]["CQ"]) for arm, said in figures.items()}
    return Row(
        f"steering what is served, {results['arguments']['prompts']} questions",
        f"clarifying questions {asked['per_token']} where the user pays per token, "
        f"{asked['user_effort']} where being asked costs the user",
        f"the matrix as written: {asked['none']}; with costs that are the same for every "
        f"action {asked['constant llm −2']}",
        "python -m benchmarks.steering",
        results["date"],
    )


def serving(results: Results) -> Row:
    """Replies under load."""
    figures = results["figures"]
    clients, seconds = results["arguments"]["clients"], figures["seconds"]
    return Row(
        f"{clients} clients for {seconds:.0f} s at `equipoise serve`, two cores shared with them",
        f"{figures['answered']:,} replies, {figures['dropped']} dropped, "
        f"{figures['different']} other than the model's answer alone; first byte within "
        f"{np.median(figures['first']):.2f} s for half of them",
        "every reply beside what the model answers alone at the same seed",
        "python -m benchmarks.serving",
        results["date"],
    )


def gtalign_oracle(results: Results) -> Row:
    """GTAlign's released code, run beside ours."""
    figures = results["figures"]
    rewards = figures["rewards"].values()
    others = [
        of for part in ("normalisations", "measures", "steering") for of in figures[part].values()
    ]
    outputs, paid = (sum(of[name] for of in rewards) for name in ("outputs", "paid"))
    rows = sum(of["rows"] for of in rewards)
    differing = sum(value for of in rewards for name, value in of.items() if "recipe" in name)
    differing += sum(of["differences"] for of in others)
    default = sum(of["default"] for of in rewards)
    return Row(
        f"GTAlign's released code run beside ours as released: both rewards and three baselines on "
        f"{outputs:,} made-up outputs to all {rows:,} published rows",
        f"{differing} differences; {sum(of['numbers'] for of in others):,} numbers of its "
        f"normalisations, measures and edits included",
        f"{paid:,} of the outputs are paid; by our default reward {default:,} are paid otherwise",
        results["command"],
        results["date"],
    )


def diversity(results: Results) -> Row:
    """The most texts that were stored."""
    most = max(timing["stored"] for timing in results["figures"])
    last = {t["name"]: t for t in results["figures"] if t["stored"] == most}
    ratios = [f"{name} {timing['direct'] / timing['ours']:,.0f} ×" for name, timing in last.items()]
    differ = max(timing["differ"] for timing in last.values())
    return Row(
        f"64 attacks against {most:,} stored texts, beside the direct computation",
        ", ".join(ratios),
        f"equal to {differ:.0e}",
        "python -m benchmarks.diversity",
        results["date"],
    )


def ledger(results: Results) -> Row:
    """Writing, and `status` on a long run."""
    figures = results["figures"]
    return Row(
        f"ledger; `status` on {figures['total']:,} records",
        f"{figures['ours']:,.0f} records/s; {figures['status']:.1f} s",
        f"{figures['ours'] / figures['bare']:.2f} of bare SQLite",
        f"python -m benchmarks.ledger --records {results['arguments']['records']}",
        results["date"],
    )


def policy_gradient(results: Results) -> Row:
    """GRPO beside trl's, at two shapes."""
    speed, memory = ratios(results["figures"])
    return Row(
        "policy gradients beside trl 1.16's `GRPOTrainer`, CPU, the built-in model (0.7 M "
        "parameters)",
        f"{speed} the samples per second, {memory} the memory",
        f"at SmolLM2's shape: {at_smollm2('policy_gradient')}",
        "python -m benchmarks.policy_gradient speed",
        results["date"],
    )


def preference_training(results: Results) -> Row:
    """DPO beside trl's, at two shapes."""
    figures = results["figures"]
    parameters = figures["runs"]["ours"][0]["parameters"] / 1e6
    speed, memory = ratios(figures)
    other = at_smollm2("preference_training")
    return Row(
        f"preference training beside trl's `DPOTrainer`, CPU, {parameters:.1f} M parameters of which "
        "most are a vocabulary of 32 k",
        f"{speed} the tokens per second, {memory} the memory",
        f"a vocabulary this large makes the logits dear. At SmolLM2's shape: {other}",
        "python -m benchmarks.preference_training",
        results["date"],
    )


def sampling(results: Results) -> Row:
    """Sampling beside raw `generate`, at two shapes."""
    medians = [_median(ways) for ways in results["figures"].values()]
    return Row(
        "sampling beside raw `generate`, CPU, a toy shape",
        f"{min(medians):.1f} to {max(medians):.1f} ×",
        "a toy's head and choice of tokens weigh more than a pretrained model's. At "
        f"SmolLM2's shape: {at_smollm2('sampling')}",
        "python -m benchmarks.sampling",
        results["date"],
    )


def limit(results: Results) -> Row:
    """How near training, scoring and decoding come to the machine's products, at SmolLM2's shape."""
    o, found = results["arguments"], results["figures"]["smollm2"]
    kinds = [found["float32"], found["bfloat16"]]
    plain = [tokens_per_second(kind["plain"]) for kind in kinds]
    steps = [step_speed(kind["ours"]) / rate for kind, rate in zip(kinds, plain, strict=True)]
    training = [
        training_speed(kind["ours"]) / rate for kind, rate in zip(kinds, plain, strict=True)
    ]
    trl = [tokens_per_second(k["ours"]) / tokens_per_second(k["trl"]) for k in kinds]
    decoded = [decoding_share(found, dtype, "64") for dtype in ("float32", "bfloat16")]
    rates = [training_products(found[dtype], dtype) for dtype in ("float32", "bfloat16")]

    def both(values: Sequence[float], form: str) -> str:
        return " and ".join(format(value, form) for value in values)

    return Row(
        f"DPO of {o['pairs']} pairs at SmolLM2's shape, two cores, float32 and bfloat16",
        f"later steps {both(steps, '.0%')} of a plain pass's tokens/s, with loading, first steps, "
        f"check and saving {both(training, '.0%')}; scoring "
        f"{both([1 / kind['scoring']['share'] for kind in kinds], '.0%')}; decoding 64 rows "
        f"{both(decoded, '.0%')} of the products",
        f"trl's: {both(trl, '.1f')} ×; products {both(rates, ',.0f')} GFLOP/s",
        "python -m benchmarks.limit --shapes smollm2 "
        f"--pairs {o['pairs']} --repeats {o['repeats']} --new {o['new']}",
        results["date"],
    )


def at_smollm2(name: str) -> str:
    """The ratios of a row at SmolLM2's shape, from `NAME_smollm2.json`; "" where they were not
    measured.
    """
    file = RESULTS / f"{name}_smollm2.json"
    if not file.is_file():
        return ""
    results = json.loads(file.read_text())
    figures = results["figures"]
    if "speed_ratio" in figures:
        return ", ".join(ratios(figures))
    medians = [_median(ways) for ways in figures.values()]
    return f"{min(medians):.2f} to {max(medians):.2f} ×"


def ratios(figures: Mapping[str, float]) -> tuple[str, str]:
    """Speed and memory as multiples of the peer's."""
    return f"{figures['speed_ratio']:.1f} ×", f"{figures['memory_ratio']:.2f} ×"


def _median(ways: Mapping[str, Sequence[float]]) -> float:
    pairs = zip(ways["ours"], ways["generate"], strict=True)
    return float(np.median([ours / theirs for ours, theirs in pairs]))
