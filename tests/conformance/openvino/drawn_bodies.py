"""Operations with bodies: branches, loops and iterators over parts, as OpenVINO itself writes them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import opset13

from tests.conformance.openvino.cases import Array, Case, Operand
from tests.conformance.openvino.draw import Draw, Generator, register

GENERATORS: dict[str, Generator] = {}
of = register(GENERATORS)

_UNARY = (opset13.relu, opset13.tanh, opset13.negative, opset13.abs, opset13.sigmoid)
_BINARY = (opset13.add, opset13.multiply, opset13.subtract, opset13.maximum)


def written(op_type: str, operands: list[Operand], outputs: list[Any], parameters: list[Any]) -> Case:
    """Return a case written by OpenVINO from a graph."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.xml"
        openvino.serialize(openvino.Model(outputs, parameters, "case"), path)
        made = path.read_text("utf-8"), path.with_suffix(".bin").read_bytes()
    return Case(op_type, tuple(operands), (), made=made)


def parameter(array: Array, *, is_open: bool = False) -> Any:
    """Return a Parameter for an array, with open or static axes."""
    shape = openvino.PartialShape([-1 if is_open else int(n) for n in array.shape])
    return opset13.parameter(shape, np.dtype(array.dtype))


def mixed(r: Draw, values: list[Any], steps: int) -> Any:
    """Return the result of some operations on values of one shape."""
    found = list(values)
    for _ in range(steps):
        if r.chance(0.4):
            found.append(r.one(*_UNARY)(r.one(*found)))
        else:
            found.append(r.one(*_BINARY)(r.one(*found), r.one(*found)))
    return found[-1]


@of("opset8.If")
def branch(r: Draw, op_type: str) -> Case:
    shape, results = r.shape(0, 3), r.number(1, 2)
    arrays = [r.reals(shape) for _ in range(2)]
    flag = np.array(r.chance())
    is_open = r.chance(0.3)
    outer = [parameter(each, is_open=is_open) for each in arrays]
    condition = opset13.parameter([], np.bool_)
    chosen = opset13.if_op(condition)
    bodies = []
    for _ in range(2):
        inner = [parameter(each, is_open=is_open) for each in arrays]
        read = inner if r.chance(0.7) else inner[: r.number(1, 2)]
        ends = [opset13.result(mixed(r, read, r.number(1, 3))) for _ in range(results)]
        bodies.append((inner, ends, openvino.Model(ends, inner, "body")))
    chosen.set_then_body(bodies[0][2])
    chosen.set_else_body(bodies[1][2])
    for one, two, given in zip(bodies[0][0], bodies[1][0], outer, strict=True):
        chosen.set_input(given.output(0), one, two)
    outputs = [chosen.set_output(one, two) for one, two in zip(bodies[0][1], bodies[1][1], strict=True)]
    operands = [Operand(flag), *(Operand(each) for each in arrays)]
    return written(op_type, operands, [opset13.result(each) for each in outputs], [condition, *outer])


def parts(r: Draw, shape: tuple[int, ...]) -> tuple[int, int, tuple[int, ...]]:
    """Return an axis, the size of a part along it, and the shape of a part."""
    axis = r.number(0, len(shape) - 1)
    size = r.one(*(n for n in range(1, shape[axis] + 1) if shape[axis] % n == 0))
    return axis, size, (*shape[:axis], size, *shape[axis + 1 :])


@of("opset1.TensorIterator")
def iterator(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 3, least=2)
    axis, size, part = parts(r, shape)
    stride = size if r.chance(0.6) else -size
    begin, end = (0, -1) if stride > 0 else (-1, 0)
    x, state, weight = r.reals(shape), r.reals(part), r.reals(part)
    outer = [parameter(each) for each in (x, state, weight)]
    inner = [parameter(each) for each in (np.empty(part, np.float32), state, weight)]
    after = opset13.result(opset13.tanh(mixed(r, inner, r.number(2, 4))))
    shown = opset13.result(opset13.add(after.input_value(0), inner[0]))
    loop = opset13.tensor_iterator()
    loop.set_body(openvino.Model([after, shown], inner, "body"))
    loop.set_sliced_input(inner[0], outer[0].output(0), begin, stride, size, end, axis)
    loop.set_merged_input(inner[1], outer[1].output(0), after.output(0))
    loop.set_invariant_input(inner[2], outer[2].output(0))
    outputs = [loop.get_iter_value(after.output(0), -1)]
    if r.chance(0.8):
        outputs.append(loop.get_concatenated_slices(shown.output(0), begin, stride, size, end, axis))
    operands = [Operand(each) for each in (x, state, weight)]
    return written(op_type, operands, [opset13.result(each) for each in outputs], outer)


@of("opset5.Loop")
def loop(r: Draw, op_type: str) -> Case:
    shape = r.shape(1, 3)
    state, weight, count = r.reals(shape), r.reals(shape), r.number(1, 4)
    trips: Any = np.array(count, r.one("int64", "int32"))
    is_given = r.chance(0.3)
    outer = [parameter(each) for each in (state, weight)]
    limit = opset13.parameter([], trips.dtype) if is_given else opset13.constant(trips)
    inner = [parameter(each) for each in (state, weight)]
    after = opset13.result(opset13.tanh(mixed(r, inner, r.number(2, 4))))
    axes = opset13.constant(np.arange(len(shape)))
    total = opset13.reduce_sum(opset13.abs(after.input_value(0)), axes)
    lasts = opset13.less(total, opset13.constant(np.float32(r.one(0.5, 2.0, 1e9))))
    axis = r.number(0, len(shape))
    row = opset13.result(opset13.unsqueeze(after.input_value(0), opset13.constant(axis)))
    again = opset13.result(lasts if r.chance(0.5) else opset13.constant(np.array([True])))
    made = opset13.loop(limit, opset13.constant(np.array(True)))
    made.set_function(openvino.Model([again, after, row], inner, "body"))
    made.set_special_body_ports([-1, 0])
    made.set_merged_input(inner[0], outer[0].output(0), after.output(0))
    made.set_invariant_input(inner[1], outer[1].output(0))
    outputs = [made.get_iter_value(after.output(0), -1)]
    if r.chance(0.7):
        outputs.append(made.get_concatenated_slices(row.output(0), 0, 1, 1, -1, axis))
    operands = [Operand(each) for each in (state, weight)] + ([Operand(trips)] if is_given else [])
    return written(op_type, operands, [opset13.result(each) for each in outputs], outer + ([limit] if is_given else []))
