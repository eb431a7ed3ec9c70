from __future__ import annotations

from graphport.core.diagnostics import Source
from graphport.formats.nnef.container.findings import Findings
from graphport.formats.nnef.container.syntax import Name


def test_findings_are_ordered_by_place():
    findings = Findings(Source("model.nnef", "a b c"), 10)
    findings.error("NNEF0303", "second", Name("b", 2, 3))
    findings.warn("NNEF0344", "first", Name("a", 0, 1))
    assert [each.message for each in findings.sorted_by_location()] == ["first", "second"]
    assert findings.has_errors


def test_warnings_alone_are_no_errors():
    findings = Findings(Source("model.nnef", "a"), 10)
    findings.warn("NNEF0344", "only", Name("a", 0, 1))
    assert not findings.has_errors


def test_beyond_the_limit_findings_are_counted():
    findings = Findings(Source("model.nnef", "a"), 2)
    for index in range(5):
        findings.error("NNEF0303", f"{index}", Name("a", 0, 1))
    assert findings.is_full
    assert [each.message for each in findings.sorted_by_location()] == ["0", "1", "3 further findings are not shown"]
