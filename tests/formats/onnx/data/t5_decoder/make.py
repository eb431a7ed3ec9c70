"""Write the decoders of a tiny random T5 and their merge by optimum; needs optimum-onnx 0.1, transformers 4.57, torch."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import onnx
import torch
from optimum.exporters.onnx import main_export
from optimum.onnx.graph_transformations import merge_decoders
from transformers import T5Config, T5ForConditionalGeneration

SIZES = {"vocab_size": 11, "d_model": 4, "d_kv": 2, "d_ff": 6, "num_layers": 1, "num_heads": 2}


def strip(graph: onnx.GraphProto) -> None:
    """Remove stack traces and shapes of inner values."""
    graph.doc_string = ""
    del graph.value_info[:]
    for node in graph.node:
        node.doc_string = ""
        del node.metadata_props[:]
        for attribute in node.attribute:
            if attribute.HasField("g"):
                strip(attribute.g)


def main() -> None:
    torch.manual_seed(0)
    config = T5Config(**SIZES, relative_attention_num_buckets=4, decoder_start_token_id=0)
    with tempfile.TemporaryDirectory() as folder:
        T5ForConditionalGeneration(config).eval().save_pretrained(f"{folder}/t5")
        main_export(
            f"{folder}/t5",
            f"{folder}/onnx",
            task="text2text-generation-with-past",
            no_post_process=True,
            do_validation=False,
        )
        names = ("decoder_model", "decoder_with_past_model")
        models = {name: onnx.load(f"{folder}/onnx/{name}.onnx") for name in names}
        for model in models.values():
            strip(model.graph)
        files = {name: model.SerializeToString() for name, model in models.items()}
        merged = Path(folder, "merged.onnx")
        merge_decoders(*models.values(), strict=False, save_path=merged)
        files["decoder_model_merged"] = merged.read_bytes()
    for name, data in files.items():
        Path(__file__).with_name(f"{name}.onnx.gz").write_bytes(gzip.compress(data, 9, mtime=0))


if __name__ == "__main__":
    main()
