"""Write `formats/tensorflow/container/operators.txt`: the signatures of TensorFlow's operators.

Run with the Python of an environment that has TensorFlow: `python tools/tensorflow_operators.py`.
"""

import json
import re
from pathlib import Path
from typing import Any

import tensorflow as tf  # pyright: ignore[reportMissingModuleSource]  # in a separate environment
from tensorflow.core.framework import op_def_pb2, types_pb2  # pyright: ignore[reportMissingModuleSource]
from tensorflow.python.client import pywrap_tf_session as session  # pyright: ignore[reportMissingImports]

TARGET = Path(__file__).parents[1] / "src/graphport/formats/tensorflow/container/operators.txt"
_LEFT_OUT = re.compile(
    r"^_|Dataset|Iterator|TPU|^Xla(?!CallModule$)|Collective|Nccl|^Mkl|Summary|Summaries|^(Sparse|Resource)?Apply|^(Resource)?SparseApply"
    r"|Boosted|Barrier|Reader|Queue|Risc|Ragged|TensorForest|Tridiagonal|Bessel|Fingerprint|Accumulator|SdcaO|Fertile"
    r"|Embedding(Activations|Table)|Rpc|Ebt|Cudnn|^Debug|^Experimental|^Dummy|MultiDeviceIter|Blob|Proto|Audio|Stage$|^Map"
    r"|^OrderedMap|^Test|^Copy|^Eager|(?<!Greedy)Decode|Encode|^Sdca|^Skipgram|Word2Vec|^SparseTensor|Csr|CSR|^LoadAnd|^Dtensor|^DTensor"
)
_FIELDS = {"i": int, "f": float, "b": bool}


def _argument(argument: Any) -> str:
    repeated = argument.number_attr or argument.type_list_attr
    return f"{argument.name}*{repeated}" if repeated else argument.name


def _default(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "s":
        return value.s.decode()
    if kind == "type":
        return {"type": types_pb2.DataType.Name(value.type)}
    if kind == "shape":
        return {"shape": None if value.shape.unknown_rank else [dim.size for dim in value.shape.dim]}
    if kind == "list":
        numbers = [*value.list.i, *value.list.f, *value.list.b]
        types = [{"type": types_pb2.DataType.Name(each)} for each in value.list.type]
        return [*numbers, *types, *(each.decode() for each in value.list.s)]
    return _FIELDS[kind](getattr(value, kind)) if kind in _FIELDS else None


def _line(definition: Any) -> str:
    defaults = {each.name: _default(each.default_value) for each in definition.attr if each.HasField("default_value")}
    kept = {name: value for name, value in defaults.items() if not name.startswith("_") and value is not None}
    columns = [
        definition.name + ("!" if definition.is_stateful else ""),
        " ".join(map(_argument, definition.input_arg)),
        " ".join(map(_argument, definition.output_arg)),
        json.dumps(kept, separators=(",", ":"), sort_keys=True) if kept else "",
    ]
    return "\t".join(columns).rstrip()


def main() -> None:
    """Write the table."""
    listed = op_def_pb2.OpList()
    listed.ParseFromString(session.TF_GetBuffer(session.TF_GetAllOpList()))
    known = {each.name: each for each in listed.op}
    lines = [
        _line(each) for name, each in sorted(known.items()) if hasattr(tf.raw_ops, name) and not _LEFT_OUT.search(name)
    ]
    TARGET.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
