"""Seeds of the fuzzer (models of every format, statistics, samples, expressions) and the verbs to run on each."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzzing.asked import EDITOR, OPTIONS, TEXTS, values, verbs_of_editor, verbs_of_options
from fuzzing.checkpoints import GGUF, folders, gguf_files
from fuzzing.damages import GZIP
from fuzzing.peers import PEERS, verbs_of_peer
from fuzzing.signatures import KINDS

if TYPE_CHECKING:
    import graphport as gp
    from graphport.quantization.fingerprint import Fingerprint

ROOT = Path(__file__).parent.parent.parent
MAX_SEED_BYTES = 60_000
"""Maximum size of a seed file in bytes."""
MAX_RUN_ELEMENTS = 1 << 20
"""Maximum number of elements of all values of a model to run: the time of a run depends on the model."""
COMPANIONS = {".xml": (".bin",), ".param": (".bin",), ".prototxt": (".caffemodel",), ".nnef": (".quant",)}
FOLDER = "."
"""Name of a seed that is a folder."""
SAMPLES, STATISTICS, EXPRESSION = "samples", "statistics", "expression"
TRACT = "tract"
"""NNEF with tract's extensions: a separate kind, since its reader is separate."""
DIGITS = ROOT / "src" / "graphport" / "examples" / "digits"

Verb = tuple[str, Callable[[], object]]


@dataclass
class Seed:
    """The files of one seed; `name` is the path to open.

    `links` maps names to special files: `fifo`, `folder`, or the target of a symbolic link. A seed with a `label` is a
    generated structure and is not mutated.
    """

    name: str
    files: dict[str, bytes]
    links: dict[str, str] = field(default_factory=dict[str, str])
    label: str = ""

    def put(self, folder: Path) -> Path:
        """Write the files to `folder`. Return the path to open."""
        for name, data in self.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        for name, target in self.links.items():
            folder.mkdir(parents=True, exist_ok=True)
            if target == "fifo":
                os.mkfifo(folder / name)
            elif target == "folder":
                (folder / name).mkdir()
            else:
                (folder / name).symlink_to(target)
        return folder / self.name


def _file(kind: Any) -> str:
    """Return the file or folder name of a model in a format."""
    return f"m{kind.endings[0]}" if kind.endings else "m"


def seeds(folder: Path) -> dict[str, list[Seed]]:
    """Return the seeds by kind: the files of the tests, and their conversions to other formats."""
    models = _models(folder)
    found = {**models, STATISTICS: _statistics(folder), SAMPLES: _samples(), EXPRESSION: _expressions()}
    found[EDITOR] = [
        Seed(seed.name, {seed.name: seed.files[seed.name]})
        for known in models.values()
        for seed in known
        if seed.name.endswith(TEXTS) and seed.name in seed.files
    ]
    found[OPTIONS] = [Seed("o.txt", {"o.txt": value}) for value in values()]
    return {name: kept for name, kept in found.items() if kept}


def verbs(kind: str, path: Path, out: Path, turn: int | None = None) -> Iterator[Verb]:
    """Yield the verbs of a kind in order; a later verb uses the results of earlier ones. Files are written to `out`.

    A model runs all verbs, or with a `turn` some of the verbs after reading: that takes a third of the time of a case
    and finds as many errors.
    """
    match kind:
        case "statistics":
            yield from _verbs_of_statistics(path, out, turn)
        case "samples":
            yield from _verbs_of_samples(path)
        case "expression":
            yield from _verbs_of_expression(path)
        case "editor":
            yield from verbs_of_editor(path)
        case "options":
            yield from verbs_of_options(path, out, DIGITS)
        case peer if peer in PEERS:
            yield from verbs_of_peer(peer, path)
        case signatures if signatures in KINDS:
            yield from _verbs_of_signature(path, out)
        case _:
            yield from _verbs_of_model(path, out, turn)


