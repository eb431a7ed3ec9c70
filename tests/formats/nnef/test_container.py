from __future__ import annotations

import gc
import gzip
import io
import os
import struct
import tarfile
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from graphport.core.diagnostics import DiagnosticError
from graphport.core.storage import FileStorage, storage_of
from graphport.formats.nnef.container.packaging import FileLimits, Folder, Tar, Text, open_container, write_container
from graphport.formats.nnef.container.recognition import recognizes
from graphport.formats.nnef.container.tensors import Payload, read_tensor, tensor_file
from tests.every import every

TEXT = "version 1.0;\ngraph g(x) -> (y) { x = external(shape = [1]); y = relu(x); }\n"


def payload(content: bytes) -> Payload:
    return Payload(len(content), lambda: iter([content]))


def model(**tensors: list[float]) -> dict[str, Payload]:
    files = {"graph.nnef": payload(TEXT.encode())}
    for key, numbers in tensors.items():
        name = key.replace("__", "/") + ".dat"
        files[name] = tensor_file(storage_of(np.array(numbers, np.float32)), name)
    return files


def tar(path: Path, *members: tarfile.TarInfo | tuple[str, bytes], mode="w", form=tarfile.GNU_FORMAT) -> Path:
    with tarfile.open(path, mode, format=form) as archive:  # pyright: ignore[reportCallIssue, reportArgumentType]
        for member in members:
            if isinstance(member, tuple):
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
            else:
                archive.addfile(member)
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


GRAPH_MEMBER = ("graph.nnef", TEXT.encode())


def codes(path: Path | str, **options) -> list[str]:
    with pytest.raises(DiagnosticError) as caught:
        open_container(path, **options)
    return [finding.code for finding in caught.value.diagnostics]


def numbers(container, label: str) -> list[float]:
    region = container.tensor(label)
    return [] if region is None else read_tensor(region).storage.numpy().tolist()


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["folder", "a.tar", "a.tgz", "a.nnef.tgz", "a.tar.gz", "a.nnef"])
def test_a_model_is_read_from_wherever_it_was_written(tmp_path, name):
    path = tmp_path / name
    write_container(path, model(bias=[1, 2], conv1__filter=[3, 4]))
    container = open_container(path)
    assert container.graph().text == TEXT
    assert container.graph().name == f"{path}/graph.nnef"
    assert numbers(container, "bias") == [1, 2]
    assert numbers(container, "conv1/filter") == [3, 4]
    assert container.tensor("other") is None
    assert container.quantization() is None
    assert container.needs_data
    assert container.findings == []


def test_members_of_a_tar_are_mapped_where_they_lie(tmp_path):
    write_container(tmp_path / "a.tar", model(bias=[1, 2], scale=[3]))
    container = open_container(tmp_path / "a.tar")
    bias, scale = container.tensor("bias"), container.tensor("scale")
    assert bias is not None
    assert scale is not None
    assert bias.file is scale.file
    assert bias.file.size == (tmp_path / "a.tar").stat().st_size
    storage = read_tensor(bias).storage
    assert isinstance(storage, FileStorage)
    assert not storage.numpy().flags.owndata


def test_an_unpacked_archive_has_no_name_and_stays_as_long_as_it_is_used(tmp_path, monkeypatch):
    write_container(tmp_path / "a.tgz", model(bias=[1, 2]))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    region = open_container(tmp_path / "a.tgz").tensor("bias")
    assert list(elsewhere.iterdir()) == []
    assert region is not None
    gc.collect()
    storage = read_tensor(region).storage
    assert storage.numpy().tolist() == [1, 2]
    assert b"".join(map(bytes, storage.chunks(3))) == struct.pack("<2f", 1, 2)


def test_an_unpacked_archive_is_closed_when_nobody_uses_it(tmp_path):
    write_container(tmp_path / "a.tgz", model(bias=[1, 2]))
    open_files = Path("/proc/self/fd")
    before = len(list(open_files.iterdir()))
    for _ in range(3):
        open_container(tmp_path / "a.tgz")
    gc.collect()
    assert len(list(open_files.iterdir())) == before


