"""Shifts of signed integers and remainders of floats in opset 28."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from tests.formats.onnx.newest import NEEDS_NEWEST_OPSET

if TYPE_CHECKING:
    from pathlib import Path

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
KINDS = (np.int8, np.int16, np.int32, np.int64)


def model(path: Path, op: str, arrays: list[Any], *, opset: int = 28, results: int = 1, **stated: Any) -> gp.Model:
    ports = [
        helper.make_tensor_value_info(f"x{place}", helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for place, array in enumerate(arrays)
    ]
    names = [f"y{place}" for place in range(results)]
    node = helper.make_node(op, [port.name for port in ports], names, **stated)
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=name) for name in names])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=13), path)
    return gp.load(path)


def computed(found: gp.Model, arrays: list[Any]) -> list[Any]:
    return list(gp.run(found, dict(zip(found.inputs, arrays, strict=True)), backend="reference").values())


def shifted(x: int, y: int, direction: str, bits: int) -> int:
    if not 0 <= y < bits:
        return -1 if x < 0 and direction == "RIGHT" else 0
    wide = x >> y if direction == "RIGHT" else x << y
    return (wide + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_integers_with_a_sign_are_shifted_with_copies_of_it(direction: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for kind in KINDS:
        limits = np.iinfo(kind)
        x = random.integers(limits.min, limits.max, 200, dtype=kind, endpoint=True)
        y = np.concatenate([random.integers(0, limits.bits, 150), random.integers(-20, 100, 50)]).astype(kind)
        x[:3] = limits.min, limits.max, -1
        found = model(tmp_path / "m.onnx", "BitShift", [x, y], direction=direction)
        assert all(node.op != "onnx.BitShift" for node in found.graph), kind
        expected = [shifted(int(a), int(b), direction, limits.bits) for a, b in zip(x, y, strict=True)]
        np.testing.assert_array_equal(computed(found, [x, y])[0], np.array(expected, kind))


def test_float_remainder_has_the_sign_of_the_divisor(tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    ends = np.array([0, -0.0, np.inf, -np.inf, np.nan, 3, -3], np.float64)
    for kind in (np.float32, np.float64):
        x, y = (np.concatenate([random.uniform(-9, 9, 51), each]).astype(kind) for each in (ends, ends[::-1]))
        with np.errstate(invalid="ignore"):
            expected = np.mod(x[:, None], y)
        found = computed(model(tmp_path / "m.onnx", "Mod", [x[:, None], y]), [x[:, None], y])[0]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
        np.testing.assert_array_equal(np.signbit(found[expected == 0]), np.signbit(expected[expected == 0]))


@NEEDS_NEWEST_OPSET
def test_unjudged_newer_operator_is_kept(tmp_path: Path) -> None:
    x = np.arange(-4, 4, dtype=np.int32)
    newest = onnx.defs.onnx_opset_version()
    found = model(tmp_path / "m.onnx", "BitShift", [x, x], opset=newest + 1, direction="LEFT")
    assert [node.op for node in found.graph] == ["onnx.future.BitShift"]


def test_causal_convolution_continues_from_its_state(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    x, w, bias = (random.normal(size=size).astype(np.float32) for size in ((2, 3, 9), (3, 1, 4), (3,)))
    nothing = np.zeros((2, 3, 3), np.float32)
    whole = computed(model(tmp_path / "m.onnx", "CausalConvWithState", [x, w, bias], results=2), [x, w, bias])
    parts, state = [], nothing
    for piece in (x[:, :, :5], x[:, :, 5:]):
        given = [piece, w, bias, state]
        y, state = computed(model(tmp_path / "m.onnx", "CausalConvWithState", given, results=2), given)
        parts.append(y)
    padded = np.concatenate([nothing, x], 2)
    expected = sum(padded[:, :, place : place + 9] * w[:, 0, place, None] for place in range(4)) + bias[:, None]
    np.testing.assert_allclose(whole[0], expected, atol=1e-5)
    np.testing.assert_allclose(np.concatenate(parts, 2), expected, atol=1e-5)
    np.testing.assert_array_equal(state, x[:, :, -3:])
    np.testing.assert_array_equal(whole[1], x[:, :, -3:])


X = np.array([[1.5, -2, 3], [1.5, 0.25, -7]], np.float32)


@NEEDS_NEWEST_OPSET
@pytest.mark.parametrize("half", [np.float16, BFLOAT16])
@pytest.mark.parametrize(
    ("op", "arrays", "stated", "expected"),
    [
        ("Celu", [X], {"alpha": 2.0}, [np.where(X > 0, X, 2 * np.expm1(X / 2))]),
        ("Compress", [X, np.array([True, False, True])], {"axis": 1}, [X[:, ::2]]),
        ("Einsum", [X, X], {"equation": "ij,kj->ik"}, [X @ X.T]),
        ("OneHot", [np.array([1, -1]), np.int64(3), X[0, :2]], {}, [[[1.5, -2, 1.5], [1.5, 1.5, -2]]]),
        ("Range", [np.float32(each) for each in (0, 3, 0.5)], {}, [np.arange(0, 3, 0.5)]),
        ("ReverseSequence", [X.T, np.array([2, 3])], {}, [[[-2, -7], [1.5, 0.25], [3, 1.5]]]),
        ("Unique", [X], {}, [[-7, -2, 0.25, 1.5, 3], [5, 1, 4, 0, 2], [3, 1, 4, 3, 2, 0], [1, 1, 1, 2, 1]]),
    ],
)
def test_float16_values_are_computed_in_single_precision(
    op: str, arrays: list[Any], stated: dict[str, Any], expected: list[Any], half: Any, tmp_path: Path
) -> None:
    given = [np.asarray(each).astype(half) if np.asarray(each).dtype == np.float32 else each for each in arrays]
    found = model(tmp_path / "m.onnx", op, given, results=len(expected), **stated)
    is_known = half is np.float16 and op not in ("Celu", "Range")
    kinds = {node.op for node in found.graph}
    assert op in kinds
    assert f"onnx.future.{op}" not in kinds
    assert ("Cast" in kinds) != is_known
    for one, other in zip(computed(found, given), expected, strict=True):
        np.testing.assert_array_equal(one, np.asarray(other).astype(one.dtype))
        assert one.dtype in (half, np.int64)


def test_float16_range_is_computed_in_float32(tmp_path: Path) -> None:
    given = [np.float16(each) for each in (0, 3, 0.1)]
    found = model(tmp_path / "m.onnx", "Range", given, stash_type=onnx.TensorProto.FLOAT)
    assert "onnx.future.Range" not in [node.op for node in found.graph]
    assert computed(found, given)[0].dtype == np.float16
    found = model(tmp_path / "m.onnx", "Range", given, stash_type=onnx.TensorProto.FLOAT16)
    assert [node.op for node in found.graph] == ["onnx.future.Range"]
