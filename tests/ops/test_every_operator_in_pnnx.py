"""Every operator on random operands: exported to PNNX and read back, it computes equal results, or is unsupported."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.draws import spread
from tests.every import every
from tests.ops.oracle import one_node
from tests.ops.test_every_operator import TABLE, Case

SOMETIMES = settings(
    max_examples=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)

WITHOUT_A_WORD = {
    *("BitCast", "ConstantOfShape", "ConvInteger", "Dropout", "EyeLike", "MatMulInteger", "MaxUnpool"),
    *("QLinearMatMul", "ReverseSequence", "Unique"),
}
"""Pages that PNNX says nothing of in these cases: no word of PyTorch that pnnx knows is the operator."""


def models(case: Case, name: str) -> Any:
    """Yield the case's model with all operands as inputs, with constant indices and shapes, and with one input only."""
    proto, feeds = one_node(name, case.inputs, case.attributes, opset=case.opset, outputs=case.outputs)
    names = list(feeds)
    for kept in (names, [n for n in names if n == names[0] or feeds[n].dtype.kind == "f"], names[:1]):
        twin = onnx.ModelProto()
        twin.CopyFrom(proto)
        del twin.graph.input[:]
        twin.graph.input.extend(each for each in proto.graph.input if each.name in kept)
        twin.graph.initializer.extend(numpy_helper.from_array(feeds[n], n) for n in names if n not in kept)
        yield twin, {n: feeds[n] for n in kept}


def said(case: Case, name: str, folder: Any) -> bool:
    """Return whether PNNX supports a case; a supported case must compute equal results."""
    path = folder / "one.pnnx.param"
    for proto, feeds in models(case, name):
        model = gp.from_onnx(proto)
        try:
            gp.save(model, path)
        except DiagnosticError:
            continue
        again = gp.load(path)
        expected = gp.run(model, feeds, backend="reference")
        found = gp.run(again, dict(zip(again.inputs, feeds.values(), strict=True)), backend="reference")
        for one, other in zip(expected.values(), found.values(), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            if one.dtype.kind == "f":
                close = 2e-3 if one.dtype == np.float16 else 1e-5
                np.testing.assert_allclose(other, one, rtol=close, atol=close)
            else:
                assert one.tolist() == other.tolist()
        return True
    return False


@every("name", spread(sorted(set(TABLE) - {"Constant", "ConstantOfShape"})))
def test_a_definition_is_the_same_after_pnnx(tmp_path, name):
    found: Counter[bool] = Counter()

    @SOMETIMES
    @given(data=st.data())
    def each(data: st.DataObject) -> None:
        found[said(TABLE[name](data.draw), name, tmp_path)] += 1

    each()
    assert bool(found[True]) == (name not in WITHOUT_A_WORD), "the table of what PNNX has no word for is out of date"
