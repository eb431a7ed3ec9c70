"""The table of files that are not read: signature, name, and how to get a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.formats.recognition.evidence import (
    Evidence,
    both,
    either,
    ends,
    has_sibling,
    keys,
    magic,
    members,
    named,
    pattern,
    text,
)

if TYPE_CHECKING:
    from graphport.formats.recognition.evidence import Signature

SERVER_MESSAGE_BYTES = 1000
"""A longer text is not taken for the error message of a server."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file that is not read."""

    name: str
    """A noun phrase: `Git LFS pointer`."""
    signature: Signature
    remedy: str
    """A command, lines of Python or an action; `{file}` is the file name, `{stem}` the name without extension."""

    def help(self, evidence: Evidence) -> str:
        """The remedy for one file."""
        return self.remedy.replace("{file}", evidence.path.name).replace("{stem}", evidence.path.stem)


_EXPORT = (
    "in Python, where the class of the network is: model.load_state_dict(weights); "
    "torch.export.save(torch.export.export(model.eval(), args), '{stem}.pt2')"
)
_SAME_NETWORK = "convert the model that it was compiled from: the original network cannot be recovered from it"
_ORT = (
    'python -c "import onnxruntime as r; o = r.SessionOptions(); '
    "o.graph_optimization_level = r.GraphOptimizationLevel.ORT_DISABLE_ALL; "
    "o.optimized_model_filepath = '{stem}.onnx'; "
    "o.add_session_config_entry('session.save_model_format', 'ONNX'); r.InferenceSession('{file}', o)\""
)
_SKLEARN = (
    "python -c \"import joblib, skl2onnx; m = joblib.load('{file}'); "
    "open('{stem}.onnx', 'wb').write(skl2onnx.to_onnx(m, X[:1]).SerializeToString())\", X being inputs; "
    "loading a pickle runs code: only from a source that you trust"
)
_TFJS = "tensorflowjs_converter --input_format=tfjs_{0}_model --output_format={1} {{file}} {{stem}}_{1}"

_PICKLE = pattern(rb"\x80[\x02-\x05]|\((?:[dlt]p\d+\n|c\w[\w.]*\n\w+\n)")


def _pickle_of(*names: bytes) -> Signature:
    return both(_PICKLE, lambda e: any(name in e.head for name in names))


def _is_safetensors(e: Evidence) -> bool:
    return e.head[8:9] == b"{" and 2 <= int.from_bytes(e.head[:8], "little") <= 100_000_000


def _is_ultralytics_engine(e: Evidence) -> bool:
    length = int.from_bytes(e.head[:4], "little")
    return e.head[4:5] == b"{" and length < 1 << 20 and (b'"task"' in e.head or b'"stride"' in e.head)