def test_a_text_alone_has_no_data(tmp_path):
    path = tmp_path / "model.nnef"
    path.write_text(TEXT)
    write_container(tmp_path / "bias.dat", model())
    container = open_container(path)
    assert isinstance(container, Text)
    assert container.graph().name == str(path)
    assert container.tensor("bias") is None
    assert not container.needs_data


def test_a_text_called_as_in_a_folder_finds_the_data_beside_it(tmp_path):
    write_container(tmp_path / "folder", model(bias=[1, 2]))
    container = open_container(tmp_path / "folder" / "graph.nnef")
    assert numbers(container, "bias") == [1, 2]
    assert not container.needs_data


def test_quantization_is_found(tmp_path):
    write_container(tmp_path / "folder", {**model(), "graph.quant": payload(b'"x": q();')})
    source = open_container(tmp_path / "folder").quantization()
    assert source is not None
    assert source.text == '"x": q();'
    (tmp_path / "model.nnef").write_text(TEXT)
    assert open_container(tmp_path / "model.nnef").quantization() is None
    (tmp_path / "model.quant").write_text("x")
    source = open_container(tmp_path / "model.nnef").quantization()
    assert source is not None
    assert source.text == "x"


def test_what_something_is_counts_and_not_its_name(tmp_path):
    write_container(tmp_path / "a.tar", model())
    (tmp_path / "a.tar").rename(tmp_path / "a.nnef")
    write_container(tmp_path / "b.tgz", model())
    (tmp_path / "b.tgz").rename(tmp_path / "b")
    assert isinstance(open_container(tmp_path / "a.nnef"), Tar)
    assert isinstance(open_container(tmp_path / "b"), Tar)
    assert isinstance(open_container(tmp_path), Folder)


def test_nothing_there_is_a_finding(tmp_path):
    assert codes(tmp_path / "nothing") == ["NNEF0730"]
    os.mkfifo(tmp_path / "pipe")
    assert codes(tmp_path / "pipe") == ["NNEF0730"]


@pytest.mark.parametrize("size", [1 << 16, (1 << 16) - 1, (1 << 16) + 1])
def test_a_text_of_any_length_is_read_to_its_end(tmp_path, size):
    path = tmp_path / "model.nnef"
    text = TEXT + "#" * (size - len(TEXT.encode()))
    path.write_text(text)
    assert open_container(path).graph().text == text


def test_a_text_that_a_limit_refuses_is_not_taken_because_it_was_read_already(tmp_path):
    path = tmp_path / "model.nnef"
    path.write_text(TEXT)
    with pytest.raises(DiagnosticError, match="NNEF0733"):
        open_container(path, FileLimits(text=8)).graph()


def test_a_file_that_may_not_be_read_is_a_finding(tmp_path, monkeypatch):
    path = tmp_path / "model.nnef"
    path.write_text(TEXT)

    def refuse(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    assert codes(path) == ["NNEF0731"]


@pytest.mark.parametrize("name", ["folder", "a.tar"])
def test_a_model_without_text_is_a_finding(tmp_path, name):
    write_container(tmp_path / name, {"bias.dat": payload(b"x")})
    with pytest.raises(DiagnosticError, match="NNEF0732"):
        open_container(tmp_path / name).graph()


def test_a_text_longer_than_the_limit_is_a_finding(tmp_path):
    path = tmp_path / "model.nnef"
    path.write_text(TEXT)
    with pytest.raises(DiagnosticError, match="NNEF0733"):
        open_container(path, FileLimits(text=10)).graph()


def test_a_text_in_another_encoding_is_read_with_a_warning(tmp_path):
    path = tmp_path / "model.nnef"
    path.write_bytes(b"# Gr\xf6\xdfe\n" + TEXT.encode())
    container = open_container(path)
    text = container.graph().text
    assert text is not None
    assert text.startswith("# Gr\ufffd\ufffde\n")
    (finding,) = container.findings
    assert (finding.code, finding.severity, str(finding.span)) == ("NNEF0734", "warning", f"{path}: byte 4")


# ── labels ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "label", ["../outside", "a/../../outside", "/etc/passwd", "..\\outside", "C:\\x", "C:x", "a\0b", "", "a/.."]
)
@pytest.mark.parametrize("name", ["folder", "a.tar"])
def test_no_label_leaves_the_folder(tmp_path, name, label):
    write_container(tmp_path / name, model())
    write_container(tmp_path / "outside.dat", model())
    with pytest.raises(DiagnosticError, match="NNEF0740"):
        open_container(tmp_path / name).tensor(label)


