"""Nets of positions, timesteps and decisions, whose results depend on digits that float16 does not have.

Each function returns a model and inputs of the range that such models are made for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from onnx import TensorProto

from tests.models import model, node, typed

if TYPE_CHECKING:
    from collections.abc import Callable

    from onnx import ModelProto

WIDTH, LENGTH = 16, 24
Net = tuple["ModelProto", dict[str, np.ndarray]]


def _weights(*shape: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)


FREQUENCIES = (10000.0 ** -(np.arange(8) / 8)).astype(np.float32)
POSITIONS = np.linspace(0, 8000, LENGTH).astype(np.int64)


def _layer(x: str, y: str = "y") -> list[Any]:
    return [node("Concat", [f"{x}s", f"{x}c"], ["e"], axis=-1), node("MatMul", ["e", "v"], [y])]


def rotary_positions() -> Net:
    nodes = [
        node("Cast", ["position_ids"], ["p"], to=1),
        node("Unsqueeze", ["p", "last"], ["u"]),
        node("Mul", ["u", "f"], ["a"]),
        node("Sin", ["a"], ["as"]),
        node("Cos", ["a"], ["ac"]),
        *_layer("a"),
    ]
    constants = {"f": FREQUENCIES, "last": np.array([1]), "v": _weights(WIDTH, 4)}
    proto = model(nodes, [typed("position_ids", [LENGTH], 7)], [("y", [LENGTH, 4])], constants)
    return proto, {"position_ids": POSITIONS}


def counted_positions() -> Net:
    nodes = [
        node("CumSum", ["mask", "zero"], ["n"]),
        node("Cast", ["n"], ["p"], to=1),
        node("Mul", ["p", "many"], ["q"]),
        node("Unsqueeze", ["q", "last"], ["u"]),
        node("Mul", ["u", "f"], ["a"]),
        node("Sin", ["a"], ["as"]),
        node("Cos", ["a"], ["ac"]),
        *_layer("a"),
    ]
    constants = {"f": FREQUENCIES, "last": np.array([1]), "zero": np.array(0), "v": _weights(WIDTH, 4)}
    constants["many"] = np.array(331, np.float32)
    proto = model(nodes, [typed("mask", [LENGTH], 7)], [("y", [LENGTH, 4])], constants)
    return proto, {"mask": np.ones(LENGTH, np.int64)}


def float_timesteps() -> Net:
    nodes = [
        node("Unsqueeze", ["timestep", "last"], ["u"]),
        node("Mul", ["u", "f"], ["a"]),
        node("Sin", ["a"], ["as"]),
        node("Cos", ["a"], ["ac"]),
        *_layer("a", "h"),
        node("Sigmoid", ["h"], ["g"]),
        node("Mul", ["h", "g"], ["y"]),
    ]
    constants = {"f": FREQUENCIES, "last": np.array([1]), "v": _weights(WIDTH, 4)}
    proto = model(nodes, [("timestep", [LENGTH])], [("y", [LENGTH, 4])], constants)
    return proto, {"timestep": np.linspace(0, 999, LENGTH).astype(np.float32)}


def computed_frequencies() -> Net:
    nodes = [
        node("Exp", ["logs"], ["f"]),
        node("Cast", ["timestep"], ["t"], to=1),
        node("Unsqueeze", ["t", "last"], ["u"]),
        node("Mul", ["u", "f"], ["a"]),
        node("Mul", ["a", "thousand"], ["b"]),
        node("Sin", ["b"], ["as"]),
        node("Cos", ["b"], ["ac"]),
        *_layer("a"),
    ]
    constants = {"logs": np.log(FREQUENCIES), "last": np.array([1]), "v": _weights(WIDTH, 4)}
    constants["thousand"] = np.array(10, np.float32)
    proto = model(nodes, [typed("timestep", [LENGTH], 7)], [("y", [LENGTH, 4])], constants)
    return proto, {"timestep": np.linspace(0, 999, LENGTH).astype(np.int64)}


def fourier_features() -> Net:
    nodes = [
        node("MatMul", ["coordinates", "b"], ["a"]),
        node("Sin", ["a"], ["as"]),
        node("Cos", ["a"], ["ac"]),
        *_layer("a"),
    ]
    constants = {"b": 60 * _weights(2, 8), "v": _weights(WIDTH, 4)}
    proto = model(nodes, [("coordinates", [LENGTH, 2])], [("y", [LENGTH, 4])], constants)
    return proto, {"coordinates": np.random.default_rng(1).uniform(-1, 1, (LENGTH, 2)).astype(np.float32)}


def sine_layers() -> Net:
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Mul", ["h", "thirty"], ["a"]),
        node("Sin", ["a"], ["s"]),
        node("MatMul", ["s", "u"], ["k"]),
        node("Mul", ["k", "thirty"], ["b"]),
        node("Sin", ["b"], ["t"]),
        node("MatMul", ["t", "v"], ["y"]),
    ]
    constants = {"w": _weights(3, WIDTH), "u": _weights(WIDTH, WIDTH, seed=1), "v": _weights(WIDTH, 4)}
    constants["thirty"] = np.array(30, np.float32)
    proto = model(nodes, [("x", [LENGTH, 3])], [("y", [LENGTH, 4])], constants)
    return proto, {"x": np.random.default_rng(2).uniform(-1, 1, (LENGTH, 3)).astype(np.float32)}


def bucketed_distances() -> Net:
    nodes = [
        node("Cast", ["distance"], ["d"], to=1),
        node("Add", ["d", "one"], ["e"]),
        node("Log", ["e"], ["l"]),
        node("Mul", ["l", "eight"], ["m"]),
        node("Cast", ["m"], ["i"], to=7),
        node("Gather", ["v", "i"], ["y"]),
    ]
    constants = {"one": np.array(1, np.float32), "eight": np.array(8, np.float32), "v": _weights(96, 4)}
    proto = model(nodes, [typed("distance", [LENGTH], 7)], [("y", [LENGTH, 4])], constants)
    return proto, {"distance": POSITIONS}


def phases() -> Net:
    nodes = [
        node("Mul", ["time", "rate"], ["q"]),
        node("Floor", ["q"], ["k"]),
        node("Sub", ["q", "k"], ["phase"]),
        node("Unsqueeze", ["phase", "last"], ["u"]),
        node("MatMul", ["u", "v"], ["y"]),
    ]
    constants = {"rate": np.array(0.37, np.float32), "last": np.array([1]), "v": _weights(1, 4)}
    proto = model(nodes, [("time", [LENGTH])], [("y", [LENGTH, 4])], constants)
    return proto, {"time": np.linspace(0, 999, LENGTH).astype(np.float32)}


def remainders() -> Net:
    nodes = [
        node("Cast", ["position_ids"], ["p"], to=1),
        node("Mul", ["p", "rate"], ["q"]),
        node("Mod", ["q", "one"], ["phase"], fmod=1),
        node("Unsqueeze", ["phase", "last"], ["u"]),
        node("MatMul", ["u", "v"], ["y"]),
    ]
    constants = {
        "rate": np.array(0.137, np.float32),
        "one": np.array(1, np.float32),
        "last": np.array([1]),
        "v": _weights(1, 4),
    }
    proto = model(nodes, [typed("position_ids", [LENGTH], 7)], [("y", [LENGTH, 4])], constants)
    return proto, {"position_ids": POSITIONS}


def soft_positions() -> Net:
    """An expected coordinate: the softmax of a heat map times positions up to 512."""
    nodes = [
        node("Conv", ["x", "k"], ["h"]),
        node("Flatten", ["h"], ["m"], axis=2),
        node("ReduceMax", ["m"], ["top"], axes=[1]),
        node("Sub", ["m", "top"], ["d"]),
        node("Exp", ["d"], ["p"]),
        node("ReduceSum", ["p", "last"], ["n"]),
        node("Div", ["p", "n"], ["w"]),
        node("Mul", ["w", "where"], ["z"]),
        node("ReduceSum", ["z", "last"], ["y"]),
    ]
    constants = {"k": _weights(4, 2, 1, 1), "last": np.array([1]), "where": np.arange(1024, dtype=np.float32) / 2}
    proto = model(nodes, [("x", [8, 2, 32, 32])], [("y", [32, 1])], constants)
    return proto, {"x": np.random.default_rng(3).normal(size=(8, 2, 32, 32)).astype(np.float32)}


def mean_of_pixels() -> Net:
    nodes = [
        node("Conv", ["x", "k"], ["h"]),
        node("ReduceSum", ["h", "axes"], ["m"]),
        node("Mul", ["m", "part"], ["n"]),
        node("Flatten", ["n"], ["f"]),
        node("MatMul", ["f", "v"], ["y"]),
    ]
    constants = {"k": 30 * np.abs(_weights(WIDTH, 3, 1, 1)), "axes": np.array([2, 3]), "v": _weights(WIDTH, 4)}
    constants["part"] = np.array(1 / 96**2, np.float32)
    proto = model(nodes, [("x", [8, 3, 96, 96])], [("y", [8, 4])], constants)
    r = np.random.default_rng(4)
    pixels = r.uniform(0, 1, (8, 3, 96, 96)) * r.uniform(0, 1, (8, 3, 1, 1))
    return proto, {"x": pixels.astype(np.float32)}


def positions_in_the_graph() -> Net:
    nodes = [
        node("Shape", ["x"], ["sizes"]),
        node("Gather", ["sizes", "zero"], ["n"]),
        node("Range", ["zero", "n", "one"], ["i"]),
        node("Cast", ["i"], ["p"], to=TensorProto.FLOAT),
        node("Mul", ["p", "many"], ["q"]),
        node("Unsqueeze", ["q", "last"], ["u"]),
        node("Mul", ["u", "f"], ["a"]),
        node("Sin", ["a"], ["s"]),
        node("MatMul", ["x", "w"], ["h"]),
        node("Add", ["h", "s"], ["r"]),
        node("MatMul", ["r", "v"], ["y"]),
    ]
    constants = {"f": FREQUENCIES, "last": np.array([1]), "zero": np.array(0), "one": np.array(1)}
    constants |= {"w": _weights(4, 8), "v": _weights(8, 4), "many": np.array(331, np.float32)}
    proto = model(nodes, [("x", ["L", 4])], [("y", ["L", 4])], constants)
    return proto, {"x": np.random.default_rng(5).normal(size=(LENGTH, 4)).astype(np.float32)}


NETS: list[Callable[[], Net]] = [
    rotary_positions,
    counted_positions,
    float_timesteps,
    computed_frequencies,
    fourier_features,
    sine_layers,
    bucketed_distances,
    phases,
    remainders,
    soft_positions,
    mean_of_pixels,
    positions_in_the_graph,
]
