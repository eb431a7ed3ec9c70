"""The rules for OpenVINO's words against the table of its operation sets."""

import inspect

from graphport.ops import registry
from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES
from tests.every import every
from tests.ops.openvino_oracle import table

registry.load("openvino")
RULES = {op_type: rules for (dialect, op_type), rules in IMPORT_RULES.items() if dialect == "openvino"}
PATTERNS = registry.patterns("openvino")


def test_every_op_type_that_a_rule_reads_is_in_the_table():
    assert not {*RULES, *PATTERNS} - set(table())


@every("op_type", sorted(RULES))
def test_openvino_rules_accept_every_attribute_of_the_op_type(op_type):
    (rule,) = RULES[op_type]
    parameters = inspect.signature(rule.function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    taken = {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
    wanted = {name.replace("-", "_") for name in table()[op_type]} - {"auto_broadcast"}
    assert wanted <= taken


@every("op_type", sorted(PATTERNS))
def test_openvino_patterns_accept_every_attribute_of_the_op_type(op_type):
    wanted = {name.replace("-", "_") for name in table()[op_type]} - {"auto_broadcast"}
    assert any(wanted <= {key for key, _ in pattern.arguments} for _, pattern in PATTERNS[op_type])


def test_so_many_operations_are_understood():
    names = {op_type.partition(".")[2] for op_type in {*RULES, *PATTERNS}}
    assert len(names) >= 190
    assert len({name for dialect, name in EXPORT_RULES if dialect == "openvino"}) >= 120
