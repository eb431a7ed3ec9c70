"""Collect the codes, messages and remedies of diagnostics from the source for `graphport explain` and the site.

python tools/diagnostic_codes.py            write src/graphport/cli/explanations/codes.json
python tools/diagnostic_codes.py --check    report invalid codes, and whether the file is out of date
"""

from __future__ import annotations

import ast
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "graphport"
DATA = SOURCE / "cli" / "explanations" / "codes.json"

GROUPS = {
    "NNEF": "NNEF texts, archives and `.dat` files",
    "ONNX": "ONNX files",
    "OV": "OpenVINO IR",
    "PNNX": "PNNX",
    "NCNN": "ncnn",
    "CAFFE": "Caffe",
    "PT": "exported programs of PyTorch (`.pt2`)",
    "TS": "TorchScript files",
    "SH": "StableHLO files",
    "KERAS": "Keras files (`.keras`, `.h5`)",
    "TFL": "TFLite",
    "TF": "TensorFlow: SavedModels and GraphDef files",
    "CKPT": "checkpoints: folders of Hugging Face and GGUF files",
    "GENAI": "folders of onnxruntime-genai",
    "EXPR": "the expression language",
    "LEG": "legalization and export: from one dialect to another",
    "SHAPE": "shapes and element types",
    "QUANT": "quantization",
    "CAST": "half precision",
    "EDIT": "cutting, changing and joining models",
    "RUN": "running and comparing",
    "IO": "files and their names",
    "LIMIT": "what would take too much",
    "USE": "wrong usage of the command line, under `--json`",
    "BUG": "mistakes of graphport itself",
}
CODE = re.compile(rf"({'|'.join(GROUPS)})\d{{4}}")

_UNKNOWN = "…"
_FIELDS = ("code", "message", "span", "help", "severity")
_WARNERS = {"warn": "warning", "warning": "warning", "note": "note"}


@dataclass(frozen=True, slots=True)
class Finding:
    """A source location that creates a diagnostic; `{…}` in texts marks parts that depend on the input."""

    code: str
    file: str
    line: int
    severity: str
    message: str
    help: str


def findings(source: Path = SOURCE) -> list[Finding]:
    """Return every diagnostic that a module below `source` creates, sorted by code and location."""
    found: list[Finding] = []
    texts = {
        path.relative_to(source).as_posix(): path.read_text(encoding="utf-8") for path in sorted(source.rglob("*.py"))
    }
    offsets = help_offsets(texts)
    for file, text in texts.items():
        found += in_module(text, file, offsets)
    return sorted(found, key=lambda finding: (_order(finding.code), finding.file, finding.line))


def help_offsets(texts: Mapping[str, str]) -> dict[tuple[str, ...], set[int]]:
    """Return the offset of parameter `help` from `code` in functions that create diagnostics, by package and name."""
    found: dict[tuple[str, ...], set[int]] = {}
    for file, text in texts.items():
        if "help" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
                if "code" in names and "help" in names:
                    offset = names.index("help") - names.index("code")
                    found.setdefault((*_package_of(file), node.name), set()).add(offset)
    return found


def in_module(text: str, file: str, offsets: Mapping[tuple[str, ...], set[int]] | None = None) -> list[Finding]:
    """Return every diagnostic that the module `text` creates: calls with a code as a literal or a constant's name.

    `offsets` is a result of `help_offsets`; without an entry, the first later string is the remedy.
    """
    found: list[Finding] = []
    if not CODE.search(text) and "Diagnostic" not in text:
        return found
    unread: list[tuple[ast.AST, dict[str, list[ast.expr]]]] = [(ast.parse(text), {})]
    while unread:
        tree, outer = unread.pop()
        texts = outer | _texts(tree)
        for node in _within(tree):
            if isinstance(node, ast.FunctionDef):
                unread.append((node, texts))
            elif isinstance(node, ast.Call):
                call = _spelled_out(node, texts)
                position, code = _code_of(call)
                if code is not None:
                    own = (offsets or {}).get((*_package_of(file), _name(call.func)), set())
                    found.append(_finding(call, position, code, file, own))
    return sorted(found, key=lambda finding: finding.line)


