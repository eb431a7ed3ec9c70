"""Factors of channels next to integers are folded into their scales; results are unchanged for all consumers."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.scales import even_out, fold_scales
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify
from tests.laws import canonical, computed

RANDOM = np.random.default_rng(0)
SHAPE = (1, 5, 5, 4)
X = RANDOM.uniform(-4, 4, SHAPE).astype(np.float32)
ONE, CHANNELS = (DType.INT8, -1, (0.04,), (3,)), (DType.INT8, 3, (0.04, 0.01, 0.02, 0.03), (0, 0, 0, 0))
PLAIN = RANDOM.integers(-127, 128, (4, 3, 3, 4)).astype(np.int8)
DEEP = RANDOM.integers(-127, 128, (1, 3, 3, 8)).astype(np.int8)
EVEN: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "padding": 0}
Told = tuple[DType, int, tuple[float, ...], tuple[int, ...]]


class Net:
    """Words of TFLite over `x`, channels last."""

    def __init__(self) -> None:
        self.graph: Any = Graph()
        self.x = self.graph.add_input("x", TensorFact(DType.FLOAT32, SHAPE))

    def put(self, op_type: str, *operands: Any, shape: Any = SHAPE, dtype=DType.FLOAT32, **told: Any) -> Value:
        read = [each if isinstance(each, Value) else self.constant(each) for each in operands]
        made = Value(self.graph.fresh(op_type.lower()), TensorFact(dtype, shape))
        types = {"types": (dtype,), "fused_activation_function": 0}
        return self.graph.append(Node(op_type, read, [made], types | told, dialect="tflite")).output

    def constant(self, array: Any) -> Value:
        storage = storage_of(np.asarray(array))
        return self.graph.add_constant(self.graph.fresh("c"), TensorFact.of(storage), storage)

    def rounded(self, value: Value, told: Told = ONE) -> Value:
        """Append QUANTIZE."""
        shape = value.fact.dims  # pyright: ignore[reportAttributeAccessIssue]
        return self.put("QUANTIZE", value, shape=shape, dtype=told[0], quantized_results=(told,))

    def real(self, value: Value, told: Told = ONE) -> Value:
        shape = value.fact.dims  # pyright: ignore[reportAttributeAccessIssue]
        return self.put("DEQUANTIZE", value, shape=shape, quantized=(told,))

    def filtered(self, value: Value, *, deep: bool, told: Told | None = None, w: Any = None, bias: Any = None) -> Value:
        """A convolution with filters of integers."""
        w = (DEEP if deep else PLAIN) if w is None else w
        along, count = (3, w.shape[3]) if deep else (0, w.shape[0])
        steps = told or (DType.INT8, along, tuple(0.002 + 0.001 * n for n in range(count)), (0,) * count)
        filters = self.real(self.constant(w), steps)
        bias = np.linspace(-1, 1, count).astype(np.float32) if bias is None else bias
        op_type = "DEPTHWISE_CONV_2D" if deep else "CONV_2D"
        return self.put(op_type, value, filters, bias, shape=(*SHAPE[:3], count), **EVEN)

    def returned(self, *values: Value) -> Any:
        self.graph.set_outputs(values)
        return self.graph


def words(graph: Any) -> list[str]:
    verify(graph)
    return [node.op_type for node in graph]


def held(graph: Any, work: Any, most: int = 1) -> list[str]:
    """Apply a change, check that the results differ by at most `most` steps, and return the remaining op types."""
    expected = computed(canonical(rewrite.copy(graph)), {"x": X})
    work(graph)
    found = words(graph)
    for one, other in zip(computed(canonical(rewrite.copy(graph)), {"x": X}), expected, strict=True):
        if one.dtype.kind == "i":
            assert np.abs(one.astype(int) - other.astype(int)).max() <= most
            assert int(one.max()) - int(one.min()) > 20
        else:
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    return found


# ── factors of channels ───────────────────────────────────────────────────────────────────────────────────────────────

FACTORS = {"one": np.float32(0.5), "positive": np.array([0.5, 2, 1, 0.25]), "mixed": np.array([0.5, -2, 1, -0.25])}


def factor(name: str, count: int) -> Any:
    return np.resize(FACTORS[name], np.shape(FACTORS[name]) and count).astype(np.float32)


@given(
    deep=st.booleans(),
    before=st.sampled_from(["", "one", "mixed", "given", "padded"]),
    behind=st.lists(
        st.sampled_from(["MUL one", "MUL positive", "MUL mixed", "ADD one", "ADD mixed", "RELU", "RELU6", "TANH"]),
        max_size=4,
    ),
    read=st.booleans(),
)
def test_factors_and_terms_are_scales_and_bias_or_stay(deep, before, behind, read):
    net = Net()
    value = net.real(net.rounded(net.x))
    if before in FACTORS:
        value = net.put("MUL", value, factor(before, 4))
    elif before == "given":
        value = net.put("MUL", value, net.put("ABS", net.x))
    elif before:
        value = net.put("MUL", value, factor("positive", 4))
        value = net.put("PAD", value, np.zeros((4, 2), np.int32))
    value = net.filtered(value, deep=deep)
    count = value.fact.dims[3]  # pyright: ignore[reportAttributeAccessIssue]
    seen = value
    expected: list[str] = []
    is_open, is_clamped = True, False
    for each in behind:
        op_type, _, name = each.partition(" ")
        operands = [factor(name, count)] if name else []
        value = net.put(op_type, value, *operands, shape=value.fact.dims)  # pyright: ignore[reportAttributeAccessIssue]
        is_term = op_type == "ADD" and not is_clamped
        is_factor = op_type == "MUL" and (not is_clamped or name != "mixed")
        if not (is_open and (is_term or is_factor)):
            expected.append(op_type)
        if op_type == "RELU":
            is_clamped = True
        elif op_type == "RELU6":
            is_open = False
        elif op_type == "TANH" or (is_open and not (is_term or is_factor)):
            is_open, expected = False, [text.partition(" ")[0] for text in behind]
            break
    else:
        value = net.rounded(value, (DType.INT8, -1, (0.02,), (-5,)))
        if read:
            expected = [text.partition(" ")[0] for text in behind]
        graph = net.returned(value, *([seen] if read else []))
        found = held(graph, fold_scales)
        place = next(at for at, op_type in enumerate(found) if op_type.endswith("CONV_2D"))
        assert found[place + 1 : -1] == expected
        assert ("MUL" in found[:place]) == (before != "" and not (deep and before in ("one", "mixed", "padded")))


def behind(op_type: str, operand: Any, *, count=4, **told: Any) -> tuple[Net, Value]:
    """Return a net with one operator after a convolution, and its quantized result."""
    net = Net()
    value = net.filtered(net.real(net.rounded(net.x)), deep=False)
    value = net.put(op_type, value, operand, shape=(*SHAPE[:3], count), **told)
    return net, net.rounded(value)


def test_factors_that_are_not_per_channel_are_unchanged():
    rows = np.ones((1, 5, 5, 1), np.float32)
    for op_type, operand, told in (
        ("MUL", rows, {}),
        ("MUL", np.ones((5, 4), np.float32), {}),
        ("MUL", np.float32([1, 2, 3, 4]).reshape(4, 1), {}),
        ("MUL", np.float32([1, 2, 3, 4]), {"fused_activation_function": 1}),
        ("MUL", np.float32([1, 2, 0, 4]), {}),
        ("MUL", np.float32([1, 2, np.inf, 4]), {}),
        ("SUB", np.float32([1, 2, 3, 4]), {}),
    ):
        net, value = behind(op_type, operand, **told)
        graph = net.returned(value)
        before = words(graph)
        fold_scales(graph)
        assert words(graph) == before, (op_type, operand)
    net = Net()
    value = net.filtered(net.real(net.rounded(net.x)), deep=False)
    graph = net.returned(net.rounded(net.put("MUL", value, net.put("ABS", net.x))))
    before = words(graph)
    fold_scales(graph)
    assert words(graph) == before
    net = Net()
    value = net.filtered(net.real(net.rounded(net.x)), deep=False)
    graph = net.returned(net.rounded(net.put("MUL", np.float32([1, 2, 3, 4]), value)))
    fold_scales(graph)
    assert "MUL" in words(graph)


def test_filters_that_cannot_be_scaled_stay():
    lowest = PLAIN.copy()
    lowest[0, 0, 0, 0] = -128
    plain = (DType.INT8, -1, (0.01,), (0,))
    for told, w, signs, is_folded in (
        (plain, PLAIN, [1, -2, 3, 4], True),
        (plain, lowest, [1, 2, 3, 4], True),
        (plain, lowest, [1, -2, 3, 4], False),
        ((DType.INT8, -1, (0.01,), (1,)), PLAIN, [1, 2, 3, 4], False),
        ((DType.INT8, 3, (0.01, 0.02, 0.03, 0.04), (0,) * 4), PLAIN, [1, 2, 3, 4], False),
        ((DType.INT16, -1, (0.0001,), (0,)), PLAIN.astype(np.int16), [1, 2, 3, 4], False),
    ):
        net = Net()
        value = net.filtered(net.real(net.rounded(net.x)), deep=False, told=told, w=w)
        graph = net.returned(net.rounded(net.put("MUL", value, np.float32(signs))))
        assert ("MUL" not in held(graph, fold_scales)) is is_folded
    for bias in (net.put("ABS", net.x), None):
        net = Net()
        value = net.filtered(net.real(net.rounded(net.x)), deep=False)
        node = value.producer
        assert node is not None
        node.inputs = [*node.inputs[:2], *([net.constant(np.zeros(4, np.float32))] if bias is None else [])]
        if bias is None:
            node.set_attribute("quantized", (None, None, None))
        graph = net.returned(net.rounded(net.put("MUL", value, np.float32([1, 2, 3, 4]))))
        before = words(graph)
        fold_scales(graph)
        assert words(graph) == before
    real = Net()
    value = real.filtered(real.real(real.rounded(real.x)), deep=False)
    graph = real.returned(real.rounded(real.put("MUL", value, np.float32([1, 2, 3, 4]))))
    value.producer.dialect = "custom"  # pyright: ignore[reportOptionalMemberAccess]
    before = words(graph)
    fold_scales(graph)
    assert words(graph) == before


def test_what_others_read_before_a_depthwise_convolution_stays():
    for seen in (False, True):
        net = Net()
        scaled = net.put("MUL", net.real(net.rounded(net.x)), np.float32([1, 2, 3, 4]))
        value = net.rounded(net.filtered(scaled, deep=True))
        graph = net.returned(value, *([scaled] if seen else []))
        assert ("MUL" in held(graph, fold_scales)) is seen
    net = Net()
    scaled = net.put("MUL", net.real(net.rounded(net.x)), np.float32([1, 2, 3, 4]))
    both = [net.rounded(net.filtered(scaled, deep=True)) for _ in range(2)]
    assert "MUL" in held(net.returned(*both), fold_scales)
    net = Net()
    scaled = net.put("MUL", net.real(net.rounded(net.x)), np.float32([1, 2, 3, 4]))
    padded = net.put("PAD", scaled, np.zeros((4, 2), np.int32))
    both = [net.rounded(net.filtered(padded, deep=True)) for _ in range(2)]
    assert "MUL" in held(net.returned(*both), fold_scales)


# ── per-channel scales ────────────────────────────────────────────────────────────────────────────────────────────────


def stepped(told: Told = CHANNELS, readers: int = 1, between: Any = ()) -> tuple[Net, list[Value]]:
    """Return depthwise convolutions of an input quantized with a scale per channel."""
    net = Net()
    codes = net.rounded(net.x, told)
    found = []
    for _ in range(readers):
        value = net.real(codes, told)
        for op_type, operand in between:
            value = net.put(op_type, value, operand)
        found.append(net.filtered(value, deep=True))
    return net, found


def test_channels_have_one_step_and_are_multiplied_around_it():
    pad, turn = np.zeros((4, 2), np.int32), np.array([0, 2, 1, 3], np.int32)
    for readers in (1, 2):
        for between in ((), (("PAD", pad),), (("TRANSPOSE", turn), ("PAD", pad))):
            for steps in (CHANNELS, (DType.INT8, 3, (0.01, 0.04, 0.02, 0.03), (-7,) * 4)):
                net, values = stepped(steps, readers, between)
                graph = net.returned(*values)
                found = held(graph, even_out)
                assert found[:2] == ["MUL", "QUANTIZE"]
                assert found.count("MUL") == 1 + readers
                told = [node.attributes.get("quantized_results") for node in graph if node.op_type == "QUANTIZE"]
                one = (DType.INT8, -1, (float(np.float32(0.04)),), (steps[3][0],))
                assert told == [(one,)]
                reals = [n.attributes["quantized"] for n in graph if n.op_type == "DEQUANTIZE"]
                assert reals.count((one,)) == readers
                assert even_out(graph) is None
                assert words(graph) == found


def test_an_axis_in_front_is_multiplied_along_itself():
    net = Net()
    told = (DType.INT8, 1, (0.01, 0.04, 0.02, 0.03, 0.01), (0,) * 5)
    graph = net.returned(net.filtered(net.real(net.rounded(net.x, told), told), deep=True))
    assert held(graph, even_out)[:2] == ["MUL", "QUANTIZE"]


def test_what_else_reads_steps_of_channels_keeps_them():
    def alone(told: Told = CHANNELS) -> Net:
        net, (value,) = stepped(told)
        net.returned(value)
        return net

    unequal, whole = (DType.INT8, 3, CHANNELS[2], (0, 0, 1, 0)), ONE
    nets = [alone(unequal), alone(whole)]
    net = alone()
    net.graph.set_outputs([*net.graph.outputs, net.graph.first.output])
    nets.append(net)
    for at, reader in enumerate(("QUANTIZE", "RELU", "DEQUANTIZE", "shown", "plain", "second")):
        net, (value,) = stepped()
        codes = net.graph.first.output
        real = next(iter(codes.users)).output
        extra = {
            "QUANTIZE": lambda codes=codes, net=net: net.rounded(codes),
            "RELU": lambda real=real, net=net: net.put("RELU", real),
            "DEQUANTIZE": lambda codes=codes, net=net: net.filtered(net.real(codes, ONE), deep=True),
            "shown": lambda real=real: real,
            "plain": lambda real=real, net=net: net.filtered(real, deep=False),
            "second": lambda real=real, net=net: net.put("PAD", net.x, real),
        }[reader]
        net.graph.set_outputs([value, extra()])
        nets.append(net)
        assert at < 6
    net, (value,) = stepped()
    net.graph.first.dialect = "custom"
    net.returned(value)
    nets.append(net)
    for net in nets:
        before = words(net.graph)
        even_out(net.graph)
        assert words(net.graph) == before
