"""Nothing of a model file becomes Python: modules that `--code` writes are parsed and held against `code_rules`."""

from __future__ import annotations

import ast
import json
import os
import random
import zipfile
from pathlib import Path

import pytest

import graphport as gp
from graphport.core.python_code import CodeError, Names, checked, literal, path, source
from graphport.formats.pnnx import read, write
from graphport.formats.pnnx.container.code import code_of
from graphport.ir.graph import Graph
from tests.draws import spread, times
from tests.formats.pnnx.code_rules import check
from tests.formats.pnnx.samples import digest
from tests.models import model, node, write_onnx

MODELS = Path(__file__).parents[2] / "conformance" / "pnnx" / "models.zip"
HOSTILE = (
    *('torch.float)if(open("OWNED","w").write("x"))else(0', "__import__('os').system('id')", "{self.__class__}"),
    *("torch.hub.load", "torch.ops.load_library", "torch.load", "torch.utils.cpp_extension.load_inline"),
    *("os.system", "builtins.exec", "torch.__builtins__", "torch._C._jit_clear_class_registry", "nn.Module"),
    *("'", '"', "\\", '"""', "'''", "#", "#x\n", "\\N{LATIN}", "%s", "{0}", "f'{1}'", "lambda:0", "a;b", "a\u2028b"),
    *("\u0456nput", "\uff54orch", "\u202etxt", "e\u0301", "\x85", "\ud800", "é__class__", "__class__", "__dict__"),
    *("class", "None", "True", "self", "print", "float", "eval", "train", "register_buffer", "forward", "x" * 9000),
    *("nan", "inf", "-inf", "1e999", "-0.0", "9" * 40, "-1", "(1,2", "()", "(nan,inf)", "1+2j", "torch.float", ""),
    *("(torch.float,1)", "[0,[1,2]]", "[None,'x']", "size(@0,0)", "@9", "load(@0)", "torch.load", "(%a,2)"),
)
LINES = (
    ("pnnx.Input", "in0", 0, 1, {"#0": "(1,2,4)f32"}),
    ("pnnx.Input", "in1", 0, 1, {"#1": "(1,2,4)f32"}),
    ("Tensor.to", "l0", 1, 1, {"dtype": "torch.float", "$input": None}),
    ("F.softmax", "l1", 1, 1, {"dim": "1", "$input": None}),
    ("torch.arange", "l2", 0, 1, {"end": "4", "dtype": "torch.int64"}),
    ("Tensor.slice", "l3", 1, 1, {"dim": "1", "start": "0", "end": "1", "step": "1", "$input": None}),
    ("Tensor.index", "l4", 1, 1, {"expr": "[None,[0,1]]", "$input": None}),
    ("Tensor.select", "l5", 1, 1, {"dim": "1", "index": "0", "$input": None}),
    ("Tensor.reshape", "l6", 1, 1, {"shape": "(-1,2)", "$input": None}),
    ("pnnx.Expression", "l7", 2, 1, {"expr": "add(mul(@0,2.0),size(@1,0))"}),
    ("torch.cat", "l8", 2, 1, {"dim": "0"}),
    ("torch.einsum", "l9", 2, 1, {"equation": "abc,abc->abc"}),
    ("nn.ReLU6", "l10", 1, 1, {"inplace": "False"}),
    ("nn.GELU", "l11", 1, 1, {"approximate": "tanh"}),
    ("prim::Constant", "l12", 0, 1, {"value": "3"}),
    ("torch.zeros", "l13", 0, 1, {"size": "(2,3)", "dtype": "torch.float"}),
    ("Tensor.index_put", "l14", 3, 1, {"$input": None, "$indices": None, "$values": None, "accumulate": "False"}),
)


def hostile_text(rng: random.Random) -> str:
    """A PNNX text in which some of the types, names, keys and values are hostile."""

    def spoil(text: str, chance: float) -> str:
        if rng.random() >= chance:
            return text
        return "".join(rng.choice(HOSTILE).split()) or "x"

    lines: list[str] = []
    values: list[str] = []
    chosen = [*LINES[:2], *rng.sample(LINES[2:], 5)]
    for kind, name, taken, given, parameters in chosen:
        inputs = [rng.choice(values) for _ in range(taken)]
        results = [spoil(f"v{len(values)}", 0.2) for _ in range(given)]
        entries: list[str] = []
        operands = iter(inputs)
        for key, value in parameters.items():
            if key.startswith("$"):
                entries.append(f"${spoil(key[1:], 0.1)}={next(operands)}")
            elif key.startswith("#"):
                entries.append(f"#{results[0]}={value}")
            else:
                entries.append(f"{spoil(key, 0.1)}={spoil(str(value), 0.4)}")
        words = [
            kind if kind == "pnnx.Input" else spoil(kind, 0.1),
            spoil(name, 0.3),
            str(taken),
            str(given),
            *inputs,
            *results,
            *entries,
        ]
        lines.append(" ".join(words))
        values += results
    lines.append(f"pnnx.Output {spoil('out', 0.3)} 1 0 {values[-1]}")
    return "\n".join(["7767517", f"{len(lines)} {len(set(values))}", *lines, ""])


