"""Operations of OpenVINO in all versions, drawn at random: every way of ours against OpenVINO's own.

Each generator draws a case of its operation: attributes, element types, shapes that are open or known, operands that are
constants or given at run time, special numbers. Cases are those of fixed seeds.
"""

import pytest

from tests.conformance.openvino import (
    drawn_bodies,
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
from tests.conformance.openvino.differential import UnjudgedError, deviation
from tests.conformance.openvino.draw import Draw

pytestmark = pytest.mark.conformance

SEEDS, DRAWS = 6, 5
"""Cases of each word, and how often another one is drawn where OpenVINO computes none of its own files."""
MODULES = (
    drawn_bodies,
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
def test_operators_match_openvino(name, seed, tmp_path):
    refusals: list[str] = []
    for turn in range(DRAWS):
        case = GENERATORS[name](Draw(seed + turn * SEEDS))
        path = write(case, tmp_path)
        try:
            found = deviation(case, path)
        except UnjudgedError as error:
            refusals.append(str(error))
            continue
        assert found is None, case
        break
    else:
        pytest.fail(f"OpenVINO computes nothing of what was drawn: {refusals}")