# ── models ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _models(folder: Path) -> dict[str, list[Seed]]:
    import graphport as gp
    from graphport import formats

    found: dict[str, list[Seed]] = {name: [] for name in formats.FORMATS}
    endings = {ending for each in formats.FORMATS.values() for ending in each.endings}
    for path in sorted((ROOT / "tests").rglob("*")):
        if path.is_file() and path.stat().st_size <= MAX_SEED_BYTES and any(path.name.endswith(end) for end in endings):
            try:
                name = formats.recognize(path).name
            except gp.DiagnosticError:
                continue
            found[name].append(_seed(path))
    found["checkpoint"] = [Seed(FOLDER, files) for files in folders()] + [
        Seed(GGUF, {GGUF: data}) for data in gguf_files()
    ]
    found[TRACT] = [seed for seed in found["nnef"] if _is_tract(seed)]
    found["nnef"] = [seed for seed in found["nnef"] if seed not in found[TRACT]]
    plain = [seed for seed in found["onnx"] if len(seed.files) == 1][:40]
    for seed in plain:
        place = folder / "source"
        place.mkdir(exist_ok=True)
        seed.put(place)
        for name, kind in formats.FORMATS.items():
            ways = [(f"m{ending}", {}) for ending in kind.endings[:3]] if kind.writes and len(found[name]) < 60 else []
            # The tests have no files of these layouts: NNEF folders, uncompressed archives, external weights.
            ways += [("folder", {}), ("m.nnef.tar", {})] if name == "nnef" else []
            ways += [("m.onnx", {"external_data": True})] if name == "onnx" else []
            flavoured = [("m.nnef.tgz", {"flavour": TRACT}), ("folder", {"flavour": TRACT})] if name == "nnef" else []
            for target, choices in (*ways, *flavoured):
                made = _made(place / seed.name, folder / "made", target, choices)
                found[TRACT if "flavour" in choices else name] += [made] if made else []
    return found


def _is_tract(seed: Seed) -> bool:
    """Return whether the file of a seed is an archive or a text with tract's extensions."""
    from graphport.formats.nnef.container.tract.recognition import is_tract

    data = seed.files[seed.name]
    with suppress(OSError, EOFError, tarfile.TarError, zlib.error):
        plain = gzip.decompress(data) if data[:2] == GZIP else data
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            held = archive.extractfile("graph.nnef")
            data = held.read() if held else b""
    return is_tract(data.decode("utf-8", "replace"))


def _made(source: Path, folder: Path, target: str, choices: dict[str, Any]) -> Seed | None:
    """Return the conversion of a model to `target`; None if the format cannot represent it or a file is too large."""
    import graphport as gp

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        gp.save(gp.load(source), folder / target, **choices)
    except (gp.DiagnosticError, OSError):
        return None
    inside = folder / target if (folder / target).is_dir() else folder
    files = {str(path.relative_to(inside)): path.read_bytes() for path in sorted(inside.rglob("*")) if path.is_file()}
    small = all(len(data) <= MAX_SEED_BYTES for data in files.values())
    return Seed(FOLDER if inside != folder else target, files) if small and files else None


def _seed(path: Path) -> Seed:
    files = {path.name: path.read_bytes()}
    for ending in COMPANIONS.get(path.suffix, ()):
        beside = path.with_suffix(ending)
        if beside.is_file() and beside.stat().st_size <= MAX_SEED_BYTES:
            files[beside.name] = beside.read_bytes()
    return Seed(path.name, files)


def _verbs_of_model(path: Path, out: Path, turn: int | None) -> Iterator[Verb]:
    import graphport as gp
    from graphport import formats

    def is_due(place: int, every: int) -> bool:
        return turn is None or turn % every == place % every

    model: list[gp.Model] = []
    yield "check", lambda: gp.check(path)
    yield "load", lambda: model.append(gp.load(path))
    if model:
        yield "shapes", lambda: list(map(str, model[0].shapes().values()))
        for place, (name, kind) in enumerate(formats.FORMATS.items()):
            if kind.writes and is_due(place, 4):
                yield f"save {name}", lambda kind=kind: gp.save(model[0], out / _file(kind), format=kind.name)
        if is_due(3, 4):
            yield "save tract", lambda: gp.save(model[0], out / "tract.nnef.tgz", flavour=TRACT)
        if is_due(0, 3):
            yield "inspect", lambda: gp.inspect(model[0])
        if is_due(1, 3):
            yield "simplify", lambda: gp.simplify(model[0], verify=False)
        if is_due(2, 3):
            yield from _changing_verbs(model[0])
        if is_due(5, 12):
            yield from _long_verbs(model[0])
    if is_due(2, 3):
        yield from _raw_verbs(path, out)


