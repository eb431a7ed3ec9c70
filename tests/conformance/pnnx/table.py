"""The modules that are exported: a name, a module or function, inputs, and options of pnnx."""

from __future__ import annotations

import torch
from torch import nn

R = torch.randn
cases = {}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *operands):
        return self.function(*operands)


def add(name, function, *inputs, **options):
    module = function if isinstance(function, nn.Module) else Function(function)
    cases[name] = (module.eval(), inputs, options)
