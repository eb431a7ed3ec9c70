"""Files in tract's flavour: tract reads them, and computes the results of the original text."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from tests.formats.nnef.tract.test_files import CASES as FILE_CASES
from tests.formats.nnef.tract.test_files import FILES, runs

CASES = json.loads(Path(__file__).with_name("words.json").read_text())
RUN = """
import json, pathlib, sys, numpy, tract
framework = tract.nnef().with_onnx().with_pulse().with_tract_extra().with_tract_transformers()
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    given = numpy.load(folder / "given.npz")
    model = framework.load(str(folder / "model")).into_runnable()
    found = model.run([given[name] for name in given])
    numpy.savez(folder / "found.npz", *[tensor.to_numpy() for tensor in found])
"""


def computed(folder):
    """Run every model below a folder in tract, in a separate process."""
    done = subprocess.run([sys.executable, "-c", RUN, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.split("Stack backtrace", maxsplit=1)[0][-600:]


def test_op_types_are_written_so_that_tract_computes_equal_results(tmp_path):
    written, refused = [], []
    for name, case in CASES.items():
        (tmp_path / "read" / name).mkdir(parents=True)
        (tmp_path / "read" / name / "graph.nnef").write_text(case["text"])
        model = gp.load(tmp_path / "read" / name)
        place = tmp_path / "written" / name
        place.mkdir(parents=True)
        try:
            gp.save(model, place / "model", format="nnef", flavour="tract")
        except DiagnosticError as error:
            refused.append((name, error.diagnostics[0].message))
            place.rmdir()
            continue
        given = {key: np.asarray(each, model.inputs[key].fact.dtype.numpy) for key, each in case["inputs"].items()}
        np.savez(place / "given.npz", *given.values())
        written.append(name)
    computed(tmp_path / "written")
    for name in written:
        found = np.load(tmp_path / "written" / name / "found.npz")
        for array, expected in zip(found.values(), CASES[name]["outputs"], strict=True):
            np.testing.assert_allclose(array.astype(float), np.asarray(expected, float), 1e-3, 1e-3, err_msg=name)
    assert [name for name, _ in refused] == REFUSED, refused


REFUSED = []


def test_files_are_written_back(tmp_path):
    expected = {}
    for file in (name for name in FILE_CASES if not FILE_CASES[name]["other"]):
        model = gp.load(FILES / file)
        place = tmp_path / file
        place.mkdir()
        gp.save(model, place / "model", format="nnef", flavour="tract")
        ((given, expected[file]),) = runs(FILE_CASES[file])
        np.savez(place / "given.npz", **dict(zip(model.inputs, given, strict=True)))
    computed(tmp_path)
    for file, results in expected.items():
        near = max(FILE_CASES[file]["tolerance"], 1e-3)
        for array, other in zip(np.load(tmp_path / file / "found.npz").values(), results, strict=True):
            np.testing.assert_allclose(array, other, near, near, err_msg=file)


def test_dynamic_dims_are_symbols(tmp_path):
    model = gp.load(FILES / "llama_cache_dyn.opl.nnef.tgz")
    gp.save(model, tmp_path / "out", format="nnef", flavour="tract")
    text = (tmp_path / "out" / "graph.nnef").read_text()
    assert "extension tract_symbol S;" in text
    again = gp.load(tmp_path / "out")
    for given, expected in runs(FILE_CASES["llama_cache_dyn.opl.nnef.tgz"]):
        found = gp.run(again, dict(zip(model.inputs, given, strict=True)))
        np.testing.assert_allclose(next(iter(found.values())), expected[0], 1e-3, 1e-3)


def test_an_option_that_is_none_is_refused(tmp_path):
    model = gp.load(FILES / "one_hot.opl.nnef.tgz")
    with pytest.raises(DiagnosticError, match="IO0008"):
        gp.save(model, tmp_path / "out", format="nnef", flavor="tract")
    model = gp.load(FILES / "deconv2d_groups.opl.nnef.tgz")
    with pytest.raises(DiagnosticError, match="NNEF0773"):
        gp.save(model, tmp_path / "out", format="nnef", flavour="onnx")


def test_a_text_for_both_has_no_operators_of_the_source(tmp_path):
    (tmp_path / "a.nnef").write_text(
        "version 1.0;\nextension KHR_enable_operator_expressions;\ngraph g( x ) -> ( y )\n"
        "{\n    x = external(shape = [3]);\n    y = !(x < 1.0 && x >= 0.0);\n}\n"
    )
    (tmp_path / "all" / "one").mkdir(parents=True)
    gp.save(gp.load(tmp_path / "a.nnef"), tmp_path / "all" / "one" / "model", format="nnef", flavour="both")
    np.savez(tmp_path / "all" / "one" / "given.npz", x=np.array([-1, 0.5, 2], np.float32))
    computed(tmp_path / "all")
    (found,) = np.load(tmp_path / "all" / "one" / "found.npz").values()
    assert found.tolist() == [True, False, True]


@pytest.mark.parametrize("case", ["int4", "uint4", "fine scale", "also added"])
def test_weights_in_blocks_of_four_bits_stay_in_blocks(tmp_path, case):
    rng = np.random.default_rng(7)
    rows, columns = 16, 64
    blocks = rows, columns // 32
    scale = rng.uniform(0.1, 0.2, blocks).astype(np.float16).astype(np.float32)
    if case == "fine scale":
        scale = scale * np.float32(1 + 2**-16)
    kind, shift = (onnx.TensorProto.UINT4, 8) if case == "uint4" else (onnx.TensorProto.INT4, 0)
    codes = rng.integers(-8, 8, (rows, columns)) + shift
    tensors = [
        onnx.helper.make_tensor("w", kind, codes.shape, codes.reshape(-1)),
        onnx.numpy_helper.from_array(scale, "s"),
        onnx.helper.make_tensor("z", kind, blocks, [shift] * scale.size),
    ]
    nodes = [
        onnx.helper.make_node("DequantizeLinear", ["w", "s", "z"], ["d"], axis=1, block_size=32),
        onnx.helper.make_node("Gemm", ["x", "d"], ["y"], transB=1),
    ]
    if case == "also added":
        nodes += [onnx.helper.make_node("Neg", ["d"], ["n"])]
    results = {"y": [3, rows], "n": [rows, columns]} if case == "also added" else {"y": [3, rows]}
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in each.items()]
        for each in ({"x": [3, columns]}, results)
    )
    graph = onnx.helper.make_graph(nodes, "g", inputs, outputs, tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "a.onnx")
    place = tmp_path / "all" / "one"
    place.mkdir(parents=True)
    gp.save(gp.load(tmp_path / "a.onnx"), place / "model", format="nnef", flavour="tract")
    data = max(file.stat().st_size for file in (place / "model").rglob("*.dat"))
    # Blocks of 18 bytes; a byte for each code; floats if an operator other than MatMul reads them.
    assert data == 128 + {"fine scale": codes.size, "also added": codes.size * 4}.get(case, scale.size * 18)
    x = rng.normal(size=(3, columns)).astype(np.float32)
    np.savez(place / "given.npz", x=x)
    computed(tmp_path / "all")
    found = next(iter(np.load(place / "found.npz").values()))
    expected = x @ ((codes - shift) * np.repeat(scale, 32, axis=1)).astype(np.float32).T
    np.testing.assert_allclose(found, expected, 1e-4, 1e-4)
    again = gp.run(gp.load(place / "model"), {"x": x})
    np.testing.assert_allclose(next(iter(again.values())), expected, 1e-4, 1e-4)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_nothing_is_left_of_bits_that_are_moved_further_than_there_are(tmp_path, direction):
    x, by = np.array([200, 200, 3, 255], np.uint8), np.array([8, 7, 1, 64], np.uint8)
    node = onnx.helper.make_node("BitShift", ["x", "by"], ["y"], direction=direction)
    inputs, outputs = (
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [4]) for name in names]
        for names in (("x", "by"), ("y",))
    )
    graph = onnx.helper.make_graph([node], "g", inputs, outputs)
    onnx.save(onnx.helper.make_model(graph), tmp_path / "a.onnx")
    place = tmp_path / "all" / "one"
    place.mkdir(parents=True)
    gp.save(gp.load(tmp_path / "a.onnx"), place / "model", format="nnef", flavour="tract")
    np.savez(place / "given.npz", x=x, by=by)
    computed(tmp_path / "all")
    (found,) = np.load(place / "found.npz").values()
    assert found.tolist() == ([0, 0, 6, 0] if direction == "LEFT" else [0, 1, 1, 0])
