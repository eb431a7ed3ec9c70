from __future__ import annotations

import pytest

from graphport.expression.functions import ARITIES
from graphport.expression.parse import parse
from graphport.expression.rpn import Action, rpn, tree_of


def steps_of(text):
    return rpn(parse(text, ARITIES).tree, ARITIES)


def test_rpn_steps_have_action_and_arity():
    assert [(step.action, str(step), step.arity) for step in steps_of("[size(@0,1),neg(2)]")] == [
        (Action.LOAD, "@0", 0),
        (Action.PUSH, "1", 0),
        (Action.APPLY, "size/2", 2),
        (Action.PUSH, "2", 0),
        (Action.APPLY, "neg", 1),
        (Action.COLLECT, "list/2", 2),
    ]


def test_rpn_steps_have_spans():
    step = steps_of("add(@0,@1)")[-1]
    assert (step.start, step.end) == (0, 10)


@pytest.mark.parametrize("text", ["@0", "add(@0,mul(@1,2.5))", "[size(@0),size(@0,1),[],[None,torch.float]]"])
def test_steps_give_the_tree_back(text):
    assert tree_of(steps_of(text)) == parse(text, ARITIES).tree


def test_steps_that_leave_no_single_result_are_refused():
    with pytest.raises(ValueError, match="2 results remain"):
        tree_of([*steps_of("@0"), *steps_of("@1")])
    with pytest.raises(ValueError, match="needs 2 operands"):
        tree_of(steps_of("add(@0,@1)")[1:])
