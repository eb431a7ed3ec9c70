"""The Python that modules of exported programs may consist of: node types, attribute chains and calls."""

from __future__ import annotations

import ast

from graphport.formats.pytorch.schemas import schema_of, schemas
from tests.formats.pnnx.code_rules import NODES, chain_of

IMPORTS = [
    *("from pathlib import Path", "import torch", "from safetensors.torch import load_file", "from torch import nn"),
    "import torch.ao.quantization.fx._decomposed",
]
TORCH = {
    *("empty", "device", "strided", "contiguous_format", "preserve_format", "channels_last", "channels_last_3d"),
    *("bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16"),
    *("float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "ops.aten"),
}
CALLED_NAMES = {"super", "Path", "getattr", "load_file", "Model", "max", "min", "complex", "float"}
METHODS = {"register_buffer", "register_parameter", "add_module", "with_name", "load_state_dict", "item", "__init__"}


def check(text: str) -> ast.Module:
    """Parse a generated module and fail at everything that no module needs."""
    tree = ast.parse(text)
    imports = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    assert imports in (IMPORTS, IMPORTS[:-1])
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    for node in ast.walk(tree):
        assert type(node) in NODES | {ast.While}, ast.dump(node)
        if isinstance(node, ast.Name):
            assert node.id.isascii(), node.id
            assert not node.id.startswith("_") or node.id == "__file__", node.id
            assert node.id not in {"torch", "aten", "nn"} or id(node) in inner or isinstance(node.ctx, ast.Store)
        elif isinstance(node, ast.Attribute) and id(node) not in inner:
            check_chain(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id in CALLED_NAMES | defined, node.func.id
        elif isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Attribute | ast.Call), ast.dump(node.func)
    return tree


def check_chain(node: ast.Attribute) -> None:
    """Accept an operator or constant of PyTorch, a member of the module or a method."""
    root, names = chain_of(node)
    name = ".".join(names)
    if isinstance(root, ast.Name) and root.id == "aten":
        assert schema_of(f"aten.{name}") or (len(names) == 1 and len(schemas(name)) == 1), name
    elif isinstance(root, ast.Name) and root.id == "torch":
        assert name in TORCH or schema_of(name.removeprefix("ops.")), name
    elif isinstance(root, ast.Name) and root.id == "nn":
        assert name in {"Module", "Parameter"}, name
    elif isinstance(root, ast.Name) and root.id == "self":
        assert not any(part.startswith("_") for part in names), name
    else:
        assert name in METHODS | {"shape"}, name
