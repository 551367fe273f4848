"""The family against its golden vectors, against trl, against finite differences, and as one table."""

import dataclasses
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from equipoise.errors import ConfigError
from equipoise.losses.base import PairBatch, PreferenceLoss
from equipoise.losses.opponent_shares import OpponentPool
from equipoise.losses.preference import bernoulli, released_mnpo, residual, sigmoid, squared
from equipoise.solvers.blackwell import criterion_gains, prosper
from equipoise.types import PlayerId

PAST = [PlayerId("policy", generation) for generation in (3, 2, 1, 0)]
PEERS = [PlayerId("bob", 3), PlayerId("carol", 3)]
OUTSIDERS = [PlayerId("old")]
POOL = OpponentPool(PAST, PEERS, OUTSIDERS)
MEMBERS = [
    {"kind": "simpo"},
    {"kind": "cpo"},
    {"kind": "orpo"},
    {"kind": "rdpo"},
    {"kind": "kto"},
    {"kind": "kto", "point": 2.0, "desirable": 1.5},
    {"kind": "dpo"},
    {"kind": "dpo", "reference": "previous", "length": "mean"},
    {"kind": "distill_dpo"},
    {"kind": "ipo"},
    {"kind": "dno"},
    {"kind": "spin"},
    {"kind": "sppo"},
    {"kind": "sppo", "target": "constant"},
    {"kind": "inpo"},
    {"kind": "inpo", "target": "eta"},
    {"kind": "mnpo"},
    {"kind": "mnpo", "weights": [0.6, 0.3, 0.1], "ratio": 0.25},
    {"kind": "mnpo", "target": "reward"},
    {"kind": "mnpo", "target": "probability"},
    {"kind": "mnpo", "distance": "sigmoid"},
    {"kind": "mnpo", "distance": "bernoulli"},
    {"kind": "mnpo", "distance": "bernoulli", "target": "probability", "beta": 1.0},
    {"kind": "mnpo", "against": "peers", "weights": {"bob": 3, "carol": 1}, "ratio": 0.2},
    {"kind": "mnpo", "against": "outsiders"},
    {"kind": "mnpo", "against": {"history": [0.3, 0.1], "peers": 0.3, "reference": 0.2}},
    {"kind": "mnpo", "against": {"outsiders": {"old": 0.5}}, "target": "probability"},
    {"kind": "mnpo", "against": {}},
    {"kind": "optimistic"},
    {"kind": "optimistic", "target": "constant", "ratio": 0.25},
    {"kind": "optimistic", "target": "reward", "likelihood": 0.5},
    {"kind": "extragradient"},
    {"kind": "extragradient", "target": "probability", "ratio": 0.1},
    {"kind": "mnpo_released"},
    {"kind": "mnpo_released", "peers": True, "max_history": 4, "ratio": 0.85},
]


def name(settings):
    """A test's id, of the parameter that is a member's settings."""
    return "-".join(map(str, settings.values())) if "kind" in settings else ""


def make_batch(loss, rows=6, past=PAST, dtype=torch.float64, **changes):
    """Random pairs as `loss` would meet them; its opponents' weights, log-probabilities as sums
    over 3 to 9 tokens.
    """
    weights = [weight for _, weight in loss.opponents(OpponentPool(past, PEERS, OUTSIDERS))]
    dice = torch.Generator().manual_seed(rows)

    def nats(*shape):
        return -20 * torch.rand(*shape, generator=dice, dtype=dtype)

    facts = {
        "policy_chosen_B": nats(rows),
        "policy_rejected_B": nats(rows),
        "opponent_chosen_KB": nats(len(weights), rows),
        "opponent_rejected_KB": nats(len(weights), rows),
        "tokens_chosen_B": torch.randint(3, 10, (rows,), generator=dice),
        "tokens_rejected_B": torch.randint(3, 10, (rows,), generator=dice),
        "score_chosen_B": 0.5 + 0.5 * torch.rand(rows, generator=dice, dtype=dtype),
        "score_rejected_B": 0.5 * torch.rand(rows, generator=dice, dtype=dtype),
        "weight_K": torch.tensor(weights, dtype=dtype),
    }
    return PairBatch(**{**facts, **changes})


# -- the promised functions


def test_residual_is_the_policy_margin_minus_the_weighted_opponents():
    got = residual(
        torch.tensor([1.0, 2.0]), torch.tensor([[4.0, 0.0], [0.0, 8.0]]), torch.tensor([0.25, 0.5])
    )
    assert got.tolist() == [0.0, -2.0]


def test_residual_without_opponents_is_the_policy_margin():
    assert residual(torch.tensor([1.0, 2.0]), torch.zeros(0, 2), torch.zeros(0)).tolist() == [
        1.0,
        2.0,
    ]


def test_residual_refuses_weights_of_another_number():
    with pytest.raises(ConfigError, match="2 opponents but 1 weights"):
        residual(torch.zeros(3), torch.zeros(2, 3), torch.ones(1))


def test_distances():
    margin_B = torch.tensor([-1.0, 0.0, 3.0], dtype=torch.float64)
    assert squared(margin_B, 1.0).tolist() == [4.0, 1.0, 4.0]
    assert squared(margin_B, margin_B).tolist() == [0.0, 0.0, 0.0]
    expected_B = torch.log1p(torch.exp(-0.5 * margin_B))
    torch.testing.assert_close(sigmoid(margin_B, 0.5), expected_B)
    assert torch.isfinite(sigmoid(torch.tensor([-1e4, 1e4]), 1.0)).all()