@pytest.mark.parametrize("target", ["../outside.dat", "/etc/hostname", "inner/../../outside.dat"])
def test_no_link_leaves_the_folder(tmp_path, target):
    write_container(tmp_path / "folder", model())
    (tmp_path / "outside.dat").write_bytes(b"secret")
    (tmp_path / "folder" / "bias.dat").symlink_to(target)
    with pytest.raises(DiagnosticError, match="NNEF0741"):
        open_container(tmp_path / "folder").tensor("bias")


def test_no_linked_folder_leaves_the_folder(tmp_path):
    write_container(tmp_path / "folder", model())
    write_container(tmp_path / "other", model(bias=[1]))
    (tmp_path / "folder" / "inner").symlink_to(tmp_path / "other")
    with pytest.raises(DiagnosticError, match="NNEF0741"):
        open_container(tmp_path / "folder").tensor("inner/bias")


def test_a_link_inside_the_folder_is_followed(tmp_path):
    write_container(tmp_path / "folder", model(inner__bias=[1, 2]))
    (tmp_path / "folder" / "bias.dat").symlink_to("inner/bias.dat")
    (tmp_path / "folder" / "again").symlink_to("inner")
    (tmp_path / "link").symlink_to("folder")
    container = open_container(tmp_path / "link")
    assert numbers(container, "bias") == [1, 2]
    assert numbers(container, "again/bias") == [1, 2]


def test_only_ordinary_files_are_opened(tmp_path):
    write_container(tmp_path / "folder", model())
    os.mkfifo(tmp_path / "folder" / "pipe.dat")
    (tmp_path / "folder" / "inner.dat").mkdir()
    (tmp_path / "folder" / "loop.dat").symlink_to("loop.dat")
    container = open_container(tmp_path / "folder")
    for label in ("pipe", "inner"):
        with pytest.raises(DiagnosticError, match="NNEF0742"):
            container.tensor(label)
    with pytest.raises(DiagnosticError, match="NNEF0731"):
        container.tensor("loop")
    with pytest.raises(DiagnosticError, match="NNEF0731"):
        container.tensor("x" * 1000)
    assert container.tensor("graph.nnef/x") is None


# ── archives ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("name", ["bias.dat", "a/" * 60 + "bias.dat", "ü/bias.dat"], ids=["short", "long", "not ascii"])
def test_names_of_every_form_are_understood(tmp_path, form, name):
    path = tar(tmp_path / "a.tar", ("./graph.nnef", TEXT.encode()), (name, b"data"), form=form)
    container = open_container(path)
    region = container.tensor(name.removesuffix(".dat"))
    assert region is not None
    assert region.read(0, 10) == b"data"
    assert container.graph().text == TEXT


def test_names_longer_than_any_header_are_understood(tmp_path):
    label = "/".join(["long" * 10] * 20)
    for form in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tar(tmp_path / "a.tar", GRAPH_MEMBER, (f"{label}.dat", b"data"), form=form)
        region = open_container(path).tensor(label)
        assert region is not None
        assert region.size == 4
    write_container(tmp_path / "b.tar", {**model(), f"{label}.dat": payload(b"data")})
    assert open_container(tmp_path / "b.tar").tensor(label) is not None


