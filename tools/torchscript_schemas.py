"""Write the table of PyTorch's operator schemas that the TorchScript reader uses to select overloads.

Needs torch: `python tools/torchscript_schemas.py > src/graphport/formats/pytorch/schemas.txt`. Schemas of one operator
are in torch's registration order, in which torch tries them.
"""

from __future__ import annotations

import re
import sys

import torch  # pyright: ignore[reportMissingImports]  # in a separate environment

UNREAD = re.compile(
    r"backward|sparse|mkldnn|cudnn|miopen|mps|_foreach|_fused|_nested|nested_|_cslt|_amp_|_test_|_triton|_flash|_efficient"
    r"|_philox|_sobol|_fft_|_thnn|fbgemm|_weight_int|_scaled_mm|_scaled_grouped|_grouped_mm|csr|csc|bsr|bsc|coo|_cufft|jagged"
)
NAMESPACES = ("aten::", "torchvision::")


def is_read(schema: str) -> bool:
    """Return whether a schema takes or returns tensors and has no `out` argument."""
    name, _, rest = schema.partition("(")
    if UNREAD.search(name) or ".out" in name or "_out" in name or "Dimname" in rest:
        return False
    return "Tensor" in rest and "! out" not in rest


def main() -> None:
    """Print the table."""
    names = dict.fromkeys(schema.name for schema in torch._C._jit_get_all_schemas())
    for name in sorted(names):
        if name.startswith("aten::"):
            for schema in torch._C._jit_get_schemas_for_operator(name):
                text = re.sub(r"Tensor\([a-z][^)A-Z]*\)", "Tensor", str(schema)).removeprefix("aten::")
                if is_read(text):
                    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
