"""Several runs over one another, from what they measured and by the verb."""

import assistance_run
import numpy as np
import pytest

from equipoise.environments.assistance.comparison import MeasuredRun, compare_runs
from equipoise.environments.assistance.dominance import dominance_table
from equipoise.environments.assistance.measures import AssistanceMeasures
from equipoise.errors import RunError

POINTS = {
    "product": {"p": [0.6, 0.5], "q": [0.2, 0.9], "r": [0.4, 0.4]},
    "user": {"p": [0.7, 0.2], "q": [0.1, 0.8], "r": [0.3, 0.3]},
    "both": {"p": [0.5, 0.4], "q": [0.3, 0.1]},
}


def entry(name):
    facts = assistance_run.measured(4) | {"points": POINTS[name]}
    return MeasuredRun(name, 4, AssistanceMeasures.read(facts), {})


def test_a_cell_is_the_rows_advantage_over_the_column():
    """By hand: at q and r `product` dominates `user`, at p alone it dominates `both`."""
    made = dominance_table([entry(name) for name in POINTS])
    assert made.runs == ("product", "user", "both")
    assert made.prompts == [[3, 3, 2], [3, 3, 2], [2, 2, 2]]
    expected = [[0, 2 / 3, 1 / 2], [0, 0, 0], [0, 0, 0]]
    assert np.allclose(made.dominates, expected)
    # above (.1, .2): .1 × .7 + .4 × .3 + ... by hand: {(.6,.5), (.2,.9)}; {(.7,.2), (.1,.8), (.3,.3)}
    first = 0.1 * 0.7 + 0.4 * 0.3
    second = 0.2 * 0.1
    assert made.hypervolume[0][1] == pytest.approx(first - second)
    for name in ("coverage", "regret", "hypervolume"):
        table_NN = np.array(getattr(made, name))
        assert np.array_equal(table_NN, -table_NN.T)
    pair = compare_runs(entry("product"), entry("both"))
    assert made.coverage[0][2] == pytest.approx(pair.first.coverage - pair.second.coverage)
    assert made.regret[0][2] == pytest.approx(pair.second.regret - pair.first.regret)


def test_runs_that_share_no_prompt_are_refused():
    strange = entry("both")
    facts = assistance_run.measured(4) | {"points": {"z": [0.5, 0.5]}}
    other = MeasuredRun("strange", 4, AssistanceMeasures.read(facts), {})
    with pytest.raises(RunError, match="both and strange share no prompt"):
        dominance_table([strange, other])


@pytest.mark.long
def test_the_verb_prints_a_table_of_each_measure(command, tmp_path):
    assistance_run.write(tmp_path / "a", prompts=8)
    assistance_run.write(tmp_path / "b", prompts=6, ahead=0.125)
    facts = command("assistance", "dominance", "a", "b", "a@0", "--json").facts
    assert facts["generations"] == [4, 4, 0]
    assert facts["dominates"][1][0] == 1
    lines = command("assistance", "dominance", "a", "b", "a@0").out
    for words in ("dominates the column's", "ε-coverage", "regret", "hypervolume", "b@4", "100"):
        assert words in lines, lines
    assert command("assistance", "dominance", "a").code == 2
