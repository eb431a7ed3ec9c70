"""Image folders as samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

import graphport as gp
from graphport.cli.main import cli
from graphport.quantization.samples import gather
from tests.passes.cases import info, model, node, some

if TYPE_CHECKING:
    from pathlib import Path

IMAGE: Any = pytest.importorskip("PIL.Image")
MEAN, STD = (0.5, 0.25, 0.125), (0.5, 0.25, 2.0)


def net(shape: tuple[int | str, ...] = ("N", 3, 8, 8)) -> gp.Model:
    channels = int(shape[1]) if shape[1] in (1, 3) else 3
    nodes = [node("Conv", "x w", "h"), node("Relu", "h", "y")]
    return gp.from_onnx(model(nodes, [info("x", shape)], [info("y", None)], {"w": some(6, channels, 1, 1)}))


def folder(path: Path, *, count: int = 12, size: tuple[int, int] = (8, 8), mode: str = "RGB") -> Path:
    path.mkdir()
    random = np.random.default_rng(0)
    for number in range(count):
        shape = (*size, 3) if mode == "RGB" else size
        IMAGE.fromarray(random.integers(0, 256, shape).astype(np.uint8), mode).save(path / f"{number:02}.png")
    return path


def pixels(path: Path) -> Any:
    return np.stack([np.asarray(IMAGE.open(each)) for each in sorted(path.iterdir())])


def samples(of: gp.Model, pictures: gp.Pictures) -> Any:
    return np.concatenate([run["x"] for run, _ in gather(of.graph, pictures).runs(4)])


def test_pixels_are_normalized_channel_by_channel(tmp_path: Path):
    where = folder(tmp_path / "p")
    expected = (pixels(where) / 255 - MEAN) / STD
    found = samples(net(), gp.Pictures(where, mean=MEAN, std=STD))
    np.testing.assert_allclose(found, expected.transpose(0, 3, 1, 2), atol=1e-5)


def test_white_option_keeps_pixels_up_to_255(tmp_path: Path):
    where = folder(tmp_path / "p")
    found = samples(net(), gp.Pictures(where, mean=(127.0,), std=(128.0,), white=255))
    np.testing.assert_allclose(found, (pixels(where) - 127.0).transpose(0, 3, 1, 2) / 128, atol=1e-5)


def test_images_are_center_cropped(tmp_path: Path):
    where = folder(tmp_path / "p", size=(8, 20))
    found = samples(net(), gp.Pictures(where))
    np.testing.assert_allclose(found, pixels(where)[:, :, 6:14].transpose(0, 3, 1, 2) / 255, atol=1e-5)


def test_pictures_are_scaled(tmp_path: Path):
    (tmp_path / "p").mkdir()
    IMAGE.new("RGB", (64, 32), (255, 0, 51)).save(tmp_path / "p" / "a.png")
    found = samples(net(("N", 3, "H", "W")), gp.Pictures(tmp_path / "p", size=(4, 6)))
    assert found.shape == (1, 3, 4, 6)
    np.testing.assert_allclose(found[0, :, 0, 0], [1, 0, 0.2], atol=1e-6)


def test_grayscale_images_have_one_channel(tmp_path: Path):
    where = folder(tmp_path / "p", mode="L")
    found = samples(net(("N", 1, 8, 8)), gp.Pictures(where))
    np.testing.assert_allclose(found[:, 0], pixels(where) / 255, atol=1e-6)


def test_channels_last_input_is_supported(tmp_path: Path):
    where = folder(tmp_path / "p")
    nodes = [node("Transpose", "x", "t", perm=[0, 3, 1, 2]), node("Conv", "t w", "y")]
    given = gp.from_onnx(model(nodes, [info("x", ("N", 8, 8, 3))], [info("y", None)], {"w": some(6, 3, 1, 1)}))
    np.testing.assert_allclose(samples(given, gp.Pictures(where)), pixels(where) / 255, atol=1e-6)


def code(error: pytest.ExceptionInfo[gp.DiagnosticError]) -> str:
    return error.value.diagnostics[0].code


def test_invalid_image_is_reported(tmp_path: Path):
    where = folder(tmp_path / "p", count=1)
    (where / "00.png").write_bytes(b"no picture")
    with pytest.raises(gp.DiagnosticError, match=r"00\.png") as error:
        samples(net(), gp.Pictures(where))
    assert code(error) == "QUANT0001"


def test_a_size_that_is_unknown_is_requested(tmp_path: Path):
    with pytest.raises(gp.DiagnosticError, match="unknown image size") as error:
        samples(net(("N", 3, "H", "W")), gp.Pictures(folder(tmp_path / "p", count=1)))
    assert code(error) == "QUANT0002"


def test_image_folder_without_preprocessing_is_rejected(tmp_path: Path):
    with pytest.raises(gp.DiagnosticError, match="contains images"):
        gather(net().graph, folder(tmp_path / "p", count=1))


def test_quantize_command_accepts_images(tmp_path: Path):
    where, source, target = folder(tmp_path / "p"), tmp_path / "a.onnx", tmp_path / "b.onnx"
    gp.save(net(), source)
    said = ["--image-size", "8", "--mean", "0.5", "--std", "0.25", "--no-latency", "--preset", "fast"]
    found = CliRunner().invoke(cli, ["quantize", str(source), str(target), "--calibration", str(where), *said])
    assert found.exit_code == 0, found.output
    assert target.exists()


@pytest.mark.parametrize("verb", ["quantize", "cast"])
def test_missing_samples_are_reported_before_work(tmp_path: Path, verb: str):
    more = ["--to", "float16"] if verb == "cast" else []
    said = [verb, str(tmp_path / "no.onnx"), str(tmp_path / "b.onnx"), "--calibration", str(tmp_path / "none"), *more]
    found = CliRunner().invoke(cli, said)
    assert "QUANT0001" in found.output
    assert "no.onnx" not in found.output
