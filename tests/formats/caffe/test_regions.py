"""Layers of forks: regions of two-stage detectors, Darknet's rearrangement, blobs that forks add."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalize import is_canonical
from tests.formats.caffe.networks import Network
from tests.formats.caffe.opencv import assert_agrees, inputs_for, outputs_of_opencv

BACKENDS = ("onnxruntime", "reference")


def region_network(said: str, rows: int = 5, columns: int = 6, kinds: int = 4, tops: int = 1) -> Network:
    net = Network("net")
    names = [net.input("scores", 1, 2 * kinds, rows, columns), net.input("offsets", 1, 4 * kinds, rows, columns)]
    names.append(net.input("picture", 1, 3))
    net.layer("Proposal", "rois", *names, top=["rois", "best"][:tops], proposal_param=said)
    return net


def region_inputs(model) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    found = {name: random.normal(size=value.fact.shape).astype(np.float32) for name, value in model.inputs.items()}
    found["scores"] = 1 / (1 + np.exp(-found["scores"]))
    return found | {"offsets": found["offsets"] * 0.3, "picture": np.array([[70, 90, 1.5]], np.float32)}


def proposed(scores, offsets, picture, *, stride, base, ratios, scales, least, before, after, overlap):
    """The layer as it was published with Faster R-CNN, a region at a time, in whole pixels that count themselves."""
    anchors = []
    for ratio in ratios:
        width = np.floor(np.sqrt(base * base / ratio) + 0.5)
        height = np.floor(width * ratio + 0.5)
        for scale in scales:
            half = np.array([width * scale - 1, height * scale - 1]) / 2
            anchors.append(np.concatenate([(base - 1) / 2 - half, (base - 1) / 2 + half]))
    kinds, found = len(anchors), []
    for row in range(scores.shape[2]):
        for column in range(scores.shape[3]):
            for kind, anchor in enumerate(anchors):
                box = anchor + stride * np.array([column, row, column, row])
                move = offsets[0, 4 * kind : 4 * kind + 4, row, column]
                size = box[2:] - box[:2] + 1
                middle = move[:2] * size + box[:2] + size / 2
                half = np.exp(move[2:]) * size / 2
                last = picture[0, [1, 0, 1, 0]] - 1
                box = np.clip(np.concatenate([middle - half, middle + half]), 0, last)
                is_large = (box[2:] - box[:2] + 1 >= least * picture[0, 2]).all()
                found.append((scores[0, kinds + kind, row, column] * is_large, box))
    found.sort(key=lambda each: -each[0])
    kept = []
    for score, box in found[:before]:
        if len(kept) < after and all(shared(box, other) <= overlap for _, other in kept):
            kept.append((score, box))
    return np.array([[0, *box] for _, box in kept]), np.array([[score] for score, _ in kept])


def shared(a, b) -> float:
    common = np.clip(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]) + 1, 0, None).prod()
    return common / ((a[2:] - a[:2] + 1).prod() + (b[2:] - b[:2] + 1).prod() - common)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("least", "before", "after", "overlap"),
    [
        pytest.param(16, 6000, 300, 0.7, id="all that are apart"),
        pytest.param(30, 6000, 300, 0.7, id="small ones are the worst"),
        pytest.param(1, 20, 300, 0.5, id="the best twenty before"),
        pytest.param(1, 6000, 6, 0.7, id="the best six after"),
    ],
)
def test_proposal_layer_matches_the_publication(tmp_path, backend, least, before, after, overlap):
    said = f"feat_stride: 16 base_size: 16 min_size: {least} ratio: 0.5 ratio: 2 scale: 1 scale: 2.5 "
    said += f"pre_nms_topn: {before} post_nms_topn: {after} nms_thresh: {overlap}"
    model = gp.load(region_network(said, tops=2).save(tmp_path))
    assert is_canonical(model.graph)
    inputs = region_inputs(model)
    expected = proposed(
        **inputs,
        stride=16,
        base=16,
        ratios=(0.5, 2),
        scales=(1, 2.5),
        least=least,
        before=before,
        after=after,
        overlap=overlap,
    )
    found = gp.run(model, inputs, backend=backend)
    # Regions that are too small are equally bad: nothing says in which order they come.
    count = int((expected[1] > 0).sum())
    assert found["rois"].shape == expected[0].shape
    np.testing.assert_allclose(found["rois"][:count], expected[0][:count], rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(found["best"][:count], expected[1][:count], rtol=1e-5)


def test_proposed_regions_agree_with_opencv(tmp_path):
    # OpenCV keeps regions of any size, fills up with rows of zeros, and takes all scores to be chances.
    said = (
        "min_size: 0 ratio: 0.5 ratio: 1 ratio: 2 scale: 1 scale: 2 pre_nms_topn: 100 post_nms_topn: 20 nms_thresh: 0.6"
    )
    path = region_network(said, kinds=6).save(tmp_path)
    model = gp.load(path)
    inputs = region_inputs(model)
    theirs = outputs_of_opencv(path, inputs, ["rois"])["rois"].reshape(-1, 5)
    ours = gp.run(model, inputs)["rois"]
    theirs = theirs[: len(ours)]
    order = [np.lexsort(rows.round(2).T) for rows in (ours, theirs)]
    np.testing.assert_allclose(ours[order[0]], theirs[order[1]], atol=1e-3)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        pytest.param("ratio: 1", "scale []", id="no scale"),
        pytest.param("ratio: 1 scale: 0", "positive", id="a scale of nothing"),
        pytest.param("ratio: inf scale: 1", "positive", id="a ratio without end"),
        pytest.param("ratio: 1 scale: nan", "positive", id="a scale that is not a number"),
        pytest.param("ratio: 1 scale: 1 base_size: 4294967295", "positive", id="a box without end"),
        pytest.param("ratio: 1 scale: 1", "of 1 boxes per position", id="other maps"),
        pytest.param("ratio: 0.5 ratio: 2 scale: 1 scale: 2 post_nms_topn: 0", "post_nms_topn 0", id="no region"),
    ],
)
def test_proposals_that_cannot_be_are_refused(tmp_path, said, message):
    findings = gp.check(region_network(said).save(tmp_path))
    assert any(message in f"{finding.message} {finding.help}" for finding in findings)


def test_means_by_position_agree_with_opencv(tmp_path):
    net = Network("net")
    names = [net.input("x", 1, 2 * 9, 8, 10), net.input("rois", 3, 5)]
    net.layer("PSROIPooling", "y", *names, psroi_pooling_param="spatial_scale: 0.0625 output_dim: 2 group_size: 3")
    path = net.save(tmp_path)
    model = gp.load(path)
    rois = np.array([[0, 0, 0, 159, 127], [0, 20.4, 33.6, 90.5, 100.5], [0, 5, 5, 5, 5]], np.float32)
    inputs = inputs_for(model) | {"rois": rois}
    theirs = outputs_of_opencv(path, inputs, ["y"])["y"]
    for backend in BACKENDS:
        np.testing.assert_allclose(gp.run(model, inputs, backend=backend)["y"], theirs, rtol=1e-4, atol=1e-5)


def test_darknets_rearrangement_agrees_with_opencv(tmp_path):
    net = Network("net")
    net.layer("Reorg", "y", net.input("x", 2, 8, 4, 6), reorg_param="stride: 2")
    assert_agrees(net.save(tmp_path))


def test_reorg_matches_darknet(tmp_path):
    net = Network("net")
    net.layer("Reorg", "y", net.input("x", 1, 18, 6, 9), reorg_param="stride: 3")
    x = np.arange(18 * 54, dtype=np.float32).reshape(1, 18, 6, 9)
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x})["y"]
    expected = np.empty((18, 6, 9), np.float32)
    space = x.reshape(2, 18, 27)
    for channel, row, column in np.ndindex(18, 6, 9):
        place = channel // 2
        expected[channel, row, column] = space[channel % 2, row * 3 + place // 3, column * 3 + place % 3]
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


def test_a_rearrangement_is_undone_by_its_reverse(tmp_path):
    net = Network("net")
    net.layer("Reorg", "y", net.input("x", 1, 8, 2, 3), reorg_param="stride: 2 reverse: true")
    x = np.arange(48, dtype=np.float32).reshape(1, 8, 2, 3)
    found = gp.run(gp.load(net.save(tmp_path)), {"x": x})["y"]
    assert found.shape == (1, 2, 4, 6)
    # Map 2 * (2 * row + column) + k goes to the places (row, column) of the blocks of map k.
    np.testing.assert_array_equal(found[0, :, 1::2, 0::2], x[0, 4:6])


@pytest.mark.parametrize("said", ["stride: 2", "stride: 2 reverse: true"])
def test_a_rearrangement_is_written_in_op_types_that_every_reader_has(tmp_path, said):
    net = Network("net")
    net.layer("Reorg", "y", net.input("x", 2, 8, 4, 6), reorg_param=said)
    model, _ = gp.simplify(gp.load(net.save(tmp_path)))
    gp.save(model, tmp_path / "again.prototxt")
    inputs = inputs_for(model)
    theirs = outputs_of_opencv(tmp_path / "again.prototxt", inputs, ["y"])["y"]
    np.testing.assert_array_equal(gp.run(model, inputs)["y"], theirs)


@pytest.mark.parametrize("use_global_stats", ["true", "false"])
def test_scale_and_bias_are_the_last_two_of_four_blobs(tmp_path, use_global_stats):
    net = Network("net")
    net.input("x", 2, 3, 4, 5)
    mean, variance, scale, bias = (np.float32(row) for row in ([1, 2, 3], [4, 1, 9], [1, -2, 3], [0.5, 1, 2]))
    said = f"scale_bias: true use_global_stats: {use_global_stats} eps: 0.25"
    net.layer("BatchNorm", "y", "x", blobs=[mean, variance, scale, bias], batch_norm_param=said)
    model = gp.load(net.save(tmp_path))
    x = inputs_for(model)["x"]
    if use_global_stats == "false":
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    m, v, s, b = (row.reshape(3, 1, 1) for row in (mean, variance, scale, bias))
    np.testing.assert_allclose(gp.run(model, {"x": x})["y"], (x - m) / np.sqrt(v + 0.25) * s + b, rtol=1e-4, atol=1e-5)


def test_statistics_that_forks_disagree_about_are_not_guessed(tmp_path):
    net = Network("net")
    net.layer("BN", "y", net.input("x", 1, 3, 2, 2), blobs=[np.ones(3)] * 4, bn_param="frozen: true")
    findings = gp.check(net.save(tmp_path))
    assert any("variance or inverse standard deviation" in finding.message for finding in findings)
    assert not any(finding.is_error for finding in findings)
