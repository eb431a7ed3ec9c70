"""Train the digit classifier that ships with graphport and write it as an NNEF model folder.

    python examples/train_digits.py [--output FOLDER] [--seed N] [--epochs N]

It needs NumPy and scikit-learn, no training framework: each layer below is a function that returns its
result together with the function that turns the result's gradient into the gradients of its arguments.

The network, for 8x8 grey images with values in [0, 1]:

    conv 3x3 (16), batch norm, relu
    conv 3x3 (32), batch norm, relu, max pool 2x2
    conv 3x3 (32), batch norm, + what went in, relu
    conv 1x1 (16) with bias, relu, average pool 2x2, flatten
    linear (10) with bias, softmax

The folder receives `graph.nnef` (NNEF 1.0, final edition), a `.dat` file for each variable, `test.npz` with the
held-out images (`image`) and their labels (`digit`), `image.npz` with the first of these images alone, and a README.
The same seed gives the same files as long as NumPy, its linear algebra library and the kind of processor stay the
same; training uses one thread, because the number of threads decides the order of sums.
"""

from __future__ import annotations

import argparse
import math
import struct
import time
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

Array: TypeAlias = NDArray[np.floating[Any]]
Digits: TypeAlias = NDArray[np.int64]
Backward: TypeAlias = Callable[[Array], Array]
Weights: TypeAlias = dict[str, Array]
"""Arrays by their NNEF label, in the shapes that the file has."""

CLASSES = 10
TEST_IMAGES = 360
EPSILON = 1e-5
MOMENTUM = 0.95
"""How much of the old running mean and variance stays in each training step."""

EPOCHS = 60
BATCH = 64
LEARNING_RATE = 4e-3
LABEL_SMOOTHING = 0.05
WEIGHT_DECAY = 1e-2
REACH = 1.0
"""How many pixels a training image is shifted at most, in each direction."""

DEFAULT_OUTPUT = Path(__file__).resolve().parents[1] / "src" / "graphport" / "examples" / "digits"


# Layers


def conv(x: Array, kernel: Array) -> tuple[Array, Callable[[Array], tuple[Array, Array]]]:
    """Convolution with stride 1 and zeros around, so that the extents stay; the kernel's are odd.

    Shapes: x [n, c, h, w]; kernel [o, c, k, k]; result [n, o, h, w].  The gradients are those of x and kernel.
    """
    n, c, h, w = x.shape
    o, _, k, _ = kernel.shape
    pad = k // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = sliding_window_view(padded, (k, k), axis=(2, 3))
    columns = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * w, c * k * k)
    y = (columns @ kernel.reshape(o, -1).T).reshape(n, h, w, o).transpose(0, 3, 1, 2)

    def backward(dy: Array) -> tuple[Array, Array]:
        rows = dy.transpose(0, 2, 3, 1).reshape(n * h * w, o)
        # The gradient of x is dy convolved with the kernel turned by 180 degrees, inputs and outputs swapped.
        turned = kernel[:, :, ::-1, ::-1].transpose(1, 0, 2, 3)
        return conv(dy, turned)[0], (rows.T @ columns).reshape(kernel.shape)

    return y, backward


def per_channel(x: Array) -> Array:
    """Turn [1, c], which NNEF lines up with the leading dimensions, into [1, c, 1, 1] for NumPy."""
    return x[:, :, np.newaxis, np.newaxis]


