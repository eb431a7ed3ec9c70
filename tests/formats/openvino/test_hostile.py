"""Files that are damaged or made to do harm: a finding each, whatever they are; how long that takes is measured apart."""

import pytest

import graphport as gp
from tests.draws import spread
from tests.every import every
from tests.formats.openvino.hostile import ACCEPTED, KINDS, LATE, TOLD


def made(build, folder):
    path = folder / "model.xml"
    build(path)
    return path


@every("kind", spread(list(KINDS)))
def test_what_is_wrong_is_found(kind, tmp_path):
    path = made(KINDS[kind], tmp_path)
    found = gp.check(path)
    assert any(finding.is_error for finding in found)
    assert len(found) <= 101
    assert all(len(finding.message) < 1000 for finding in found)


@pytest.mark.parametrize("kind", TOLD)
def test_unchanged_op_types_are_reported(kind, tmp_path):
    assert [str(finding.severity) for finding in gp.check(made(TOLD[kind], tmp_path))] == ["warning"]


@pytest.mark.parametrize("kind", ACCEPTED)
def test_what_does_no_harm_is_read(kind, tmp_path):
    assert not gp.check(made(ACCEPTED[kind], tmp_path))


@pytest.mark.parametrize("kind", LATE)
@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_what_no_machine_has_room_for_is_refused_in_time(kind, backend, tmp_path):
    model = gp.load(made(LATE[kind], tmp_path))
    inputs = {name: [] for name in model.inputs}
    with pytest.raises(gp.DiagnosticError, match=r"RUN000[5-9]"):
        gp.run(model, inputs, backend=backend)
