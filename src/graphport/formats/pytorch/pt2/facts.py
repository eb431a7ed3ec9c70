"""Facts that a program declares for its values; inferred facts are compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbol, TooLong
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.pytorch.pt2.schema import SchemaError, dtype_of, fail, fields, integer, list_of, text, union
from graphport.formats.pytorch.pt2.symbolic_sizes import ExtentError, Extents, Opaque

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact

MOST_RANK = 64


class Recorded:
    """Declared facts of one graph: tensors, and scalars computed from sizes."""

    def __init__(self, graph: dict[str, Any], extents: Extents, known: dict[Any, TensorFact]) -> None:
        self._tensors = fields(graph.get("tensor_values", {}), "tensor_values")
        self._integers = fields(graph.get("sym_int_values") or {}, "sym_int_values")
        self._flags = fields(graph.get("sym_bool_values") or {}, "sym_bool_values")
        self._reals = fields(graph.get("sym_float_values") or {}, "sym_float_values")
        self._extents = extents
        # Equal facts share one object: layers repeat, and inference caches by identity.
        self._known = known

    def tensor(self, name: str) -> TensorFact:
        """Return element type and shape of a tensor.

        Raises:
            SchemaError: the description is malformed.
        """
        meta = self._tensors.get(name)
        if meta is None:
            return UNKNOWN
        found = fields(meta, f"the description of {name}")
        sizes = list_of(found.get("sizes"), f"the sizes of {name}")
        if len(sizes) > MOST_RANK:
            fail(f"{name} has {len(sizes)} axes")
        dtype = dtype_of(found.get("dtype"), f"the element type of {name}")
        dims = tuple(self.dim(size, f"{name}.{axis}") for axis, size in enumerate(sizes))
        fact = TensorFact(dtype, dims)
        return self._known.setdefault(fact, fact)

    def is_dense(self, name: str) -> bool:
        """Whether a tensor is contiguous."""
        meta = self._tensors.get(name)
        if not isinstance(meta, dict):
            return True
        found = fields(meta, name)
        sizes, strides = (list_of(found.get(key), f"the {key} of {name}") for key in ("sizes", "strides"))
        step: Dim | None = 1
        for size, stride in zip(reversed(sizes), reversed(strides), strict=False):
            n = self._parse_size(size, name)
            if n != 1 and (step is None or self._parse_size(stride, name) != step):
                return False
            try:
                step = None if n is None or step is None else step * n
            except TooLong:
                step = None
        return True

    def offset(self, name: str) -> int | None:
        """Return the element offset of a tensor in its storage; `None` if it is symbolic."""
        meta = self._tensors.get(name)
        given = fields(meta, name).get("storage_offset") if isinstance(meta, dict) else None
        found = 0 if given is None else self._parse_size(given, f"the offset of {name}")
        return found if isinstance(found, int) else None

    def integer(self, name: str) -> Fact:
        """Return the fact of an integer computed from sizes."""
        size = self._integers.get(name)
        dim = None if size is None else self._parse_size(size, name)
        return TensorFact(DType.INT64, (), None if dim is None else (dim,))

    def flag(self, name: str) -> Fact:
        """Return the fact of a condition on sizes."""
        del name
        return TensorFact(DType.BOOL, ())

    def float_fact(self, name: str) -> Fact:
        """Return the fact of a float computed from sizes."""
        del name
        return TensorFact(DType.FLOAT64, ())

    def dim(self, size: Any, name: str) -> Dim:
        """Return a dim; an unknown one is a symbol named after the axis.

        Raises:
            SchemaError: the size is malformed.
        """
        found = self._parse_size(size, f"the size {name}")
        if isinstance(found, int) and found < 0:
            fail(f"the size {name} is {found}")
        return Symbol(name) if found is None else found

    def _parse_size(self, size: Any, what: str) -> Dim | None:
        kind, value = union(size, what)
        if kind == "as_int":
            return integer(value, what)
        if kind != "as_expr":
            return fail(f"{what} is {kind}, expected a size")
        written = text(fields(value, what).get("expr_str"), f"the expression of {what}")
        try:
            found = self._extents.parse(written)
        except ExtentError as error:
            message = f"{what} {error}"
            raise SchemaError(message) from error
        return None if isinstance(found, Opaque | bool) else found
