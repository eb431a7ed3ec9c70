"""Write files of torch.save and others of PyTorch that are no TorchScript into `kinds/`. Needs torch (MIT, made up here)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent / "kinds"


def main() -> None:
    """Write all kinds."""
    HERE.mkdir(exist_ok=True)
    module = nn.Linear(2, 3)
    weights = module.state_dict()
    torch.save(weights, HERE / "state_dict.pt")
    torch.save(weights, HERE / "state_dict_old.pt", _use_new_zipfile_serialization=False)
    torch.save(module, HERE / "module.pt")
    torch.save(module, HERE / "module_old.pt", _use_new_zipfile_serialization=False)
    torch.save({"epoch": 3, "state_dict": weights, "optimizer": {}}, HERE / "checkpoint.pt")
    torch.save(torch.ones(2, 3), HERE / "tensor.pt")
    torch.save([torch.ones(2)], HERE / "list.pt")
    with torch.package.PackageExporter(str(HERE / "package.pt")) as exporter:
        exporter.save_text("a", "b", "c")


if __name__ == "__main__":
    main()
