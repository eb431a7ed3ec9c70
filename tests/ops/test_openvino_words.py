"""The rules for OpenVINO's words against the table of its operation sets."""

import inspect

from graphport.ops import registry
from graphport.ops.declare import LIFTINGS, LOWERINGS
from tests.every import every
from tests.ops.openvino_oracle import table

registry.load("openvino")
RULES = {word: rules for (dialect, word), rules in LOWERINGS.items() if dialect == "openvino"}
PATTERNS = registry.patterns("openvino")


def test_every_word_that_a_rule_reads_is_in_the_table():
    assert not {*RULES, *PATTERNS} - set(table())


@every("word", sorted(RULES))
def test_a_rule_takes_every_attribute_of_its_word(word):
    (rule,) = RULES[word]
    parameters = inspect.signature(rule.function).parameters.values()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters):
        return
    taken = {parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY}
    wanted = {name.replace("-", "_") for name in table()[word]} - {"auto_broadcast"}
    assert wanted <= taken


@every("word", sorted(PATTERNS))
def test_a_pattern_takes_every_attribute_of_its_word(word):
    wanted = {name.replace("-", "_") for name in table()[word]} - {"auto_broadcast"}
    assert any(wanted <= {key for key, _ in pattern.arguments} for _, pattern in PATTERNS[word])


def test_so_many_operations_are_understood():
    names = {word.partition(".")[2] for word in {*RULES, *PATTERNS}}
    assert len(names) >= 190
    assert len({name for dialect, name in LIFTINGS if dialect == "openvino"}) >= 120
