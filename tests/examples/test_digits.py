"""The shipped example is whole, small, right NNEF in the eyes of others, and recognizes digits."""

from __future__ import annotations

import struct
from importlib.resources import files
from pathlib import Path

import nnef
import numpy as np
import pytest
import tract
from examples import train_digits

FOLDER = Path(str(files("graphport"))) / "examples" / "digits"


@pytest.fixture(scope="module")
def graph():
    return nnef.load_graph(str(FOLDER))


@pytest.fixture(scope="module")
def weights(graph):
    declared = [operation for operation in graph.operations if operation.name == "variable"]
    return {
        operation.attribs["label"]: np.array(graph.tensors[operation.outputs["output"]].data) for operation in declared
    }


@pytest.fixture(scope="module")
def test_set():
    with np.load(FOLDER / "test.npz") as arrays:
        return dict(arrays)


def test_the_folder_is_smaller_than_a_megabyte():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_000_000


def test_graph_text_and_licence_note_are_there():
    assert (FOLDER / "graph.nnef").is_file()
    assert "CC BY 4.0" in (FOLDER / "README.md").read_text()


def test_variables_and_dat_files_correspond(weights):
    found = {path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.dat")}
    assert found == set(weights)


def test_every_weight_file_has_the_final_header_of_128_bytes():
    for path in FOLDER.rglob("*.dat"):
        content = path.read_bytes()
        magic, length, rank = struct.unpack_from("<4sII", content)
        assert magic == b"\x4e\xef\x01\x00"
        assert length == len(content) - 128
        assert all(extent == 0 for extent in struct.unpack_from("<8I", content, 12)[rank:])
        assert struct.unpack_from("<II", content, 44) == (32, 0)
        assert not any(content[52:128])


def test_the_reference_parser_infers_ten_probabilities(graph):
    nnef.infer_shapes(graph)
    assert graph.tensors["image"].shape == [1, 1, 8, 8]
    assert graph.tensors["probability"].shape == [1, 10]


def test_graph_equals_the_output_of_the_script(weights):
    assert (FOLDER / "graph.nnef").read_text(encoding="utf-8") == train_digits.graph_text(weights)


def test_the_test_set_has_images_from_0_to_1_and_their_digits(test_set):
    image, digit = test_set["image"], test_set["digit"]
    assert image.dtype == np.float32
    assert image.shape == (train_digits.TEST_IMAGES, 1, 8, 8)
    assert (image.min(), image.max()) == (0, 1)
    assert digit.dtype == np.int64
    assert digit.shape == (train_digits.TEST_IMAGES,)
    assert set(digit.tolist()) == set(range(10))


def test_the_single_image_is_the_first_of_the_test_set(test_set):
    with np.load(FOLDER / "image.npz") as arrays:
        assert arrays.files == ["image"]
        np.testing.assert_array_equal(arrays["image"], test_set["image"][:1])


def test_at_least_98_percent_of_the_test_images_are_recognized(weights, test_set):
    probability = train_digits.probabilities(test_set["image"], weights)
    assert np.mean(probability.argmax(axis=1) == test_set["digit"]) >= 0.98


def test_tract_computes_equal_results_probabilities(weights, test_set):
    images = test_set["image"][:50]
    model = tract.nnef().load(FOLDER).into_runnable()
    found = np.concatenate([model.run([image[np.newaxis]])[0].to_numpy() for image in images])
    np.testing.assert_allclose(found, train_digits.probabilities(images, weights), rtol=0, atol=1e-5)