def batch_norm(x: Array, weights: Weights, label: str, gradients: Weights | None) -> tuple[Array, Backward]:
    """Batch normalization: with the batch's own statistics in training, else with the running ones.

    In training (`gradients` is given) the running statistics move on, and `backward` fills in `gradients`;
    `backward` is right in training only.
    """
    scale, offset = weights[f"{label}/scale"], weights[f"{label}/offset"]
    if gradients is None:
        mean, variance = weights[f"{label}/mean"], weights[f"{label}/variance"]
    else:
        mean, variance = x.mean(axis=(0, 2, 3))[np.newaxis], x.var(axis=(0, 2, 3))[np.newaxis]
        for name, now in (("mean", mean), ("variance", variance)):
            running = weights[f"{label}/{name}"]
            running += (1 - MOMENTUM) * (now - running)
    deviation = np.sqrt(variance + x.dtype.type(EPSILON))
    normal = (x - per_channel(mean)) / per_channel(deviation)
    y = per_channel(scale) * normal + per_channel(offset)

    def backward(dy: Array) -> Array:
        d_scale = (dy * normal).sum(axis=(0, 2, 3))[np.newaxis]
        d_offset = dy.sum(axis=(0, 2, 3))[np.newaxis]
        if gradients is not None:
            gradients[f"{label}/scale"], gradients[f"{label}/offset"] = d_scale, d_offset
        count = dy.size // dy.shape[1]
        centred = dy - per_channel(d_offset) / count - normal * per_channel(d_scale) / count
        return per_channel(scale / deviation) * centred

    return y, backward


def relu(x: Array) -> tuple[Array, Backward]:
    """`x` where positive, else 0."""
    return np.maximum(x, 0), lambda dy: dy * (x > 0)


def quarters(x: Array) -> Array:
    """View of the 2x2 cells of an image.  Shapes: x [n, c, h, w]; result [n, c, h/2, 2, w/2, 2]."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2)


def max_pool(x: Array) -> tuple[Array, Backward]:
    """Largest of each 2x2 cell; where several are largest, they share the gradient."""
    cells = quarters(x)
    largest = cells.max(axis=(3, 5), keepdims=True)

    def backward(dy: Array) -> Array:
        winners = (cells == largest).astype(x.dtype)
        share = winners / winners.sum(axis=(3, 5), keepdims=True)
        return (share * dy[:, :, :, np.newaxis, :, np.newaxis]).reshape(x.shape)

    return largest[:, :, :, 0, :, 0], backward


def avg_pool(x: Array) -> tuple[Array, Backward]:
    """Mean of each 2x2 cell."""
    return quarters(x).mean(axis=(3, 5)), lambda dy: np.repeat(np.repeat(dy / 4, 2, axis=2), 2, axis=3)


def softmax(x: Array) -> Array:
    """Exponentials of each row, scaled to the sum 1."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


# The network


def initial_weights(random: np.random.Generator) -> Weights:
    """Untrained weights: normal with deviation sqrt(2 / fan-in), which keeps the size of what passes a relu."""
    weights: Weights = {}
    for index, (inputs, outputs) in enumerate(((1, 16), (16, 32), (32, 32)), start=1):
        weights[f"conv{index}/filter"] = normal(random, (outputs, inputs, 3, 3))
        for name, value in (("mean", 0), ("variance", 1), ("offset", 0), ("scale", 1)):
            weights[f"norm{index}/{name}"] = np.full((1, outputs), value, np.float32)
    weights["project/filter"] = normal(random, (16, 32, 1, 1))
    weights["project/bias"] = np.zeros((1, 16), np.float32)
    weights["classify/filter"] = normal(random, (CLASSES, 64))
    weights["classify/bias"] = np.zeros((1, CLASSES), np.float32)
    return weights


