"""Op types that pnnx does not rewrite, compared with formulas from PyTorch's documentation."""

from __future__ import annotations

import zipfile
from math import lgamma
from operator import eq
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.conversion.legalize import is_canonical
from graphport.formats.pytorch.rules.binding import BY_POSITION, LEFT
from graphport.ops import registry
from graphport.ops.declare import IMPORT_RULES
from tests.models import model, node

RANDOM = np.random.default_rng(0)
X, Z = (RANDOM.normal(size=(4, 5)).astype(np.float32) for _ in range(2))
LABELS = np.array([2, 0, 4, 2], np.int64)


def numbered(*values):
    """Return pnnx constants: expressions without operands, called n0, n1, …"""
    return [f"pnnx.Expression c{place} 0 1 n{place} expr={value}" for place, value in enumerate(values)]


def load(tmp_path, rows, **shapes):
    inputs = [f"pnnx.Input {name} 0 1 {name} #{name}={shape}" for name, shape in shapes.items()]
    lines = [*inputs, *rows, "pnnx.Output out 1 0 y"]
    path = tmp_path / "net.pnnx.param"
    path.write_text(f"7767517\n{len(lines)} 99\n" + "\n".join(lines) + "\n")
    (tmp_path / "net.pnnx.bin").write_bytes(b"PK\5\6" + bytes(18))
    return gp.load(path)


def computed(tmp_path, rows, **arrays):
    kinds = {"f": "f32", "i": "i64", "b": "bool"}
    shapes = {name: f"({','.join(map(str, array.shape))}){kinds[array.dtype.kind]}" for name, array in arrays.items()}
    net = load(tmp_path, rows, **shapes)
    assert is_canonical(net.graph)
    # The model is exported to PNNX again and computes equal results.
    gp.save(net, tmp_path / "again.pnnx.param")
    again = gp.run(gp.load(tmp_path / "again.pnnx.param"), arrays, backend="reference")
    (found,) = gp.run(net, arrays, backend="reference").values()
    np.testing.assert_allclose(next(iter(again.values())), found, rtol=1e-5, atol=1e-6)
    return found


def softmax_logarithm(x):
    x = x.astype(np.float64)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_smoothed_labels_are_partly_of_all_classes(tmp_path, reduction):
    rows = [*numbered("None", reduction, 2, 0.25), "aten::cross_entropy_loss l 6 1 x t n0 n1 n2 n3 y"]
    found = computed(tmp_path, rows, x=X, t=LABELS)
    kept, logarithm = LABELS != 2, softmax_logarithm(X)
    each = -0.75 * logarithm[np.arange(4), LABELS] - 0.25 * logarithm.mean(1)
    each = np.where(kept, each, 0)
    expected = {0: each, 1: each.sum() / kept.sum(), 2: each.sum()}[reduction]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_shares_of_classes_are_smoothed(tmp_path):
    share = np.abs(Z) / np.abs(Z).sum(1, keepdims=True)
    rows = [*numbered("None", 1, -100, 0.1), "aten::cross_entropy_loss l 6 1 x t n0 n1 n2 n3 y"]
    found = computed(tmp_path, rows, x=X, t=share)
    expected = -(softmax_logarithm(X) * (0.9 * share + 0.1 / 5)).sum(1).mean()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("power", [1, 2])
def test_a_margin_is_kept_from_every_other_class(tmp_path, power):
    rows = [*numbered(power, 0.5, "None", 0), "aten::multi_margin_loss l 6 1 x t n0 n1 n2 n3 y"]
    found = computed(tmp_path, rows, x=X, t=LABELS)
    rest = np.maximum(0.5 - X[np.arange(4), LABELS][:, None] + X, 0) ** power
    rest[np.arange(4), LABELS] = 0
    np.testing.assert_allclose(found, rest.sum(1) / 5, rtol=1e-5)