def test_bernoulli_pulls_to_its_target_and_is_the_sigmoid_where_that_is_infinite():
    """Its gradient is β·(σ(β·residual) − σ(β·target)), by autograd of the formula too."""
    residual_B = torch.linspace(-30, 30, 13, dtype=torch.float64, requires_grad=True)
    p, q = torch.sigmoid(torch.tensor(0.6, dtype=torch.float64)), torch.sigmoid(0.3 * residual_B)
    formula_B = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    loss_B = bernoulli(residual_B, 2.0, 0.3)
    torch.testing.assert_close(loss_B, formula_B)
    (gradient_B,) = torch.autograd.grad(loss_B.sum(), residual_B)
    (expected_B,) = torch.autograd.grad(formula_B.sum(), residual_B)
    torch.testing.assert_close(gradient_B, expected_B)
    torch.testing.assert_close(gradient_B, 0.3 * (q - p).detach())
    infinite_B = bernoulli(residual_B, float("inf"), 0.3)
    torch.testing.assert_close(infinite_B, sigmoid(residual_B, 0.3))
    assert bernoulli(torch.tensor([5.0]), 5.0, 0.1).abs().item() < 1e-6


# -- every member by its paper


def test_every_member_is_its_papers_formula(oracle):
    given = oracle("preference_losses.json")

    def column(pairs, side):
        return torch.tensor([pair[side] for pair in pairs], dtype=torch.float64)

    for case in given["losses"]:
        loss = PreferenceLoss.build(case["settings"])
        opponents = loss.opponents(POOL)
        past = [given["past"][str(player.generation)] for player, _ in opponents]
        none_KB = torch.zeros(0, len(given["policy"]), dtype=torch.float64)
        chosen_KB, rejected_KB = (
            torch.stack([column(pairs, side) for pairs in past]) if past else none_KB
            for side in (0, 1)
        )
        batch = PairBatch(
            column(given["policy"], 0),
            column(given["policy"], 1),
            chosen_KB,
            rejected_KB,
            column(given["tokens"], 0),
            column(given["tokens"], 1),
            column(given["scores"], 0),
            column(given["scores"], 1),
            torch.tensor([weight for _, weight in opponents], dtype=torch.float64),
        )
        expected_B = torch.tensor(case["rows"], dtype=torch.float64)
        message = str(case["settings"])
        torch.testing.assert_close(
            loss.rows(batch), expected_B, msg=lambda m, of=message: f"{of}: {m}"
        )
    kinds = {case["settings"]["kind"] for case in given["losses"]}
    assert kinds == set(PreferenceLoss.KINDS)


def test_what_a_reward_is_worth_and_when_a_pair_is_right():
    """Logged, and learned by nobody; a pair at margin 0 is not yet right."""
    one_B = torch.ones(2, dtype=torch.float64)
    loss = PreferenceLoss.build({"kind": "dpo", "beta": 0.5})
    logged = loss.metrics(
        make_batch(
            loss,
            2,
            policy_chosen_B=torch.tensor([-1.0, -3.0], dtype=torch.float64),
            policy_rejected_B=torch.tensor([-2.0, -3.0], dtype=torch.float64),
            opponent_chosen_KB=-4 * one_B[None],
            opponent_rejected_KB=-4 * one_B[None],
        )
    )
    assert logged["chosen_reward"].tolist() == [1.5, 0.5]
    assert logged["rejected_reward"].tolist() == [1.0, 0.5]
    assert logged["accuracy"].tolist() == [1.0, 0.0]


def test_the_released_member_scales_its_rewards_and_nothing_else():
    settings = {"kind": "mnpo_released", "length": "sum"}
    loss, louder = (PreferenceLoss.build({**settings, "beta": b}) for b in (1.0, 3.0))
    batch = make_batch(loss)
    assert torch.equal(loss.rows(batch), louder.rows(batch))
    for name in ("chosen_reward", "rejected_reward"):
        torch.testing.assert_close(3 * loss.metrics(batch)[name], louder.metrics(batch)[name])


def test_a_history_has_as_many_generations_as_are_set():
    settings = {"kind": "mnpo_released", "weights": [1, 1, 1], "max_history": 2}
    loss = PreferenceLoss.build({**settings, "ratio": 0.2})
    assert [player.generation for player, _ in loss.opponents(POOL)] == [0, 3, 2]


# -- the released loss


def golden_margins(case):
    chosen, rejected = (torch.tensor(case["policy_chosen"]), torch.tensor(case["policy_rejected"]))
    reference = torch.tensor(case["ref_chosen"]) - torch.tensor(case["ref_rejected"])
    history = [
        torch.tensor(h[0]) - torch.tensor(h[1]) for h in case["history"][: case["max_history"]]
    ]
    return (
        chosen - rejected,
        reference,
        torch.stack(history) if history else torch.zeros(0, len(chosen)),
    )


def test_released_loss_equals_the_golden_vectors(golden):
    for case in golden("mnpo_loss.json"):
        shares = {
            "ratio": case["ratio"],
            "weight_K": torch.tensor(case["history_weights"]),
            "eta": case["eta"],
        }
        got_B = released_mnpo(*golden_margins(case), **shares)
        torch.testing.assert_close(got_B, torch.tensor(case["loss"]), rtol=2e-6, atol=1e-4)


