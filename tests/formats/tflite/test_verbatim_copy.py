"""An unchanged model is written with the bytes of its file; a changed one is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import graphport as gp
from tests.draws import spread
from tests.formats.tflite.test_cases import CASES, NAMES

if TYPE_CHECKING:
    from pathlib import Path


def test_a_file_that_was_read_is_written_byte_for_byte(tmp_path: Path) -> None:
    place = tmp_path / "written.tflite"
    for name in spread(NAMES, start=2):
        source = CASES / f"{name}.tflite"
        for raw in (False, True):
            gp.save(gp.load(source, raw=raw), place)
            assert place.read_bytes() == source.read_bytes(), name


def test_what_stands_after_the_model_stays_after_it(tmp_path: Path) -> None:
    source, place = tmp_path / "model.tflite", tmp_path / "written.tflite"
    source.write_bytes((CASES / "conv_2d.tflite").read_bytes() + b"PK\x03\x04 labels")
    assert gp.convert(source, place, verify=False).passed
    assert place.read_bytes() == source.read_bytes()


def test_a_graph_that_was_changed_is_written_anew(tmp_path: Path) -> None:
    source, place = CASES / "conv_2d.tflite", tmp_path / "written.tflite"
    renamed = gp.load(source)
    renamed.graph.rename(renamed.graph.inputs[0], "image")
    gp.save(renamed, place)
    assert list(gp.load(place).inputs) == ["image"]
    numbers = gp.load(source)
    constant = next(value for value in numbers.graph.constants if value.fact.rank == 4)
    constant.storage = type(constant.storage)(constant.storage.file, 0, constant.fact.dtype, constant.fact.shape)
    gp.save(numbers, place)
    assert place.read_bytes() != source.read_bytes()


def test_extents_that_were_bound_are_written(tmp_path: Path) -> None:
    source, place = CASES / "conv_2d.tflite", tmp_path / "written.tflite"
    bound = gp.load(source, shapes={"x0": list(gp.load(source).inputs["x0"].fact.shape)})
    gp.save(bound, place)
    assert gp.load(place).inputs["x0"].fact == bound.inputs["x0"].fact