def _verbs_of_signature(path: Path, out: Path) -> Iterator[Verb]:
    """Yield all verbs for a model of one operator: no other case covers the operator."""
    import graphport as gp
    from graphport import formats
    from graphport.api.run import first_run

    model: list[gp.Model] = []
    yield "check", lambda: gp.check(path)
    yield "load", lambda: model.append(gp.load(path))
    if not model:
        return
    yield "shapes", lambda: list(map(str, model[0].shapes().values()))
    for name, kind in formats.FORMATS.items():
        if kind.writes:
            yield f"save {name}", lambda kind=kind: gp.save(model[0], out / _file(kind), format=kind.name)
    yield "save tract", lambda: gp.save(model[0], out / "tract.nnef.tgz", flavour=TRACT)
    yield "simplify", lambda: gp.simplify(model[0], verify=False)
    elements = _elements(model[0])
    if elements is not None and elements <= MAX_RUN_ELEMENTS:
        yield "run", lambda: first_run(model[0], "reference")


def _raw_verbs(path: Path, out: Path) -> Iterator[Verb]:
    """Yield the verbs of a model in its format's dialect."""
    import graphport as gp
    from graphport import formats

    raw: list[gp.Model] = []
    yield "raw", lambda: raw.append(gp.load(path, raw=True))
    if raw and formats.FORMATS[raw[0].format].writes:
        ending = formats.FORMATS[raw[0].format].endings[0]
        yield "save raw", lambda: gp.save(raw[0], out / f"raw{ending}")
    if raw and raw[0].format == "nnef":
        yield "save raw tract", lambda: gp.save(raw[0], out / "raw.nnef.tgz", flavour=TRACT)
    if path.name.endswith(".nnef"):
        yield "fmt", lambda: _laid_out(path)


