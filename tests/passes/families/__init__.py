"""All cases of preparation, by family."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.passes.cases import Case
from tests.passes.families.arithmetic import arithmetic
from tests.passes.families.bodies import bodies
from tests.passes.families.composed import composed
from tests.passes.families.constants import constants, copies
from tests.passes.families.normalizations import normalizations
from tests.passes.families.odds import odds
from tests.passes.families.old_forms import old_forms
from tests.passes.families.sources import sources, windows
from tests.passes.families.structures import structures
from tests.passes.families.weights import convolutions, gemms, products

Family = Callable[[], Iterator[Case]]

FAMILIES: tuple[Family, ...] = (
    convolutions,
    gemms,
    products,
    normalizations,
    arithmetic,
    constants,
    copies,
    old_forms,
    bodies,
    odds,
    composed,
    sources,
    windows,
    structures,
)


def cases() -> list[Case]:
    found = [case for family in FAMILIES for case in family()]
    names = [case.name for case in found]
    repeated = {name for name in names if names.count(name) > 1}
    if repeated:
        raise ValueError(f"two cases are called {', '.join(sorted(repeated))}")
    return found
