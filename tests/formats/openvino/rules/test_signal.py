"""Fourier transforms and windows in OpenVINO."""

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.definitions.signal import DFT, STFT, BlackmanWindow, HammingWindow, HannWindow
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word, on_the_whole_processor

RANDOM = np.random.default_rng(13)
PARTS = RANDOM.normal(size=(3, 6, 5, 2)).astype(np.float32)
REAL = RANDOM.normal(size=(3, 6, 5)).astype(np.float32)


def whole(*numbers):
    return np.array(numbers, np.int64)


@on_the_whole_processor
@at_once("op_type", ["opset7.DFT", "opset7.IDFT"])
@at_once(("axes", "lengths"), [((1,), None), ((0, -1), None), ((1, 2), (4, 7)), ((2,), (-1,))])
def test_transform(op_type, axes, lengths):
    operands = [PARTS, whole(*axes), *([] if lengths is None else [whole(*lengths)])]
    check_word(op_type, operands, constants=range(1, len(operands)), tolerance=1e-4)


@at_once(("axes", "lengths"), [((1,), None), ((0, -1), None), ((1, 2), (4, 7)), ((2, 1), (6, 8))])
def test_transform_of_real_numbers(axes, lengths):
    operands = [REAL, whole(*axes), *([] if lengths is None else [whole(*lengths)])]
    # OpenVINO's plugin dies of some of these, or reads beyond the signal.
    found = np.fft.rfftn(REAL, lengths, axes)
    expected = np.stack([found.real, found.imag], -1).astype(np.float32)
    given = range(1, len(operands))
    check_word("opset9.RDFT", operands, constants=given, tolerance=1e-4, expected=[expected])
    if lengths is None:
        check_word("opset9.RDFT", operands, constants=given, tolerance=1e-4)


@at_once(("axes", "lengths"), [((1,), None), ((0, -1), None), ((1, 2), (4, 7)), ((2, 1), (6, 12))])
def test_transform_to_real_numbers(axes, lengths):
    operands = [PARTS, whole(*axes), *([] if lengths is None else [whole(*lengths)])]
    numbers = PARTS[..., 0] + 1j * PARTS[..., 1]
    sizes = [None] * len(axes) if lengths is None else list(lengths)
    for axis, size in list(zip(axes, sizes, strict=True))[:-1]:
        numbers = np.fft.ifft(numbers, size, axis)
    expected = np.fft.irfft(numbers, sizes[-1], axes[-1]).astype(np.float32)
    check_word("opset9.IRDFT", operands, constants=range(1, len(operands)), tolerance=1e-4, expected=[expected])


@at_once("transposed", [False, True])
@at_once("shape", [(20,), (2, 20)])
@at_once("size", [6, 8])
def test_transform_of_frames(transposed, shape, size):
    operands = [RANDOM.normal(size=shape).astype(np.float32), np.hanning(6).astype(np.float32)]
    operands += [np.array(size), np.array(3)]
    check_word("opset15.STFT", operands, constants=(1, 2, 3), tolerance=1e-4, transpose_frames=transposed)


STATED = [
    ([PARTS], {}),
    ([PARTS, None, np.array(0)], {"inverse": 1}),
    ([PARTS, np.array(8), np.array(1)], {}),
    ([REAL[..., None]], {}),
    ([REAL[..., None], np.array(4)], {"onesided": 1}),
    ([PARTS], {"inverse": 1, "onesided": 1}),
]


@on_the_whole_processor
@at_once(("inputs", "attributes"), STATED, ids=map(str, range(len(STATED))))
def test_exporting_a_transform(inputs, attributes):
    constants = [place for place in range(1, len(inputs)) if inputs[place] is not None]
    assert check_operator(DFT, inputs, constants=constants, tolerance=1e-4, **attributes) is not None


@on_the_whole_processor
@at_once("onesided", [0, 1])
@at_once("parts", [1, 2])
def test_exporting_a_transform_of_frames(onesided, parts):
    if onesided and parts == 2:
        onesided = 0
    signal = RANDOM.normal(size=(2, 20, parts)).astype(np.float32)
    operands = [signal, np.array(3), np.hanning(8).astype(np.float32)]
    assert check_operator(STFT, operands, constants=(1, 2), tolerance=1e-4, onesided=onesided) is not None
    operands = [signal, np.array(3), None, np.array(8)]
    assert check_operator(STFT, operands, constants=(1, 3), tolerance=1e-4, onesided=onesided) is not None


@at_once("op_def", [HannWindow, HammingWindow, BlackmanWindow], ids=lambda op_def: op_def.name)
@at_once("periodic", [0, 1])
def test_exporting_a_window(op_def, periodic):
    assert check_operator(op_def, [np.array(10)], tolerance=1e-5, periodic=periodic) is not None
    said = check_operator(op_def, [np.array(10)], constants=(0,), periodic=periodic, output_datatype=DType.FLOAT16)
    assert said is not None


@on_the_whole_processor
@at_once("op_type", ["opset7.DFT", "opset7.IDFT"])
@at_once("lengths", [[5, -1], [2, 3]])
def test_lengths_of_a_transform_at_run_time(op_type, lengths):
    x = np.random.default_rng(4).normal(size=(3, 4, 2)).astype(np.float32)
    operands = [x, np.array([0, 1]), np.array(lengths)]
    check_word(op_type, operands, constants=(1,), symbolic=True, tolerance=1e-4)


@at_once("lengths", [[], [5], [8], [4]])
def test_half_a_spectrum_of_any_extent(lengths):
    x = np.random.default_rng(5).normal(size=(2, 4, 2)).astype(np.float32)
    operands = [x, np.array([1]), *([np.array(lengths)] if lengths else [])]
    # For a longer signal OpenVINO's plugin takes numbers of the next spectrum.
    expected = [np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=lengths[0] if lengths else None).astype(np.float32)]
    check_word("opset9.IRDFT", operands, constants=(1, 2), symbolic=True, tolerance=1e-4, expected=expected)


@on_the_whole_processor
@at_once("inverse", [0, 1])
def test_a_transform_of_numbers_of_open_parts(inverse):
    x = np.random.default_rng(6).normal(size=(2, 4, 2)).astype(np.float32)
    for given in (x, x[..., :1]):
        operands = [given, None, np.array(1)]
        check_operator(DFT, operands, constants=(2,), symbolic=True, tolerance=1e-4, inverse=inverse)
