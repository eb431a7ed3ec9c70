"""Import and export rules of the dialect `mlp`: a module per family of operators."""

from graphport.ops.lowering.table import RuleTable

RULES = RuleTable("mlp")
