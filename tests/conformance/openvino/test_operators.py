"""Operations of OpenVINO in all versions, drawn at random: every way of ours against OpenVINO's own.

Each generator draws a case of its operation: attributes, element types, shapes that are open or known, operands that are
constants or given at run time, special numbers. Cases are those of fixed seeds.
"""

import pytest

from tests.conformance.openvino import (
    drawn_detections,
    drawn_elementwise,
    drawn_functions,
    drawn_moves,
    drawn_normalizations,
    drawn_parts,
    drawn_recurrent,
    drawn_regions,
    drawn_resizings,
    drawn_sums,
    drawn_windows,
)
from tests.conformance.openvino.cases import write
from tests.conformance.openvino.differential import deviation
from tests.conformance.openvino.draw import Draw

pytestmark = pytest.mark.conformance

SEEDS = 6
MODULES = (
    drawn_detections,
    drawn_elementwise,
    drawn_functions,
    drawn_moves,
    drawn_normalizations,
    drawn_parts,
    drawn_recurrent,
    drawn_regions,
    drawn_resizings,
    drawn_sums,
    drawn_windows,
)
GENERATORS = {name: generator for module in MODULES for name, generator in module.GENERATORS.items()}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", sorted(GENERATORS))
def test_every_way_computes_what_openvino_does(name, seed, tmp_path):
    case = GENERATORS[name](Draw(seed))
    path = write(case, tmp_path)
    assert deviation(case, path) is None, case
