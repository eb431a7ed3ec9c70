"""Activations of TensorFlow."""

from __future__ import annotations

from graphport.formats.tensorflow.rules.binding import RULES

RULES.lower("""
Relu(x) -> Relu(x)
Relu6(x) -> Clip(x, 0, 6)
Elu(x) -> Elu(x)
Selu(x) -> Selu(x)
LeakyRelu(x, *, alpha=0.2) -> LeakyRelu(x, alpha=alpha)
Softplus(x) -> Softplus(x)
Softsign(x) -> Softsign(x)
Sigmoid(x) -> Sigmoid(x)
Tanh(x) -> Tanh(x)
Softmax(x) -> Softmax(x)
LogSoftmax(x) -> LogSoftmax(x)
""")
