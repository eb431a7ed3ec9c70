"""Checks of one ONNX node test, by its name."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import graphport as gp
from tests.conformance.onnx.nodes import (
    Unsupported,
    cases,
    data,
    differences,
    forms,
    reference,
    rewritten,
    run,
    unsupported,
)


def judge_reference(name: str) -> None:
    """The reference backend computes the expected outputs, or raises for exactly the listed operator."""
    case, lacking = cases()[name], unsupported().get(name)
    if lacking is not None:
        with pytest.raises(Unsupported, match=f"^{lacking}$"):
            reference(case.model, data(case)[0][0])
        return
    for inputs, expected in data(case):
        assert not differences(reference(case.model, inputs), expected)


def judge_rewriting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime computes equal results for the original and the rewritten model, if it supports the original."""
    # Cases of opsets that are not out yet are loaded, too.
    monkeypatch.setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
    case = cases()[name]
    for inputs, expected in data(case):
        try:
            is_right = not differences(run(case.model, inputs), expected)
        except Exception:  # noqa: BLE001  it has no kernel, or its Python interface lacks the type
            is_right = False
        if not is_right:
            continue
        assert not differences(run(rewritten(case.model), inputs), expected)


def judge_passes(name: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime computes equal results after `verb`, or the expected ones if the original was wrong."""
    monkeypatch.setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
    case = cases()[name]
    inputs, expected = data(case)[0]
    for form, model, given in forms(case.model, inputs):
        try:
            before = run(model, given)
        except Exception:  # noqa: BLE001, S112  it has no kernel, or its Python interface lacks the type
            continue
        rewritten_model, _ = getattr(gp, verb)(gp.from_onnx(model), verify=False)
        after = _typed(run(gp.to_onnx(rewritten_model), given), model)
        found = differences(after, _typed(before, model))
        assert not found or not differences(after, expected), f"{form}: {found}"


def _typed(outputs: list[Any], model: onnx.ModelProto) -> list[Any]:
    """Reinterpret 8-bit floats: ONNX Runtime returns them as uint8, and NaN has several encodings."""
    types = [each.type.tensor_type.elem_type for each in model.graph.output]
    narrow = [onnx.helper.tensor_dtype_to_np_dtype(code) if code else np.dtype(np.uint8) for code in types]
    return [
        x.view(dtype) if isinstance(x, np.ndarray) and x.dtype == np.uint8 and dtype.itemsize == 1 else x
        for x, dtype in zip(outputs, narrow, strict=True)
    ]
