"""Settings: typed, the same as JSON, and refused with a sentence."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.quantization.settings import Settings
from graphport.quantization.targets import TARGETS, target


def test_settings_survive_json():
    settings = Settings(preset="best", min_snr=30.0, float_nodes=("a", "b"), weight_bits=4, round=False)
    assert Settings.from_json(json.dumps(settings.as_json())) == settings


def test_json_names_every_setting_and_a_version():
    assert set(Settings().as_json()) == {field.name for field in fields(Settings)} | {"version"}
    assert Settings().as_json()["version"] == 1


def test_what_is_left_out_is_as_by_default():
    assert Settings.from_json('{"preset": "fast"}') == Settings(preset="fast")


@pytest.mark.parametrize(("name", "value"), [
    ("preset", "worst"), ("method", "guess"), ("percentile", 30), ("percentile", "much"), ("activation_bits", 7),
    ("weight_bits", 3), ("weight_block", -1), ("weight_range", "half"), ("min_snr", "high"), ("max_float_layers", -1),
    ("batch", 0), ("memory", 0), ("threads", -1), ("prepare", 1), ("per_channel", "yes"), ("float_nodes", "a"),
    ("float_nodes", (1,)), ("batch", True),
])  # fmt: skip
def test_a_value_that_a_setting_cannot_have_is_refused(name, value):
    with pytest.raises(DiagnosticError, match=f"QUANT0004.*{name}"):
        Settings().updated(**{name: value})


@pytest.mark.parametrize("text", ["", "[]", "{", '{"presett": "fast"}', '{"version": 2}', '{"batch": 0}', "[" * 100000])
def test_text_that_is_no_settings_is_refused(text):
    with pytest.raises(DiagnosticError, match="QUANT0004"):
        Settings.from_json(text)


def test_all_wrong_settings_are_told_at_once():
    with pytest.raises(DiagnosticError) as error:
        Settings().updated(batch=0, weight_bits=5, preset="x")
    assert len(error.value.diagnostics) == 3


def test_there_is_no_other_target():
    with pytest.raises(DiagnosticError, match="QUANT0005"):
        target("toaster")


@pytest.mark.parametrize("name", list(TARGETS))
def test_what_a_target_fuses_or_leaves_floating_it_can_compute(name):
    found = target(name)
    assert found.leaves_float <= found.weighted
    assert found.per_channel <= found.weighted
    assert found.shared <= found.pointwise