@pytest.mark.parametrize(("power", "swap"), [("2.0", "False"), ("1.0", "False"), ("3.0", "True")])
def test_three_are_reported_apart_by_their_distances(tmp_path, power, swap):
    other = RANDOM.normal(size=(4, 5)).astype(np.float32)
    rows = [*numbered(0.7, power, 1e-6, swap, 0), "aten::triplet_margin_loss l 8 1 x p q n0 n1 n2 n3 n4 y"]
    found = computed(tmp_path, rows, x=X, p=Z, q=other)
    p = float(power)

    def distance(a, b):
        return (np.abs(a - b + 1e-6) ** p).sum(1) ** (1 / p)

    far = distance(X, other)
    far = np.minimum(far, distance(Z, other)) if swap == "True" else far
    np.testing.assert_allclose(found, np.maximum(distance(X, Z) - far + 0.7, 0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("is_logarithm", "full"), [("True", "False"), ("False", "True")])
def test_counts_are_judged_by_their_likelihood(tmp_path, is_logarithm, full):
    rate, counts = np.abs(X), np.floor(3 * np.abs(Z))
    rows = [*numbered(is_logarithm, full, 1e-8, 0), "aten::poisson_nll_loss l 6 1 x t n0 n1 n2 n3 y"]
    found = computed(tmp_path, rows, x=rate, t=counts)
    expected = np.exp(rate) - counts * rate if is_logarithm == "True" else rate - counts * np.log(rate + 1e-8)
    if full == "True":
        with np.errstate(all="ignore"):
            stirling = counts * np.log(counts) - counts + 0.5 * np.log(2 * np.pi * counts)
        expected += np.where(counts > 1, stirling, 0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_where_a_tensor_lies_in_memory_is_no_argument(tmp_path):
    rows = [*numbered("[2,3]", 4.0, "None", "False"), "aten::new_full f 7 1 x n0 n1 n2 n2 n2 n3 y"]
    np.testing.assert_array_equal(computed(tmp_path, rows, x=X), np.full((2, 3), 4, np.float32))


@pytest.mark.parametrize("count", [1, 5])
def test_numbers_are_spread_over_a_length_that_is_open(tmp_path, count):
    rows = [
        *numbered(-1, 2, "None", "False"),
        "pnnx.Expression s 1 1 x n expr=size(@0,0)",
        "aten::linspace l 7 1 n0 n1 n n2 n2 n2 n3 y",
    ]
    net = load(tmp_path, rows, x="(?,2)f32")
    found = gp.run(net, {"x": np.zeros((count, 2), np.float32)}, backend="reference")
    np.testing.assert_allclose(found["y"], np.linspace(-1, 2, count), rtol=1e-6)


def test_a_mesh_has_the_lengths_of_its_vectors(tmp_path):
    rows = [
        *numbered("ij"),
        "pnnx.Expression l 2 1 x z both expr=[@0,@1] #x=(?)f32 #z=(?)f32",
        "aten::meshgrid m 2 1 both n0 list",
        "prim::ListUnpack u 1 2 list a b #a=(?,?)f32 #b=(?,?)f32",
        "pnnx.Expression e 2 1 a b y expr=sub(@0,mul(@1,2))",
    ]
    net = load(tmp_path, rows, x="(?)f32", z="(?)f32")
    for n, m in ((2, 3), (4, 1)):
        a, b = np.arange(n, dtype=np.float32), np.arange(m, dtype=np.float32) + 7
        found = gp.run(net, {"x": a, "z": b}, backend="reference")["y"]
        np.testing.assert_allclose(found, a[:, None] - 2 * b[None])


def test_every_choice_of_two_is_a_row(tmp_path):
    rows = ["pnnx.Expression l 2 1 x z both expr=[@0,@1] #x=(2)f32 #z=(3)f32", "aten::cartesian_prod p 1 1 both y"]
    a, b = X[0, :2], Z[0, :3]
    expected = np.stack(np.meshgrid(a, b, indexing="ij"), -1).reshape(-1, 2)
    np.testing.assert_array_equal(computed(tmp_path, rows, x=a, z=b), expected)


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        pytest.param("[None,@0]", (4, 2), id="behind one axis"),
        pytest.param("[None,@0]", (2,), id="broadcast"),
        pytest.param("[None,None,@0]", (4, 5, 2), id="behind two"),
        pytest.param("[@0,None,@0]", (2, 5), id="around one"),
    ],
)
def test_entries_after_a_whole_axis_are_put(tmp_path, index, shape):
    x = RANDOM.normal(size=(4, 5, 3)).astype(np.float32)
    if index == "[None,@0]" and len(shape) == 2:
        shape = (*shape, 3)
    if shape == (2,):
        shape = (2, 1)
    places, values = np.array([2, 0], np.int64), RANDOM.normal(size=shape).astype(np.float32)
    rows = [
        f"pnnx.Expression l 1 1 i list expr={index} #i=(2)i64",
        "Tensor.index_put p 3 1 x list v y accumulate=False $input=x $indices=list $values=v",
    ]
    found = computed(tmp_path, rows, x=x, i=places, v=values)
    expected = x.copy()
    at = {"[None,@0]": (slice(None), places), "[None,None,@0]": (slice(None), slice(None), places)}
    expected[at.get(index, (places, slice(None), places))] = values
    np.testing.assert_array_equal(found, expected)


