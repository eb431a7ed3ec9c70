"""Samples that are observed, and layers that are rounded, on a Ray cluster of two machines."""

from __future__ import annotations

import pytest

from tests.quantization import machines

# Starting one takes longer than many a suite; in a sample of the others it would be drawn by chance.
pytestmark = pytest.mark.conformance(always=True)


def test_cluster_results_equal_one_machine_bit_for_bit(tmp_path):
    with machines.cluster() as cluster:
        assert len(cluster.list_all_nodes()) == 2
        machines.observe_as_one_does(tmp_path)
        machines.observe_on_the_command_line(tmp_path)
        machines.round_as_one_does()
