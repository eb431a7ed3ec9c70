"""Operators on complex tensors, as operators on pairs of real tensors.

A raw graph has no complex values. A transform, for example `RFFT`, is a node with two results, the real and the
imaginary part; a node of a transform of a complex tensor has two operands in place of one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.formats.tensorflow.container.items import ComplexPair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.findings import Findings
    from graphport.formats.tensorflow.container.items import Frame
    from graphport.formats.tensorflow.container.records import Record
    from graphport.ir.graph import Value

_REAL_TRANSFORMS = frozenset({"RFFT", "RFFT2D", "RFFT3D"})
_TRANSFORMS = frozenset({"FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D"})
_INVERSE_REAL_TRANSFORMS = frozenset({"IRFFT", "IRFFT2D", "IRFFT3D"})
_BY_PARTS = frozenset(
    {
        *("Add", "AddV2", "AddN", "Sub", "Neg", "Reshape", "Transpose", "StridedSlice", "Slice", "ConcatV2", "Pack"),
        *("Unpack", "Split", "SplitV", "GatherV2", "GatherNd", "ExpandDims", "Squeeze", "Tile", "Pad", "ReverseV2"),
        *("Roll", "BroadcastTo", "ZerosLike", "Select", "SelectV2", "Sum", "Mean", "Cumsum", "ScatterNd", "Fill"),
        *("SpaceToBatchND", "BatchToSpaceND", "UnsortedSegmentSum", "MatrixDiagV3", "MatrixDiagPartV3", "BiasAdd"),
    }
)
"""Operators that compute the real part of their result from the real parts of operands, and likewise the imaginary."""
_OF_SHAPE = frozenset({"Shape", "ShapeN", "Size", "Rank"})
_PRODUCTS = frozenset({"Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"})
_REAL_TYPE = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}


def is_complex(record: Record, operands: Sequence[Any], findings: Findings) -> bool:
    """Whether a node has a complex operand or result."""
    if any(isinstance(each, ComplexPair) for each in operands) or record.op_type in ("Complex", *_REAL_TRANSFORMS):
        return True
    return record.op_type == "Cast" and record.attribute("DstT", findings) in _REAL_TYPE


def evaluate(building: Evaluator, frame: Frame, record: Record, operands: list[Any]) -> list[Any]:
    """Return the results of an operator on complex tensors.

    Raises:
        DiagnosticError: TF0206 the operator has no formula for complex tensors.
    """
    return list(_Operation(building, frame, record, operands).results())


class _Operation:
    """One operator on complex tensors."""

    def __init__(self, building: Evaluator, frame: Frame, record: Record, operands: list[Any]) -> None:
        self.building = building
        self.record = record
        self.name = f"{frame.prefix}{record.name}"
        self.operands = operands
        self.attributes = {
            name: _REAL_TYPE.get(each, each) if isinstance(each, DType) else each
            for name, each in building.node_attributes(record).items()
        }

    def results(self) -> Sequence[Any]:
        op_type = self.record.op_type
        if op_type == "Complex":
            return [ComplexPair(*map(self._tensor, self.operands))]
        if op_type == "Cast":
            return [self._cast()]
        if op_type in _REAL_TRANSFORMS:
            return [ComplexPair(*self._emit(op_type, *map(self._tensor, self.operands), count=2))]
        if op_type in _TRANSFORMS:
            x = self._pair(0)
            return [ComplexPair(*self._emit(op_type, x.real, x.imag, count=2))]
        if op_type in _INVERSE_REAL_TRANSFORMS:
            x = self._pair(0)
            return self._emit(op_type, x.real, x.imag, *map(self._tensor, self.operands[1:]))
        if op_type in _OF_SHAPE:
            parts = [each.real if isinstance(each, ComplexPair) else each for each in self.operands]
            return self._emit(op_type, *parts, count=len(parts) if op_type == "ShapeN" else 1)
        if op_type in _BY_PARTS:
            return self._map_components()
        formula = _FORMULAS.get("Mul" if op_type in _PRODUCTS else op_type)
        if formula is None:
            text = f"{op_type} of complex tensors"
            help = "compute it from the real and imaginary parts"
            self.building.refuse("TF0206", text, f"node {self.record.name}", help)
        if len(self.operands) != formula.operands:
            text = f"{op_type} has {len(self.operands)} operands, expected {formula.operands}"
            self.building.refuse(
                "TF0201", text, f"node {self.record.name}", "the file is damaged; save the model again"
            )
        return [formula.compute(self, *(self._pair(index) for index in range(formula.operands)))]

    def call(self, op_type: str, *operands: Value) -> Value:
        """Return the result of an operator on real tensors."""
        return self._emit(op_type, *operands)[0]

    def product(self, x: Value, y: Value) -> Value:
        """Return the product of two parts, by the operator of this node if it is a product."""
        op_type = self.record.op_type
        return self.call(op_type if op_type in _PRODUCTS else "Mul", x, y)

    def _emit(self, op_type: str, *operands: Value, count: int = 1) -> list[Value]:
        return self.building.emit(op_type, operands, self.attributes, self.name, count)

    def _tensor(self, item: Any) -> Value:
        return self.building.value(item, self.record)

    def _pair(self, index: int) -> ComplexPair:
        item = self.operands[index]
        if isinstance(item, ComplexPair):
            return item
        real = self._tensor(item)
        return ComplexPair(real, self.call("ZerosLike", real))

    def _cast(self) -> Any:
        x = self.operands[0]
        if self.record.attribute("DstT", self.building.findings) not in _REAL_TYPE:
            return self.call("Cast", self._pair(0).real)
        if isinstance(x, ComplexPair):
            return ComplexPair(self.call("Cast", x.real), self.call("Cast", x.imag))
        real = self.call("Cast", self._tensor(x))
        return ComplexPair(real, self.call("ZerosLike", real))

    def _map_components(self) -> list[ComplexPair]:
        count = max(self.record.count(self.building.findings), 1)
        real, imag = (
            self._emit(
                self.record.op_type,
                *(self._component(each, name) for each in self.operands),
                count=count,
            )
            for name in ("real", "imag")
        )
        return [ComplexPair(*parts) for parts in zip(real, imag, strict=True)]

    def _component(self, item: Any, name: str) -> Value:
        return getattr(item, name) if isinstance(item, ComplexPair) else self._tensor(item)


def _real_component(op: _Operation, x: ComplexPair) -> Value:
    del op
    return x.real


def _imaginary_component(op: _Operation, x: ComplexPair) -> Value:
    del op
    return x.imag


def _multiply(op: _Operation, x: ComplexPair, y: ComplexPair) -> ComplexPair:
    real = op.call("Sub", op.product(x.real, y.real), op.product(x.imag, y.imag))
    return ComplexPair(real, op.call("AddV2", op.product(x.real, y.imag), op.product(x.imag, y.real)))


def _square(op: _Operation, x: ComplexPair) -> ComplexPair:
    return _multiply(op, x, x)


def _power(op: _Operation, x: ComplexPair) -> Value:
    """Return the squared magnitude."""
    return op.call("AddV2", op.call("Square", x.real), op.call("Square", x.imag))


def _reciprocal(op: _Operation, x: ComplexPair) -> ComplexPair:
    power = _power(op, x)
    return ComplexPair(op.call("RealDiv", x.real, power), op.call("RealDiv", op.call("Neg", x.imag), power))


def _divide(op: _Operation, x: ComplexPair, y: ComplexPair) -> ComplexPair:
    power = _power(op, y)
    found = _multiply(op, x, _conjugate(op, y))
    return ComplexPair(op.call("RealDiv", found.real, power), op.call("RealDiv", found.imag, power))


def _conjugate(op: _Operation, x: ComplexPair) -> ComplexPair:
    return ComplexPair(x.real, op.call("Neg", x.imag))


def _transpose_conjugate(op: _Operation, x: ComplexPair, perm: ComplexPair) -> ComplexPair:
    real, imag = (op.call("Transpose", part, perm.real) for part in (x.real, x.imag))
    return ComplexPair(real, op.call("Neg", imag))


def _exponential(op: _Operation, x: ComplexPair) -> ComplexPair:
    size = op.call("Exp", x.real)
    return ComplexPair(*(op.call("Mul", size, op.call(wave, x.imag)) for wave in ("Cos", "Sin")))


def _logarithm(op: _Operation, x: ComplexPair) -> ComplexPair:
    return ComplexPair(op.call("Log", _magnitude(op, x)), _angle(op, x))


def _magnitude(op: _Operation, x: ComplexPair) -> Value:
    return op.call("Sqrt", _power(op, x))


def _angle(op: _Operation, x: ComplexPair) -> Value:
    return op.call("Atan2", x.imag, x.real)


def _ones_like(op: _Operation, x: ComplexPair) -> ComplexPair:
    return ComplexPair(op.call("OnesLike", x.real), op.call("ZerosLike", x.imag))


def _equal(op: _Operation, x: ComplexPair, y: ComplexPair) -> Value:
    return op.call("LogicalAnd", op.call("Equal", x.real, y.real), op.call("Equal", x.imag, y.imag))


def _not_equal(op: _Operation, x: ComplexPair, y: ComplexPair) -> Value:
    return op.call("LogicalNot", _equal(op, x, y))


@dataclass(frozen=True, slots=True)
class _Formula:
    """The number of operands of an operator, and the function that computes its result from pairs."""

    operands: int
    compute: Callable[..., Any]


_FORMULAS = {
    "Real": _Formula(1, _real_component),
    "Imag": _Formula(1, _imaginary_component),
    "Conj": _Formula(1, _conjugate),
    "ConjugateTranspose": _Formula(2, _transpose_conjugate),
    "ComplexAbs": _Formula(1, _magnitude),
    "Angle": _Formula(1, _angle),
    "Mul": _Formula(2, _multiply),
    "Square": _Formula(1, _square),
    "RealDiv": _Formula(2, _divide),
    "Div": _Formula(2, _divide),
    "Reciprocal": _Formula(1, _reciprocal),
    "Inv": _Formula(1, _reciprocal),
    "Exp": _Formula(1, _exponential),
    "Log": _Formula(1, _logarithm),
    "OnesLike": _Formula(1, _ones_like),
    "Equal": _Formula(2, _equal),
    "NotEqual": _Formula(2, _not_equal),
}
