"""One graph for every dialect: values, nodes, subgraphs; verify, rewrite, search, text form."""

from graphport.ir.graph import Attribute, Graph, Node, Use, Value

__all__ = ["Attribute", "Graph", "Node", "Use", "Value"]
