"""A file that cannot be written is named with the remedy for its reason, in every format."""

import errno

import pytest

import graphport as gp
from graphport.core.write_errors import write_remedy
from tests.models import perceptron, write_onnx

NAMES = (
    "x.onnx",
    "x.xml",
    "x.ncnn.param",
    "x.pnnx.param",
    "x.prototxt",
    "x.tflite",
    "x.pt2",
    "x.graphport",
    "x.nnef.tgz",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_folder_is_to_be_created(name, tmp_path):
    model = gp.load(write_onnx(tmp_path / "net.onnx", perceptron()), shapes={"x": [2, 4]})
    with pytest.raises(gp.DiagnosticError) as told:
        gp.save(model, tmp_path / "missing" / name)
    assert told.value.diagnostics[0].help == "create the folder of the file, or choose another path"


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.ENOSPC, "free disk space"), (errno.EACCES, "permissions"), (errno.EIO, "disk space")],
)
def test_the_remedy_is_that_of_the_reason(number, expected):
    assert expected in write_remedy(OSError(number, "text"))
