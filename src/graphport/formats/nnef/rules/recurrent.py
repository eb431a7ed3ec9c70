"""Export of recurrent layers to NNEF, which has none: unrolled steps."""

from __future__ import annotations

from graphport.ops.decompositions.recurrent_in_steps import gru_in_steps, lstm_in_steps, rnn_in_steps
from graphport.ops.views.recurrent import GRUView, LSTMView, RNNView

LSTMView.export_rule("nnef")(lstm_in_steps)
GRUView.export_rule("nnef")(gru_in_steps)
RNNView.export_rule("nnef")(rnn_in_steps)
