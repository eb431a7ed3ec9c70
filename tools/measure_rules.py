"""Measure the operator rules: declarative and function rules, lines, files, clones, lists of operator names.

python tools/measure_rules.py [FOLDER]    for the package in FOLDER, FOLDER/src or FOLDER/graphport; default: this one
python tools/measure_rules.py --clones [FOLDER]    print each cloned line with the number of its clone group

A line is cloned if it is one of `SHARED` or more consecutive lines, each with letters or digits, that occur identically
at another location. Blank lines, comments, imports, docstrings and indentation are ignored, and the generated classes
of `ops/views` are excluded. Most cloned lines are signatures with one parameter a line: the second figure excludes
decorators and signatures.

A name is unusual if it contains an everyday word where the field has a term. Variables are counted separately: there,
the plain meaning of a word does no harm.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from graphport.ops.dialects import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable

LEAST = 3
"""Minimum number of operator names in one literal that counts as a list of operators."""

SHARED = 6
"""Minimum number of consecutive lines of a clone."""

UNUSUAL = (
    "say says said saying spell spells spelled spoken speak speaker unsaid painted sampled bag bags between beyond "
    "places tilted soft filled brackets eighths halved means damage damaged turned apart blame told storeys spare "
    "express"
)
"""Everyday words for emit, lower, register, op_name, unsupported, conv_transpose, indices, corrupt, transposed etc."""

UNUSUAL_IN_QUANTIZATION = "work follow plain tails grid grids"

ESTABLISHED = ("embedding_bag", "heavy_tails", "soft_nms", "soft_sigma")
"""Terms of the field, and names of operators and parameters from their specifications."""

COUNT = """
from graphport.ops import registry
from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES
for dialect in (*registry.dialects(), *(name.replace("_", ".") for name in registry.dialects())):
    registry.load(dialect)
pages = registry.op_defs()
patterns = sum(len(texts) for page in pages.values() for texts in page.spellings.values())
apart = sum(bool(getattr(page, "decomposes", "")) for page in pages.values())
rules = [rule.function for table in (IMPORT_RULES, EXPORT_RULES) for found in table.values() for rule in found]
row = getattr(registry, "row", lambda rule: rule)
said = [each for each in map(row, rules) if type(each).__module__ == "graphport.ops.rule_language.rule"]
print("rules, one for each word or operator of a dialect", patterns + apart + len(rules))
rows = patterns + apart + len(said)
print(f"of which rows {rows}, {rows / (patterns + apart + len(rules)):.1%}: patterns of pages {patterns}, "
      f"decompositions on pages {apart}, of tables {len(said)} in {len({id(each) for each in said})} rows")
keys = [dialect for table in (IMPORT_RULES, EXPORT_RULES) for (dialect, _), found in table.items() for _ in found]
keys += [dialect for page in pages.values() for dialect, texts in page.spellings.items() for _ in texts]
print("rules of dialects", *sorted(f"{name.replace('.', '_')}={keys.count(name)}" for name in set(keys)))
print("rules that are functions", len({id(each) for each, own in zip(rules, map(row, rules)) if own not in said}))
print(" ".join(pages))
"""


def main() -> None:
    """Print one measure a line."""
    asked = [argument for argument in sys.argv[1:] if argument != "--clones"]
    root = _sources(Path(asked[0]).resolve() if asked else Path(__file__).resolve().parent.parent)
    if "--clones" in sys.argv:
        _tell_clones(root / "graphport")
        return
    done = subprocess.run(  # noqa: S603  this interpreter, with the program above
        [sys.executable, "-c", COUNT], env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True
    )
    *figures, names = done.stdout.splitlines()
    ops = sorted((root / "graphport/ops").rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (root / "graphport").rglob("*.py")}
    print(*figures, sep="\n")
    print("lines of ops", _lines(ops))
    print("lines of definitions", _lines(path for path in ops if root / "graphport/ops/definitions" in path.parents))
    print("lines a rule, by dialect", *_lines_a_rule(root, figures))
    print("files of ops", len(ops))
    print("functions of ops", sum(isinstance(node, ast.FunctionDef) for path in ops for node in ast.walk(trees[path])))
    print(
        "lines of export rules' signatures",
        sum(_header(node) for path in ops for node in _export_functions(trees[path])),
    )
    outside = [tree for path, tree in trees.items() if path not in ops]
    print(
        "lists of operators outside", sum(_is_list(node, set(names.split())) for t in outside for node in ast.walk(t))
    )
    print("cloned lines", _share(root / "graphport", trees, has_headers=True))
    print("cloned lines but for signatures", _share(root / "graphport", trees, has_headers=False))
    for kind, names in _unusual(root / "graphport", trees).items():
        print(f"unusual names of {kind}", len(names), *sorted(set(names)) if kind != "variables" else ())
    print("texts with 'cannot say'", sum(_texts_with(tree, "cannot say") for tree in trees.values()))
    layers = [len(path.read_text(encoding="utf-8").splitlines()) for path in trees]
    print("modules above 500 lines", sum(count > 500 for count in layers))


def _sources(folder: Path) -> Path:
    """Return the folder that contains the package."""
    for place in (folder / "src", folder, folder.parent):
        if (place / "graphport" / "ops").is_dir():
            return place
    sys.exit(f"there is no package graphport in {folder}")


def _lines(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def _lines_a_rule(root: Path, figures: list[str]) -> list[str]:
    """Return the lines per rule of each dialect, in descending order."""
    stated = next(line for line in figures if line.startswith("rules of dialects")).split()[3:]
    counts = {name: int(count) for name, _, count in (each.partition("=") for each in stated)}
    shares = {name: _lines(_rule_files(root, name)) / count for name, count in counts.items() if name in RULES}
    return [f"{name}={share:.1f}" for name, share in sorted(shares.items(), key=lambda each: -each[1]) if share]


def _rule_files(root: Path, dialect: str) -> list[Path]:
    """Return the modules with the rules of a dialect, except packages of other dialects inside its package."""
    folders = {name: root / package.replace(".", "/") for name, package in RULES.items()}
    others = [folder for folder in folders.values() if folders[dialect] in folder.parents]
    return [path for path in folders[dialect].rglob("*.py") if not any(folder in path.parents for folder in others)]


def _share(package: Path, trees: dict[Path, ast.Module], *, has_headers: bool) -> str:
    """Return the number of cloned lines, of counted lines, and the ratio."""
    texts = _texts(package, trees, has_headers=has_headers)
    cloned = {place for places in _clones(texts).values() for place in places}
    count = sum(map(len, texts.values()))
    return f"{len(cloned)} of {count}, {len(cloned) / count:.2%}"


def _tell_clones(package: Path) -> None:
    """Print every cloned line by clone group."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in package.rglob("*.py")}
    texts = _texts(package, trees, has_headers=True)
    told: set[tuple[Path, int]] = set()
    for number, places in enumerate(_clones(texts).values(), 1):
        for path, index in sorted(set(places) - told):
            line, text = texts[path][index]
            print(f"{number:4} {path.relative_to(package)}:{line}: {text}")
        told |= set(places)


