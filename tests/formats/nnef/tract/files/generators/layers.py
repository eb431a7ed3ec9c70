"""tract's own writing of ONNX layers that torch_to_nnef does not export: NAME.opl.nnef.tgz and NAME.npz (x0, results t0, t1).

python layers.py OUT    needs tract 0.23.9, onnx
"""

import gzip
import io
import sys
import tarfile
import tempfile
from pathlib import Path

import numpy as np
import tract
from onnx import helper, numpy_helper, save

RANDOM = np.random.default_rng(1)
TREES = {
    "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
    "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
    "nodes_featureids": [0, 1, 0, 0, 0, 2, 0, 0],
    "nodes_values": [0.5, -0.25, 0, 0, 0, 1.5, 0, 0],
    "nodes_modes": ["BRANCH_LEQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF", "BRANCH_LEQ", "LEAF", "LEAF"],
    "nodes_truenodeids": [1, 3, 0, 0, 0, 1, 0, 0],
    "nodes_falsenodeids": [2, 4, 0, 0, 0, 2, 0, 0],
    "class_treeids": [0, 0, 0, 1, 1],
    "class_nodeids": [2, 3, 4, 1, 2],
    "class_ids": [0, 1, 2, 1, 2],
    "class_weights": [0.6, 0.3, 0.1, 0.25, 0.75],
    "classlabels_int64s": [0, 1, 2],
}


def real(*shape):
    return RANDOM.normal(size=shape).astype(np.float32)


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


LAYERS = {
    "gru_layer": (
        helper.make_node("GRU", ["x", "w", "r", "b"], ["y", "yh"], hidden_size=3, linear_before_reset=1),
        [value("y", 1, [5, 1, 2, 3]), value("yh", 1, [1, 2, 3])],
        {"w": real(1, 9, 4), "r": real(1, 9, 3), "b": real(1, 18)},
        real(5, 2, 4),
    ),
    "trees": (
        helper.make_node("TreeEnsembleClassifier", ["x"], ["l", "p"], domain="ai.onnx.ml", post_transform="NONE", **TREES),
        [value("l", 7, [4]), value("p", 1, [4, 3])],
        {},
        np.array([[0.5, 1, 2], [0.4, -1, 1.5], [0.4, -0.25, 3], [0.7, 0, 0]], np.float32),
    ),
}


def main(out):
    for name, (node, outputs, constants, x) in LAYERS.items():
        stored = [numpy_helper.from_array(array, key) for key, array in constants.items()]
        graph = helper.make_graph([node], "g", [value("x", 1, list(x.shape))], outputs, stored)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
        with tempfile.TemporaryDirectory() as folder:
            save(helper.make_model(graph, opset_imports=opsets, ir_version=8), f"{folder}/m.onnx")
            framework = tract.nnef().with_onnx()
            framework.write_model_to_dir(tract.onnx().load(f"{folder}/m.onnx").into_model(), f"{folder}/m")
            results = [each.to_numpy() for each in framework.load(f"{folder}/m").into_runnable().run([x])]
            raw = io.BytesIO()
            with tarfile.open(fileobj=raw, mode="w") as archive:
                for path in sorted(Path(folder, "m").iterdir()):
                    info = tarfile.TarInfo(path.name)
                    info.size = path.stat().st_size
                    archive.addfile(info, io.BytesIO(path.read_bytes()))
        with open(f"{out}/{name}.opl.nnef.tgz", "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
            packed.write(raw.getvalue())
        np.savez_compressed(f"{out}/{name}.npz", x0=x, **{f"t{place}": array for place, array in enumerate(results)})


if __name__ == "__main__":
    main(sys.argv[1])
