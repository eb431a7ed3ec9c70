"""Every result of Caffe is a blob that one layer computes and nobody reads; results keep their names."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.caffe.graph_passes.hooks import after_export
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify

FACT = TensorFact(DType.FLOAT32, (2,))


def test_every_result_is_a_separate_blob():
    rng = np.random.default_rng(0)
    for case in range(60):
        graph: Any = Graph()
        storage = storage_of(np.ones(2, np.float32))
        values = [graph.add_input("x", FACT), graph.add_constant("c", FACT, storage)]
        for number in range(int(rng.integers(1, 5))):
            operand = values[int(rng.integers(len(values)))]
            values.append(graph.append(Node("ReLU", [operand], [Value(f"r{number}", FACT)], dialect="caffe")).output)
        shown = [values[place] for place in rng.integers(len(values), size=int(rng.integers(1, 5)))]
        graph.set_outputs(shown)
        names, layers = [value.name for value in shown], len(graph)
        readers = {value: len(value.uses) for value in shown}
        after_export(graph)
        verify(graph)
        outputs = graph.outputs
        assert len(set(outputs)) == len(shown)
        copies = 0
        for value, source, name in zip(outputs, shown, names, strict=True):
            assert value.producer is not None
            assert len(value.uses) == 1
            assert value.fact == FACT
            is_copy = value.producer.op_type == "Split"
            copies += is_copy
            assert is_copy or (value is source and readers[source] == 1)
            if is_copy:
                assert (value.producer.dialect, value.producer.operands) == ("caffe", [source])
            is_given = source.producer is None
            assert is_given or names.count(name) > 1 or value.name == name, case
        assert len(graph) == layers + copies
        if len(set(names)) < len(names) or {"x", "c"} & set(names):
            assert list(outputs) == [node.output for node in graph][-len(outputs) :]
        for name in set(names) - {"x", "c"}:
            assert [value.name for value in outputs].count(name) == 1