def test_folders_and_other_files_in_an_archive_are_ignored(tmp_path):
    path = tar(tmp_path / "a.tar", special("./", tarfile.DIRTYPE), GRAPH_MEMBER, ("README.md", b"text"))
    assert open_container(path).graph().text == TEXT


def test_an_archive_of_a_folder_is_read_with_a_warning(tmp_path):
    bias = b"".join(bytes(piece) for piece in model(bias=[1, 2])["bias.dat"].chunks())
    path = tar(tmp_path / "a.tar", ("net/graph.nnef", TEXT.encode()), ("net/bias.dat", bias))
    container = open_container(path)
    assert container.graph().name == f"{path}/net/graph.nnef"
    assert numbers(container, "bias") == [1, 2]
    assert [finding.code for finding in container.findings] == ["NNEF0739"]


@every(
    "member",
    [
        pytest.param(("../bias.dat", b"x"), id="parent"),
        pytest.param(("a/../../bias.dat", b"x"), id="parent of a folder"),
        pytest.param(("/bias.dat", b"x"), id="absolute"),
        pytest.param(("C:\\bias.dat", b"x"), id="drive"),
        pytest.param(special("bias.dat", tarfile.SYMTYPE, "/etc/passwd"), id="link"),
        pytest.param(special("bias.dat", tarfile.LNKTYPE, "graph.nnef"), id="hard link"),
        pytest.param(special("bias.dat", tarfile.CHRTYPE), id="character device"),
        pytest.param(special("bias.dat", tarfile.BLKTYPE), id="block device"),
        pytest.param(special("bias.dat", tarfile.FIFOTYPE), id="pipe"),
        pytest.param(special("bias.dat", b"S"), id="sparse"),
        pytest.param(special("bias.dat", b"Z"), id="unknown"),
        pytest.param(GRAPH_MEMBER, id="twice"),
    ],
)
@every("mode", ["w", "w:gz"])
def test_members_that_no_model_has_are_refused(tmp_path, member, mode):
    path = tar(tmp_path / "a", GRAPH_MEMBER, member, mode=mode)
    with pytest.raises(DiagnosticError) as caught:
        open_container(path)
    (finding,) = caught.value.diagnostics
    assert finding.code == "NNEF0738"
    assert str(finding.span) == f"{path}: byte 1024"


def test_every_refused_member_is_reported_up_to_a_limit(tmp_path):
    links = [special(f"{number}.dat", tarfile.SYMTYPE, "x") for number in range(5)]
    assert codes(tar(tmp_path / "a.tar", GRAPH_MEMBER, *links)) == ["NNEF0738"] * 5
    links = [special(f"{number}.dat", tarfile.SYMTYPE, "x") for number in range(5000)]
    assert len(codes(tar(tmp_path / "b.tar", GRAPH_MEMBER, *links))) == 20


def test_too_many_members_are_refused(tmp_path):
    path = tar(tmp_path / "a.tar", GRAPH_MEMBER, *((f"{number}.dat", b"") for number in range(3)))
    assert open_container(path, FileLimits(members=4)).graph().text == TEXT
    assert codes(path, limits=FileLimits(members=3)) == ["NNEF0738"]


def test_an_archive_that_was_cut_off_is_a_finding(tmp_path):
    path = tar(tmp_path / "a.tar", GRAPH_MEMBER, ("bias.dat", bytes(2000)))
    content = path.read_bytes()
    path.write_bytes(content[:2500])
    assert codes(path) == ["NNEF0737"]
    path.write_bytes(content[: 1024 + 300])
    assert codes(path) == ["NNEF0737"]
    path.write_bytes(content[:1024])
    assert open_container(path).tensor("bias") is None


def test_a_changed_header_is_a_finding(tmp_path):
    path = tar(tmp_path / "a.tar", GRAPH_MEMBER, ("bias.dat", b"x"))
    content = bytearray(path.read_bytes())
    content[1024] ^= 1
    path.write_bytes(content)
    assert codes(path) == ["NNEF0737"]