KINDS: tuple[FileKind, ...] = (
    # ── downloads that failed ──
    FileKind(
        "Git LFS pointer, not the file itself",
        text(r"version https://git-lfs"),
        "git lfs pull --include {file}, or download the file from the site",
    ),
    FileKind(
        "HTML page, as a download that failed leaves it",
        text(r"(?i:<!doctype html|<html|<head|<!--.*?-->\s*<html)"),
        "download the file again: the link may need a login, or lead to a page about the file",
    ),
    FileKind(
        "error message of a server (XML), not the file itself",
        text(r"(?:<\?xml[^>]*>\s*)?<Error>"),
        "download the file again: the link may have expired",
    ),
    FileKind(
        "error message of a server (JSON), not the file itself",
        text(r'\{\s*"(?:error|errors|message|detail)"\s*:'),
        "download the file again: the link may need a login",
    ),
    FileKind(
        "error message of a server (text), not the file itself",
        both(
            text(r"(?:[45]\d\d:? )?(?i:(?:entry |repository )?not found|access denied|forbidden|unauthorized)"),
            lambda e: len(e.head) < SERVER_MESSAGE_BYTES,
        ),
        "download the file again: the link may be wrong or need a login",
    ),
    FileKind(
        "HTTP response, not the file itself", text(r"HTTP/\d(?:\.\d)? \d{3}"), "download the file again: curl -LO URL"
    ),
    FileKind(
        "git-annex pointer, not the file itself", text(r"(?:\.\./)*(?:\.git)?/annex/objects/"), "git annex get {file}"
    ),
    FileKind(
        "DVC pointer, not the file itself",
        text(r"(?:\w[^\n]*\n)*outs:\s*\n\s*- (?:md5|hash|etag|size|path):"),
        "dvc pull {file}, and give {stem}",
    ),
    FileKind(
        "Xet pointer, not the file itself", text(r"# xet version"), "download the file: hf download REPOSITORY {file}"
    ),
    FileKind(
        "unfinished download",
        both(named("*.part", "*.crdownload", "*.download", "*.aria2"), lambda e: bool(e.head)),
        "wait until the download ends, or download the file again",
    ),
    FileKind(
        "metadata file of macOS (AppleDouble), not the file itself",
        magic(b"\0\5\x16\7"),
        "give the file of the same name without ._ at the beginning",
    ),
    FileKind(
        "ONNX model as base64 text",
        pattern(rb"CA[A-Za-z0-9+/]{60}"),
        "decode it: base64 -d {file} > {stem}_decoded.onnx",
    ),
    # ── compression that Python's standard library does not read ──
    FileKind("file compressed with Zstandard", magic(b"\x28\xb5\x2f\xfd"), "decompress it: zstd -d {file}"),
    FileKind("file compressed with LZ4", magic(b"\x04\x22\x4d\x18"), "decompress it: lz4 -d {file}"),
    FileKind("7z archive", magic(b"7z\xbc\xaf\x27\x1c"), "unpack it: 7z x {file}"),
    FileKind("RAR archive", magic(b"Rar!\x1a\x07"), "unpack it: unrar x {file}"),
    FileKind("encrypted zip archive", lambda e: e.is_encrypted, "unpack it with its password: unzip {file}"),
    FileKind("empty folder", lambda e: e.is_folder and not e.members, "give the folder or file with the model"),
    # ── ONNX ──
    FileKind("ONNX Runtime model (ORT format)", magic(b"ORTM", at=4), _ORT),
    FileKind(
        "ONNX tensor (TensorProto, such as the test data input_0.pb), without a model",
        pattern(rb"(?:\x08[\x80-\xff]{0,4}[\0-\x7f]){0,8}\x10[\x01-\x1b](?:[\x4a\x42\x22\x2a\x32\x3a]|\x08)"),
        "give the model.onnx that the tensor belongs to",
    ),
    FileKind(
        "file of external weights of an ONNX model",
        both(named("*.onnx.data", "*.onnx_data*", "*.weight"), lambda e: bool(e.head)),
        "give the .onnx file beside it: its weights are read from here",
    ),
    # ── PyTorch ──
    FileKind(
        "ExecuTorch program (.pte)",
        magic(b"ET1", b"ET2", at=4),
        "export the module with torch.export.save(torch.export.export(model, args), '{stem}.pt2')",
    ),
    FileKind(
        "distributed checkpoint of PyTorch",
        members(".metadata", "*.distcp"),
        "python -m torch.distributed.checkpoint.format_utils dcp_to_torch {file} {stem}.pt; then, " + _EXPORT,
    ),
    FileKind(
        "TorchScript of torch 1.0 to 1.2 (model.json)",
        members("model.json", "tensors/*"),
        "in Python, with torch 1.3 to 2.x: torch.jit.save(torch.jit.load('{file}'), '{stem}_new.pt')",
    ),
    FileKind(
        "NeMo archive: configuration and weights without a network",
        members("model_config.yaml", "model_weights*"),
        "in Python: nemo.core.ModelPT.restore_from('{file}').export('{stem}.onnx')",
    ),
    FileKind(
        "diffusers pipeline of several models",
        members("model_index.json"),
        "optimum-cli export onnx --model {file} {stem}_onnx, and give one of the models in the result",
    ),
    FileKind(
        "safetensors file: weights without a network",
        _is_safetensors,
        "give the folder with its config.json; or, " + _EXPORT,
    ),
    FileKind(
        "index of safetensors files: weights without a network",
        keys("weight_map"),
        "give the folder that it is in, with its config.json",
    ),
    FileKind(
        "Hugging Face configuration, without weights",
        either(keys("model_type"), keys("architectures")),
        "give the folder that it is in; or: optimum-cli export onnx --model FOLDER {stem}_onnx",
    ),
    FileKind(
        "adapter of a language model (LoRA), without the base model",
        keys("peft_type"),
        "merge it, in Python: peft.PeftModel.from_pretrained(base, FOLDER).merge_and_unload()"
        ".save_pretrained('merged'); and give the folder merged",
    ),
    FileKind(
        "llama.cpp model in a form older than GGUF (GGML, GGJT)",
        magic(b"lmgg", b"fmgg", b"tjgg", b"algg"),
        "python convert_llama_ggml_to_gguf.py --input {file} --output {stem}.gguf, in llama.cpp",
    ),
    FileKind(
        "llamafile: a program with a GGUF model inside", magic(b"MZqFpD"), "unzip {file}, and give the .gguf file in it"
    ),
    # ── TensorFlow, Keras, JAX ──
    FileKind(
        "TensorFlow graph (GraphDef) as text",
        text(r"node\s*\{\s*name:"),
        "in Python: g = google.protobuf.text_format.Parse(open('{file}').read(), tf.compat.v1.GraphDef()); "
        "open('{stem}.pb', 'wb').write(g.SerializeToString()); and give {stem}.pb",
    ),
    FileKind(
        "TensorFlow.js graph model",
        either(keys("modelTopology", "weightsManifest"), keys("format", "generatedBy", "modelTopology")),
        _TFJS.format("graph", "tf_saved_model") + "; a layers model: " + _TFJS.format("layers", "keras"),
    ),
    FileKind(
        "folder of a TensorFlow.js model",
        either(members("model.json", "group*-shard*"), members("model.json", "*.weights.bin")),
        "give the file model.json in it to a converter: " + _TFJS.format("graph", "tf_saved_model"),
    ),
    FileKind("TensorFlow.js layers model", keys("modelTopology"), _TFJS.format("layers", "keras")),
    FileKind(
        "TensorFlow checkpoint: variables without a network",
        either(
            text(r"model_checkpoint_path:"),
            named("*.data-?????-of-?????", "*.ckpt.meta", "*.ckpt-*.meta"),
            ends(b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"),  # the magic number of a LevelDB table
        ),
        "in the program that trained it: model.load_weights(...); model.export('{stem}'); and give the folder {stem}",
    ),
    FileKind(
        "Keras architecture in JSON, without weights",
        keys("class_name", "config"),
        "in Python: m = keras.models.model_from_json(open('{file}').read()); m.load_weights(W); m.save('{stem}.keras')",
    ),
    FileKind(
        "Orbax checkpoint of JAX: weights without a network",
        either(members("_CHECKPOINT_METADATA"), members("_METADATA", "manifest.ocdbt")),
        "in JAX, export the function: open('{stem}.mlir', 'w').write(jax.export.export(jax.jit(f))(x).mlir_module())",
    ),
    FileKind(
        "Flax weights (MessagePack), without a network",
        named("*.msgpack"),
        "in JAX, export the function: open('{stem}.mlir', 'w').write(jax.export.export(jax.jit(f))(x).mlir_module())",
    ),
    FileKind(
        "XLA HLO module as text",
        text(r"HloModule "),
        "export StableHLO instead: jax.export.export(jax.jit(f))(x).mlir_module()",
    ),
    FileKind("IREE module, compiled for a device (.vmfb)", named("*.vmfb"), _SAME_NETWORK),
    FileKind("TOSA flatbuffer", magic(b"TOSA", at=4), _SAME_NETWORK),
    FileKind("Circle model of ONE (Samsung)", magic(b"CIR0", at=4), _SAME_NETWORK + "; it was a .tflite or .onnx file"),
    FileKind(
        "LiteRT-LM bundle",
        magic(b"LITERTLM"),
        "litert-lm-peek --litertlm_file {file} --dump_files_dir {stem} writes the TFLite files in it",
    ),
    # ── Apple ──
    FileKind(
        "Core ML package (.mlpackage)",
        members("Manifest.json", "Data/com.apple.CoreML/*"),
        "convert the model that it was made from: Core ML models cannot be converted back",
    ),
    FileKind(
        "compiled Core ML model (.mlmodelc)",
        either(members("coremldata.bin"), members("model.espresso.net")),
        "convert the model that it was made from: Core ML models cannot be converted back",
    ),
    FileKind(
        "Core ML program (MIL) as text",
        text(r"program\s*(?:<[^>]*>)?\s*\(1\.\d\)"),
        "convert the model that it was made from: Core ML models cannot be converted back",
    ),
    FileKind(
        "Core ML model (.mlmodel)",
        both(
            pattern(rb"\x08[\x01-\x0f]\x12"),
            either(named("*.mlmodel"), lambda e: b"com.github.apple.coremltools" in e.head),
        ),
        "convert the model that it was made from; a neural network of version 4 or older: "
        "onnxmltools.convert_coreml(coremltools.utils.load_spec('{file}'))",
    ),
    # ── engines and devices ──
    FileKind(
        "TensorRT engine", either(magic(b"ftrt", b"ptrt"), _is_ultralytics_engine), _SAME_NETWORK + " (an .onnx file)"
    ),
    FileKind(
        "TensorRT calibration cache: scales without a network",
        text(r"TRT-\d+-\w*Calibration"),
        "give the model that was calibrated (an .onnx file)",
    ),
    FileKind("RKNN model", magic(b"RKNN", b"CYPTRKNN"), _SAME_NETWORK + " (an .onnx, .tflite or .pt file)"),
    FileKind(
        "MNN model", either(named("*.mnn"), both(magic(b"\0\0", at=2), lambda e: b"MNN" in e.head[:512])), _SAME_NETWORK
    ),
    FileKind("TNN model", text(r'"\d+ \d+ \d+ 4206624\d+ ,"'), _SAME_NETWORK),
    FileKind("Ascend offline model (.om)", magic(b"IMOD"), _SAME_NETWORK),
    FileKind("Hailo executable (.hef)", magic(b"\x01HEF"), _SAME_NETWORK),
    FileKind("MindSpore Lite model (.ms)", magic(b"MSL0", b"MSL1", b"MSL2", at=4), _SAME_NETWORK),
    FileKind(
        "MindSpore model (MindIR)",
        named("*.mindir"),
        "in Python: mindspore.export(net, x, file_name='{stem}', file_format='ONNX')",
    ),
    FileKind(
        "Qualcomm model (SNPE or QNN .dlc)",
        either(members("dlc.metadata"), members("model.params"), named("*.dlc")),
        _SAME_NETWORK,
    ),
    FileKind("Kendryte model (.kmodel)", magic(b"KMDL", b"LDMK"), _SAME_NETWORK),
    FileKind("Sophgo model (.cvimodel, .bmodel)", magic(b"CviModel", b"\xee\xaa\x55\xff"), _SAME_NETWORK),
    FileKind(
        "model compiled by Tengine, Vitis AI or AXera (.tmfile, .xmodel, .axmodel)",
        named("*.tmfile", "*.xmodel", "*.axmodel"),
        _SAME_NETWORK,
    ),
    FileKind(
        "network compiled by TVM",
        either(
            both(keys("nodes", "arg_nodes"), lambda e: '"tvm_op"' in e.text), magic(b"\xb7\x9c\4\5\x4f\x8d\xe5\xf7")
        ),
        _SAME_NETWORK,
    ),
    FileKind("ESP-DL model", magic(b"EDL1", b"EDL2"), _SAME_NETWORK),
    FileKind("RTen model", magic(b"RTEN"), _SAME_NETWORK + " (an .onnx file)"),
    FileKind("Unity model (Sentis, Barracuda)", named("*.sentis", "*.nn"), _SAME_NETWORK + " (an .onnx file)"),
    FileKind("OpenVINO model compiled for a device (.blob)", named("*.blob"), _SAME_NETWORK + " (an .xml file)"),
    # ── further frameworks ──
    FileKind(
        "PaddlePaddle program",
        either(
            pattern(rb"\x0a.{1,5}\x08\0\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
            keys("base_code", "program"),
            both(text(r"\{"), lambda e: '"pir"' in e.text),
        ),
        "paddle2onnx --model_dir . --model_filename {file} --params_filename {stem}.pdiparams --save_file {stem}.onnx",
    ),
    FileKind(
        "folder of a PaddlePaddle model",
        either(members("*.pdmodel"), members("*.json", "*.pdiparams")),
        "paddle2onnx --model_dir {file} --model_filename NAME.pdmodel --params_filename NAME.pdiparams "
        "--save_file {stem}.onnx; NAME.json in place of NAME.pdmodel if there is none",
    ),
    FileKind(
        "weights of PaddlePaddle, without a network",
        named("*.pdiparams", "*.pdparams", "*.pdopt"),
        "paddle2onnx --model_dir . --model_filename {stem}.pdmodel --params_filename {file} --save_file {stem}.onnx",
    ),
    FileKind("Paddle Lite model (.nb)", named("*.nb"), _SAME_NETWORK),
    FileKind(
        "Darknet network (.cfg)",
        text(r"(?:[#;][^\n]*\n\s*)*\[net(?:work)?\]"),
        "darknet2ncnn {file} {stem}.weights {stem}.param {stem}.bin, and give {stem}.param",
    ),
    FileKind(
        "Darknet weights, without a network",
        named("*.weights"),
        "darknet2ncnn {stem}.cfg {file} {stem}.param {stem}.bin, and give {stem}.param",
    ),
    FileKind(
        "MXNet symbol file",
        keys("nodes", "arg_nodes"),
        "in Python: mxnet.onnx.export_model('{file}', 'PARAMS', [SHAPE], onnx_file_path='{stem}.onnx')",
    ),
    FileKind(
        "MXNet weights, without a network",
        magic(b"\x12\x01\0\0\0\0\0\0"),
        "in Python: mxnet.onnx.export_model('SYMBOL.json', '{file}', [SHAPE], onnx_file_path='{stem}.onnx')",
    ),
    FileKind(
        "Caffe2 network",
        either(named("init_net.pb", "predict_net.pb"), lambda e: b"GivenTensorFill" in e.head),
        "with torch 1.x: convert-caffe2-to-onnx predict_net.pb --caffe2-init-net init_net.pb -o {stem}.onnx",
    ),
    FileKind("MATLAB file", magic(b"MATLAB 5.0 MAT-file"), "in MATLAB: exportONNXNetwork(net, '{stem}.onnx')"),
    FileKind(
        "CNTK model",
        either(magic(b"B\0C\0N\0T\0K\0"), lambda e: b"CompositeFunction" in e.head and b"uid" in e.head),
        "in Python: cntk.Function.load('{file}').save('{stem}.onnx', format=cntk.ModelFormat.ONNX)",
    ),
    FileKind(
        "XGBoost model",
        either(keys("learner"), pattern(rb"\{L.{8}learner|\{[iUl].{1,9}learner|binf"), _pickle_of(b"xgboost")),
        "in Python: onnxmltools.convert_xgboost(xgboost.XGBClassifier(model_file='{file}'), initial_types=[...])",
    ),
    FileKind(
        "LightGBM model",
        either(text(r"tree\s*\n\s*version=v\d"), _pickle_of(b"lightgbm")),
        "in Python: onnxmltools.convert_lightgbm(lightgbm.Booster(model_file='{file}'), initial_types=[...])",
    ),
    FileKind(
        "CatBoost model",
        magic(b"CBM1"),
        "python -c \"import catboost; m = catboost.CatBoost(); m.load_model('{file}'); "
        "m.save_model('{stem}.onnx', format='onnx')\"",
    ),
    FileKind("scikit-learn model (pickle)", _pickle_of(b"sklearn", b"joblib"), _SKLEARN),
    FileKind(
        "PMML model",
        text(r"(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<PMML"),
        "convert the scikit-learn or R model that it was made from: skl2onnx",
    ),
    # ── no models ──
    FileKind(
        "archive of NumPy arrays (.npz): numbers without a network",
        both(lambda e: e.is_zip, members("*.npy"), lambda e: all(name.endswith(".npy") for name in e.members)),
        "give the model; arrays are inputs: graphport run MODEL --inputs {file}",
    ),
    FileKind(
        "NumPy array (.npy): numbers without a network",
        magic(b"\x93NUMPY"),
        "give the model; arrays are inputs: graphport run MODEL --inputs FILE.npz",
    ),
    FileKind(
        "tokenizer of Hugging Face, without a network",
        either(keys("model", "vocab"), keys("added_tokens_decoder")),
        "give the folder that it is in, or the model.onnx beside it",
    ),
    FileKind(
        "SentencePiece tokenizer, without a network",
        pattern(rb"\x0a.\x0a[\x03-\x08](?:<unk>|<pad>|<s>|\[PAD\])"),
        "give the folder that it is in, or the model.onnx beside it",
    ),
    FileKind(
        "TensorFlow event file (TensorBoard): records without a network",
        named("events.out.tfevents.*"),
        "in the program that trained it: model.export('model'); and give the folder model",
    ),
    FileKind(
        "configuration of a YOLO network, without weights",
        text(r"(?:[^\n]*\n){0,40}?backbone:\s*\n"),
        "give the model that was trained with it: yolo export model=WEIGHTS.pt format=onnx",
    ),
    FileKind("Jupyter notebook", keys("cells", "nbformat"), "run it, and give the model file that it saves"),
    FileKind(
        "Triton configuration",
        text(r"(?:name\s*:\s*\"[^\"]*\"\s*\n\s*)?(?:platform|backend|max_batch_size)\s*:\s*(?:\"[^\"]*\"|\d+)\s*\n"),
        "give the model beside it, such as 1/model.onnx",
    ),
    FileKind(
        "Python source",
        text(r"#!.*python|(?:#[^\n]*\n\s*)*(?:import \w|from \w[\w.]* import )|(?:#[^\n]*\n\s*)*\"\"\""),
        "run it, and export the model: torch.export.save(torch.export.export(model, args), 'model.pt2')",
    ),
    FileKind(
        "picture",
        either(magic(b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM"), text(r"(?:<\?xml[^>]*>\s*)?<svg")),
        "give the model; a folder of pictures is --samples FOLDER",
    ),
    FileKind(
        "audio or video",
        either(magic(b"RIFF", b"OggS", b"fLaC", b"ID3"), magic(b"ftyp", at=4)),
        "give the model file",
    ),
    FileKind(
        "table or database",
        either(magic(b"PAR1", b"SQLite format 3\0", b"ARROW1"), both(named("*.csv", "*.tsv"), lambda e: bool(e.text))),
        "give the model; inputs are arrays: graphport run MODEL --inputs FILE.npz",
    ),
    FileKind(
        "shell script",
        text(r"#!\s*/\S*(?:sh|env bash)\b"),
        "run it if you trust it, and give the model file that it gets",
    ),
    FileKind("PDF document", magic(b"%PDF-"), "give the model file"),
    FileKind(
        "compiled program or library (ELF, PE, Mach-O, WebAssembly, LLVM)",
        magic(b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\0asm", b"BC\xc0\xde", b"!<arch>\n"),
        _SAME_NETWORK,
    ),
    # ── sidecar files; last, because only names show them ──
    FileKind(
        "weight file of an OpenVINO IR", both(named("*.bin"), has_sibling(".xml")), "give the .xml file: {stem}.xml"
    ),
    FileKind(
        "weight file of an ncnn or PNNX model",
        both(named("*.bin"), has_sibling(".param")),
        "give the .param file: {stem}.param",
    ),
    FileKind(
        "text, such as documentation or a configuration",
        both(named("*.md", "*.txt", "*.log", "*.yaml", "*.yml", "*.toml", "*.ini"), lambda e: bool(e.text)),
        "give the model file",
    ),
    FileKind(
        "Python pickle",
        _PICKLE,
        "reading it would run code: in the program that wrote it, export the network (" + _EXPORT + ")",
    ),
)
"""All kinds; the first whose signature holds is named."""


def find_kind(evidence: Evidence) -> FileKind | None:
    """The kind of a file or folder that no reader recognizes."""
    return next((kind for kind in KINDS if kind.signature(evidence)), None)
