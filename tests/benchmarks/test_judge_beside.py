"""The benchmark of a judge that is attacked alone, behind a gate and while it learns."""

import json

import numpy as np
import pytest

from benchmarks import judge_beside
from benchmarks.judge_beside import Texts


def texts():
    """Two prompts for labels and two held out; the third action pleases by its second feature, and
    the gate knows it.
    """
    feature_PAF = np.tile([[1.0, 0.0], [-1.0, 0.0], [-1.0, 6.0]], (4, 1, 1))
    true_PA = np.tile([1.0, 0.0, 0.0], (4, 1))
    passes_PA = np.tile([True, True, False], (4, 1))
    return Texts(feature_PAF, true_PA, passes_PA)


def test_a_judge_of_pairs_learns_which_feature_the_labels_follow():
    gap_LF = np.array([[2.0, 0.1], [2.0, -0.1], [2.0, -6.0]])
    weight_F = judge_beside.fitted(gap_LF)
    assert weight_F[0] > 0 > weight_F[1]


def test_the_gate_gives_the_least_score_to_what_does_not_pass():
    weight_F = np.array([1.0, 1.0])
    bare_PA = judge_beside.scores(texts(), weight_F, gated=False)
    gated_PA = judge_beside.scores(texts(), weight_F, gated=True)
    assert bare_PA[0].argmax() == 2
    assert gated_PA[0].tolist() == [bare_PA[0, 0], bare_PA[0, 1], bare_PA.min()]


def test_labels_prefer_the_right_answer_and_need_one_that_is_wrong(monkeypatch):
    monkeypatch.setattr(judge_beside, "PROMPTS", 2)
    dice = np.random.default_rng(0)
    gap_LF = judge_beside.labelled(texts(), np.array([0.5, 0.3, 0.2]), 9, dice)
    assert len(gap_LF) == 9 and (gap_LF[:, 0] == 2).all()
    assert set(gap_LF[:, 1]) == {0.0, -6.0}
    assert not len(judge_beside.labelled(texts(), np.array([1.0, 0, 0]), 9, dice))


def test_a_hole_is_used_alone_and_closed_by_the_gate_and_by_labels_of_its_use(monkeypatch):
    monkeypatch.setattr(judge_beside, "PROMPTS", 2)
    hole_LF = np.array([[2.0, 0.0]] * 3 + [[0.0, 0.5]] * 40)  # labels that never saw the third
    usual = judge_beside.labelled

    def labelled(of, policy_A, count, dice):
        is_first = count == judge_beside.LABELS
        return hole_LF if is_first else usual(of, policy_A, count, dice)

    monkeypatch.setattr(judge_beside, "labelled", labelled)
    truth = {arm: judge_beside.played(texts(), arm, 0)["truth"] for arm in judge_beside.ARMS}
    assert truth["alone"] < 0.01
    assert truth["gated"] > 0.9 and truth["co-trained"] > 0.9 and truth["co-trained, gated"] > 0.9


@pytest.mark.long
def test_the_raw_file_has_a_row_for_each_arm_and_draw(tmp_path, capsys):
    file = tmp_path / "raw.json"
    judge_beside.main(["--seeds=1", f"--json={file}"])
    rows = json.loads(file.read_text())["rows"]
    assert [row["arm"] for row in rows] == list(judge_beside.ARMS)
    assert all(0 <= row["truth"] <= 1 for row in rows)
    assert "| co-trained, gated |" in capsys.readouterr().out
