"""Runtimes of formats: who computes a file as it lies on disk. A format that gets one is given a row here.

Each runs in a process of its own, which `serve` is: a fault of its own then ends nobody else.
"""

from __future__ import annotations

from typing import NamedTuple

from graphport.core.packages import is_there


class Runtime(NamedTuple):
    """The runtime of a format."""

    name: str
    title: str
    package: str
    module: str
    """What its process runs: it calls `serve`."""
    has_exact_types: bool = True
    """Whether results have the element types of the model; else they are of the same kind, or single precision."""
    has_batches: bool = True
    """Whether it knows the first axis; else shapes are compared by their number of entries."""
    takes_all: bool = True
    """Whether it takes whatever the format can say, but for operators that it says it lacks."""
    keeps_states: bool = False
    """Whether what a model keeps from run to run is kept inside, and can be set and read."""
    takes_more: bool = False
    """Whether an input that has numbers in the file may be given others."""
    rounds_to_steps: bool = False
    """Whether it rounds quantized numbers to a neighbour of what others round them to, here and there."""
    sums_otherwise: bool = False
    """Whether it adds real sums in another order, so that what lies in the middle of two steps is rounded to either."""
    switched_off: tuple[str, ...] = ()
    """What it does by default and not for a proof, since it computes other numbers than the file says."""

    @property
    def is_installed(self) -> bool:
        """Whether its package is there."""
        return is_there(self.package)


RUNTIMES: dict[str, Runtime] = {
    "onnx": Runtime(
        "onnxruntime",
        "ONNX Runtime",
        "onnxruntime",
        "graphport.proof.runtimes.onnxruntime",
        takes_more=True,
        switched_off=("graph optimizations", "products with compressed weights in eight bits"),
    ),
    "openvino": Runtime(
        "openvino",
        "OpenVINO",
        "openvino",
        "graphport.proof.runtimes.openvino",
        has_exact_types=False,
        keeps_states=True,
        sums_otherwise=True,
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
        "graphport.proof.runtimes.ncnn",
        has_exact_types=False,
        has_batches=False,
        switched_off=("float16 and bfloat16 in place of float32", "convolutions by Winograd's formulas"),
    ),
    "tflite": Runtime(
        "litert",
        "LiteRT",
        "ai_edge_litert",
        "graphport.proof.runtimes.litert",
        rounds_to_steps=True,
        switched_off=("the delegate XNNPACK",),
    ),
    "nnef": Runtime(
        "tract",
        "tract",
        "tract",
        "graphport.proof.runtimes.tract",
        has_exact_types=False,
        takes_all=False,
    ),
}
"""By the format whose files it runs."""
