"""Losses against PyTorch's, targets from the training labels, and labels that are not there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wearjax.errors import ConfigError
from wearjax.objectives import multi_task

NAN = np.nan
BINARY = np.array([0, 0, 0, 1, NAN, 1, 0], float)
ORDINAL = np.array([0, 2, 1, NAN, 3, 0, 0], float)
CLASSES = np.array([2, 2, NAN, 0, 0, 0, 2], float)  # nobody has 1
VALUES = np.array([10.0, 12.0, NAN, 15.0, 11.0, NAN, 30.0])
LABELS = np.stack([BINARY, ORDINAL, CLASSES, VALUES], axis=1)
KINDS = ("binary", "ordinal", "multiclass", "regression")


@pytest.fixture(scope="module")
def targets():
    return [multi_task.target_of(LABELS[:, i], kind) for i, kind in enumerate(KINDS)]


@pytest.fixture(scope="module")
def losses(targets):
    """Loss of each task, and the joint one with its slopes."""

    @jax.jit
    def of(outputs, labels):
        each = multi_task.task_losses(outputs, labels, targets)[0]
        return each, *jax.value_and_grad(lambda out: multi_task.loss(out, labels, targets))(outputs)

    return lambda outputs, labels: of(outputs, jnp.asarray(labels, jnp.float32))


def made_outputs(n, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, width)).astype(np.float32) for width in (2, 3, 3, 1)]


def test_targets(targets):
    binary, ordinal, classes, value = targets
    assert [t.n_classes for t in targets] == [2, 4, 3, 1]
    np.testing.assert_allclose(binary.weights, [6 / (2 * 4), 6 / (2 * 2)])
    np.testing.assert_allclose(ordinal.weights, [3 / 3, 4 / 2, 5 / 1])
    np.testing.assert_allclose(classes.weights, [6 / (3 * 3), 6 / 3, 6 / (3 * 3)])
    known = VALUES[~np.isnan(VALUES)]
    assert (value.mean, value.std) == (pytest.approx(known.mean()), pytest.approx(known.std()))
    assert multi_task.target_of(np.array([3.0, 3.0]), "regression").std == 1.0
    assert multi_task.target_of(np.array([0.0, NAN]), "ordinal").n_classes == 2
    for labels, kind, message in (
        ([NAN], "binary", "no training participant"), ([0, 0.5], "ordinal", "whole numbers"),
        ([0, 2], "binary", "expected 0 and 1"), ([1], "number", "kind 'number'"), ([-1, 0], "ordinal", "from 0 up"),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match=message):
            multi_task.target_of(np.asarray(labels, float), kind)


def test_losses_are_those_of_torch(targets, losses):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    outputs = made_outputs(7)
    found, joint, _ = losses(outputs, LABELS)
    wanted = []
    for i, (out, target) in enumerate(zip(outputs, targets, strict=True)):
        known = ~np.isnan(LABELS[:, i])
        out, label = torch.tensor(out[known]), torch.tensor(LABELS[known, i])
        weights = torch.tensor(target.weights)
        if target.kind in ("binary", "multiclass"):
            loss = functional.cross_entropy(out, label.long(), weight=weights)
        elif target.kind == "ordinal":
            above = (label[:, None] > torch.arange(3)).float()
            loss = functional.binary_cross_entropy_with_logits(out, above, pos_weight=weights)
        else:
            loss = functional.mse_loss(out[:, 0], ((label - target.mean) / target.std).float())
        wanted.append(float(loss))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert float(joint) == pytest.approx(np.mean(wanted), rel=1e-5)


def test_only_tasks_with_a_label_count(losses):
    outputs = made_outputs(7)
    each, _, _ = losses(outputs, LABELS)
    labels = LABELS.copy()
    labels[:, [1, 2]] = NAN
    assert float(losses(outputs, labels)[1]) == pytest.approx((float(each[0]) + float(each[3])) / 2, rel=1e-5)
    _, nothing, slopes = losses(outputs, np.full_like(LABELS, NAN))
    assert float(nothing) == 0.0
    assert all((np.asarray(slope) == 0).all() for slope in slopes)


def test_a_missing_label_reaches_nothing(losses):
    outputs = made_outputs(7)
    _, value, slopes = losses(outputs, LABELS)
    assert np.isfinite(value)
    for i, slope in enumerate(slopes):
        missing = np.isnan(LABELS[:, i])
        assert (np.asarray(slope)[missing] == 0).all()
        assert (np.abs(np.asarray(slope)[~missing]).sum(axis=1) > 0).all()
    unseen, left_out = LABELS.copy(), LABELS.copy()
    unseen[0, 2], left_out[0, 2] = 3.0, NAN  # a class beyond those of training
    assert float(losses(outputs, unseen)[1]) == float(losses(outputs, left_out)[1])


def test_answers(targets):
    outputs = made_outputs(5, seed=2)
    binary, ordinal, classes, value = (
        multi_task.read_out(out, target) for out, target in zip(outputs, targets, strict=True)
    )
    chances = np.exp(outputs[0]) / np.exp(outputs[0]).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(binary, chances[:, 1], rtol=1e-6)
    np.testing.assert_allclose(ordinal, (1 / (1 + np.exp(-outputs[1]))).sum(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(classes, outputs[2].argmax(axis=1))
    np.testing.assert_allclose(value, outputs[3][:, 0] * targets[3].std + targets[3].mean, rtol=1e-6)
