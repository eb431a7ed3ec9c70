"""Calibration data: equal runs from every source, and errors before the work starts."""

from __future__ import annotations

import zipfile

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.quantization.columns import split_columns
from graphport.quantization.samples import evenly_spaced_indices, gather
from graphport.quantization.survey import survey
from tests.models import model, node, typed

R = np.random.default_rng(0)
X = R.normal(size=(7, 3, 4)).astype(np.float32)


def _graph(shape=("N", 3, 4)):
    return gp.from_onnx(model([node("Relu", ["x"], ["y"])], [("x", list(shape))], [("y", list(shape))])).graph


def _two():
    inputs = [("a", ["N", 2]), ("b", ["N", 2])]
    return gp.from_onnx(model([node("Add", ["a", "b"], ["y"])], inputs, [("y", ["N", 2])])).graph


def _all(samples, batch=3):
    return [inputs for inputs, _ in samples.runs(batch)]


def _stacked(samples, name="x", batch=3):
    return np.concatenate([inputs[name] for inputs in _all(samples, batch)])


def test_runs_hold_up_to_a_batch_of_samples():
    samples = gather(_graph(), {"x": X})
    assert [count for _, count in samples.runs(3)] == [3, 3, 1]
    assert np.array_equal(_stacked(samples), X)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_npz_samples_equal_array_samples(tmp_path, save):
    save(tmp_path / "x.npz", x=X)
    assert np.array_equal(_stacked(gather(_graph(), tmp_path / "x.npz")), X)


def test_an_array_in_fortran_order_is_read_whole(tmp_path):
    np.savez(tmp_path / "x.npz", x=np.asfortranarray(X))
    assert np.array_equal(_stacked(gather(_graph(), tmp_path / "x.npz")), X)


def test_a_folder_has_a_file_for_each_input(tmp_path):
    a, b = R.normal(size=(4, 2)).astype(np.float32), R.normal(size=(4, 2)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", b)
    samples = gather(_two(), tmp_path)
    assert np.array_equal(_stacked(samples, "a"), a)
    assert np.array_equal(_stacked(samples, "b"), b)


def test_files_of_a_folder_follow_each_other(tmp_path):
    for index in range(3):
        np.save(tmp_path / f"{index}.npy", X[2 * index : 2 * index + 2])
    assert np.array_equal(_stacked(gather(_graph(), str(tmp_path))), X[:6])


def test_samples_may_be_a_folder_per_input(tmp_path):
    (tmp_path / "x").mkdir()
    np.save(tmp_path / "x" / "one.npy", X)
    assert np.array_equal(_stacked(gather(_graph(), tmp_path)), X)


@pytest.mark.parametrize(
    "wrap", [lambda items: items, lambda items: lambda: iter(items), iter], ids=["list", "function", "iterator"]
)
def test_iterables_give_runs(wrap):
    samples = gather(_graph(), wrap([{"x": X[:4]}, {"x": X[4:]}]))
    assert np.array_equal(_stacked(samples), X)


def test_samples_may_be_tuples_in_input_order():
    items = [(np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32))]
    assert _all(gather(_two(), items))[0]["b"].tolist() == [[0, 0]]


def test_a_fixed_axis_is_a_whole_run():
    samples = gather(_graph((1, 3, 4)), {"x": X})
    assert [count for _, count in samples.runs(5)] == [1] * 7


def test_static_batch_groups_samples():
    runs = _all(gather(_graph((2, 3, 4)), {"x": X[:6]}))
    assert [inputs["x"].shape for inputs in runs] == [(2, 3, 4)] * 3


def test_samples_may_have_no_batch_axis():
    assert np.array_equal(np.stack([run["x"] for run in _all(gather(_graph((3, 4)), {"x": X}))]), X)


def test_constant_input_is_passed_once():
    inputs = [("x", ["N", 2]), ("s", [2])]
    graph = gp.from_onnx(model([node("Mul", ["x", "s"], ["y"])], inputs, [("y", ["N", 2])])).graph
    samples = gather(graph, {"x": np.ones((5, 2), np.float32), "s": np.asarray([[1.0, 2.0]], np.float32)})
    assert all(run["s"].tolist() == [1.0, 2.0] for run in _all(samples))


