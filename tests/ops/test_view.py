"""Views: the signatures of pages, as liftings take them."""

import dataclasses
import importlib
import inspect

import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Value
from graphport.ops import registry
from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES
from graphport.ops.view import Attributes, View
from graphport.ops.views.convolution import ConvView
from graphport.ops.views.pooling import MaxPoolView
from tests.every import every
from tools.operator_views import FOLDER, modules

VIEWS = [
    view
    for name in modules()
    for view in vars(importlib.import_module(f"graphport.ops.views.{name}")).values()
    if isinstance(view, type) and issubclass(view, View) and view is not View
]


def test_generated_view_modules_match_the_definitions():
    assert {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py")} == modules()


@every("view", VIEWS, ids=[view.operator for view in VIEWS])
def test_view_constructor_has_the_signature_of_its_definition(view):
    op_def = inspect.signature(registry.op_defs()[view.operator].function).parameters.values()
    seen = inspect.signature(view).parameters.values()
    assert [(each.name, each.kind is each.KEYWORD_ONLY, each.default) for each in seen] == [
        (each.name, each.kind is each.KEYWORD_ONLY, each.default) for each in op_def
    ]


def test_export_rule_receives_named_operands_and_defaults(monkeypatch):
    monkeypatch.setitem(EXPORT_RULES, ("madeup", "Conv"), [])
    ConvView.export_rule("madeup")(lambda b, op: (b, op))
    x, w = (Value(name, TensorFact(DType.FLOAT32, (1, 1, 3, 3))) for name in "xw")
    ((rule,),) = [EXPORT_RULES["madeup", "Conv"]]
    builder, op = rule.function("builder", x, w, group=2)
    assert (builder, op.x, op.w, op.b, op.group, op.auto_pad) == ("builder", x, w, None, 2, "NOTSET")


def test_view_rejects_unknown_and_missing_attributes():
    with pytest.raises(TypeError, match="madeup"):
        MaxPoolView(Value("x"), kernel_shape=(2, 2), madeup=1)
    with pytest.raises(TypeError, match="kernel_shape"):
        MaxPoolView(Value("x"))


def test_non_defaults_returns_only_changed_attributes():
    op = MaxPoolView(Value("x"), kernel_shape=(2,), ceil_mode=1, auto_pad="NOTSET")
    assert op.non_defaults() == {"kernel_shape": (2,), "ceil_mode": 1}


def test_a_view_with_other_operands_is_another():
    x, w = Value("x"), Value("w")
    op = ConvView(x, w, group=3)
    assert dataclasses.replace(op, w=x).w is x
    assert (op.w, dataclasses.replace(op, w=x).group) == (w, 3)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Strided(Attributes):
    """What two made up words have in common."""

    stride: int
    border: str = "constant"


def test_import_rule_receives_common_attributes_as_one_object(monkeypatch):
    monkeypatch.setitem(IMPORT_RULES, ("madeup", "conv"), [])

    @Strided.lower("madeup", "conv")
    def conv(b, op, x, w=None, *, groups=1):
        return b, op, x, w, groups

    (rule,) = IMPORT_RULES["madeup", "conv"]
    assert rule.function("builder", "x", stride=2, groups=3) == ("builder", Strided(stride=2), "x", None, 3)
    assert conv("builder", Strided(stride=2), "x") == ("builder", Strided(stride=2), "x", None, 1)
    own = "(b, x, w=None, *, groups=1, stride: int, border: str = 'constant')"
    assert str(inspect.signature(rule.function)) == own
    with pytest.raises(TypeError, match="stride"):
        rule.function("builder", "x")
    with pytest.raises(TypeError, match="madeup"):
        rule.function("builder", "x", stride=2, madeup=1)