def test_released_member_equals_the_golden_vectors_with_its_logged_rewards(golden):
    for case in golden("mnpo_loss.json"):
        weights = (case["history_weights"] + [1.0] * case["max_history"])[: case["max_history"]]
        settings = {
            "ratio": case["ratio"],
            "eta": case["eta"],
            "beta": case["beta"],
            "length": "sum",
        }
        history = case["history"][: case["max_history"]]
        if not history:
            continue  # the history that begins with π_t is never empty
        loss = PreferenceLoss.build(
            {"kind": "mnpo_released", "weights": weights, "max_history": len(history), **settings}
        )
        past = [PlayerId("policy", g) for g in range(len(history), -1, -1)]
        read = [h for h, w in zip(history, weights, strict=False) if w]
        opponents = [[case["ref_chosen"], case["ref_rejected"]], *read]
        batch = make_batch(
            loss,
            len(case["loss"]),
            past,
            torch.float32,
            policy_chosen_B=torch.tensor(case["policy_chosen"]),
            policy_rejected_B=torch.tensor(case["policy_rejected"]),
            opponent_chosen_KB=torch.tensor([chosen for chosen, _ in opponents]),
            opponent_rejected_KB=torch.tensor([rejected for _, rejected in opponents]),
        )
        torch.testing.assert_close(
            loss.rows(batch), torch.tensor(case["loss"]), rtol=2e-6, atol=1e-4
        )
        logged = loss.metrics(batch)
        torch.testing.assert_close(
            logged["chosen_reward"], torch.tensor(case["chosen_rewards"]), rtol=2e-6, atol=1e-4
        )
        torch.testing.assert_close(
            logged["rejected_reward"], torch.tensor(case["rejected_rewards"]), rtol=2e-6, atol=1e-4
        )


def test_released_loss_normalises_over_the_histories_present():
    policy_B, reference_B, history_KB = (
        torch.zeros(1),
        torch.zeros(1),
        torch.tensor([[6.0], [60.0]]),
    )
    shares = {"ratio": 0.0, "eta": 0.5, "weight_K": torch.tensor([1.0, 2.0])}
    assert released_mnpo(policy_B, reference_B, history_KB, **shares).tolist() == [(-42.0 - 1) ** 2]
    assert released_mnpo(policy_B, reference_B, history_KB[:1], **shares).tolist() == [
        (-6.0 - 1) ** 2
    ]
    assert released_mnpo(policy_B, reference_B, history_KB[:0], **shares).tolist() == [1.0]
    # Without a history its share falls away; the reference does not get it.
    halved = {**shares, "ratio": 0.5}
    far_B = torch.tensor([8.0])
    assert released_mnpo(policy_B, far_B, history_KB[:0], **halved).tolist() == [25.0]


def test_released_loss_refuses_missing_and_empty_weights():
    arguments = torch.zeros(2), torch.zeros(2), torch.zeros(2, 2)
    with pytest.raises(ConfigError, match="2 histories but 1 weights"):
        released_mnpo(*arguments, ratio=0.5, weight_K=[1.0], eta=0.1)
    with pytest.raises(ConfigError, match="all 0"):
        released_mnpo(*arguments, ratio=0.5, weight_K=[0.0, 0.0, 1.0], eta=0.1)


@pytest.mark.parametrize("generation", [0, 1, 2, 3])
def test_released_member_has_margin_0_where_nothing_was_learned(generation):
    """At learning rate 0 every generation is π_0."""
    loss = PreferenceLoss.build({"kind": "mnpo_released", "length": "sum"})
    past = [PlayerId("policy", g) for g in range(generation, -1, -1)]
    batch = make_batch(loss, past=past)
    opponents = len(loss.opponents(OpponentPool(past)))
    unmoved = make_batch(
        loss,
        past=past,
        opponent_chosen_KB=batch.policy_chosen_B.expand(opponents, -1),
        opponent_rejected_KB=batch.policy_rejected_B.expand(opponents, -1),
    )
    margin_B = loss.metrics(unmoved)["margin"]
    torch.testing.assert_close(margin_B, torch.zeros_like(margin_B))


# -- trl


def trl_dpo_trainer(loss_type, beta):
    """What `DPOTrainer._compute_loss` reads of its trainer, so that the formulas run without a
    model.
    """
    same = SimpleNamespace(device="cpu", gather=lambda x: x, gather_for_metrics=lambda x: x)
    return SimpleNamespace(
        model=SimpleNamespace(training=False),
        accelerator=same,
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=True,
        f_divergence_type="reverse_kl",
        loss_types=[loss_type],
        loss_weights=[1.0],
        beta=beta,
        label_smoothing=0.0,
        use_weighting=False,
        _metrics=defaultdict(lambda: defaultdict(list)),
        _total_train_tokens=0,
    )


def trl_dpo_loss(loss_type, beta, batch, row):
    """trl's own loss of one pair of `batch`, whose log-probability sums are spread evenly over the
    answers' tokens.
    """
    from trl import DPOTrainer

    tokens = [int(batch.tokens_chosen_B[row]), int(batch.tokens_rejected_B[row])]
    sums = [batch.policy_chosen_B[row], batch.policy_rejected_B[row]]
    mask = torch.zeros(2, 1 + max(tokens), dtype=torch.long)
    logprobs = torch.zeros(2, max(tokens), dtype=torch.float64)
    for i in range(2):
        mask[i, 1 : 1 + tokens[i]] = 1
        logprobs[i, : tokens[i]] = sums[i] / tokens[i]
    blank = torch.zeros_like(logprobs)
    outputs = SimpleNamespace(
        log_probs=logprobs, entropy=blank, mean_logits=blank, is_top1=blank.bool()
    )
    inputs = {
        "input_ids": torch.zeros_like(mask),
        "attention_mask": torch.ones_like(mask),
        "completion_mask": mask,
        "ref_chosen_logps": batch.opponent_chosen_KB[0, row : row + 1],
        "ref_rejected_logps": batch.opponent_rejected_KB[0, row : row + 1],
    }
    return DPOTrainer._compute_loss(
        trl_dpo_trainer(loss_type, beta), lambda **_: outputs, inputs, False
    )


