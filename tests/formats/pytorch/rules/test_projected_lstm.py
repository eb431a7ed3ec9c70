"""An LSTM with a projection, written out step by step, is what its canonical form computes."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

import graphport as gp

RANDOM = np.random.default_rng(3)
SIZE, HIDDEN, WIDTH, STEPS, BATCH = 5, 6, 3, 4, 2


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def one_way(x, w_ih, w_hh, b_ih, b_hh, w_hr):
    h, c = np.zeros((BATCH, WIDTH)), np.zeros((BATCH, HIDDEN))
    found = []
    for step in x:
        i, f, g, o = np.split(step @ w_ih.T + b_ih + h @ w_hh.T + b_hh, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = (sigmoid(o) * np.tanh(c)) @ w_hr.T
        found.append(h)
    return np.array(found)


@pytest.mark.parametrize("ways", [1, 2])
def test_a_projected_lstm_of_pnnx_is_what_its_steps_compute_also_when_written_again(tmp_path, ways):
    shapes = {"weight_ih": (4 * HIDDEN, SIZE), "weight_hh": (4 * HIDDEN, WIDTH), "bias_ih": (4 * HIDDEN,)}
    shapes |= {"bias_hh": (4 * HIDDEN,), "weight_hr": (WIDTH, HIDDEN)}
    weights = {
        f"{name}_l0{end}": RANDOM.normal(size=shape).astype(np.float32)
        for end in ("", "_reverse")[:ways]
        for name, shape in shapes.items()
    }
    path = tmp_path / "net.pnnx.param"
    with zipfile.ZipFile(tmp_path / "net.pnnx.bin", "w") as archive:
        for name, array in weights.items():
            archive.writestr(f"m.{name}", array.tobytes())
    said = " ".join(f"@{name}=({','.join(map(str, array.shape))})f32" for name, array in sorted(weights.items()))
    flags = f"batch_first=False bias=True bidirectional={ways == 2} hidden_size={HIDDEN} input_size={SIZE}"
    own, made = f"({STEPS},{BATCH},{SIZE})", f"({STEPS},{BATCH},{ways * WIDTH})"
    rows = [
        f"pnnx.Input i 0 1 0 #0={own}f32",
        f"nn.LSTM m 1 1 0 1 {flags} num_layers=1 proj_size={WIDTH} {said} #0={own}f32 #1={made}f32",
        f"pnnx.Output o 1 0 1 #1={made}f32",
    ]
    path.write_text("\n".join(["7767517", "3 2", *rows, ""]))
    x = RANDOM.normal(size=(STEPS, BATCH, SIZE)).astype(np.float32)
    names = list(shapes)
    expected = one_way(x, *(weights[f"{name}_l0"] for name in names))
    if ways == 2:
        back = one_way(x[::-1], *(weights[f"{name}_l0_reverse"] for name in names))[::-1]
        expected = np.concatenate([expected, back], axis=2)
    model = gp.load(path)
    (found,) = gp.run(model, {"0": x}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    if ways == 1:
        gp.save(model, tmp_path / "again.pnnx.param")
        (again,) = gp.run(gp.load(tmp_path / "again.pnnx.param"), {"0": x}).values()
        np.testing.assert_allclose(again, expected, rtol=1e-4, atol=1e-5)