def normal(random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Random array of float32 for a layer whose outputs are the first dimension."""
    fan_in = np.prod(shape[1:])
    return (random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)


def conv_norm(x: Array, weights: Weights, index: int, gradients: Weights | None) -> tuple[Array, Backward]:
    """Convolution and batch normalization number `index`."""
    label = f"conv{index}/filter"
    y, conv_backward = conv(x, weights[label])
    y, norm_backward = batch_norm(y, weights, f"norm{index}", gradients)

    def backward(dy: Array) -> Array:
        dx, d_kernel = conv_backward(norm_backward(dy))
        if gradients is not None:
            gradients[label] = d_kernel
        return dx

    return y, backward


def body(image: Array, weights: Weights, gradients: Weights | None) -> tuple[Array, Backward]:
    """Features of an image, up to the 1x1 convolution.  Shapes: image [n, 1, 8, 8]; result [n, 32, 4, 4]."""
    y, back1 = conv_norm(image, weights, 1, gradients)
    y, back2 = relu(y)
    y, back3 = conv_norm(y, weights, 2, gradients)
    y, back4 = relu(y)
    pooled, back5 = max_pool(y)
    y, back6 = conv_norm(pooled, weights, 3, gradients)
    y, back7 = relu(pooled + y)

    def backward(dy: Array) -> Array:
        d_sum = back7(dy)
        return back1(back2(back3(back4(back5(d_sum + back6(d_sum))))))

    return y, backward


def head(features: Array, weights: Weights, gradients: Weights | None) -> tuple[Array, Backward]:
    """Scores of the ten digits before the softmax.  Shapes: features [n, 32, 4, 4]; result [n, 10]."""
    y, project_backward = conv(features, weights["project/filter"])
    y, relu_backward = relu(y + per_channel(weights["project/bias"]))
    y, pool_backward = avg_pool(y)
    flat = y.reshape(len(y), -1)
    scores = flat @ weights["classify/filter"].T + weights["classify/bias"]

    def backward(dy: Array) -> Array:
        d_pooled = (dy @ weights["classify/filter"]).reshape(y.shape)
        d_projected = relu_backward(pool_backward(d_pooled))
        d_features, d_kernel = project_backward(d_projected)
        if gradients is not None:
            gradients["classify/filter"] = dy.T @ flat
            gradients["classify/bias"] = dy.sum(axis=0, keepdims=True)
            gradients["project/filter"] = d_kernel
            gradients["project/bias"] = d_projected.sum(axis=(0, 2, 3))[np.newaxis]
        return d_features

    return scores, backward


def probabilities(image: Array, weights: Weights) -> Array:
    """Run the trained network.  Shapes: image [n, 1, 8, 8] with values in [0, 1]; result [n, 10], rows sum to 1."""
    return softmax(head(body(image, weights, None)[0], weights, None)[0])


def loss_and_gradients(image: Array, digit: Digits, weights: Weights) -> tuple[float, Weights]:
    """Mean cross entropy of a batch against smoothed labels, and its gradient for each learned weight.

    Moves the running statistics in `weights` on.
    """
    gradients: Weights = {}
    features, body_backward = body(image, weights, gradients)
    scores, head_backward = head(features, weights, gradients)
    predicted = softmax(scores)
    target = np.full_like(predicted, LABEL_SMOOTHING / CLASSES)
    target[np.arange(len(digit)), digit] += 1 - LABEL_SMOOTHING
    body_backward(head_backward((predicted - target) / len(digit)))
    return -float((target * np.log(predicted)).sum()) / len(digit), gradients


# Training


def load_images() -> tuple[Array, Digits]:
    """All images, [1797, 1, 8, 8] with values in [0, 1], and the digits they show."""
    from sklearn.datasets import load_digits

    pixels, digits = cast("tuple[Array, Digits]", load_digits(return_X_y=True))
    return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), digits.astype(np.int64)


def shifted(image: Array, random: np.random.Generator) -> Array:
    """Each image moved by up to `REACH` pixels down and across, linearly interpolated, zeros coming in."""
    place = np.arange(image.shape[2])
    distance = random.uniform(-REACH, REACH, (len(image), 2, 1, 1))
    mix = np.maximum(0, 1 - np.abs(place[:, np.newaxis] + distance - place)).astype(image.dtype)
    moved = mix[:, 0] @ image[:, 0] @ mix[:, 1].transpose(0, 2, 1)
    return moved[:, np.newaxis]


def update(weights: Weights, gradients: Weights, moments: Weights, step: int, rate: float) -> None:
    """One step of Adam with decoupled weight decay (Loshchilov and Hutter 2019); `step` counts from 1."""
    for label, gradient in gradients.items():
        first = moments.setdefault(f"{label}/first", np.zeros_like(gradient))
        second = moments.setdefault(f"{label}/second", np.zeros_like(gradient))
        first += 0.1 * (gradient - first)
        second += 0.001 * (gradient * gradient - second)
        direction = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.999**step)) + 1e-8)
        weights[label] -= rate * (direction + WEIGHT_DECAY * weights[label])


def train(image: Array, digit: Digits, random: np.random.Generator, epochs: int) -> Weights:
    """Weights after `epochs` rounds over the images; the learning rate falls along half a cosine."""
    weights, moments = initial_weights(random), Weights()
    steps = len(image) // BATCH
    for epoch in range(epochs):
        order = random.permutation(len(image))
        losses: list[float] = []
        for batch in np.split(order[: steps * BATCH], steps):
            loss, gradients = loss_and_gradients(shifted(image[batch], random), digit[batch], weights)
            losses.append(loss)
            step = epoch * steps + len(losses)
            rate = LEARNING_RATE * (1 + math.cos(math.pi * step / (epochs * steps))) / 2
            update(weights, gradients, moments, step, rate)
        if (epoch + 1) % 10 == 0:
            print(f"epoch {epoch + 1:3}  loss {np.mean(losses):.4f}")
    return weights


# The model folder

GRAPH = Template("""\
# Which digit does an 8x8 grey image show?
# Made by examples/train_digits.py of graphport; see README.md beside this file.

version 1.0;

graph digits(image) -> (probability)
{
    # One image of one channel; 0 is paper, 1 is ink.
    image = external(shape = [1, 1, 8, 8]);

    # 16 features of 3x3 neighbourhoods.
$block1
    conv1 = conv(image, conv1_filter, padding = [(1, 1), (1, 1)]);
    norm1 = batch_normalization(conv1, norm1_mean, norm1_variance, norm1_offset, norm1_scale, epsilon = $epsilon);
    relu1 = relu(norm1);

    # 32 features of features; the largest of each 2x2 cell goes on.
$block2
    conv2 = conv(relu1, conv2_filter, padding = [(1, 1), (1, 1)]);
    norm2 = batch_normalization(conv2, norm2_mean, norm2_variance, norm2_offset, norm2_scale, epsilon = $epsilon);
    relu2 = relu(norm2);
    pool2 = max_pool(relu2, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);

    # A residual block: what the convolution finds is added to what it saw.
$block3
    conv3 = conv(pool2, conv3_filter, padding = [(1, 1), (1, 1)]);
    norm3 = batch_normalization(conv3, norm3_mean, norm3_variance, norm3_offset, norm3_scale, epsilon = $epsilon);
    sum3 = add(pool2, norm3);
    relu3 = relu(sum3);

    # Down to 16 channels and 2x2 cells, then one row of 64 numbers.
$project
    project = conv(relu3, project_filter, project_bias, padding = [(0, 0), (0, 0)]);
    relu4 = relu(project);
    pool4 = avg_pool(relu4, size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (0, 0), (0, 0)]);
    flat = reshape(pool4, shape = [0, -1]);

    # One score a digit, turned into probabilities.
$classify
    score = linear(flat, classify_filter, classify_bias);
    probability = softmax(score, axes = [1]);
}
""")

BLOCKS = {
    "block1": ("conv1", "norm1"),
    "block2": ("conv2", "norm2"),
    "block3": ("conv3", "norm3"),
    "project": ("project",),
    "classify": ("classify",),
}
"""Places in `GRAPH` that receive the declarations of variables, and the label folders of these."""

README = Template("""\
# The digit classifier

