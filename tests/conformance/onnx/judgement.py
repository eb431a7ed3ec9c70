"""What has to hold of one case, by its name."""

from __future__ import annotations

import pytest

from tests.conformance.onnx.nodes import (
    Unsupported,
    cases,
    data,
    differences,
    reference,
    rewritten,
    run,
    unsupported,
)


def judge_reference(name: str) -> None:
    """The pages compute what the case expects, or say that they lack just the operator that is listed."""
    case, lacking = cases()[name], unsupported().get(name)
    if lacking is not None:
        with pytest.raises(Unsupported, match=f"^{lacking}$"):
            reference(case.model, data(case)[0][0])
        return
    for inputs, expected in data(case):
        assert not differences(reference(case.model, inputs), expected)


def judge_rewriting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime computes the same of the model that we wrote as of the one we read, where it can compute that."""
    # Cases of opsets that are not out yet are loaded, too.
    monkeypatch.setenv("ALLOW_RELEASED_ONNX_OPSET_ONLY", "0")
    case = cases()[name]
    for inputs, expected in data(case):
        try:
            is_right = not differences(run(case.model, inputs), expected)
        except Exception:  # noqa: BLE001  it has no kernel, or its Python interface has no such type
            is_right = False
        if not is_right:
            continue
        assert not differences(run(rewritten(case.model), inputs), expected)
