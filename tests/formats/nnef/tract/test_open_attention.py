"""Attention of ONNX over batches and lengths that stay open: tract computes which keys a query sees."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.nnef.tract.test_writing import computed

RNG = np.random.default_rng(3)
WINDOWS: dict[str, dict[str, int]] = {
    "all": {},
    "causal": {"is_causal": 1},
    "both": {"left_window_size": 1, "right_window_size": 2},
    "left": {"left_window_size": 2},
}


def attention(window, keys, columns, *, has_cache, is_flat, mask=None):
    """Four heads of eight, over `keys` heads of keys, with a mask of a type if it is to have one."""
    shapes: dict[str, list[Any]] = {"q": ["B", "S", 32], "k": ["B", "S", keys * 8], "v": ["B", "S", keys * 8]}
    if not is_flat:
        shapes = {"q": ["B", 4, "S", 8], "k": ["B", keys, "S", 8], "v": ["B", keys, "S", 8]}
    if mask is not None:
        shapes["m"] = ["S", columns]
    names, results = ["q", "k", "v", "m" if mask else ""], ["y"]
    if has_cache:
        shapes |= {"pk": ["B", keys, "P", 8], "pv": ["B", keys, "P", 8]}
        names, results = [*names, "pk", "pv"], ["y", "k2", "v2"]
    heads = {"q_num_heads": 4, "kv_num_heads": keys} if is_flat else {}
    options: dict[str, Any] = {**window, **heads}
    node = helper.make_node("Attention", names, results, **options)
    given = [
        helper.make_tensor_value_info(name, mask or 1 if name == "m" else onnx.TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    ]
    made = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in results]
    graph = helper.make_graph([node], "net", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 26)], ir_version=11)
    return gp.from_onnx(model), shapes


def numbers(shape, is_truth):
    return RNG.random(shape) > 0.3 if is_truth else RNG.normal(size=shape).astype(np.float32)


def test_tract_computes_it_of_any_length(tmp_path):
    expected = {}
    for place, (window, keys, has_cache, is_flat) in enumerate(product(WINDOWS, (2, 4), (False, True), (False, True))):
        mask = None if has_cache else (None, onnx.TensorProto.FLOAT, onnx.TensorProto.BOOL)[place % 3]
        model, shapes = attention(WINDOWS[window], keys, "S", has_cache=has_cache, is_flat=is_flat, mask=mask)
        for size in ({"B": 2, "S": 3, "P": 2}, {"B": 1, "S": 5, "P": 4}):
            name = f"{place:02} {window} {keys} {has_cache} {is_flat} {mask} {size['S']}"
            folder = tmp_path / name
            folder.mkdir()
            assert "NNEF0776" in {each.code for each in gp.save(model, folder / "model", format="nnef")}
            given = {
                key: numbers([size.get(str(dim), dim) for dim in shapes[key]], key == "m" and mask == 9)
                for key in model.inputs
            }
            np.savez(folder / "given.npz", **given)
            expected[name] = list(gp.run(model, given, backend="reference").ordered)
    computed(tmp_path)
    for name, arrays in expected.items():
        for found, right in zip(np.load(tmp_path / name / "found.npz").values(), arrays, strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_mask_of_columns_that_may_be_fewer_is_refused(tmp_path):
    model, _ = attention({}, 4, "T", has_cache=True, is_flat=False, mask=1)
    with pytest.raises(DiagnosticError, match="the number of mask columns is dynamic"):
        gp.save(model, tmp_path / "model", format="nnef")
