"""Attention that keeps a state, as opset 27 says it, and blocks that go to channels in either order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

BATCH, TIME, HEADS, GROUPS, DK, DV = 2, 5, 6, 3, 4, 7
OPTIONAL = ("query", "key", "value", "past_state", "decay", "beta")


def drawn(rule: str, seed: int) -> dict[str, Array]:
    """Operands by name; decay of each row for `gated`, of each head for `gated_delta`."""
    random = np.random.default_rng(seed)
    fades = GROUPS * DK if rule == "gated" else GROUPS
    sizes = {"query": HEADS * DK, "key": GROUPS * DK, "value": GROUPS * DV}
    sizes |= {"decay": fades} if "gated" in rule else {}
    sizes |= {"beta": GROUPS} if "delta" in rule else {}
    found = {name: random.normal(size=(BATCH, TIME, size)) / 2 for name, size in sizes.items()}
    found["past_state"] = random.normal(size=(BATCH, GROUPS, DK, DV))
    if "decay" in found:
        found["decay"] = -np.abs(found["decay"])
    return {name: array.astype(np.float32) for name, array in found.items()}


def model(path: Path, given: dict[str, Array], *, is_open: bool = False, **stated: Any) -> gp.Model:
    def shape(array: Array) -> list[Any]:
        return list(array.shape) if not is_open else ["b", "t" if array.ndim == 3 else array.shape[1], *array.shape[2:]]

    names = [name if name in given else "" for name in OPTIONAL]
    kind = onnx.TensorProto.FLOAT
    ports = [helper.make_tensor_value_info(name, kind, shape(given[name])) for name in names if name]
    stated = {"q_num_heads": HEADS, "kv_num_heads": GROUPS, **stated}
    node = helper.make_node("LinearAttention", names, ["y", "state"], **stated)
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=name) for name in ("y", "state")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=13), path)
    return gp.load(path)


def stepped(given: dict[str, Array]) -> tuple[Array, Array]:
    """The recurrence, head by head and step by step, in float64."""
    q = given["query"].reshape(BATCH, TIME, HEADS, DK).astype(float)
    k = given["key"].reshape(BATCH, TIME, GROUPS, DK).astype(float)
    v = given["value"].reshape(BATCH, TIME, GROUPS, DV).astype(float)
    states = given.get("past_state", np.zeros((BATCH, GROUPS, DK, DV))).astype(float)
    y = np.zeros((BATCH, TIME, HEADS, DV))
    for n in range(BATCH):
        for group in range(GROUPS):
            for t in range(TIME):
                if "decay" in given:
                    fade = np.exp(given["decay"][n, t].reshape(GROUPS, -1)[group])
                    states[n, group] *= fade[:, None]
                written = v[n, t, group]
                if "beta" in given:
                    written = given["beta"][n, t, group] * (written - k[n, t, group] @ states[n, group])
                states[n, group] += np.outer(k[n, t, group], written)
                for head in range(group * 2, group * 2 + 2):
                    y[n, t, head] = q[n, t, head] @ states[n, group] / np.sqrt(DK)
    return y.reshape(BATCH, TIME, -1), states


def test_each_rule_writes_its_state_step_by_step(tmp_path: Path) -> None:
    for seed, rule in enumerate(("linear", "gated", "delta", "gated_delta")):
        for is_open in (False, True):
            given = drawn(rule, seed)
            if seed % 2 == 0:
                del given["past_state"]
            found = model(tmp_path / "m.onnx", given, is_open=is_open, update_rule=rule)
            assert "onnx.future.LinearAttention" not in [node.op for node in found.graph]
            for backend in ("reference", "onnxruntime"):
                y, state = gp.run(found, given, backend=backend).values()
                np.testing.assert_allclose(y, stepped(given)[0], atol=1e-5, err_msg=f"{rule} {backend}")
                np.testing.assert_allclose(state, stepped(given)[1], atol=1e-5, err_msg=f"{rule} {backend}")


def test_missing_operands_are_reported(tmp_path: Path) -> None:
    given = drawn("gated", 1)
    for rule, told in (("linear", "decay is given"), ("delta", "decay is given"), ("gated_delta", "beta is missing")):
        with pytest.raises(DiagnosticError, match=told):
            gp.run(model(tmp_path / "m.onnx", given, update_rule=rule), given)
    with pytest.raises(DiagnosticError, match="update_rule is 'gate'"):
        gp.run(model(tmp_path / "m.onnx", given, update_rule="gate"), given)
    with pytest.raises(DiagnosticError, match="the size 24 of query is not divisible by the 5 heads"):
        gp.run(model(tmp_path / "m.onnx", given, update_rule="gated", q_num_heads=5, kv_num_heads=5), given)


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_spacetodepth_supports_both_modes(mode: str, tmp_path: Path) -> None:
    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    port = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 3, "h", "w"])
    node = helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode=mode)
    graph = helper.make_graph([node], "g", [port], [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=13)
    onnx.save(proto, tmp_path / "m.onnx")
    parts = x.reshape(2, 3, 2, 2, 3, 2)
    order = (0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4)
    expected = parts.transpose(order).reshape(2, 12, 2, 3)
    (found,) = gp.run(gp.load(tmp_path / "m.onnx"), {"x": x}).values()
    np.testing.assert_array_equal(found, expected)