def test_runs_of_several_inputs_with_other_layouts_are_whole():
    inputs = [("x", ["N", 2]), typed("r", [], TensorProto.FLOAT)]
    graph = gp.from_onnx(model([node("Mul", ["x", "r"], ["y"])], inputs, [("y", ["N", 2])])).graph
    items = [{"x": np.ones((1, 2), np.float32), "r": np.float32(i)} for i in range(3)]
    assert [float(run["r"]) for run in _all(gather(graph, items))] == [0, 1, 2]


def test_samples_are_selected_and_left_out():
    samples = gather(_graph(), {"x": X})
    assert np.array_equal(_stacked(samples.select_samples(frozenset({1, 5}))), X[[1, 5]])
    rest = np.concatenate([inputs["x"] for inputs, _ in samples.runs(3, leave_out=frozenset({1, 5}))])
    assert np.array_equal(rest, X[[0, 2, 3, 4, 6]])


@pytest.mark.parametrize(("data", "code"), [
    pytest.param({}, "QUANT0002", id="nothing"),
    pytest.param({"z": X}, "QUANT0002", id="another name"),
    pytest.param({"x": X[:, :2]}, "QUANT0002", id="another shape"),
    pytest.param({"x": X[0, 0]}, "QUANT0002", id="another rank"),
    pytest.param({"x": X[:0]}, "QUANT0002", id="no sample"),
    pytest.param({"x": np.zeros((7, 3, 4), np.uint8)}, "QUANT0002", id="bytes for real numbers"),
    pytest.param({"x": np.zeros((7, 3, 4), bool)}, "QUANT0002", id="truths for real numbers"),
    pytest.param({"x": np.zeros((7, 3, 4), np.complex64)}, "QUANT0002", id="complex for real numbers"),
    pytest.param({"x": np.full((7, 3, 4), "a")}, "QUANT0002", id="words for real numbers"),
    pytest.param({"x": np.zeros((7, 3, 4), [("a", "<f4")])}, "QUANT0002", id="records for real numbers"),
    pytest.param({"x": [[1.0, 2.0], [3.0]]}, "QUANT0001", id="rows of several lengths"),
    pytest.param(lambda: None, "QUANT0001", id="a function that gives nothing"),
    pytest.param([(X, X)], "QUANT0002", id="more arrays than inputs"),
    pytest.param(3, "QUANT0001", id="a number"),
    pytest.param("nowhere.npz", "QUANT0001", id="no file"),
])  # fmt: skip
def test_mismatched_samples_are_reported(data, code):
    with pytest.raises(DiagnosticError, match=code):
        gather(_graph(), data)


def test_all_mismatched_samples_are_reported_together():
    with pytest.raises(DiagnosticError) as error:
        gather(_two(), {"a": X, "c": X})
    assert len(error.value.diagnostics) == 3


def test_inputs_must_have_equal_sample_counts():
    with pytest.raises(DiagnosticError, match="a 3, b 2"):
        gather(_two(), {"a": np.ones((3, 2), np.float32), "b": np.ones((2, 2), np.float32)})


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_and_infinity_in_samples_are_rejected(number):
    x = X.copy()
    x[4, 0, 0] = number
    with pytest.raises(DiagnosticError, match=r"QUANT0003.*1 of 7 samples, the first has index 4"):
        survey(gather(_graph(), {"x": x}))


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_float_samples_are_converted_to_the_input_dtype(dtype):
    x = (X + 1 / 3).astype(dtype)
    (run, _), *_ = gather(_graph(), {"x": x}).runs(7)
    assert run["x"].dtype == np.float32
    assert np.array_equal(run["x"], x.astype(np.float32))


def test_folder_files_may_lack_the_sample_axis(tmp_path):
    for index in range(3):
        np.save(tmp_path / f"{index}.npy", X[index])
    assert np.array_equal(_stacked(gather(_graph(), tmp_path)), X[:3])


def test_a_file_that_does_not_fit_is_named(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.save(tmp_path / "b.npy", X[:, :2])
    with pytest.raises(DiagnosticError, match=r"'x' in b.npy have shape \[7, 2, 4\]"):
        gather(_graph(), tmp_path)


def test_wrong_sample_shape_reports_the_expected_shape():
    with pytest.raises(DiagnosticError, match=r"pass samples of shape \[3, 4\], stacked"):
        gather(_graph(), {"x": X[:, :2]})


@pytest.mark.parametrize("length", [30, 200, -5])
def test_an_archive_that_is_cut_off_is_reported(tmp_path, length):
    np.savez(tmp_path / "x.npz", x=X)
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:length])
    with pytest.raises(DiagnosticError, match=r"QUANT0001.*the archive is truncated"):
        gather(_graph(), tmp_path / "x.npz")


