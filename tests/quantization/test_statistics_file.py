"""Statistics in a file: they save the work that was done, and are used for nothing but what they are of."""

from __future__ import annotations

import io
import json
import zipfile

import numpy as np
import pytest

import graphport as gp
from graphport.core.diagnostics import DiagnosticError
from graphport.quantization import shards
from graphport.quantization.fingerprint import Fingerprint, model_digests
from graphport.quantization.observe import Statistics
from graphport.quantization.statistics_file import ObservedShards, observed_with, refuse_path, remember, remembered
from tests.models import model, node
from tests.quantization import nets


def _states(seed=0):
    r = np.random.default_rng(seed)
    found = {"a": Statistics(1), "b.c/d": Statistics()}
    for state in found.values():
        for n in (3, 1, 5):
            state.add(r.normal(size=(n, 4, 30)).astype(np.float32), samples=n)
    return found


def _fingerprint(**changes):
    whole = {"graph": "g", "weights": "w", "samples": {"number": 9, "x": "float32[4]"}, "values": {"a": 1, "b.c/d": None},
             "way": {"samples in a run": 16}, "settings": {"preset": "fast", "target": "ncnn"}}  # fmt: skip
    return Fingerprint(**(whole | changes))


def _written(path):
    remember(path, _fingerprint(), ObservedShards(_states(), 3, "digest", is_whole=True))
    return path


def _arrays(path):
    with np.load(path) as file:
        return dict(file)


def test_statistics_are_remembered(tmp_path):
    found = remembered(_written(tmp_path / "s.npz"), _fingerprint())
    assert (found.shards, found.digest, found.is_whole) == (3, "digest", True)
    for name, state in _states().items():
        again = found.states[name]
        for part in ("axis", "samples", "elements", "squares", "average"):
            assert getattr(again, part) == getattr(state, part)
        assert again.histogram.exponent == state.histogram.exponent
        for x, y in [(again.lows, state.lows), (again.highs, state.highs), (again.other_lows, state.other_lows),
                     (again.other_highs, state.other_highs), (again.extremes.least, state.extremes.least),
                     (again.extremes.largest, state.extremes.largest), (again.histogram.counts, state.histogram.counts)]:  # fmt: skip
            assert np.array_equal(x, y)
            assert x.dtype == y.dtype


def test_no_values_are_remembered(tmp_path):
    remember(tmp_path / "s.npz", _fingerprint(values={}), ObservedShards({}, 1, "", is_whole=True))
    assert remembered(tmp_path / "s.npz", _fingerprint(values={})).states == {}


@pytest.mark.parametrize(("changes", "words"), [
    pytest.param({"graph": "h"}, "the graph of the model", id="graph"),
    pytest.param({"weights": "v"}, "the weights of the model", id="weights"),
    pytest.param({"samples": {"number": 8, "x": "float32[4]"}}, "the samples: number was 9, is 8", id="number"),
    pytest.param({"samples": {"number": 9, "x": "float64[4]"}}, "the samples: x was float32.4., is float64", id="type"),
    pytest.param({"samples": {"number": 9, "z": "float32[4]"}}, "x was float32.4., is None", id="name"),
    pytest.param({"values": {"a": 1}, "settings": {"preset": "best", "target": "ncnn"}},
                 "the settings: preset was fast, is best", id="setting"),
    pytest.param({"way": {"samples in a run": 4}}, "samples in a run was 16, is 4", id="size of runs"),
    pytest.param({"values": {"a": None, "b.c/d": None}}, "the observed values", id="axes"),
])  # fmt: skip
def test_differences_are_reported(tmp_path, changes, words):
    with pytest.raises(DiagnosticError, match=rf"QUANT0009.*{words}.*delete the file"):
        remembered(_written(tmp_path / "s.npz"), _fingerprint(**changes))


def test_settings_that_change_no_statistics_do_not_matter(tmp_path):
    again = _fingerprint(settings={"preset": "balanced", "target": "ncnn", "method": "mse"})
    assert remembered(_written(tmp_path / "s.npz"), again).is_whole


@pytest.mark.parametrize(("content", "words"), [
    pytest.param(b"", "is not a statistics file", id="nothing"),
    pytest.param(b"\x93NUMPY", "is not a statistics file", id="another format"),
    pytest.param(b"PK\x03\x04 nothing", "truncated", id="the beginning of an archive"),
])  # fmt: skip
def test_another_file_is_refused(tmp_path, content, words):
    (tmp_path / "s.npz").write_bytes(content)
    with pytest.raises(DiagnosticError, match=f"QUANT0009.*{words}"):
        remembered(tmp_path / "s.npz", _fingerprint())


def test_sample_file_is_not_accepted_as_statistics(tmp_path):
    np.savez(tmp_path / "s.npz", x=np.ones(3))
    with pytest.raises(
        DiagnosticError, match=r"QUANT0009.*has no statistics, but contains x.npy \(choose another file"
    ):
        remembered(tmp_path / "s.npz", _fingerprint())


