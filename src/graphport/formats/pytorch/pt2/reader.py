"""Read exported programs as dialect graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dims import Symbolic, symbols
from graphport.core.dims.example import BATCH
from graphport.core.facts import TensorFact
from graphport.core.garbage_collection import paused_collection
from graphport.core.storage import Bytes, MappedFile
from graphport.formats.pytorch.pt2 import programs, pytrees, signature
from graphport.formats.pytorch.pt2.build import DIALECT, Builder, GraphReader
from graphport.formats.pytorch.pt2.container import Container
from graphport.formats.pytorch.pt2.schema import SchemaError, fail, fields, list_of, text, union
from graphport.formats.pytorch.pt2.spans import Spans
from graphport.formats.pytorch.pt2.symbolic_sizes import Extents, Range
from graphport.ir.graph import Graph, Node, Value

ALIAS = "aten.alias.default"
VERSION = "pt2.version"
MUTATED = "pt2.mutated"
"""Note of a graph: the mutated weights, as pairs of qualified name and new value."""
STATES = "pt2.states"
"""Note of a graph whose mutated buffers are converted to inputs and outputs."""
_MIN_EXPORTED = 2
"""Lower bound of sizes that torch.export does not specialize: shapes of the file may not hold for 1."""


def versions(graph: Graph) -> dict[str, str]:
    """Return the schema version and the PyTorch version of the file."""
    found = graph.notes.get(VERSION) if graph.has_notes else None
    return dict(cast("dict[str, str]", found)) if isinstance(found, dict) else {}


def read(path: str | Path, *, program: str | None = None, states: bool = False) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of a program, and warnings.

    With `states`, mutated buffers are converted to inputs and outputs of the model.

    Raises:
        DiagnosticError: PT0001 to PT0006 errors of the archive, PT0007 to PT0010 no supported program, PT0011 an
            error of the program.
    """
    source = Source(str(path))
    try:
        return _read(MappedFile(Path(path)), source, Path(path).stem, program, states=states)
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("IO0006", message, Span(source), "check the path")) from error


def read_bytes(data: bytes, *, states: bool = False) -> tuple[Graph, list[Diagnostic]]:
    """Read the dialect graph of a program from memory, with the diagnostics of `read`."""
    return _read(Bytes(data), Source("exported program"), "main", None, states=states)


def _read(
    file: MappedFile | Bytes, source: Source, name: str, program: str | None, *, states: bool
) -> tuple[Graph, list[Diagnostic]]:
    try:
        container = Container(file, source)
        with paused_collection():
            chosen = programs.program(container, program)
            graph = _ProgramReader(container, chosen, name).graph()
            if states:
                graph.notes[STATES] = True
            return graph, chosen.findings
    except SchemaError as error:
        raise DiagnosticError(Diagnostic("PT0011", str(error), Span(source), "export the module again")) from error


