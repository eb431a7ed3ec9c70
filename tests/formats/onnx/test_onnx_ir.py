from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import ModelProto, helper

from graphport.core.diagnostics import DiagnosticError
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, MappedFile
from graphport.formats.onnx import from_ir, from_proto, read, to_ir, to_proto, write
from graphport.formats.onnx.container.types import CODES
from graphport.ir.verify import verify
from tests.every import every
from tests.formats.onnx.models import DATA, model, plain, tensor, weights

LARGE = np.arange(3000, dtype=np.float32)


def sample() -> ModelProto:
    then = helper.make_graph([], "t", [], [tensor("a", [3000])], initializer=[weights("a", LARGE + 2)])
    orelse = helper.make_graph([helper.make_node("Neg", ["w"], ["b"])], "e", [], [tensor("b", [3000])])
    return model(
        [
            helper.make_node("If", ["c"], ["y"], name="choice", then_branch=then, else_branch=orelse),
            helper.make_node("Constant", [], ["k"], name="constant", value=weights("k_value", LARGE + 1)),
        ],
        [tensor("c", [], onnx.TensorProto.BOOL)],
        [tensor("y", [3000]), tensor("k", [3000])],
        initializer=[weights("w", LARGE), weights("text", np.array(["a", "b"], object))],
    )


def test_model_round_trips_through_onnx_ir() -> None:
    proto = sample()
    graph = from_ir(to_ir(from_proto(proto)))
    verify(graph)
    assert plain(to_proto(graph)) == plain(ir.to_proto(ir.from_proto(proto)))


def test_their_tensors_are_views_on_our_storages(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(sample().SerializeToString())
    ours = to_ir(read(tmp_path / "net.onnx"))
    found = ours.graph.initializers["w"].const_value
    assert isinstance(found, ir.TensorProtocol)
    assert isinstance(found.raw, FileStorage)
    assert isinstance(found.raw.file, MappedFile)
    assert (found.name, found.dtype, found.size, found.nbytes) == ("w", ir.DataType.FLOAT, 3000, 12000)
    np.testing.assert_array_equal(found.numpy(), LARGE)
    np.testing.assert_array_equal(np.asarray(found), LARGE)
    np.testing.assert_array_equal(np.from_dlpack(found), LARGE)
    assert found.tobytes() == LARGE.tobytes()
    inner = next(iter(ours.graph.node("choice").attributes["then_branch"].as_graph().initializers.values()))
    attribute = ours.graph.node("constant").attributes["value"].as_tensor()
    assert inner.const_value is not None
    np.testing.assert_array_equal(inner.const_value.numpy(), LARGE + 2)
    np.testing.assert_array_equal(attribute.numpy(), LARGE + 1)


def test_onnx_ir_saves_our_models(tmp_path: Path) -> None:
    ours = to_ir(from_proto(sample()))
    ir.save(ours, tmp_path / "net.onnx", external_data="net.data")
    found = {value.name: value.storage for value in read(tmp_path / "net.onnx").constants}
    assert found["w"] is not None
    np.testing.assert_array_equal(found["w"].numpy(), LARGE)
    assert plain(ir.to_proto(ours)) == plain(ir.to_proto(ir.from_proto(sample())))


def test_our_storages_are_views_on_their_tensors() -> None:
    theirs = ir.from_proto(sample())
    array = np.arange(5, dtype=np.float32)
    theirs.graph.initializers["w"].const_value = ir.tensor(array, name="w")
    theirs.graph.outputs[0].shape = None
    graph = from_ir(theirs)
    storage = next(iter(graph.constants)).storage
    assert storage is not None
    assert np.shares_memory(storage.numpy(), array)
    assert not storage.numpy().flags.writeable
    assert isinstance(theirs.graph.initializers["w"].const_value, ir.Tensor)


@every("dtype", [dtype for dtype in DType if dtype is not DType.STRING], ids=str)
def test_weights_of_every_type_are_exchanged(dtype: DType) -> None:
    array = np.ones(5000).astype(dtype.numpy)
    proto = model([], [], [tensor("w", [5000], CODES[dtype])], initializer=[weights("w", array)])
    there = to_ir(from_proto(proto))
    given = there.graph.initializers["w"].const_value
    assert given is not None
    assert given.tobytes() == proto.graph.initializer[0].raw_data
    storage = next(iter(from_ir(there).constants)).storage
    assert storage is not None
    assert b"".join(bytes(chunk) for chunk in storage.chunks()) == proto.graph.initializer[0].raw_data


def test_a_real_model_is_the_same_after_both_ways(tmp_path: Path) -> None:
    path = DATA / "light_squeezenet.onnx"
    write(from_ir(to_ir(read(path))), tmp_path / "net.onnx")
    assert plain(onnx.load(tmp_path / "net.onnx")).graph == plain(ir.to_proto(ir.load(path))).graph


def test_sparse_initializers_become_dense() -> None:
    dense = np.zeros(1000, np.float32)
    dense[7] = 3
    proto = model([helper.make_node("Add", ["x", "w"], ["y"])], [tensor("x", [1000])], [tensor("y", [1000])])
    sparse = proto.graph.sparse_initializer.add(dims=[1000])
    sparse.values.CopyFrom(weights("w", dense[[7]]))
    sparse.indices.CopyFrom(weights("", np.array([7])))
    found = to_ir(from_proto(proto)).graph.initializers["w"].const_value
    assert found is not None
    np.testing.assert_array_equal(found.numpy(), dense)


def test_without_onnx_ir_there_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnx_ir":
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(DiagnosticError, match="ONNX0010"):
        to_ir(from_proto(sample()))
