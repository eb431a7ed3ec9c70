"""What the runtimes make of the exported files: adds t* (tract's outputs for x*), ot* (for ox*) to NAME.npz and writes runs.json.

python refer.py OUT [NAME ...]   needs tract 0.23.9, nnef 1.0.10, nnef_tools 1.0.11 (its torch interpreter)
"""

import json
import multiprocessing
import os
import sys
import tarfile
import tempfile

import numpy as np

REGISTRIES = ("with_tract_extra", "with_tract_transformers", "with_onnx", "with_pulse")


def short(e):
    return " | ".join(l.strip() for l in str(e).split("Stack backtrace")[0].splitlines() if l.strip())[-300:]


def by_tract(path, sets, registries=REGISTRIES):
    import tract

    framework = tract.nnef()
    for name in registries:
        getattr(framework, name)()
    try:
        model = framework.load(path)
        names = [model.input_name(i) for i in range(model.input_count())]
        runnable = model.into_runnable()
    except BaseException as e:
        return {"load": short(e)}
    result = []
    for inputs in sets:
        try:
            result.append(
                [
                    t.to_numpy()
                    for t in runnable.run(
                        [
                            inputs[int(n.lstrip("o").lstrip("x"))] if n.startswith("x") else inputs[i]
                            for i, n in enumerate(names)
                        ]
                    )
                ]
            )
        except BaseException as e:
            return {"run": short(e), "inputs": names}
    return {"outputs": result, "inputs": names}


def by_nnef(path, inputs):
    import nnef

    with tempfile.TemporaryDirectory() as d:
        with tarfile.open(path) as t:
            t.extractall(d, filter="data")
        try:
            graph = nnef.load_graph(d)
        except BaseException as e:
            return {"parse": short(e)}
        try:
            nnef.infer_shapes(graph)
        except BaseException as e:
            return {"shapes": short(e)}
        try:
            import torch
            from nnef_tools.interpreter.pytorch import NNEFModule

            with torch.no_grad():
                y = NNEFModule(d)(*[torch.from_numpy(x) for x in inputs])
            return {"outputs": [t.numpy() for t in (y if isinstance(y, (tuple, list)) else (y,))]}
        except BaseException as e:
            return {"run": f"{type(e).__name__} {short(e)}"}


def forked(f, *args, timeout=60):
    def go(q):
        sys.stderr = open(os.devnull, "w")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        q.put(f(*args))

    q = multiprocessing.get_context("fork").Queue()
    p = multiprocessing.get_context("fork").Process(target=go, args=(q,))
    p.start()
    waited = 0
    result = None
    while result is None and waited < timeout * 5:
        try:
            result = q.get(timeout=0.2)
        except Exception:
            waited += 1
            if not p.is_alive() and q.empty():
                break
    p.join(1)
    if p.is_alive():
        p.kill()
    return result if result is not None else {"crash": p.exitcode}


def differ(a, b):
    """Largest difference relative to max(1, |b|); text where the form differs."""
    if a.shape != b.shape:
        return f"shape {list(a.shape)} for {list(b.shape)}"
    if a.size == 0:
        return 0.0
    kinds = "" if a.dtype == b.dtype else f" dtype {a.dtype} for {b.dtype}"
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        d = np.where(same, 0, np.abs(a - b) / np.maximum(1, np.abs(b)))
    d = float(np.nan_to_num(d, nan=np.inf).max())
    return f"{d:.3g}{kinds}" if kinds else d


def main(out, names):
    import nnef, nnef_tools.interpreter.pytorch, torch  # once, before the forks

    torch.set_num_threads(1)
    log = json.load(open(f"{out}/export.json"))
    runs = json.load(open(f"{out}/runs.json")) if os.path.exists(f"{out}/runs.json") else {}
    for name in names or log:
        data = dict(np.load(f"{out}/{name}.npz"))
        data = {k: v for k, v in data.items() if k.rstrip("0123456789") not in ("t", "ot")}
        count = lambda p: sum(k.rstrip("0123456789") == p for k in data)
        xs, ys = [data[f"x{i}"] for i in range(count("x"))], [data[f"y{i}"] for i in range(count("y"))]
        oxs, oys = [data[f"ox{i}"] for i in range(count("ox"))], [data[f"oy{i}"] for i in range(count("oy"))]
        record = runs[name] = {}
        for kind in ("tract", "khronos"):
            path = f"{out}/{name}.{kind}.nnef.tgz"
            if not os.path.exists(path):
                continue
            r = forked(by_tract, path, [xs] + ([oxs] if oxs else []))
            if "outputs" in r:
                record[kind] = {"tract": [differ(a, b) for a, b in zip(r["outputs"][0], ys)], "inputs": r["inputs"]}
                if len(r["outputs"][0]) != len(ys):
                    record[kind]["tract"].append(f"{len(r['outputs'][0])} outputs for {len(ys)}")
                if oxs:
                    record[kind]["other"] = [differ(a, b) for a, b in zip(r["outputs"][1], oys)]
                if kind == "tract":
                    data |= {f"t{i}": t for i, t in enumerate(r["outputs"][0])}
                    if oxs:
                        data |= {f"ot{i}": t for i, t in enumerate(r["outputs"][1])}
            else:
                record[kind] = {"tract": r}
            if kind == "khronos":
                n = forked(by_nnef, path, xs)
                record[kind]["nnef"] = [differ(a, b) for a, b in zip(n["outputs"], ys)] if "outputs" in n else n
        np.savez_compressed(f"{out}/{name}.npz", **data)
        print(name, json.dumps(record), flush=True)
    json.dump(runs, open(f"{out}/runs.json", "w"), indent=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
