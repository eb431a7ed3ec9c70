"""Writes NAME.tract.nnef.tgz and NAME.khronos.nnef.tgz with torch_to_nnef, and NAME.npz with inputs x*, torch's outputs y* (other size: ox*, oy*).

python export.py OUT [NAME ...]   needs torch, torch_to_nnef 0.24.12 (no tract binary, no network)
"""

import gzip
import io
import json
import logging
import os
import re
import sys
import tarfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import numpy as np
import torch

import torch_to_nnef.inference_target.tract as target
from nets import NETS, make

torch.set_num_threads(1)


class Cli:
    tract_path = Path("none")

    def __init__(self, version):
        self.version = version


target.TractCli.download = classmethod(lambda cls, version: Cli(version))
from torch_to_nnef import export_model_to_nnef
from torch_to_nnef.compress import quantize_weights_min_max_Q4_0
from torch_to_nnef.inference_target import KhronosNNEF, TractNNEF


def plain(y):
    return [t.detach().numpy() for t in (y if isinstance(y, (tuple, list)) else (y,))]


def tidy(path):
    """The same files, no times, no owners, no machine: what is kept must not name who made it."""
    with tarfile.open(path) as t:
        files = {m.name: t.extractfile(m).read() for m in t.getmembers() if m.isfile()}
    text = files["graph.nnef"].decode()
    lines = [
        l
        for l in text.split("\n")
        if not any(f'("{k}"' in l for k in ("export_date", "export_cmd", "os", "hostname", "user", "py_version"))
    ]
    files["graph.nnef"] = re.sub(r"\),\n  \];", ")\n  ];", "\n".join(lines)).encode()
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as t:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            t.addfile(info, io.BytesIO(files[name]))
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", mtime=0, filename="") as g:
        g.write(raw.getvalue())


def main(out, names):
    os.makedirs(out, exist_ok=True)
    log = {}
    for name in names or NETS:
        options = NETS[name][3]
        record = log[name] = {"group": NETS[name][0]}
        try:
            module, xs, other = make(name)
            if options.get("q40"):
                module = quantize_weights_min_max_Q4_0(module)
            with torch.no_grad():
                data = {f"y{i}": y for i, y in enumerate(plain(module(*xs)))}
                outputs = len(data)
                data |= {f"x{i}": x.numpy() for i, x in enumerate(xs)}
                if other:
                    data |= {f"oy{i}": y for i, y in enumerate(plain(module(*other)))} | {
                        f"ox{i}": x.numpy() for i, x in enumerate(other)
                    }
        except Exception as e:
            record["torch"] = f"{type(e).__name__}: {e}"[:200]
            print(name, "TORCH", record["torch"], flush=True)
            continue
        np.savez_compressed(f"{out}/{name}.npz", **data)
        for kind in ("tract", "khronos"):
            if kind == "khronos" and (options.get("dynamic") or options.get("q40")):
                continue
            path = Path(f"{out}/{name}.{kind}.nnef.tgz")
            try:
                if kind == "tract":
                    inference = TractNNEF(
                        TractNNEF.OFFICIAL_SUPPORTED_VERSIONS[0],
                        check_io=False,
                        dynamic_axes=options.get("dynamic"),
                        dump_identity_properties=False,
                    )
                else:
                    inference = KhronosNNEF.latest()
                    inference.check_io = False
                export_model_to_nnef(
                    model=module,
                    args=tuple(xs),
                    file_path_export=path,
                    inference_target=inference,
                    log_level=logging.CRITICAL,
                    input_names=[f"x{i}" for i in range(len(xs))],
                    output_names=[f"y{i}" for i in range(outputs)],
                )
                tidy(path)
                record[kind] = "ok"
            except BaseException as e:
                if path.exists():
                    path.unlink()
                record[kind] = f"{type(e).__name__}: {e}".replace("\n", " ")[:200]
            print(name, kind, record[kind], flush=True)
    old = json.load(open(f"{out}/export.json")) if os.path.exists(f"{out}/export.json") else {}
    json.dump(old | log, open(f"{out}/export.json", "w"), indent=1)


if __name__ == "__main__":
    sys.argv, arguments = ["export"], sys.argv[1:]
    main(arguments[0], arguments[1:])
