"""Run the modules that `--code` writes with PyTorch: `python -m tests.conformance.pnnx.run_code FOLDER`, torch installed.

`tests.formats.pnnx.test_code_injection` wrote FOLDER (`GRAPHPORT_CODE=FOLDER pytest`). What agrees with the outputs in
`models.zip` goes into `code.json`, with a digest of its text; `make test` holds the text against that.
"""

# ruff: noqa: T201
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from tests.formats.pnnx.samples import digest, draw

HERE = Path(__file__).parent


def tensors(results):
    """The tensors among results, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    if isinstance(results, bool | int | float):
        return [torch.tensor(results)]
    return [each for item in results for each in tensors(item)]


def run(path, inputs):
    """The results of a generated module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with torch.no_grad():
        found = module.Model().eval()(*(torch.from_numpy(np.ascontiguousarray(draw(each))) for each in inputs))
    return [each.resolve_conj().resolve_neg().numpy() for each in tensors(found)]


def compare(found, outputs):
    """Fail where a result is not what PyTorch computed of the traced model."""
    for result, expected in zip(found, outputs, strict=True):
        assert (result.dtype.name, list(result.shape)) == (expected["dtype"], expected["shape"])
        values = np.frombuffer(bytes.fromhex(expected["values"]), result.dtype)
        largest = np.abs(values[np.isfinite(values)]).max(initial=1.0)
        np.testing.assert_allclose(result.reshape(-1)[:: expected["every"]], values, rtol=1e-4, atol=1e-4 * largest)


if __name__ == "__main__":
    with zipfile.ZipFile(HERE / "models.zip") as archive:
        models = json.loads(archive.read("models.json"))
    digests = {}
    for path in sorted(Path(sys.argv[1]).glob("*_pnnx.py")):
        name = path.name.removesuffix("_pnnx.py")
        compare(run(path, models[name]["inputs"]), models[name]["outputs"])
        digests[name] = digest(path.read_text())
    (HERE / "code.json").write_text(json.dumps(digests, indent=1) + "\n")
    print(f"{len(digests)} modules agree with torch {torch.__version__}")