@pytest.mark.parametrize(
    ("settings", "loss_type", "beta"),
    [
        ({"kind": "dpo", "beta": 0.3}, "sigmoid", 0.3),
        ({"kind": "dpo", "beta": 0.3, "length": "mean"}, "sigmoid_norm", 0.3),
        ({"kind": "ipo", "tau": 0.2, "length": "mean"}, "ipo", 0.2),
        ({"kind": "sppo", "eta": 4.0, "target": "constant"}, "sppo_hard", 0.25),
    ],
    ids=str,
)
def test_equals_trl(settings, loss_type, beta):
    pytest.importorskip("trl")
    loss = PreferenceLoss.build(settings)
    batch = make_batch(loss)
    expected_B = torch.stack([trl_dpo_loss(loss_type, beta, batch, row) for row in range(6)])
    torch.testing.assert_close(loss.rows(batch), expected_B)


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "loss_type"),
    [({"kind": "simpo", "beta": 2.5, "gamma": 0.7}, "simpo"), ({"kind": "cpo"}, "sigmoid")],
)
def test_equals_trl_without_reference(settings, loss_type):
    trainer = pytest.importorskip("trl.experimental.cpo").CPOTrainer
    loss = PreferenceLoss.build(settings)
    batch = make_batch(loss)
    simpo = loss_type == "simpo"
    fields = {"alpha": 0.0, "loss_type": loss_type, "beta": loss.beta, "label_smoothing": 0.0}
    fields |= {"simpo_gamma": loss.gamma} if simpo else {}
    chosen_B, rejected_B = batch.policy_chosen_B, batch.policy_rejected_B
    means = chosen_B / batch.tokens_chosen_B, rejected_B / batch.tokens_rejected_B
    itself = SimpleNamespace(accelerator=SimpleNamespace(device="cpu"), **fields)
    expected_B, *rewards = trainer.cpo_loss(itself, *(means if simpo else (chosen_B, rejected_B)))
    likelihood_B = 0.0 if simpo else -loss.likelihood * means[0]
    torch.testing.assert_close(loss.rows(batch), expected_B + likelihood_B)
    torch.testing.assert_close(loss.metrics(batch)["chosen_reward"], rewards[0])
    torch.testing.assert_close(loss.metrics(batch)["rejected_reward"], rewards[1])


def test_orpo_equals_trl():
    """Its odds ratio's part is trl's; the other is the chosen answer's likelihood."""
    trainer = pytest.importorskip("trl.experimental.orpo").ORPOTrainer
    loss = PreferenceLoss.build({"kind": "orpo", "odds_weight": 0.7})
    batch = make_batch(loss)
    means = (
        (batch.policy_chosen_B / batch.tokens_chosen_B).float(),
        (batch.policy_rejected_B / batch.tokens_rejected_B).float(),
    )
    itself = SimpleNamespace(accelerator=SimpleNamespace(device="cpu"), beta=0.7)
    weighted_B, *_ = trainer.odds_ratio_loss(itself, *means)
    torch.testing.assert_close(loss.rows(batch).float(), -means[0] - weighted_B)


def trl_kto_loss(loss, batch, row):
    """trl's own loss of one pair as a desirable and an undesirable example, without its estimate of
    the reference point; the mean of the two.
    """
    from trl.experimental.kto import KTOTrainer

    blank = torch.zeros(2, 1, dtype=torch.float64)
    logprobs = torch.stack([batch.policy_chosen_B[row], batch.policy_rejected_B[row]])
    outputs = SimpleNamespace(log_probs=logprobs[:, None], entropy=blank, mean_logits=blank)
    trainer = trl_dpo_trainer("kto", loss.beta)
    vars(trainer).update(
        loss_type="kto",
        calculate_KL=False,
        desirable_weight=loss.desirable,
        undesirable_weight=loss.undesirable,
        _compute_kl_logps=lambda *_: None,
    )
    reference = [batch.opponent_chosen_KB[0, row], batch.opponent_rejected_KB[0, row]]
    inputs = {
        "label": torch.tensor([True, False]),
        "input_ids": torch.zeros(2, 2, dtype=torch.long),
        "completion_mask": torch.tensor([[0, 1], [0, 1]]),
        "ref_logps": torch.stack(reference),
    }
    return KTOTrainer._compute_loss(trainer, lambda **_: outputs, inputs, False)


def test_kto_equals_trl_without_its_estimate_of_the_reference_point():
    pytest.importorskip("trl.experimental.kto")
    settings = {"kind": "kto", "beta": 0.3, "desirable": 1.5, "undesirable": 0.5}
    loss = PreferenceLoss.build(settings)
    batch = make_batch(loss)
    expected_B = torch.stack([2 * trl_kto_loss(loss, batch, row) for row in range(6)])
    torch.testing.assert_close(loss.rows(batch), expected_B)


def test_kto_moves_by_its_reference_point():
    """At log-ratios of z both halves are ½."""
    loss = PreferenceLoss.build({"kind": "kto", "point": 2.0})
    batch = make_batch(loss)
    moved = make_batch(
        loss,
        opponent_chosen_KB=batch.policy_chosen_B[None] - 2.0,
        opponent_rejected_KB=batch.policy_rejected_B[None] - 2.0,
    )
    torch.testing.assert_close(loss.rows(moved), torch.ones_like(moved.policy_chosen_B))


def test_rdpo_is_dpo_of_a_reward_that_charges_for_tokens():
    """The chosen answer's advantage in length counts as reward that it had already."""
    loss = PreferenceLoss.build({"kind": "rdpo", "beta": 0.2, "alpha": 0.05})
    batch = make_batch(loss)
    same = PreferenceLoss.build({"kind": "rdpo", "beta": 0.2, "alpha": 0.0})
    dpo = PreferenceLoss.build({"kind": "dpo", "beta": 0.2})
    torch.testing.assert_close(same.rows(batch), dpo.rows(batch))
    longer_B = batch.tokens_chosen_B - batch.tokens_rejected_B
    assert (longer_B > 0).any()
    assert (longer_B < 0).any()
    assert torch.equal(loss.rows(batch) < dpo.rows(batch), longer_B > 0)
    expected_B = torch.log1p(torch.exp(-0.2 * dpo.metrics(batch)["margin"] - 0.05 * longer_B))
    torch.testing.assert_close(loss.rows(batch), expected_B)


