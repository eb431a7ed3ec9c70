"""Folders of Hugging Face: `config.json` and safetensors files, whole or in shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.diagnostics import Source
from graphport.formats.checkpoint.container import recognition
from graphport.formats.checkpoint.container.config import Config, read_json, read_list
from graphport.formats.checkpoint.container.faults import fault
from graphport.formats.checkpoint.container.safetensors import read_safetensors

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.core.storage import Storage

MAX_SHARDS = 1000


def read_config(folder: Path) -> Config:
    """Return the configuration of a folder.

    Raises:
        DiagnosticError: CKPT0001 it is absent or cannot be read; CKPT0002 it is malformed; CKPT0005 an adapter.
    """
    path = folder / recognition.CONFIG
    if not path.exists() and (folder / recognition.ADAPTER).exists():
        message = "unsupported: the folder contains an adapter (LoRA) without its base model"
        raise fault("CKPT0005", message, Source(str(folder)), remedy="merge the adapter into its base model")
    if not path.exists():
        message = f"the folder has no {recognition.CONFIG}"
        raise fault("CKPT0001", message, Source(str(folder)), remedy="copy it from the source of the weights")
    return Config(read_json(path), Source(str(path)))


def read_tensors(folder: Path) -> dict[str, Storage]:
    """Return the tensors of all safetensors files of a folder.

    Raises:
        DiagnosticError: CKPT0001 to CKPT0003, a file is absent or malformed; CKPT0005 only pickles or adapters.
    """
    index = folder / recognition.INDEX
    single = folder / recognition.WEIGHTS
    if not index.exists() and not index.is_symlink():
        if not single.exists() and not single.is_symlink():
            raise _without_weights(folder)
        return read_safetensors(_resolve_shard(folder, recognition.WEIGHTS))
    found: dict[str, Storage] = {}
    weight_map = _weight_map(index)
    for file in dict.fromkeys(weight_map.values()):
        tensors = read_safetensors(_resolve_shard(folder, file))
        _check_shard(index, weight_map, file, tensors)
        found.update(tensors)
    return found


def _resolve_shard(folder: Path, file: str) -> Path:
    """Return the path of a weight file, which may be a link inside the folder or into the real folder of its config.

    A cache of Hugging Face stores all files of a model in one folder, to which the links of its snapshots lead.

    Raises:
        DiagnosticError: CKPT0001 the file is outside of both folders, or its links form a loop.
    """
    path = folder / file
    try:
        real = path.resolve()
        roots = (folder.resolve(), (folder / recognition.CONFIG).resolve().parent)
    except RuntimeError as error:
        raise fault(
            "CKPT0001", f"{file} is a link to itself", Source(str(folder)), remedy="check the folder"
        ) from error
    if not any(real.is_relative_to(root) for root in roots):
        message = f"{file} is a link to {real}, outside of the model's folder"
        raise fault("CKPT0001", message, Source(str(folder)), remedy="copy the file into the folder")
    return path


def _check_shard(index: Path, weight_map: dict[str, str], file: str, tensors: dict[str, Storage]) -> None:
    source = Source(str(index))
    missing = next((name for name, owner in weight_map.items() if owner == file and name not in tensors), None)
    if missing is not None:
        message = f"{missing[:200]!r} is not in {file}, expected by the index"
        raise fault("CKPT0007", message, source, missing[:200], "download the shards again")
    foreign = next((name for name in tensors if weight_map.get(name, file) != file), None)
    if foreign is not None:
        message = f"{foreign[:200]!r} is in {file} and in {weight_map[foreign]}"
        raise fault("CKPT0007", message, source, foreign[:200], "download the shards again")


def _weight_map(index: Path) -> dict[str, str]:
    config = Config(read_json(index), Source(str(index)))
    section = config.section("weight_map")
    if section is None or not section.values:
        raise config.fault("weight_map", "the index has no weight_map", "download the index again")
    for name, file in section.values.items():
        is_plain = isinstance(file, str) and not set(file) & set("/\\:\0") and file not in {"", ".", ".."}
        if not is_plain or not file.endswith(".safetensors"):
            message = f"{name[:200]!r} is mapped to {str(file)[:200]!r}, expected a safetensors file of the folder"
            raise section.fault(name[:200], message, "use file names without folders in the index")
    files = set(section.values.values())
    if len(files) > MAX_SHARDS:
        raise section.fault("weight_map", f"the index lists {len(files)} files, the limit is {MAX_SHARDS}")
    return dict(section.values)


def _without_weights(folder: Path) -> Exception:
    source = Source(str(folder))
    pickles = (recognition.PICKLE, f"{recognition.PICKLE}.index.json")
    if (folder / "adapter_model.safetensors").exists():
        message = "unsupported: the folder contains an adapter (LoRA) without its base model"
        return fault("CKPT0005", message, source, remedy="merge the adapter into its base model")
    if any((folder / name).exists() for name in pickles):
        message = (
            f"unsupported: the weights are a pickle ({recognition.PICKLE}), which can execute code when it is loaded"
        )
        return fault("CKPT0005", message, source, remedy="convert the weights to safetensors")
    message = f"the folder has neither {recognition.WEIGHTS} nor {recognition.INDEX}"
    return fault("CKPT0001", message, source, remedy="copy the weights into the folder")


class Pooling(NamedTuple):
    """How a sentence-transformers model makes one vector of the hidden states."""

    is_first: bool
    """Whether it takes the first token; otherwise it takes the mean."""
    is_normalized: bool


def read_pooling(folder: Path) -> Pooling | None:
    """Return the pooling that `modules.json` describes, or None if the file is absent.

    Raises:
        DiagnosticError: CKPT0002 a file is malformed; CKPT0005 another kind of pooling or module.
    """
    path = folder / "modules.json"
    if not path.exists():
        return None
    modules = read_list(path)
    kinds = [str(cast("dict[str, Any]", each).get("type", "")) for each in modules if isinstance(each, dict)]
    names = [kind.rsplit(".", 1)[-1] for kind in kinds]
    unknown = sorted(set(names) - {"Transformer", "Pooling", "Normalize"})
    if unknown or "Pooling" not in names:
        message = f"unsupported: the modules {', '.join(unknown or names)[:200]} of sentence-transformers"
        raise fault(
            "CKPT0005", message, Source(str(path)), remedy="use a model with only Transformer, Pooling and Normalize"
        )
    config_path = folder / "1_Pooling" / recognition.CONFIG
    config = Config(read_json(config_path), Source(str(config_path)))
    modes = [name for name in config.values if name.startswith("pooling_mode_") and config.flag(name, default=False)]
    if modes not in (["pooling_mode_mean_tokens"], ["pooling_mode_cls_token"]):
        message = f"unsupported: {' and '.join(modes) or 'no pooling mode'}"
        raise fault("CKPT0005", message, Source(str(config_path)), remedy="use mean pooling or the first token")
    return Pooling(modes == ["pooling_mode_cls_token"], "Normalize" in names)
