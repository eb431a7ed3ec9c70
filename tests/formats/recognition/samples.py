"""A small file or folder of each kind that is not read: first bytes as their tools write them."""

from __future__ import annotations

import base64
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx.numpy_helper
from sklearn.linear_model import LinearRegression

FOLDER = Path(__file__).parent


def zipped(*names: str, data: bytes = b"x") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, data)
    return file.getvalue()


def encrypted(*names: str) -> bytes:
    """A zip file whose last member needs a password, by its flags."""
    data = bytearray(zipped(*names))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.rindex(mark) + offset] |= 1
    return bytes(data)


def tarred(*names: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    return file.getvalue()


def npy(suffix: str) -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.ones(3)) if suffix == ".npz" else np.save(file, np.ones(3))
    return file.getvalue()


def safetensors() -> bytes:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(4)


def engine(metadata: bytes = b"") -> bytes:
    return (len(metadata).to_bytes(4, "little") + metadata if metadata else b"") + b"ftrt" + bytes(60)


GRAPH_DEF = b"\x0a\x1a\x0a\x01x\x12\x0bPlaceholder*\x0b\x0a\x05dtype\x12\x020\x01"
PADDLE = b"\x0a\x8c\x05\x08\0\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x1a\x20"

FILES: list[tuple[str, str, bytes | str | list[str]]] = [
    # (words of the message, file name, content: bytes, text, or the members of a folder)
    ("Git LFS pointer", "m.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
    ("HTML page", "m.onnx", "<!DOCTYPE html>\n<html><body>404</body></html>"),
    ("HTML page", "m.tflite", "\n<html lang=en>"),
    ("error message of a server", "m.onnx", '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>'),
    ("error message of a server", "m.onnx", '{"error": "Invalid credentials"}'),
    ("error message of a server (text)", "m.onnx", "404: Not Found"),
    ("error message of a server (text)", "m.onnx", "Entry not found"),
    ("HTTP response", "m.onnx", "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"),
    ("git-annex pointer", "m.onnx", "/annex/objects/SHA256E-s1234--0123.onnx\n"),
    ("DVC pointer", "m.onnx.dvc", "outs:\n- md5: a304afb96060aad90176268345e10355\n  size: 10\n  path: m.onnx\n"),
    ("Xet pointer", "m.bin", "# xet version 0\nfilesize = 1\n"),
    ("unfinished download", "m.onnx.crdownload", b"\x08\x08\x12\x07pyt"),
    ("AppleDouble", "._m.onnx", b"\0\5\x16\7\0\2\0\0Mac OS X        " + bytes(60)),
    ("as base64 text", "m.onnx", base64.b64encode(b"\x08\x08\x12\x07pytorch:" + bytes(range(60)))),
    ("folder of a TensorFlow.js model", "tfjs", ["model.json", "group1-shard1of1.bin"]),
    ("TensorRT calibration cache", "m.cache", "TRT-8601-EntropyCalibration2\nimages: 3c010a14\n"),
    ("folder of a PaddlePaddle model", "paddle", ["inference.pdmodel", "inference.pdiparams"]),
    ("folder of a PaddlePaddle model", "pir", ["inference.json", "inference.pdiparams"]),
    ("tokenizer of Hugging Face", "tokenizer.json", '{"version": "1.0", "model": {"type": "BPE", "vocab": {}}}'),
    ("SentencePiece tokenizer", "m.model", b"\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"),
    ("TensorFlow event file", "events.out.tfevents.1", b"\x18" + bytes(30)),
    (
        "configuration of a YOLO network",
        "yolov8n.yaml",
        "# Ultralytics\nnc: 80\n\nbackbone:\n  - [-1, 1, Conv, [64, 3, 2]]\n",
    ),
    ("audio or video", "m.onnx", b"RIFF\x24\0\0\0WAVEfmt "),
    ("audio or video", "m.mp4", b"\0\0\0\x20ftypisom" + bytes(20)),
    ("table or database", "m.onnx", b"SQLite format 3\0" + bytes(40)),
    ("table or database", "m.csv", "a,b\n1,2\n"),
    ("shell script", "m.onnx", "#!/usr/bin/env bash\nwget https://example.org/m.onnx\n"),
    ("text, such as documentation", "README.md", "# A model\n\nSee the paper.\n"),
    ("Python pickle", "m.pkl", pickle.dumps({"a": 1}, 0)),
    ("Zstandard", "m.onnx.zst", b"\x28\xb5\x2f\xfd\x04\x58" + bytes(20)),
    ("LZ4", "m.onnx.lz4", b"\x04\x22\x4d\x18\x64\x40" + bytes(20)),
    ("7z archive", "m.7z", b"7z\xbc\xaf\x27\x1c\0\x04" + bytes(24)),
    ("RAR archive", "m.rar", b"Rar!\x1a\x07\x01\0" + bytes(24)),
    ("ONNX Runtime model (ORT format)", "m.ort", (FOLDER / "relu.ort").read_bytes()),
    (
        "ONNX tensor",
        "input_0.pb",
        onnx.numpy_helper.from_array(np.ones((1, 3, 224), np.float32), "x").SerializeToString(),
    ),
    ("external weights", "m.onnx.data", np.ones(64, np.float32).tobytes()),
    ("ExecuTorch program", "m.pte", b"\x30\0\0\0ET12" + bytes(60)),
    ("distributed checkpoint", "step_100", [".metadata", "__0_0.distcp"]),
    ("TorchScript of torch 1.0", "m.bin", zipped("m/version", "m/model.json", "m/tensors/0")),
    ("NeMo archive", "m.nemo", tarred("./model_config.yaml", "./model_weights.ckpt")),
    ("diffusers pipeline", "sd", ["model_index.json", "unet/config.json", "unet/x.safetensors"]),
    ("safetensors file", "model.safetensors", safetensors()),
    ("index of safetensors", "model.safetensors.index.json", '{"metadata": {}, "weight_map": {"w": "a.safetensors"}}'),
    ("Hugging Face configuration", "config.json", '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}'),
    ("older than GGUF", "ggml-model.bin", b"tjgg\x03\0\0\0" + bytes(30)),
    ("llamafile", "m.llamafile", b"MZqFpD='\n" + bytes(30)),
    ("TensorFlow checkpoint", "checkpoint", 'model_checkpoint_path: "model.ckpt-100"\n'),
    ("TensorFlow checkpoint", "model.ckpt.index", bytes(48) + b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"),
    (
        "TensorFlow graph (GraphDef) as text",
        "graph.pbtxt",
        (
            'node {\n  name: "x"\n  op: "Placeholder"\n  attr {\n    key: "dtype"\n    value { type: DT_FLOAT }\n  }\n}\n'
            'node {\n  name: "y"\n  op: "Relu"\n  input: "x"\n}\n'
        ),
    ),
    ("TensorFlow.js graph model", "model.json", '{"format": "graph-model", "generatedBy": "2.4", "modelTopology": {}}'),
    ("TensorFlow.js layers model", "model.json", '{"modelTopology": {"class_name": "Sequential"}}'),
    ("Keras architecture", "model.json", '{"class_name": "Functional", "config": {"name": "m"}}'),
    ("Orbax checkpoint", "ckpt", ["_METADATA", "manifest.ocdbt", "d/0a"]),
    ("Flax weights", "flax_model.msgpack", b"\x81\xa6params\x80"),
    ("XLA HLO", "m.hlo.txt", "HloModule jit_f, entry_computation_layout={(f32[3])->f32[3]}\n"),
    ("IREE module", "m.vmfb", b"PK" + bytes(40)),
    ("TOSA", "m.tosa", b"\x10\0\0\0TOSA" + bytes(20)),
    ("Circle model", "m.circle", b"\x1c\0\0\0CIR0" + bytes(20)),
    ("LiteRT-LM", "m.litertlm", b"LITERTLM" + bytes(30)),
    ("Core ML package", "m.mlpackage", ["Manifest.json", "Data/com.apple.CoreML/model.mlmodel"]),
    (
        "Core ML package",
        "m.mlpackage.zip",
        zipped("m.mlpackage/Manifest.json", "m.mlpackage/Data/com.apple.CoreML/model.mlmodel"),
    ),
    ("compiled Core ML model", "m.mlmodelc", ["coremldata.bin", "model.mil", "weights/weight.bin"]),
    ("Core ML program (MIL)", "model.mil", "program(1.0)\n[buildInfo = dict<string, string>()]\n{\n"),
    ("Core ML model", "m.mlmodel", b"\x08\x04\x12\x10\x0a\x07\x0a\x01x" + b"com.github.apple.coremltools.version"),
    ("TensorRT engine", "m.engine", engine()),
    ("TensorRT engine", "yolo.engine", engine(b'{"description": "Ultralytics", "task": "detect", "stride": 32}')),
    ("RKNN model", "m.rknn", b"RKNN\0\0\0\0\x06\0\0\0" + bytes(50)),
    ("MNN model", "m.mnn", b"\x18\0\0\0\0\0\x12\0" + bytes(50)),
    ("TNN model", "m.tnnproto", '"1 12 1 4206624770 ,"\n"input 4 1 3 224 224 ,"\n'),
    ("Ascend", "m.om", b"IMOD" + bytes(60)),
    ("Hailo", "m.hef", b"\x01HEF" + bytes(60)),
    ("MindSpore Lite", "m.ms", b"\x18\0\0\0MSL2" + bytes(60)),
    ("MindIR", "m.mindir", b"\x0a\x050.1.0\x12\x01x"),
    ("Qualcomm", "m.dlc", zipped("model", "model.params", "dlc.metadata")),
    ("Kendryte", "m.kmodel", b"LDMK\x05\0\0\0" + bytes(30)),
    ("Sophgo", "m.cvimodel", b"CviModel" + bytes(30)),
    ("ESP-DL", "m.espdl", b"EDL2" + bytes(30)),
    ("RTen", "m.rten", b"RTEN\x02\0\0\0" + bytes(30)),
    ("Unity", "m.sentis", b"\x18\0\0\0\0\0" + bytes(30)),
    ("compiled for a device (.blob)", "m.blob", b"\x22\x00\x01\x02" + bytes(30)),
    ("PaddlePaddle program", "inference.pdmodel", PADDLE),
    ("PaddlePaddle program", "__model__", PADDLE),
    ("PaddlePaddle program", "inference.json", '{"base_code":{"magic":"pir","version":1},"program":{"regions":[]}}'),
    ("weights of PaddlePaddle", "inference.pdiparams", bytes(60)),
    ("Paddle Lite", "m.nb", b"\x02\0" + bytes(30)),
    ("Darknet network", "yolov3.cfg", "# comment\n[net]\nbatch=1\n[convolutional]\nfilters=32\n"),
    ("Darknet weights", "yolov3.weights", b"\0\0\0\0\x02\0\0\0\0\0\0\0" + bytes(30)),
    (
        "MXNet symbol",
        "m-symbol.json",
        '{"nodes": [{"op": "null", "name": "data"}], "arg_nodes": [0], "heads": [[0, 0, 0]]}',
    ),
    ("MXNet weights", "m-0000.params", b"\x12\x01" + bytes(30)),
    ("Caffe2 network", "init_net.pb", b"\x0a\4init\x12\x18\x12\1w\x1a\0\x22\x0fGivenTensorFill\x2a\0"),
    ("MATLAB file", "m.mat", b"MATLAB 5.0 MAT-file, Platform: GLNXA64" + bytes(90)),
    ("encrypted zip archive", "m.zip", encrypted("m/", "m/model.onnx")),
    ("empty folder", "m", []),
    ("adapter of a language model", "adapter_config.json", '{"peft_type": "LORA", "base_model_name_or_path": "a/b"}'),
    ("TensorFlow checkpoint", "model.ckpt-100.meta", b"\x0a\x10" + bytes(16)),
    ("compiled by Tengine", "m.tmfile", b"\2\0\0\0" + bytes(30)),
    (
        "compiled by TVM",
        "deploy.json",
        '{"nodes": [{"op": "tvm_op", "name": "f"}], "arg_nodes": [0], "heads": [[0, 0, 0]]}',
    ),
    ("compiled by TVM", "deploy.params", b"\xb7\x9c\4\5\x4f\x8d\xe5\xf7" + bytes(30)),
    ("picture", "m.svg", '<svg xmlns="http://www.w3.org/2000/svg"></svg>'),
    ("compiled program or library", "m.wasm", b"\0asm\1\0\0\0"),
    ("CNTK model", "m.model", b"B\0C\0N\0T\0K\0\0\0" + bytes(10)),
    ("XGBoost model", "m.json", '{"learner":{"attributes":{},"feature_names":[]},"version":[2,0,3]}'),
    ("XGBoost model", "m.ubj", b"{L\0\0\0\0\0\0\0\x07learner{"),
    ("LightGBM model", "m.txt", "tree\nversion=v4\nnum_class=1\n"),
    ("CatBoost model", "m.cbm", b"CBM1" + bytes(30)),
    ("scikit-learn model", "m.pkl", pickle.dumps(LinearRegression())),
    ("PMML model", "m.xml", '<?xml version="1.0"?>\n<PMML version="4.4" xmlns="http://www.dmg.org/PMML-4_4">'),
    ("archive of NumPy arrays", "x.npz", npy(".npz")),
    ("NumPy array", "x.npy", npy(".npy")),
    ("Jupyter notebook", "m.ipynb", '{"cells": [], "metadata": {}, "nbformat": 4}'),
    ("Triton configuration", "config.pbtxt", 'name: "resnet"\nplatform: "onnxruntime_onnx"\n'),
    ("Python source", "m.py", "import torch\n\nmodel = torch.nn.Linear(3, 2)\n"),
    ("picture", "m.png", b"\x89PNG\r\n\x1a\n" + bytes(20)),
    ("PDF document", "m.pdf", b"%PDF-1.7\n"),
    ("compiled program or library", "m.so", b"\x7fELF\x02\x01\x01" + bytes(40)),
    ("Python pickle", "m.pkl", pickle.dumps({"epoch": 3})),
]
