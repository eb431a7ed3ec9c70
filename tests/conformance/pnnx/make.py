"""Export every module with pnnx and store PyTorch's results: `python -m tests.conformance.pnnx.make FOLDER`."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pnnx
import torch

from tests.formats.pnnx.samples import draw

ARCHIVE = Path(__file__).parent / "models.zip"
KINDS = {torch.float32: "normal", torch.int64: "integers", torch.bool: "bool"}
NAMES = {torch.float32: "f32", torch.int64: "i64", torch.bool: "bool"}
KEPT = 24
SAYS_SOMETHING_ELSE = ("div_floor", "div_trunc", "opt0_div_floor", "opt1_div_floor", "round_dec", "bigint", "half_cast")
"""What pnnx writes otherwise than it was traced; nobody can read it right."""


def export(module, inputs, options, folder):
    """Trace a module and let pnnx write it; whether it did."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        torch.jit.trace(module, inputs, check_trace=False, strict=False).save(str(folder / "m.pt"))
    except RuntimeError:
        return False  # PyTorch itself cannot
    shapes = [f"{list(x.shape)}{NAMES[x.dtype]}".replace(" ", "") for x in inputs]
    words = [pnnx.EXEC_PATH, "m.pt", f"inputshape={','.join(shapes)}", "fp16=0"]
    if "second" in options:
        others = [f"{list(s)}{NAMES[x.dtype]}".replace(" ", "") for s, x in zip(options["second"], inputs, strict=True)]
        words.append(f"inputshape2={','.join(others)}")
    if "optlevel" in options:
        words.append(f"optlevel={options['optlevel']}")
    subprocess.run(words, cwd=folder, capture_output=True, timeout=120, check=False)
    return (folder / "m.pnnx.param").exists()


def leaves(results):
    """The tensors among results, in order."""
    if isinstance(results, torch.Tensor):
        return [results]
    items = results.values() if isinstance(results, dict) else results
    return [leaf for item in items for leaf in leaves(item)]


def described(module, inputs, options, seed):
    """Return descriptions of the random inputs and of the outputs."""
    shapes = options.get("second", [list(x.shape) for x in inputs])
    specs = [
        {"kind": KINDS[x.dtype], "seed": seed + place, "shape": list(shape)}
        | ({"high": int(x.max()) + 1} if x.dtype == torch.int64 else {})
        for place, (x, shape) in enumerate(zip(inputs, shapes, strict=True))
    ]
    given = [torch.from_numpy(np.ascontiguousarray(draw(spec))) for spec in specs]
    found = [leaf.detach().resolve_conj().numpy() for leaf in leaves(module(*given))]
    outputs = [
        {
            "dtype": array.dtype.name,
            "shape": list(array.shape),
            "every": (every := max(1, array.size // KEPT)),
            "values": np.ascontiguousarray(array.reshape(-1)[::every]).tobytes().hex(),
        }
        for array in found
    ]
    return {"inputs": specs, "outputs": outputs}


def main(folder):
    from tests.conformance.pnnx.nets import cases

    models, places, data = {}, {}, b""
    for number, (name, (module, inputs, options)) in enumerate(cases.items()):
        if name in SAYS_SOMETHING_ELSE or any(x.dtype not in KINDS for x in inputs):
            continue
        with torch.no_grad():
            if not export(module, inputs, options, folder / name):
                continue
            found = described(module, inputs, options, 10 * number)
        models[name] = {"text": (folder / name / "m.pnnx.param").read_text(), **found}
        weights = (folder / name / "m.pnnx.bin").read_bytes()
        places[name] = [len(data), len(weights)]
        data += weights
    contents = {"models.json": json.dumps(models), "weights.json": json.dumps(places), "weights.bin": data}
    with zipfile.ZipFile(ARCHIVE, "w") as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_LZMA)


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
