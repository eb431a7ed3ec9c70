"""Settings of generation and the files of a tokenizer, for the folder that a runtime of language models takes."""

from __future__ import annotations

import json
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from graphport.formats.checkpoint.container.config import Config, read_json

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.formats.checkpoint.architecture.declaration import Decoder

NOTE = "genai"
"""The note of a graph with these settings, as JSON."""

_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json"),
    *("merges.txt", "chat_template.jinja", "chat_template.json", "vocab.txt", "tokenizer.model", "spiece.model"),
    *("sentencepiece.bpe.model", "spm.model", "tekken.json"),
)
"""Files of tokenizers, copied byte for byte; templates are never rendered."""
_MAX_TOKENS = 64


def generation_settings(config: Config, decoder: Decoder, folder: Path | None) -> str:
    """Return the settings of a decoder: of `config.json`, and of `generation_config.json` if the folder has one.

    Raises:
        DiagnosticError: CKPT0002 the file is malformed; CKPT0006 a value has another type.
    """
    generation = config
    path = None if folder is None else folder / "generation_config.json"
    if path is not None and path.is_file():
        generation = Config(read_json(path), config.source)
    model: dict[str, Any] = {
        "type": "decoder",
        "vocab_size": decoder.vocab,
        "context_length": decoder.context,
        "bos_token_id": _token("bos_token_id", generation, config, 1),
        "eos_token_id": _tokens("eos_token_id", generation, config, 2),
    }
    eos = _token("eos_token_id", generation, config, 2)
    model["pad_token_id"] = _token("pad_token_id", generation, config, eos)
    search: dict[str, Any] = {}
    if generation is not config and generation.has("do_sample"):
        search["do_sample"] = generation.flag("do_sample")
        search["top_k"] = generation.integer("top_k", default=50, low=0)
    for name in ("temperature", "top_p", "repetition_penalty"):
        if generation is not config and generation.has(name):
            search[name] = generation.finite_float(name)
    settings = {
        "model": model,
        "hidden_size": decoder.hidden,
        "num_attention_heads": decoder.heads,
        "search": search,
        "files": [] if folder is None else [str(folder / name) for name in _FILES if _is_file(folder / name)],
    }
    return json.dumps(settings)


def _is_file(path: Path) -> bool:
    try:
        return S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _token(name: str, generation: Config, config: Config, default: int) -> int:
    found = _tokens(name, generation, config, default)
    return found[0] if isinstance(found, list) else found


def _tokens(name: str, generation: Config, config: Config, default: int) -> int | list[int]:
    for each in (generation, config):
        if isinstance(each.values.get(name), list):
            tokens = each.list_value(name) or []
            return [Config({name: token}, each.source).integer(name, low=0) for token in tokens[:_MAX_TOKENS]]
        if each.has(name):
            return each.integer(name, low=-1)
    return default
