"""Bodies of If, Loop and Scan, and what they capture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, numpy_helper

from tests.passes.cases import I64, NO_BN, B, Case, bn, graph, info, model, node, norm, some


def bodies() -> Iterator[Case]:
    x, y, c = info("x", [2, 4, 5]), info("y", [2, 4, 5]), info("c", [], B)
    yield Case(
        "if_captures",
        model(
            [
                node("Relu", "x", "h"),
                node(
                    "If",
                    "c",
                    "y",
                    then_branch=graph([node("Neg", "h", "a")], [], [info("a", [2, 4, 5])]),
                    else_branch=graph([node("Abs", "h", "b")], [], [info("b", [2, 4, 5])]),
                ),
            ],
            [x, c],
            [y],
        ),
    )
    yield Case("if_bn_inside", _branches([bn("h", "a")], norm(4)), ("no_deep:BatchNormalization",))
    yield Case(
        "if_conv_bn_inside",
        _branches([node("Conv", "h w", "i", pads=[1, 1]), bn("i", "a")], {"w": some(4, 4, 3), **norm(4)}),
        ("no_deep:BatchNormalization",),
    )
    yield Case("if_identity_of_outer", _branches([node("Identity", "h", "a")], {}))
    yield Case("if_identity_of_constant", _branches([node("Identity", "k", "a")], {"k": some(2, 4, 5)}))
    yield Case(
        "if_constant_inside",
        _branches([node("Constant", "", "k", value=numpy_helper.from_array(some(4, 1))), node("Add", "h k", "a")], {}),
        ("no_deep:Constant",),
    )
    yield Case(
        "if_returns_constant", _branches([node("Constant", "", "a", value=numpy_helper.from_array(some(2, 4, 5)))], {})
    )
    yield Case("if_dropout_of_outer", _branches([node("Dropout", "h", "a")], {}), ("no_deep:Dropout",))
    yield Case(
        "if_shares_constant",
        _branches([node("Add", "h k", "a")], {"k": some(4, 1)}, [node("Add", "x k", "h")]),
        ("unshared",),
    )
    conv = [node("Conv", "x w", "h", pads=[1, 1])]
    yield Case(
        "if_bn_of_outer_conv",
        _branches([bn("h", "a")], {"w": some(4, 4, 3), **norm(4)}, conv),
        ("no_deep:BatchNormalization",),
    )
    yield Case(
        "if_captures_bn",
        _branches(
            [node("Neg", "h", "a")],
            {"w": some(4, 4, 3), **norm(4)},
            [node("Conv", "x w", "i", pads=[1, 1]), bn("i", "h")],
        ),
        NO_BN,
    )
    yield Case("loop_bn", _loop([bn("s", "t")], norm(4)), ("no_deep:BatchNormalization",))
    yield Case(
        "loop_conv_bn_add",
        _loop(
            [node("Conv", "s w", "u", pads=[1, 1]), node("Add", "u k", "v"), bn("v", "t")],
            {"w": some(4, 4, 3) / 4, "k": some(4, 1), **norm(4)},
        ),
        ("no_deep:BatchNormalization",),
    )
    yield Case("loop_passes_through", _loop([node("Identity", "s", "t")], {}))
    yield Case("loop_shape_grows", _growing())
    scan = graph(
        [node("Add", "s e", "t"), node("Mul", "t k", "o")],
        [info("s", [3]), info("e", [3])],
        [info("t", [3]), info("o", [3])],
    )
    yield Case(
        "scan_captures",
        model(
            [node("Identity", "k0", "k"), node("Scan", "z x", "f y", body=scan, num_scan_inputs=1)],
            [info("x", [4, 3])],
            [info("f", [3]), info("y", [4, 3])],
            {"z": some(3), "k0": some(3)},
        ),
    )
    nested = graph(
        [
            node(
                "If",
                "c",
                "a",
                then_branch=graph([bn("h", "p")], [], [info("p", [2, 4, 5])]),
                else_branch=graph([node("Neg", "h", "q")], [], [info("q", [2, 4, 5])]),
            )
        ],
        [],
        [info("a", [2, 4, 5])],
    )
    other = graph([node("Abs", "h", "b")], [], [info("b", [2, 4, 5])])
    yield Case(
        "if_in_if",
        model(
            [node("Relu", "x", "h"), node("If", "c", "y", then_branch=nested, else_branch=other)], [x, c], [y], norm(4)
        ),
        ("no_deep:BatchNormalization",),
    )
    yield Case(
        "if_dead",
        model(
            [
                node(
                    "If",
                    "c",
                    "z",
                    then_branch=graph([node("Neg", "x", "a")], [], [info("a", [2, 4, 5])]),
                    else_branch=other_of("x"),
                ),
                node("Relu", "x", "y"),
            ],
            [x, c],
            [y],
        ),
        ("nodes:1",),
    )


def other_of(name: str):
    return graph([node("Abs", name, "b")], [], [info("b", [2, 4, 5])])


def _branches(inside: Sequence[Any], constants: dict[str, Any], before: Sequence[Any] | None = None) -> ModelProto:
    shape = [2, 4, 5]
    then = graph(inside, [], [info("a", shape)])
    otherwise = graph([node("Abs", "x", "b")], [], [info("b", shape)])
    nodes = [
        *([node("Relu", "x", "h")] if before is None else before),
        node("If", "c", "y", then_branch=then, else_branch=otherwise),
    ]
    return model(nodes, [info("x", shape), info("c", [], B)], [info("y", shape)], constants)


def _loop(inside: Sequence[Any], constants: dict[str, Any]) -> ModelProto:
    shape = [2, 4, 5]
    body = graph(
        [*inside, node("Identity", "go", "on")],
        [info("i", [], I64), info("go", [], B), info("s", shape)],
        [info("on", [], B), info("t", shape)],
    )
    given = {"n": np.array(3), "yes": np.array(True), **constants}
    return model([node("Loop", "n yes x", "y", body=body)], [info("x", shape)], [info("y", shape)], given)


def _growing() -> ModelProto:
    """A loop whose state is longer after every turn: its shape in the body is that of no single turn."""
    body = graph(
        [
            node("Shape", "s", "h"),
            node("Concat", "s s", "t", axis=0),
            node("Reshape", "t m", "u"),
            node("Identity", "go", "on"),
        ],
        [info("i", [], I64), info("go", [], B), info("s", [None, 3])],
        [info("on", [], B), info("t", [None, 3]), info("h", [2], I64)],
    )
    given = {"n": np.array(3), "yes": np.array(True), "m": np.array([-1, 3])}
    return model(
        [node("Loop", "n yes x", "y shapes", body=body)],
        [info("x", [2, 3])],
        [info("y", [None, 3]), info("shapes", [3, 2], I64)],
        given,
    )
