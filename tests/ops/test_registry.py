"""Where rules are looked for."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

from graphport.ops import registry
from graphport.ops.dialects import RULES

HOMES = """
import sys
from importlib import import_module
from pkgutil import walk_packages
import graphport.ops
from graphport.ops import declare, registry
from graphport.ops.dialects import RULES

register, homes = declare._register, {}

def noting(table, dialect, op_type, until, **said):
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        frame = frame.f_back
    key = ("lowers" if table is declare.IMPORT_RULES else "lifts", dialect, op_type)
    homes.setdefault(key, []).append(frame.f_globals["__name__"])
    return register(table, dialect, op_type, until, **said)

declare._register = noting
for found in walk_packages(graphport.ops.__path__, "graphport.ops."):
    import_module(found.name)
for package in registry.dialects():
    registry.load(package)
assert len(homes) > 2000
family = {name: op_def.function.__module__.split(".")[3] for name, op_def in declare.OP_DEFS.items()}

def of(module):
    package = max((each for each in RULES.values() if module.startswith(f"{each}.")), key=len)
    name = module.removeprefix(f"{package}.").partition(".")[0]
    return max((family for family in registry.families() if name.startswith(family)), key=len)

for (kind, dialect, op_type), modules in homes.items():
    said = {of(module) for module in modules}
    if kind == "lifts":
        # Where a page has a pattern or a rule in its own family, there is none elsewhere.
        if len(said) > 1 or said != {family[op_type]} and dialect in declare.OP_DEFS[op_type].spellings:
            print("the rules of an operator are in several families:", dialect, op_type, modules)
    elif dialect == "onnx" and op_type in family:
        if said != {family[op_type]}:
            print("not in the family of its page:", op_type, modules)
    elif op_defs := [family[op_def.name] for op_def, _ in registry.patterns(dialect).get(op_type, ())]:
        if not said <= set(op_defs):
            print("not in the family of a page with a pattern:", dialect, op_type, modules)
    elif dialect != "onnx" and len(modules) > 1:
        print("has two rules:", dialect, op_type, modules)
"""


def test_loading_a_family_registers_all_of_its_rules():
    done = subprocess.run([sys.executable, "-c", HOMES], capture_output=True, text=True, check=True)
    assert done.stdout == ""


READERS = {
    "keras": ["graphport.formats.keras.container.config"],
    "stablehlo": ["graphport.formats.stablehlo.reader"],
}
"""Modules that import the rules of a dialect that only a reader applies."""


@pytest.mark.parametrize("package", registry.dialects())
def test_every_dialect_module_belongs_to_a_family(package):
    """A module that no family's name begins is imported by others, or nothing of it is ever registered."""
    registry.load(package)
    for reader in READERS.get(package, ()):
        import_module(reader)
    folder = import_module(RULES[package])
    names = [found.name for found in walk_packages(folder.__path__, f"{folder.__name__}.")]
    inner = [each for each in RULES.values() if each.startswith(f"{folder.__name__}.")]
    names = [name for name in names if not any(name == each or name.startswith(f"{each}.") for each in inner)]
    assert [name for name in names if name not in sys.modules] == []


def test_no_family_name_is_a_prefix_of_another():
    families = registry.families()
    assert not [(a, b) for a in families for b in families if b.startswith(f"{a}_")]