# -- every member


def test_every_kind_is_listed():
    assert {settings["kind"] for settings in MEMBERS} == set(PreferenceLoss.KINDS)


@pytest.mark.parametrize("settings", MEMBERS, ids=name)
class TestMember:
    def test_rows_are_finite_and_one_a_pair(self, settings):
        loss = PreferenceLoss.build(settings)
        for past in (PAST, PAST[-1:]):
            batch = make_batch(loss, past=past)
            assert loss.rows(batch).shape == (6,)
            for values_B in [loss.rows(batch), *loss.metrics(batch).values()]:
                assert values_B.shape == (6,)
                assert torch.isfinite(values_B).all()

    def test_a_pair_does_not_depend_on_its_neighbours(self, settings):
        loss = PreferenceLoss.build(settings)
        batch = make_batch(loss)
        alone = PairBatch(
            **{
                field: value if field == "weight_K" else value[..., 2:3]
                for field in PairBatch.__dataclass_fields__
                for value in [getattr(batch, field)]
            }
        )
        torch.testing.assert_close(loss.rows(alone), loss.rows(batch)[2:3])

    def test_gradient_equals_finite_differences(self, settings):
        loss = PreferenceLoss.build(settings)
        batch = make_batch(loss)

        def rows(chosen_B, rejected_B):
            return loss.rows(
                make_batch(loss, policy_chosen_B=chosen_B, policy_rejected_B=rejected_B)
            )

        inputs = tuple(
            x.clone().requires_grad_() for x in (batch.policy_chosen_B, batch.policy_rejected_B)
        )
        assert torch.autograd.gradcheck(rows, inputs)

    def test_at_the_opponents_margin_the_chosen_answer_is_pushed_up(self, settings):
        loss = PreferenceLoss.build(settings)
        level_B = torch.full((6,), -7.0, dtype=torch.float64, requires_grad=True)
        tokens_B = torch.full((6,), 5)
        opponent_KB = torch.full((len(loss.opponents(POOL)), 6), -7.0, dtype=torch.float64)
        rejected_B = level_B.detach().clone().requires_grad_()
        batch = make_batch(
            loss,
            policy_chosen_B=level_B,
            policy_rejected_B=rejected_B,
            opponent_chosen_KB=opponent_KB,
            opponent_rejected_KB=opponent_KB,
            tokens_chosen_B=tokens_B,
            tokens_rejected_B=tokens_B,
        )
        loss.rows(batch).sum().backward()
        assert (level_B.grad < 0).all()
        assert (rejected_B.grad > 0).all()
        assert torch.equal(loss.metrics(batch)["margin"], torch.zeros(6, dtype=torch.float64))

    def test_opponents_are_distinct_and_their_weights_add_up_to_one_at_most(self, settings):
        loss = PreferenceLoss.build(settings)
        for past in (PAST, PAST[1:], PAST[-1:]):
            pool = OpponentPool(past, PEERS, OUTSIDERS)
            opponents = loss.opponents(pool)
            assert len({player for player, _ in opponents}) == len(opponents)
            assert {player for player, _ in opponents} <= {*past, *PEERS, *OUTSIDERS}
            total = sum(weight for _, weight in opponents)
            if isinstance(settings.get("against"), dict):
                assert 0 <= total <= 1
            else:
                alone = settings["kind"] in ("simpo", "cpo", "orpo")
                assert total == pytest.approx(0 if alone else 1)
            assert all(weight > 0 for _, weight in loss.scored_against(pool))
            for players in (loss.scored_against(pool), loss.wins_against(pool)):
                assert sum(weight for _, weight in players) == pytest.approx(1)

    def test_settings_survive_a_round_trip_and_unread_ones_are_refused(self, settings):
        loss = PreferenceLoss.build(settings)
        assert PreferenceLoss.build(loss.settings()) == loss
        known = {
            "beta",
            "tau",
            "eta",
            "gamma",
            "ratio",
            "weights",
            "reference",
            "likelihood",
            "odds_weight",
            "alpha",
            "point",
            "target",
            "distance",
        }
        for unread in known - set(type(loss).model_fields):
            with pytest.raises(ValueError, match=f"unknown key '{unread}'"):
                PreferenceLoss.build({**settings, unread: 1})


# -- who the opponents are


