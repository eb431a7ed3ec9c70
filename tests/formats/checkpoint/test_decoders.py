"""Decoders of `models/`: the graph computes what transformers computes, with padding and from the caches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import graphport as gp

MODELS = Path(__file__).parent / "models"
NAMES = sorted(
    path.stem for path in MODELS.glob("*.npz") if not path.stem.startswith(("blocks", "encoder_", "quantized_"))
)


def empty_caches(session):
    return {
        port.name: np.zeros([2, port.shape[1], 0, port.shape[3]], np.float32)
        for port in session.get_inputs()
        if port.name.startswith("past")
    }


def feeds(session, ids, mask, caches):
    positions = np.clip(mask.cumsum(1) - 1, 0, None)[:, -ids.shape[1] :]
    given = {"input_ids": ids, "attention_mask": mask, "position_ids": positions, **caches}
    return {port.name: given[port.name] for port in session.get_inputs()}


@pytest.fixture(scope="module", params=NAMES)
def case(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "m.onnx"
    gp.save(gp.load(MODELS / request.param), path)
    return onnxruntime.InferenceSession(path), np.load(MODELS / f"{request.param}.npz")


def test_logits_and_cached_steps_equal_those_of_transformers(case):
    session, stored = case
    names = [port.name for port in session.get_outputs()]
    mask = stored["mask"]
    found = dict(zip(names, session.run(None, feeds(session, stored["ids"], mask, empty_caches(session))), strict=True))
    seen = mask.astype(bool)
    np.testing.assert_allclose(found["logits"][seen], stored["logits"][seen], rtol=0, atol=2e-4)
    caches = {name.replace("present", "past_key_values"): value for name, value in found.items() if name != "logits"}
    longer = np.concatenate([mask, np.ones_like(stored["next"])], 1)
    (logits, *_) = session.run(None, feeds(session, stored["next"], longer, caches))
    np.testing.assert_allclose(logits, stored["next_logits"], rtol=0, atol=2e-4)


def test_the_reference_computes_equal_results():
    model, stored = gp.load(MODELS / "gemma2"), np.load(MODELS / "gemma2.npz")
    caches = {name: np.zeros((2, 2, 0, 8), np.float32) for name in model.inputs if name.startswith("past")}
    positions = np.clip(stored["mask"].cumsum(1) - 1, 0, None)
    given = {"input_ids": stored["ids"], "attention_mask": stored["mask"], "position_ids": positions, **caches}
    seen = stored["mask"].astype(bool)
    np.testing.assert_allclose(gp.run(model, given)["logits"][seen], stored["logits"][seen], rtol=0, atol=2e-4)
