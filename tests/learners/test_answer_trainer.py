"""A warm-up wastes no step."""

import torch

from equipoise.learners.answer_trainer import skip_first_step


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