def test_a_compressed_archive_with_a_wrong_byte_is_reported(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", x=X)
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[60] ^= 0xFF
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(DiagnosticError, match="QUANT0001"):
        survey(gather(_graph(), tmp_path / "x.npz"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["stored", "compressed"])
def test_fortran_ordered_columns_are_read_row_by_row(tmp_path, save):
    save(tmp_path / "x.npz", x=np.asfortranarray(X))
    column = gather(_graph(), tmp_path / "x.npz").columns["x"]
    assert np.array_equal(np.stack(list(column.rows())), X)
    assert next(column.rows()).base is None


def test_sample_without_sample_axis_reports_a_remedy():
    with pytest.raises(DiagnosticError, match=r"x\[None\] is a single sample of shape \[1, 3, 4\]"):
        gather(_graph(), {"x": X[0]})


def test_array_samples_belong_to_the_only_input():
    assert np.array_equal(_stacked(gather(_graph(), X)), X)


def test_samples_that_share_a_buffer_are_copied():
    def given():
        x = np.zeros((1, 3, 4), np.float32)
        for index in range(4):
            x[:] = index
            yield {"x": x}

    assert _stacked(gather(_graph(), given))[:, 0, 0].tolist() == [0, 1, 2, 3]


def test_large_iterators_are_spilled_to_a_file(monkeypatch):
    monkeypatch.setattr("graphport.quantization.samples._MAX_MEMORY_BYTES", 100)
    samples = gather(_graph(), ({"x": x[None]} for x in X))
    kinds = [type(part).__name__ for _, part in split_columns(samples.columns["x"])]
    assert kinds == ["ArrayColumn"] * 2 + ["SpilledColumn"] * 5
    assert np.array_equal(_stacked(samples), X)
    assert np.array_equal(_stacked(samples), X)


@pytest.mark.parametrize("content", [b"", b"no archive", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x09\x00"])
def test_a_damaged_file_is_reported(tmp_path, content):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(DiagnosticError, match="QUANT0001"):
        gather(_graph(), tmp_path)


def test_a_header_that_promises_more_than_there_is_is_reported(tmp_path):
    np.save(tmp_path / "x.npy", X)
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-8])
    with pytest.raises(DiagnosticError, match="QUANT0001"):
        _all(gather(_graph(), tmp_path))


def test_oversized_npy_header_is_rejected_before_allocation(tmp_path):
    header = b"{'descr': '<f4', 'fortran_order': True, 'shape': (4000000000, 3, 4), }"
    header += b" " * (118 - len(header) - 1) + b"\n"
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with pytest.raises(DiagnosticError, match="QUANT0001"):
        gather(_graph(), tmp_path)


def test_objects_are_not_read(tmp_path):
    np.save(tmp_path / "x.npy", np.asarray([{}, {}], object), allow_pickle=True)
    with pytest.raises(DiagnosticError, match="QUANT0001"):
        gather(_graph(), tmp_path)


def test_names_do_not_lead_out_of_the_folder(tmp_path):
    graph = gp.from_onnx(model([node("Relu", ["../x"], ["y"])], [("../x", ["N", 2])], [("y", ["N", 2])])).graph
    (tmp_path / "inside").mkdir()
    np.save(tmp_path / "x.npy", np.ones((2, 2), np.float32))
    with pytest.raises(DiagnosticError, match="QUANT0001"):
        gather(graph, tmp_path / "inside")


def test_other_files_of_an_archive_do_not_matter(tmp_path):
    np.savez(tmp_path / "x.npz", x=X)
    with zipfile.ZipFile(tmp_path / "x.npz", "a") as archive:
        archive.writestr("readme.txt", "words")
    assert np.array_equal(_stacked(gather(_graph(), tmp_path / "x.npz")), X)


@pytest.mark.parametrize(("count", "wanted", "expected"), [
    (3, 5, {0, 1, 2}), (10, 2, {0, 9}), (9, 3, {0, 4, 8}), (4, 0, set()),
])  # fmt: skip
def test_indices_are_evenly_spaced(count, wanted, expected):
    assert evenly_spaced_indices(count, wanted) == expected
