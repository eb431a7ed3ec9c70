"""Pictures that ncnn enlarges: its layer is written only where it places the same pixels, else pieces are."""

from __future__ import annotations

from itertools import product

import numpy as np

import graphport as gp
from tests.every import every
from tests.models import model, node

WAYS = ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners")
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
KNOWN = {*product(WAYS[:3], ROUNDINGS[:2]), ("asymmetric", "floor")}
"""What repeats each pixel as often as its lengths are multiplied."""


@every("factor", [2, 3])
@every(("way", "rounding"), list(product(WAYS, ROUNDINGS)))
def test_pixels_are_repeated_by_the_layer_or_piece_by_piece(way, rounding, factor, tmp_path):
    resize = node(
        "Resize", ["x", "", "s"], ["y"],
        mode="nearest", coordinate_transformation_mode=way, nearest_mode=rounding,
    )  # fmt: skip
    scales = np.asarray([1, 1, factor, factor], np.float32)
    found = gp.from_onnx(model([resize], [("x", [1, 2, 4, 5])], [("y", None)], {"s": scales}, opset=19))
    x = {"x": np.random.default_rng(0).normal(size=(1, 2, 4, 5)).astype(np.float32)}
    gp.save(found, tmp_path / "net.param")
    assert ("Interp" in (tmp_path / "net.param").read_text()) == ((way, rounding) in KNOWN)
    given = gp.run(gp.load(tmp_path / "net.param"), x, backend="ncnn")["y"]
    assert np.array_equal(given, gp.run(found, x, backend="reference")["y"])