A small trained convolutional network in NNEF 1.0 (final edition): $parameters parameters, one 8x8 grey image in,
the probabilities of the digits 0 to 9 out. `python examples/train_digits.py` in a checkout of graphport makes this
folder anew, with NumPy and scikit-learn alone.

| file | holds |
|---|---|
| `graph.nnef` | the network |
| `conv1/` ... `classify/` | its weights, float32, a file for each variable |
| `test.npz` | $count held-out images (`image`, float32 [$count, 1, 8, 8], 0 to 1) and their labels (`digit`, int64) |
| `image.npz` | the first of these images alone (`image`, float32 [1, 1, 8, 8]), ready to be fed to the network |

It labels $accuracy % of the held-out images rightly ($right of $count). They were drawn at random, so the people
who wrote them also wrote training images; digits of a stranger will come out somewhat worse.

## Licence

The weights, the network and this text are part of graphport and under its licence, Apache-2.0.

The images in `test.npz` and `image.npz` are a selection, scaled from 0..16 to 0..1, of *Optical Recognition of
Handwritten Digits* by E. Alpaydin and C. Kaynak (1998), UCI Machine Learning Repository,
<https://doi.org/10.24432/C50P49>, which the repository publishes under CC BY 4.0
(<https://creativecommons.org/licenses/by/4.0/>). They were taken from scikit-learn (BSD-3-Clause), whose
`load_digits` holds a copy of the test set.
""")


def write_tensor(path: Path, values: Array) -> None:
    """Write a `.dat` file of NNEF 1.0: a header of 128 bytes, then the items in row-major order."""
    items = np.ascontiguousarray(values, "<f4").tobytes()
    extents = values.shape + (0,) * (8 - values.ndim)
    bits, item_type = 32, 0  # float32
    header = struct.pack("<4B I I 8I I I 76x", 0x4E, 0xEF, 1, 0, len(items), values.ndim, *extents, bits, item_type)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + items)


def graph_text(weights: Weights) -> str:
    """Text of `graph.nnef`: `GRAPH` with the variables in it."""
    declarations = {
        place: "\n".join(
            f"    {label.replace('/', '_')} = variable(shape = {list(values.shape)}, label = '{label}');"
            for label, values in weights.items()
            if label.split("/")[0] in folders
        )
        for place, folders in BLOCKS.items()
    }
    return GRAPH.substitute(declarations, epsilon=f"{EPSILON:.5f}")


def write_model(folder: Path, weights: Weights, image: Array, digit: Digits) -> None:
    """Write the model folder with `image` and `digit` as the test set."""
    for label, values in weights.items():
        write_tensor(folder / f"{label}.dat", values)
    np.savez_compressed(folder / "test.npz", image=image, digit=digit)
    np.savez_compressed(folder / "image.npz", image=image[:1])
    right = int((probabilities(image, weights).argmax(axis=1) == digit).sum())
    readme = README.substitute(
        parameters=f"{sum(values.size for values in weights.values()):,}",
        count=len(digit),
        right=right,
        accuracy=f"{100 * right / len(digit):.1f}",
    )
    (folder / "graph.nnef").write_text(graph_text(weights), encoding="utf-8", newline="\n")
    (folder / "README.md").write_text(readme, encoding="utf-8", newline="\n")
    print(f"{right} of {len(digit)} test images are labelled rightly ({100 * right / len(digit):.1f} %)")


def main() -> None:
    """Train, measure and write."""
    parser = argparse.ArgumentParser(description="Train the digit classifier that ships with graphport.")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT, help="model folder (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the split, the weights and the order (default: 0)")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="rounds over the images (default: %(default)s)")
    options = parser.parse_args()

    from threadpoolctl import threadpool_limits  # scikit-learn brings it

    start = time.perf_counter()
    random = np.random.default_rng(options.seed)
    image, digit = load_images()
    test, training = np.split(random.permutation(len(digit)), [TEST_IMAGES])
    with threadpool_limits(1):
        weights = train(image[training], digit[training], random, options.epochs)
    write_model(options.output, weights, image[test], digit[test])
    print(f"{options.output} written after {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
