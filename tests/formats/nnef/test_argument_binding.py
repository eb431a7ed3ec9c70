from __future__ import annotations

import pytest

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.argument_binding import Binder, Plan, similar, suggestion
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.syntax import Argument, Call, Edition, Name

CONV = standard(Edition.FINAL)["conv"]


def bound(*names):
    findings = Findings(Source("model.nnef", ""), 10)
    call = Call("conv", tuple(Argument(name, Name("x")) for name in names))
    return Binder(Edition.FINAL, findings).plan(CONV, call), [each.code for each in findings.sorted_by_location()]


def test_arguments_are_bound_by_position_and_by_name():
    plan, found = bound(None, None, "groups", "bias")
    assert found == []
    assert plan == Plan((0, 1, 7, 2), (3, 4, 5, 6))


@pytest.mark.parametrize(
    ("names", "codes"),
    [
        ((None,), ["NNEF0324"]),
        ((None, None, "group"), ["NNEF0326"]),
        ((None, None, "groups", "groups"), ["NNEF0327"]),
        ((None, None, "input"), ["NNEF0328"]),
        (("filter", None), ["NNEF0325"]),
        ((None,) * 9, ["NNEF0329"] * 5 + ["NNEF0323"]),
        ((None, "bias", "bais"), ["NNEF0326", "NNEF0324"]),
    ],
)
def test_what_does_not_bind_is_written_completely(names, codes):
    plan, found = bound(*names)
    assert plan is None
    assert sorted(found) == sorted(codes)


def test_names_that_are_nearly_right_are_recognized():
    assert similar("striide", ["stride", "size"]) == "stride"
    assert suggestion("groupes", ["groups"]) == "did you mean 'groups'?"
    assert similar("anything", ["stride", "size"]) is None
    assert similar("x" * 100_000, ["x" * 100_001]) is None


def test_only_some_of_many_names_are_looked_at():
    assert similar("name99999x", (f"name{index}" for index in range(100_000))) in (
        None,
        *(f"name{i}" for i in range(100_000)),
    )
