"""State that persists between runs, compared with LiteRT over three runs of one interpreter."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np

import graphport as gp
from tests.formats.tflite.test_cases import CASES, recorded

if TYPE_CHECKING:
    from pathlib import Path

_THRICE = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

model = Interpreter(sys.argv[1], experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
model.allocate_tensors()
(port,) = model.get_input_details()
found = []
for _ in range(3):
    model.set_tensor(port["index"], np.load(sys.argv[2]))
    model.invoke()
    found.append(np.array(model.get_tensor(model.get_output_details()[0]["index"])))
np.save(sys.argv[2], np.stack(found))
"""


def thrice(path: Path, x: np.ndarray, place: Path) -> np.ndarray:
    """Return LiteRT's results of three runs on one input."""
    np.save(place, x)
    subprocess.run([sys.executable, "-c", _THRICE, str(path), str(place)], check=True, capture_output=True)
    return np.load(place)


def test_states_are_kept_here_and_in_a_file_that_is_written_anew(tmp_path: Path) -> None:
    for name in ("accumulates", "reads_before_and_after", "svdf", "sequence_lstm", "coupled_lstm"):
        source, place = CASES / f"{name}.tflite", tmp_path / f"{name}.tflite"
        x = recorded(name)[0][0]
        expected = thrice(source, x, tmp_path / "x.npy")
        model = gp.load(source)
        session = gp.session(model)
        first = next(iter(model.inputs))
        ours = [session.run({first: x}).ordered[0] for _ in range(3)]
        np.testing.assert_allclose(np.stack(ours), expected, rtol=1e-5, atol=1e-5, err_msg=name)
        model.graph.rename(model.graph.inputs[0], "anew")
        gp.save(model, place)
        np.testing.assert_allclose(thrice(place, x, tmp_path / "x.npy"), expected, rtol=1e-5, atol=1e-5, err_msg=name)


def test_an_output_that_is_also_a_state_keeps_its_name_in_openvino(tmp_path: Path) -> None:
    proof = gp.convert(CASES / "accumulates.tflite", tmp_path / "net.xml").proof
    assert proof is not None
    assert proof.passed, proof.sentence
    assert [output.name for output in proof.outputs[:2]] == ["after", "after"]
    assert list(gp.load(tmp_path / "net.xml").outputs) == ["after", "total_next"]


def test_a_variable_without_assignment_is_a_constant() -> None:
    assert list(gp.load(CASES / "accumulates.tflite").outputs) == ["after"]
    assert list(gp.load(CASES / "accumulates.tflite").inputs) == ["x0", "total"]


def test_an_input_that_is_returned_keeps_its_name() -> None:
    model = gp.load(CASES / "reads_before_and_after.tflite")
    assert list(model.inputs) == ["x0", "total"]
    assert list(model.outputs) == ["after", "before"]
    found = gp.run(model, {"x0": np.ones((2, 3), np.float32)})
    assert [float(each.max()) for each in found.ordered] == [3, 2]


def test_a_hash_table_is_a_constant_that_is_searched() -> None:
    model = gp.load(CASES / "hash_table.tflite")
    assert list(model.inputs) == ["x0"]
    found = gp.run(model, {"x0": np.array(["d", "", "bc"], object)}).ordered[0]
    assert found.tolist() == [7, -1, 6]