def _texts(package: Path, trees: dict[Path, ast.Module], *, has_headers: bool) -> dict[Path, list[tuple[int, str]]]:
    paths = (path for path in sorted(trees) if package / "ops" / "views" not in path.parents)
    return {path: _code(path, trees[path], has_headers=has_headers) for path in paths}


def _clones(texts: dict[Path, list[tuple[int, str]]]) -> dict[tuple[str, ...], list[tuple[Path, int]]]:
    """Return the locations of the lines of every run that occurs more than once."""
    runs: dict[tuple[str, ...], list[tuple[Path, int]]] = {}
    for path, lines in texts.items():
        for start in range(len(lines) - SHARED + 1):
            run = tuple(text for _, text in lines[start : start + SHARED])
            runs.setdefault(run, []).extend((path, start + index) for index in range(SHARED))
    return {run: places for run, places in runs.items() if len(places) > SHARED}


def _code(path: Path, tree: ast.Module, *, has_headers: bool) -> list[tuple[int, str]]:
    """Return the counted lines of a module with their line numbers."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (isinstance(node, ast.Expr) and _is_text(node.value)):
            skipped |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.FunctionDef) and not has_headers:
            skipped |= set(range(min(each.lineno for each in (node, *node.decorator_list)), node.body[0].lineno))
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    stripped = [(number, line.strip()) for number, line in lines if number not in skipped]
    return [each for each in stripped if any(map(str.isalnum, each[1])) and not each[1].startswith("#")]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _unusual(package: Path, trees: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Return the unusual names by kind (modules, classes, functions, parameters, variables)."""
    found: dict[str, list[str]] = {kind: [] for kind in ("modules", "classes", "functions", "parameters", "variables")}
    for path, tree in trees.items():
        words = set(UNUSUAL.split())
        if package / "quantization" in path.parents:
            words |= set(UNUSUAL_IN_QUANTIZATION.split())
        named = [("modules", path.stem), *(each for node in ast.walk(tree) for each in _names(node))]
        for kind, name in named:
            if words & set(_snake(name).split("_")):
                found[kind].append(f"{path.stem}.{name}")
    return found


def _names(node: ast.AST) -> list[tuple[str, str]]:
    """Return the names that a syntax node defines, with their kinds."""
    if isinstance(node, ast.ClassDef):
        return [("classes", node.name)]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [("variables", node.id)]
    if not isinstance(node, ast.FunctionDef):
        return []
    taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg]
    return [("functions", node.name), *(("parameters", each.arg) for each in taken if each is not None)]


def _snake(name: str) -> str:
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    for term in ESTABLISHED:
        snake = snake.replace(term, "")
    return snake


def _texts_with(tree: ast.Module, words: str) -> int:
    """Count the string constants, except docstrings, that contain `words`."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return sum(words in str(node.value) and id(node) not in docs for node in texts)


def _export_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [each for each in functions if any("export_rule" in ast.unparse(by) for by in each.decorator_list)]


def _header(function: ast.FunctionDef) -> int:
    return function.body[0].lineno - function.lineno


def _is_list(node: ast.AST, names: set[str]) -> bool:
    if not isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        return False
    entries = node.keys if isinstance(node, ast.Dict) else node.elts
    return sum(isinstance(entry, ast.Constant) and entry.value in names for entry in entries) >= LEAST


if __name__ == "__main__":
    main()
