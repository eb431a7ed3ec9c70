"""Files that are not TorchScript get a message that names them; `make_kinds.py` made those of PyTorch."""

import io
import zipfile
from pathlib import Path

import pytest

import graphport as gp

KINDS = Path(__file__).parent / "kinds"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("state_dict.pt", "state dict of 2 weights without a network, for example weight float32 3x2"),
        ("state_dict_old.pt", "state dict of 2 weights without a network, for example weight float32 3x2"),
        ("module.pt", "a module written by torch.save, .* of class torch.nn.modules.linear.Linear"),
        ("module_old.pt", "a module written by torch.save, .* of class torch.nn.modules.linear.Linear"),
        ("checkpoint.pt", "training checkpoint with the keys epoch, state_dict, optimizer"),
        ("tensor.pt", "a single tensor, float32 2x3"),
        ("list.pt", "a list of 1 items"),
        ("package.pt", "torch.package"),
    ],
)
def test_files_of_torch_save(name, words):
    with pytest.raises(gp.DiagnosticError, match=f"TS0001.*{words}.*torch.export"):
        gp.load(KINDS / name)


def archive(*names):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as file:
        for name in names:
            file.writestr(name, b"x")
    return data.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull", id="lfs"),
        pytest.param(b"<!doctype html><p>404", "HTML page", id="html"),
        pytest.param(b"\x1f\x8b\x08" + b"0" * 40, "gzip", id="gzip"),
        pytest.param(b"\0\0\0\0PTMF" + b"0" * 40, "lite interpreter", id="mobile flatbuffer"),
        pytest.param(b"\0\0\0\0ET12" + b"0" * 40, "ExecuTorch", id="ExecuTorch"),
        pytest.param(archive("MAR-INF/MANIFEST.json", "model.pt"), "TorchServe.*unzip FILE model.pt", id="TorchServe"),
        pytest.param(archive("m/model.json", "m/tensors/0"), "1.0 to 1.2", id="torch 1.0"),
        pytest.param(archive("m/bytecode.pkl", "m/data.pkl"), "with bytecode but without code", id="bytecode"),
        pytest.param(archive("weights.npy"), "NumPy arrays", id="npz"),
        pytest.param(archive("a/other.txt"), "not TorchScript", id="other zip"),
        pytest.param(b"", "empty", id="empty"),
    ],
)
def test_other_files_with_this_ending(data, words, tmp_path):
    path = tmp_path / "m.pt"
    path.write_bytes(data)
    with pytest.raises(gp.DiagnosticError, match=f"(?s)(TS0001|IO0017).*{words}"):
        gp.load(path)
