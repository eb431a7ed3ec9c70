"""The Python that generated modules may consist of: node types, attribute chains and calls."""

from __future__ import annotations

import ast

from graphport.ops import registry

IMPORTS = """import zipfile
from pathlib import Path
import torch
import torch.nn.functional as F
from torch import nn"""
NODES = {
    *(ast.Module, ast.Import, ast.ImportFrom, ast.alias, ast.ClassDef, ast.FunctionDef, ast.arguments, ast.arg),
    *(ast.Expr, ast.Assign, ast.Return, ast.With, ast.withitem, ast.If, ast.For, ast.Pass, ast.IfExp),
    *(ast.Name, ast.Load, ast.Store, ast.Attribute, ast.Call, ast.keyword, ast.Subscript, ast.Slice, ast.Starred),
    *(ast.Constant, ast.Tuple, ast.List, ast.Compare, ast.Eq, ast.UnaryOp, ast.USub, ast.BinOp),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor),
    *(ast.LShift, ast.RShift),
}
TEMPLATE = {"__file__", "__init__", "__name__", "__main__"}
CALLED_NAMES = {
    *("weight", "tuple", "float", "int", "bool", "abs", "round", "min", "max", "complex"),
    *("super", "Path", "bytearray", "Model", "isinstance", "print", "model"),
}
METHODS = {
    *("reshape", "view", "permute", "expand", "repeat", "select", "to", "index_put", "size", "unflatten"),
    *("clone", "contiguous", "detach", "t", "read", "with_name", "eval", "register_buffer"),
    *("bool", "byte", "short", "int", "long", "half", "bfloat16", "float", "double"),
}
ATTRIBUTES = {"data", "dtype", "shape"}
MODULES = {
    *("zipfile.ZipFile", "torch.tensor", "torch.as_tensor", "torch.frombuffer", "torch.zeros", "torch.rand"),
    *("torch.manual_seed", "torch.no_grad", "nn.Module", "torch.clamp", "torch.maximum", "torch.minimum"),
    *("torch.strided", "torch.preserve_format", "torch.contiguous_format", "torch.channels_last"),
    "torch.channels_last_3d",
    *(f"torch.{name}" for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float", "long", "half")),
    *(f"torch.{name}" for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "short")),
    *(f"torch.{name}" for name in ("int", "double", "float8_e4m3fn", "float8_e5m2")),
}
ROOTS = {"torch", "nn", "F", "zipfile"}


def check(text: str) -> ast.Module:
    """Parse a generated module and fail at everything that no module needs."""
    tree = ast.parse(text)
    found = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert "\n".join(found) == IMPORTS
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        assert type(node) in NODES, ast.dump(node)
        if isinstance(node, ast.Name):
            assert node.id.isascii(), node.id
            assert not node.id.startswith("__") or node.id in TEMPLATE, node.id
            assert node.id not in ROOTS or id(node) in inner, "a library is no value"
        elif isinstance(node, ast.Attribute) and id(node) not in inner:
            check_chain(node)
        elif isinstance(node, ast.Call):
            check_call(node)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef):
            assert node.name in {"Model", "weight", "__init__", "forward"}
            assert not node.decorator_list
    return tree


def chain_of(node: ast.expr) -> tuple[ast.expr, list[str]]:
    """The expression at the bottom of an attribute chain, and the attributes."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return node, names


def check_chain(node: ast.Attribute) -> None:
    """Accept an operator or constant of PyTorch, a method or a layer."""
    root, names = chain_of(node)
    assert not any(name.startswith("_") for name in names if name not in TEMPLATE), names
    if isinstance(root, ast.Name) and root.id in ROOTS:
        name = ".".join([root.id, *names])
        known = registry.lowering("pnnx", name) or registry.lowering("pnnx", f"complex:{name}")
        assert name in MODULES or known is not None, name
    elif isinstance(root, ast.Name) and root.id == "self":
        assert names[-1] == "data" or len(names) <= 2, names
    else:
        assert names[-1] in METHODS | ATTRIBUTES | {"__init__"}, names


def check_call(node: ast.Call) -> None:
    """Accept known functions, layers of the model and methods."""
    if isinstance(node.func, ast.Name):
        assert node.func.id in CALLED_NAMES, node.func.id
    else:
        assert isinstance(node.func, ast.Attribute), ast.dump(node.func)
    keywords = [keyword.arg for keyword in node.keywords]
    assert all(name is not None and not name.startswith("_") for name in keywords)
    assert len(set(keywords)) == len(keywords)