def test_hostile_parameters_never_become_code(tmp_path):
    path = tmp_path / "net.pnnx.param"
    counts = {"written": 0, "refused": 0, "unreadable": 0}
    for seed in range(times(2000)):
        text = hostile_text(random.Random(seed))
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        try:
            graph, _ = read(path, tolerant=True)
        except gp.DiagnosticError:
            counts["unreadable"] += 1
            continue
        names = {node.results[0]: node.name or "n" for node in graph if node.results}
        try:
            check(code_of(graph, "net.bin", names))
        except CodeError:
            counts["refused"] += 1
        else:
            counts["written"] += 1
    assert min(counts.values()) > times(2000) // 50, counts


def codes_of_writing(graph: Graph, path: Path) -> list[str]:
    """Write a graph with its code; the codes of errors."""
    try:
        write(graph, path, code=True)
    except gp.DiagnosticError as error:
        return [each.code for each in error.diagnostics]
    return []


def test_modules_of_models_that_pnnx_wrote_are_those_that_pytorch_ran(tmp_path):
    digests = json.loads((MODELS.parent / "code.json").read_text())
    folder = Path(os.environ.get("GRAPHPORT_CODE") or tmp_path)
    with zipfile.ZipFile(MODELS) as archive:
        models, data = json.loads(archive.read("models.json")), archive.read("weights.bin")
        places = json.loads(archive.read("weights.json"))
    for name in sorted(models) if folder != tmp_path else spread(sorted(models)):
        path, (start, length) = tmp_path / f"{name}.pnnx.param", places[name]
        path.write_text(models[name]["text"])
        path.with_suffix(".bin").write_bytes(data[start : start + length])
        graph, _ = read(path, tolerant=True)
        made = folder / f"{name}_pnnx.py"
        found = codes_of_writing(graph, folder / path.name)
        assert found in ([], ["PNNX0305"])
        if found:
            assert name not in digests
            continue
        check(made.read_text())
        # Another text is to be run with PyTorch first: tests/conformance/pnnx/run_code.py.
        assert folder != tmp_path or digest(made.read_text()) == digests.get(name), name


@pytest.mark.parametrize("name", ["torch.hub.load", "torch.load", "torch.ops.load_library", "torch.nothing"])
def test_functions_without_a_rule_are_refused(tmp_path, name):
    path = tmp_path / "net.pnnx.param"
    path.write_text(f"7767517\n3 2\npnnx.Input i 0 1 0 #0=(2)f32\n{name} l 1 1 0 1 $input=0\npnnx.Output o 1 0 1\n")
    with pytest.raises(gp.DiagnosticError, match=r"PNNX0305.*not a known operator"):
        gp.save(gp.load(path, raw=True), tmp_path / "again.pnnx.param", code=True)


def test_names_of_an_onnx_model_are_identifiers(tmp_path):
    for index, name in enumerate(HOSTILE):
        text = "".join(c for c in name if c.isprintable())[:200] or "x"
        nodes = [
            node("Relu", [f"{text}x"], [f"{text}h"], name=text),
            node("Neg", [f"{text}h"], [text], name=f"{text}2"),
        ]
        proto = model(nodes, [(f"{text}x", [2])], [(text, [2])])
        proto.graph.name = text
        target = tmp_path / f"net{index}.pnnx.param"
        gp.save(gp.load(write_onnx(tmp_path / "net.onnx", proto)), target, code=True)
        check((tmp_path / f"net{index}_pnnx.py").read_text())


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -float("inf"), -0.0, 1e300, -3, "a'\"\\\n\u202e\ud800", None]
)
def test_a_literal_is_the_value_again(value):
    (text,) = source([ast.Expr(literal((value, value)))])
    assert text.isascii() or "\u202e" not in text
    found = eval(text, {"float": float, "complex": complex})  # noqa: S307  a literal of ours
    assert repr(found) == repr((value, value))


def test_names_are_unique_and_no_keywords():
    names = Names({"self"})
    made = [names.make(text, "v") for text in ("self", "self", "class", "print", "1", "é", "", "_x", "a b", "a b")]
    assert len(set(made)) == len(made)
    assert not {"self", "class", "print"} & set(made)
    assert [checked(each) for each in made] == made


@pytest.mark.parametrize("name", ["__class__", "_x", "class", "a b", "é", "", "a.", "torch.__dict__"])
def test_other_names_are_refused(name):
    with pytest.raises(CodeError):
        path(name)


def test_a_deep_expression_is_computed_in_steps(tmp_path):
    path = tmp_path / "net.pnnx.param"
    text = "@0"
    for _ in range(3000):
        text = f"add({text},1)"
    path.write_text(
        f"7767517\n3 2\npnnx.Input i 0 1 0 #0=(2)f32\npnnx.Expression e 1 1 0 1 expr={text}\npnnx.Output o 1 0 1\n"
    )
    graph, _ = read(path, tolerant=True)
    tree = check(code_of(graph, "net.bin", {}))
    (scope,) = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef) and each.name == "forward"]
    code = compile(ast.Module([*scope.body[:-1]], []), "forward", "exec")
    variables = {"v0": 1.0}
    exec(code, variables)  # noqa: S102  sums of ours
    assert variables["v1"] == 3001.0
