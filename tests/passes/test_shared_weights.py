"""Weights that several nodes read: fused where all do the same, copied as far as the verb and its option allow."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.passes.cases import bn, info, model, node, norm, some

LARGE = some(64, 32, 3, 3)
X = info("x", ["N", 32, 6, 6])


KEEPING = {"simplify": {}, "prepare": {"shared": "keep"}}
TWO = [node("Conv", "x w c", "h"), node("Neg", "x", "n"), node("Conv", "n w c", "k"), node("Add", "h k", "y")]


def made(verb, nodes, outputs, options=None, **constants):
    proto = model(nodes, [X], [info(name, None) for name in outputs], constants)
    result, report = getattr(gp, verb)(gp.from_onnx(proto), **(options or {}))
    assert report.passed
    sizes = [sum(v.storage.nbytes for v in each.graph.constants) for each in (gp.from_onnx(proto), result)]
    return result, report, sizes[1] / sizes[0]


def words(result) -> list[str]:
    return [each.op for each in result.graph]


@pytest.mark.parametrize("verb", ["simplify", "prepare"])
@pytest.mark.parametrize("op", ["Neg", "Mul"])
def test_change_common_to_all_consumers_is_applied_to_shared_weights_once(verb, op):
    inputs = [f"x{number}" for number in range(4)]
    shifted = [node("Add", f"x c{number}", name) for number, name in enumerate(inputs)]
    folded = [node("Conv", f"{name} w b", f"h{name}") for name in inputs]
    behind = [node(op, f"h{name}" if op == "Neg" else f"h{name} k", f"y{name}") for name in inputs]
    result, report, growth = made(
        verb,
        [*shifted, *folded, *behind],
        [f"y{name}" for name in inputs],
        KEEPING[verb],
        w=LARGE,
        b=some(64),
        k=np.float32(3),
        **{f"c{number}": some(32, 1, 1) * (number + 1) for number in range(4)},
    )
    assert words(result).count("Conv") == 4
    assert op not in words(result)
    assert report.changes["fuse-scale"] == 4
    assert growth < 1.2


@pytest.mark.parametrize("verb", ["simplify", "prepare"])
def test_large_shared_weight_is_not_copied_for_one_consumer(verb):
    nodes = [
        node("Conv", "x w", "h"),
        bn("h", "y"),
        node("Neg", "x", "n"),
        node("Conv", "n w", "k"),
        node("Relu", "k", "z"),
    ]
    result, report, growth = made(verb, nodes, ["y", "z"], KEEPING[verb], w=LARGE, **norm(64))
    assert growth < 1.2
    assert words(result).count("Conv") == (2 if verb == "simplify" else 3)
    (fused,) = [each for each in report.passes if each.name == "fuse-batchnorm"]
    assert not fused.done
    if verb == "simplify":
        assert "w has other consumers: a copy would add 73728 bytes" in str(fused.left[0])


def test_a_small_weight_is_copied():
    nodes = [node("Conv", "x w", "h"), bn("h", "y"), node("Conv", "x w", "k"), node("Relu", "k", "z")]
    result, _, _ = made("prepare", nodes, ["y", "z"], w=some(4, 32, 1, 1), **norm(4))
    assert sorted(words(result)) == ["Conv", "Conv", "Relu"]


def readers(result, index: int) -> int:
    """How many constants the convolutions read as this operand."""
    return len({each.inputs[index] for each in result.graph if each.op == "Conv"})


def left(report) -> list[str]:
    (splitting,) = [each for each in report.passes if each.name == "split-parameters"]
    return [str(note) for note in splitting.left]


@pytest.mark.parametrize("options", [{}, {"shared": "auto"}, {"shared": "split"}])
def test_a_large_weight_is_copied_by_default(options):
    result, report, _ = made("prepare", TWO, ["y"], options, w=LARGE, c=some(64))
    assert (readers(result, 1), readers(result, 2)) == (2, 2)
    assert left(report) == []


def test_prepare_copies_a_large_weight_to_fold_batchnorm():
    nodes = [node("Conv", "x w", "h"), bn("h", "y"), node("Neg", "x", "n"), node("Conv", "n w", "z")]
    result, _, _ = made("prepare", nodes, ["y", "z"], w=LARGE, **norm(64))
    assert words(result).count("BatchNormalization") == 0
    assert words(result).count("Conv") == 2


def test_shared_keep_option_keeps_and_reports_shared_parameters():
    result, report, growth = made("prepare", TWO, ["y"], {"shared": "keep"}, w=LARGE, c=some(64))
    assert (readers(result, 1), readers(result, 2), growth) == (1, 1, 1)
    assert [note.partition(": ")[2] for note in left(report)] == [
        "operand 1 keeps the shared constant w: shared parameters are kept by request",
        "operand 2 keeps the shared constant c: shared parameters are kept by request",
    ]


@pytest.mark.parametrize("most", [0, 2 * LARGE.nbytes - 1, 2 * LARGE.nbytes])
def test_large_constants_stay_shared_above_max_copy_bytes(monkeypatch, most):
    monkeypatch.setattr("graphport.passes.split_parameters.MAX_COPY_BYTES", most)
    nodes = [*TWO, node("Conv", "x v c", "i"), node("Conv", "n v c", "j"), node("Add", "i j", "z")]
    constants = {"w": LARGE, "v": some(64, 32, 3, 3) + 1, "c": some(64)}
    result, report, _ = made("prepare", nodes, ["y", "z"], **constants)
    is_enough = most == 2 * LARGE.nbytes
    assert (readers(result, 1), readers(result, 2)) == ((4, 4) if is_enough else (2, 4))
    assert len(left(report)) == (0 if is_enough else 2)
    if not is_enough:
        assert f"copies would take {2 * LARGE.nbytes} bytes in total, the limit is {most}" in left(report)[0]
    again, _ = gp.prepare(result)
    assert str(again.graph) == str(result.graph)
    whole, _ = gp.prepare(result, shared="split")
    assert readers(whole, 1) == 4


def test_another_treatment_of_shared_parameters_is_wrong_usage():
    with pytest.raises(ValueError, match="unknown value 'some' of `shared`: expected auto, split, keep"):
        made("prepare", TWO, ["y"], {"shared": "some"}, w=LARGE, c=some(64))
