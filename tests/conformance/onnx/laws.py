"""Invariants of the node tests: operands in a file and folded, symbolic dims, duplicated nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import graphport as gp
from graphport.formats.onnx import read
from tests import laws
from tests.conformance.onnx.nodes import cases, data, differences, names, unsupported

_BY_NUMBER = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8)
)
"""Element types that fields of a TensorProto hold number by number, and `make_tensor` fills."""


def stored(name: str, folder: Path) -> list[str]:
    """Every operand an initializer of a file, in one of the three ways to store it, and folded."""
    found = []
    for inputs, expected in data(cases()[name])[:1]:
        for way in ("raw", "by number", "external"):
            path = folder / "case.onnx"
            free = _write(cases()[name].model, inputs, path, way)
            graph = gp.load(path, raw=True).graph
            found.append(_unequal(way, laws.folded(graph, free, folder / "free.bin"), expected))
    return list(filter(None, found))


def _write(model: onnx.ModelProto, inputs: list[Any], path: Path, way: str) -> list[Any]:
    """Write a file with the operands as initializers; return those that no initializer can represent."""
    twin = onnx.ModelProto()
    twin.CopyFrom(model)
    twin.ir_version = max(twin.ir_version, 4)
    given = {each.name for each in twin.graph.initializer}
    free, kept, outside = [], [], bytearray()
    for each, x in zip([each for each in twin.graph.input if each.name not in given], inputs, strict=False):
        if not isinstance(x, np.ndarray) or not each.type.HasField("tensor_type"):
            free.append(x)
            kept.append(each)
            continue
        tensor = numpy_helper.from_array(x, each.name)
        if way == "by number" and tensor.data_type in _BY_NUMBER:
            tensor = onnx.helper.make_tensor(each.name, tensor.data_type, x.shape, x.reshape(-1).tolist())
        elif way == "external" and tensor.HasField("raw_data"):
            outside += b"\0"  # not aligned
            place = {"location": "case.bin", "offset": str(len(outside)), "length": str(len(tensor.raw_data))}
            outside += tensor.raw_data
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in place.items():
                tensor.external_data.add(key=key, value=value)
        twin.graph.initializer.append(tensor)
    del twin.graph.input[:]
    twin.graph.input.extend(kept)
    path.with_suffix(".bin").write_bytes(bytes(outside))
    path.write_bytes(twin.SerializeToString())
    return free


def opened(name: str, folder: Path) -> list[str]:
    """A symbol for every extent of an input, each its own, and then one for equal ones."""
    case = cases()[name]
    inputs, expected = data(case)[0]
    found: list[str] = []
    for is_shared in (False, True):
        wrong, outputs, simplified = laws.wrong_when_opened(read(case.model), inputs, is_shared=is_shared)
        found += [*wrong, _unequal("opened", outputs, expected), _unequal("simplified", simplified, expected)]
    return list(filter(None, found))


def doubled(name: str, folder: Path) -> list[str]:
    """One session runs twice, and a graph that has every node twice runs once."""
    case = cases()[name]
    inputs, expected = data(case)[0]
    ways = ("first run", "second run", "first half", "second half")
    found = laws.twice(read(case.model), inputs)
    return list(filter(None, (_unequal(way, one, expected) for way, one in zip(ways, found, strict=True))))


def _unequal(way: str, found: list[Any], expected: list[Any]) -> str:
    words = differences(found, expected)
    return f"{way}: {words}" if words else ""


LAWS: dict[str, Callable[[str, Path], list[str]]] = {"stored": stored, "opened": opened, "doubled": doubled}
"""By name: what is wrong of a case in that form."""

_OF_KNOWN_HEADS = ("test_causal_conv_with_state", "test_linear_attention", "test_flexattention")

OPAQUE = frozenset(
    (
        *("test_dequantizelinear_e4m3fn_zero_point", "test_dequantizelinear_float4e2m1"),
        *("test_dequantizelinear_int2", "test_dequantizelinear_int4"),
        *("test_dequantizelinear_uint2", "test_dequantizelinear_uint4"),
        *("test_quantizelinear_e4m3fn", "test_quantizelinear_e5m2"),
        "test_spacetodepth_crd_mode_example",
        *(name for name in names() if name.startswith(_OF_KNOWN_HEADS)),
    )
)
"""Cases of opset 28 that are read only where it is known that scales have one element, how many filters or channels there
are, and how many heads of which width."""


def violations(law: str, chosen: Iterable[str], folder: Path) -> dict[str, list[str]]:
    """Return the violations by case; cases that the reference backend does not support are left out."""
    found: dict[str, list[str]] = {}
    lacking = unsupported()
    for name in chosen:
        if name in lacking:
            continue
        try:
            wrong = LAWS[law](name, folder)
        except laws.Opaque as reason:
            wrong = [] if law == "opened" and name in OPAQUE else [str(reason)]
        except Exception as error:  # noqa: BLE001  reported with its case
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            found[name] = wrong
    return found
