"""What the published package alpaca-eval makes of made-up annotations: the golden numbers of
`test_length_controlled_win_rates.py`. Run by hand where that package is installed:

    pip install alpaca-eval==0.6.6 patsy scikit-learn
    python -m tests.payoffs.alpaca_eval_oracle

Its regression reads the difficulties of the instructions and the annotations of the gamed baselines
from a data set of the hub; here made-up ones stand in their place.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np

FOLDER = Path(__file__).with_name("alpaca_eval_golden.json")
PROMPTS = 160
CASES = {
    # seed, how much the judge likes length, how much better the model is, discrete
    "long winded": (0, 2.0, -0.5, False),
    "terse and good": (1, 1.0, 0.8, False),
    "verdicts without doubt": (2, 1.5, 0.0, True),
    "length does not matter": (3, 0.0, 0.3, False),
}


@dataclass(frozen=True)
class Case:
    """Annotations of one model, and what the regression knows of prompts and anchors."""

    preference_B: np.ndarray
    length_B: np.ndarray
    baseline_length_B: np.ndarray
    difficulty_B: np.ndarray
    anchor_preference_A: np.ndarray
    anchor_length_A: np.ndarray
    anchor_difficulty_A: np.ndarray


def case(name: str) -> Case:
    """The made-up annotations of a case, the same at every call."""
    seed, taste, skill, discrete = CASES[name]
    dice = np.random.default_rng(seed)
    hard_B = dice.normal(0, 1, PROMPTS)
    baseline_B = dice.integers(200, 3000, PROMPTS)
    length_B = np.maximum(1, baseline_B + dice.integers(-900, 1600, PROMPTS))
    difference_B = length_B - baseline_B

    def wins(length: np.ndarray, better: float) -> np.ndarray:
        logit = better + 0.6 * hard_B + taste * np.tanh(length)
        chance = 1 / (1 + np.exp(-logit - dice.normal(0, 0.5, PROMPTS)))
        if discrete:
            return (dice.random(PROMPTS) < chance).astype(float)
        return np.round(chance, 6)

    preference_B = wins(difference_B / difference_B.std(ddof=1), skill)
    gamed = [dice.normal(shift, 0.4, PROMPTS) for shift in (-1.0, 1.0)]
    return Case(
        preference_B,
        length_B,
        baseline_B,
        hard_B,
        np.concatenate([wins(length, 0.0) for length in gamed]),
        np.concatenate(gamed),
        np.tile(hard_B, 2),
    )


def official(data: Case, form: str) -> dict[str, float]:
    """The package's own figures for a case, in percent."""
    import pandas
    from alpaca_eval.metrics import glm_winrate  # pyright: ignore[reportMissingImports]

    gamed = pandas.DataFrame(
        {
            "model": "gamed",
            "preference": data.anchor_preference_A,
            "index": np.tile(np.arange(PROMPTS), 2),
            # the package takes the baseline's length less the model's
            "std_delta_len": -data.anchor_length_A,
            "instruction_difficulty": data.anchor_difficulty_A,
            "not_gamed_baseline": False,
        }
    )
    annotations = pandas.DataFrame(
        {
            "preference": data.preference_B + 1,
            "index": np.arange(PROMPTS),
            "output_1": ["x" * length for length in data.baseline_length_B],
            "output_2": ["x" * length for length in data.length_B],
            "generator_1": "baseline",
            "generator_2": "model",
            "annotator": "made up",
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "df_gamed.csv"
        gamed.to_csv(path, index=False)
        glm_winrate.hf_hub_download = lambda **_: str(path)
        figures = glm_winrate.get_length_controlled_winrate(
            annotations, form, save_weights_dir=folder, is_warn_extreme_changes=False
        )
        (weights,) = Path(folder, form).glob("*.csv")
        row = pandas.read_csv(weights, index_col=0).loc["model"].tolist()
    names = ("win_rate", "standard_error", "length_controlled_winrate")
    return {
        **{name: float(figures[name]) for name in (*names, "lc_standard_error")},
        "length": -row[0],
        "difficulty": row[1] if len(row) == 3 else 0.0,
        "model": row[-1],
    }


def main() -> None:
    """Write the golden numbers."""
    # The package's first file starts its whole command line; only its metrics are wanted.
    for name in ("dotenv", "pkg_resources"):
        sys.modules.setdefault(name, ModuleType(name))
    sys.modules["dotenv"].load_dotenv = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    forms = ("v1", "noreg", "minimal")
    golden = {
        name: {form: official(case(name), f"length_controlled_{form}") for form in forms}
        for name in CASES
    }
    FOLDER.write_text(json.dumps(golden, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