def test_a_mask_puts_entries_after_a_whole_axis(tmp_path):
    mask = np.array([True, False, True, False, True])
    rows = [
        "pnnx.Expression l 1 1 m list expr=[None,@0] #m=(5)bool",
        "Tensor.index_put p 2 1 x list y accumulate=False values=0.5 $input=x $indices=list",
    ]
    expected = X.copy()
    expected[:, mask] = 0.5
    np.testing.assert_array_equal(computed(tmp_path, rows, x=X, m=mask), expected)


@pytest.mark.parametrize(
    ("where", "taken"),
    [
        pytest.param("dim=0 end=0 select=-2 start=0 step=0", np.s_[-2], id="a row"),
        pytest.param(
            "dims=(0,1) ends=(0,4) selects=(1,2147483647) starts=(0,0) steps=(0,2)", np.s_[1, :4:2], id="steps"
        ),
    ],
)
def test_numbers_are_put_into_a_part_of_a_tensor(tmp_path, where, taken):
    expected = X.copy()
    source = RANDOM.normal(size=expected[taken].shape).astype(np.float32)
    expected[taken] = source
    rows = [f"Tensor.slice_copy c 2 1 x s y {where} $self=x $src=s"]
    np.testing.assert_array_equal(computed(tmp_path, rows, x=X, s=source), expected)


def test_a_module_ignores_its_own_weight_among_the_operands(tmp_path):
    """The second of two modules with a shared weight also has the weight as an operand."""
    weight = RANDOM.normal(size=(3, 5)).astype(np.float32)
    path = tmp_path / "net.pnnx.param"
    rows = [
        "pnnx.Input x 0 1 x #x=(4,5)f32",
        "pnnx.Attribute e 0 1 w @data=(3,5)f32 #w=(3,5)f32",
        "nn.Linear h 2 1 w x y bias=False in_features=5 out_features=3 @weight=(3,5)f32 #w=(3,5)f32 #x=(4,5)f32",
        "pnnx.Output out 1 0 y",
    ]
    path.write_text(f"7767517\n{len(rows)} 3\n" + "\n".join(rows) + "\n")
    with zipfile.ZipFile(tmp_path / "net.pnnx.bin", "w") as archive:
        for name in ("e.data", "h.weight"):
            archive.writestr(name, weight.tobytes())
    found = gp.run(gp.load(path), {"x": X}, backend="reference")["y"]
    np.testing.assert_allclose(found, X @ weight.T, rtol=1e-5)


def test_a_transposed_convolution_reaches_beyond_its_windows(tmp_path):
    """The output extends beyond the last window at the end; there it equals the bias."""
    x, weight = (RANDOM.normal(size=size).astype(np.float32) for size in ((1, 1, 3, 2), (1, 1, 3, 3)))
    path = tmp_path / "net.pnnx.param"
    given = "bias=True dilation=(1,1) groups=1 in_channels=1 kernel_size=(3,3) out_channels=1"
    given += " output_padding=(3,3) padding=(1,1) stride=(4,4) @bias=(1)f32 @weight=(1,1,3,3)f32"
    rows = ["pnnx.Input in 0 1 x #x=(1,1,3,2)f32", f"nn.ConvTranspose2d c 1 1 x y {given}", "pnnx.Output out 1 0 y"]
    path.write_text(f"7767517\n{len(rows)} 2\n" + "\n".join(rows) + "\n")
    with zipfile.ZipFile(tmp_path / "net.pnnx.bin", "w") as archive:
        archive.writestr("c.bias", np.float32(0.25).tobytes())
        archive.writestr("c.weight", weight.tobytes())
    whole = np.full((14, 10), 0.25, np.float32)
    for i, j in np.ndindex(3, 2):
        whole[4 * i : 4 * i + 3, 4 * j : 4 * j + 3] += x[0, 0, i, j] * weight[0, 0]
    found = gp.run(gp.load(path), {"x": x}, backend="reference")["y"]
    np.testing.assert_allclose(found[0, 0], whole[1:13, 1:9], rtol=1e-5, atol=1e-6)


