"""Every model that pnnx wrote: byte by byte the same when written again, and canonically what PyTorch computes."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.coverage import missing_operators
from graphport.conversion.legalize import is_canonical
from graphport.formats import FORMATS
from graphport.formats.pnnx import read, write
from tests.draws import spread
from tests.every import every
from tests.formats.pnnx import samples


@pytest.mark.parametrize("part", range(8))
def test_files_written_by_pnnx_round_trip_byte_by_byte(tmp_path, part):
    for name in samples.names()[part::8]:
        path = samples.unpack(name, tmp_path)
        graph, _ = read(path, tolerant=True)
        write(graph, tmp_path / "again.pnnx.param")
        assert (tmp_path / "again.pnnx.param").read_bytes() == samples.content(f"{name}{samples.TEXT}"), name
        assert (tmp_path / "again.pnnx.bin").read_bytes() == samples.content(f"{name}{samples.WEIGHTS}"), name


@every("name", spread(samples.names()))
def test_canonical_form_computes_what_pytorch_does(tmp_path, name):
    model = gp.load(samples.unpack(name, tmp_path))
    assert is_canonical(model.graph)
    inputs, outputs = samples.case(name)
    found = gp.run(model, dict(zip(model.inputs, inputs, strict=True)), backend="onnxruntime")
    for result, expected in zip(found.values(), outputs, strict=True):
        assert (result.dtype.name, list(result.shape)) == (expected["dtype"], expected["shape"])
        values = np.frombuffer(bytes.fromhex(expected["values"]), result.dtype)
        part = result.reshape(-1)[:: expected["every"]]
        if result.dtype.kind == "f":
            largest = np.abs(values[np.isfinite(values)]).max(initial=1.0)
            np.testing.assert_allclose(part, values, rtol=1e-5, atol=1e-5 * largest)
        else:
            assert part.tolist() == values.tolist()


def test_most_op_types_of_the_census_have_a_rule():
    from graphport.ops import registry
    from graphport.ops.declare import IMPORT_RULES

    registry.load("pnnx")
    words = {op_type for dialect, op_type in IMPORT_RULES if dialect == "pnnx"} | set(registry.patterns("pnnx"))
    assert len(words) > 600
    assert len({op_type for op_type in words if op_type.startswith("nn.")}) >= 90
    assert len({op_type for op_type in words if op_type.startswith("F.")}) >= 75


@pytest.mark.parametrize("part", spread([2, 4, 6, 0]))
def test_export_to_pnnx_preserves_the_semantics(tmp_path, part):
    said = 0
    for name in samples.names()[part::8]:
        model = gp.load(samples.unpack(name, tmp_path))
        inputs, _ = samples.case(name)
        if missing_operators(model.graph, FORMATS["pnnx"]):
            continue
        said += 1
        gp.save(model, tmp_path / "again.pnnx.param")
        again = gp.load(tmp_path / "again.pnnx.param")
        expected = gp.run(model, dict(zip(model.inputs, inputs, strict=True)), backend="onnxruntime")
        found = gp.run(again, dict(zip(again.inputs, inputs, strict=True)), backend="onnxruntime")
        for one, other in zip(expected.values(), found.values(), strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), name
            np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5, err_msg=name)
    assert said > 50
