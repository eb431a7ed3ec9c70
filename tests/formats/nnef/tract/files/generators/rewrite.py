"""tract's own hand: loads NAME.tract.nnef.tgz and writes NAME.opl.nnef.tgz; adds the run of that file to runs.json under "opl".

python rewrite.py OUT NAME ...
"""

import json
import os
import sys

import numpy as np

from refer import REGISTRIES, by_tract, differ, forked, short
from export import tidy


def write(source, target):
    import tract

    framework = tract.nnef()
    for name in REGISTRIES:
        getattr(framework, name)()
    try:
        framework.write_model_to_tar_gz(framework.load(source), target)
        return "ok"
    except BaseException as e:
        return short(e)


def main(out, names):
    runs = json.load(open(f"{out}/runs.json"))
    for name in names:
        target = f"{out}/{name}.opl.nnef.tgz"
        r = forked(write, f"{out}/{name}.tract.nnef.tgz", target)
        if r != "ok":
            print(name, "REFUSED", r, flush=True)
            if os.path.exists(target):
                os.unlink(target)
            continue
        tidy(target)
        data = np.load(f"{out}/{name}.npz")
        xs = [data[f"x{i}"] for i in range(sum(k[0] == "x" for k in data.files))]
        r = forked(by_tract, target, [xs])
        if "outputs" not in r:
            print(name, "UNREAD", r, flush=True)
            os.unlink(target)
            continue
        runs[name]["opl"] = {
            "tract": [differ(a, data[f"y{i}"]) for i, a in enumerate(r["outputs"][0])],
            "inputs": r["inputs"],
        }
        print(name, runs[name]["opl"], flush=True)
    json.dump(runs, open(f"{out}/runs.json", "w"), indent=1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
