"""Constants, copies, dead code."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.passes.cases import B, Case, F, info, model, node, some


def constants() -> Iterator[Case]:
    x, y = info("x", [2, 3]), info("y", [2, 3])
    tensor = numpy_helper.from_array(some(2, 3), "t")
    forms = {
        "value": {"value": tensor},
        "float": {"value_float": 1.5},
        "floats": {"value_floats": [1.0, 2.0, 3.0]},
    }
    for what, attributes in forms.items():
        yield Case(
            f"constant_{what}",
            model([node("Constant", "", "k", **attributes), node("Add", "x k", "y")], [x], [y]),
            ("no:Constant", "nodes:1"),
        )
    ints = model([node("Constant", "", "s", value_ints=[3, 2]), node("Reshape", "x s", "y")], [x], [info("y", [3, 2])])
    yield Case("constant_ints", ints, ("no:Constant",))
    yield Case(
        "constant_int",
        model([node("Constant", "", "s", value_int=1), node("Gather", "x s", "y")], [x], [info("y", [3])]),
        ("no:Constant",),
    )
    k = node("Constant", "", "k", value=tensor)
    yield Case("constant_is_output", model([node("Relu", "x", "y"), k], [x], [y, info("k", [2, 3])]), ("no:Constant",))
    yield Case("constant_is_output_and_used", model([k, node("Add", "x k", "y")], [x], [y, info("k", [2, 3])]))
    yield Case(
        "constant_is_output_twice",
        model([k, node("Identity", "k", "l"), node("Add", "x k", "y")], [x], [y, info("k", [2, 3]), info("l", [2, 3])]),
    )
    yield Case(
        "initializer_is_output", model([node("Add", "x k", "y")], [x], [y, info("k", [2, 3])], {"k": some(2, 3)})
    )
    yield Case("constant_unused", model([k, node("Relu", "x", "y")], [x], [y]), ("nodes:1",))
    yield Case(
        "constant_chain",
        model(
            [
                k,
                node("Neg", "k", "n"),
                node("Transpose", "n", "t2", perm=[1, 0]),
                node("Transpose", "t2", "u", perm=[1, 0]),
                node("Add", "x u", "y"),
            ],
            [x],
            [y],
        ),
        ("nodes:1",),
    )
    yield Case(
        "constant_folded_is_output",
        model([node("Neg", "k", "y2"), node("Add", "x y2", "y")], [x], [y, info("y2", [2, 3])], {"k": some(2, 3)}),
    )
    yield Case("all_constant", model([node("Neg", "k", "y")], [], [y], {"k": some(2, 3)}))
    yield Case(
        "strings",
        model(
            [node("Constant", "", "s", value_strings=[b"a", b"b"]), node("Identity", "s", "y")],
            [],
            [info("y", [2], TensorProto.STRING)],
        ),
    )
    large = model(
        [node("ConstantOfShape", "s", "k"), node("Add", "x k", "y")],
        [info("x", [1])],
        [info("y", [1000, 1000])],
        {"s": np.array([1000, 1000])},
    )
    yield Case("large_constant_of_shape", large, ("count:ConstantOfShape=1",))
    shared = {"c": some(3)}
    yield Case(
        "shared_initializer",
        model([node("Add", "x c", "a"), node("Mul", "a c", "b"), node("Sub", "b c", "y")], [x], [y], shared),
        ("unshared",),
    )
    yield Case(
        "initializer_twice_in_node",
        model([node("Add", "x x", "a"), node("Clip", "a c c", "y")], [x], [y], {"c": np.float32(0.5)}),
        ("unshared",),
    )
    yield Case(
        "shared_is_output",
        model([node("Add", "x c", "a"), node("Mul", "a c", "y")], [x], [y, info("c", [3])], shared),
        ("unshared",),
    )
    yield Case(
        "shared_axes",
        model(
            [node("Unsqueeze", "x a", "u"), node("Squeeze", "u a", "v"), node("Unsqueeze", "v a", "y")],
            [x],
            [info("y", [1, 2, 3])],
            {"a": np.array([0])},
        ),
        ("unshared",),
    )
    yield Case(
        "shared_slope",
        model([node("PRelu", "x s", "a"), node("PRelu", "a s", "y")], [x], [y], {"s": some(3)}),
        ("unshared",),
    )
    names = {"PPQ_Variable_0": some(3), "generated_name_0": some(3)}
    yield Case(
        "names_of_others",
        model(
            [
                node("Add", "x PPQ_Variable_0", "a", name="generated_name_0"),
                node("Mul", "a PPQ_Variable_0", "b"),
                node("Add", "b generated_name_0", "y"),
            ],
            [x],
            [y],
            names,
        ),
        ("unshared",),
    )


def copies() -> Iterator[Case]:
    x, y = info("x", [2, 3]), info("y", [2, 3])
    i = node("Identity", "x", "h")
    yield Case("identity_first", model([i, node("Relu", "h", "y")], [x], [y]), ("no:Identity",))
    yield Case("identity_last", model([node("Relu", "x", "h"), node("Identity", "h", "y")], [x], [y]), ("no:Identity",))
    yield Case(
        "identity_between_input_and_output", model([node("Identity", "x", "y")], [x], [y]), ("count:Identity=1",)
    )
    yield Case(
        "identity_chain_between_input_and_output",
        model([i, node("Identity", "h", "y")], [x], [y]),
        ("count:Identity=1",),
    )
    yield Case(
        "identity_two_outputs",
        model(
            [node("Relu", "x", "h"), node("Identity", "h", "y"), node("Identity", "h", "z")],
            [x],
            [y, info("z", [2, 3])],
        ),
        ("nodes:2",),
    )
    yield Case(
        "identity_output_is_used",
        model([node("Relu", "x", "h"), node("Identity", "h", "y"), node("Neg", "h", "z")], [x], [y, info("z", [2, 3])]),
        ("no:Identity",),
    )
    yield Case(
        "identity_both_outputs",
        model([node("Relu", "x", "h"), node("Identity", "h", "y")], [x], [y, info("h", [2, 3])]),
    )
    yield Case(
        "identity_of_initializer",
        model([node("Identity", "c", "h"), node("Add", "x h", "y")], [x], [y], {"c": some(3)}),
        ("no:Identity",),
    )
    yield Case(
        "identity_of_shared_initializer",
        model([node("Identity", "c", "h"), node("Add", "x h", "a"), node("Add", "a c", "y")], [x], [y], {"c": some(3)}),
        ("no:Identity", "unshared"),
    )
    yield Case("input_is_output", model([node("Relu", "x", "y")], [x], [y, x]))
    yield Case("input_unused", model([node("Relu", "x", "y")], [x, info("z", ["N", 4])], [y]))
    yield Case("output_twice", model([node("Relu", "x", "y"), node("Identity", "y", "z")], [x], [y, info("z", [2, 3])]))
    yield Case(
        "dead_chain",
        model([node("Relu", "x", "a"), node("Neg", "a", "b"), node("Neg", "b", "c"), node("Relu", "x", "y")], [x], [y]),
        ("nodes:1",),
    )
    yield Case(
        "dead_part_of_split",
        model(
            [node("Split", "x", "a b c", axis=1), node("Relu", "a", "d"), node("Neg", "b", "y")],
            [x],
            [info("y", [2, 1])],
            opset=11,
        ),
        ("nodes:2",),
    )
    for opset in (7, 10, 12, 13):
        yield Case(
            f"dropout_{opset}",
            model([node("Dropout", "x", "h"), node("Relu", "h", "y")], [x], [y], opset=opset),
            ("no:Dropout", "nodes:1"),
        )
    yield Case(
        "dropout_last", model([node("Relu", "x", "h"), node("Dropout", "h", "y")], [x], [y], opset=13), ("no:Dropout",)
    )
    yield Case("dropout_alone", model([node("Dropout", "x", "y")], [x], [y], opset=13), ("no:Dropout",))
    yield Case(
        "dropout_ratio_off",
        model(
            [node("Dropout", "x r t", "h"), node("Relu", "h", "y")],
            [x],
            [y],
            {"r": np.float32(0.5), "t": np.array(False)},
            opset=13,
        ),
        ("no:Dropout",),
    )
    yield Case(
        "dropout_training_ratio_0",
        model(
            [node("Dropout", "x r t", "h"), node("Relu", "h", "y")],
            [x],
            [y],
            {"r": np.float32(0), "t": np.array(True)},
            opset=13,
        ),
        ("no:Dropout",),
    )
    yield Case(
        "dropout_mask",
        model(
            [node("Dropout", "x", "h k"), node("Cast", "k", "z", to=F), node("Relu", "h", "y")],
            [x],
            [y, info("z", [2, 3])],
            opset=13,
        ),
        ("no:Dropout",),
    )
    yield Case(
        "dropout_mask_is_output",
        model([node("Dropout", "x", "y k")], [x], [y, info("k", [2, 3], B)], opset=13),
        ("no:Dropout",),
    )
    yield Case("cast_same", model([node("Cast", "x", "h", to=F), node("Relu", "h", "y")], [x], [y]), ("no:Cast",))
    yield Case(
        "transpose_same",
        model([node("Transpose", "x", "h", perm=[0, 1]), node("Relu", "h", "y")], [x], [y]),
        ("no:Transpose",),
    )
    yield Case(
        "reshape_same",
        model(
            [node("Reshape", "x s", "h"), node("Relu", "h", "y")],
            [info("x", ["N", 3])],
            [info("y", ["N", 3])],
            {"s": np.array([-1, 3])},
        ),
        ("no:Reshape",),
    )
    yield Case(
        "pad_0",
        model([node("Pad", "x p", "h"), node("Relu", "h", "y")], [x], [y], {"p": np.zeros(4, np.int64)}),
        ("no:Pad",),
    )
    yield Case(
        "slice_all",
        model(
            [node("Slice", "x s e", "h"), node("Relu", "h", "y")],
            [x],
            [y],
            {"s": np.zeros(2, np.int64), "e": np.array([2, 1 << 60])},
        ),
        ("no:Slice",),
    )
    yield Case(
        "concat_one", model([node("Concat", "x", "h", axis=0), node("Relu", "h", "y")], [x], [y]), ("no:Concat",)
    )
    yield Case(
        "expand_same",
        model([node("Expand", "x s", "h"), node("Relu", "h", "y")], [x], [y], {"s": np.array([1, 3])}),
        ("no:Expand",),
    )