def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[124 : 124 + len(size)] = size
    block[156:157] = kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:-20], id="cut off"),
        pytest.param(lambda content: content[:40] + b"\xff" * 20 + content[60:], id="changed"),
        pytest.param(lambda content: content[:-8] + bytes(8), id="wrong checksum"),
        pytest.param(lambda content: content[:10] + b"\x07" + content[11:], id="no deflate"),
    ],
)
def test_a_damaged_compressed_archive_is_a_finding(tmp_path, damage):
    path = tmp_path / "a.tgz"
    write_container(path, model(bias=[1, 2]))
    path.write_bytes(damage(path.read_bytes()))
    assert codes(path) == ["NNEF0735"]


def test_a_compressed_file_that_is_no_archive_is_a_finding(tmp_path):
    (tmp_path / "a.tgz").write_bytes(gzip.compress(b"hello" * 1000, mtime=0))
    assert codes(tmp_path / "a.tgz") == ["NNEF0737"]


def test_an_archive_that_unpacks_to_too_much_is_refused(tmp_path):
    write_container(tmp_path / "a.tgz", {**model(), "zeros.dat": payload(bytes(3 << 20))})
    assert codes(tmp_path / "a.tgz", limits=FileLimits(unpacked=1 << 20)) == ["NNEF0736"]


def test_a_bomb_stops_at_the_ratio(tmp_path):
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(bytes(20 << 20)))
    assert codes(path, limits=FileLimits(ratio=100, ratio_above=1 << 20)) == ["NNEF0736"]
    assert open_container(path, FileLimits(ratio=100, ratio_above=30 << 20)).tensor("bias") is None


# ── recognizing ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["a.nnef", "a.txt", "a"])
@pytest.mark.parametrize("text", [TEXT, "\ufeff# one\n\n# two\r\n  " + TEXT, "version 1.0\ngraph"])
def test_a_text_is_recognized_by_its_version(tmp_path, name, text):
    assert recognizes(tmp_path / name, text.encode())


@pytest.mark.parametrize("name", ["a.tar", "a.tgz", "a.bin"])
def test_an_archive_is_recognized_by_its_first_member(tmp_path, name):
    write_container(tmp_path / ("b.tgz" if name == "a.tgz" else "b.tar"), model(bias=[1]))
    head = next(tmp_path.iterdir()).read_bytes()[:2048]
    assert recognizes(tmp_path / name, head)


def test_a_folder_is_recognized_by_its_text(tmp_path):
    write_container(tmp_path / "folder", model())
    (tmp_path / "other").mkdir()
    assert recognizes(tmp_path / "folder", b"")
    assert not recognizes(tmp_path / "other", b"")


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("a.onnx", b"\x08\x0a\x12\x07pytorch"),
        ("a.param", b"7767517\n3 2\n"),
        ("a.xml", b'<?xml version="1.0"?>'),
        ("a.nnef", b"\x08\x0a\x00"),
        ("a.gz", gzip.compress(b"version 1.0;", mtime=0)),
        ("a.gz", b"\x1f\x8bgarbage"),
        ("a.txt", b""),
        ("a.txt", b"#" * 4096),
    ],
)
def test_other_files_are_not_recognized(tmp_path, name, head):
    assert not recognizes(tmp_path / name, head)


def test_a_name_states_it_where_the_content_does_not(tmp_path):
    assert recognizes(tmp_path / "a.nnef", b"# a long comment")
    assert recognizes(tmp_path / "a.tar", header(b"README.md", b"0"))
    assert not recognizes(tmp_path / "a.bin", header(b"README.md", b"0"))


# ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["a.tar", "a.tgz"])
def test_the_same_files_make_the_same_bytes(tmp_path, name):
    files = model(b=[1], a__c=[2], a=[3])
    write_container(tmp_path / name, files)
    first = (tmp_path / name).read_bytes()
    write_container(tmp_path / name, dict(reversed(files.items())))
    assert (tmp_path / name).read_bytes() == first
    with tarfile.open(tmp_path / name) as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == ["graph.nnef", "a.dat", "a/c.dat", "b.dat"]
    assert {(m.mtime, m.uid, m.gid, m.uname, m.gname, m.mode) for m in members} == {(0, 0, 0, "", "", 0o644)}


def test_a_text_alone_is_a_file(tmp_path):
    write_container(tmp_path / "a.nnef", model())
    assert (tmp_path / "a.nnef").read_text() == TEXT


def test_the_quantization_of_a_text_alone_lies_beside_it(tmp_path):
    write_container(tmp_path / "a.nnef", {**model(), "graph.quant": payload(b"q")})
    assert (tmp_path / "a.quant").read_text() == "q"
    source = open_container(tmp_path / "a.nnef").quantization()
    assert source is not None
    assert source.text == "q"
    with pytest.raises(DiagnosticError, match="NNEF0745"):
        write_container(tmp_path / "a.nnef", model())


def test_a_folder_is_replaced_as_a_whole(tmp_path):
    write_container(tmp_path / "folder", model(old=[1]))
    write_container(tmp_path / "folder", model(new=[2]))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "graph.nnef", "new.dat"]
    write_container(tmp_path / "folder" / "graph.nnef", model(newer=[3]))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "graph.nnef", "newer.dat"]


def test_a_folder_with_other_files_is_not_replaced(tmp_path):
    write_container(tmp_path / "folder", model())
    (tmp_path / "folder" / "inner").mkdir()
    (tmp_path / "folder" / "inner" / "notes.txt").write_text("mine")
    with pytest.raises(DiagnosticError, match=r"NNEF0744.*inner/notes\.txt"):
        write_container(tmp_path / "folder", model(new=[2]))
    assert (tmp_path / "folder" / "inner" / "notes.txt").read_text() == "mine"


def failing() -> Payload:
    def chunks():
        yield b"half"
        raise KeyboardInterrupt

    return Payload(8, chunks)


@pytest.mark.parametrize("name", ["folder", "a.tar", "a.tgz", "a.nnef"])
def test_an_interrupted_write_leaves_what_was_there(tmp_path, name):
    old = model() if name == "a.nnef" else model(bias=[1])
    new = {"graph.nnef": failing()} if name == "a.nnef" else {**model(), "bias.dat": failing()}
    write_container(tmp_path / name, old)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    with pytest.raises(KeyboardInterrupt):
        write_container(tmp_path / name, new)
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_an_unwritable_place_is_a_finding(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    for place in (
        tmp_path / "file",
        tmp_path / "file" / "a.tar",
        tmp_path / "nowhere" / "a.tgz",
        tmp_path / "nowhere" / "b",
    ):
        with pytest.raises(DiagnosticError, match="NNEF0743"):
            write_container(place, model(bias=[1]))
    (tmp_path / "a.tar").mkdir()
    with pytest.raises(DiagnosticError, match="NNEF0743"):
        write_container(tmp_path / "a.tar", model())
    assert (tmp_path / "file").read_text() == "x"


def test_a_link_to_a_file_keeps_being_one(tmp_path):
    (tmp_path / "real.tar").write_bytes(b"old")
    (tmp_path / "link.tar").symlink_to("real.tar")
    write_container(tmp_path / "link.tar", model())
    assert (tmp_path / "link.tar").is_symlink()
    assert open_container(tmp_path / "real.tar").graph().text == TEXT


def test_files_are_written_in_bounded_memory(tmp_path):
    def chunks():
        for _ in range(64):
            yield bytes(1 << 20)

    large = Payload(64 << 20, chunks)
    tracemalloc.start()
    for name in ("folder", "a.tar", "a.tgz"):
        write_container(tmp_path / name, {**model(), "large.dat": large})
        open_container(tmp_path / name, FileLimits(ratio=10_000)).graph()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20
