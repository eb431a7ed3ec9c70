"""Write `models/`: small models of TensorFlow with the results that TensorFlow computes.

Run with the Python of an environment that has TensorFlow: `python tests/formats/tensorflow/make_models.py`.
The models are of this project, under its licence; weights are random numbers with a fixed seed.
"""

import os
import shutil
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", TF_ENABLE_ONEDNN_OPTS="0", CUDA_VISIBLE_DEVICES="-1")
import numpy as np
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as freeze

FOLDER = Path(__file__).parent / "models"


def random(*shape: int, seed: int = 0) -> np.ndarray:
    """Floats from -1 to 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def loop(x):
    def step(i, total):
        return i + 1, tf.cond(tf.reduce_sum(total) > 3.0, lambda: total * 0.5, lambda: total + 1.0)

    return tf.while_loop(lambda i, _: i < 4, step, (0, x))[1]


def convolution(x):
    h = tf.nn.relu(tf.nn.conv2d(x, random(3, 3, 3, 4), 2, "SAME") + random(4))
    return tf.nn.softmax(tf.matmul(tf.reduce_mean(h, [1, 2]), random(4, 5)))


def duplicates(x):
    return tf.scatter_nd([[1], [3], [1]], x, [4, 3])


FUNCTIONS = {
    "convolution": (convolution, (None, 7, 7, 3)),
    "loop": (loop, (None, 3)),
    "running_sum": (lambda x: tf.scan(lambda a, e: a * 0.5 + e, x), (None, 3)),
    "list_written_backwards": (
        lambda x: tf.while_loop(
            lambda i, _: i < 3,
            lambda i, a: (i + 1, a.write(2 - i, x[i])),
            (0, tf.TensorArray(tf.float32, 3, element_shape=[3])),
        )[1].stack(),
        (3, 3),
    ),
    "scatter_duplicates": (duplicates, (3, 3)),
    "integer_division": (lambda x: tf.cast(x * 9, tf.int32) // tf.constant([2, -2, 3]), (None, 3)),
    "not_a_number": (lambda x: tf.cast(x / 0.0 * 1e9, tf.int32), (None, 3)),
    "bicubic": (lambda x: tf.image.resize(x, [8, 8], "bicubic"), (1, 5, 6, 2)),
}


class Shared(tf.Module):
    """Three variables of one name: only the operators that restore them distinguish them."""

    def __init__(self):
        self.w = tf.Variable(random(3, seed=1), name="Variable")
        self.a = tf.Variable(random(3, seed=2), name="Variable")
        self.b = tf.Variable(random(3, seed=3), name="Variable")
        self.steps = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def served(self, x):
        return {"result": (x * self.w - self.a) * self.b}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], name="x")])
    def counted(self, x):
        self.steps.assign_add(1.0)
        return {"result": x + self.steps}


def main() -> None:
    """Write all models."""
    results = {}
    for lowered in (False, True):
        for name, (function, shape) in FUNCTIONS.items():
            if lowered and name not in ("loop", "running_sum"):
                continue
            concrete = tf.function(function, input_signature=[tf.TensorSpec(shape, name="x")]).get_concrete_function()
            file = f"{name}_lowered" if lowered else name
            graph = freeze(concrete, lower_control_flow=lowered).graph.as_graph_def()
            (FOLDER / f"{file}.pb").write_bytes(graph.SerializeToString(deterministic=True))
            x = random(*(2 if n is None else n for n in shape), seed=5)
            results[f"{file}.x"], results[f"{file}.y"] = (
                x,
                concrete(tf.constant(x))[0].numpy()
                if isinstance(concrete(tf.constant(x)), list)
                else concrete(tf.constant(x)).numpy(),
            )
    module = Shared()
    signatures = {"served": module.served, "counted": module.counted}
    folder = FOLDER / "shared"
    shutil.rmtree(folder, ignore_errors=True)
    options = tf.saved_model.SaveOptions(save_debug_info=False)
    tf.saved_model.save(module, str(folder), signatures=signatures, options=options)
    (folder / "fingerprint.pb").unlink(missing_ok=True)
    shutil.rmtree(folder / "assets", ignore_errors=True)
    x = random(2, 3, seed=5)
    results["shared.x"], results["shared.y"] = x, module.served(tf.constant(x))["result"].numpy()
    np.savez(FOLDER / "results.npz", **results)


if __name__ == "__main__":
    main()
