from __future__ import annotations

import pytest

from graphport.formats.nnef.container.declarations import Operations, standard
from graphport.formats.nnef.container.syntax import Edition
from graphport.formats.nnef.container.types import (
    GENERIC,
    INTEGER,
    SCALAR,
    array_of,
    holds_tensors,
    tensor_of,
    tuple_of,
)

ONLY_PROVISIONAL = {"idn", "planewise_conv", "planewise_deconv"}
NEWER_PARAMETERS = {
    "deconv": {"output_shape"},
    "debox": {"output_shape"},
    "desample": {"output_shape"},
    "separable_deconv": {"output_shape"},
    "local_variance_normalization": {"epsilon"},
    "local_contrast_normalization": {"epsilon"},
    "l1_normalization": {"epsilon"},
    "l2_normalization": {"epsilon"},
    "reshape": {"axis_start", "axis_count"},
    "elu": {"alpha"},
}
RENAMED = {"perm": "axes", "trA": "transposeA", "trB": "transposeB"}


@pytest.mark.parametrize(("edition", "count"), [(Edition.FINAL, 118), (Edition.PROVISIONAL, 85)])
def test_every_standard_operation_is_declared(edition, count):
    library = standard(edition)
    assert len(library) == len([*library]) == count
    assert [library[name].name for name in library] == [*library]


def test_the_reference_declares_the_same_operations():
    nnef = pytest.importorskip("nnef")
    of_its_own = {"softabs", "max_unpool", "avg_unpool"}
    assert {*nnef.StandardOperations} - of_its_own == {*standard(Edition.FINAL)}


@pytest.mark.parametrize("edition", [*Edition])
def test_declarations_keep_the_rules_of_declarations(edition):
    for name, declaration in standard(edition).items():
        takes = [formal.takes_tensors for formal in declaration.formals]
        assert takes == sorted(takes, reverse=True), name
        names = [formal.name for formal in declaration.formals] + [result for result, _ in declaration.results]
        assert len(set(names)) == len(names), name
        assert all(holds_tensors(kind) for _, kind in declaration.results), name


def test_a_provisional_declaration_is_the_final_one_without_what_came_later():
    final = standard(Edition.FINAL)
    for name, declaration in standard(Edition.PROVISIONAL).items():
        if name in ONLY_PROVISIONAL:
            assert name not in final
            continue
        newer = NEWER_PARAMETERS.get(name, set())
        expected = [formal.name for formal in final[name].formals if formal.name not in newer]
        assert [RENAMED.get(formal.name, formal.name) for formal in declaration.formals] == expected, name


def test_a_declaration_states_what_it_takes():
    conv = standard(Edition.FINAL)["conv"]
    assert [formal.name for formal in conv.formals if formal.default is None] == ["input", "filter"]
    assert conv.formals[4].type is array_of(tuple_of(INTEGER, INTEGER))
    assert conv.result_type is tensor_of(SCALAR)
    assert conv.index("groups") == 7
    assert conv.index("nothing") is None
    moments = standard(Edition.FINAL)["moments"]
    assert moments.result_type is tuple_of(tensor_of(SCALAR), tensor_of(SCALAR))


def test_generic_operations_may_have_a_default():
    library = standard(Edition.FINAL)
    assert library["variable"].generic_default is SCALAR
    assert library["copy"].is_generic
    assert library["copy"].generic_default is None
    assert library["copy"].formals[0].type is tensor_of(GENERIC)
    assert not library["conv"].is_generic


def test_a_documents_own_operations_come_first():
    library = standard(Edition.FINAL)
    operations = Operations(library, {"relu": library["copy"]}, frozenset(["broken"]), ("tract_",))
    assert operations.find("relu") is library["copy"]
    assert operations.find("conv") is library["conv"]
    assert operations.find("tract_core_cast") is None
    assert [operations.is_opaque(name) for name in ("tract_core_cast", "broken", "other")] == [True, True, False]
