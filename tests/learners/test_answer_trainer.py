"""A warm-up wastes no step."""

from types import SimpleNamespace

import pytest
import torch

from equipoise.errors import ConfigError
from equipoise.learners.answer_trainer import AnswerTrainer, _Events, skip_first_step
from equipoise.models.progress import following


def test_the_first_step_of_a_warm_up_is_not_at_rate_0():
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([weight], lr=2.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, step / 4))
    assert optimizer.param_groups[0]["lr"] == 0
    skip_first_step(scheduler)
    rates = []
    for _ in range(5):
        rates.append(optimizer.param_groups[0]["lr"])
        assert scheduler.get_last_lr() == rates[-1:]
        optimizer.step()
        scheduler.step()
    assert rates == [0.5, 1.0, 1.5, 2.0, 2.0]


@pytest.mark.parametrize("parts", [1, 4])
def test_an_optimizer_step_is_told_once_in_all_its_parts(parts):
    events, heard = _Events(lambda line: None), []
    args, control = (
        SimpleNamespace(gradient_accumulation_steps=parts),
        SimpleNamespace(should_log=False),
    )
    with following(heard.append):
        for step in (1, 2):
            for _ in range(parts - 1):
                events.on_substep_end(args, None, control)
            state = SimpleNamespace(global_step=step, max_steps=2)
            events.on_step_end(args, state, control)
            assert sum(heard) == pytest.approx(step) and control.should_log is (step == 2)
    assert len(heard) == 2 * parts


def test_a_process_that_sees_several_accelerators_is_told_how_to_use_them():
    """Before anything of the model is looked at; two accelerators are stood in for."""
    args = SimpleNamespace(n_gpu=2)
    with pytest.raises(ConfigError, match=r"sees 2 GPUs: .*num_processes: 2"):
        AnswerTrainer(None, args, [], None, pad_id=0, chunk=None, share=False, log=print)