def test_frames_are_written_in_pnnx(tmp_path):
    signal = RANDOM.normal(size=(2, 40, 1)).astype(np.float32)
    constants = {"step": np.int64(4), "window": np.hanning(16).astype(np.float32)}
    nodes = [node("STFT", ["x", "step", "window"], ["y"])]
    source = gp.from_onnx(model(nodes, [("x", [2, 40, 1])], [("y", None)], constants, opset=17))
    gp.save(source, tmp_path / "net.pnnx.param")
    found = gp.run(gp.load(tmp_path / "net.pnnx.param"), {"x": signal}, backend="reference")
    expected = gp.run(source, {"x": signal}, backend="reference")
    np.testing.assert_allclose(next(iter(found.values())), expected["y"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("line", ["prim::If i 1 1 x y", "prim::Loop i 3 1 n1 n0 x y"])
def test_what_pnnx_leaves_out_is_reported(tmp_path, line):
    net = load(tmp_path, [*numbered("True", 3), line], x="(2)f32")
    with pytest.raises(gp.DiagnosticError, match="its subgraphs are missing: pnnx does not write them"):
        gp.save(net, tmp_path / "net.onnx")


def test_a_dictionary_returns_its_values(tmp_path):
    rows = [
        *numbered("b", "a"),
        "pnnx.Expression p 1 1 x s expr=add(@0,1)",
        "pnnx.Expression q 1 1 x t expr=mul(@0,2)",
        "prim::DictConstruct d 4 1 n1 s n0 t y",
    ]
    net = load(tmp_path, rows, x="(4,5)f32")
    assert is_canonical(net.graph)
    found = list(gp.run(net, {"x": X}, backend="reference").values())
    for one, expected in zip(found, (X + 1, X * 2), strict=True):
        np.testing.assert_array_equal(one, expected)


def test_rules_of_exported_programs_take_operands_in_the_order_of_pytorch():
    registry.load("pytorch")
    registry.load("pnnx")
    known = {}
    for line in (Path(__file__).parent / "data" / "arguments.txt").read_text().splitlines():
        name, *arguments = line.split()
        known.setdefault(name, []).append(arguments)
    shared = {
        name: getattr(rule, "rule", rule)
        for name, rule in BY_POSITION.items()
        if ("pnnx", LEFT + name) not in IMPORT_RULES
    }
    bound = {
        name: rule.parameters
        for name, rule in shared.items()
        if hasattr(rule, "parameters") and not rule.parameters.is_variadic
    }
    for name, rule in bound.items():
        # The first operand has three names, all unambiguous.
        own = rule.names[1:]
        if name not in known:
            assert name in {"_adaptive_avg_pool1d", "cudnn_batch_norm_inference", "fill_diagonal", "requires_grad"}
        else:
            assert any(all(map(eq, own, overload[1:])) for overload in known[name]), name
    assert len(bound) > 100


def test_op_types_without_a_rule_of_their_own_mean_what_they_do_in_exported_programs(tmp_path):
    size = numbered("[4,6]")
    maxima = [
        "F.max_pool2d p 1 2 x m i kernel_size=(2,2) stride=None return_indices=True $input=x",
        *size,
        "aten::max_unpool2d u 3 1 m i n0 y",
    ]
    x = RANDOM.normal(size=(1, 2, 4, 6)).astype(np.float32)
    found = computed(tmp_path, maxima, x=x)
    best = x.reshape(1, 2, 2, 2, 3, 2).max((3, 5)).repeat(2, 2).repeat(2, 3)
    np.testing.assert_array_equal(found, np.where(x == best, x, 0))
    wanted = np.array([0, 4, 9], np.int64)
    rows = [*numbered("False", "True"), "aten::isin s 4 1 x z n0 n1 y"]
    np.testing.assert_array_equal(computed(tmp_path, rows, x=LABELS, z=wanted), ~np.isin(LABELS, wanted))
    np.testing.assert_allclose(
        computed(tmp_path, ["aten::lgamma g 1 1 x y"], x=np.abs(X) + 1),
        [[lgamma(n) for n in r] for r in np.abs(X) + 1],
        1e-4,
        1e-5,
    )
    rows = [*numbered("[5]", "None", "None", "1e-3"), "aten::native_layer_norm l 5 1 x n0 n1 n2 n3 y"]
    centred = X - X.mean(1, keepdims=True)
    np.testing.assert_allclose(
        computed(tmp_path, rows, x=X), centred / np.sqrt(X.var(1, keepdims=True) + 1e-3), 1e-4, 1e-5
    )
    square = (RANDOM.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float32)
    np.testing.assert_allclose(
        computed(tmp_path, ["aten::linalg_inv v 1 1 x y"], x=square), np.linalg.inv(square), 1e-4, 1e-5
    )


def test_an_op_type_whose_operands_mean_something_else_by_place_is_refused(tmp_path):
    net = load(tmp_path, [*numbered(3), "aten::qr q 2 2 x n0 y r"], x="(3,3)f32")
    assert not is_canonical(net.graph)


@pytest.mark.parametrize("kind", ["f", "i"])
def test_real_tensors_become_complex_by_a_number(tmp_path, kind):
    x = X if kind == "f" else LABELS
    declared = f"#z=({','.join(map(str, x.shape))})c64"
    rows = [f"pnnx.Expression e 1 1 x z expr=mul(@0,2.0-3.5j) {declared}", "pnnx.Expression a 1 1 z y expr=abs(@0)"]
    np.testing.assert_allclose(computed(tmp_path, rows, x=x), np.abs(x * (2 - 3.5j)), rtol=1e-5)


@pytest.mark.parametrize("sides", ["complex complex", "complex real", "real complex"])
@pytest.mark.parametrize("op_type", ["torch.matmul", "torch.einsum equation=ij,jk->ik"])
def test_complex_matrices_are_multiplied(tmp_path, op_type, sides):
    y = RANDOM.normal(size=(5, 3)).astype(np.float32)
    given = {"x": (X, 2 - 3.5j, "z"), "w": (y, -1 + 0.5j, "v")}
    rows, factors = [], []
    for kind, (name, (array, number, made)) in zip(sides.split(), given.items(), strict=True):
        shape = ",".join(map(str, array.shape))
        rows.append(
            f"pnnx.Expression {made} 1 1 {name} {made} expr=mul(@0,{number.real}{number.imag:+}j) #{made}=({shape})c64"
            if kind == "complex"
            else f"pnnx.Expression {made} 1 1 {name} {made} expr=mul(@0,1.0)"
        )
        factors.append(array * (number if kind == "complex" else 1))
    type_, *told = op_type.split()
    rows.append(f"{type_} m 2 1 z v p {' '.join(told)} #p=({X.shape[0]},3)c64")
    rows.append("pnnx.Expression a 1 1 p y expr=abs(@0)")
    np.testing.assert_allclose(computed(tmp_path, rows, x=X, w=y), np.abs(factors[0] @ factors[1]), rtol=1e-4)


def test_a_tensor_of_one_entry_that_is_written_as_a_number_is_one(tmp_path):
    rows = [
        "Tensor.select s 0 1 n dim=0 index=0 input=3",
        "pnnx.Expression i 1 1 n k expr=int(@0)",
        "Tensor.slice p 2 1 x k y dim=1 start=0 step=1 $input=x $end=k",
    ]
    np.testing.assert_array_equal(computed(tmp_path, rows, x=X), X[:, :3])


def test_a_mask_that_is_written_out_chooses_where_it_is_true(tmp_path):
    rows = ["Tensor.index i 1 1 x y expr=[None,[True,False,True,False,True]]"]
    np.testing.assert_array_equal(computed(tmp_path, rows, x=X), X[:, [0, 2, 4]])
    mask = np.array([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]], bool)
    whole = str(mask.tolist()).replace(" ", "")
    found = computed(tmp_path, [f"Tensor.index i 1 1 x y expr=[{whole}]"], x=X)
    np.testing.assert_array_equal(found, X[[0, 0, 2, 3], [0, 3, 1, 0]])


@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT])
def test_running_sums_are_of_their_own_type_from_either_end(kind, reverse, tmp_path):
    """PyTorch accumulates int32 in int64 by default, where sums beyond the int32 range would not wrap."""
    nodes = [onnx.helper.make_node("CumSum", ["x", "axis"], ["y"], reverse=reverse)]
    x = np.array([[1, 7, 2**31 - 1], [4, 5, 6]]).astype(onnx.helper.tensor_dtype_to_np_dtype(kind))
    given, result = (onnx.helper.make_tensor_value_info(name, kind, x.shape) for name in "xy")
    axis = onnx.numpy_helper.from_array(np.int64(1), "axis")
    proto = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [given], [result], [axis]))
    gp.save(gp.from_onnx(proto), tmp_path / "y.pnnx.param")
    found = gp.run(gp.load(tmp_path / "y.pnnx.param"), {"x": x}, backend="reference")["y"]
    expected = np.flip(np.cumsum(np.flip(x, 1), 1, x.dtype), 1) if reverse else np.cumsum(x, 1, x.dtype)
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceProd"])
def test_integers_are_reduced_in_their_own_type(op_type, tmp_path):
    """In int64, PyTorch's default, the sums would not wrap."""
    x = np.array([[2**31 - 1, 3, 1], [7, 2**30, 4]], np.int32)
    nodes = (
        [node(op_type, ["x"], ["y"], axes=[1], keepdims=0)]
        if op_type == "ReduceProd"
        else [node(op_type, ["x", "a"], ["y"])]
    )
    nodes = [node("Cast", ["f"], ["x"], to=TensorProto.INT32), *nodes]
    proto = model(nodes, [("f", x.shape)], [("y", None)], {"a": np.array([1])}, opset=13)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
    made = gp.from_onnx(proto)
    gp.save(made, tmp_path / "y.pnnx.param")
    given = {"f": np.array([[3, 3, 1], [7, 2, 4]], np.float32)}
    for graph in (made, gp.load(tmp_path / "y.pnnx.param")):
        found = gp.run(graph, given, backend="reference")["y"]
        expected = {"ReduceSum": [[7], [13]], "ReduceProd": [9, 56]}[op_type]
        np.testing.assert_array_equal(found, np.array(expected, np.int32), strict=True)
    assert "dtype=torch.int" in (tmp_path / "y.pnnx.param").read_text()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [TensorProto.INT32, TensorProto.INT64])
