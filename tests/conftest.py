"""Settings of the whole suite."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import wraps
from importlib.util import find_spec
from inspect import isfunction

import pytest
from hypothesis import settings

from tests.draws import EXAMPLES

# Internal errors must propagate, not be printed as diagnostics.
os.environ.setdefault("GRAPHPORT_DEBUG", "1")

# How slow the machine is does not belong into outputs that are compared.
os.environ.setdefault("GRAPHPORT_PATIENCE", "never")

# Nothing that tests write has to outlast the machine.
os.environ.setdefault("GRAPHPORT_UNFLUSHED", "1")

# No test writes to the user's cache folder.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="graphport-cache-")
atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

# Each core runs separate tests. With NumPy's default, products use all cores with busy-waiting threads: small networks
# take seven times the processor time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What tests start finds our modules compiled; a machine set otherwise would have each process compile them all again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# OpenVINO's import and converter send telemetry at each use, with a fork of the test process.
sys.modules["openvino_telemetry"] = None  # pyright: ignore[reportArgumentType]

# A deadline measures the machine, not the code. In CI the examples are deterministic, so that failures repeat.
settings.register_profile("here", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--sample",
        type=int,
        metavar="N",
        help="run N of the selected tests, spread evenly, the same every time, and those marked `always`",
    )


@pytest.hookimpl(trylast=True)  # after `-m` and `-k` have selected
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted: int | None = config.getoption("--sample")
    if wanted is None or len(items) <= wanted:
        return
    kept = {index * len(items) // wanted for index in range(wanted)}
    kept |= {index for index, item in enumerate(items) if _is_always_run(item)}
    config.hook.pytest_deselected(items=[item for index, item in enumerate(items) if index not in kept])
    items[:] = [item for index, item in enumerate(items) if index in kept]


def _is_always_run(item: pytest.Item) -> bool:
    """Return whether each sample includes the test: the only one of its subject."""
    return any(mark.kwargs.get("always", False) for mark in item.iter_markers("conformance"))


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Collect no items of conformance suites for `make test`: they are nearly half of all items."""
    if collector.config.option.markexpr != "not conformance" or not isfunction(obj):
        return None
    marks = [*collector.iter_markers(), *getattr(obj, "pytestmark", ())]
    return [] if any(mark.name == "conformance" for mark in marks) else None


def pytest_collection() -> None:
    """Imported modules and collected tests are permanent: exclude them from garbage collection."""
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let modules and tests be no garbage: they are a million objects, and each search for cycles went through them.

    Processes that tests fork copy fewer pages, too.
    """
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Collect garbage once and freeze the remaining objects: pytest collects five times before it ends.

    Each collection takes 1.5 seconds in every test process.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def one_thread_a_session() -> Iterator[None]:
    """Run ONNX Runtime on one thread unless a test sets the number: each core runs separate tests.

    By default each session has a busy-waiting thread per core: loading and running a small model takes seven times the
    processor time.
    """
    if find_spec("onnxruntime") is None:
        yield
        return
    import onnxruntime

    loads = onnxruntime.InferenceSession.__init__

    @wraps(loads)
    def on_one_thread(self, model, sess_options=None, *args, **options):
        told = onnxruntime.SessionOptions() if sess_options is None else sess_options
        told.intra_op_num_threads = told.intra_op_num_threads or 1
        loads(self, model, told, *args, **options)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(onnxruntime.InferenceSession, "__init__", on_one_thread)
        yield
