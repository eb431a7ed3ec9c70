from __future__ import annotations

from pathlib import Path

import pytest

from graphport.formats.onnx import recognizes
from tests.formats.onnx.models import DATA, model

HEAD = (DATA / "light_squeezenet.onnx").read_bytes()[:4096]
TENSORFLOW = b"\x08\x01\x12\xf0\x8a\x04\x0a\x10\x32\x0e"  # a SavedModel begins like an ONNX model with a producer name


def test_model_is_recognized_by_content() -> None:
    assert recognizes(Path("weights.bin"), HEAD)
    assert recognizes(Path("weights.bin"), model([]).SerializeToString())


def test_damaged_model_is_recognized_by_suffix() -> None:
    assert recognizes(Path("net.ONNX"), b"\xff\xff")


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(b"", id="empty"),
        pytest.param(TENSORFLOW, id="TensorFlow"),
        pytest.param(b"version 1.0;\ngraph net(x) -> (y) {", id="NNEF"),
        pytest.param(b'<?xml version="1.0"?><net name="a" version="11">', id="OpenVINO"),
        pytest.param(b"7767517\n75 83\nInput data 0 1 data", id="ncnn"),
        pytest.param(b"\x1f\x8b\x08\x00", id="gzip"),
        pytest.param(b"PK\x03\x04", id="zip"),
        pytest.param(b"\x0a\x09SqueezeNe", id="Caffe"),
    ],
)
def test_other_files_are_not_treated_as_models(head: bytes) -> None:
    assert not recognizes(Path("file"), head)