def problems(found: Sequence[Finding], source: Path = SOURCE) -> list[str]:
    """Return the errors of codes: an unknown group, two meanings, or a code in the source that no call uses.

    A package may use several messages for a code; another package that uses the code needs an equal message.
    """
    complaints: list[str] = []
    homes: dict[str, Finding] = {}
    for finding in found:
        where = f"{finding.file}:{finding.line}"
        if not _is_code(finding.code):
            complaints.append(f"{where}: '{finding.code}' is no code: {', '.join(GROUPS)}, and four digits")
        home = homes.setdefault(finding.code, finding)
        if _package(home) != _package(finding) and home.message != finding.message:
            complaints.append(f"{where}: {finding.code} already means '{home.message}' in {home.file}:{home.line}")
    given = {finding.code for finding in found}
    for path in sorted(source.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if given.issuperset(match[0] for match in CODE.finditer(text)):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and _is_code(node.value) and node.value not in given:
                where = f"{path.relative_to(source).as_posix()}:{node.lineno}"
                complaints.append(f"{where}: {node.value} is given to no call; write it where the finding is made")
    return complaints


def data(found: Sequence[Finding]) -> str:
    """Return the codes as JSON, for `graphport explain`."""
    codes: dict[str, dict[str, object]] = {}
    for code in dict.fromkeys(finding.code for finding in found):
        own = [finding for finding in found if finding.code == code]
        codes[code] = {
            "severity": " or ".join(dict.fromkeys(finding.severity for finding in own)),
            "sentences": list(dict.fromkeys(finding.message for finding in own if finding.message)),
            "remedies": list(dict.fromkeys(finding.help for finding in own if finding.help.strip(_UNKNOWN))),
            "found_by": list(dict.fromkeys(finding.file for finding in own)),
        }
    return json.dumps(codes, indent=1, ensure_ascii=False) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Write the codes, or with `--check` only compare. Return 1 if there is an error."""
    found = findings()
    complaints = problems(found)
    explained = data(found)
    if "--check" not in arguments:
        DATA.write_text(explained, encoding="utf-8")
    elif DATA.read_text(encoding="utf-8") != explained:
        complaints.append(f"{DATA.relative_to(ROOT)} is out of date: run `make codes`")
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints else 0


def _is_code(value: object) -> bool:
    return isinstance(value, str) and CODE.fullmatch(value) is not None


def _order(code: str) -> tuple[int, str]:
    group = code.rstrip("0123456789")
    return (list(GROUPS).index(group) if group in GROUPS else len(GROUPS), code)


def _within(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a module or function; of nested functions only the definition."""
    unread = list(ast.iter_child_nodes(tree))
    while unread:
        node = unread.pop()
        yield node
        if not isinstance(node, ast.FunctionDef):
            unread += ast.iter_child_nodes(node)


def _texts(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return the strings assigned to each name in a module or function, including defaults of parameters."""
    found: dict[str, list[ast.expr]] = {}
    if isinstance(tree, ast.FunctionDef):
        given = [*tree.args.posonlyargs, *tree.args.args]
        for parameter, default in zip(given[len(given) - len(tree.args.defaults) :], tree.args.defaults, strict=True):
            found.setdefault(parameter.arg, []).append(default)
    for node in _within(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _template(value) not in {"", _UNKNOWN}:
                found.setdefault(name, []).append(value)
            case _:
                pass
    return found


def _spelled_out(call: ast.Call, texts: dict[str, list[ast.expr]]) -> ast.Call:
    """Replace names in the arguments of `call` by their strings; of several assignments, the closest one above."""

    def text_of(argument: ast.expr) -> ast.expr:
        if not isinstance(argument, ast.Name):
            return argument
        above = [text for text in texts.get(argument.id, ()) if text.lineno <= call.lineno]
        return max(above, key=lambda text: text.lineno, default=argument)

    keywords = [ast.keyword(keyword.arg, text_of(keyword.value)) for keyword in call.keywords]
    return ast.copy_location(ast.Call(call.func, [text_of(argument) for argument in call.args], keywords), call)


def _code_of(call: ast.Call) -> tuple[int, str | None]:
    """Return the index of the code among the arguments of `call` (-1: keyword; 0 if there is no code) and the code."""
    makes_diagnostic = _name(call.func) == "Diagnostic"
    for position, argument in enumerate(call.args):
        match argument:
            case ast.Constant(value=str(code)) if _is_code(code) or (makes_diagnostic and position == 0):
                return position, code
            case _:
                pass
    for keyword in call.keywords:
        match keyword:
            case ast.keyword(arg="code", value=ast.Constant(value=str(code))) if _is_code(code):
                return -1, code
            case _:
                pass
    return 0, None


def _finding(call: ast.Call, position: int, code: str, file: str, offsets: Collection[int]) -> Finding:
    given = _positional(call, position, offsets) if position >= 0 else {}
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    severity = _WARNERS.get(_name(call.func), "error")
    if "severity" in given:
        names = {node.attr for node in ast.walk(given["severity"]) if isinstance(node, ast.Attribute)}
        severity = " or ".join(kind for kind in ("error", "warning", "note") if kind.upper() in names) or "varies"
    return Finding(
        code=code,
        file=file,
        line=call.lineno,
        severity=severity,
        message=_template(given.get("message")),
        help=_template(given.get("help")),
    )


def _positional(call: ast.Call, position: int, offsets: Collection[int]) -> dict[str, ast.expr]:
    """Return the arguments of `call` by field; in our functions the message follows the code, the help is later."""
    if _name(call.func) == "Diagnostic":
        return dict(zip(_FIELDS, call.args, strict=False))
    message, *rest = [*call.args[position + 1 :], None]
    if offsets:
        # Functions of one name and package may differ; the remedy is the last of their parameters.
        at = [position + offset for offset in sorted(offsets, reverse=True)]
        rest = [call.args[index] for index in at if index < len(call.args)]
    texts = [argument for argument in rest if argument is not None and _template(argument) not in {"", _UNKNOWN}]
    return ({"message": message} if message else {}) | ({"help": texts[0]} if texts else {})


def _name(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _template(expression: ast.expr | None) -> str:
    """Return the string of `expression`, with `…` for parts that are unknown before run time."""
    match expression:
        case None | ast.Constant(value=None):
            return ""
        case ast.Constant(value=value):
            return str(value)
        case ast.JoinedStr(values=parts):
            return "".join(_template(part) for part in parts)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _template(left) + _template(right)
        case ast.IfExp(body=body, orelse=other):
            return " / ".join(filter(None, (_template(body), _template(other))))
        case _:
            return _UNKNOWN


def _package(finding: Finding) -> tuple[str, ...]:
    """Return the part of the project that owns the code: a format, all runtimes, or a layer."""
    return _package_of(finding.file)


def _package_of(file: str) -> tuple[str, ...]:
    parts = PurePosixPath(file).parts
    if parts[0] in ("backends", "proof", "runtimes") or parts[-1] == "runtime.py":
        return ("runtimes",)
    return parts[: 2 if parts[0] == "formats" else 1]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