def test_blocks_of_computed_places_are_rows_that_are_folded_again(kind, axis, tmp_path):
    """Like PyTorch's export of `as_strided`; indices may be negative."""
    nodes = [node("Cast", ["i"], ["at"], to=kind), node("Gather", ["x", "at"], ["y"], axis=axis)]
    proto = model(nodes, [("x", [3, 4, 2]), ("i", [2, 2])], [("y", None)], {}, opset=17)
    gp.save(gp.from_onnx(proto), tmp_path / "y.pnnx.param")
    x, at = np.arange(24, dtype=np.float32).reshape(3, 4, 2), np.array([[0, -1], [2, 1]])
    given = {"x": x, "i": at.astype(np.float32)}
    found = gp.run(gp.load(tmp_path / "y.pnnx.param"), given, backend="reference")["y"]
    np.testing.assert_array_equal(found, np.take(x, at, axis))


def test_downsampling_by_factors_uses_the_antialias_filter(tmp_path):
    x = RANDOM.normal(size=(2, 3, 8, 6)).astype(np.float32)
    rows = [*numbered("None", "False", "[0.5,0.5]"), "aten::_upsample_bilinear2d_aa u 4 1 x n0 n1 n2 y"]

    def shares(count):
        places = np.abs(np.arange(count) - (2 * np.arange(count // 2)[:, None] + 0.5))
        kernel = np.maximum(1 - places / 2, 0)
        return kernel / kernel.sum(1, keepdims=True)

    expected = shares(8) @ x.astype(np.float64) @ shares(6).T
    np.testing.assert_allclose(computed(tmp_path, rows, x=x), expected, rtol=1e-5, atol=1e-6)
