"""Operators of ONNX Runtime's own domain, said canonically, against ONNX Runtime."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.formats.onnx import read, to_proto
from graphport.formats.onnx.rules.com_microsoft.binding import DIALECT
from graphport.ops import operator_manual
from tests.every import every
from tests.ops.oracle import evaluate_graph, one_node

RNG = np.random.default_rng(7)


def real(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def small(*shape: int) -> Any:
    return (RNG.normal(size=shape) * 0.3).astype(np.float32)


def steps(dtype: type, *shape: int) -> Any:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def weights(*shape: int) -> Any:
    """Integers of seven bits: with eight, processors without an instruction for it saturate sums of two products."""
    return RNG.integers(-64, 64, shape).astype(np.int8)


def f(value: float) -> Any:
    return np.array(value, np.float32)


def u8(value: int) -> Any:
    return np.array(value, np.uint8)


def i8(value: int) -> Any:
    return np.array(value, np.int8)


def i32(*values: Any) -> Any:
    return np.array(values, np.int32)


@dataclass(frozen=True)
class Case:
    """One node, and how far our answer may be from ONNX Runtime's, in steps where it is of integers."""

    op_type: str
    inputs: list[Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    tolerance: float = 1e-4
    off: int = 0
    constants: tuple[int, ...] = ()
    rows: Any = None  # what of the first result is defined
    judged: int = 9  # so many results are
    name: str = ""


X = {np.uint8: u8, np.int8: i8}
B, S, N, H = 2, 4, 2, 16
D = N * H
LENGTHS = i32(4, 2)
MASK = i32([1, 1, 1, 1], [1, 1, 0, 0])


def pair(dtype, *shape):
    zero = X[dtype](3)
    return [steps(dtype, *shape), f(0.05), zero]


CASES = [
    Case("Gelu", [real(2, 5)]),
    Case("BiasGelu", [real(2, 5), real(5)]),
    Case("FastGelu", [real(2, 5)]),
    Case("FastGelu", [real(2, 5), real(5)], name="bias"),
    Case("QuickGelu", [real(2, 5)], {"alpha": 1.5}),
    Case("SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)]),
    Case("SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8)], {"epsilon": 1e-5}, name="no beta"),
    Case("SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8)], {"epsilon": 1e-6}),
    Case(
        "EmbedLayerNormalization",
        [
            i32([1, 2, 3], [4, 0, 1]),
            i32([0, 0, 1], [0, 1, 1]),
            real(6, 8),
            real(5, 8),
            real(2, 8),
            real(8),
            real(8),
            i32([1, 1, 0], [1, 1, 1]),
        ],
        {"epsilon": 1e-5},
        outputs=2,
    ),
    Case(
        "EmbedLayerNormalization",
        [i32([1, 2, 3], [4, 0, 1]), None, real(6, 8), real(5, 8), None, real(8), real(8)],
        outputs=2,
        name="words alone",
    ),
    Case("FusedMatMul", [real(2, 3, 4), real(2, 5, 4)], {"transB": 1, "alpha": 0.5}),
    Case("FusedMatMul", [real(2, 4, 3), real(2, 4, 5)], {"transA": 1}, name="left"),
    Case("TransposeMatMul", [real(3, 4), real(5, 4)], {"transB": 1}),
    Case("FusedGemm", [real(2, 3), real(4, 3), real(4)], {"transB": 1, "activation": "Relu"}),
    Case("FusedGemm", [real(2, 3), real(3, 4)], {"activation": "LeakyRelu", "activation_alpha": 0.2}, name="leaky"),
    Case("FusedConv", [real(1, 2, 5, 5), real(3, 2, 3, 3), real(3)], {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    Case(
        "FusedConv",
        [real(1, 2, 5, 5), real(3, 2, 3, 3), None, real(1, 3, 3, 3)],
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
        name="sum clipped",
    ),
    Case("MatMulIntegerToFloat", [steps(np.uint8, 3, 4), weights(4, 5), f(0.1), f(0.2), u8(3), i8(1), real(5)]),
    Case(
        "MatMulIntegerToFloat",
        [steps(np.uint8, 3, 4), steps(np.uint8, 4, 5), f(0.1), abs(real(5)), u8(3), steps(np.uint8, 5)],
        tolerance=1e-3,
        name="per column",
    ),
    Case("CausalConvWithState", [real(2, 4, 7), real(4, 1, 3), real(4), real(2, 4, 2)], outputs=2),
    Case("CausalConvWithState", [real(1, 4, 7), real(4, 1, 3)], {"activation": "silu"}, 2, name="activation"),
    *(
        Case(
            "MoE",
            [real(*tokens, 8), real(6, 4), real(4, 5, 8), real(4, 5), real(4, 8, 5), real(4, 8)],
            {"k": 2, "activation_type": activation, "normalize_routing_weights": normalizes},
            name=f"{activation}, normalize_routing_weights {normalizes}",
        )
        for activation, normalizes, tokens in (
            ("relu", 1, (6,)),
            ("silu", 0, (2, 3)),
            ("gelu", 1, (6,)),
            ("identity", 1, (6,)),
        )
    ),
    Case("Range", [f(1), f(4), f(0.5)]),
    Case("Range", [i32(3), i32(9)], name="one-dimensional"),
    Case("UnfoldTensor", [real(2, 7, 3)], {"dim": 1, "size": 3, "step": 2}),
    Case("CDist", [real(4, 6), real(5, 6)], {"metric": "euclidean"}),
    Case("CDist", [real(4, 6), real(5, 6)], {"metric": "sqeuclidean"}, name="squares"),
    Case("GatedAdd", [real(3, 5), real(3, 5), real(3, 1)]),
    *(
        Case(
            "MatMulBnb4",
            [real(3, 32), steps(np.uint8, 4 * 32 // 2), abs(real(8))],
            {"K": 32, "N": 4, "block_size": 16, "quant_type": kind},
            name=f"quant_type {kind}",
            constants=(1, 2),
        )
        for kind in (0, 1)
    ),
    *(
        Case(
            "DynamicQuantizeLSTM",
            [
                real(5, 2, 6),
                weights(1, 6, 32),
                weights(1, 8, 32),
                small(1, 64),
                None,
                small(1, 2, 8),
                small(1, 2, 8),
                None,
            ]
            + 2 * [np.full(shape, 0.005, np.float32), np.zeros(shape, np.int8)],
            {"hidden_size": 8},
            outputs=3,
            tolerance=0.02,
            constants=(1, 2, 3, 8, 9, 10, 11),
            name=f"scales of rank {len(shape)}",
        )
        for shape in ((1,), (1, 32))
    ),
    Case("DynamicQuantizeMatMul", [real(3, 4), steps(np.uint8, 4, 5), f(0.2), u8(9), real(5)], tolerance=1e-3),
    Case(
        "QGemm",
        [steps(np.uint8, 3, 4), f(0.1), u8(5), weights(4, 5), f(0.02), i8(0), i32(*range(5))],
        tolerance=1e-3,
    ),
    Case(
        "QGemm",
        [steps(np.uint8, 3, 4), f(0.1), u8(5), weights(4, 5), f(0.02), i8(0), None, f(0.5), u8(128)],
        off=1,
        name="integers again",
    ),
    Case(
        "QGemm",
        [steps(np.uint8, 3, 4), f(0.1), u8(5), weights(5, 4), abs(real(5)), np.zeros(5, np.int8), i32(*range(5))],
        {"transB": 1},
        tolerance=1e-3,
        name="per column",
    ),
    Case("QuantizeLinear", [real(2, 3) * 9, f(0.3), np.array(5, np.uint16)]),
    Case("DequantizeLinear", [steps(np.int16, 2, 3), f(0.3), np.array(5, np.int16)]),
    Case("QLinearAdd", [*pair(np.uint8, 2, 5), *pair(np.uint8, 5), f(0.1), u8(2)], off=1),
    Case("QLinearAdd", [*pair(np.int8, 2, 5), *pair(np.int8, 2, 5), f(0.1)], off=1, name="no zero point"),
    Case("QLinearMul", [*pair(np.uint8, 2, 5), *pair(np.uint8, 2, 1), f(0.4), u8(2)], off=1),
    Case("QLinearSigmoid", [*pair(np.uint8, 2, 5), f(1 / 255), u8(0)], off=1),
    Case("QLinearLeakyRelu", [*pair(np.int8, 2, 5), f(0.05), i8(1)], {"alpha": 0.1}, off=1),
    Case("QLinearSoftmax", [*pair(np.uint8, 2, 5), f(1 / 255), u8(0)], {"opset": 13, "axis": -1}, off=1),
    Case("QLinearSoftmax", [*pair(np.uint8, 2, 3, 2), f(1 / 255), u8(0)], {"opset": 11, "axis": 1}, off=1, name="old"),
    Case("QLinearConcat", [f(0.05), u8(3), *pair(np.uint8, 2, 3), *pair(np.uint8, 2, 2)], {"axis": 1}, off=1),
    Case(
        "QLinearWhere",
        [np.array([True, False, True]), *pair(np.uint8, 3), *pair(np.uint8, 3), f(0.06), u8(2)],
        off=1,
    ),
    Case("QLinearAveragePool", [*pair(np.uint8, 1, 2, 5, 5), f(0.05), u8(3)], {"kernel_shape": [2, 2]}, off=1),
    Case(
        "QLinearAveragePool",
        [*pair(np.uint8, 1, 5, 5, 2), f(0.05), u8(3)],
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "channels_last": 1},
        off=1,
        name="channels last",
    ),
    Case("QLinearGlobalAveragePool", [*pair(np.uint8, 1, 2, 5, 5), f(0.05), u8(3)], off=1),
    Case(
        "QLinearGlobalAveragePool", [*pair(np.int8, 1, 5, 5, 2), f(0.05), i8(3)], {"channels_last": 1}, off=1, name="l"
    ),
    Case(
        "GatherBlockQuantized",
        [(steps(np.uint8, 3, 32) % 16).astype(DType.UINT4.numpy), np.array([2, 0]), abs(small(3, 2))],
        {"block_size": 16},
        constants=(0, 2),
    ),
    Case("NhwcMaxPool", [steps(np.uint8, 1, 5, 5, 2)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case(
        "QLinearConv",
        [*pair(np.uint8, 1, 5, 5, 2), weights(3, 2, 3, 3), f(0.02), i8(0), f(0.3), u8(100)],
        {"channels_last": 1},
        off=1,
    ),
    Case(
        "RotaryEmbedding",
        [real(B, S, D), np.array([[0, 1, 2, 3], [3, 4, 5, 6]]), real(8, H // 2), real(8, H // 2)],
        {"num_heads": N},
    ),
    Case(
        "RotaryEmbedding",
        [real(B, N, S, H), np.array([2]), real(8, H // 2), real(8, H // 2)],
        {"interleaved": 1},
        name="offset",
    ),
    Case("Trilu", [real(3, 4)], {"upper": 0}),
    Case("GatherND", [real(2, 3), np.array([[0, 1], [1, 2]])]),
    Case("ExpandDims", [real(2, 3), np.array(1, np.int32)], constants=(1,)),
    Case("Pad", [real(2, 3), np.array([0, 1, 1, 0]), np.array([2.5], np.float32)], constants=(1,)),
    Case("Unique", [np.array([2, 1, 2, 5], np.float32)], outputs=3),
    Case("GridSample", [real(1, 1, 4, 4), small(1, 3, 3, 2)], {"mode": "bilinear"}),
    Case("Attention", [small(B, S, D), small(D, 3 * D), small(3 * D)], {"num_heads": N}),
    Case("Attention", [small(B, S, D), small(D, 3 * D), small(3 * D), MASK], {"num_heads": N}, name="mask"),
    Case("Attention", [small(B, S, D), small(D, 3 * D), small(3 * D), LENGTHS], {"num_heads": N}, name="lengths"),
    Case(
        "Attention",
        [small(B, S, D), small(D, 3 * D), small(3 * D), None, small(2, B, N, 3, H)],
        {"num_heads": N, "unidirectional": 1, "scale": 0.4},
        outputs=2,
        name="past",
    ),
    Case(
        "Attention",
        [small(B, S, D), small(D, 2 * D + 8), small(2 * D + 8)],
        {"num_heads": N, "qkv_hidden_sizes": [D, D, 8]},
        name="narrow values",
    ),
    Case(
        "QAttention",
        [steps(np.uint8, B, S, D), weights(D, 3 * D), small(3 * D), f(0.01), f(0.01), MASK, u8(128), i8(0)],
        {"num_heads": N},
        tolerance=1e-3,
    ),
    Case("MultiHeadAttention", [small(B, S, D), small(B, 5, D), small(B, 5, D)], {"num_heads": N}),
    Case(
        "MultiHeadAttention",
        [small(B, S, D), small(B, S, D), small(B, S, D), small(3 * D), MASK],
        {"num_heads": N},
        name="bias and mask",
    ),
    Case(
        "MultiHeadAttention",
        [
            small(B, S, D),
            small(B, S, D),
            small(B, S, D),
            None,
            None,
            small(1, N, S, S + 2),
            small(B, N, 2, H),
            small(B, N, 2, H),
        ],
        {"num_heads": N, "unidirectional": 1},
        outputs=3,
        name="past",
    ),
    Case("MultiHeadAttention", [small(B, S, D), small(B, N, 5, H), small(B, N, 5, H)], {"num_heads": N}, name="apart"),
    Case(
        "GroupQueryAttention",
        [small(B, S, 2 * D), small(B, S, D), small(B, S, D), None, None, i32(3, 3), i32(4)[0]],
        {"num_heads": 4, "kv_num_heads": N},
        outputs=3,
    ),
    Case(
        "GroupQueryAttention",
        [
            small(B, S, 2 * D),
            small(B, S, D),
            small(B, S, D),
            None,
            None,
            i32(3, 1),
            i32(4)[0],
            real(8, H // 2),
            real(8, H // 2),
        ],
        {"num_heads": 4, "kv_num_heads": N, "do_rotary": 1},
        outputs=3,
        judged=1,
        rows=np.array([[1, 1, 1, 1], [1, 1, 0, 0]], bool),
        name="prompt with rotation and padding",
    ),
    Case(
        "GroupQueryAttention",
        [
            small(B, 1, 2 * D),
            small(B, 1, D),
            small(B, 1, D),
            small(B, N, 5, H),
            small(B, N, 5, H),
            i32(5, 5),
            i32(6)[0],
            real(8, H // 2),
            real(8, H // 2),
        ],
        {"num_heads": 4, "kv_num_heads": N, "do_rotary": 1, "local_window_size": 3},
        outputs=3,
        name="next token",
    ),
    Case(
        "GroupQueryAttention",
        [small(B, 1, 4 * D), None, None, small(B, N, 8, H), small(B, N, 8, H), i32(5, 3), i32(6)[0]],
        {"num_heads": 4, "kv_num_heads": N, "softcap": 2.0},
        outputs=3,
        judged=1,
        name="in a row, lengths of their own",
    ),
    Case(
        "MatMulNBits",
        [small(2, 32), steps(np.uint8, 3, 2, 8), abs(small(6)), steps(np.uint8, 3)],
        {"K": 32, "N": 3, "bits": 4, "block_size": 16},
        constants=(1, 2, 3),
        tolerance=1e-3,
    ),
    Case(
        "MatMulNBits",
        [small(2, 40), steps(np.uint8, 3, 3, 8), abs(small(9)), steps(np.uint8, 6)],
        {"K": 40, "N": 3, "bits": 4, "block_size": 16},
        constants=(1, 2, 3),
        tolerance=1e-3,
        name="last block in part",
    ),
    Case(
        "MatMulNBits",
        [small(2, 32), steps(np.uint8, 3, 2, 16), abs(small(6))],
        {"K": 32, "N": 3, "bits": 8, "block_size": 16},
        constants=(1, 2),
        tolerance=1e-3,
        name="bytes",
    ),
]


@every("case", CASES, ids=lambda case: f"{case.op_type}-{case.name}".rstrip("-"))
def test_lowered_contrib_operators_match_onnx_runtime(case):
    model = modelled(case)
    graph = legalized(model)
    given = feeds(case)
    computed = evaluate_graph(graph, {value: given[value.name] for value in graph.inputs})
    found = [computed[value] for value in graph.outputs]
    pairs = zip(found, expected(model, case), strict=True)
    for number, (a, b) in enumerate(list(pairs)[: case.judged]):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), number
        assert distance(a, b, case.rows) <= (case.off if b.dtype.kind in "iu" else case.tolerance), number


def legalized(model):
    graph, findings = legalize(read(model))
    assert not [finding for finding in findings if finding.code == "LEG0001"], findings
    return graph


def distance(a, b, rows):
    """The greatest difference between two results, or between those rows of both that mean something."""
    kept = slice(None) if rows is None else rows
    return np.abs(a.astype(np.float64) - b.astype(np.float64))[kept].max()


def modelled(case):
    model, _ = one_node(case.op_type, case.inputs, case.attributes, outputs=case.outputs, domain=DIALECT)
    for place in case.constants:
        name = f"i{place}"
        if any(tensor.name == name for tensor in model.graph.initializer):
            continue
        kept = [given for given in model.graph.input if given.name != name]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(case.inputs[place]), name))
    return model


def session(model):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def feeds(case):
    return {f"i{n}": np.asarray(x) for n, x in enumerate(case.inputs) if x is not None and n not in case.constants}


def expected(model, case):
    return session(model).run(None, feeds(case))


@every("case", CASES, ids=lambda case: f"{case.op_type}-{case.name}".rstrip("-"))
def test_lowered_contrib_operators_run_in_onnx_runtime(case):
    model = modelled(case)
    found = session(to_proto(legalized(model))).run(None, feeds(case))
    for a, b in list(zip(found, expected(model, case), strict=True))[: case.judged]:
        assert distance(a, b, case.rows) <= max(case.tolerance, case.off)


def opaque(model):
    return [finding.message for finding in legalize(read(model))[1] if finding.code == "LEG0001"]


def test_a_form_that_has_no_rule_stays_and_states_which_has():
    model, _ = one_node("Gelu", [real(2)], {"loudness": 11}, domain=DIALECT)
    assert opaque(model) == [
        "com.microsoft.Gelu remains unchanged: unsupported arguments: got an unexpected keyword argument 'loudness'"
    ]
    case = next(case for case in CASES if case.op_type == "MatMulNBits")
    model, _ = one_node(case.op_type, case.inputs, case.attributes, domain=DIALECT)
    assert opaque(model) == [
        "com.microsoft.MatMulNBits remains unchanged: supported only with constant weights and scales"
    ]


def test_an_unknown_operator_of_the_domain_stays():
    model, _ = one_node("BeamSearch", [real(2)], domain=DIALECT)
    assert opaque(model) == ["com.microsoft.BeamSearch remains unchanged: no import rule exists"]


def test_unrequested_results_are_not_computed():
    inputs = [real(2, 3, 8), real(2, 3, 8), real(8)]
    model, given = one_node("SkipSimplifiedLayerNormalization", inputs, outputs=4, domain=DIALECT)
    model.graph.node[0].output[1] = model.graph.node[0].output[2] = ""
    del model.graph.output[1:3]
    graph = legalized(model)
    assert [node.op for node in graph] == ["Add", "RMSNormalization"]
    computed = evaluate_graph(graph, {value: given[value.name] for value in graph.inputs})
    for value, b in zip(graph.outputs, session(model).run(None, given), strict=True):
        assert distance(computed[value], b, None) < 1e-5


def test_weights_of_four_bits_keep_their_bytes():
    case = next(case for case in CASES if case.op_type == "MatMulNBits")
    graph = legalized(modelled(case))
    weight = next(node for node in graph if node.op == "DequantizeLinear").inputs[0]
    assert weight is not None
    assert weight.storage is not None
    assert b"".join(bytes(chunk) for chunk in weight.storage.chunks()) == case.inputs[1].tobytes()
    low, high = case.inputs[1][0, 0, 0] & 15, case.inputs[1][0, 0, 0] >> 4
    assert weight.storage.numpy()[0, :2].astype(int).tolist() == [low, high]


def test_normalizations_that_stood_in_the_default_domain_too_early_are_read():
    x, scale = real(2, 3, 8), real(8)
    for op_type, attributes in (("SimplifiedLayerNormalization", {}), ("LayerNormalization", {"axis": -1})):
        model, given = one_node(op_type, [x, scale], attributes, opset=12)
        findings: list[Any] = []
        graph, _ = legalize(read(model, findings=findings))
        computed = evaluate_graph(graph, {value: given[value.name] for value in graph.inputs})
        assert distance(computed[graph.outputs[0]], session(model).run(None, given)[0], None) < 1e-5


def test_every_rule_names_its_pages():
    spoken = operator_manual.registered(DIALECT)
    assert len(spoken) >= 35
    assert all(spoken.values()), [op_type for op_type, op_defs in spoken.items() if not op_defs]
