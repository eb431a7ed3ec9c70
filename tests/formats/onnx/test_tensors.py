from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from graphport.core.diagnostics import Source
from graphport.core.dtypes import DType
from graphport.core.storage import FileStorage, Storage
from graphport.formats.onnx.container.external import Folder
from graphport.formats.onnx.container.findings import Findings
from graphport.formats.onnx.container.tensors import Tensors
from graphport.formats.onnx.container.types import CODES
from tests.every import every

NUMERIC = [dtype for dtype in DType if dtype is not DType.STRING]


def read(proto: TensorProto | SparseTensorProto) -> Storage:
    findings = Findings(Source("net.onnx"))
    tensors = Tensors(findings, Folder(None))
    found = tensors.read(proto, "t") if isinstance(proto, TensorProto) else tensors.read_sparse(proto, "t")
    assert not findings.diagnostics
    assert found is not None
    return found


def refusal(proto: TensorProto | SparseTensorProto) -> str:
    findings = Findings(Source("net.onnx"))
    tensors = Tensors(findings, Folder(None))
    assert (tensors.read(proto, "t") if isinstance(proto, TensorProto) else tensors.read_sparse(proto, "t")) is None
    assert len(findings.diagnostics) == 1
    return str(findings.diagnostics[0])


def numbers(dtype: DType) -> np.ndarray[Any, Any]:
    """Seven numbers that the element type holds."""
    if dtype.kind == "c":
        return np.array([0, 1, -1, 2j, 1 + 1j, -0.5j, 3], dtype.numpy)
    fitting = [0, 1, 1, 0, 1, 0, 1] if dtype.bits < 4 or dtype.kind == "b" else [0, 1, 2, 3, 4, 6, 1]
    return np.array(fitting).astype(dtype.numpy)


@every("dtype", NUMERIC, ids=str)
def test_raw_data_of_every_type_is_a_view(dtype: DType) -> None:
    array = numbers(dtype)
    storage = read(numpy_helper.from_array(array, "w"))
    assert isinstance(storage, FileStorage)
    assert (storage.dtype, storage.shape) == (dtype, (7,))
    assert storage.numpy().tobytes() == array.tobytes()


@every("dtype", NUMERIC, ids=str)
def test_typed_fields_of_every_type_are_read(dtype: DType) -> None:
    array = numbers(dtype)
    values = (
        array.tolist() if dtype.kind in "iucb" or dtype in (DType.FLOAT32, DType.FLOAT64) else array.astype(np.float32)
    )
    proto = helper.make_tensor("w", CODES[dtype], array.shape, values)
    assert not proto.raw_data
    storage = read(proto)
    assert (storage.dtype, storage.shape) == (dtype, (7,))
    assert storage.numpy().tobytes() == array.tobytes()
    assert b"".join(bytes(c) for c in storage.chunks()) == numpy_helper.from_array(array).raw_data


def test_strings_keep_invalid_utf8() -> None:
    proto = TensorProto(data_type=TensorProto.STRING, dims=[1, 2], string_data=["é".encode(), b"\xff"])
    array = read(proto).numpy()
    assert array.shape == (1, 2)
    assert [text.encode("utf-8", "surrogateescape") for text in array[0]] == ["é".encode(), b"\xff"]


def test_a_tensor_without_entries_needs_no_data() -> None:
    assert read(TensorProto(data_type=TensorProto.FLOAT, dims=[0, 3])).numpy().shape == (0, 3)


@pytest.mark.parametrize(
    ("proto", "code"),
    [
        pytest.param(TensorProto(data_type=99, dims=[1]), "ONNX0301", id="unknown type"),
        pytest.param(TensorProto(data_type=27, dims=[1]), "ONNX0301", id="six bits"),
        pytest.param(TensorProto(data_type=1, dims=[2], raw_data=b"1234"), "ONNX0302", id="too few bytes"),
        pytest.param(TensorProto(data_type=22, dims=[3], raw_data=b"123"), "ONNX0302", id="too many nibbles"),
        pytest.param(TensorProto(data_type=1, dims=[2]), "ONNX0302", id="no data"),
        pytest.param(TensorProto(data_type=1, dims=[2], float_data=[1]), "ONNX0302", id="too few entries"),
        pytest.param(TensorProto(data_type=1, dims=[-2], raw_data=b""), "ONNX0303", id="negative dim"),
        pytest.param(TensorProto(data_type=1, dims=[2**40, 2**40]), "ONNX0303", id="more than any memory"),
        pytest.param(TensorProto(data_type=1, dims=[1] * 65, raw_data=b"1234"), "ONNX0303", id="too many axes"),
        pytest.param(
            TensorProto(data_type=1, dims=[1], raw_data=b"1234", float_data=[1]), "ONNX0304", id="in two fields"
        ),
        pytest.param(TensorProto(data_type=1, dims=[1], int64_data=[1]), "ONNX0304", id="in the wrong field"),
        pytest.param(TensorProto(data_type=8, dims=[1], raw_data=b"a"), "ONNX0304", id="text in raw_data"),
        pytest.param(TensorProto(data_type=2, dims=[1], int32_data=[256]), "ONNX0305", id="out of range"),
        pytest.param(TensorProto(data_type=10, dims=[1], int32_data=[1 << 16]), "ONNX0305", id="no half pattern"),
        pytest.param(
            TensorProto(data_type=1, dims=[1], segment=TensorProto.Segment(begin=0, end=4)), "ONNX0306", id="segment"
        ),
        pytest.param(
            TensorProto(data_type=1, dims=[1], segment=TensorProto.Segment(begin=0, end=-1)),
            "ONNX0306",
            id="forged cut",
        ),
    ],
)
def test_tensors_that_are_wrong_are_refused(proto: TensorProto, code: str) -> None:
    assert code in refusal(proto)


def test_sparse_tensor_is_read_as_dense() -> None:
    proto = SparseTensorProto(
        values=numpy_helper.from_array(np.array([5.0, 7.0], np.float32), "w"),
        indices=numpy_helper.from_array(np.array([[0, 1], [2, 0]])),
        dims=[3, 2],
    )
    np.testing.assert_array_equal(read(proto).numpy(), [[0, 5], [0, 0], [7, 0]])


@pytest.mark.parametrize(
    ("indices", "values"),
    [
        pytest.param([0, 1, 2], [5.0, 7.0], id="counts differ"),
        pytest.param([[0], [1]], [5.0, 7.0], id="wrong rank"),
        pytest.param([0, 6], [5.0, 7.0], id="outside"),
        pytest.param([0, 1], [[5.0, 7.0]], id="values are no list"),
    ],
)
def test_sparse_tensors_that_are_wrong_are_refused(indices: list[Any], values: list[Any]) -> None:
    proto = SparseTensorProto(
        values=numpy_helper.from_array(np.array(values, np.float32), "w"),
        indices=numpy_helper.from_array(np.array(indices)),
        dims=[3, 2],
    )
    assert "ONNX0307" in refusal(proto)
