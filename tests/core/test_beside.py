"""Sidecar files of a model: no path in a model can open a file outside of its folder."""

from __future__ import annotations

import os

import pytest

from graphport.core.sidecar_files import AbsentError, OutsideError, open_sidecar

NUMBERS = bytes(range(16))


@pytest.fixture
def folder(tmp_path):
    inner = tmp_path / "model"
    (inner / "parts").mkdir(parents=True)
    for path in (inner / "w.bin", inner / "parts" / "w.bin", tmp_path / "secret.bin"):
        path.write_bytes(NUMBERS)
    return inner


def content(file):
    return bytes(file.view(0, len(NUMBERS)))


@pytest.mark.parametrize("location", ["w.bin", "parts/w.bin", "./w.bin", "parts/./w.bin"])
def test_sidecar_below_the_model_folder_is_opened(folder, location):
    assert content(open_sidecar(folder, None, location)) == NUMBERS


@pytest.mark.parametrize(
    "location",
    [
        *("", "/etc/hostname", "\\windows", "C:w.bin", "C:\\w.bin", "../secret.bin", "parts/../../secret.bin"),
        *("..\\secret.bin", "w.bin\0", ".."),
    ],
)
def test_paths_outside_the_folder_are_refused(folder, location):
    with pytest.raises(OutsideError, match="is outside of the model's folder") as caught:
        open_sidecar(folder, None, location)
    assert caught.value.help == "store weights in the model's folder, and use a relative path without '..'"


def test_missing_and_non_regular_sidecars_raise_absenterror(folder):
    with pytest.raises(AbsentError, match="cannot be read: No such file"):
        open_sidecar(folder, None, "x.bin")
    with pytest.raises(AbsentError, match="is not a regular file"):
        open_sidecar(folder, None, "parts")
    os.mkfifo(folder / "pipe")
    with pytest.raises(AbsentError, match="is not a regular file"):
        open_sidecar(folder, None, "pipe")


def test_a_model_in_memory_has_no_files():
    with pytest.raises(AbsentError, match=r"'w\.bin' cannot be located: the model was loaded from memory") as caught:
        open_sidecar(None, None, "w.bin")
    assert caught.value.help == "pass the folder of the weights with `folder`"


def test_sidecar_links_must_stay_inside_the_model_folder(folder, tmp_path):
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    (folder / "inner.bin").symlink_to(folder / "parts" / "w.bin")
    assert content(open_sidecar(folder, None, "inner.bin")) == NUMBERS
    with pytest.raises(OutsideError, match=r"is a link to .*secret\.bin, outside of the model's folder"):
        open_sidecar(folder, None, "link.bin")
    with pytest.raises(OutsideError):
        open_sidecar(folder, folder / "parts", "link.bin")
    assert content(open_sidecar(folder, tmp_path, "link.bin")) == NUMBERS
    (folder / "round.bin").symlink_to(folder / "round.bin")
    with pytest.raises(AbsentError, match="cannot be read"):
        open_sidecar(folder, None, "round.bin")


def test_an_open_file_keeps_its_content(folder):
    file = open_sidecar(folder, None, "w.bin")
    new = folder / "new.bin"
    new.write_bytes(b"\xff" * 16)
    new.replace(folder / "w.bin")
    assert content(file) == NUMBERS


def test_refusals_state_the_remedy(folder, tmp_path):
    (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
    for told, location, kind, remedy in (
        (None, "w.bin", AbsentError, "pass the folder of the weights"),
        (folder, "../secret.bin", OutsideError, "store weights in the model's folder"),
        (folder, "none.bin", AbsentError, "place the file in the model's folder"),
        (folder, "link.bin", OutsideError, "copy the file"),
        (folder, "parts", AbsentError, None),
    ):
        with pytest.raises(kind) as caught:
            open_sidecar(told, None, location)
        assert (caught.value.help or "").startswith(remedy or ""), location
        assert (caught.value.help is None) is (remedy is None)
        assert caught.value.args == (str(caught.value),)
