"""Functions of TensorFlow in models of Keras 2, as operations of Keras 3: names of arguments, and further options."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Function:
    """The operation equivalent to a TensorFlow function: parameters by its names, and options that are implied."""

    operation: str
    parameters: tuple[str, ...]
    renames: dict[str, str] = field(default_factory=dict[str, str])
    options: dict[str, Any] = field(default_factory=dict[str, Any])


_UNARY = {
    **{name: name.capitalize() for name in ("abs", "exp", "floor", "ceil", "sin", "cos", "tan", "sinh", "cosh", "erf")},
    **{name: name.capitalize() for name in ("log", "log1p", "expm1", "rsqrt", "sqrt", "square", "sign", "reciprocal")},
    "negative": "Negative",
    "tanh": "Tanh",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "asin": "Arcsin",
    "acos": "Arccos",
    "atan": "Arctan",
    "asinh": "Arcsinh",
    "acosh": "Arccosh",
    "atanh": "Arctanh",
    "erfc": "Erfc",
    "log_sigmoid": "LogSigmoid",
    "logical_not": "LogicalNot",
    "is_nan": "Isnan",
    "is_inf": "Isinf",
    "is_finite": "Isfinite",
    "round": "Round",
    "neg": "Negative",
    "invert": "BitwiseNot",
    "identity": "Copy",
    "stop_gradient": "StopGradient",
    "relu": "Relu",
    "relu6": "Relu6",
    "selu": "Selu",
    "swish": "Silu",
    "silu": "Silu",
    "zeros_like": "ZerosLike",
    "ones_like": "OnesLike",
    "nn.swish": "Silu",
}
_BINARY = {
    **{name: name.capitalize() for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum", "equal")},
    **{name: name.capitalize() for name in ("less", "greater")},
    "sub": "Subtract",
    "mul": "Multiply",
    "truediv": "Divide",
    "div": "Divide",
    "floordiv": "FloorDivide",
    "mod": "Mod",
    "floormod": "Mod",
    "pow": "Power",
    "not_equal": "NotEqual",
    "less_equal": "LessEqual",
    "greater_equal": "GreaterEqual",
    "logical_and": "LogicalAnd",
    "logical_or": "LogicalOr",
    "atan2": "Arctan2",
    "logical_xor": "LogicalXor",
    "squared_difference": "SquaredDifference",
    "divide_no_nan": "DivideNoNan",
    "ne": "NotEqual",
    "eq": "Equal",
    "gt": "Greater",
    "ge": "GreaterEqual",
    "lt": "Less",
    "le": "LessEqual",
}
_PREFIXES = (
    "",
    "math.",
    "nn.",
    "__operators__.",
    "keras.backend.",
    "compat.v1.",
    "raw_ops.",
    "bitwise.",
    "keras.activations.",
)
_REDUCTIONS = {
    **{f"reduce_{name}": name.capitalize() for name in ("mean", "sum", "max", "min", "prod", "all", "any")},
    "reduce_std": "Std",
    "reduce_variance": "Var",
    "reduce_logsumexp": "Logsumexp",
    "argmax": "Argmax",
    "argmin": "Argmin",
}
_REDUCTION = {
    "input_tensor": "x",
    "input": "x",
    "keep_dims": "keepdims",
    "reduction_indices": "axis",
    "dimension": "axis",
}

_OTHERS = {
    "__operators__.getitem": Function("GetItem", ("x", "key"), {"slice_spec": "key"}),
    "concat": Function("Concatenate", ("xs", "axis"), {"values": "xs"}),
    "reshape": Function("Reshape", ("x", "newshape"), {"tensor": "x", "shape": "newshape"}),
    "transpose": Function("Transpose", ("x", "axes"), {"a": "x", "perm": "axes"}),
    "cast": Function("Cast", ("x", "dtype"), {}),
    "expand_dims": Function("ExpandDims", ("x", "axis"), {"input": "x"}),
    "squeeze": Function("Squeeze", ("x", "axis"), {"input": "x", "squeeze_dims": "axis"}),
    "linalg.matmul": Function("Matmul", ("x1", "x2", "transpose_a", "transpose_b"), {"a": "x1", "b": "x2"}),
    "clip_by_value": Function(
        "Clip", ("x", "x_min", "x_max"), {"t": "x", "clip_value_min": "x_min", "clip_value_max": "x_max"}
    ),
    "tile": Function("Tile", ("x", "repeats"), {"input": "x", "multiples": "repeats"}),
    "split": Function("SplitSizes", ("x", "sizes", "axis"), {"value": "x", "num_or_size_splits": "sizes"}),
    "stack": Function("Stack", ("x", "axis"), {"values": "x"}),
    "unstack": Function("Unstack", ("x", "num", "axis"), {"value": "x"}),
    "where": Function("Where", ("condition", "x1", "x2"), {"x": "x1", "y": "x2"}),
    "nn.softmax": Function("Softmax", ("x", "axis"), {"logits": "x"}),
    "nn.log_softmax": Function("LogSoftmax", ("x", "axis"), {"logits": "x"}),
    "nn.leaky_relu": Function("LeakyRelu", ("x", "negative_slope"), {"features": "x", "alpha": "negative_slope"}),
    "nn.gelu": Function("Gelu", ("x", "approximate"), {"features": "x"}, {"approximate": False}),
    "nn.elu": Function("Elu", ("x",), {"features": "x"}),
    "pad": Function("Pad", ("x", "pad_width", "mode", "constant_values"), {"tensor": "x", "paddings": "pad_width"}),
    "gather": Function("GatherTF", ("x", "indices", "validate_indices", "axis", "batch_dims"), {"params": "x"}),
    "one_hot": Function("OneHot", ("x", "num_classes"), {"indices": "x", "depth": "num_classes"}),
    "cumsum": Function("Cumsum", ("x", "axis"), {}, {"axis": 0}),
    "cumprod": Function("Cumprod", ("x", "axis"), {}, {"axis": 0}),
    "reverse": Function("Flip", ("x", "axis"), {"tensor": "x"}),
    "repeat": Function("Repeat", ("x", "repeats", "axis"), {"input": "x"}),
    "roll": Function("Roll", ("x", "shift", "axis"), {"input": "x"}),
    "einsum": Function("Einsum", ("subscripts", "operands"), {"equation": "subscripts", "inputs": "operands"}),
    "linalg.einsum": Function("Einsum", ("subscripts", "operands"), {"equation": "subscripts", "inputs": "operands"}),
    "math.l2_normalize": Function("L2Normalize", ("x", "axis", "epsilon"), {"dim": "axis"}),
    "linalg.l2_normalize": Function("L2Normalize", ("x", "axis", "epsilon"), {"dim": "axis"}),
    "nn.l2_normalize": Function("L2Normalize", ("x", "axis", "epsilon"), {"dim": "axis"}),
    "linalg.norm": Function("Norm", ("x", "ord", "axis", "keepdims"), {"tensor": "x"}),
    "norm": Function("Norm", ("x", "ord", "axis", "keepdims"), {"tensor": "x"}),
    "nn.depth_to_space": Function("DepthToSpace", ("x", "block_size", "data_format"), {"input": "x"}),
    "nn.space_to_depth": Function("SpaceToDepth", ("x", "block_size", "data_format"), {"input": "x"}),
    "image.resize": Function("Resize", ("images", "size", "interpolation"), {"method": "interpolation"}),
    "broadcast_to": Function("BroadcastTo", ("x", "shape"), {"input": "x"}),
    "math.add_n": Function("AddN", ("xs",), {"inputs": "xs"}),
    "tensordot": Function("Tensordot", ("x1", "x2", "axes"), {"a": "x1", "b": "x2"}),
    "math.top_k": Function("TopK", ("x", "k", "sorted"), {"input": "x"}),
    "shape": Function("Shape", ("x", "out_type"), {"input": "x"}),
    "sort": Function("Sort", ("x", "axis"), {"values": "x"}),
    "argsort": Function("Argsort", ("x", "axis"), {"values": "x"}),
    "convert_to_tensor": Function("Copy", ("x",), {"value": "x"}),
    "keras.activations.relu": Function(
        "ReLU", ("x", "negative_slope", "max_value", "threshold"), {"alpha": "negative_slope"}
    ),
    "keras.activations.softmax": Function("Softmax", ("x", "axis"), {}),
    "keras.activations.gelu": Function("Gelu", ("x", "approximate"), {}, {"approximate": False}),
    "keras.backend.batch_dot": Function("BatchDot", ("x", "y", "axes"), {}),
    "keras.backend.concatenate": Function("Concatenate", ("xs", "axis"), {"tensors": "xs"}, {"axis": -1}),
    "keras.backend.expand_dims": Function("ExpandDims", ("x", "axis"), {}, {"axis": -1}),
    "keras.backend.squeeze": Function("Squeeze", ("x", "axis"), {}),
    "keras.backend.permute_dimensions": Function("Transpose", ("x", "axes"), {"pattern": "axes"}),
    "keras.backend.softmax": Function("Softmax", ("x", "axis"), {}),
    "keras.backend.dot": Function("Dot", ("x1", "x2"), {"x": "x1", "y": "x2"}),
    **{
        f"keras.backend.{name}": Function(name.capitalize(), ("x", "axis", "keepdims"))
        for name in ("mean", "sum", "max", "min", "prod", "var", "std", "any", "all")
    },
}
_SHORT = {
    "transpose": ("linalg.transpose",),
    "linalg.matmul": ("matmul",),
    "concat": ("concat_v2",),
    "reverse": ("reverse_v2",),
}


def _functions() -> dict[str, Function]:
    found: dict[str, Function] = {}
    for prefix in _PREFIXES:
        for name, target in _UNARY.items():
            found[f"{prefix}{name}"] = Function(
                target, ("x",), {"features": "x", "input": "x", "a": "x", "logits": "x"}
            )
        for name, target in _BINARY.items():
            found[f"{prefix}{name}"] = Function(target, ("x1", "x2"), {"x": "x1", "y": "x2"})
        for name, target in _REDUCTIONS.items():
            found[f"{prefix}{name}"] = Function(target, ("x", "axis", "keepdims"), _REDUCTION, _defaults(target))
    for name, function in _OTHERS.items():
        for each in (name, f"math.{name}", f"compat.v1.{name}", *_SHORT.get(name, ())):
            found[each] = function
    return found


def _defaults(target: str) -> dict[str, Any]:
    """Return the defaults of `tf.argmax` and `tf.argmin`: axis 0, result int64."""
    return {"axis": 0, "output_type": "int64"} if target.startswith("Arg") else {}


FUNCTIONS = _functions()
"""Functions of TensorFlow by their names in `TFOpLambda` layers."""
