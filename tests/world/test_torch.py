"""What PyTorch's exporters write, through every verb and format at several sizes, held against PyTorch's own results.

`torch.zip` is made by `make_torch.py` of the networks in `nets.py`; nothing here needs PyTorch.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.world.travel import RIGHT, Sample, travel

ARCHIVE = Path(__file__).parent / "torch.zip"
with zipfile.ZipFile(ARCHIVE) as _archive:
    MODELS = sorted(name.removesuffix(".onnx") for name in _archive.namelist() if name.endswith(".onnx"))
KINDS = ("half", "double")
SAMPLE = 16
"""Every how many-th model the suite itself takes; the others are taken with those that take long."""
MAY_REFUSE = {"nnef", "pnnx", "ncnn"}
NO_WORDS = {"batch_only", "convolutional", "padded", "resized", "rotary"}
"""What OpenVINO has no words for: circular borders of open extents, resizing of open extents, attention of unknown heads."""


def put_out(name: str, folder: Path) -> tuple[Path, dict[str, Sample]]:
    """The files of a model in a folder, and its inputs and results by size."""
    network, mode = name.split(".")
    kind = mode if mode in KINDS else "single"
    with zipfile.ZipFile(ARCHIVE) as archive:
        for each in archive.namelist():
            if each.startswith((f"{name}.onnx", f"{network}.{kind}.")):
                archive.extract(each, folder)
    return folder / f"{name}.onnx", {path.stem[-1]: read(path) for path in sorted(folder.glob("*.npz"))}


def read(path: Path) -> Sample:
    with np.load(path) as stored:
        inputs, outputs = (
            [stored[f"{what}{i}"] for i in range(len(stored.files)) if f"{what}{i}" in stored.files]
            for what in ("in", "out")
        )
    return Sample(inputs, outputs)


def check(name: str, folder: Path) -> None:
    path, samples = put_out(name, folder)
    journey = travel(path, samples, folder)
    assert not journey.faults
    may_refuse = MAY_REFUSE | {"openvino"} if name.partition(".")[0] in NO_WORDS or "double" in name else MAY_REFUSE
    assert {step for step, end in journey.found.items() if end != RIGHT} <= may_refuse


@pytest.mark.parametrize("name", MODELS[::SAMPLE])
def test_exported_models_convert_to_every_format(name, tmp_path):
    check(name, tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("name", [name for name in MODELS if name not in MODELS[::SAMPLE]])
def test_all_exported_models_convert_to_every_format(name, tmp_path):
    check(name, tmp_path)
