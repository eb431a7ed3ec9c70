"""Write the cases of this folder with JAX: each function as text, portable artifact and jax.export file, with results.

Run with JAX 0.10 and flatbuffers: python make_cases.py. The files are the project's own; JAX is Apache-2.0.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

FOLDER = Path(__file__).parent / "cases"


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


W = numbers(3, 3, 2, 4, seed=3)


def network(x):
    h = lax.conv_general_dilated(x, W, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    h = lax.reduce_window(jax.nn.relu(h), -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    return jax.nn.softmax(h.reshape(h.shape[0], -1) @ jnp.ones((16, 3)), axis=-1)


CASES = {
    "network": (network, [numbers(2, 8, 8, 2)]),
    "indexing": (
        lambda x, i: (x[i], x.at[i, 1].add(2.0, mode="drop"), lax.dynamic_slice(x, (i[0], i[1]), (2, 3))),
        [numbers(5, 4), np.array([4, -1, 9], np.int32)],
    ),
    "order": (
        lambda x: (jnp.sort(x, 1), jnp.argsort(x, 0), jnp.argmax(x, 1), jnp.cumsum(x, 0), lax.top_k(x, 2)[1]),
        [np.array([[1, 5, 5, -0.0], [np.nan, 1, 2, 0.0], [-1, -1, -np.inf, 3]], np.float32)],
    ),
    "integers": (
        lambda a, b: (lax.div(a, b), lax.rem(a, b), lax.shift_right_arithmetic(a, b), lax.population_count(a)),
        [np.array([7, -7, 0, -(2**31)], np.int32), np.array([0, 2, 40, -1], np.int32)],
    ),
    "loop": (
        lambda x: lax.scan(lambda c, t: (jnp.tanh(c + t), c.sum()), jnp.zeros(3), x),
        [numbers(4, 3)],
    ),
}


def main():
    FOLDER.mkdir(exist_ok=True)
    for name, (function, inputs) in CASES.items():
        exported = export.export(jax.jit(function))(*inputs)
        (FOLDER / f"{name}.mlir").write_text(jax.jit(function).lower(*inputs).as_text())
        (FOLDER / f"{name}.mlir.bc").write_bytes(exported.mlir_module_serialized)
        (FOLDER / f"{name}.jaxexport").write_bytes(exported.serialize())
        results = jax.tree.leaves(jax.jit(function)(*inputs))
        arrays = {f"in{k}": x for k, x in enumerate(inputs)} | {f"out{k}": np.asarray(y) for k, y in enumerate(results)}
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    size = export.symbolic_shape("b")[0]
    shape = jax.ShapeDtypeStruct((size, 3), np.float32)
    exported = export.export(jax.jit(lambda x: jnp.concatenate([x, x.sum(1, keepdims=True)], 1)))(shape)
    (FOLDER / "symbolic.jaxexport").write_bytes(exported.serialize())


if __name__ == "__main__":
    main()
