"""Attention masks in pnnx files, whose kind is determined by their dims, or refused."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.conformance.pnnx.test_models import models, unpack
from tests.formats.pnnx.samples import draw
from tests.laws import Opaque, canonical


def opened(folder, name, shapes):
    """Return the model of `name` with these input shapes, and its inputs."""
    path = unpack(name, folder)
    lines = path.read_text().splitlines()
    for index, shape in enumerate(shapes):
        old = "(" + ",".join(map(str, models()[name]["inputs"][index]["shape"])) + ")"
        lines[2 + index] = lines[2 + index].replace(old, f"({shape})")
    path.write_text("\n".join(lines) + "\n")
    return path, [draw(each) for each in models()[name]["inputs"]]


@pytest.mark.parametrize(
    "shapes",
    [("2,6,16", "2,6"), ("2,6,16", "?,6"), ("2,?,16", "2,?")],
    ids=["known", "open items of the mask", "open places"],
)
def test_a_mask_of_padded_keys_is_reported_by_its_items(tmp_path, shapes):
    path, given = opened(tmp_path, "mha_kpm", shapes)
    model = gp.load(path, shapes=dict(zip(["0", "1"], [(2, 6, 16), (2, 6)], strict=True)))
    found = next(iter(gp.run(model, dict(zip(model.inputs, given, strict=True)), backend="reference").values()))
    wanted = models()["mha_kpm"]["outputs"][0]
    values = np.frombuffer(bytes.fromhex(wanted["values"]), np.float32)
    np.testing.assert_allclose(found.reshape(-1)[:: wanted["every"]], values, rtol=1e-4, atol=1e-5)


def test_a_mask_that_may_be_either_is_refused(tmp_path):
    path, _ = opened(tmp_path, "mha_kpm", ("?,?,16", "?,?"))
    with pytest.raises(Opaque, match="ambiguous mask"):
        canonical(gp.load(path, raw=True).graph)


def test_a_list_of_masks_is_no_list_of_numbers(tmp_path):
    path = unpack("idx_mask", tmp_path)
    path.write_text(path.read_text().replace(" #1=(5,7)bool", ""))
    model = gp.load(path)
    (x,) = (draw(each) for each in models()["idx_mask"]["inputs"])
    found = next(iter(gp.run(model, {next(iter(model.inputs)): x}, backend="reference").values()))
    np.testing.assert_array_equal(found, x[x > 0])
