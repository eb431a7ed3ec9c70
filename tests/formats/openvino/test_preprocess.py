"""The section `pre-process`: its means are subtracted, as the runtime subtracts them, and stay in the file."""

import numpy as np
import pytest

import graphport as gp
from graphport.formats.openvino import read, write
from tests.formats.openvino.documents import Layer, parameter, write_ir

WEIGHTS = np.arange(16, dtype=np.float32)
VALUES = ['value="1"', 'value="2.5"']
PICTURES = ['offset="0" size="16"', 'offset="16" size="16"']


def written(folder, means, *, shape="1,2,2,2", kind="f32", of='reference-layer-name="x"', ids=(0, 1, 2), version="10"):
    path = write_ir(folder, [parameter("x", shape, kind), Layer("y", "opset1.ReLU", {}, ["x"])], ["y"], version=version)
    path.with_suffix(".bin").write_bytes(WEIGHTS.tobytes())
    said = "".join(f'<channel id="{n}"><mean {mean} /></channel>' for n, mean in zip(ids, means, strict=False))
    section = f'<pre-process mean-precision="FP32" {of}>{said}</pre-process>'
    path.write_text(path.read_text().replace("<rt_info />", section))
    return path


@pytest.mark.parametrize(
    ("means", "options", "expected"),
    [
        pytest.param(VALUES, {}, [[1.0], [2.5]], id="numbers"),
        pytest.param(VALUES, {"version": "11"}, [[1.0], [2.5]], id="version 11"),
        pytest.param(VALUES, {"ids": (1, 0)}, [[2.5], [1.0]], id="channels in another order"),
        pytest.param(VALUES, {"of": ""}, [[1.0], [2.5]], id="the only picture"),
        pytest.param(PICTURES, {}, [[0, 1, 2, 3], [4, 5, 6, 7]], id="pictures"),
        pytest.param(VALUES, {"shape": "1,2"}, [[1.0], [2.5]], id="no plane"),
        pytest.param(VALUES, {"kind": "f16"}, [[1.0], [2.5]], id="narrow numbers"),
        pytest.param([], {}, [[0.0], [0.0]], id="none"),
    ],
)
def test_means_are_subtracted_as_the_runtime_does(means, options, expected, tmp_path):
    import openvino

    path = written(tmp_path, means, **options)
    model = gp.load(path)
    fact = model.inputs["x"].fact
    x = (np.arange(np.prod(fact.shape)) + 10).reshape(fact.shape).astype(fact.dtype.numpy)
    found = gp.run(model, {"x": x})["y"]
    np.testing.assert_array_equal(x - found, np.broadcast_to(np.array(expected), (2, x.size // 2)).reshape(x.shape))
    compiled = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_array_equal(compiled([x])[0], found)


@pytest.mark.parametrize(
    ("means", "options"),
    [
        pytest.param(VALUES[:1], {}, id="too few"),
        pytest.param([*VALUES, VALUES[0]], {}, id="too many"),
        pytest.param([*VALUES, VALUES[0]], {"ids": (0, 1, 1)}, id="twice"),
        pytest.param(VALUES, {"ids": (0, 5)}, id="a channel that is none"),
        pytest.param(VALUES, {"ids": (0, "a")}, id="a channel in words"),
        pytest.param(VALUES, {"of": 'reference-layer-name="z"'}, id="an input that is none"),
        pytest.param(VALUES, {"of": "", "shape": "1,2"}, id="no picture"),
        pytest.param(VALUES, {"shape": "?,?,2,2"}, id="open channels"),
        pytest.param(VALUES, {"shape": "..."}, id="any rank"),
        pytest.param([VALUES[0], PICTURES[0]], {}, id="a number and a picture"),
        pytest.param([VALUES[0], 'value="one"'], {}, id="in words"),
        pytest.param([VALUES[0], 'mine="1"'], {}, id="neither"),
        pytest.param([PICTURES[0], 'offset="56" size="16"'], {}, id="past the weights"),
        pytest.param([PICTURES[0], f'offset="{2**64}" size="16"'], {}, id="far past the weights"),
        pytest.param([PICTURES[0], 'offset="-4" size="16"'], {}, id="in front of the weights"),
        pytest.param(['offset="0" size="8"', 'offset="8" size="8"'], {}, id="too few bytes"),
    ],
)
def test_means_that_cannot_be_applied_are_reported(means, options, tmp_path):
    (finding,) = [found for found in gp.check(written(tmp_path, means, **options)) if found.is_error]
    assert finding.code == "OV0007"


def test_the_section_is_written_again(tmp_path):
    path = written(tmp_path, VALUES)
    write(read(path)[0], tmp_path / "once.xml")
    write(read(tmp_path / "once.xml")[0], tmp_path / "twice.xml")
    assert (tmp_path / "once.xml").read_bytes() == (tmp_path / "twice.xml").read_bytes()
    assert '<mean value="2.5" />' in (tmp_path / "once.xml").read_text()


def test_a_file_that_is_made_anew_subtracts_once(tmp_path):
    path = written(tmp_path, VALUES)
    gp.save(gp.load(path), tmp_path / "new.xml")
    assert "pre-process" not in (tmp_path / "new.xml").read_text()
    assert gp.compare(gp.load(path), gp.load(tmp_path / "new.xml")).max_abs == 0
