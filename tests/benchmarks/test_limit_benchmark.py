"""The benchmark of the machine's limit: what its table says of made figures, and the whole, small."""

import json

import pytest
from rich.console import Console

from benchmarks import limit

RUN = {"tokens": 600, "seconds": 6.0, "before_training": 1.0, "tokens_per_second": 100.0}
OURS = RUN | {"peak_mib": 400, "flops": 480e9, "steps_per_second": 200.0}
MADE = {
    "weights": {"layers": 90e6, "head": 10e6, "embeddings": 0},
    "float32": {
        "products": {
            "training": {"float32": {"1": 1.0, "1024": 100.0}, "bfloat16": {"1024": 80.0}},
            "decoding": {
                "float32": {"1": 10.0, "1024": 50.0},
                "bfloat16": {"1": 20.0, "1024": 50.0},
            },
        },
        "ours": [OURS],
        "trl": [RUN | {"peak_mib": 800, "tokens_per_second": 40.0}],
        "plain": [{"tokens_per_second": 160.0}],
        "scoring": {"seconds": 2.0, "share": 0.8},
        # Of 5 tokens the first, with the reading, takes ours 2 seconds and the others .4.
        "new": 5,
        "decoding": {"1": {"top-p 0.95": {"ours": [2.0, 5 / 2.4, 3.0], "generate": [1.0]}}},
        "reading": {"1": {"top-p 0.95": {"ours": [0.5], "generate": [1.0]}}},
    },
}


def test_each_share_is_of_what_it_is_compared_with():
    console = Console(width=120)
    with console.capture() as shown:
        console.print(limit.table("made", MADE))
    rows = [
        [cell.strip() for cell in line.strip("│").split("│")]
        for line in shown.get().splitlines()
        if line.startswith("│")
    ]
    assert rows == [
        ["products, GFLOP/s", "100 GFLOP/s", "100%"],
        ["plain pass, of products", "160 tokens/s", "96%"],  # 600 MFLOP a token
        ["training, later steps", "200 tokens/s", "125% of plain"],
        ["training, all of it", "120 tokens/s", "75% of plain"],
        ["trl, reference pass in both", "40 tokens/s", "ours 2.5 ×, memory 0.50"],
        ["scoring an opponent", "2.0 s", "125% of plain"],
        ["decoding, 1 rows", "10 tokens/s", "10%, generate 1"],  # of bfloat16's 20 GFLOP/s
    ]


@pytest.mark.slow
def test_the_whole_runs_small(tmp_path):
    file = tmp_path / "limit.json"
    small = "--shapes small --dtypes float32 --pairs 2 --repeats 1 --new 2 --rows 1 --threads 1"
    limit.main([*small.split(), "--json", str(file)])
    figures = json.loads(file.read_text())["figures"]["small"]
    for products in figures["float32"]["products"].values():
        assert set(products) == {"float32", "bfloat16"}
    assert figures["float32"]["ours"][0]["ids"] == figures["float32"]["trl"][0]["ids"]
    assert sum(figures["float32"]["profile"].values()) <= 1
