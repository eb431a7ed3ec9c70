"""Encoders: hidden states of tokens, and task heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.formats.checkpoint.architecture.decoder import DecoderNet, Rotations
from graphport.formats.checkpoint.architecture.masks import Masks
from graphport.ops.definitions.activation import Relu, Tanh
from graphport.ops.definitions.arithmetic import Add, Div, Max, Mul
from graphport.ops.definitions.attention import Attention, RotaryEmbedding
from graphport.ops.definitions.comparison import Equal, Not
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.indexing.gathering import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.reduction.reduce import ReduceL2, ReduceSum
from graphport.ops.definitions.reduction.running import CumSum
from graphport.ops.definitions.reshape import Expand, Shape, Squeeze

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.checkpoint.container.folder import Pooling
    from graphport.ir.graph import Graph, Value

TASKS = ("Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering")
"""Ends of the names of architectures that are read."""


class EncoderNet(DecoderNet):
    """An encoder under construction."""

    def encoder_graph(self, task: str, labels: int, pooling: Pooling | None) -> Graph:
        """Return the graph with the outputs of a task."""
        net, decoder = self.net, self.decoder
        extents = net.graph.extents
        batch, length = extents.declare("batch"), extents.declare("sequence")
        ids = net.input("input_ids", DType.INT64, batch, length)
        self.mask = net.input("attention_mask", DType.INT64, batch, length)
        types = net.input("token_type_ids", DType.INT64, batch, length) if decoder.types > 1 else None
        self.masks = Masks(net, ids, self.mask)
        self._biases: dict[int, Value] = {}
        positions = self._positions(ids)
        self.tables = Rotations(net, positions) if decoder.positions == "rope" else None
        x = self._embedding(ids, types, positions)
        for layer in range(decoder.layers):
            x = self._layer(x, layer)
        if decoder.final_norm:
            x = self.parts.norm(x, decoder.names["final_norm"])
        heads: dict[str, Callable[[Value, int], dict[str, Value]]] = {
            "ForMaskedLM": self._mlm,
            "ForSequenceClassification": self._classes,
            "ForTokenClassification": self._tokens,
            "ForQuestionAnswering": self._answers,
        }
        outputs = heads[task](x, labels) if task in heads else self._hidden_state_outputs(x)
        if pooling is not None:
            outputs["sentence_embedding"] = self._pooled(x, pooling)
        return net.finish(list(outputs.items()))

    def _positions(self, ids: Value) -> Value:
        """Return the position of each token.  Shapes: → [B, S]."""
        net, decoder = self.net, self.decoder
        if decoder.pad < 0:
            places = net.op(Range, net.integer(0), self.masks.length, net.integer(1), stem="positions")
            return net.op(Expand, net.unsqueeze(places, 0), net.op(Shape, ids), stem="positions")
        is_text = net.op(Not, net.op(Equal, ids, net.integer(decoder.pad)), stem="is_text")
        marks = net.cast(is_text, DType.INT64)
        counts = net.op(Mul, net.op(CumSum, marks, net.integer(1), stem="positions"), marks, stem="positions")
        return net.op(Add, counts, net.integer(decoder.pad), stem="positions")

    def _embedding(self, ids: Value, types: Value | None, positions: Value) -> Value:
        net, decoder, parts = self.net, self.decoder, self.parts
        width = decoder.embed_size or decoder.hidden
        self.table = net.weight(parts.tensor("embed", (decoder.vocab, width)), decoder.names["embed"])
        x = net.op(Gather, self.table, ids, stem="embedding")
        if decoder.types:
            table = net.weight(parts.tensor("types", (decoder.types, width)), decoder.names["types"])
            x = net.add(x, net.op(Gather, table, net.integer(0) if types is None else types, stem="type_embedding"))
        if decoder.positions == "learned":
            table = net.weight(parts.tensor("positions", (decoder.context, width)), decoder.names["positions"])
            x = net.add(x, net.op(Gather, table, positions, stem="position_embedding"))
        x = parts.norm(x, decoder.names["embed_norm"], width=width)
        if width == decoder.hidden:
            return x
        return parts.named_linear(x, decoder.names["project_in"], decoder.hidden, width, has_bias=True)

    def _norm(self, x: Value, layer: int, role: str) -> Value:
        name = self.parts.name(role, layer)
        is_absent = layer == 0 and role == "norm1" and self.decoder.qkv == "blocks"
        if is_absent and not self.weights.has(f"{name}.weight"):
            return x
        return super()._norm(x, layer, role)

    def _attention(self, x: Value, layer: int) -> Value:
        net, decoder = self.net, self.decoder
        q, k, v = self.parts.queries_keys_values(x, layer)
        if self.tables is not None:
            cos, sin = self.tables.tables(self.rotations[self.windowed[layer]])
            q, k = (net.op(RotaryEmbedding, each, cos, sin, stem="rotated") for each in (q, k))
        reach = decoder.window // 2 if self.windowed[layer] else 0
        if reach not in self._biases:
            self._biases[reach] = self.masks.local(reach)
        y = net.op(Attention, q, k, v, self._biases[reach], scale=self._scale(layer), stem="attention")
        return self.parts.output(net.join_heads(y, decoder.hidden), layer)

    def _hidden_state_outputs(self, x: Value) -> dict[str, Value]:
        outputs = {"last_hidden_state": x}
        if self.decoder.pooled and self.weights.has(f"{self.decoder.names['pooler']}.weight"):
            outputs["pooler_output"] = self._pooler(x)
        return outputs

    def _first_token(self, x: Value) -> Value:
        """Return the hidden state of the first token.  Shapes: [B, S, H] → [B, H]."""
        net = self.net
        first = net.op(Slice, x, net.integers(0), net.integers(1), net.integers(1), stem="first")
        return net.op(Squeeze, first, net.integers(1), stem="first")

    def _pooler(self, x: Value) -> Value:
        hidden = self.decoder.hidden
        name = self.decoder.names["pooler"]
        return self.net.op(Tanh, self.parts.named_linear(self._first_token(x), name, hidden, hidden, has_bias=True))

    def _transform(self, x: Value) -> Value:
        """Append a dense layer, an activation and a norm."""
        decoder, parts = self.decoder, self.parts
        hidden = decoder.embed_size or decoder.hidden
        name = decoder.names["mlm_dense"]
        x = parts.named_linear(x, name, hidden, decoder.hidden, has_bias=decoder.mlm_dense_bias)
        return parts.norm(self.net.activate(x, decoder.mlm_act), decoder.names["mlm_norm"], width=hidden)

    def _mlm(self, x: Value, labels: int) -> dict[str, Value]:
        del labels
        decoder, weights = self.decoder, self.weights
        name = decoder.names["mlm_decoder"]
        shape = (decoder.vocab, decoder.embed_size or decoder.hidden)
        x = self._transform(x)
        if decoder.tied:
            logits = self.net.tied_linear(x, self.table, name)
            if weights.has(f"{name}.weight"):
                weights.stored(f"{name}.weight", shape)
        else:
            logits = self.net.linear(x, weights.float(f"{name}.weight", shape), None, name)
        # The decoder's bias and that of the head are one tensor if the weights are tied.
        biases = [each for each in (f"{name}.bias", decoder.names["mlm_bias"]) if weights.has(each)]
        for each in biases:
            weights.stored(each, (decoder.vocab,))
        if decoder.head_bias:
            bias = biases[0] if biases and not decoder.tied else decoder.names["mlm_bias"]
            logits = self.net.add(logits, self.net.weight(weights.float(bias, (decoder.vocab,)), bias))
        return {"logits": logits}

    def _classes(self, x: Value, labels: int) -> dict[str, Value]:
        decoder, parts, hidden = self.decoder, self.parts, self.decoder.hidden
        last = "classifier"
        if decoder.classify == "dense":
            h = parts.named_linear(self._first_token(x), "classifier.dense", hidden, hidden, has_bias=True)
            h = self.net.activate(h, decoder.classify_act)
            last = "classifier.out_proj"
        elif decoder.classify == "relu":
            h = self.net.op(
                Relu, parts.named_linear(self._first_token(x), "pre_classifier", hidden, hidden, has_bias=True)
            )
        elif decoder.classify == "head":
            h = self._transform(self._mean(x) if decoder.classify_mean == "mean" else self._first_token(x))
        else:
            h = self._pooler(x)
        return {"logits": parts.named_linear(h, last, labels, hidden, has_bias=True)}

    def _tokens(self, x: Value, labels: int) -> dict[str, Value]:
        h = self._transform(x) if self.decoder.classify == "head" else x
        return {"logits": self.parts.named_linear(h, "classifier", labels, self.decoder.hidden, has_bias=True)}

    def _answers(self, x: Value, labels: int) -> dict[str, Value]:
        del labels
        is_head = self.decoder.classify == "head"
        h = self._transform(x) if is_head else x
        name = "classifier" if is_head else "qa_outputs"
        both = self.parts.named_linear(h, name, 2, self.decoder.hidden, has_bias=True)
        net = self.net
        found: dict[str, Value] = {}
        for index, label in enumerate(("start_logits", "end_logits")):
            part = net.op(Slice, both, net.integers(index), net.integers(index + 1), net.integers(2), stem="answer")
            found[label] = net.op(Squeeze, part, net.integers(2), stem="answer")
        return found

    def _mean(self, x: Value) -> Value:
        """Return the mean over the tokens of the mask.  Shapes: [B, S, H] → [B, H]."""
        net = self.net
        mask = net.cast(net.unsqueeze(self.mask, 2), DType.FLOAT32)
        total = net.op(ReduceSum, net.op(Mul, x, mask), net.integers(1), keepdims=0, stem="sum")
        count = net.op(ReduceSum, mask, net.integers(1), keepdims=0, stem="count")
        return net.op(Div, total, net.op(Max, count, net.floats(1e-9)), stem="mean")

    def _pooled(self, x: Value, pooling: Pooling) -> Value:
        pooled = self._first_token(x) if pooling.is_first else self._mean(x)
        if not pooling.is_normalized:
            return pooled
        net = self.net
        norm = net.op(ReduceL2, pooled, net.integers(-1), keepdims=1, stem="norm")
        return net.op(Div, pooled, net.op(Max, norm, net.floats(1e-12)), stem="normalized")
