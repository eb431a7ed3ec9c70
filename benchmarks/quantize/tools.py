"""Run one quantization by one tool in a separate process, and print its cost as a line of JSON.

python tools.py TOOL CONFIGURATION MODEL CALIBRATION.npz RESULT.onnx
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 16


def graphport(model: Path, data: dict[str, Any], target: Path, settings: str) -> Callable[[], None]:
    """Quantize with graphport; `settings` is JSON."""
    import graphport as gp

    loaded = gp.load(model)

    def work() -> None:
        gp.save(gp.quantize(loaded, data, threads=1, **json.loads(settings)), target)

    return work


def onnxruntime(model: Path, data: dict[str, Any], target: Path, method: str) -> Callable[[], None]:
    """Run ONNX Runtime's static quantization after its preprocessing, with signed per-channel weights."""
    from onnxruntime.quantization import (  # pyright: ignore[reportMissingTypeStubs]
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quant_pre_process,
        quantize_static,
    )

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self.items = _batches(data)

        def get_next(self) -> Any:
            return next(self.items, None)

    def work() -> None:
        prepared = target.with_suffix(".prepared.onnx")
        try:
            quant_pre_process(str(model), str(prepared))
        except Exception:  # noqa: BLE001  symbolic shape inference fails on some models and is optional
            quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
        quantize_static(
            str(prepared),
            str(target),
            Reader(),
            quant_format=QuantFormat.QDQ,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
            per_channel=True,
            # Without VNNI, sums of two products overflow int16 at 8-bit weights.
            reduce_range=method.endswith("-reduced"),
            calibrate_method=CalibrationMethod[method.removesuffix("-reduced")],
        )

    return work


def nncf(model: Path, data: dict[str, Any], target: Path, estimator: str) -> Callable[[], None]:
    """Run NNCF on an ONNX model, with a range estimator."""
    import nncf as tool  # pyright: ignore[reportMissingImports]
    import onnx
    from nncf.quantization.range_estimator import (  # pyright: ignore[reportMissingImports]
        RangeEstimatorParametersSet,
    )

    loaded = onnx.load(str(model))
    ranges = {"default": None, "minmax": RangeEstimatorParametersSet.MINMAX}[estimator]

    def work() -> None:
        advanced = None
        if ranges is not None:
            advanced = tool.AdvancedQuantizationParameters(
                activations_range_estimator_params=ranges, disable_bias_correction=True
            )
        items = list(_batches(data))
        made = tool.quantize(
            loaded, tool.Dataset(items), subset_size=len(items), advanced_parameters=advanced,
            preset=tool.QuantizationPreset.MIXED,
        )  # fmt: skip
        onnx.save(made, str(target))

    return work


def onnxsim(model: Path, data: dict[str, Any], target: Path, method: str) -> Callable[[], None]:
    """Run onnxsim's static quantization, which quantizes only the inputs of layers."""
    import onnx
    import onnxsim as tool  # pyright: ignore[reportMissingImports]

    loaded = onnx.load(str(model))

    def work() -> None:
        simple, _ = tool.simplify(loaded)
        made = tool.quantize_static(simple, calibration_data=list(_batches(data)), method=method)
        onnx.save(made[0] if isinstance(made, tuple) else made, str(target))

    return work


def quark(model: Path, data: dict[str, Any], target: Path, configuration: str) -> Callable[[], None]:
    """Run AMD Quark with one of its named configurations."""
    from quark.onnx import ModelQuantizer  # pyright: ignore[reportMissingImports]
    from quark.onnx.quantization.config import Config, get_default_config  # pyright: ignore[reportMissingImports]

    class Reader:
        def __init__(self) -> None:
            self.rewind()

        def rewind(self) -> None:
            self.items = _batches(data)

        reset_iter = rewind

        def get_next(self) -> Any:
            return next(self.items, None)

    def work() -> None:
        stated = Config(global_quant_config=get_default_config(configuration))
        ModelQuantizer(stated).quantize_model(str(model), str(target), Reader())

    return work


TOOLS = {"graphport": graphport, "onnxruntime": onnxruntime, "nncf": nncf, "onnxsim": onnxsim, "quark": quark}


def _batches(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    count = len(next(iter(data.values())))
    for start in range(0, count, BATCH):
        yield {name: x[start : start + BATCH] for name, x in data.items()}


def main() -> None:
    """Quantize and print the cost; imports and reading the model are not counted."""
    tool, configuration, model, calibration, target = sys.argv[1:6]
    logging.disable(logging.WARNING)
    with np.load(calibration) as arrays:
        data = {name: arrays[name] for name in arrays.files}
    work = TOOLS[tool](Path(model), data, Path(target), configuration)
    before = peak()
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    took = {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "peak_mb": peak(),
        "before_mb": before,
    }
    sys.stdout.write(f"{json.dumps(took)}\n")


def peak() -> float:
    """Return the peak memory of the process in megabytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss starts with the peak of the parent process, which holds every net.
        lines = status.read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
