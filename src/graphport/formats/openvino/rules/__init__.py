"""Operations of OpenVINO."""

from graphport.ops.declare import Dialect

RECORD = Dialect(decomposes=True, broadcasts_by_attribute=True, infers_anew=True)
