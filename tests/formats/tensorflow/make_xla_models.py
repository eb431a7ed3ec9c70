"""Write `models/jax_*`: SavedModels of `jax2tf`, whose functions are `XlaCallModule`, and the results of TensorFlow.

Run with the Python of an environment that has jax and TensorFlow: `python tests/formats/tensorflow/make_xla_models.py`.
The models are of this project, under its licence.
"""

import os
import shutil
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf
from jax.experimental import jax2tf

FOLDER = Path(__file__).parent / "models"
WEIGHTS = np.random.default_rng(0).normal(size=(3, 4)).astype("float32")


def save(name, function, shape, x):
    """Record a function of one tensor `x` that returns a dictionary."""
    module = tf.Module()
    module.weights = tf.Variable(WEIGHTS)
    given = tf.TensorSpec(shape, tf.float32, "x")
    module.served = tf.function(lambda x: function(module.weights, x), input_signature=[given], autograph=False)
    path = FOLDER / name
    shutil.rmtree(path, ignore_errors=True)
    options = tf.saved_model.SaveOptions(save_debug_info=False)
    tf.saved_model.save(module, path, signatures=module.served.get_concrete_function(), options=options)
    for left in ("assets", "fingerprint.pb"):
        shutil.rmtree(path / left) if (path / left).is_dir() else (path / left).unlink(missing_ok=True)
    results = {key: value.numpy() for key, value in module.served(tf.constant(x)).items()}
    np.savez(FOLDER / f"{name}.npz", x=x, **results)


def dense(weights, x):
    call = jax2tf.convert(
        lambda w, x: {"y": jnp.tanh(x @ w), "sums": x.sum(0)},
        polymorphic_shapes=[None, "(b, 3)"],
        with_gradient=False,
    )
    return call(weights, x)


def scanned(weights, x):
    def step(w, x):
        last, states = jax.lax.scan(lambda h, row: (jnp.tanh(h + row @ w),) * 2, jnp.zeros(4), x)
        return {"last": last, "states": jnp.sort(states, 0), "first": jax.lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)}

    twice = tf.function(lambda x: jax2tf.convert(step, with_gradient=False)(weights, x), autograph=False)
    return {**twice(x), "again": twice(-x)["last"]}


x = np.random.default_rng(1).normal(size=(5, 3)).astype("float32")
save("jax_dense", dense, (None, 3), x)
save("jax_scanned", scanned, (5, 3), x)
