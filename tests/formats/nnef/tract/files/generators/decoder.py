"""A decoder as of Llama with a cache that goes in and out, batch and lengths open, of f32, f16 and Q4_0, by torch_to_nnef.

python -m tests.formats.nnef.tract.files.generators.decoder OUT    needs torch 2.13.0, torch_to_nnef 0.24.12

Writes decoder_KIND.tract.nnef.tgz, and decoder.npz: the words that follow a beginning, greedily, as PyTorch continues each.
"""

# pyright: basic, reportMissingImports=false, reportArgumentType=false, reportAttributeAccessIssue=false

import logging
import sys
from pathlib import Path

import numpy as np
import torch
from torch_to_nnef import export_model_to_nnef
from torch_to_nnef.compress import quantize_weights_min_max_Q4_0
from torch_to_nnef.inference_target import TractNNEF

from tests.conformance.nnef.export import target  # noqa: F401  no program is downloaded
from tests.conformance.nnef.networks import OPEN, Decoder
from tests.formats.nnef.tract.files.generators.export import tidy

STEPS, LAYERS = 10, 1
KINDS = {"f32": torch.float32, "f16": torch.float16, "q40": torch.float32}


def continued(module, start, dtype):
    """The words behind a beginning [batch, length], one at a time."""
    past = [torch.zeros(len(start), 2, 0, 8, dtype=dtype) for _ in range(2 * LAYERS)]
    given, found = start, []
    with torch.no_grad():
        for _ in range(STEPS):
            scores, *past = module(given, *past)
            given = scores[:, -1:].argmax(-1)
            found.append(given)
    return torch.cat(found, 1)


def main(out):
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    start = torch.tensor([[7, 30, 2, 19], [11, 4, 38, 23]])
    arrays = {"start": start.numpy()}
    axes = {f"x{place}": OPEN[place] for place in range(2 * LAYERS + 1)}
    for kind, dtype in KINDS.items():
        torch.manual_seed(8)
        module = Decoder(layers=LAYERS).eval().to(dtype)
        if kind == "q40":
            module = quantize_weights_min_max_Q4_0(module)
        arrays[kind] = continued(module, start, dtype).numpy()
        args = (start[:, :3], *[torch.randn(2, 2, 5, 8).to(dtype) for _ in range(2 * LAYERS)])
        version = TractNNEF.OFFICIAL_SUPPORTED_VERSIONS[0]
        path = out / f"decoder_{kind}.tract.nnef.tgz"
        export_model_to_nnef(
            model=module,
            args=args,
            file_path_export=path,
            inference_target=TractNNEF(version, check_io=False, dynamic_axes=axes, dump_identity_properties=False),
            log_level=logging.CRITICAL,
            input_names=[f"x{place}" for place in range(len(args))],
            output_names=[f"y{place}" for place in range(2 * LAYERS + 1)],
        )
        tidy(path)
    np.savez_compressed(out / "decoder.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
