"""MLIR text of StableHLO, in the pretty and the generic form, mixed as files mix them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from graphport.core import budget
from graphport.formats.stablehlo.container.constants import literal_dense, raw_dense
from graphport.formats.stablehlo.container.lexer import Lexer
from graphport.formats.stablehlo.program import (
    MAX_EXTENT,
    Block,
    Dense,
    Function,
    Operation,
    OtherType,
    Program,
    Quantization,
    Symbol,
    TensorType,
    Type,
    elements_of,
)
from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.storage import Bytes, MappedFile

MAX_DEPTH = 64
"""Nesting of regions, attributes and types."""
MAX_TYPE_PARTS = 10_000
"""Types inside one type, aliases expanded."""
MAX_DIGITS = 40
"""Digits of one integer."""

_INTEGER = re.compile(rf"-?(?:0x[0-9A-Fa-f]{{1,{MAX_DIGITS}}}|[0-9]{{1,{MAX_DIGITS}}})")
_DIMS = re.compile(rb"[ \t\r\n]*((?:(?:\d+|\?)[ \t\r\n]*x[ \t\r\n]*)*)")
_DENSE = re.compile(rb"[ \t\r\n]*<[ \t\r\n]*(?:\"(0x[0-9A-Fa-f]*)\"|([^<>\"]*))[ \t\r\n]*>")
_ALIAS = re.compile(rb"(?m)^[ \t]*([#!][A-Za-z_][\w.$-]*)[ \t\r\n]*=(?!=)")
_RESOURCE = re.compile(rb"([\w.$-]+)[ \t\r\n]*:[ \t\r\n]*\"(0x[0-9A-Fa-f]*)\"")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"), ("<", ">"))

_KEYS: dict[str, dict[str, str]] = {
    "broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "dynamic_broadcast_in_dim": {"dims": "broadcast_dimensions"},
    "transpose": {"dims": "permutation"},
    "reverse": {"dims": "dimensions"},
    "concatenate": {"dim": "dimension"},
    "iota": {"dim": "iota_dimension"},
    "dynamic_iota": {"dim": "iota_dimension"},
    "get_dimension_size": {"dim": "dimension"},
    "set_dimension_size": {"dim": "dimension"},
    "dynamic_slice": {"sizes": "slice_sizes"},
    "broadcast": {"sizes": "broadcast_sizes"},
    "pad": {"low": "edge_padding_low", "high": "edge_padding_high", "interior": "interior_padding"},
    "fft": {"type": "fft_type", "length": "fft_length"},
    "rng": {"distribution": "rng_distribution"},
    "rng_bit_generator": {"algorithm": "rng_algorithm"},
    "einsum": {"config": "einsum_config"},
}
"""Names of attributes in the pretty form and in the generic form."""


class TextReader:
    """Reads one text."""

    def __init__(self, file: MappedFile | Bytes) -> None:
        self.file = file
        data = file.view(0, file.size)
        self._lexer = Lexer(data)
        self._aliases = {m[1]: m.end() for m in _ALIAS.finditer(data)}
        self._types: dict[str, Type] = {}
        self._attributes: dict[str, Any] = {}
        self._resolving: set[str] = set()
        self._depth = 0
        self._max_depth = budget.limit("stablehlo.depth", MAX_DEPTH)
        self._scopes: list[dict[str, list[int]]] = []
        self._keys = 0
        self._functions: dict[str, Function] = {}
        self._module: dict[str, Any] = {}

    def program(self) -> Program:
        """The functions of the module.

        Raises:
            RefusedError: SH0001 a syntax error, SH0004 an undefined or repeated name, SH0005 an unsupported type,
                SH0008 nesting or a type exceeds a limit, SH0010 an invalid constant.
        """
        lexer = self._lexer
        while lexer.kind != "end":
            if lexer.kind in ("hash", "type"):
                self._skip_alias()
            elif lexer.at("{-#"):
                lexer.skip_balanced("{-#", "#-}")
            else:
                self._top_level()
        return Program(self._functions, self._module)

    # Modules and functions

    def _top_level(self) -> None:
        lexer = self._lexer
        match lexer.kind, lexer.text:
            case "word", "module" | "builtin.module":
                self._read_module()
            case "word", "func.func":
                self._read_function()
            case "word", "sdy.mesh":
                self._skip_mesh()
            case "string", _:
                self._read_generic_top_level()
            case _:
                lexer.fail("a module or a function")

    def _skip_alias(self) -> None:
        """Skip an alias definition; it is read where it is used."""
        lexer = self._lexer
        is_type = lexer.kind == "type"
        lexer.advance()
        lexer.expect("=")
        if is_type:
            self._skip_type()
        elif lexer.at("loc"):
            self._skip_location()
        else:
            self._attribute()

    def _skip_mesh(self) -> None:
        """Skip `sdy.mesh @name = <...>`: the devices of shardings, which do not change results."""
        lexer = self._lexer
        lexer.advance()
        lexer.take_token("symbol")
        lexer.expect("=")
        self._skip_angles()
        if lexer.at("{"):
            self._dictionary()
        self._skip_location()

    def _skip_type(self) -> None:
        """Skip a type without expanding the aliases in it."""
        lexer = self._lexer
        lexer.advance()
        if lexer.at("<"):
            self._skip_angles()

    def _skip_angles(self) -> None:
        """Skip `<...>`, whose contents may not be tokens: dims are printed without spaces."""
        lexer = self._lexer
        depth, position, data = 0, lexer.start, lexer.data
        for found in re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|->|[<>]').finditer(data, position):
            sign = found[0]
            depth += (sign == b"<") - (sign == b">")
            if depth == 0:
                lexer.jump(found.end())
                return
        lexer.fail("'>'")

    def _read_module(self) -> None:
        lexer = self._lexer
        lexer.advance()
        if lexer.kind == "symbol":
            lexer.advance()
        if lexer.accept("attributes"):
            self._module.update(self._dictionary())
        lexer.expect("{")
        with self._nested():
            while not lexer.at("}"):
                self._top_level()
        lexer.advance()
        self._skip_location()

    def _nested(self) -> _Nested:
        return _Nested(self)

    def deeper(self, step: int) -> None:
        """Count the nesting.

        Raises:
            RefusedError: SH0008 it is too deep.
        """
        self._depth += step
        if self._depth > self._max_depth:
            help = "GRAPHPORT_LIMITS=stablehlo.depth=N"
            refuse("SH0008", f"nesting exceeds {self._max_depth} levels", help=help, offset=self._lexer.start)

    def _read_function(self) -> None:
        lexer, offset = self._lexer, self._lexer.start
        lexer.advance()
        is_public = True
        while lexer.kind == "word":
            is_public = lexer.text != "private"
            lexer.advance()
        name = _symbol(lexer.take_token("symbol"))
        self._scopes.append({})
        arguments: list[tuple[int, Type]] = []
        names: list[str | None] = []
        attributes: list[dict[str, Any]] = []
        lexer.expect("(")
        while not lexer.at(")"):
            if lexer.kind == "value":
                written = lexer.text
                key = self._define(written)
                lexer.advance()
                lexer.expect(":")
            else:
                written, key = "", self._new_key()
            arguments.append((key, self._type()))
            attributes.append(self._dictionary() if lexer.at("{") else {})
            located = self._skip_location()
            names.append(located or (None if re.fullmatch(r"%(arg)?\d*", written) else written[1:]))
            if not lexer.accept(","):
                break
        lexer.expect(")")
        results, result_attributes = self._function_results()
        if lexer.accept("attributes"):
            self._dictionary()
        body = None
        if lexer.at("{"):
            lexer.advance()
            with self._nested():
                body = self._block_rest(Block(arguments))
            lexer.expect("}")
        self._skip_location()
        self._scopes.pop()
        self._add(Function(name, is_public, body, results, names, attributes, result_attributes, offset))

    def _function_results(self) -> tuple[list[Type], list[dict[str, Any]]]:
        lexer = self._lexer
        results: list[Type] = []
        attributes: list[dict[str, Any]] = []
        if not lexer.accept("->"):
            return results, attributes
        if not lexer.accept("("):
            return [self._type()], [{}]
        while not lexer.at(")"):
            results.append(self._type())
            attributes.append(self._dictionary() if lexer.at("{") else {})
            if not lexer.accept(","):
                break
        lexer.expect(")")
        return results, attributes

    def _add(self, function: Function) -> None:
        if function.name in self._functions:
            refuse("SH0004", f"duplicate function @{function.name}", offset=function.offset)
        self._functions[function.name] = function

    def _read_generic_top_level(self) -> None:
        lexer, offset = self._lexer, self._lexer.start
        if lexer.string() == "sdy.mesh":
            self._generic()
            self._skip_location()
            return
        name = lexer.take_token("string")
        if name not in ("builtin.module", "func.func"):
            refuse("SH0001", f"expected a module or a function, found {name!r}", offset=offset)
        lexer.expect("(")
        lexer.expect(")")
        properties = self._properties()
        lexer.expect("(")
        lexer.expect("{")
        with self._nested():
            body = None
            if name == "builtin.module":
                self._skip_block_label()
                while not lexer.at("}"):
                    self._top_level()
            else:
                self._scopes.append({})
                body = None if lexer.at("}") else self._block()
                self._scopes.pop()
        lexer.expect("}")
        lexer.expect(")")
        attributes = properties | (self._dictionary() if lexer.at("{") else {})
        lexer.expect(":")
        self._signature()
        self._skip_location()
        if name == "builtin.module":
            self._module.update(attributes)
            return
        self._add(_generic_function(attributes, body, offset))

    def _skip_block_label(self) -> None:
        if self._lexer.kind == "block":
            self._lexer.advance()
            if self._lexer.accept("("):
                self._lexer.expect(")")
            self._lexer.expect(":")

    # Blocks and values

    def _new_key(self) -> int:
        self._keys += 1
        return self._keys

    def _define(self, name: str, count: int = 1) -> int:
        scope = self._scopes[-1]
        if name in scope:
            refuse("SH0004", f"duplicate value {name}", offset=self._lexer.start)
        scope[name] = [self._new_key() for _ in range(count)]
        return scope[name][0] if count else 0

    def _use(self) -> int:
        """Return the key of the value at the current token."""
        lexer = self._lexer
        name, _, index = lexer.text.partition("#")
        for scope in reversed(self._scopes):
            if name in scope:
                keys = scope[name]
                place = _parse_integer(index, lexer.start) if index else 0
                if place >= len(keys):
                    refuse(
                        "SH0004", f"{name} has {len(keys)} results, expected at least {place + 1}", offset=lexer.start
                    )
                lexer.advance()
                return keys[place]
        return refuse("SH0004", f"{name} is used before it is defined", offset=lexer.start)

    def _block(self) -> Block:
        """A block with an optional label, up to the closing brace."""
        lexer = self._lexer
        block = Block()
        if lexer.kind == "block":
            lexer.advance()
            if lexer.accept("("):
                self._block_arguments(block)
            lexer.expect(":")
        return self._block_rest(block)

    def _block_arguments(self, block: Block) -> None:
        """Read the arguments of a block, up to the closing parenthesis."""
        lexer = self._lexer
        while not lexer.at(")"):
            if lexer.kind != "value":
                lexer.fail("a block argument")
            key = self._define(lexer.text)
            lexer.advance()
            lexer.expect(":")
            block.arguments.append((key, self._type()))
            self._skip_location()
            if not lexer.accept(","):
                break
        lexer.expect(")")

    def _block_rest(self, block: Block) -> Block:
        lexer = self._lexer
        while not lexer.at("}"):
            if lexer.kind == "block":
                refuse(
                    "SH0005",
                    "a region has several blocks",
                    help="use structured control flow: StableHLO has no branches between blocks",
                    offset=lexer.start,
                )
            block.operations.append(self._operation())
        return block

    def _region(self) -> Block:
        lexer = self._lexer
        lexer.expect("{")
        self._scopes.append({})
        with self._nested():
            block = self._block()
        self._scopes.pop()
        lexer.expect("}")
        return block

    # Operations

    def _operation(self) -> Operation:
        lexer, offset = self._lexer, self._lexer.start
        names: list[tuple[str, int]] = []
        while lexer.kind == "value":
            name = lexer.text
            lexer.advance()
            count = 1
            if lexer.accept(":"):
                count = _integer(lexer)
                if not 0 < count <= 100_000:
                    refuse("SH0001", f"{name} cannot have {count} results", offset=offset)
            names.append((name, count))
            if not lexer.accept(","):
                break
        if names:
            lexer.expect("=")
        if lexer.kind == "string":
            operation = self._generic()
        elif lexer.kind == "word":
            operation = self._pretty()
        else:
            lexer.fail("an operation")
        operation.offset = offset
        located = self._lexer.at("loc")
        if located:
            self._skip_location()
        total = sum(count for _, count in names)
        if names and total != len(operation.result_types):
            message = f"{operation.shown()} has {len(operation.result_types)} results, but {total} result names"
            refuse("SH0004", message, offset=offset)
        for name, count in names:
            self._define(name, count)
            operation.results += self._scopes[-1][name]
        if not names:
            operation.results = [self._new_key() for _ in operation.result_types]
        return operation

    def _generic(self) -> Operation:
        lexer = self._lexer
        name = _short(lexer.take_token("string"))
        operands = self._operands()
        if lexer.at("["):
            refuse("SH0005", f"{name} has successor blocks", offset=lexer.start)
        attributes = self._properties()
        regions: list[Block] = []
        if lexer.accept("("):
            while True:
                regions.append(self._region())
                if not lexer.accept(","):
                    break
            lexer.expect(")")
        if lexer.at("{"):
            attributes |= self._dictionary()
        lexer.expect(":")
        given, results = self._signature()
        if len(given) != len(operands):
            refuse("SH0004", f"{name} has {len(operands)} operands but {len(given)} operand types", offset=lexer.start)
        return Operation(name, operands, [], results, _normalized(attributes), regions)

    def _operands(self) -> list[int]:
        """Parse operands: `(%a, %b)`."""
        lexer = self._lexer
        operands: list[int] = []
        lexer.expect("(")
        while lexer.kind == "value":
            operands.append(self._use())
            if not lexer.accept(","):
                break
        lexer.expect(")")
        return operands

    def _properties(self) -> dict[str, Any]:
        """Parse properties, `<{...}>`, if there are any."""
        lexer = self._lexer
        if not lexer.accept("<{"):
            return {}
        found = self._dictionary_body("}>")
        lexer.expect("}>")
        return found

    def _signature(self) -> tuple[list[Type], list[Type]]:
        """Parse a function type: `(types) -> types`."""
        lexer = self._lexer
        given = self._type_list()
        lexer.expect("->")
        return given, self._type_list()

    def _type_list(self) -> list[Type]:
        lexer = self._lexer
        if not lexer.accept("("):
            return [self._type()]
        found: list[Type] = []
        while not lexer.at(")"):
            found.append(self._type())
            if not lexer.accept(","):
                break
        lexer.expect(")")
        return found

    def _pretty(self) -> Operation:
        lexer = self._lexer
        name = _short(lexer.text)
        lexer.advance()
        if name.startswith("check."):
            return self._check(name)
        special: Callable[[str], Operation] | None = getattr(self, f"_pretty_{name.replace('.', '_')}", None)
        return self._pretty_default(name) if special is None else special(name)

    def _pretty_sdy_sharding_constraint(self, name: str) -> Operation:
        """Parse `sdy.sharding_constraint %x <@mesh, [...]> : type`."""
        operand = self._use()
        self._skip_angles()
        if self._lexer.at("{"):
            self._dictionary()
        self._lexer.expect(":")
        return Operation(name, [operand], [], [self._type()], {})

    def _check(self, name: str) -> Operation:
        """Parse an operation of StableHLO's own tests: `check.expect_eq_const %x, dense<...> : type`."""
        lexer = self._lexer
        operation = Operation(name, [], [], [], {})
        while lexer.kind == "value":
            operation.operands.append(self._use())
            if not lexer.accept(","):
                break
        if lexer.at("dense"):
            operation.attributes["value"] = self._attribute()
        while lexer.accept(",") or lexer.accept("{"):
            self._dictionary_body("}")
            lexer.accept("}")
        while lexer.accept(":") or lexer.accept(","):
            self._type()
        return operation

    def _pretty_default(self, name: str) -> Operation:
        operation = Operation(name, [], [], [], {})
        self._arguments(operation)
        self._types_of(operation)
        operation.attributes = _normalized(operation.attributes)
        return operation

    def _arguments(self, operation: Operation) -> None:
        """Operands, `key = attribute`, identifiers, symbols and dictionaries up to the colon before the types."""
        lexer = self._lexer
        keys = _KEYS.get(operation.name, {})
        attributes = operation.attributes
        words: list[str] = []
        while not lexer.at(":"):
            match lexer.kind:
                case "value":
                    operation.operands.append(self._use())
                case "symbol":
                    attributes["callee"] = Symbol(_symbol(lexer.text))
                    lexer.advance()
                case "string":
                    attributes["name"] = lexer.take_token("string")
                case "word" if lexer.text in ("dense", "array", "dense_resource"):
                    attributes["value"] = self._attribute()
                case "word":
                    word = lexer.text
                    lexer.advance()
                    if lexer.accept("="):
                        attributes[keys.get(word, word)] = self._listed_pair()
                    else:
                        words.append(word)
                case "sign" if lexer.text in "(),":
                    lexer.advance()
                case "sign" if lexer.text == "{":
                    attributes |= self._dictionary()
                case "sign" if lexer.text == "<{":
                    attributes |= self._properties()
                case "sign" if lexer.text == "[":
                    attributes["ranges"] = self._ranges()
                case _:
                    lexer.fail(f"an operand or the types of {operation.shown()}")
        _name_words(operation, words)

    def _listed_pair(self) -> Any:
        """An attribute, or `[0] x [1]` as a pair; an identifier is returned as a string."""
        lexer = self._lexer
        if lexer.kind == "word" and lexer.text not in _ATTRIBUTE_WORDS:
            return lexer.take_token("word")
        if lexer.at("<"):
            return self._angled()
        if lexer.kind == "number":
            # The next colon begins the types of the operation.
            return _parse_number(lexer)
        if lexer.kind == "string":
            return lexer.take_token("string")
        first = self._attribute()
        if lexer.at("x"):
            lexer.advance()
            return first, self._attribute()
        return first

    def _ranges(self) -> list[tuple[int, ...]]:
        """Parse the ranges of a slice, `start:limit:stride` for each axis (the stride is optional)."""
        lexer = self._lexer
        lexer.expect("[")
        found: list[tuple[int, ...]] = []
        while not lexer.at("]"):
            numbers = [_integer(lexer)]
            while lexer.accept(":"):
                numbers.append(_integer(lexer))
            found.append(tuple(numbers))
            if not lexer.accept(","):
                break
        lexer.expect("]")
        return found

    def _types_of(self, operation: Operation) -> None:
        """Parse the types of an operation: `: type`, `: types`, `: (types) -> types` or `: type -> types`."""
        lexer = self._lexer
        lexer.expect(":")
        offset = lexer.start
        listed = lexer.at("(")
        types = self._type_list()
        while not listed and lexer.accept(","):
            types.append(self._type())
        if lexer.accept("->"):
            if len(types) != len(operation.operands):
                message = f"{operation.shown()} has {len(operation.operands)} operands but {len(types)} operand types"
                refuse("SH0004", message, offset=offset)
            operation.result_types = self._type_list()
        elif operation.name in _LAST_TYPE:
            operation.result_types = types[-1:]
        elif operation.name == "get_tuple_element" and isinstance(types[0], OtherType):
            place = operation.attributes["ranges"][0][0]
            if not 0 <= place < len(types[0].parts):
                refuse("SH0007", f"index {place} is out of range for a tuple of {len(types[0].parts)}", offset=offset)
            operation.result_types = [types[0].parts[place]]
        else:
            operation.result_types = types

    # Operation-specific pretty forms

    def _pretty_return(self, name: str) -> Operation:
        lexer = self._lexer
        operation = Operation(name, [], [], [], {})
        while lexer.kind == "value":
            operation.operands.append(self._use())
            if not lexer.accept(","):
                break
        if lexer.at("{"):
            self._dictionary()
        if lexer.accept(":"):
            count = 1
            self._type()
            while lexer.accept(","):
                self._type()
                count += 1
            if count != len(operation.operands):
                refuse("SH0004", f"return has {len(operation.operands)} operands but {count} types", offset=lexer.start)
        return operation

    def _pretty_constant(self, name: str) -> Operation:
        lexer = self._lexer
        attributes = self._properties()
        if lexer.at("{"):
            attributes |= self._dictionary()
        value = self._attribute()
        found = _dense_of(value)
        if found is None:
            refuse("SH0010", f"{name} has no dense elements", offset=lexer.start)
        return Operation("constant", [], [], [found.type], {**attributes, "value": found})

    _pretty_chlo_constant = _pretty_constant

    def _pretty_reduce(self, name: str) -> Operation:
        """Parse the short form of reduce: `(%x init: %c) applies op across dimensions = [..]`, or with `reducer`."""
        lexer = self._lexer
        inputs: list[int] = []
        initial: list[int] = []
        while lexer.accept("("):
            inputs.append(self._use())
            lexer.expect("init")
            lexer.expect(":")
            initial.append(self._use())
            lexer.expect(")")
            if not lexer.accept(","):
                break
        operation = Operation(name, [*inputs, *initial], [], [], {})
        applied = _short(lexer.take_token("word")) if lexer.accept("applies") else ""
        lexer.expect("across")
        lexer.expect("dimensions")
        lexer.expect("=")
        operation.attributes["dimensions"] = self._attribute()
        if lexer.at("{"):
            operation.attributes |= self._dictionary()
        if lexer.at("<{"):
            operation.attributes |= self._properties()
        self._types_of(operation)
        if applied:
            keys = [self._new_key() for _ in range(3)]
            block = Block([(key, OtherType("element")) for key in keys[:2]])
            block.operations.append(Operation(applied, keys[:2], keys[2:], [OtherType("element")], {}))
            block.operations.append(Operation("return", keys[2:], [], [], {}))
            operation.regions.append(block)
        else:
            operation.regions.append(self._reducer(len(inputs)))
        return operation

    def _reducer(self, count: int) -> Block:
        """Parse `reducer(%a: T, %b: T) (%c: U, %d: U) {...}`; block arguments are %a, %c, then %b, %d."""
        lexer = self._lexer
        lexer.expect("reducer")
        self._scopes.append({})
        left: list[tuple[int, Type]] = []
        right: list[tuple[int, Type]] = []
        for _ in range(count):
            lexer.expect("(")
            for side in (left, right):
                name = lexer.text
                lexer.take_token("value")
                lexer.expect(":")
                side.append((self._define(name), self._type()))
                self._skip_location()
                lexer.accept(",")
            lexer.expect(")")
        lexer.expect("{")
        with self._nested():
            block = self._block_rest(Block([*left, *right]))
        lexer.expect("}")
        self._scopes.pop()
        return block

    def _pretty_while(self, name: str) -> Operation:
        """Parse `(%a = %x, ...) : types cond {...} do {...}`: both regions have equal arguments."""
        lexer = self._lexer
        names: list[str] = []
        operation = Operation(name, [], [], [], {})
        lexer.expect("(")
        while lexer.kind == "value":
            names.append(lexer.text)
            lexer.advance()
            lexer.expect("=")
            operation.operands.append(self._use())
            if not lexer.accept(","):
                break
        lexer.expect(")")
        if lexer.accept(":"):
            operation.result_types.append(self._type())
            while lexer.accept(","):
                operation.result_types.append(self._type())
        if len(operation.result_types) != len(names):
            refuse(
                "SH0004", f"while has {len(names)} values but {len(operation.result_types)} types", offset=lexer.start
            )
        if lexer.accept("attributes"):
            operation.attributes |= self._dictionary()
        for word in ("cond", "do"):
            lexer.expect(word)
            self._scopes.append({})
            keys = [self._define(each) for each in names]
            lexer.expect("{")
            with self._nested():
                operation.regions.append(self._block_rest(Block(list(zip(keys, operation.result_types, strict=True)))))
            lexer.expect("}")
            self._scopes.pop()
        return operation

    def _pretty_convolution(self, name: str) -> Operation:
        lexer = self._lexer
        operation = Operation(name, self._operands(), [], [], {})
        attributes = operation.attributes
        while not lexer.at(":"):
            if lexer.accept(","):
                continue
            if lexer.at("{"):
                attributes |= self._dictionary()
                continue
            key = lexer.take_token("word")
            lexer.expect("=")
            if key == "dim_numbers":
                attributes["dimension_numbers"] = self._convolution_dims()
            else:
                attributes |= self._window()
        self._types_of(operation)
        operation.attributes = _normalized(attributes)
        return operation

    _pretty_dynamic_conv = _pretty_convolution

    def _window(self) -> dict[str, Any]:
        lexer = self._lexer
        names = {
            "stride": "window_strides",
            "pad": "padding",
            "lhs_dilate": "lhs_dilation",
            "rhs_dilate": "rhs_dilation",
            "reverse": "window_reversal",
        }
        found: dict[str, Any] = {}
        lexer.expect("{")
        while not lexer.at("}"):
            key = lexer.take_token("word")
            lexer.expect("=")
            found[names.get(key, key)] = self._attribute()
            if not lexer.accept(","):
                break
        lexer.expect("}")
        return found

    def _convolution_dims(self) -> dict[str, Any]:
        """Parse the `dimension_numbers` of a convolution: `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`."""
        lexer = self._lexer
        parts = [self._dim_letters()]
        lexer.expect("x")
        parts.append(self._dim_letters())
        lexer.expect("->")
        parts.append(self._dim_letters())
        return convolution_dims(*parts)

    def _dim_letters(self) -> list[str]:
        lexer = self._lexer
        lexer.expect("[")
        found: list[str] = []
        while not lexer.at("]"):
            if lexer.at("?"):
                lexer.fail("a dimension")
            found.append(lexer.take_token("word", "number"))
            if not lexer.accept(","):
                break
        lexer.expect("]")
        return found

    # Types

    def _type(self) -> Type:
        lexer = self._lexer
        with self._nested():
            if lexer.kind == "type":
                return self._named_type()
            if lexer.at("("):
                given, results = self._signature()
                return OtherType("function", tuple(given), tuple(results))
            word = lexer.take_token("word")
            if word == "tensor":
                return self._tensor()
            if word == "tuple":
                return self._tuple()
            if word == "complex":
                self._skip_angles()
                return OtherType("complex")
            if word in ("memref", "vector"):
                refuse("SH0005", f"unsupported type {word}", offset=lexer.start)
            return OtherType(word)

    def _tuple(self) -> OtherType:
        lexer = self._lexer
        lexer.expect("<")
        parts: list[Type] = []
        while not lexer.at(">"):
            parts.append(self._type())
            if not lexer.accept(","):
                break
        lexer.expect(">")
        return sized(OtherType("tuple", tuple(parts)))

    def _named_type(self) -> Type:
        lexer, name = self._lexer, self._lexer.text
        if name.encode() in self._aliases:
            found = self._alias(name, self._types, self._type)
            lexer.advance()
            return found
        if name == "!quant.uniform":
            refuse("SH0005", "a quantized element outside a tensor", offset=lexer.start)
        lexer.advance()
        if lexer.at("<"):
            self._skip_angles()
        return OtherType(name.rpartition(".")[2])

    def _alias(self, name: str, known: dict[str, Any], read: Callable[[], Any]) -> Any:
        """The attribute or type of an alias; the current token does not change."""
        if name in known:
            return known[name]
        lexer = self._lexer
        if name in self._resolving:
            refuse("SH0004", f"recursive alias {name}", offset=lexer.start)
        self._resolving.add(name)
        start = lexer.start
        lexer.jump(self._aliases[name.encode()])
        known[name] = found = read()
        lexer.jump(start)
        self._resolving.discard(name)
        return found

    def _tensor(self) -> TensorType:
        lexer = self._lexer
        if not lexer.at("<"):
            lexer.fail("'<'")
        found = _DIMS.match(lexer.data, lexer.end)
        dims = b"" if found is None else found[1]
        offset = lexer.start
        words = [dim.strip().decode("ascii") for dim in dims.split(b"x")[:-1]]
        shape = [None if word == "?" else _parse_integer(word, offset) for word in words]
        for dim in shape:
            if dim is not None and dim > MAX_EXTENT:
                refuse("SH0008", f"dim {dim} exceeds the addressable memory", offset=offset)
        lexer.jump(lexer.end if found is None else found.end())
        quantization, element = None, ""
        if lexer.at("*"):
            refuse("SH0005", "a tensor of unknown rank", help="export the function with known ranks", offset=offset)
        if lexer.kind == "type":
            quantization, element = self._quantization()
        else:
            element = lexer.take_token("word")
            if element == "complex":
                lexer.expect("<")
                element = f"complex<{lexer.take_token('word')}>"
                lexer.expect(">")
        is_bounded = False
        if lexer.accept(","):
            is_bounded = lexer.text.startswith(("#stablehlo.bounds", "#stablehlo.type_extensions", "#mhlo"))
            self._attribute()
        lexer.expect(">")
        return TensorType(element, tuple(shape), quantization, is_bounded)

    def _quantization(self) -> tuple[Quantization, str]:
        """Parse a quantized type: `!quant.uniform<i8:f32, 0.1:-3>`, or with ranges, axis and per-channel parameters."""
        lexer, name = self._lexer, self._lexer.text
        if name.encode() in self._aliases:
            found = self._alias(name, self._attributes, self._quantization)
            lexer.advance()
            return found
        if name != "!quant.uniform":
            refuse("SH0005", f"unsupported element type {name}", offset=lexer.start)
        lexer.advance()
        lexer.expect("<")
        storage = f"ui{lexer.text[1:].lstrip('i')}" if lexer.text.startswith("u") else lexer.text
        lexer.advance()
        lowest = highest = axis = None
        if lexer.accept("<"):
            lowest = _integer(lexer)
            lexer.expect(":")
            highest = _integer(lexer)
            lexer.expect(">")
        lexer.expect(":")
        expressed = lexer.take_token("word")
        if lexer.accept(":"):
            if lexer.at("{"):
                refuse("SH0005", "sub-channel quantization is not supported", offset=lexer.start)
            axis = _integer(lexer)
        lexer.expect(",")
        several = lexer.accept("{")
        scales: list[float] = []
        zero_points: list[int] = []
        while True:
            scales.append(float(lexer.take_token("number")))
            zero_points.append(_integer(lexer) if lexer.accept(":") else 0)
            if not several or not lexer.accept(","):
                break
        if several:
            if lexer.accept("}>"):
                return Quantization(
                    storage, expressed, tuple(scales), tuple(zero_points), axis, lowest, highest
                ), expressed
            lexer.expect("}")
        lexer.expect(">")
        return Quantization(storage, expressed, tuple(scales), tuple(zero_points), axis, lowest, highest), expressed

    # Attributes

    def _attribute(self) -> Any:
        with self._nested():
            return self._bare_attribute()

    def _bare_attribute(self) -> Any:
        lexer = self._lexer
        match lexer.kind:
            case "string":
                found = lexer.take_token("string")
                if lexer.accept(":"):
                    self._type()
                return found
            case "number":
                return self._numeric_attribute()
            case "symbol":
                found = Symbol(_symbol(lexer.take_token("symbol")))
                while lexer.accept("::"):
                    lexer.take_token("symbol")
                return found
            case "hash":
                return self._named_attribute()
            case "word":
                return self._word_attribute()
            case "type":
                return self._type()
            case _:
                pass
        if lexer.at("["):
            return self._list()
        if lexer.at("{"):
            return self._dictionary()
        if lexer.at("("):
            return self._type()
        if lexer.at("-"):
            lexer.advance()
            word = lexer.take_token("word")
            return -float(word) if word in ("inf", "nan") else lexer.fail("a number")
        return lexer.fail("an attribute")

    def _numeric_attribute(self) -> Any:
        lexer = self._lexer
        text, offset = lexer.text, lexer.start
        number = _parse_number(lexer)
        if not lexer.accept(":"):
            return number
        type = self._type()
        if isinstance(type, OtherType) and type.name.startswith(("f", "bf", "tf")):
            scalar = TensorType(type.name, ())
            return literal_dense(text.encode(), scalar, offset).storage.numpy().item()
        return _parse_integer(text, offset)

    def _word_attribute(self) -> Any:
        lexer = self._lexer
        match lexer.text:
            case "true" | "false":
                return lexer.take_token("word") == "true"
            case "unit":
                lexer.advance()
                return True
            case "dense":
                return self._dense()
            case "dense_resource":
                return self._resource()
            case "array":
                return self._array()
            case "loc":
                self._skip_location()
                return None
            case "affine_map" | "affine_set" | "sparse" | "opaque" | "strided" | "distinct":
                lexer.advance()
                if lexer.at("<"):
                    self._skip_angles()
                return None
            case _:
                return self._type()

    def _list(self) -> list[Any]:
        lexer = self._lexer
        lexer.expect("[")
        found: list[Any] = []
        while not lexer.at("]"):
            found.append(lexer.take_token("word") if self._is_identifier() else self._attribute())
            if not lexer.accept(","):
                break
        lexer.expect("]")
        return found

    def _is_identifier(self) -> bool:
        """Whether the token is an identifier like `DEFAULT`, as the pretty form prints enumerations."""
        return self._lexer.kind == "word" and self._lexer.text.isupper()

    def _array(self) -> list[Any]:
        """Parse a dense array attribute: `array<i64: 1, 2>`."""
        lexer = self._lexer
        lexer.advance()
        lexer.expect("<")
        kind = lexer.take_token("word")
        found: list[Any] = []
        if lexer.accept(":"):
            while not lexer.at(">"):
                text = lexer.take_token("number", "word")
                if kind == "i1":
                    found.append(text == "true")
                else:
                    try:
                        found.append(float(text) if kind[0] in "fb" else _parse_integer(text, lexer.start))
                    except ValueError:
                        lexer.fail("a number")
                if not lexer.accept(","):
                    break
        lexer.expect(">")
        return found

    def _dictionary(self) -> dict[str, Any]:
        lexer = self._lexer
        lexer.expect("{")
        found = self._dictionary_body("}")
        if lexer.at("}>"):
            lexer.fail("'}'")
        lexer.expect("}")
        return found

    def _dictionary_body(self, closing: str) -> dict[str, Any]:
        lexer = self._lexer
        found: dict[str, Any] = {}
        while not lexer.at(closing):
            key = lexer.take_token("word", "string")
            found[key] = self._attribute() if lexer.accept("=") else True
            if not lexer.accept(","):
                break
        return found

    def _dense(self) -> Any:
        lexer = self._lexer
        offset = lexer.start
        found = _DENSE.match(lexer.data, lexer.end)
        if found is None:
            lexer.advance()
            lexer.fail("elements of a constant")
        lexer.jump(found.end())
        lexer.expect(":")
        type = self._type()
        if not isinstance(type, TensorType) or None in type.shape:
            refuse("SH0010", f"a constant of type {type} has no fixed shape", offset=offset)
        if found[1] is None:
            return literal_dense(bytes(found[2]), type, offset)
        start, end = found.span(1)
        if (end - start) % 2:
            refuse("SH0010", "a constant has an odd number of hexadecimal digits", offset=offset)
        return raw_dense(self.file, start + 2, (end - start - 2) // 2, type, is_hex=True)

    def _resource(self) -> Any:
        """Parse `dense_resource<name> : type`; the bytes are in the resource section, after 4 bytes of alignment."""
        lexer, offset = self._lexer, self._lexer.start
        lexer.advance()
        lexer.expect("<")
        name = lexer.take_token("word", "string")
        lexer.expect(">")
        lexer.expect(":")
        type = self._type()
        found = next((m for m in _RESOURCE.finditer(lexer.data) if bytes(m[1]) == name.encode()), None)
        if found is None or not isinstance(type, TensorType):
            refuse("SH0004", f"undefined resource {name}", offset=offset)
        start, end = found.span(2)
        return raw_dense(self.file, start + 10, (end - start - 10) // 2, type, is_hex=True)

    def _named_attribute(self) -> Any:
        """Parse an attribute that begins with `#`: an alias, an attribute of StableHLO, or of another dialect."""
        lexer, name = self._lexer, self._lexer.text
        if name.encode() in self._aliases:
            found = self._alias(name, self._attributes, self._attribute)
            lexer.advance()
            return found
        lexer.advance()
        if not lexer.at("<") and not lexer.at("<{"):
            return None
        if not name.startswith(("#stablehlo", "#mhlo", "#vhlo", "#chlo")):
            self._skip_angles()
            return None
        if name.endswith((".bounds", ".type_extensions")):
            self._skip_angles()
            return None
        return self._angled()

    def _angled(self) -> Any:
        """The contents of an attribute of StableHLO: `dimension_numbers`, `key = value` pairs or an enumeration."""
        lexer = self._lexer
        lexer.expect("<")
        if lexer.at("["):
            found = self._convolution_dims()
            lexer.expect(">")
            return found
        words: list[str] = []
        pairs: dict[str, Any] = {}
        while not lexer.at(">"):
            if lexer.kind in ("word", "number", "symbol"):
                word = lexer.take_token("word", "number", "symbol")
                if lexer.accept("="):
                    pairs[word] = self._listed_pair()
                else:
                    words.append(word)
            elif not lexer.accept(","):
                lexer.fail("'>'")
        lexer.expect(">")
        return pairs if pairs or not words else words[-1]

    # Locations

    def _skip_location(self) -> str | None:
        """Skip `loc(...)`; return the name if it is one."""
        lexer = self._lexer
        if not lexer.at("loc"):
            return None
        lexer.advance()
        if not lexer.at("("):
            lexer.fail("'('")
        lexer.advance()
        name = None
        if lexer.kind == "hash" and lexer.text.encode() in self._aliases:
            name = self._location_name(self._aliases[lexer.text.encode()])
        elif lexer.kind == "string":
            text = lexer.string()
            after = bytes(lexer.data[lexer.end : lexer.end + 1])
            name = text if after in (b")", b"(") else None
        depth = 1
        while depth:
            if lexer.kind == "end":
                lexer.fail("')'")
            depth += lexer.at("(") - lexer.at(")")
            lexer.advance()
        return name

    def _location_name(self, offset: int) -> str | None:
        found = re.compile(rb'\s*loc\("([^"\\]*)"[)(]').match(self._lexer.data, offset)
        return None if found is None else found[1].decode("utf-8", "replace")


class _Nested:
    """One level of nesting."""

    def __init__(self, reader: TextReader) -> None:
        self._reader = reader

    def __enter__(self) -> None:
        self._reader.deeper(1)

    def __exit__(self, *_: object) -> None:
        self._reader.deeper(-1)


_ATTRIBUTE_WORDS = frozenset({"true", "false", "unit", "dense", "dense_resource", "array", "tensor", "loc"})
_LAST_TYPE = frozenset({"select", "clamp"})
_COMPARISONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
_PREFIXES = ("stablehlo.", "func.", "mhlo.")


def read_text(file: MappedFile | Bytes) -> Program:
    """Read MLIR text.

    Raises:
        RefusedError: see `TextReader.program`.
    """
    return TextReader(file).program()


def _short(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name


def _symbol(text: str) -> str:
    return text[1:].strip('"')


def _integer(lexer: Lexer) -> int:
    offset = lexer.start
    return _parse_integer(lexer.take_token("number"), offset)


def _parse_number(lexer: Lexer) -> int | float:
    """The number that is the current token: an integer, or a float if it has a fraction or an exponent."""
    offset, text = lexer.start, lexer.take_token("number")
    is_float = "x" not in text and any(each in text for each in ".eE")
    return float(text) if is_float else _parse_integer(text, offset)


def _parse_integer(text: str, offset: int) -> int:
    """Convert a decimal or hexadecimal integer of at most `MAX_DIGITS` digits."""
    if not _INTEGER.fullmatch(text):
        refuse("SH0001", f"expected an integer of at most {MAX_DIGITS} digits, found {text[:40]}", offset=offset)
    return int(text, 16 if "x" in text else 10)


def _dense_of(value: Any) -> Dense | None:
    return value if isinstance(value, Dense) else None


def sized(type: OtherType) -> OtherType:
    """`type`, if it has no more parts than allowed.

    Raises:
        RefusedError: SH0008 it has more.
    """
    sizes: dict[int, int] = {}

    def size(part: Type) -> int:
        if isinstance(part, TensorType):
            return 1
        if id(part) not in sizes:
            sizes[id(part)] = 1 + sum(size(each) for each in (*part.parts, *part.results))
        return sizes[id(part)]

    if size(type) > MAX_TYPE_PARTS:
        refuse("SH0008", f"a tuple type has more than {MAX_TYPE_PARTS} elements", help="flatten nested tuples")
    return type


def convolution_dims(left: list[str], right: list[str], result: list[str]) -> dict[str, Any]:
    """The `dimension_numbers` of a convolution from the letters of its operands and result."""

    def spatial(letters: list[str]) -> list[int]:
        numbered = sorted((int(letter), index) for index, letter in enumerate(letters) if _INTEGER.fullmatch(letter))
        return [index for _, index in numbered]

    def letter_index(letters: list[str], letter: str) -> int:
        if letters.count(letter) != 1:
            refuse("SH0007", f"dimension numbers {letters} must contain {letter!r} once")
        return letters.index(letter)

    return {
        "input_batch_dimension": letter_index(left, "b"),
        "input_feature_dimension": letter_index(left, "f"),
        "input_spatial_dimensions": spatial(left),
        "kernel_input_feature_dimension": letter_index(right, "i"),
        "kernel_output_feature_dimension": letter_index(right, "o"),
        "kernel_spatial_dimensions": spatial(right),
        "output_batch_dimension": letter_index(result, "b"),
        "output_feature_dimension": letter_index(result, "f"),
        "output_spatial_dimensions": spatial(result),
    }


def _name_words(operation: Operation, words: list[str]) -> None:
    """Attributes that the pretty form prints as bare identifiers: comparison direction and type."""
    for word in words:
        if word in _COMPARISONS:
            operation.attributes["comparison_direction"] = word
        else:
            operation.attributes["compare_type"] = word


def _normalized(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes in one form: pairs of lists split, nested `dimension_numbers` kept as dictionaries."""
    found = dict(attributes)
    if "call_target_name" in found:
        found["callee"] = found["call_target_name"]
    if "contracting_dims" in found or "batching_dims" in found:
        batch, contract = found.pop("batching_dims", ([], [])), found.pop("contracting_dims", ([], []))
        found["dot_dimension_numbers"] = {
            "lhs_batching_dimensions": batch[0],
            "rhs_batching_dimensions": batch[1],
            "lhs_contracting_dimensions": contract[0],
            "rhs_contracting_dimensions": contract[1],
        }
    if "precision" in found:
        found["precision_config"] = found.pop("precision")
    ranges = found.get("ranges")
    if ranges and all(len(each) in (2, 3) for each in ranges):
        found["start_indices"] = [each[0] for each in ranges]
        found["limit_indices"] = [each[1] for each in ranges]
        found["strides"] = [each[2] if len(each) == 3 else 1 for each in ranges]
    return found


def _generic_function(attributes: dict[str, Any], body: Block | None, offset: int) -> Function:
    """A function of the generic form."""
    type = attributes.get("function_type")
    name = attributes.get("sym_name")
    if not isinstance(type, OtherType) or not isinstance(name, str):
        refuse("SH0001", "a function without name or type", offset=offset)
    given = elements_of(attributes.get("arg_attrs")) or [{} for _ in type.parts]
    results = elements_of(attributes.get("res_attrs")) or [{} for _ in type.results]
    is_public = attributes.get("sym_visibility", "public") != "private"
    names: list[str | None] = [None] * len(type.parts)
    return Function(name, is_public, body, list(type.results), names, given, results, offset)
