"""Documents with one or few operations, for all 118 operations of NNEF 1.0.5 in all forms of their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nnef
import numpy as np

HEAD = "version 1.0;\nextension KHR_enable_fragment_definitions;\nextension KHR_enable_operator_expressions;\n"
IMAGE = "x: 2,3,6,7"
BORDERS = ("constant", "replicate", "reflect", "reflect-even", "ignore")
PADDINGS = {
    "auto": "",
    "none": "padding = [(0, 0), (0, 0), (0, 0), (0, 0)]",
    "same": "padding = [(0, 0), (0, 0), (1, 1), (1, 1)]",
    "asymmetric": "padding = [(0, 0), (0, 0), (0, 2), (1, 0)]",
}


class Document(NamedTuple):
    """`inputs` are "name: dims [kind]; …"; names that begin with a capital letter are variables."""

    name: str
    inputs: str
    statements: str

    @property
    def outputs(self) -> list[str]:
        """Return the names of the results: those that begin with y, or i for indices."""
        heads = [line.partition("=")[0] for line in self.statements.split(";")]
        names = [name.strip(" [](){}\n") for head in heads for name in head.split(",")]
        return list(dict.fromkeys(name for name in names if name[:1] in ("y", "i")))

    def operands(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return reproducible random arrays for inputs and variables."""
        found: dict[str, np.ndarray[Any, Any]] = {}
        for place, part in enumerate(filter(None, self.inputs.split("; "))):
            name, _, rest = part.partition(": ")
            extents, _, kind = rest.partition(" ")
            shape = tuple(int(extent) for extent in extents.split(",") if extent)
            found[name] = _drawn(np.random.default_rng([place, *map(ord, self.name)]), shape, kind)
        return found

    def given(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of the inputs."""
        return {name: array for name, array in self.operands().items() if name[0].islower()}

    def write(self, folder: Path) -> None:
        """Write the text and the files of its variables."""
        folder.mkdir(parents=True, exist_ok=True)
        lines: list[str] = []
        for name, array in self.operands().items():
            kind = {"f": "scalar", "i": "integer", "b": "logical"}[array.dtype.kind]
            label = "" if name[0].islower() else f", label = '{name}'"
            lines.append(f"{name} = {'variable' if label else 'external'}<{kind}>(shape = {list(array.shape)}{label});")
            if label:
                with (folder / f"{name}.dat").open("wb") as file:
                    nnef.write_tensor(file, array)  # pyright: ignore[reportUnknownMemberType]
        lines += [f"{line.strip()};" for line in self.statements.split(";") if line.strip()]
        body = "".join(f"    {line}\n" for line in lines)
        text = f"{HEAD}graph g( {', '.join(self.given())} ) -> ( {', '.join(self.outputs)} )\n{{\n{body}}}\n"
        (folder / "graph.nnef").write_text(text)


def _drawn(random: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray[Any, Any]:
    match kind:
        case "logical":
            return random.random(shape) > 0.5
        case "positive":
            return (random.random(shape) + 0.1).astype(np.float32)
        case "unit":
            return (random.random(shape) * 1.8 - 0.9).astype(np.float32)
        case "above":
            return (random.random(shape) + 1.1).astype(np.float32)
        case "rois":
            corners = np.sort(random.random((shape[0], 2, 2)) * 5, axis=1)
            return corners.reshape(shape).astype(np.float32)
        case _ if kind.startswith("below"):
            return random.integers(0, int(kind[5:]), shape)
        case _:
            return random.normal(size=shape).astype(np.float32)


# ── element by element ────────────────────────────────────────────────────────────────────────────────────────────────

_UNARY = {
    **dict.fromkeys(("copy", "neg", "rcp", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh"), ""),
    **dict.fromkeys(("abs", "sign", "floor", "ceil", "round", "sqr", "rsqr", "sigmoid", "relu", "gelu", "silu"), ""),
    **dict.fromkeys(("softplus", "elu", "selu"), ""),
    **dict.fromkeys(("log", "sqrt", "rsqrt", "log2"), "positive"),
    **dict.fromkeys(("asin", "acos", "atanh"), "unit"),
    "acosh": "above",
}
_BINARY = ("add", "sub", "mul", "div", "pow", "lt", "gt", "le", "ge", "eq", "ne", "min", "max")
_OPERATORS = ("+", "-", "*", "/", "^", "<", ">", "<=", ">=", "==", "!=")


def elementwise() -> Iterator[Document]:
    for op_type, kind in _UNARY.items():
        for rank, extents in ((1, "5"), (3, "2,3,4")):
            yield Document(f"{op_type}_r{rank}", f"x: {extents} {kind}".strip(), f"y = {op_type}(x)")
    for op_type in _BINARY:
        kind = " positive" if op_type == "pow" else ""
        for name, shapes in {"same": ("2,3", "2,3"), "behind": ("2,3,4", "2,3"), "ones": ("2,1,4", "2,3,1")}.items():
            first, second = shapes if op_type != "pow" else shapes[::-1]
            yield Document(f"{op_type}_{name}", f"x: {first}{kind}; z: {second}{kind}", f"y = {op_type}(x, z)")
        yield Document(f"{op_type}_literal", f"x: 2,3{kind}", f"y = {op_type}(x, 0.5)")
        yield Document(f"{op_type}_of_literal", f"x: 2,3{kind}", f"y = {op_type}(0.5, x)")
        yield Document(f"{op_type}_channels", f"x: 2,3,4{kind}; B: 1,3{kind}", f"y = {op_type}(x, B)")
    for number, sign in enumerate(_OPERATORS):
        yield Document(f"operator_{number}", "x: 2,3 positive; z: 2,3 positive", f"y = x {sign} z")
    yield Document("negation", "x: 2,3", "y = -x + 1.0")
    for op_type in ("and", "or"):
        yield Document(f"{op_type}_words", "p: 2,3 logical; q: 2,3 logical", f"y = {op_type}(p, q)")
        yield Document(f"{op_type}_behind", "p: 2,3 logical; q: 2 logical", f"y = {op_type}(p, q)")
    yield Document("not_word", "p: 2,3 logical", "y = not(p)")
    yield Document("logic_of_reals", "x: 2,3; z: 2,3", "y = and(x > z, not(x < 0.0)); y1 = or(x >= z, z != 0.0)")
    yield Document("select_same", "p: 2,3 logical; x: 2,3; z: 2,3", "y = select(p, x, z)")
    yield Document("select_literal", "x: 2,3", "y = select(x > 0.0, x, 0.0)")
    yield Document("select_behind", "p: 2 logical; x: 2,3; z: 2,3", "y = select(p, x, z)")
    yield Document("select_truths", "p: 2,3 logical; q: 2,3 logical", "y = select(p, q, not(q))")
    for name, bounds in {"literals": "-0.5, 0.7", "tensors": "A, B", "mixed": "A, 0.9"}.items():
        yield Document(f"clamp_{name}", "x: 2,3; A: 2 unit; B: 2 above", f"y = clamp(x, {bounds})")
    yield Document("prelu", "x: 2,3,4; A: 1,3 positive", "y = prelu(x, A)")
    yield Document("prelu_literal", "x: 2,3", "y = prelu(x, 0.3)")
    for alpha in ("0.0", "0.2", "1.5"):
        yield Document(f"leaky_relu_{alpha}", "x: 2,3", f"y = leaky_relu(x, alpha = {alpha})")
        yield Document(f"elu_{alpha}", "x: 2,3", f"y = elu(x, alpha = {alpha})")
    yield Document("selu_own", "x: 2,3", "y = selu(x, alpha = 1.2, lambda = 0.8)")
    for count in (1, 2, 4):
        names = ", ".join(f"y{n}" for n in range(count))
        yield Document(f"copy_n_{count}", "x: 2,3", f"[{names}] = copy_n(x, times = {count})")
        yield Document(f"add_n_{count}", "x: 2,3; z: 2,3", f"y = add_n([{', '.join('xzxz'[:count])}])")


# ── windows ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_WINDOWED = ("box", "max_pool", "avg_pool", "rms_pool", "max_pool_with_index", "argmax_pool")
_FORMS = {
    "stride": "stride = [1, 1, 2, 3]",
    "dilated": "dilation = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (1, 1), (1, 1)]",
    "cut": "padding = [(0, 0), (0, 0), (-1, 0), (0, 1)]",
}


def _pooled(op_type: str, arguments: str) -> str:
    left = {"max_pool_with_index": "(y, i)", "argmax_pool": "i"}.get(op_type, "y")
    return f"{left} = {op_type}(x, {arguments})"


def windows() -> Iterator[Document]:
    for op_type in _WINDOWED:
        for border in BORDERS:
            for name, padding in PADDINGS.items():
                said = ", ".join(filter(None, ("size = [1, 1, 3, 2]", padding, f"border = '{border}'")))
                yield Document(f"{op_type}_{name}_{border}", IMAGE, _pooled(op_type, said))
        for name, form in _FORMS.items():
            yield Document(
                f"{op_type}_{name}", IMAGE, _pooled(op_type, f"size = [1, 1, 2, 2], {form}, border = 'constant'")
            )
        for border in ("constant", "ignore"):
            for name, size in {"batch": "[2, 1, 2, 2]", "channels": "[1, 2, 1, 1]", "all": "[2, 2, 2, 2]"}.items():
                said = f"size = {size}, border = '{border}', padding = [(0, 0), (0, 0), (0, 0), (0, 0)]"
                yield Document(f"{op_type}_{name}_{border}", IMAGE, _pooled(op_type, said))
        yield Document(f"{op_type}_1d", "x: 2,3,9", _pooled(op_type, "size = [1, 1, 3]"))
        yield Document(f"{op_type}_3d", "x: 1,2,4,5,4", _pooled(op_type, "size = [1, 1, 2, 2, 2]"))
    for border in BORDERS:
        yield Document(
            f"box_mean_{border}", IMAGE, f"y = box(x, size = [1, 1, 3, 3], border = '{border}', normalize = true)"
        )
    for name, said in {
        "plain": "",
        "stride": ", stride = [1, 1, 2, 2]",
        "mean": ", normalize = true",
        "mean_stride": ", stride = [1, 1, 2, 3], normalize = true",
        "asymmetric": ", padding = [(0, 0), (0, 0), (0, 1), (2, 1)]",
        "channels": ", padding = [(0, 0), (0, 0), (0, 0), (0, 0)], dilation = [1, 1, 2, 1]",
        "shape": ", stride = [1, 1, 2, 2], output_shape = [2, 3, 12, 14]",
    }.items():
        yield Document(f"debox_{name}", IMAGE, f"y = debox(x, size = [1, 1, 3, 2]{said})")
    for border in ("constant", "ignore"):
        window = f"size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (0, 0), (0, 0)], border = '{border}'"
        yield Document(f"sample_{border}", "x: 1,2,4,6", f"k = argmax_pool(x, {window}); y = sample(x, k, {window})")
    window = "size = [1, 1, 2, 2], stride = [1, 1, 2, 2], padding = [(0, 0), (0, 0), (0, 0), (0, 0)]"
    yield Document("desample", "x: 1,2,4,6", f"(z, k) = max_pool_with_index(x, {window}); y = desample(z, k, {window})")
    yield Document(
        "desample_shape",
        "x: 1,2,4,6",
        f"(z, k) = max_pool_with_index(x, {window}); y = desample(z, k, {window}, output_shape = [1, 2, 4, 6])",
    )
    for factor in ("[1, 1]", "[2, 2]", "[3, 2]"):
        name = factor.strip("[]").replace(", ", "x")
        for op_type in ("nearest_downsample", "area_downsample", "nearest_upsample"):
            yield Document(f"{op_type}_{name}", "x: 2,3,6,6", f"y = {op_type}(x, factor = {factor})")
        for method in ("symmetric", "asymmetric", "aligned"):
            for border in ("constant", "replicate", "reflect", "reflect-even"):
                said = f"factor = {factor}, method = '{method}', border = '{border}'"
                yield Document(
                    f"multilinear_{method}_{border}_{name}", "x: 1,2,3,4", f"y = multilinear_upsample(x, {said})"
                )


# ── convolutions and products ─────────────────────────────────────────────────────────────────────────────────────────


def convolutions() -> Iterator[Document]:
    for border in BORDERS[:4]:
        for name, padding in PADDINGS.items():
            over_space = padding.replace("(0, 0), (0, 0), ", "", 1)
            said = "".join(f", {each}" for each in filter(None, (over_space, f"border = '{border}'")))
            yield Document(f"conv_{name}_{border}", f"{IMAGE}; W: 4,3,3,2; B: 1,4", f"y = conv(x, W, B{said})")
    forms = {
        "plain": ("x: 2,3,6,7; W: 4,3,3,3", ""),
        "stride": ("x: 2,3,6,7; W: 4,3,3,3", ", stride = [2, 3]"),
        "dilated": ("x: 2,3,6,7; W: 4,3,2,2", ", dilation = [2, 3]"),
        "groups": ("x: 2,4,6,7; W: 6,2,3,3", ", groups = 2"),
        "depthwise": ("x: 2,4,6,7; W: 4,1,3,3", ", groups = 0"),
        "multiplied": ("x: 2,4,6,7; W: 8,1,3,3", ", groups = 0"),
        "1d": ("x: 2,3,9; W: 4,3,3", ", stride = [2]"),
        "3d": ("x: 1,2,4,5,4; W: 3,2,2,2,2", ""),
        "literal": ("x: 2,3,6,7; W: 4,3,3,3", ", bias = 0.25"),
        "even": ("x: 2,3,6,7; W: 4,3,2,4", ", stride = [2, 2]"),
        "cut": ("x: 2,3,6,7; W: 4,3,2,2", ", padding = [(-1, 0), (0, 1)]"),
        "given": ("x: 2,3,6,7; w: 4,3,3,3", ""),
    }
    for name, (inputs, said) in forms.items():
        yield Document(f"conv_form_{name}", inputs, f"y = conv(x, {'w' if name == 'given' else 'W'}{said})")
    turned = {
        "plain": ("x: 2,4,5,6; W: 4,3,3,3", ""),
        "stride": ("x: 2,4,5,6; W: 4,3,3,3", ", stride = [2, 3]"),
        "dilated": ("x: 2,4,5,6; W: 4,3,2,2", ", dilation = [2, 3]"),
        "groups": ("x: 2,4,5,6; W: 4,2,3,3", ", groups = 2, padding = [(0, 0), (1, 1)]"),
        "depthwise": ("x: 2,4,5,6; W: 4,1,3,3", ", groups = 0"),
        "unpadded": ("x: 2,4,5,6; W: 4,3,3,3", ", padding = [(0, 0), (0, 0)], stride = [2, 2]"),
        "asymmetric": ("x: 2,4,5,6; W: 4,3,3,3", ", padding = [(0, 1), (1, 0)], stride = [2, 1]"),
        "shape": ("x: 2,4,5,6; W: 4,3,3,3", ", stride = [2, 2], output_shape = [2, 3, 9, 11]"),
        "grown": ("x: 2,4,5,6; W: 4,3,3,3", ", padding = [(-1, 0), (0, -1)]"),
        "1d": ("x: 2,4,9; W: 4,3,3", ", stride = [2]"),
        "3d": ("x: 1,2,3,4,3; W: 2,3,2,2,2", ""),
        "bias": ("x: 2,4,5,6; W: 4,3,3,3; B: 1,3", ", bias = B"),
        "given": ("x: 2,4,5,6; w: 4,3,3,3", ""),
    }
    for name, (inputs, said) in turned.items():
        yield Document(f"deconv_{name}", inputs, f"y = deconv(x, {'w' if name == 'given' else 'W'}{said})")
    for border in BORDERS[:4]:
        said = f"border = '{border}', padding = [(1, 1), (0, 1)]"
        yield Document(
            f"separable_conv_{border}", "x: 2,3,6,7; P: 3,1,3,3; Q: 4,3,1,1", f"y = separable_conv(x, P, Q, {said})"
        )
    yield Document(
        "separable_conv_bias",
        "x: 2,3,6,7; P: 3,1,3,3; Q: 4,3,1,1; B: 1,4",
        "y = separable_conv(x, P, Q, B, stride = [2, 2])",
    )
    for name, said in {"plain": "", "stride": ", stride = [2, 2]", "padded": ", padding = [(0, 1), (1, 0)]"}.items():
        yield Document(
            f"separable_deconv_{name}", "x: 2,4,5,6; P: 3,1,3,3; Q: 4,3,1,1", f"y = separable_deconv(x, P, Q{said})"
        )
    for a in ("false", "true"):
        for b in ("false", "true"):
            for rank, front in ((2, ""), (3, "2,")):
                left, right = ("4,3" if a == "true" else "3,4"), ("5,4" if b == "true" else "4,5")
                said = f"y = matmul(x, z, transposeA = {a}, transposeB = {b})"
                yield Document(f"matmul_{a}_{b}_{rank}", f"x: {front}{left}; z: {front}{right}", said)
    yield Document("matmul_ones", "x: 2,1,3,4; z: 1,3,4,5", "y = matmul(x, z)")
    yield Document("linear_bias", "x: 3,4; W: 5,4; B: 1,5", "y = linear(x, W, B)")
    yield Document("linear_plain", "x: 3,4; W: 5,4", "y = linear(x, W)")
    yield Document("linear_literal", "x: 3,4; W: 5,4", "y = linear(x, W, 0.5)")


# ── reductions, shapes, normalizations ────────────────────────────────────────────────────────────────────────────────


def reductions() -> Iterator[Document]:
    for op_type in (
        "sum_reduce",
        "mean_reduce",
        "max_reduce",
        "min_reduce",
        "argmax_reduce",
        "argmin_reduce",
        "moments",
    ):
        left = "y, y1" if op_type == "moments" else "i" if op_type.startswith("arg") else "y"
        for axes in ("[0]", "[1]", "[1, 2]", "[0, 2]"):
            name = axes.strip("[]").replace(", ", "")
            yield Document(
                f"{op_type}_{name}", "x: 2,3,4", f"{f'({left})' if ',' in left else left} = {op_type}(x, axes = {axes})"
            )
    yield Document("sum_normalized", "x: 2,3,4", "y = sum_reduce(x, axes = [0, 2], normalize = true)")
    for op_type in ("any_reduce", "all_reduce"):
        for axes in ("[1]", "[0, 2]"):
            yield Document(f"{op_type}_{axes[1]}", "p: 2,3,4 logical", f"y = {op_type}(p, axes = {axes})")
    for name, said in {
        "default": "",
        "last": ", axes = [2]",
        "two": ", axes = [1, 2]",
        "first": ", axes = [0]",
    }.items():
        yield Document(f"softmax_{name}", "x: 2,3,4", f"y = softmax(x{said})")
    for op_type in ("l1_normalization", "l2_normalization"):
        for name, said in {
            "one": "axes = [1]",
            "two": "axes = [1, 2], bias = 0.5",
            "epsilon": "axes = [2], epsilon = 0.1",
        }.items():
            yield Document(f"{op_type}_{name}", "x: 2,3,4", f"y = {op_type}(x, {said})")
    for size in ("[1, 3, 1, 1]", "[1, 1, 3, 3]", "[1, 2, 2, 1]"):
        name = size[1:-1].replace(", ", "")
        for op_type in ("response", "mean", "variance", "contrast"):
            extra = {"response": ", alpha = 0.5, beta = 0.75, bias = 2.0", "mean": ""}.get(
                op_type, ", bias = 1.0, epsilon = 0.1"
            )
            yield Document(
                f"local_{op_type}_{name}", "x: 2,5,4,4", f"y = local_{op_type}_normalization(x, size = {size}{extra})"
            )
    stats = "M: 1,3; V: 1,3 positive; O: 1,3; S: 1,3"
    yield Document(
        "batch_normalization", f"x: 2,3,4,5; {stats}", "y = batch_normalization(x, M, V, O, S, epsilon = 0.01)"
    )
    yield Document("batch_normalization_2", f"x: 2,3; {stats}", "y = batch_normalization(x, M, V, O, S, epsilon = 0.1)")
    yield Document("batch_normalization_0", "x: 2,3", "y = batch_normalization(x, 0.5, 2.0, 0.1, 3.0, epsilon = 0.0)")
    for name, said in {
        "linear_quantize_8": "linear_quantize(x, -1.0, 1.0, bits = 8)",
        "linear_quantize_4": "linear_quantize(x, -2.0, 1.0, bits = 4)",
        "min_max": "min_max_linear_quantize(x, -1.0, 1.0, bits = 8, signed = false, symmetric = false)",
        "min_max_symmetric": "min_max_linear_quantize(x, -1.0, 1.0, bits = 8, signed = true, symmetric = true)",
        "zero_point": "zero_point_linear_quantize(x, 3, 0.05, bits = 8, signed = false, symmetric = false)",
        "zero_point_signed": "zero_point_linear_quantize(x, 0, 0.05, bits = 8, signed = true, symmetric = true)",
        "logarithmic": "logarithmic_quantize(x, 4.0, bits = 4)",
    }.items():
        yield Document(f"quantized_{name}", "x: 3,5", f"y = {said}")


def shapes() -> Iterator[Document]:
    for number, said in enumerate(
        ("[6, 4]", "[-1]", "[0, -1]", "[4, 0, 2]", "[24], axis_start = 0", "[12], axis_start = 1", "[3, 2], axis_start = 0, axis_count = 2",
         "[2, 2], axis_start = 2", "[1], axis_start = 1, axis_count = 0")
    ):  # fmt: skip
        yield Document(f"reshape_{number}", "x: 2,3,4", f"y = reshape(x, shape = {said})")
    for axes in ("[0]", "[2]", "[0, 2]", "[]"):
        name = axes[1:-1].replace(", ", "") or "none"
        yield Document(f"squeeze_{name}", "x: 1,3,1,4", f"y = squeeze(x, axes = {axes})")
        yield Document(f"unsqueeze_{name}", "x: 3,4", f"y = unsqueeze(x, axes = {axes})")
    for axes in ("[1, 0]", "[0, 1]", "[1, 0, 2]", "[2, 0, 1]", "[0, 2, 1]"):
        yield Document(f"transpose_{axes[1:-1].replace(', ', '')}", "x: 2,3,4", f"y = transpose(x, axes = {axes})")
    for number, (axis, ratios) in enumerate(((1, "[1, 2, 3]"), (1, "[1, 1]"), (0, "[1]"), (2, "[1, 3]"))):
        names = ", ".join(f"y{n}" for n in range(ratios.count(",") + 1))
        yield Document(f"split_{number}", "x: 2,6,4", f"[{names}] = split(x, axis = {axis}, ratios = {ratios})")
    for axis in (0, 1, 2):
        yield Document(f"concat_{axis}", "x: 2,3,4; z: 2,3,4", f"y = concat([x, z, x], axis = {axis})")
        yield Document(f"stack_{axis}", "x: 2,3; z: 2,3", f"y = stack([x, z], axis = {axis})")
    yield Document("concat_one", "x: 2,3", "y = concat([x], axis = 0)")
    yield Document("concat_truths", "p: 2,3 logical; q: 2,1 logical", "y = concat([p, q], axis = 1)")
    for axis, count in ((0, 2), (1, 3), (2, 4)):
        yield Document(
            f"unstack_{axis}", "x: 2,3,4", f"[{', '.join(f'y{n}' for n in range(count))}] = unstack(x, axis = {axis})"
        )
    for number, said in enumerate(
        ("axes = [1], begin = [1], end = [3]", "axes = [1], begin = [-2], end = [0]", "axes = [0, 2], begin = [0, 1], end = [1, -1]",
         "axes = [2], begin = [0], end = [4], stride = [2]", "axes = [2], begin = [3], end = [0], stride = [-1]",
         "axes = [2], begin = [-1], end = [-5], stride = [-2]", "axes = [1], begin = [0], end = [0]", "axes = [], begin = [], end = []",
         "axes = [2, 0], begin = [1, 0], end = [4, 2], stride = [3, 1]", "axes = [1], begin = [0], end = [9]",
         "axes = [1], begin = [-1], end = [3]")
    ):  # fmt: skip
        yield Document(f"slice_{number}", "x: 2,3,4", f"y = slice(x, {said})")
    for border in BORDERS[:4]:
        for number, padding in enumerate(("[(0, 0), (1, 2)]", "[(1, 1), (2, 0)]", "[(0, 0), (-1, 2)]")):
            yield Document(f"pad_{border}_{number}", "x: 3,4", f"y = pad(x, padding = {padding}, border = '{border}')")
    yield Document("pad_value", "x: 3,4", "y = pad(x, padding = [(1, 0), (0, 2)], value = 1.5)")
    for number, repeats in enumerate(("[1, 2]", "[2, 3]", "[1, 1]")):
        yield Document(f"tile_{number}", "x: 2,3", f"y = tile(x, repeats = {repeats})")
    for axis in (0, 1):
        yield Document(f"gather_{axis}", "x: 3,4; k: 2,5 below3", f"y = gather(x, k, axis = {axis})")
        yield Document(f"gather_known_{axis}", "x: 3,4; K: 2,2 below3", f"y = gather(x, K, axis = {axis})")
    yield Document("gather_default", "x: 3,4; k: 2 below3", "y = gather(x, k)")
    yield Document("gather_table", "k: 2,3 below5; T: 5,4", "y = gather(T, k)")
    yield Document("cast_reals", "k: 2,3 below7", "y = cast<scalar>(k)")
    yield Document("cast_truths", "p: 2,3 logical", "y = cast<scalar>(p)")
    yield Document("cast_integers", "x: 2,3", "y = cast<integer>(x)")
    yield Document("cast_of_truths", "p: 2,3 logical", "y = cast<integer>(p)")
    yield Document("cast_logical", "x: 2,3", "y = cast<logical>(x)")
    yield Document("cast_same", "x: 2,3", "y = cast<scalar>(x)")
    yield Document("constant_one", "x: 2,3", "c = constant(shape = [2, 3], value = [0.5]); y = add(x, c)")
    yield Document("constant_many", "x: 2,3", "c = constant(shape = [1, 3], value = [0.5, 1.0, 2.0]); y = mul(x, c)")
    yield Document("variable", "x: 2,3; W: 2,3", "y = mul(x, W)")
    yield Document("update", "x: 2,3; W: 2,3", "y = update(W, add(W, x))")


def regions() -> Iterator[Document]:
    inputs = "x: 2,3,6,6; r: 4,4 rois; k: 4,1 below2"
    for op_type in ("avg_roi_pool", "max_roi_pool"):
        for size in ("[2, 2]", "[3, 1]", "[1, 1]"):
            yield Document(f"{op_type}_{size[1]}{size[4]}", inputs, f"y = {op_type}(x, r, k, output_size = {size})")
    for method in ("symmetric", "asymmetric", "aligned"):
        for size in ("[2, 2]", "[3, 4]"):
            said = f"output_size = {size}, method = '{method}'"
            yield Document(f"roi_resample_{method}_{size[1]}", inputs, f"y = roi_resample(x, r, k, {said})")
    for op_type in ("avg_roi_align", "max_roi_align"):
        for number, said in enumerate(("[2, 2], sampling_rate = [2, 2]", "[2, 3], sampling_rate = [1, 2], resize_method = 'asymmetric'",
                                       "[1, 1], sampling_rate = [3, 2], resize_method = 'symmetric'")):  # fmt: skip
            yield Document(f"{op_type}_{number}", inputs, f"y = {op_type}(x, r, k, output_size = {said})")


def documents() -> list[Document]:
    """Return all documents."""
    parts = (elementwise, windows, convolutions, reductions, shapes, regions)
    found = [document for part in parts for document in part()]
    names = [document.name for document in found]
    if len(set(names)) < len(names):
        message = f"two documents are called {next(name for name in names if names.count(name) > 1)}"
        raise ValueError(message)
    return found
