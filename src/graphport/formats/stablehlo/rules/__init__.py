"""Import rules: operations of StableHLO and CHLO as canonical operators, a module per family.

The rules make nodes with an `Emitter` while a program is read. The dialect itself has three operators, which have no
canonical form: construction of a complex tensor, and its real and imaginary part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.ops.declare import Dialect, meaning

RECORD = Dialect()


@meaning("stablehlo", "complex")
def make_complex(real: Any, imaginary: Any) -> Any:
    """Make a complex tensor of its real and imaginary parts."""
    found = np.empty(real.shape, np.complex128 if real.dtype == np.float64 else np.complex64)
    found.real, found.imag = real, imaginary
    return found


@meaning("stablehlo", "real")
def real_component(x: Any) -> Any:
    """Return the real parts of a complex tensor."""
    return np.array(x.real)


@meaning("stablehlo", "imag")
def imaginary_component(x: Any) -> Any:
    """Return the imaginary parts of a complex tensor."""
    return np.array(x.imag)
