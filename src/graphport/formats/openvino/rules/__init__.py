"""Operations of OpenVINO."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True, checks_operands=True, infers_anew=True)
