"""The backend that hands models to OpenVINO as IR files."""

import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import openvino
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.backends import prepare
from tests.formats.openvino.documents import Layer, constant, parameter, write_ir


def model(folder):
    layers = [
        parameter("x", "?,3"),
        constant("w", [1, 2, 3], "float32"),
        Layer("y", "opset1.Multiply", {}, ["x", "w"]),
        Layer("z", "opset1.ReLU", {}, ["y"]),
    ]
    return gp.load(write_ir(folder, layers, ["z", "y"]))


X = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
Y = X * np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_outputs_are_named_and_in_order(threads, tmp_path):
    found = prepare(model(tmp_path).graph, "openvino", threads=threads).run({"x": X})
    assert list(found) == ["z", "y"]
    np.testing.assert_array_equal(found["z"], np.maximum(Y, 0))


def test_every_value_is_there_on_demand(tmp_path):
    found = gp.run(model(tmp_path), {"x": X}, backend="openvino", every_value=True)
    assert set(found) == {"y", "z"}
    np.testing.assert_array_equal(found["y"], Y)


def test_numbers_are_computed_in_float32(tmp_path):
    x = np.array([[1 + 2**-20, 1, 1]], np.float32)
    np.testing.assert_array_equal(gp.run(model(tmp_path), {"x": x}, backend="openvino")["y"], x * [1, 2, 3])


def test_reported_to_be_quick_it_computes_as_alone(tmp_path):
    core, graph = openvino.Core(), model(tmp_path).graph
    told = ("INFERENCE_PRECISION_HINT", "DYNAMIC_QUANTIZATION_GROUP_SIZE")
    quick = prepare(graph, "openvino", quick=True, threads=1)
    assert [quick._compiled.get_property(name) for name in told] == [core.get_property("CPU", name) for name in told]
    assert quick._compiled.get_property("INFERENCE_NUM_THREADS") == 1
    # By itself it rounds activations for weights that are compressed, in groups of some size.
    careful = prepare(graph, "openvino", threads=1)
    assert [careful._compiled.get_property(name) for name in told] == [openvino.Type.f32, 0]


def one_node(op, *types, **attributes):
    inputs = [helper.make_tensor_value_info(f"i{n}", kind, shape) for n, (kind, shape) in enumerate(types)]
    output = helper.make_tensor_value_info("y", types[0][0], None)
    node = helper.make_node(op, [value.name for value in inputs], ["y"], **attributes)
    return gp.from_onnx(
        helper.make_model(helper.make_graph([node], "g", inputs, [output]), opset_imports=[helper.make_opsetid("", 21)])
    )


@pytest.mark.parametrize("numbers", [[0.5, -1.5], 0.5], ids=["vector", "scalar"])
def test_narrow_floating_point_numbers_go_in_and_out(numbers):
    x = np.array(numbers, ml_dtypes.bfloat16)
    found = gp.run(one_node("Relu", (TensorProto.BFLOAT16, x.shape)), {"i0": x}, backend="openvino")["y"]
    assert found.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found, np.maximum(x, 0))


def test_inexpressible_operators_are_reported():
    found, op_type = one_node("StringConcat", *[(TensorProto.STRING, [1])] * 2), np.array(["a"], object)
    with pytest.raises(gp.DiagnosticError, match="RUN0003"):
        gp.run(found, {"i0": op_type, "i1": op_type}, backend="openvino")


def test_faults_of_the_run_are_reported_on_one_thread_too(tmp_path):
    layers = [
        parameter("x", "?"),
        parameter("s", "2", "i64"),
        Layer("y", "opset1.Reshape", {"special_zero": "false"}, ["x", "s"]),
    ]
    session = prepare(gp.load(write_ir(tmp_path, layers, ["y"])).graph, "openvino", threads=1)
    with pytest.raises(gp.DiagnosticError, match="RUN0005"):
        session.run({"x": np.zeros(5, np.float32), "s": np.array([2, 3])})


def test_one_session_takes_inputs_of_many_lengths(tmp_path):
    session = prepare(model(tmp_path).graph, "openvino")
    for count in (1, 3, 2, 1):
        x = np.arange(3 * count, dtype=np.float32).reshape(count, 3)
        first = session.run({"x": x})["y"]
        second = session.run({"x": -x})["y"]
        np.testing.assert_array_equal(first, x * [1, 2, 3])
        np.testing.assert_array_equal(second, -first)


def test_a_session_runs_on_after_a_run_that_failed(tmp_path):
    layers = [
        parameter("x", "?"),
        parameter("s", "2", "i64"),
        Layer("y", "opset1.Reshape", {"special_zero": "false"}, ["x", "s"]),
    ]
    session = prepare(gp.load(write_ir(tmp_path, layers, ["y"])).graph, "openvino")
    x = np.arange(6, dtype=np.float32)
    for _ in range(2):
        with pytest.raises(gp.DiagnosticError, match="RUN0005"):
            session.run({"x": x[:5], "s": np.array([2, 3])})
        np.testing.assert_array_equal(session.run({"x": x, "s": np.array([2, 3])})["y"], x.reshape(2, 3))


PROGRAM = """
import gc, os, signal, sys
import numpy as np
import graphport as gp
from tests.models import perceptron

model = gp.from_onnx(perceptron())
for _ in range(2):
    sessions = [gp.session(model, "openvino") for _ in range(2)]
    del sessions[0]
    gc.collect()
    del sessions
gc.collect()
"""
SIGNAL = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
os.kill(os.getpid(), signal.SIGTERM)
"""
FORK = """
process = os.fork()
if not process:
    signal.alarm(60)
    (y,) = gp.run(model, {"x": np.ones((1, 4), np.float32)}, backend="openvino").values()
    os._exit(7 if y.shape[0] == 1 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) % 256)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX systems alone")
@pytest.mark.parametrize("then", [SIGNAL, FORK], ids=["a signal", "a forked process"])
def test_what_comes_after_sessions(then):
    """In a process of its own, which a fault would end."""
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", PROGRAM + then]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 7, done.stderr
