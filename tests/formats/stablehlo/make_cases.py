"""Write the cases of this folder with JAX: each function as text, portable artifact and jax.export file, with results.

Run with JAX 0.10 and flatbuffers: python make_cases.py [NAME...]. The files are the project's own; JAX is Apache-2.0.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

FOLDER = Path(__file__).parent / "cases"


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def integers(*shape, seed=0):
    return np.random.default_rng(seed).integers(-(2**31), 2**31, shape).astype(np.int32)


W = numbers(3, 3, 2, 4, seed=3)
LAYOUT = ("NHWC", "HWIO", "NHWC")
MESH = Mesh(np.array(jax.devices()[:1]), ("d",))


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
    "random": (
        lambda k: [
            *(jax.random.normal(k[:2], (5,)), jax.random.permutation(k[:2], 7)),
            *lax.rng_bit_generator(k, (5, 3), algorithm=lax.RandomAlgorithm.RNG_THREE_FRY),
            *lax.rng_bit_generator(k, (3, 3), np.uint8, algorithm=lax.RandomAlgorithm.RNG_PHILOX),
        ],
        [np.array([1, 2**32 - 1, 2**32 - 2, 2**32 - 1], np.uint32)],
    ),
    "scatter_in_turn": (
        lambda x, i: (x.at[i].apply(jnp.cos), x.at[i, 1].apply(lambda v: v * 2 + 1)),
        [numbers(5, 4), np.array([0, 2, 2, 4, 9], np.int32)],
    ),
    "integer_convolution": (
        lambda x, w: [
            lax.conv_general_dilated(x, w, (2, 1), "SAME", dimension_numbers=LAYOUT),
            lax.conv_general_dilated(
                x.astype(np.uint8),
                w.astype(np.uint8),
                (1, 1),
                "VALID",
                dimension_numbers=LAYOUT,
                preferred_element_type=np.int32,
            ),
        ],
        [integers(1, 6, 6, 3), integers(3, 3, 3, 2, seed=1)],
    ),
    "linear_algebra": (
        lambda x: (
            *lax.linalg.lu(x)[:2],
            jnp.abs(lax.linalg.lu(lax.complex(x, x[::-1]))[0]),
            lax.linalg.cholesky(x @ x.T + 4 * jnp.eye(4), symmetrize_input=False),
            jnp.abs(jnp.linalg.solve(lax.complex(x, x[::-1]), lax.complex(x, x.T))),
            jnp.abs(jnp.linalg.cholesky(lax.complex(x @ x.T + 9 * jnp.eye(4), x - x.T))),
        ),
        [numbers(4, 4)],
    ),
    "element_types": (
        lambda x, i: (
            x.astype(jnp.float8_e5m2).astype(np.float32),
            x.astype(jnp.float8_e8m0fnu).astype(np.float32),
            jnp.zeros(4, np.float16).at[i].add(x[:4].astype(np.float16), mode="clip"),
            lax.bitcast_convert_type(i.astype(np.uint8), jnp.int4).astype(np.int8),
            jnp.abs(lax.clamp(np.complex64(-1 - 1j), lax.complex(x, -x)[:4], np.complex64(1))),
        ),
        [
            np.array([1.1, -3, 1e-3, 61440, 57344, 1e6, 0, np.inf, np.nan], np.float32),
            np.array([200, 3, 3, 16], np.int32),
        ],
    ),
    "window_initial_values": (
        lambda x: [
            lax.reduce_window(x, *each, "SAME")
            for each in [(3.0, lax.add, (1, 3), (1, 2)), (2.0, lax.mul, (2, 2), (1, 1)), (0.5, lax.max, (2, 3), (1, 1))]
        ],
        [numbers(4, 6)],
    ),
    "constraint": (
        lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(MESH, PartitionSpec("d"))),
        [numbers(4)],
    ),
}
SIZES = {
    "windows": (
        "b,h,w,2",
        lambda x: (
            lax.conv_general_dilated(x, W, (2, 2), "SAME", dimension_numbers=LAYOUT),
            lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
            jnp.cumsum(x, 1),
            lax.cumsum(x, 2, reverse=True),
        ),
        [(1, 8, 10, 2), (2, 11, 7, 2)],
    ),
    "order": ("a,b", lambda x: (jnp.argmax(x, 1), jnp.argmin(x, 0), jnp.sort(x, 1)), [(4, 6), (5, 3)]),
}
"""Functions of one argument with symbolic dims, and two of its shapes."""


def main():
    (FOLDER / "sizes").mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or CASES:
        function, inputs = CASES[name]
        exported = export.export(jax.jit(function))(*inputs)
        (FOLDER / f"{name}.mlir").write_text(jax.jit(function).lower(*inputs).as_text())
        (FOLDER / f"{name}.mlir.bc").write_bytes(exported.mlir_module_serialized)
        (FOLDER / f"{name}.jaxexport").write_bytes(exported.serialize())
        results = jax.tree.leaves(jax.jit(function)(*inputs))
        arrays = {f"in{k}": x for k, x in enumerate(inputs)} | {f"out{k}": np.asarray(y) for k, y in enumerate(results)}
        np.savez_compressed(FOLDER / f"{name}.npz", **arrays)
    for name, (dims, function, shapes) in SIZES.items():
        shape = jax.ShapeDtypeStruct(export.symbolic_shape(dims), np.float32)
        exported = export.export(jax.jit(function))(shape)
        (FOLDER / "sizes" / f"{name}.jaxexport").write_bytes(exported.serialize())
        arrays = {}
        for size, x in enumerate(numbers(*shape) for shape in shapes):
            arrays[f"in{size}"] = x
            arrays |= {f"out{size}_{k}": np.asarray(y) for k, y in enumerate(jax.jit(function)(x))}
        np.savez_compressed(FOLDER / "sizes" / f"{name}.npz", **arrays)
    size = export.symbolic_shape("b")[0]
    shape = jax.ShapeDtypeStruct((size, 3), np.float32)
    exported = export.export(jax.jit(lambda x: jnp.concatenate([x, x.sum(1, keepdims=True)], 1)))(shape)
    (FOLDER / "symbolic.jaxexport").write_bytes(exported.serialize())


if __name__ == "__main__":
    main()
