"""Roles of a program's inputs and outputs: weights, user inputs, specialized constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.formats.pytorch.pt2.schema import fail, fields, list_of, name_of, text, union
from graphport.formats.pytorch.pt2.weights import CONSTANTS, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterator

_GRADIENTS = ("loss_output", "gradient_to_parameter", "gradient_to_user_input")
_MUTATIONS = {
    "buffer_mutation": "buffer_name",
    "user_input_mutation": "user_input_name",
    "parameter_mutation": "parameter_name",
}


class Weight(NamedTuple):
    """An input whose elements the file contains."""

    name: str
    full_name: str
    folder: str
    is_buffer: bool


class UserInput(NamedTuple):
    """An input of the model: a tensor, or a scalar that sizes depend on."""

    name: str
    is_scalar: bool


class Returned(NamedTuple):
    """An output: a result of the model, or the new value of a buffer."""

    argument: Any
    mutated: str | None
    kind: str
    output_index: int


def inputs(signature: dict[str, Any]) -> Iterator[Weight | UserInput | None]:
    """Return the role of each input of the graph, in order; `None` for specialized constants and effect tokens.

    Raises:
        SchemaError: an input is a custom object.
    """
    for index, spec in enumerate(list_of(signature.get("input_specs"), "input_specs")):
        kind, found = union(spec, f"input {index}")
        yield _input(kind, fields(found, f"input {index}"), index)


def _input(kind: str, spec: dict[str, Any], index: int) -> Weight | UserInput | None:
    what = f"input {index}"
    match kind:
        case "parameter":
            full = text(spec.get("parameter_name"), what)
            return Weight(name_of(spec.get("arg"), what), full, WEIGHTS, is_buffer=False)
        case "buffer":
            folder = WEIGHTS if spec.get("persistent", True) else CONSTANTS
            return Weight(name_of(spec.get("arg"), what), text(spec.get("buffer_name"), what), folder, is_buffer=True)
        case "tensor_constant":
            full = text(spec.get("tensor_constant_name"), what)
            return Weight(name_of(spec.get("arg"), what), full, CONSTANTS, is_buffer=False)
        case "user_input":
            return _parse_user_input(spec, what)
        case "constant_input" | "token":
            return None
        case "custom_obj":
            return fail(
                f"unsupported: {what} is a TorchBind object "
                f"({spec.get('custom_obj_name')}), which is stored as a pickle"
            )
        case _:
            return fail(f"unsupported: {what} is {kind}")


def _parse_user_input(spec: dict[str, Any], what: str) -> UserInput | None:
    kind, value = union(spec.get("arg"), what)
    if kind == "as_tensor":
        return UserInput(name_of(value, what), is_scalar=False)
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        inner, name = union(value, what)
        return UserInput(text(name, what), is_scalar=True) if inner == "as_name" else None
    if kind == "as_custom_obj":
        return fail(f"{what} is an object, not a tensor")
    return None


def outputs(signature: dict[str, Any]) -> Iterator[Returned]:
    """Return the role of each output of the graph, in order.

    Raises:
        SchemaError: the program returns gradients or custom objects.
    """
    for index, spec in enumerate(list_of(signature.get("output_specs"), "output_specs")):
        kind, found = union(spec, f"output {index}")
        what = fields(found, f"output {index}")
        if kind in _GRADIENTS:
            fail("the program computes gradients: export the module in eval mode, for inference")
        if kind in _MUTATIONS:
            yield Returned({"as_tensor": what.get("arg")}, text(what.get(_MUTATIONS[kind]), kind), kind, index)
        elif kind == "user_output":
            yield Returned(what.get("arg"), None, kind, index)
        elif kind != "token":
            fail(f"unsupported: output {index} is {kind}")