@pytest.mark.parametrize(
    ("settings", "opponents", "memory"),
    [
        ({"kind": "simpo"}, {}, 0),
        ({"kind": "orpo"}, {}, 0),
        ({"kind": "rdpo"}, {0: 1.0}, 0),
        ({"kind": "kto", "reference": "previous"}, {3: 1.0}, 1),
        ({"kind": "dpo"}, {0: 1.0}, 0),
        ({"kind": "ipo", "reference": "previous"}, {3: 1.0}, 1),
        ({"kind": "dno"}, {3: 1.0}, 1),
        ({"kind": "sppo"}, {3: 1.0}, 1),
        ({"kind": "inpo", "tau": 0.1, "eta": 0.4}, {0: 0.25, 3: 0.75}, 1),
        ({"kind": "mnpo", "weights": [3, 1]}, {3: 0.75, 2: 0.25}, 2),
        ({"kind": "mnpo", "weights": [2, 1, 1], "ratio": 0.2}, {3: 0.4, 2: 0.2, 1: 0.2, 0: 0.2}, 3),
        ({"kind": "optimistic", "ratio": 0.2}, {0: 0.2, 3: 0.8}, 2),
        ({"kind": "optimistic", "target": "constant"}, {3: 0.5, 2: 0.25, 1: 0.125, 0: 0.125}, 9),
        ({"kind": "optimistic", "target": "reward"}, {3: 0.5, 2: 0.25, 1: 0.125, 0: 0.125}, 9),
        ({"kind": "extragradient", "ratio": 0.2}, {0: 0.2, 2: 0.8}, 2),
        ({"kind": "mnpo_released", "weights": [1, 3], "ratio": 0.2}, {0: 0.2, 3: 0.2, 2: 0.6}, 2),
        ({"kind": "mnpo_released", "ratio": 0.2}, {0: 0.2, 3: 0.4, 2: 0.4}, 2),
        (
            {"kind": "mnpo_released", "weights": "intended", "ratio": 0.2},
            {0: 0.2, 3: 0.2, 2: 0.6},
            2,
        ),
        (
            {"kind": "mnpo_released", "max_history": 4, "ratio": 0.2},
            {0: 0.4, 3: 0.2, 2: 0.2, 1: 0.2},
            4,
        ),
    ],
    ids=str,
)
def test_opponents(settings, opponents, memory):
    loss = PreferenceLoss.build(settings)
    found = {player.generation: weight for player, weight in loss.opponents(POOL)}
    assert found == pytest.approx(opponents)
    assert loss.memory == memory


def test_optimism_is_paid_for_by_what_the_generation_before_was_worth():
    loss = PreferenceLoss.build("optimistic")
    assert loss.wins_against(POOL) == [(PAST[0], 2.0), (PAST[1], -1.0)]
    assert loss.wins_against(OpponentPool(PAST[-1:])) == [(PAST[-1], 1.0)]
    with pytest.raises(ValueError, match="not negative; see loss: optimistic"):
        PreferenceLoss.build({"kind": "mnpo", "against": {"history": [2.0, -1.0]}})
    with pytest.raises(ValueError, match="set counted or bradley_terry"):
        PreferenceLoss.build({"kind": "optimistic", "wins": "judged"})
    (fault,) = loss.faults("pairwise", (0.0, 1.0), compares=True)
    assert "set loss.target: constant" in fault
    constant = PreferenceLoss.build({"kind": "optimistic", "target": "constant"})
    assert list(constant.faults("pairwise", (0.0, 1.0), compares=True)) == []
    long_past = [PlayerId("policy", generation) for generation in range(40, -1, -1)]
    shares = constant.opponents(OpponentPool(long_past))
    assert len(shares) == constant.memory
    assert sum(weight for _, weight in shares) == 1


def test_a_step_behind_a_half_step_begins_where_that_began():
    loss = PreferenceLoss.build("extragradient")
    begins = [loss.init_from(OpponentPool(PAST[k:])).generation for k in range(4)]
    assert begins == [2, 2, 0, 0]
    assert list(loss.faults_of_age(4)) == []
    assert "half step" in next(loss.faults_of_age(3))


def test_how_many_generations_others_need():
    """Two against learners: some of them learn before others do."""
    memories = {
        against: PreferenceLoss.build({"kind": "mnpo", "against": against}).memory
        for against in ("peers", "outsiders")
    }
    assert memories == {"peers": 2, "outsiders": 0}


def test_scores_that_are_read_as_probabilities_must_be_some():
    settings = {"kind": "mnpo", "target": "probability", "wins": "judged"}
    loss = PreferenceLoss.build(settings)
    for limits in ((0.0, 1.0), None):
        assert list(loss.faults("exact", limits)) == []
    for limits in ((0.0, 10.0), (-1.0, 1.0)):
        (fault,) = loss.faults("rubric", limits)
        assert "'rubric' lie between" in fault
        assert "counted or bradley_terry" in fault


@pytest.mark.parametrize("kind", sorted(PreferenceLoss.known_kinds()))
def test_a_loss_says_whether_it_reads_the_size_of_scores(kind):
    """By its value where the better answer's score is another, the order the same."""
    for settings in ({}, {"target": "reward"}, {"target": "probability"}):
        if settings and kind != "mnpo":
            continue
        loss = PreferenceLoss.build({"kind": kind, **settings})
        batch = make_batch(loss)
        other = dataclasses.replace(batch, score_chosen_B=batch.score_chosen_B / 2 + 0.4)
        assert loss.reads_scores != torch.equal(loss.rows(batch), loss.rows(other))


def test_released_peers_stand_behind_the_own_history():
    """As in the released heterogeneous runs; the list is cut at `max_history`."""
    settings = {"kind": "mnpo_released", "peers": True, "max_history": 4, "ratio": 0.85}
    loss = PreferenceLoss.build(settings)
    young = [PlayerId("policy", 1), PlayerId("policy", 0)]
    found = {str(player): w for player, w in loss.opponents(OpponentPool(young, PEERS))}
    share = 0.15 / 4
    expected = {"policy@1": share, "policy@0": 0.85 + share, "bob@3": share, "carol@3": share}
    assert found == pytest.approx(expected)
    assert loss.memory == 4
    assert not {"bob@3", "carol@3"} & {str(player) for player, _ in loss.opponents(POOL)}
    with pytest.raises(ConfigError, match="no peers in this run"):
        loss.opponents(OpponentPool(young))
    assert PreferenceLoss.build({**settings, "max_history": 1}).memory == 2


