"""How the dictionary is made up: rules that are rows, functions, lines, files, and where operators are named.

python tools/measure_rules.py [FOLDER]    of the package below FOLDER/src, this one by default
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

LEAST = 3
"""Names of operators in one display from which on it is a list of operators."""

COUNT = """
from graphport.ops import registry
from graphport.ops.declare import LIFTINGS, LOWERINGS
for dialect in (*registry.dialects(), *(name.replace("_", ".") for name in registry.dialects())):
    registry.load(dialect)
pages = registry.pages()
patterns = sum(len(texts) for page in pages.values() for texts in page.spellings.values())
apart = sum(bool(getattr(page, "decomposes", "")) for page in pages.values())
rules = [rule.function for table in (LOWERINGS, LIFTINGS) for found in table.values() for rule in found]
row = getattr(registry, "row", lambda rule: rule)
said = [each for each in map(row, rules) if type(each).__module__ == "graphport.ops.rows.rule"]
print("rules, one for each word or operator of a dialect", patterns + apart + len(rules))
rows = patterns + apart + len(said)
print(f"of which rows {rows}, {rows / (patterns + apart + len(rules)):.1%}: patterns of pages {patterns}, "
      f"decompositions on pages {apart}, of tables {len(said)} in {len({id(each) for each in said})} rows")
print("rules that are functions", len({id(each) for each, own in zip(rules, map(row, rules)) if own not in said}))
print(" ".join(pages))
"""


def main() -> None:
    """Print one measure a line."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve() / "src"
    done = subprocess.run(  # noqa: S603  this interpreter, with the program above
        [sys.executable, "-c", COUNT], env={"PYTHONPATH": str(root)}, capture_output=True, text=True, check=True
    )
    *figures, names = done.stdout.splitlines()
    ops = sorted((root / "graphport/ops").rglob("*.py"))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in (root / "graphport").rglob("*.py")}
    print(*figures, sep="\n")
    print("lines of ops", sum(len(path.read_text(encoding="utf-8").splitlines()) for path in ops))
    print("files of ops", len(ops))
    print("functions of ops", sum(isinstance(node, ast.FunctionDef) for path in ops for node in ast.walk(trees[path])))
    print("lines of liftings' signatures", sum(_header(node) for path in ops for node in _liftings(trees[path])))
    outside = [tree for path, tree in trees.items() if path not in ops]
    print(
        "lists of operators outside", sum(_is_list(node, set(names.split())) for t in outside for node in ast.walk(t))
    )


def _liftings(tree: ast.Module) -> list[ast.FunctionDef]:
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return [each for each in functions if any("lift(" in ast.unparse(by) for by in each.decorator_list)]


def _header(function: ast.FunctionDef) -> int:
    return function.body[0].lineno - function.lineno


def _is_list(node: ast.AST, names: set[str]) -> bool:
    if not isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
        return False
    entries = node.keys if isinstance(node, ast.Dict) else node.elts
    return sum(isinstance(entry, ast.Constant) and entry.value in names for entry in entries) >= LEAST


if __name__ == "__main__":
    main()
