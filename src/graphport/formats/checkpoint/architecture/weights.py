"""Tensors of a checkpoint by name, with their shapes checked and their uses recorded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Source, Span
from graphport.core.dtypes import DType
from graphport.formats.checkpoint.container.faults import fault, note
from graphport.formats.checkpoint.container.tensors import float_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from graphport.core.storage import Storage

_MAX_LISTED = 8
"""Number of tensors that a diagnostic lists."""

_WITHOUT_MEANING = re.compile(
    r"(^|\.)(rotary_emb\.inv_freq|masked_bias|attn\.bias|attention\.bias|position_ids|causal_mask|embed_positions"
    r"|token_type_ids|attn\.masked_bias|rotary_emb\.(cos|sin)_cached|(activation_)?post_[a-z_]*fake_quantize)$"
)
"""Buffers that other programs store: masks, tables of frequencies, constant positions."""
_OTHER_MODALITIES = re.compile(r"(^|\.)(vision_tower|multi_modal_projector|vision_model|audio_tower|embed_vision)\.")
"""Parts of models of several modalities, of which the language model is read."""
_OTHER_TASKS = re.compile(
    r"^(cls|lm_head|classifier|score|qa_outputs|pooler|vocab_[a-z_]+|head|decoder|predictions|sop_classifier)\."
)
"""Heads of other tasks than that of the architecture."""
_LAYER = re.compile(r"\.(\d+)\.")


class Weights:
    """The tensors of a model.

    Names are canonical: the first of `prefixes` that the names of a file begin with is removed.
    """

    def __init__(
        self, tensors: Mapping[str, Storage], source: Source, canonical: Callable[[str], str] = lambda name: name
    ) -> None:
        self.source = source
        self.tensors = {canonical(name): storage for name, storage in tensors.items()}
        self.used: set[str] = set()

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self.tensors

    def float(self, name: str, *shapes: Sequence[int]) -> Storage:
        """Return a tensor as float32, checked against `shapes` if any are passed.

        Raises:
            DiagnosticError: CKPT0007 it is missing or has another shape; CKPT0005 it has another element type.
        """
        storage = self.stored(name, *shapes)
        if storage.dtype not in {DType.FLOAT32, DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64}:
            message = f"unsupported: {name} has the element type {storage.dtype}"
            raise fault("CKPT0005", message, self.source, name, "dequantize the checkpoint")
        return float_storage(storage)

    def stored(self, name: str, *shapes: Sequence[int]) -> Storage:
        """Return a tensor in its own element type; raises as `float`."""
        storage = self.tensors.get(name)
        if storage is None:
            message = f"the tensor {name} is missing"
            raise fault("CKPT0007", message, self.source, name, "use the configuration of this model")
        if shapes and storage.shape not in {tuple(shape) for shape in shapes}:
            expected = " or ".join(str(list(shape)) for shape in shapes)
            message = f"{name} has shape {list(storage.shape)}, expected {expected}"
            raise fault("CKPT0007", message, self.source, name, "use the configuration of this model")
        self.used.add(name)
        return storage

    def findings(self, *, has_other_tasks: bool) -> list[Diagnostic]:
        """Return the findings about tensors that the model does not use.

        Raises:
            DiagnosticError: CKPT0008 tensors that belong to the model are unused.
        """
        unused = sorted(name for name, storage in self.tensors.items() if name not in self.used and storage.count)
        patterns = [_WITHOUT_MEANING, _OTHER_MODALITIES, *([_OTHER_TASKS] if has_other_tasks else [])]
        ignored = [name for name in unused if any(pattern.search(name) for pattern in patterns)]
        unknown = sorted(set(unused) - set(ignored))
        if unknown:
            message = f"{len(unknown)} tensors are not used by the configuration: {_listed(unknown)}"
            help_ = "correct the configuration: without these tensors the result would differ from the trained model"
            raise DiagnosticError(
                Diagnostic("CKPT0008", message, Span(self.source, place=unknown[0]), help_, Severity.ERROR)
            )
        if not ignored:
            return []
        message = f"the reader ignores {len(ignored)} tensors without effect on inference: {_listed(ignored)}"
        return [note("CKPT0009", message, self.source)]


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name[:100] for name in names[:_MAX_LISTED])
    return shown if len(names) <= _MAX_LISTED else f"{shown}, …"
