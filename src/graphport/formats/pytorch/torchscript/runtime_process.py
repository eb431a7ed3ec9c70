"""Run a TorchScript file with PyTorch in a proof process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.formats.pytorch.runtime_process import message_of, runtime, to_array, to_tensor
from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence


class _Module:
    """A loaded module; only modules whose arguments are all tensors are supported."""

    def __init__(self, path: str, settings: Settings) -> None:
        if settings.threads:
            runtime.set_num_threads(settings.threads)
        try:
            self._module = runtime.jit.load(path, map_location="cpu").eval()
            arguments = self._module.forward.schema.arguments[1:]
        except Exception as error:
            raise RefusedError(message_of(error)) from error
        given = [argument for argument in arguments if str(argument.type) == "Tensor"]
        if len(given) < len([argument for argument in arguments if not argument.has_default_value()]):
            reason = "forward takes arguments that are no tensors"
            raise RefusedError(reason)
        self.inputs = [Port(str(argument.name)) for argument in given]
        self.outputs = [Port(name) for name in _outputs(self._module.forward.schema.returns[0].type)]
        self._path = path

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        try:
            # Each run starts with the attributes of the file.
            module = runtime.jit.load(self._path, map_location="cpu").eval()
            with runtime.no_grad():
                names = [port.name for port in self.inputs]
                answer = module(**dict(zip(names, map(to_tensor, inputs), strict=True)))
            return [to_array(value) for value in _leaves(answer)], states
        except Exception as error:
            raise RefusedError(message_of(error)) from error


def _outputs(kind: Any, name: str = "output") -> list[str]:
    """Return the names of the tensors and scalars in a result of this type."""
    match str(kind.kind()):
        case "TupleType":
            return [leaf for i, each in enumerate(kind.elements()) for leaf in _outputs(each, f"{name}.{i}")]
        case "TensorType" | "IntType" | "FloatType" | "BoolType":
            return [name]
        case other:
            reason = f"forward returns a {other}, whose tensors are not counted before a run"
            raise RefusedError(reason)


def _leaves(answer: Any) -> list[Any]:
    """Return the tensors and scalars of a nested result in order."""
    if isinstance(answer, dict):
        return [leaf for value in cast("dict[Any, Any]", answer).values() for leaf in _leaves(value)]
    if isinstance(answer, list | tuple):
        return [leaf for value in cast("Sequence[Any]", answer) for leaf in _leaves(value)]
    return [] if answer is None or isinstance(answer, str) else [answer]


if __name__ == "__main__":
    serve(runtime.__version__, _Module)
