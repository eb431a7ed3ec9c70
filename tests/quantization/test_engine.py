"""Sessions in which the quantizer computes."""

from __future__ import annotations

from graphport.quantization import engine
from tests.quantization import nets


def test_threads_of_its_sessions_do_not_keep_a_processor():
    session = engine.session(nets.residual().graph)
    told = session._session.get_session_options()
    assert told.get_session_config_entry("session.intra_op.allow_spinning") == "0"
