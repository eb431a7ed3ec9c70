"""Export a decoder with a cache from PyTorch, of any size, and measure its 4-bit weight quantization.

python benchmarks/quantize/large.py make OUT.onnx --width 4096 --layers 5 --hidden 11008 --heads 32 --shared 8
python benchmarks/quantize/large.py round NET.onnx OUT.onnx --limit 1500 [--preset fast] [--calibration tokens.npy]

`make` needs PyTorch and onnxscript; its weights are random. `round` runs in a process whose private memory is limited
to `--limit` MB (RLIMIT_DATA), and prints seconds, the peaks of private and resident memory (with mapped files), and the
noise.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_EACH = 0.1


def make(given: argparse.Namespace) -> None:
    """Export a Llama-style decoder: RMS norms, rotary embeddings, gated MLP, grouped-query attention."""
    import torch  # pyright: ignore[reportMissingImports]
    from torch import nn  # pyright: ignore[reportMissingImports]
    from torch.nn import functional  # pyright: ignore[reportMissingImports]

    width, hidden, heads, shared = given.width, given.hidden, given.heads, given.shared
    each = width // heads
    torch.manual_seed(0)

    def linear(of: int, to: int) -> Any:
        return nn.Linear(of, to, bias=False)

    class Norm(nn.Module):  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x: Any) -> Any:
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    def turned(x: Any, c: Any, s: Any) -> Any:
        a, b = x.chunk(2, -1)
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    class Block(nn.Module):  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = Norm(), Norm()
            self.q, self.o = linear(width, width), linear(width, width)
            self.k, self.v = linear(width, shared * each), linear(width, shared * each)
            self.gate, self.up, self.down = linear(width, hidden), linear(width, hidden), linear(hidden, width)

        def forward(self, x: Any, c: Any, s: Any, mask: Any, keys: Any, values: Any) -> Any:
            rows, length, _ = x.shape
            h = self.before(x)
            q = turned(self.q(h).reshape(rows, length, heads, each).transpose(1, 2), c, s)
            k = turned(self.k(h).reshape(rows, length, shared, each).transpose(1, 2), c, s)
            v = self.v(h).reshape(rows, length, shared, each).transpose(1, 2)
            k, v = torch.cat([keys, k], 2), torch.cat([values, v], 2)
            wide_k, wide_v = (x.repeat_interleave(heads // shared, 1) for x in (k, v))
            seen = ((q @ wide_k.transpose(-2, -1)) / math.sqrt(each) + mask).softmax(-1) @ wide_v
            x = x + self.o(seen.transpose(1, 2).reshape(rows, length, width))
            h = self.between(x)
            return x + self.down(functional.silu(self.gate(h)) * self.up(h)), k, v

    class Decoder(nn.Module):  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(given.words, width)
            self.blocks = nn.ModuleList(Block() for _ in range(given.layers))
            self.norm, self.head = Norm(), linear(width, given.words)
            half = each // 2
            angle = torch.arange(512)[:, None] * (10000.0 ** (-torch.arange(half) / half))[None]
            self.register_buffer("cos", angle.cos())
            self.register_buffer("sin", angle.sin())

        def forward(self, input_ids: Any, attention_mask: Any, past: Any) -> Any:
            length, before = input_ids.shape[1], past[0].shape[2]
            places = torch.arange(length) + before
            is_seen = torch.arange(length + before)[None] <= places[:, None]
            mask = torch.where(is_seen[None, None] & (attention_mask[:, None, None, :] > 0), 0.0, -1e4)
            x, found = self.embed(input_ids), []
            for number, block in enumerate(self.blocks):
                x, *new = block(x, self.cos[places], self.sin[places], mask, past[2 * number], past[2 * number + 1])
                found += new
            return (self.head(self.norm(x)), *found)

    names = [f"{kind}_{number}" for number in range(given.layers) for kind in ("key", "value")]
    free = torch.export.Dim.DYNAMIC
    ids, mask = torch.ones(2, 5, dtype=torch.long), torch.ones(2, 8, dtype=torch.long)
    program = torch.onnx.export(
        Decoder().eval(),
        (ids, mask, [torch.zeros(2, shared, 3, each) for _ in names]),
        dynamo=True,
        opset_version=20,
        input_names=["input_ids", "attention_mask", *(f"past_{name}" for name in names)],
        output_names=["logits", *(f"present_{name}" for name in names)],
        dynamic_shapes=({0: free, 1: free}, {0: free, 1: free}, [{0: free, 2: free}] * len(names)),
    )
    program.save(str(given.out), external_data=True)


def rounding(given: argparse.Namespace) -> None:
    """Quantize weights in this process, which the parent process monitors."""
    import graphport as gp

    if given.limit:
        resource.setrlimit(resource.RLIMIT_DATA, (given.limit << 20, given.limit << 20))
    started, spent = time.time(), time.process_time()
    made = gp.quantize(
        gp.load(given.net),
        given.calibration,
        preset=given.preset,
        weights_only=True,
        weight_bits=4,
        weight_block=32,
        threads=given.threads,
    )
    gp.save(made, given.out)
    report = made.report
    snr = "" if report is None else f"{report.snr_db:.2f} dB"
    sys.stdout.write(f"{time.time() - started:.0f} s, {time.process_time() - spent:.0f} s of processors, {snr}\n")


def watched(given: argparse.Namespace) -> int:
    """Run this program in a child process and print its memory peaks."""
    child = subprocess.Popen([sys.executable, __file__, *sys.argv[1:], "--watched"])
    peaks = {"RssAnon": 0, "VmRSS": 0}
    while child.poll() is None:
        try:
            lines = Path(f"/proc/{child.pid}/status").read_text("utf-8").splitlines()
        except OSError:
            break
        for name, _, rest in (line.partition(":") for line in lines):
            if name in peaks:
                peaks[name] = max(peaks[name], int(rest.split()[0]) // 1024)
        time.sleep(_EACH)
    files = [given.net, given.net.with_name(given.net.name + ".data"), given.out]
    sizes = {path.name: path.stat().st_size >> 20 for path in files if path.exists()}
    sys.stdout.write(f"private memory {peaks['RssAnon']} MB, all pages {peaks['VmRSS']} MB; MB of files: {sizes}\n")
    return child.wait()


def main() -> None:
    """Make a model, or quantize one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    made = verbs.add_parser("make")
    made.add_argument("out", type=Path)
    sizes = {"width": 4096, "layers": 5, "hidden": 11008, "heads": 32, "shared": 8, "words": 8000}
    for name, default in sizes.items():
        made.add_argument(f"--{name}", type=int, default=default)
    rounded = verbs.add_parser("round")
    rounded.add_argument("net", type=Path)
    rounded.add_argument("out", type=Path)
    rounded.add_argument("--limit", type=int, default=0, help="MB of private memory")
    rounded.add_argument("--preset", default="fast")
    rounded.add_argument("--calibration")
    rounded.add_argument("--threads", type=int, default=0)
    rounded.add_argument("--watched", action="store_true")
    given = parser.parse_args()
    if given.verb == "make":
        make(given)
    elif given.watched:
        rounding(given)
    else:
        sys.exit(watched(given))


if __name__ == "__main__":
    main()
