"""Settings: typed, the same as JSON, and refused with a sentence."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.quantization.settings import Settings
from graphport.quantization.targets import TARGETS, target
from tests.every import every


def test_settings_survive_json():
    settings = Settings(preset="best", min_snr=30.0, float_nodes=("a", "b"), weight_bits=4, round=False)
    assert Settings.from_json(json.dumps(settings.as_json())) == settings


def test_every_setting_round_trips_through_json():
    """None is left as by default, and the document is the same after a second round."""
    names = {
        "target": "ncnn",
        "preset": "best",
        "dispatch": "all-in",
        "method": "entropy",
        "weight_range": "pairs",
        "processor": "this",
        "form": "qoperator",
        "latency_table": "phone.json",
    }
    numbers = {"percentile": 99.5, "activation_bits": 16, "weight_bits": 4, "weight_block": 32, "min_snr": 20.5,
               "max_float_layers": 3, "max_latency": "3ms", "max_bytes": 9, "min_metric": 0.5, "point": 2, "batch": 7, "memory": 1 << 20, "threads": 2}  # fmt: skip
    types = {"activation_type": "int8", "weight_type": "float8_e5m2"}
    lists = {"float_nodes": ("a", "b/c"), "quantize_nodes": ("ü",), "wide_nodes": ("d",)}
    flags = ("per_channel", "symmetric", "power_of_two", "equalize", "smooth", "round", "correct", "search", "refine",
             "real_results", "cheap_layers", "tables", "weights_only", "dynamic", "full_integer", "front")  # fmt: skip
    settings = Settings().updated(**names, **numbers, **types, **lists, prepare=False, **dict.fromkeys(flags, True))
    assert all(getattr(settings, field.name) != field.default for field in fields(Settings))
    document = json.dumps(settings.as_json())
    assert Settings.from_json(document) == settings
    assert json.dumps(Settings.from_json(document).as_json()) == document


def test_json_names_every_setting_and_a_version():
    assert set(Settings().as_json()) == {field.name for field in fields(Settings)} | {"version"}
    assert Settings().as_json()["version"] == 1


def test_omitted_options_have_their_defaults():
    assert Settings.from_json('{"preset": "fast"}') == Settings(preset="fast")


@every(("name", "value"), [
    ("preset", "worst"), ("method", "guess"), ("percentile", 30), ("percentile", "much"), ("activation_bits", 7),
    ("weight_bits", 3), ("weight_block", -1), ("weight_range", "half"), ("processor", "z80"), ("min_snr", "high"), ("min_snr", float("nan")),
    ("min_snr", float("inf")), ("max_float_layers", -1),
    ("batch", 0), ("memory", 0), ("threads", -1), ("prepare", 1), ("per_channel", "yes"), ("float_nodes", "a"),
    ("float_nodes", (1,)), ("batch", True),
    ("weight_bits", 8.0), ("activation_bits", True), ("round", 1), ("activation_type", 3), ("weight_type", ("int8",)),
    ("target", 3), ("target", ("ncnn",)), ("dispatch", "everywhere"), ("dispatch", 3),
])  # fmt: skip
def test_a_value_that_a_setting_cannot_have_is_refused(name, value):
    with pytest.raises(DiagnosticError, match=f"QUANT0004.*{name}"):
        Settings().updated(**{name: value})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"presett": "fast"}', '{"version": 2}', '{"batch": 0}', "[" * 100000])
def test_text_that_is_no_settings_is_refused(text):
    with pytest.raises(DiagnosticError, match="QUANT0004"):
        Settings.from_json(text)


def test_all_invalid_settings_are_reported_together():
    with pytest.raises(DiagnosticError) as error:
        Settings().updated(batch=0, weight_bits=5, preset="x")
    assert len(error.value.diagnostics) == 3


def test_a_node_cannot_stay_floating_and_be_quantized():
    with pytest.raises(DiagnosticError, match=r"QUANT0004.*as quantized: a"):
        Settings().updated(float_nodes=("a", "b"), quantize_nodes=("c", "a"))


def test_there_is_no_other_target():
    with pytest.raises(DiagnosticError, match="QUANT0005"):
        target("toaster")


@pytest.mark.parametrize("name", list(TARGETS))
def test_target_tables_are_consistent(name):
    found = target(name)
    assert found.leaves_float <= found.weighted
    assert found.per_channel <= found.weighted
    assert found.shared <= found.pointwise


def test_lists_of_names_are_accepted():
    assert Settings().updated(float_nodes=["a", "b"]) == Settings(float_nodes=("a", "b"))
