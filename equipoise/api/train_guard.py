"""A guard of one's own: a classifier that learns from labelled requests, with a card that says what
it is worth.

    judge: {kind: harm_classifier, model: FOLDER, reads: prompt, unsafe: harmful,
            refusals_are_safe: true}
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import rankdata

from equipoise import seeds
from equipoise.api.fine_tune import check_free
from equipoise.errors import DataError, NoSignal
from equipoise.games.base import Game
from equipoise.judges.base import Judge, JudgeContext
from equipoise.judges.quoting import transcript
from equipoise.models.adapters import resolve
from equipoise.models.embedding import MiniLM
from equipoise.models.progress import quiet, report_progress
from equipoise.models.resources import Resources
from equipoise.payoffs.intervals import Interval, from_standard_error
from equipoise.players.population import Population
from equipoise.prompts.prompt_files import Files
from equipoise.runs.monitor import Monitor, Silent, within
from equipoise.system.folder import write_folder, write_text
from equipoise.types import Prompt

if TYPE_CHECKING:
    import torch

LABELS = ("harmless", "harmful")
CONTEXT = 512  # tokens of a text; the rest is cut
CARD = "guard.json"
LEAST_ROWS = 8  # of either label, in either part


@dataclass(frozen=True)
class GuardCard:
    """The rows of a guard, and its area under the curve on those that it never saw.

    The area is the chance that a harmful text is thought more harmful than a harmless one.
    """

    base: str
    rows: int
    tested: int
    area: float
    low: float
    high: float

    def text(self) -> str:
        """The card in a line."""
        return (
            f"area under the curve {self.area:.3f} ({self.low:.3f} to {self.high:.3f}) on "
            f"{self.tested:,} rows that it never saw; taught on {self.rows:,}"
        )


def train_guard(
    data: str | Sequence[Prompt],
    out: Path,
    *,
    base: str = "minilm",
    epochs: int = 2,
    learning_rate: float = 1e-4,
    seed: int = 0,
    overwrite: bool = False,
    monitor: Monitor | None = None,
) -> GuardCard:
    """Teach a classifier of two labels into the folder `out`, which appears whole or not at all.

    Args: data: rows with the fact `harmful`, or a file of them; base: an encoder or a language
    model to begin with, minilm: the packaged sentence encoder. A fifth of the rows is drawn by
    `seed` and kept for the card. Equal arguments give equal weights.

    Raises RunError where `out` is not free, DataError for rows without labels or too few of one,
    ModelError where there is no base, NoSignal where it learned no numbers.
    """
    check_free(out, overwrite)
    taught, tested = parted(labelled(data), seed)
    place = resolve(MiniLM.model_validate({}).folder() if base == "minilm" else base)
    monitor = monitor or Silent()
    passes = epochs * len(taught)
    monitor.stage("learn", passes)
    cards: list[GuardCard] = []

    def write(draft: Path) -> None:
        teach_classifier(place, taught, draft, seed=seed, epochs=epochs, rate=learning_rate)
        p_harmful = [p for p in harm_of(draft, tested) if p is not None]
        if len(p_harmful) < len(tested):
            raise NoSignal(
                f"{len(tested) - len(p_harmful)} of the rows that were kept for the card got no "
                "number from the classifier; lower the learning rate"
            )
        is_harmful = np.array([bool(row.facts["harmful"]) for row in tested])
        values = np.array(p_harmful)
        area = area_under_curve(values[is_harmful], values[~is_harmful])
        name = Path(place).name
        cards.append(GuardCard(name, len(taught), len(tested), area.mean, area.low, area.high))
        write_text(draft / CARD, json.dumps(asdict(cards[0]), indent=2) + "\n")

    with within(monitor, passes, passes):
        write_folder(out, write)
    return cards[0]


def labelled(data: str | Sequence[Prompt]) -> list[Prompt]:
    """The rows, each with the fact `harmful`, true or false. Raises DataError."""
    rows = list(data) if not isinstance(data, str) else []
    if isinstance(data, str):
        rows = Files.model_validate({"path": data, "held_out": 0}).load().training
    for number, row in enumerate(rows, 1):
        if row.facts.get("harmful") not in (True, False):
            raise DataError(
                f"row {number}: the fact 'harmful' is {row.facts.get('harmful')!r}; a guard learns "
                "from rows that are labelled true or false"
            )
    return [row for row in rows if transcript(row.messages)]


def parted(rows: Sequence[Prompt], seed: int) -> tuple[list[Prompt], list[Prompt]]:
    """(four fifths to learn from, a fifth for the card), drawn. Raises DataError for too few."""
    order = seeds.generator(seed, "guard's card").permutation(len(rows)).tolist()
    count = len(rows) // 5
    parts = [rows[i] for i in order[count:]], [rows[i] for i in order[:count]]
    for part in parts:
        harmful = sum(bool(row.facts["harmful"]) for row in part)
        if min(harmful, len(part) - harmful) < LEAST_ROWS:
            raise DataError(
                f"of {len(rows):,} rows a part of {len(part):,} has {harmful:,} that are harmful; "
                f"each part needs {LEAST_ROWS} or more of either label: give more rows"
            )
    return parts


def teach_classifier(
    base: str, rows: Sequence[Prompt], out: Path, *, seed: int, epochs: int, rate: float
) -> None:
    """Fit a classifier of two labels that begins with a model, and save it with its tokenizer."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    names: dict[str, Any] = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {name: k for k, name in enumerate(LABELS)},
    }
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_pretrained(base, **names)
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id or tokenizer.eos_token_id
    ids = []
    for row in rows:
        text = transcript(row.messages)
        ids.append(torch.tensor(tokenizer.encode(text, truncation=True, max_length=CONTEXT)))
    label_P = torch.tensor([int(row.facts["harmful"]) for row in rows])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # an encoder has dropout
        fit_classifier(model.train(), ids, label_P, seed, epochs=epochs, rate=rate)
    with quiet():
        model.save_pretrained(out)
        tokenizer.save_pretrained(out)


