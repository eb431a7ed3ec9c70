"""Files that are damaged at random are read or refused, in time, and never end in anything else."""

from __future__ import annotations

import time

import pytest

import graphport as gp
from tests.draws import spread
from tests.formats.openvino.mutations import mutated

GROUPS, EACH = 10, 40


@pytest.mark.parametrize("group", spread(range(GROUPS)))
def test_a_damaged_file_is_read_or_refused(group, tmp_path):
    for seed in range(group * EACH, (group + 1) * EACH):
        kind, path = mutated(seed, tmp_path)
        start = time.process_time()
        findings = gp.check(path)
        assert time.process_time() - start < 5, (seed, kind)
        if any(finding.is_error for finding in findings):
            continue
        # What is accepted is a graph that can be written again, and is the same then.
        raw = gp.load(path, raw=True)
        gp.save(raw, tmp_path / "again.xml")
        again = gp.load(tmp_path / "again.xml", raw=True)
        assert [node.op for node in again.graph] == [node.op for node in raw.graph], (seed, kind)