def test_statistics_of_an_earlier_version_are_refused(tmp_path):
    np.savez(tmp_path / "s.npz", names=np.asarray(["a"]), **{"0.numbers": np.zeros(4, np.int64)})
    with pytest.raises(DiagnosticError, match=r"QUANT0009.*of an earlier version"):
        remembered(tmp_path / "s.npz", _fingerprint())


@pytest.mark.parametrize("length", [10, 1000, -1, -30])
def test_statistics_that_are_cut_off_are_refused(tmp_path, length):
    path = _written(tmp_path / "s.npz")
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(DiagnosticError, match=r"QUANT0009.*truncated"):
        remembered(path, _fingerprint())


def test_no_byte_can_be_changed_unnoticed_or_break_more(tmp_path):
    path = _written(tmp_path / "s.npz")
    whole = path.read_bytes()
    for place in range(0, len(whole), max(len(whole) // 150, 1)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        codes, counts = _read(path)
        assert codes == ["QUANT0009"] or np.array_equal(counts, _states()["a"].histogram.counts)


def _read(path):
    """The codes of what is found amiss, or the counts of the first value."""
    try:
        return [], remembered(path, _fingerprint()).states["a"].histogram.counts
    except DiagnosticError as error:
        return [finding.code for finding in error.diagnostics], None


def _about(path, **changes):
    return json.loads(_arrays(path)["about"].tobytes()) | changes


@pytest.mark.parametrize("change", [
    lambda about: about.update(version=2), lambda about: about.update(kind="x"), lambda about: about.pop("of"),
    lambda about: about.update(states=about["states"][:1]), lambda about: about["states"][0].update(elements=7),
    lambda about: about["states"][0].update(elements=1 << 60), lambda about: about["states"][0].update(channels=10**9),
    lambda about: about["states"][0].update(exponent=10**9), lambda about: about["states"][0].update(squares="many"),
    lambda about: about["states"][0].update(average=[1.0]), lambda about: about.update(shards=-1),
    lambda about: about["states"][1].update(name="else"), lambda about: about.update(states={}),
])  # fmt: skip
def test_impossible_states_are_refused(tmp_path, change):
    path = _written(tmp_path / "s.npz")
    arrays, about = _arrays(path), _about(path)
    change(about)
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(path, **arrays)
    with pytest.raises(DiagnosticError, match="QUANT0009"):
        remembered(path, _fingerprint())


@pytest.mark.parametrize(("name", "content"), [
    ("counts", np.zeros(5, np.int64)), ("counts", np.zeros((2, 8192), np.float64)), ("ends", np.zeros(3, np.float32)),
    ("ends", None), ("counts", np.full((2, 8192), -1)), ("about", np.zeros(3, np.uint8)), ("about", np.zeros(3)),
])  # fmt: skip
def test_a_part_that_does_not_fit_is_refused(tmp_path, name, content):
    path = _written(tmp_path / "s.npz")
    arrays = _arrays(path) | {name: content}
    np.savez(path, **{key: x for key, x in arrays.items() if x is not None})
    with pytest.raises(DiagnosticError, match="QUANT0009"):
        remembered(path, _fingerprint())


def test_oversized_statistics_header_is_rejected_before_allocation(tmp_path):
    path = _written(tmp_path / "s.npz")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<i8", "fortran_order": False, "shape": (1 << 20, 8192)})
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | {"counts.npy": header.getvalue()}).items():
            archive.writestr(name, content)
    with pytest.raises(DiagnosticError, match=r"QUANT0009.*counts.npy has shape"):
        remembered(path, _fingerprint())


# Resuming


def _scene(scale=1.0):
    graph = gp.from_onnx(model([node("Relu", ["x"], ["y"])], [("x", ["N", 3])], [("y", ["N", 3])])).graph
    r = np.random.default_rng(0)
    runs = [
        ({"x": (scale * r.normal(size=(2, 3))).astype(np.float32)}, 2) for _ in range(5 * shards.MIN_SHARD_SAMPLES // 2)
    ]
    return shards.Plan(graph, {"x": 1, "y": None}), runs


def _after(count):
    """An observer that is interrupted after so many shards, and counts them."""
    done = []

    def observer(plan, given, heard):
        for number, states in enumerate(shards.here(plan, given, heard)):
            if number == count:
                raise KeyboardInterrupt
            done.append(number)
            yield states

    return observer, done


def _observed(path, plan, runs, observer=shards.here, fingerprint=None):
    return observed_with(
        path, fingerprint or _fingerprint(values=plan.axes), plan, shards.sharded(runs), observer, lambda _: None
    )


def _same(one, other):
    return all(
        np.array_equal(one[name].histogram.counts, other[name].histogram.counts)
        and (one[name].squares, one[name].average, one[name].samples) == (other[name].squares, other[name].average, other[name].samples)
        for name in one
    )  # fmt: skip


@pytest.mark.parametrize("count", [0, 1, 3])
def test_an_interruption_is_resumed_to_the_last_bit(tmp_path, count):
    plan, runs = _scene()
    whole = _observed(tmp_path / "whole.npz", plan, runs)
    observer, _ = _after(count)
    with pytest.raises(KeyboardInterrupt):
        _observed(tmp_path / "part.npz", plan, runs, observer)
    assert (tmp_path / "part.npz").exists() == (count > 0)
    observer, done = _after(99)
    assert _same(_observed(tmp_path / "part.npz", plan, runs, observer), whole)
    assert len(done) == 5 - count
    assert _same(remembered(tmp_path / "part.npz", _fingerprint(values=plan.axes)).states, whole)


def test_complete_statistics_are_not_recomputed(tmp_path):
    plan, runs = _scene()
    whole = _observed(tmp_path / "s.npz", plan, runs)
    observer, done = _after(99)
    assert _same(_observed(tmp_path / "s.npz", plan, runs, observer), whole)
    assert done == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_other_numbers_or_another_order_are_refused(tmp_path, is_whole):
    plan, runs = _scene()
    observer, _ = _after(99 if is_whole else 2)
    if is_whole:
        _observed(tmp_path / "s.npz", plan, runs, observer)
    else:
        with pytest.raises(KeyboardInterrupt):
            _observed(tmp_path / "s.npz", plan, runs, observer)
    for others in (_scene(8.0)[1], runs[::-1], runs[: shards.MIN_SHARD_SAMPLES // 2]):
        with pytest.raises(DiagnosticError, match=r"QUANT0009.*the samples or their order"):
            _observed(tmp_path / "s.npz", plan, others)


def test_observations_are_written_periodically(tmp_path, monkeypatch):
    monkeypatch.setattr("graphport.quantization.statistics_file._WRITE_INTERVAL_SECONDS", -1.0)
    plan, runs = _scene()
    kept = []

    def observer(plan, given, heard):
        for states in shards.here(plan, given, heard):
            kept.append((tmp_path / "s.npz").exists())
            yield states

    _observed(tmp_path / "s.npz", plan, runs, observer)
    assert kept == [False, True, True, True, True]


def test_model_digests_separate_graph_and_weights():
    first = model_digests(nets.residual().graph)
    assert model_digests(nets.residual().graph) == first
    other = model_digests(nets.residual(seed=1).graph)
    assert other[0] == first[0]
    assert other[1] != first[1]
    assert model_digests(nets.depthwise().graph)[0] != first[0]


# The whole way


def _quantized(path, found, data, **changes):
    return gp.quantize(found, data, preset="fast", statistics=path, **changes)


def test_quantization_from_stored_statistics_is_identical(tmp_path):
    found = nets.residual()
    data = nets.samples(found, 30)
    first, again = (_quantized(tmp_path / "s.npz", found, data) for _ in range(2))
    assert gp.to_onnx(first).SerializeToString() == gp.to_onnx(again).SerializeToString()


@pytest.mark.parametrize(("change", "words"), [
    pytest.param(lambda found, data: (found, {"x": 8 * data["x"]}, {}), "the samples", id="other samples"),
    pytest.param(lambda found, data: (found, {"x": data["x"][::-1].copy()}, {}), "or their order", id="another order"),
    pytest.param(lambda found, data: (found, {"x": data["x"][:20]}, {}), "number was 30, is 20", id="fewer samples"),
    pytest.param(lambda found, data: (nets.residual(seed=1), data, {}), "the weights", id="other weights"),
    pytest.param(lambda found, data: (found, data, {"batch": 4}), "settings: batch was 16, is 4", id="another batch"),
    pytest.param(lambda found, data: (found, data, {"float_nodes": ("second",)}), "float_nodes was", id="other nodes"),
])  # fmt: skip
def test_statistics_of_another_model_are_rejected(tmp_path, change, words):
    found = nets.residual()
    data = nets.samples(found, 30)
    _quantized(tmp_path / "s.npz", found, data)
    before = (tmp_path / "s.npz").read_bytes()
    other, samples, changes = change(found, data)
    with pytest.raises(DiagnosticError, match=f"QUANT0009.*{words}"):
        _quantized(tmp_path / "s.npz", other, samples, **changes)
    assert (tmp_path / "s.npz").read_bytes() == before


@pytest.mark.parametrize(("name", "words"), [("nowhere/s.npz", "folder not found"), ("", "it is a folder")])
def test_unwritable_statistics_path_is_reported(tmp_path, name, words):
    with pytest.raises(DiagnosticError, match=f"QUANT0016.*{words}"):
        refuse_path(tmp_path / name)
