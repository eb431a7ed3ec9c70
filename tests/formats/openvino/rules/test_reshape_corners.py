"""Reshape-1 by brute force: a pattern made of extents, for every small size, against a plain statement of the document.

The document (OpenVINO, Reshape-1): one entry may be -1; with special_zero an entry 0 copies the dim at its place, and
copied dims do not count for -1; the number of elements is kept. What it leaves open (-1 beside a 0 that is no copy) is
an error.
"""

import itertools
from math import prod

import numpy as np
import pytest

import graphport as gp
from graphport.backends import reference
from graphport.core.facts import OPEN
from graphport.formats.onnx import runtime as onnxruntime
from tests.draws import spread
from tests.every import every
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir


def document(shape, pattern, special_zero):
    """The shape that is asked for; `None` for an error."""
    copied = [i for i, entry in enumerate(pattern) if special_zero and entry == 0]
    if any(i >= len(shape) for i in copied) or pattern.count(-1) > 1 or min(pattern, default=0) < -1:
        return None
    found = [shape[i] if i in copied else entry for i, entry in enumerate(pattern)]
    if -1 in pattern:
        held = prod(n for i, n in enumerate(shape) if i not in copied)
        named = prod(n for i, n in enumerate(pattern) if i not in copied and n != -1)
        if named == 0 or held % named:
            return None
        found[pattern.index(-1)] = held // named
    return tuple(found) if prod(found) == prod(shape) else None


def test_the_statement_has_the_examples_of_the_document():
    assert document((2, 5, 5, 0), [0, 4], False) == (0, 4)
    assert document((2, 5, 5, 24), [0, -1, 4], True) == (2, 150, 4)
    assert document((2, 2, 3), [0, 0, 1, -1], True) == (2, 2, 1, 3)
    assert document((3, 1, 1), [0, -1], True) == (3, 1)
    assert document((0, 3), [0, -1], True) == (0, 3)
    assert document((4, 4), [0, 2], True) is None


# Each entry of a pattern is a number, or a product of extents of `data` (a, b) and of `other` (k).
PATTERNS = [
    ["a", -1],
    ["a", "b"],
    ["b", "a"],
    ["a*b"],
    ["k", -1],
    ["k", "b"],
    ["a*b", -1],
    [-1, "a"],
    [-1, "b"],
    [0, "k", -1],
    [-1, 0, "k"],
    ["k", 0],
    [0, "a"],
    [0, -1, "b"],
    ["a", "k", "b"],
    [1, "a", -1],
    ["a", 0, "k"],
    [2, "a*b"],
]


def entries(number, pattern):
    """Layers that compute the pattern, from the extents of `data` and `other`."""
    layers, parts = [], []
    for place, entry in enumerate(pattern):
        name = f"entry{place}"
        if isinstance(entry, int):
            layers.append(constant(name, [entry], "int64"))
        else:
            for factor, letter in enumerate(entry.split("*")):
                layers += [
                    constant(f"{name}_{factor}_at", [{"a": 0, "b": 1, "k": 0}[letter]], "int64"),
                    Layer(
                        f"{name}_{factor}",
                        "opset8.Gather",
                        {"batch_dims": 0},
                        ["other_dims" if letter == "k" else "dims", f"{name}_{factor}_at", "axis"],
                    ),
                ]
            if "*" in entry:
                layers.append(Layer(name, "opset1.Multiply", {}, [f"{name}_0", f"{name}_1"]))
            else:
                name = f"{name}_0"
        parts.append(name)
    layers.append(Layer(number, "opset1.Concat", {"axis": 0}, parts))
    return layers


def model(folder, pattern, special_zero, declared):
    layers = [
        parameter("data", declared),
        parameter("other", "?" if declared == "?,?" else "0.."),
        Layer("dims", "opset3.ShapeOf", {"output_type": "i64"}, ["data"]),
        Layer("other_dims", "opset3.ShapeOf", {"output_type": "i64"}, ["other"]),
        constant("axis", 0, "int64"),
        *entries("pattern", pattern),
        Layer("y", "opset1.Reshape", {"special_zero": special_zero}, ["data", "pattern"]),
    ]
    return gp.load(write_ir(folder, layers, ["y"]))


def sessions(loaded):
    """The reference and ONNX Runtime, whose optimizer would say a pattern of 0 and an extent as 0 and -1."""
    return reference.prepare(loaded.graph), onnxruntime.prepare(loaded.graph, optimize=False)


def outcome(session, inputs):
    try:
        return session.run(inputs)["y"]
    except gp.DiagnosticError:
        return None


@every("declared", ["0..,0..", "1..3,0..", "?,?"])
@every("special_zero", [True, False], ids=["copies", "literal"])
@every("pattern", spread(PATTERNS), ids=lambda pattern: ",".join(map(str, pattern)))
def test_a_computed_pattern_for_every_small_size(tmp_path, pattern, special_zero, declared):
    if not special_zero and {0, -1} <= set(pattern):
        with pytest.raises(gp.DiagnosticError):
            model(tmp_path, pattern, special_zero, declared)
        return
    if declared == "?,?" and pattern == [2, "a*b"]:
        with pytest.raises(gp.DiagnosticError, match="cannot have shape"):  # but for a*b = 0
            model(tmp_path, pattern, special_zero, declared)
        return
    loaded = model(tmp_path, pattern, special_zero, declared)
    claimed = loaded.outputs["y"].fact.shape
    judges = sessions(loaded)
    is_named = declared == "?,?"
    first = range(4) if declared.startswith("0") else range(1, 4)
    for a, b, k in itertools.product(first, range(int(is_named), 4), (1, 3) if is_named else (0, 1, 3)):
        sizes = {"a": a, "b": b, "k": k}
        numbers = [e if isinstance(e, int) else prod(sizes[letter] for letter in e.split("*")) for e in pattern]
        inputs = {"data": np.arange(a * b, dtype=np.float32).reshape(a, b), "other": np.zeros(k, np.float32)}
        expected = document((a, b), numbers, special_zero)
        # Beside a literal 0, ONNX Runtime makes something of -1.
        is_open = expected is None and not special_zero and -1 in numbers and 0 in numbers
        for session in judges[:1] if is_open else judges:
            found = outcome(session, inputs)
            assert (None if found is None else found.shape) == expected, (sizes, numbers)
            if expected is not None:
                np.testing.assert_array_equal(found, inputs["data"].reshape(expected))
        if expected is not None:
            bound = {str(dim): n for dim, n in extents(loaded, inputs) if not isinstance(dim, int)}
            assert all(
                dim is OPEN or n == loaded.graph.extents.evaluate(dim, bound)
                for dim, n in zip(claimed, expected, strict=True)
            )


def extents(loaded, inputs):
    """Every dim of the inputs, and its length."""
    for name, value in loaded.inputs.items():
        yield from zip(value.fact.shape, inputs[name].shape, strict=True)
