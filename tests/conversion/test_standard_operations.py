"""Every standard operation of NNEF runs: a document of each, on the reference and on ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.conversion.legalize import is_canonical
from graphport.core.facts import TensorFact
from graphport.formats.nnef.container.declarations import standard
from graphport.formats.nnef.container.syntax import Edition

X = "x = external(shape = [2, 4, 6, 8])"
"""Read by most operations; `p` is positive, `l` and `i` are logical and integer tensors."""
AROUND = (
    "p = add(abs(x), 0.5)",
    "s = clamp(mul(x, 0.3), -0.9, 0.9)",
    "l = gt(x, 0.0)",
    "k = lt(x, 0.5)",
    "i = argmax_reduce(x, axes = [1])",
)
WINDOW = "size = [1, 1, 2, 3], border = 'ignore', padding = [(0,0), (0,0), (0,0), (1,1)], stride = [1, 1, 2, 1]"
FILTER = "f = constant(shape = [4, 4, 3, 3], value = [0.1])"
PLANES = "d = constant(shape = [4, 1, 3, 3], value = [0.1])"
POINTS = "q = constant(shape = [4, 4, 1, 1], value = [0.2])"
REGIONS = (
    "r = constant(shape = [2, 4], value = [0.0, 1.0, 4.0, 5.0, 1.5, 0.5, 6.0, 7.0])",
    "n = constant<integer>(shape = [2, 1], value = [1, 0])",
)
ROW = "c = constant(shape = [1, 4], value = [0.5, 1.5, 2.5, 3.5])"
STATE = "v = variable(shape = [2, 4, 6, 8], label = 'v')"

UNARY = (
    *("copy", "neg", "exp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan", "asinh", "abs", "sign", "floor"),
    *("ceil", "round", "sqr", "sigmoid", "relu", "selu", "gelu", "silu", "softplus", "elu", "softmax"),
)
POSITIVE = ("rcp", "log", "sqrt", "rsqr", "rsqrt", "log2")
BETWEEN = ("asin", "acos", "atanh")
BINARY = ("add", "sub", "mul", "div", "lt", "gt", "le", "ge", "eq", "ne", "min", "max")
POOLS = ("max_pool", "avg_pool", "rms_pool", "box", "argmax_pool")
REDUCE = ("sum_reduce", "max_reduce", "min_reduce", "mean_reduce", "argmax_reduce", "argmin_reduce")

CALLS: dict[str, tuple[str, ...]] = {
    "external": ("y = copy(x)",),
    "constant": ("y = constant(shape = [2], value = [1.0, 2.5])",),
    "variable": (STATE, "y = add(x, v)"),
    **{name: (f"y = {name}(x)",) for name in UNARY},
    **{name: (f"y = {name}(p)",) for name in POSITIVE},
    **{name: (f"y = {name}(s)",) for name in BETWEEN},
    "acosh": ("y = acosh(add(p, 1.0))",),
    **{name: (ROW, f"y = {name}(x, c)") for name in BINARY},
    "pow": ("y = pow(p, 1.5)",),
    "not": ("y = not(l)",),
    "and": ("y = and(l, k)",),
    "or": ("y = or(l, k)",),
    "select": ("y = select(l, x, 0.0)",),
    "clamp": (ROW, "y = clamp(x, -0.5, c)"),
    "prelu": (ROW, "y = prelu(x, c)"),
    "leaky_relu": ("y = leaky_relu(x, alpha = 0.1)",),
    "conv": (FILTER, ROW, "y = conv(x, f, c, border = 'reflect', stride = [2, 1], dilation = [1, 2])"),
    "deconv": (FILTER, ROW, "y = deconv(x, f, c, padding = [(1, 1), (0, 1)], stride = [2, 1])"),
    "separable_conv": (PLANES, POINTS, ROW, "y = separable_conv(x, d, q, c)"),
    "separable_deconv": (PLANES, POINTS, ROW, "y = separable_deconv(x, d, q, c, stride = [2, 2])"),
    **{name: (f"y = {name}(x, {WINDOW})",) for name in POOLS},
    "max_pool_with_index": (f"y, j = max_pool_with_index(x, {WINDOW})", "z = copy(j)"),
    "debox": ("y = debox(x, size = [1, 1, 2, 3], stride = [1, 1, 2, 1])",),
    "sample": (f"j = argmax_pool(x, {WINDOW})", f"y = sample(x, j, {WINDOW})"),
    "desample": (
        "m, j = max_pool_with_index(x, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])",
        "y = desample(m, j, size = [1, 1, 2, 2], stride = [1, 1, 2, 2])",
    ),
    "nearest_downsample": ("y = nearest_downsample(x, factor = [2, 4])",),
    "area_downsample": ("y = area_downsample(x, factor = [2, 4])",),
    "nearest_upsample": ("y = nearest_upsample(x, factor = [2, 3])",),
    "multilinear_upsample": ("y = multilinear_upsample(x, factor = [2, 3], border = 'constant')",),
    **{name: (f"y = {name}(x, axes = [1, 3])",) for name in REDUCE},
    "all_reduce": ("y = all_reduce(l, axes = [2])",),
    "any_reduce": ("y = any_reduce(l, axes = [2])",),
    "reshape": ("y = reshape(x, shape = [-1, 2], axis_start = 1, axis_count = 2)",),
    "squeeze": ("y = squeeze(sum_reduce(x, axes = [1]), axes = [1])",),
    "unsqueeze": ("y = unsqueeze(x, axes = [4, 1])",),
    "transpose": ("y = transpose(x, axes = [1, 0])",),
    "split": ("[y, z] = split(x, axis = 1, ratios = [1, 3])",),
    "concat": ("y = concat([x, p, x], axis = 2)",),
    "stack": ("y = stack([x, p], axis = 4)",),
    "unstack": ("[y, z] = unstack(x, axis = 0)",),
    "slice": ("y = slice(x, axes = [3, 1], begin = [-1, 1], end = [0, 4], stride = [-3, 2])",),
    "pad": ("y = pad(x, padding = [(0,0), (1,0), (2,1), (0,3)], border = 'reflect')",),
    "tile": ("y = tile(x, repeats = [2, 1, 1, 3])",),
    "gather": ("n = constant<integer>(shape = [3], value = [3, 0, 3])", "y = gather(x, n, axis = 1)"),
    "cast": ("y = cast<integer>(mul(x, 10.0))",),
    "avg_roi_pool": (*REGIONS, "y = avg_roi_pool(x, r, n, output_size = [2, 3])"),
    "max_roi_pool": (*REGIONS, "y = max_roi_pool(x, r, n, output_size = [2, 3])"),
    "roi_resample": (*REGIONS, "y = roi_resample(x, r, n, output_size = [2, 3])"),
    "avg_roi_align": (*REGIONS, "y = avg_roi_align(x, r, n, output_size = [2, 3], sampling_rate = [2, 2])"),
    "max_roi_align": (*REGIONS, "y = max_roi_align(x, r, n, output_size = [2, 3], sampling_rate = [2, 2])"),
    "matmul": ("y = matmul(x, x, transposeB = true)",),
    "linear": ("w = constant(shape = [3, 48], value = [0.1])", "y = linear(reshape(x, shape = [8, 48]), w)"),
    "update": (STATE, "u = update(v, x)", "y = add(u, v)"),
    "local_response_normalization": ("y = local_response_normalization(x, size = [1, 3, 1, 1])",),
    "local_mean_normalization": ("y = local_mean_normalization(x, size = [1, 1, 3, 3])",),
    "local_variance_normalization": ("y = local_variance_normalization(x, size = [1, 1, 3, 3], bias = 1.0)",),
    "local_contrast_normalization": ("y = local_contrast_normalization(x, size = [1, 1, 3, 3], epsilon = 0.1)",),
    "l1_normalization": ("y = l1_normalization(x, axes = [1])",),
    "l2_normalization": ("y = l2_normalization(x, axes = [1, 2], bias = 0.5)",),
    "batch_normalization": (ROW, "y = batch_normalization(x, c, c, c, c, epsilon = 0.01)"),
    "min_max_linear_quantize": (
        "y = min_max_linear_quantize(x, -1.0, 2.0, bits = 5, signed = true, symmetric = false)",
    ),
    "zero_point_linear_quantize": (
        "y = zero_point_linear_quantize(x, 3, 0.1, bits = 6, signed = false, symmetric = false)",
    ),
    "linear_quantize": ("y = linear_quantize(x, -1.0, 2.0, bits = 5)",),
    "logarithmic_quantize": ("y = logarithmic_quantize(x, 4.0, bits = 4)",),
    "copy_n": ("[y, z] = copy_n(x, times = 2)",),
    "add_n": ("y = add_n([x, p, x])",),
    "moments": ("y, z = moments(x, axes = [2, 3])",),
}
OPEN = "version 1.0;\nextension KHR_enable_operator_expressions;\n\n"


def test_there_is_a_document_for_each():
    assert CALLS.keys() == set(standard(Edition.FINAL))
    assert len(CALLS) == 118


@pytest.fixture
def document(tmp_path):
    from graphport.core.storage import storage_of
    from graphport.formats.nnef.container.tensors import tensor_file

    def saved(*calls):
        outputs = "y, z" if any(" z" in call.partition("=")[0] or call[0] == "z" for call in calls) else "y"
        around = flat([*AROUND, *calls])
        body = "".join(f"    {call};\n" for call in [X, *around])
        (tmp_path / "graph.nnef").write_text(f"{OPEN}graph one( x ) -> ( {outputs} )\n{{\n{body}}}\n")
        numbers = storage_of(np.linspace(-1, 1, 2 * 4 * 6 * 8, dtype=np.float32).reshape(2, 4, 6, 8))
        (tmp_path / "v.dat").write_bytes(b"".join(bytes(piece) for piece in tensor_file(numbers, "v").chunks()))
        return tmp_path

    return saved


def flat(calls):
    """The producer of each operand precedes it; surrounding calls without a consumer are omitted."""
    text = calls[len(AROUND) :]
    return [call for call in AROUND if any(f"({call[0]}" in each or f", {call[0]}" in each for each in text)] + text


@pytest.mark.parametrize("op_type", CALLS)
def test_reference_and_onnxruntime_agree_on_standard_operations(document, op_type):
    model = gp.load(document(*CALLS[op_type]))
    assert is_canonical(model.graph)
    assert {finding.code for finding in model.findings} <= {"NNEF0631"}, "deprecated, and nothing else"
    assert all(isinstance(fact, TensorFact) and fact.is_static for fact in model.shapes().values())
    x = np.random.default_rng(3).normal(size=(2, 4, 6, 8)).astype(np.float32)
    expected, found = (gp.run(model, {"x": x}, backend=name) for name in ("reference", "onnxruntime"))
    assert expected
    for name, array in expected.items():
        fact = model.outputs[name].fact
        assert isinstance(fact, TensorFact)
        assert array.shape == fact.shape
        assert np.isfinite(array).all()
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5, err_msg=name)