def test_mnpo_history_shorter_than_its_weights_shares_them_out():
    loss = PreferenceLoss.build({"kind": "mnpo", "weights": [1, 1, 2], "ratio": 0.5})
    assert loss.opponents(OpponentPool(PAST[-2:])) == [
        (PlayerId("policy", 1), 0.25),
        (PlayerId("policy", 0), 0.75),
    ]
    assert loss.opponents(OpponentPool(PAST[-1:])) == [(PlayerId("policy", 0), 1.0)]
    assert loss.scored_against(OpponentPool(PAST[-2:])) == [
        (PlayerId("policy", 1), 0.5),
        (PlayerId("policy", 0), 0.5),
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "mnpo", "weights": []}, "at least 1 item"),
        ({"kind": "mnpo", "weights": [0, 1]}, "the first .* positive"),
        ({"kind": "mnpo", "weights": [1, -1]}, "not negative"),
        ({"kind": "mnpo", "weights": [1, float("inf")]}, "finite"),
        ({"kind": "mnpo", "weights": [0.333, 0.333]}, r"add up to 0.666.*against: {history: …}"),
        (
            {"kind": "mnpo", "against": "peers", "weights": {"bob": 0.3}},
            "add up to 0.3.*against: {peers: …}",
        ),
        ({"kind": "mnpo", "ratio": "1/3"}, "valid number"),
        ({"kind": "mnpo", "beta": 0.1}, "beta is not read with distance: squared"),
        (
            {"kind": "mnpo", "distance": "sigmoid", "eta": 0.1},
            "eta is not read with distance: sigmoid",
        ),
        (
            {"kind": "mnpo", "distance": "bernoulli", "target": None},
            "target is needed with distance: bernoulli",
        ),
        ({"kind": "mnpo", "history_weights": [1]}, "did you mean 'weights'"),
        (
            {"kind": "mnpo_released", "weights": "intended", "max_history": 3},
            "2 for max_history = 3",
        ),
        ({"kind": "mnpo", "against": "past"}, "'history', 'peers' or 'outsiders'"),
        ({"kind": "mnpo", "against": {"past": 0.5}}, "unknown key 'past'; known: history"),
        (
            {"kind": "mnpo", "against": {"history": [0.5, 0.3], "peers": {"bob": 0.4}}},
            r"(?s)against.*the shares add up to 1.2 \(history 0.8, peers 0.4\)",
        ),
        ({"kind": "mnpo", "against": {"history": [0.5, -0.3]}}, "(?s)against.* not negative"),
        ({"kind": "mnpo", "against": {"history": 0.5}, "ratio": 0.2}, "ratio is not read"),
        ({"kind": "mnpo", "against": {"peers": 1}, "weights": [1]}, "weights is not read"),
        ({"kind": "mnpo_released", "weights": [0, 1]}, "the first .* positive"),
        ({"kind": "inpo", "tau": 0.4, "eta": 0.3}, "tau must not exceed eta"),
        ({"kind": "dpo", "reference": "latest"}, "'initial' or 'previous'"),
        ({"kind": "orpo", "length": "sum"}, "'mean'"),
    ],
    ids=str,
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        PreferenceLoss.build(settings)


def test_eta_defaults_to_the_same_step_in_every_target():
    etas = {
        target: PreferenceLoss.build({"kind": "mnpo", "target": target}).eta
        for target in ("constant", "reward")
    }
    assert etas == {"constant": 0.1, "reward": 10.0}


@pytest.mark.parametrize("kind", ["sppo", "mnpo"])
def test_probability_targets_refuse_scores_that_are_no_probabilities(kind):
    loss = PreferenceLoss.build({"kind": kind, "target": "probability"})
    with pytest.raises(ConfigError, match="win probabilities"):
        loss.rows(make_batch(loss, score_chosen_B=torch.full((6,), 3.0)))


def test_others_are_opponents_by_name_or_all_alike():
    alike = PreferenceLoss.build({"kind": "mnpo", "against": "peers", "ratio": 0.2})
    assert alike.opponents(POOL) == [(PEERS[0], 0.4), (PEERS[1], 0.4), (PAST[-1], 0.2)]
    named = PreferenceLoss.build(
        {"kind": "mnpo", "against": "peers", "weights": {"bob": 3, "carol": 1}}
    )
    assert named.scored_against(POOL) == [(PEERS[0], 0.75), (PEERS[1], 0.25)]
    frozen = PreferenceLoss.build({"kind": "mnpo", "against": "outsiders"})
    assert frozen.opponents(POOL) == [(OUTSIDERS[0], 1.0)]
    assert (alike.memory, named.memory, frozen.memory) == (2, 2, 0)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"against": "peers"}, "no peers in this run; let a second player learn"),
        ({"against": "outsiders"}, "no outsiders in this run; add a player"),
        ({"against": "peers", "weights": {"bob": 1.0}}, "none for player 'carol'"),
        (
            {"against": "peers", "weights": {"bob": 0.5, "carol": 0.4, "carl": 0.1}},
            "nobody meets 'carl'; give one for each of bob, carol",
        ),
        ({"against": {"peers": 0.5}}, "no peers in this run; let a second player learn"),
        ({"against": {"outsiders": {"old": 0.5}}}, "no outsiders in this run; add a player"),
    ],
)
def test_opponents_that_are_not_there_are_named(settings, words):
    loss = PreferenceLoss.build({"kind": "mnpo", **settings})
    peers = PEERS if "weights" in settings else []
    with pytest.raises(ConfigError, match=words):
        loss.opponents(OpponentPool(PAST, peers))


