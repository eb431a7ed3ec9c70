"""Native runtimes of formats: a table row with the differences of each runtime, and the module of its process.

A format that gets a runtime needs a row here and a module with a class that loads a file and runs it. A runtime that is
a large package (`torch`) may be installed in another Python: `GRAPHPORT_PYTHON_TORCH=/path/to/python` names it.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.packages import is_there

if TYPE_CHECKING:
    from collections.abc import Mapping


class Runtime(NamedTuple):
    """The runtime of a format."""

    name: str
    title: str
    package: str
    module: str
    """The module of its process, which calls `serve`."""
    has_exact_types: bool = True
    """Whether results have the element types of the model; else they are of the same kind, or float32."""
    has_batches: bool = True
    """Whether it knows the first axis; else shapes are compared by their number of elements."""
    takes_all: bool = True
    """Whether it accepts every file of the format, except for operators that it reports as lacking."""
    is_only_reader: bool = False
    """Whether files of the format are written for this runtime, so that one that it rejects is of no use."""
    reads_flavour: bool = False
    """Whether that holds for files in its own flavour of the format alone: those without a standard's `edition`."""
    keeps_states: bool = False
    """Whether states between runs are kept inside, and can be set and read."""
    takes_more: bool = False
    """Whether an input with a default value in the file may be given another one."""
    rounds_to_steps: bool = False
    """Whether it sometimes rounds quantized values to a neighbour of the correct integer."""
    sums_otherwise: bool = False
    """Whether it adds floats in another order, so that values halfway between two integers round either way."""
    merges_quantized: bool = False
    """Whether its default configuration merges quantized layers with others, and so rounds elsewhere than the file."""
    default_snr: float | None = None
    """Decibels that its default configuration keeps; `None` if it has one configuration, which is exact."""
    switched_off: tuple[str, ...] = ()
    """What the default configuration does and the strict one does not, since it changes the numbers."""

    @property
    def interpreter(self) -> str | None:
        """The Python executable with the runtime, if the environment specifies one; `None` for the present one."""
        return os.environ.get(f"GRAPHPORT_PYTHON_{self.package.upper()}")

    @property
    def is_installed(self) -> bool:
        """Whether the runtime's package is installed."""
        other = self.interpreter
        return is_there(self.package) if other is None else _has_package(other, self.package)

    @property
    def has_strict(self) -> bool:
        """Whether the runtime has a strict configuration in addition to the default one."""
        return self.default_snr is not None

    def is_decisive_reader(self, versions: Mapping[str, str]) -> bool:
        """Whether a file of one of the versions is useless if this runtime rejects it."""
        return self.is_only_reader or (self.reads_flavour and "edition" not in versions)


@cache
def _has_package(interpreter: str, package: str) -> bool:
    program = f"from importlib.util import find_spec; raise SystemExit(find_spec({package!r}) is None)"
    try:
        return subprocess.run([interpreter, "-c", program], check=False, capture_output=True).returncode == 0  # noqa: S603
    except OSError:
        return False


RUNTIMES: dict[str, Runtime] = {
    "onnx": Runtime(
        "onnxruntime",
        "ONNX Runtime",
        "onnxruntime",
        "graphport.formats.onnx.runtime_process",
        takes_more=True,
        default_snr=60.0,
        switched_off=("graph optimizations", "products with compressed weights in eight bits"),
    ),
    "openvino": Runtime(
        "openvino",
        "OpenVINO",
        "openvino",
        "graphport.formats.openvino.runtime_process",
        has_exact_types=False,
        keeps_states=True,
        sums_otherwise=True,
        merges_quantized=True,
        default_snr=20.0,  # bfloat16 where the processor has it, 8-bit activations for compressed weights
        switched_off=(
            "bfloat16 in place of float32",
            "dynamic quantization of activations",
            "quantized caches of attention",
            "low-precision transformations",
        ),
    ),
    "ncnn": Runtime(
        "ncnn",
        "ncnn",
        "ncnn",
        "graphport.formats.ncnn.runtime_process",
        has_exact_types=False,
        has_batches=False,
        is_only_reader=True,
        default_snr=30.0,  # float16 storage and Winograd's formulas
        switched_off=("float16 and bfloat16 in place of float32", "convolutions by Winograd's formulas"),
    ),
    "tflite": Runtime(
        "litert",
        "LiteRT",
        "ai_edge_litert",
        "graphport.formats.tflite.runtime_process",
        rounds_to_steps=True,
        is_only_reader=True,
        default_snr=60.0,
        switched_off=("the delegate XNNPACK",),
    ),
    "nnef": Runtime(
        "tract",
        "tract",
        "tract",
        "graphport.formats.nnef.runtime_process",
        has_exact_types=False,
        takes_all=False,
        reads_flavour=True,
    ),
    "pt2": Runtime("torch", "PyTorch", "torch", "graphport.formats.pytorch.runtime_process"),
    "torchscript": Runtime("torch", "PyTorch", "torch", "graphport.formats.pytorch.torchscript.runtime_process"),
    "tensorflow": Runtime(
        "tensorflow", "TensorFlow", "tensorflow", "graphport.formats.tensorflow.runtime_process", takes_all=False
    ),
    "keras": Runtime("keras", "Keras", "keras", "graphport.formats.keras.runtime_process", takes_all=False),
    "stablehlo": Runtime("jax", "JAX", "jax", "graphport.formats.stablehlo.runtime_process", takes_all=False),
}
"""By format."""
