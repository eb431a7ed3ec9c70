"""Run a pair of ncnn files by ncnn, one sample of a batch after another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import ncnn
import numpy as np

from graphport.runtimes.serve import Port, RefusedError, Settings, serve

if TYPE_CHECKING:
    from collections.abc import Sequence

_runtime: Any = ncnn  # it has no types
_NARROW = ("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage")
"""Options by which ncnn computes in 16 bits by default."""
_SHORTCUTS = ("use_winograd_convolution",)
"""Options by which it uses formulas that round more."""


class _Net:
    """A `.param` and `.bin` file loaded into ncnn."""

    def __init__(self, path: str, settings: Settings) -> None:
        self._net = _runtime.Net()
        self._net.opt.num_threads = settings.threads or 1
        self._net.opt.lightmode = False
        for option in (*_NARROW, *_SHORTCUTS) if settings.is_strict else ():
            setattr(self._net.opt, option, False)
        text, weights = _pair(path)
        load = self._net.load_param_bin if text.endswith(".param.bin") else self._net.load_param
        if load(text) or self._net.load_model(weights):
            message = "ncnn cannot load the model: a layer type is unknown to it, or a weight is missing"
            raise RefusedError(message)
        inputs, outputs = list(self._net.input_names()), list(self._net.output_names())
        # An input that no layer reads counts among the outputs.
        made = [name for name in outputs if name not in inputs] or outputs
        self.inputs = [Port(name) for name in inputs]
        self._whole = _unbatched_inputs(text)
        self.outputs = [Port(name) for name in made]

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        whole = [port.name in self._whole for port in self.inputs]
        batched = [value for value, is_whole in zip(inputs, whole, strict=True) if value.ndim and not is_whole]
        count = max(map(len, batched), default=1)
        if any(len(value) != count for value in batched):
            message = "the inputs have different batch sizes"
            raise RefusedError(message)
        rows = [
            self._run_sample(
                [v if is_whole or not v.ndim else v[item] for v, is_whole in zip(inputs, whole, strict=True)]
            )
            for item in range(count)
        ]
        if any(len({row[index].shape for row in rows}) > 1 for index in range(len(self.outputs))):
            message = "the samples of the batch have results of different shapes"
            raise RefusedError(message)
        if len(rows) == 1:
            return [blob[None] for blob in rows[0]], states
        return [np.stack([row[index] for row in rows]) for index in range(len(self.outputs))], states

    def _run_sample(self, inputs: Sequence[Any]) -> list[Any]:
        extractor = self._net.create_extractor()
        kept: list[Any] = []
        for port, value in zip(self.inputs, inputs, strict=True):
            blob = np.ascontiguousarray(value, np.int32 if value.dtype.kind in "iub" else np.float32)
            kept.append(blob.reshape(value.shape or (1,)))
            # A blob of an array lacks the channel padding that layers expect; its copy has it.
            extractor.input(port.name, _runtime.Mat(kept[-1]).clone())
        found: list[Any] = []
        for port in self.outputs:
            failed, blob = extractor.extract(port.name)
            if failed:
                message = f"ncnn does not compute {port.name}"
                raise RefusedError(message)
            found.append(np.array(blob))
        return found


def _unbatched_inputs(path: str) -> set[str]:
    """Return the inputs whose first axis is no batch: their layers have `13=`, which ncnn ignores."""
    if path.endswith(".param.bin"):
        return set()
    rows = [line.split() for line in Path(path).read_text("utf-8", "replace").splitlines()]
    return {
        row[4] for row in rows if row[:1] == ["Input"] and any(w.startswith("13=") and w != "13=0" for w in row[5:])
    }


def _pair(path: str) -> tuple[str, str]:
    """Return the paths of the `.param` and the `.bin` file of a model."""
    if path.endswith(".param.bin"):
        return path, path.removesuffix(".param.bin") + ".bin"
    if path.endswith(".param"):
        return path, path.removesuffix(".param") + ".bin"
    return path, path + ".bin"


if __name__ == "__main__":
    serve(str(getattr(_runtime, "__version__", "")), _Net)