@pytest.mark.parametrize(
    ("against", "opponents", "rivals", "memory"),
    [
        ({"history": 0.5}, {"policy@3": 0.5}, {"policy@3": 1.0}, 1),
        (
            {"history": [0.333, 0.333]},
            {"policy@3": 0.333, "policy@2": 0.333},
            {"policy@3": 0.5, "policy@2": 0.5},
            2,
        ),
        ({"history": [0, 0.5]}, {"policy@2": 0.5}, {"policy@2": 1.0}, 2),
        (
            {"history": 0.5, "peers": 0.3, "reference": 0.2},
            {"policy@3": 0.5, "bob@3": 0.15, "carol@3": 0.15, "policy@0": 0.2},
            {"policy@3": 0.625, "bob@3": 0.1875, "carol@3": 0.1875},
            2,
        ),
        (
            {"peers": {"carol": 0.25}, "outsiders": 0.5},
            {"carol@3": 0.25, "old@0": 0.5},
            {"carol@3": 1 / 3, "old@0": 2 / 3},
            2,
        ),
        ({"peers": {"bob": 0.25, "policy": 0.5}}, {"bob@3": 0.25}, {"bob@3": 1.0}, 2),
        ({"reference": 0.4}, {"policy@0": 0.4}, {"policy@3": 1.0}, 0),
        ({}, {}, {"policy@3": 1.0}, 0),
    ],
    ids=str,
)
def test_shares_are_taken_as_written(against, opponents, rivals, memory):
    loss = PreferenceLoss.build({"kind": "mnpo", "against": against})
    weights = {str(player): weight for player, weight in loss.opponents(POOL)}
    assert weights == pytest.approx(opponents)
    assert {str(player): w for player, w in loss.scored_against(POOL)} == pytest.approx(rivals)
    assert loss.memory == memory


def test_shares_of_generations_to_come_are_nobodys():
    loss = PreferenceLoss.build(
        {"kind": "mnpo", "against": {"history": [0.3, 0.3], "reference": 0.2}}
    )
    assert loss.opponents(OpponentPool(PAST[-1:])) == [(PAST[-1], 0.5)]


def test_a_mixture_is_the_weighted_residual():
    """With the shares of the exclusive form, its rows, too."""
    settings = {"kind": "mnpo", "weights": [0.5, 0.5], "ratio": 0.5}
    mixed = {"kind": "mnpo", "against": {"history": [0.25, 0.25], "reference": 0.5}}
    losses = [PreferenceLoss.build(values) for values in (settings, mixed)]
    first, second = (loss.rows(make_batch(loss)) for loss in losses)
    torch.testing.assert_close(first, second)


def test_a_share_of_an_unknown_player_is_refused():
    loss = PreferenceLoss.build({"kind": "mnpo", "against": {"peers": {"dave": 0.5}}})
    with pytest.raises(ConfigError, match=r"'dave'.*bob, carol"):
        loss.opponents(POOL)


def test_kto_learns_an_answer_alone():
    """Of a row with one answer the other's term, and its gradient, are 0; trl's losses of two
    examples add up to the pair's.
    """
    settings = {"kind": "kto", "beta": 0.3, "desirable": 1.5, "undesirable": 0.5}
    for length in ("sum", "mean"):
        loss = PreferenceLoss.build(settings | {"length": length})
        assert loss.reads_single
        assert not PreferenceLoss.build("dpo").reads_single
        whole = make_batch(loss)
        zero_B = torch.zeros_like(whole.policy_chosen_B)
        wanted = dataclasses.replace(
            whole,
            policy_rejected_B=zero_B.clone().requires_grad_(),
            opponent_rejected_KB=zero_B[None],
            tokens_rejected_B=zero_B,
        )
        unwanted = dataclasses.replace(
            whole,
            policy_chosen_B=zero_B.clone().requires_grad_(),
            opponent_chosen_KB=zero_B[None],
            tokens_chosen_B=zero_B,
        )
        torch.testing.assert_close(loss.rows(wanted) + loss.rows(unwanted), loss.rows(whole))
        for batch, absent in ((wanted, "policy_rejected_B"), (unwanted, "policy_chosen_B")):
            (slope_B,) = torch.autograd.grad(loss.rows(batch).sum(), getattr(batch, absent))
            assert not slope_B.any()
        assert not torch.allclose(loss.rows(wanted), loss.rows(unwanted))
        shares = loss.metrics(wanted)
        assert shares["has_chosen"].all()
        assert not shares["has_rejected"].any()


def test_the_regression_of_the_recipe_prosper_rests_where_mirror_ascent_steps():
    win_CAA = np.array(
        [[[0.5, 0.9, 0.2], [0.1, 0.5, 0.6], [0.8, 0.4, 0.5]],
         [[0.5, 0.1, 0.7], [0.9, 0.5, 0.3], [0.3, 0.7, 0.5]]]
    )  # fmt: skip
    start_A = np.array([0.5, 0.2, 0.3])
    beta = 0.1
    moved_A = prosper(
        win_CAA, np.ones(3) / 3, beta=0.2, steps=1, eta=1 / beta, start_A=start_A
    ).last_A
    gain_A = criterion_gains(win_CAA, start_A, np.ones(3) / 3, 0.2)
    loss = PreferenceLoss.build({"kind": "distill_dpo", "reference": "previous", "beta": beta})
    assert loss.opponents(POOL) == [(PAST[0], 1.0)]
    pairs = [(0, 1), (1, 2), (2, 0)]
    better, worse = (torch.tensor(side) for side in zip(*pairs, strict=True))
    policy, before, score = (
        torch.tensor(row) for row in (np.log(moved_A), np.log(start_A), gain_A)
    )
    batch = PairBatch(
        policy_chosen_B=policy[better],
        policy_rejected_B=policy[worse],
        opponent_chosen_KB=before[better][None],
        opponent_rejected_KB=before[worse][None],
        tokens_chosen_B=torch.ones(3),
        tokens_rejected_B=torch.ones(3),
        score_chosen_B=score[better],
        score_rejected_B=score[worse],
        weight_K=torch.ones(1),
    )
    torch.testing.assert_close(loss.rows(batch), torch.zeros(3, dtype=torch.float64))
    other = dataclasses.replace(batch, score_chosen_B=score[better] + 0.1)
    assert (loss.rows(other) > 1e-3).all()
