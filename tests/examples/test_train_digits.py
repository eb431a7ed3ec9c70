"""The training script: its gradients, its order of chances and its weight files are right."""

from __future__ import annotations

import nnef
import numpy as np
import pytest
from examples import train_digits

IMAGES = np.random.default_rng(1).random((6, 1, 8, 8))
DIGITS = np.arange(6)


def fresh_weights() -> train_digits.Weights:
    weights = train_digits.initial_weights(np.random.default_rng(0))
    return {label: values.astype(np.float64) for label, values in weights.items()}


def loss(weights):
    return train_digits.loss_and_gradients(IMAGES, DIGITS, weights)[0]


LEARNED = [label for label in fresh_weights() if not label.endswith(("mean", "variance"))]


@pytest.mark.parametrize("label", LEARNED)
def test_gradient_is_the_slope_of_the_loss(label):
    gradient = train_digits.loss_and_gradients(IMAGES, DIGITS, fresh_weights())[1][label]
    direction = np.random.default_rng(2).standard_normal(gradient.shape)
    ahead, behind = fresh_weights(), fresh_weights()
    step = 1e-6
    ahead[label] += step * direction
    behind[label] -= step * direction
    slope = (loss(ahead) - loss(behind)) / (2 * step)
    assert slope == pytest.approx(float((gradient * direction).sum()), rel=1e-4, abs=1e-8)


def test_every_learned_weight_gets_a_gradient():
    assert sorted(train_digits.loss_and_gradients(IMAGES, DIGITS, fresh_weights())[1]) == sorted(LEARNED)


def test_training_is_deterministic():
    image = np.tile(IMAGES, (12, 1, 1, 1)).astype(np.float32)
    digit = np.tile(DIGITS, 12)
    first, second = (train_digits.train(image, digit, np.random.default_rng(5), epochs=2) for _ in range(2))
    for label, values in first.items():
        np.testing.assert_array_equal(values, second[label])


def test_training_learns_the_images_it_sees(monkeypatch):
    monkeypatch.setattr(train_digits, "REACH", 0.0)
    image = np.tile(IMAGES, (12, 1, 1, 1)).astype(np.float32)
    digit = np.tile(DIGITS, 12)
    weights = train_digits.train(image, digit, np.random.default_rng(5), epochs=80)
    found = train_digits.probabilities(image[:6], weights).argmax(axis=1)
    np.testing.assert_array_equal(found, DIGITS)


def test_zero_shift_keeps_the_image(monkeypatch):
    monkeypatch.setattr(train_digits, "REACH", 0.0)
    np.testing.assert_array_equal(train_digits.shifted(IMAGES, np.random.default_rng(0)), IMAGES)


def test_weight_file_is_read_back_by_the_reference_reader(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    train_digits.write_tensor(tmp_path / "folder" / "w.dat", values)
    with (tmp_path / "folder" / "w.dat").open("rb") as file:
        np.testing.assert_array_equal(nnef.read_tensor(file), values)