def _changing_verbs(model: gp.Model) -> Iterator[Verb]:
    """Yield the verbs that cut, edit, merge or report a model."""
    import graphport as gp

    inner = [value.name for node in model.graph for value in node.results]
    middle = inner[len(inner) // 2 : len(inner) // 2 + 1]
    yield "cut before", lambda: gp.cut(model, outputs=middle)
    yield "cut behind", lambda: gp.cut(model, inputs=middle)
    if (_elements(model) or 0) <= MAX_RUN_ELEMENTS:  # a new batch dim is checked by a run
        yield "batch", lambda: gp.edit(model, batch="n")
    yield "rename", lambda: gp.edit(model, rename=dict.fromkeys(inner[:1], "other"), add_outputs=middle)
    yield "layout", lambda: gp.edit(model, layout={"": "nhwc"})
    yield "merge", lambda: gp.merge(model, model, dict(zip(model.outputs, model.inputs, strict=False)))
    reports: list[gp.Report] = []
    yield "report", lambda: reports.append(gp.report(model))
    for report in reports:
        for view in (report.html, report.svg, report.markdown, report.csv, report.json):
            yield f"report {view.__name__}", view


def _long_verbs(model: gp.Model) -> Iterator[Verb]:
    """Yield the verbs that take long or run the model."""
    import graphport as gp
    from graphport.api.run import first_run

    yield "prepare", lambda: gp.prepare(model, verify=False)
    elements = _elements(model)
    if elements is not None and elements <= MAX_RUN_ELEMENTS:
        yield "run", lambda: first_run(model, "reference")
        yield "compare", lambda: gp.compare(model, model, backend="reference", every_value=True)
        yield "cast", lambda: gp.cast(model, "float16")
        yield "quantize", lambda: gp.quantize(model, weights_only=True)


def _elements(model: gp.Model) -> int | None:
    """Return the number of elements of all values of a model; `None` if a dim is symbolic."""
    from graphport.core.facts import TensorFact

    facts = [value.fact for value in model.graph.values()]
    if not all(isinstance(fact, TensorFact) and fact.is_static for fact in facts):
        return None
    return sum(prod(map(int, fact.shape or ())) for fact in facts)  # type: ignore[arg-type, union-attr]


def _laid_out(path: Path) -> str:
    from graphport.core.diagnostics import Source
    from graphport.core.regular_files import contents
    from graphport.formats.nnef.container.formatter import format_text

    data = b""
    with suppress(OSError):  # the command reports unreadable files
        data = contents(path)
    # The command reports invalid UTF-8 before it formats.
    return format_text(Source(str(path), data.decode("utf-8")), None) if _is_utf8(data) else ""


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeError:
        return False
    return True


# ── statistics, samples, expressions ──────────────────────────────────────────────────────────────────────────────────


@cache
def _digits() -> tuple[gp.Model, dict[str, Any]]:
    """Return the digits example network and two samples."""
    import numpy as np

    import graphport as gp

    with np.load(DIGITS / "test.npz") as file:
        return gp.load(DIGITS), {"image": file["image"][:2]}


def _statistics(folder: Path) -> list[Seed]:
    import graphport as gp

    model, samples = _digits()
    path = folder / "s.npz"
    gp.quantize(model, samples, preset="fast", statistics=path)
    return [Seed(path.name, {path.name: path.read_bytes()})]


def _verbs_of_statistics(path: Path, out: Path, turn: int | None) -> Iterator[Verb]:
    import graphport as gp

    model, samples = _digits()
    known: list[object] = []
    yield "read", lambda: known.append(_remembered(path))
    if known and (turn is None or turn % 12 == 5):
        copy = out / "s.npz"
        shutil.copy(path, copy)
        yield "resume", lambda: gp.quantize(model, samples, preset="fast", statistics=copy)


def _remembered(path: Path) -> object:
    """Read the statistics with the fingerprint of the model, so that the file is read completely."""
    from graphport.quantization.statistics_file import remembered

    return remembered(path, _fingerprint())


@cache
def _fingerprint() -> Fingerprint:
    from tempfile import TemporaryDirectory

    import numpy as np

    from graphport.quantization.fingerprint import Fingerprint

    with TemporaryDirectory() as folder:
        seed = _statistics(Path(folder))[0]
        with np.load(seed.put(Path(folder))) as file:
            return Fingerprint(**json.loads(file["about"].tobytes())["of"])


def _samples() -> list[Seed]:
    """Return archives, arrays and folders in all supported element types and layouts."""
    import numpy as np

    image = _digits()[1]["image"]
    found: list[Seed] = []
    for dtype in ("<f4", "<f8", ">f4", "<f2", "|u1", "<i8", "|b1", "<c8", "<U3"):
        for order in "CF":
            packed, plain = io.BytesIO(), io.BytesIO()
            array = np.asarray(image, dtype, order=order)  # type: ignore[call-overload]
            (np.savez_compressed if order == "F" else np.savez)(packed, image=array)
            np.save(plain, array)
            found.append(Seed("c.npz", {"c.npz": packed.getvalue()}))
            found.append(Seed("c.npy", {"c.npy": plain.getvalue()}))
            found.append(Seed(FOLDER, {"image.npy": plain.getvalue()}))
            found.append(Seed(FOLDER, {"image/0.npy": plain.getvalue(), "image/1.npy": plain.getvalue()}))
    return found


def _verbs_of_samples(path: Path) -> Iterator[Verb]:
    from graphport.cli import arrays
    from graphport.quantization.samples import gather

    model, _ = _digits()
    yield "gather", lambda: list(islice(gather(model.graph, path).runs(1), 3))
    if path.suffix == ".npz":
        yield "read", lambda: arrays.inputs_of(model, path)


def _expressions() -> list[Seed]:
    given = json.loads((ROOT / "tests" / "expression" / "data" / "expressions.json").read_text(encoding="utf-8"))
    texts = [case["expr"] for case in given["cases"] if case.get("expr")]
    return [Seed("e.txt", {"e.txt": text.encode()}) for text in texts]


def _verbs_of_expression(path: Path) -> Iterator[Verb]:
    import numpy as np

    from graphport.expression.expression import Expression

    # Decoded like the arguments of a process.
    text = path.read_bytes().decode("utf-8", "surrogateescape")
    array = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    known: list[Expression] = []
    yield "strict", lambda: known.append(Expression(text))
    yield "lenient", lambda: known.append(Expression(text, lenient=True))
    if known:
        yield "data", known[0].data
        yield "one operand", lambda: known[0](array)
        others = [array.astype(np.int32), array.astype(np.complex64), array > 0, array[:1], array]
        count = min(known[0].operand_count, 2 * len(others))
        yield "operands", lambda: known[0](*[array] * count)
        yield "other types", lambda: known[0](*(others * 2)[:count])
