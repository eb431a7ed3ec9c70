"""Functions of JAX are exported and read from memory."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import graphport

CASES = Path(__file__).parent / "cases"


def test_without_jax_no_function_is_exported(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(graphport.DiagnosticError) as raised:
        graphport.from_jax(abs, 1.0)
    assert [finding.code for finding in raised.value.diagnostics] == ["SH0011"]


class Exported:
    """In place of `jax.export.Exported`."""

    def serialize(self):
        return bytearray((CASES / "order.jaxexport").read_bytes())


@pytest.fixture
def jax(monkeypatch):
    """Modules with the functions of JAX that are called; arguments are recorded in `given`."""
    given = []

    def export(function):
        def call(*args, **kwargs):
            given.append((function, args, kwargs))
            if not args:
                message = "no arguments"
                raise TypeError(message)
            return Exported()

        return call

    module = SimpleNamespace(jit=lambda function: ("jit", function), given=given)
    monkeypatch.setitem(sys.modules, "jax", module)
    monkeypatch.setitem(sys.modules, "jax.export", SimpleNamespace(export=export, Exported=Exported))
    return module


def test_a_function_is_exported_with_its_arguments(jax):
    model = graphport.from_jax(abs, 1.0, scale=2)
    assert jax.given == [(("jit", abs), (1.0,), {"scale": 2})]
    assert list(model.inputs) == list(graphport.load(CASES / "order.jaxexport").inputs)


def test_an_exported_function_is_read_as_it_is(jax):
    assert graphport.from_jax(Exported()).outputs
    assert not jax.given


@pytest.mark.usefixtures("jax")
def test_a_failure_of_the_export_is_reported():
    with pytest.raises(graphport.DiagnosticError, match="no arguments") as raised:
        graphport.from_jax(abs)
    assert [finding.code for finding in raised.value.diagnostics] == ["SH0011"]
