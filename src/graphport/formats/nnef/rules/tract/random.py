"""Numbers at random in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import DIALECT, RULES, import_rule
from graphport.formats.nnef.rules.tract.types import datum_name
from graphport.ops.declare import UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("tract_onnx_random")
def random(
    b: Builder, *, datum_type: str, shape: tuple[int, ...], dist: str, parameters: tuple[float, ...], seed: float = 0.0
) -> Value:
    """Random tensor with a uniform or normal distribution."""
    del datum_type, seed
    if dist == "uniform":
        low, high = parameters
        return OpBuilder(b)("RandomUniform", shape=shape, low=low, high=high)
    if dist == "normal":
        mean, scale = parameters
        return OpBuilder(b)("RandomNormal", shape=shape, mean=mean, scale=scale)
    message = f"the distribution {dist}"
    raise UnsupportedError(message)


RULES.lower("""
tract_onnx_multinomial(input, *, dtype: ignored = 6, sample_size=1, seed: ignored = 0.0)
    -> Multinomial(input, sample_size=sample_size)
""")


# Export rules: the seed is omitted, because each runtime generates different numbers


@export_rule(DIALECT, "RandomUniform")
def export_uniform(
    b: Builder,
    *,
    shape: tuple[int, ...],
    dtype: DType = DType.FLOAT32,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Any:
    del seed
    return _emit_random(b, "uniform", (low, high), shape, dtype)


@export_rule(DIALECT, "RandomNormal")
def export_normal(
    b: Builder,
    *,
    shape: tuple[int, ...],
    dtype: DType = DType.FLOAT32,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Any:
    del seed
    return _emit_random(b, "normal", (mean, scale), shape, dtype)


@export_rule(DIALECT, "RandomUniformLike")
def export_uniform_like(
    b: Builder,
    input: Value,
    *,
    dtype: DType | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Any:
    del seed
    return _emit_random(b, "uniform", (low, high), b.dims(input), dtype or input.dtype)


@export_rule(DIALECT, "RandomNormalLike")
def export_normal_like(
    b: Builder,
    input: Value,
    *,
    dtype: DType | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Any:
    del seed
    return _emit_random(b, "normal", (mean, scale), b.dims(input), dtype or input.dtype)


def _emit_random(
    b: Builder, distribution: str, parameters: tuple[float, float], shape: tuple[Any, ...], dtype: DType | None
) -> Any:
    if dtype not in (DType.FLOAT32, DType.FLOAT64) or not all(isinstance(extent, int) for extent in shape):
        return None
    return b.emit(
        "tract_onnx_random",
        facts=[TensorFact(dtype, shape)],
        datum_type=datum_name(dtype),
        shape=shape,
        dist=distribution,
        parameters=parameters,
    )


@export_rule(DIALECT, "Multinomial")
def export_multinomial(
    b: Builder, input: Value, *, dtype: DType = DType.INT32, sample_size: int = 1, seed: float | None = None
) -> Any:
    """Export Multinomial: subtract the maximum first, because tract exponentiates without it."""
    del seed
    if input.dtype is not DType.FLOAT32:
        return None
    fact = input.fact
    (most,) = b.emit("max_reduce", input, facts=[TensorFact(DType.FLOAT32, None)], axes=(1,))
    (x,) = b.emit("sub", input, most, facts=[fact])
    fact = TensorFact(DType.INT32, (b.dims(input, at_least=1)[0], sample_size))
    (y,) = b.emit("tract_onnx_multinomial", x, facts=[fact], dtype=6, sample_size=sample_size)
    return y if dtype is DType.INT32 else b.emit("tract_core_cast", y, to=datum_name(dtype))