class _ProgramReader:
    def __init__(self, container: Container, chosen: programs.Program, stem: str) -> None:
        self._source = container.source
        self._chosen = chosen
        self._module = fields(chosen.document.get("graph_module"), "graph_module")
        self._signature = fields(self._module.get("signature"), "the signature")
        self._document = fields(self._module.get("graph"), "the graph")
        self._specs = list(signature.inputs(self._signature))
        self._extents = Extents(_ranges(chosen.document.get("range_constraints")))
        self._extents.names = _symbol_names(self._document, self._specs)
        self._builder = Builder(self._extents, Spans(container.source))
        self._reader = GraphReader(self._builder, self._document, stem)

    def graph(self) -> Graph:
        """Build the graph with inputs, weights, nodes and outputs."""
        self._inputs()
        self._reader.nodes()
        self._outputs()
        made = self._reader.made
        made.opsets[DIALECT] = 1
        made.notes[VERSION] = self._chosen.versions
        if any(each.least == _MIN_EXPORTED for each in self._extents.ranges.values()):
            made.notes[BATCH] = _MIN_EXPORTED
        return made

    # Inputs

    def _inputs(self) -> None:
        declared = list_of(self._document.get("inputs"), "the inputs")
        if len(declared) != len(self._specs):
            fail(f"the graph has {len(declared)} inputs, but its signature has {len(self._specs)}")
        names = {spec.name for spec in self._specs if isinstance(spec, signature.UserInput)}
        for spec, argument in zip(self._specs, declared, strict=True):
            if spec is None:
                continue
            name = _named(argument)
            if name != spec.name:
                fail(f"the graph has the input {name!r}, but its signature has {spec.name!r}")
            if isinstance(spec, signature.Weight):
                self._weight(spec, names)
                continue
            fact = self._reader.recorded.integer(name) if spec.is_scalar else self._reader.recorded.tensor(name)
            self._reader.made.adopt_input(self._reader.value(name, fact))

    def _weight(self, spec: signature.Weight, taken: set[str]) -> None:
        storage = self._chosen.weights.storage(spec.folder, spec.full_name)
        claim = self._reader.recorded.tensor(spec.name)
        fact = TensorFact.of(storage)
        if (fact.dtype, fact.shape) != (claim.dtype, claim.shape):
            fail(f"the data of {spec.full_name!r} is {fact}, but the program declares {claim}")
        own = spec.full_name if spec.full_name not in taken else spec.name
        value = self._reader.value(spec.name, fact, own)
        value.storage = storage
        self._reader.made.adopt_constant(value)

    # Outputs

    def _check_outputs(self, specs: list[signature.Returned]) -> None:
        """Compare the outputs of the signature with the outputs of the graph, which a valid file repeats.

        Raises:
            SchemaError: their counts differ, or the names at an index.
        """
        declared = list_of(self._document.get("outputs"), "the outputs")
        stated = list_of(self._signature.get("output_specs"), "output_specs")
        if len(declared) != len(stated):
            fail(f"the graph has {len(declared)} outputs, but its signature has {len(stated)}")
        for spec in specs:
            name, other = _output_name(spec.argument), _output_name(declared[spec.output_index])
            if name is not None and name != other:
                fail(f"the graph returns {other!r} as output {spec.output_index}, but its signature has {name!r}")

    def _outputs(self) -> None:
        specs = list(signature.outputs(self._signature))
        self._check_outputs(specs)
        paths = pytrees.output_paths(
            self._module.get("module_call_graph"), self._module.get("treespec_namedtuple_fields")
        )
        returned = [spec for spec in specs if spec.mutated is None]
        if len(paths) != len(returned):
            paths = [()] * len(returned)
        self._note_mutations([spec for spec in specs if spec.mutated is not None])
        named: set[Value] = set()
        for spec, path in zip(returned, paths, strict=True):
            kind, value = union(spec.argument, "an output")
            if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
                kind, value = union(value, "an output")
            if kind not in ("as_tensor", "as_name"):
                # A scalar or string that does not depend on the inputs: PyTorch returns it without computation.
                continue
            name = value if kind == "as_name" else fields(value, "an output").get("name")
            self._return(self._reader.lookup(text(name, "an output")), pytrees.name_of(path), named)

    def _return(self, value: Value, name: str | None, named: set[Value]) -> None:
        made = self._reader.made
        # A value that is returned twice, or that is an input, gets another name as an output.
        if value in named or value.producer is None:
            result = Value(self._builder.name(value.name), value.fact)
            made.append(Node(ALIAS, [value], [result], {"$": ("self",)}, dialect=DIALECT))
            value = result
        named.add(value)
        if name is not None and name != value.name:
            made.rename(value, self._builder.name(name))
        made.add_output(value)

    def _note_mutations(self, specs: list[signature.Returned]) -> None:
        found = [
            (str(spec.mutated), self._reader.lookup(_named(spec.argument)), spec.kind == "buffer_mutation")
            for spec in specs
        ]
        if found:
            self._reader.made.notes[MUTATED] = tuple((name, value.name, kept) for name, value, kept in found)


def _output_name(argument: Any) -> str | None:
    """Return the name of the output value; `None` for a static scalar."""
    kind, value = union(argument, "an output")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        kind, value = union(value, "an output")
    if kind == "as_name":
        return text(value, "an output")
    return text(fields(value, "an output").get("name"), "an output") if kind == "as_tensor" else None


def _named(argument: Any) -> str:
    kind, value = union(argument, "an input")
    if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
        return text(union(value, "an input")[1], "an input")
    return text(fields(value, "an input").get("name"), "an input")


def _ranges(found: Any) -> dict[str, Range]:
    """Return the ranges of symbols; ranges of expressions are derived from them."""
    ranges: dict[str, Range] = {}
    for name, constraint in fields(found or {}, "range_constraints").items():
        if not name.isidentifier():
            continue
        ends = fields(constraint, f"the range of {name}")
        low, high = (_end(ends.get(key)) for key in ("min_val", "max_val"))
        ranges[name] = Range(low, high)
    return ranges


def _end(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 1 << 62 else None


def _symbol_names(
    document: dict[str, Any], specs: list[signature.Weight | signature.UserInput | None]
) -> dict[str, str]:
    """Name symbols after the first input and axis whose size they are, or after the input itself if it is a scalar."""
    probe = Extents()
    facts = GraphReader(Builder(probe, Spans(Source(""))), document, "").recorded
    names: dict[str, str] = {}
    for spec in specs:
        if not isinstance(spec, signature.UserInput):
            continue
        fact = facts.integer(spec.name) if spec.is_scalar else facts.tensor(spec.name)
        if not isinstance(fact, TensorFact):
            continue
        dims = (fact.elements or ()) if spec.is_scalar else (fact.shape or ())
        for axis, dim in enumerate(dims):
            if isinstance(dim, Symbolic) and (own := str(dim)) in symbols(dim):
                names.setdefault(own, spec.name if spec.is_scalar else f"{spec.name}.dim{axis}")
    return names
