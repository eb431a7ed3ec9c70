"""Operations of OpenVINO."""

from graphport.ops.declare import Dialect

RECORD = Dialect(checks_operands=True, infers_anew=True)