def fit_classifier(
    model: Any,
    ids: Sequence[torch.Tensor],
    label_P: torch.Tensor,
    seed: int,
    *,
    epochs: int = 2,
    size: int = 32,
    rate: float,
) -> None:
    """Cross-entropy by AdamW, a cosine from `rate` to 0; batches of like length within shuffled
    runs of rows.
    """
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import get_cosine_schedule_with_warmup

    dice = seeds.generator(seed, "guard order")
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.1)
    steps = epochs * -(-len(ids) // size)
    schedule = get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
    for _ in range(epochs):
        order = dice.permutation(len(ids)).tolist()
        for start in range(0, len(order), 8 * size):
            run = sorted(order[start : start + 8 * size], key=lambda i: len(ids[i]))
            for place in range(0, len(run), size):
                chosen = run[place : place + size]
                ids_BT = pad_sequence([ids[i] for i in chosen], True, model.config.pad_token_id)
                mask_BT = pad_sequence([torch.ones_like(ids[i]) for i in chosen], True)
                output = model(input_ids=ids_BT, attention_mask=mask_BT, labels=label_P[chosen])
                optimizer.zero_grad()
                output.loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                report_progress(len(chosen))


def harm_of(folder: Path, rows: Sequence[Prompt]) -> list[float | None]:
    """P(harmful) of each text by the judge `harm_classifier`; None without a verdict."""
    resources = Resources()
    population = Population({}, Path(), resources=resources)
    context = JudgeContext(Game.build("answers"), 0, (), {}, resources, population.actor)
    settings = {"kind": "harm_classifier", "model": str(folder), "reads": "prompt"}
    judge: Any = Judge.build({**settings, "unsafe": LABELS[1], "truncate": True}).at(context)
    verdicts = judge.scores([(row, transcript(row.messages)) for row in rows])
    return [None if isinstance(verdict, str) else verdict["p_unsafe"] for verdict in verdicts]


def area_under_curve(harmful_H: np.ndarray, harmless_N: np.ndarray) -> Interval:
    """The chance that one of the first is above one of the second, ties half, with its 95 %
    interval: DeLong's variance, and Wilson's bounds by the smaller of the two groups.

    >>> area_under_curve(np.array([0.9, 0.8, 0.4]), np.array([0.5, 0.1])).mean
    0.8333333333333334
    """
    rank_HN = rankdata(np.concatenate([harmful_H, harmless_N]))
    below_H = (rank_HN[: len(harmful_H)] - rankdata(harmful_H)) / len(harmless_N)
    above_N = 1 - (rank_HN[len(harmful_H) :] - rankdata(harmless_N)) / len(harmful_H)
    spread = below_H.var(ddof=1) / len(harmful_H) + above_N.var(ddof=1) / len(harmless_N)
    fewer = min(len(harmful_H), len(harmless_N))
    area = from_standard_error(float(below_H.mean()), math.sqrt(spread), fewer, share=True)
    return replace(area, n=len(harmful_H) + len(harmless_N))
