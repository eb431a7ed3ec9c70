"""Mutation testing: report the mutations of a module that its tests do not detect.

    .venv/bin/python tools/mutate.py core ir passes comparison conversion --count 100 --seed 1 --json found.json

Draws mutations (`mutations.py`) in the modules of each package, applies one at a time, and runs the tests that execute
its statement, fastest first, until one fails. The tests of a module are in the folder of its name below `tests/`, or in
the nearest parent; a module of a format also has the tests of its format. For a mutation inside a function, a process
that has already collected the tests replaces the code objects of the functions. For all other mutations, and before a
mutation is reported as undetected, the tests run in a new process. A mutation that exceeds the time limit is detected.

Random tests use the same values in each run (`CI=1`).
"""

from __future__ import annotations

import argparse
import ast
import builtins
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from mutations import Site, faulty, sites, statements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "graphport"
TESTS = ROOT / "tests"
HITS = "__mutate_hits__"
OPTIONS = ["-q", "-x", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not conformance"]
_NOT_APPLIED = 3
_ROOMS = {"pytorch": ("pytorch/pt2",)}
"""Further folders of tests that run all modules of a format."""
_MOST_BYTES = 16 << 30
_SLOWEST = 20.0
"""Seconds that a test may take in addition to ten times its normal time."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Mutation `number` of a module."""

    module: str
    number: int
    kind: str
    line: int
    statement: int
    """Index of its statement in the module."""
    in_function: bool


@dataclass(slots=True)
class Verdict:
    """Result of a mutation.

    `verdict` is failed (of a test), endless, unnoticed, or not reached (no test executes the statement).
    """

    fault: Fault
    before: str
    after: str
    verdict: str = ""
    tests: int = 0
    """Number of tests that execute its statement."""

    @property
    def is_noticed(self) -> bool:
        """Return whether a test failed or exceeded its time."""
        return self.verdict in ("failed", "endless")

    def __str__(self) -> str:
        after = self.after or "nothing"
        return (
            f"{self.fault.module}:{self.fault.line}: {self.before}  ->  {after}  ({self.verdict}, {self.tests} tests)"
        )


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("packages", nargs="+", help="folders or modules below src/graphport")
    parser.add_argument("--count", type=int, default=100, help="faults drawn of each (default: 100)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="faults that are tried at a time")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes, for programs")
    parser.add_argument("--least", type=float, default=0.0, metavar="PERCENT", help="exit with 1 if fewer are noticed")
    given = parser.parse_args()
    os.environ.update(CI="1", PYTHONPATH=f"{ROOT / 'src'}{os.pathsep}{ROOT}")
    os.chdir(ROOT)
    found: dict[str, list[Verdict]] = {}
    for package in given.packages:
        drawn = draw(package, given.count, given.seed)
        groups: dict[tuple[str, ...], list[Fault]] = {}
        for fault in drawn:
            groups.setdefault(tests_of(fault.module), []).append(fault)
        found[package] = [one for folders, faults in groups.items() for one in judged(folders, faults, given.jobs)]
        tell(package, found[package])
    if given.json is not None:
        given.json.write_text(json.dumps(document(found, given.seed), indent=1) + "\n")
    every = [one for verdicts in found.values() for one in verdicts]
    noticed = 100 * sum(one.is_noticed for one in every) / max(len(every), 1)
    print(f"{noticed:.1f} % of {len(every)} faults are noticed")
    return int(noticed < given.least)


def draw(package: str, count: int, seed: int) -> list[Fault]:
    """Return random mutations of the modules of a package, in source order."""
    top = SOURCE / package
    every = [fault for path in (sorted(top.rglob("*.py")) if top.is_dir() else [top]) for fault in faults_of(path)]
    kept = sorted(random.Random(f"{seed} {package}").sample(range(len(every)), min(count, len(every))))  # noqa: S311
    return [every[index] for index in kept]


def faults_of(path: Path) -> list[Fault]:
    """Return every mutation of one module."""
    tree = ast.parse(path.read_text("utf-8"))
    places = {node: place for place, node in enumerate(statements(tree))}

    def fault(number: int, site: Site) -> Fault:
        line = getattr(site.node, "lineno", site.statement.lineno)
        module = path.relative_to(SOURCE).as_posix()
        return Fault(module, number, site.kind, line, places[site.statement], site.in_function)

    return [fault(number, site) for number, site in enumerate(sites(tree))]


def tests_of(module: str) -> tuple[str, ...]:
    """Return the folders with the tests of a module."""
    folder = TESTS / Path(module.replace("/container", "")).with_suffix("")
    while not any(folder.glob("test_*.py")) and folder != TESTS:
        folder = folder.parent
    found = [folder]
    parts = Path(module).parts
    if parts[0] == "formats" and len(parts) > 2:
        rooms = [TESTS / "formats" / parts[1], *(TESTS / "formats" / each for each in _ROOMS.get(parts[1], ()))]
        found += [room for room in rooms if room != folder and any(room.glob("test_*.py"))]
    return tuple(path.relative_to(ROOT).as_posix() for path in found)


def tell(package: str, verdicts: Sequence[Verdict]) -> None:
    """Print the number of detected mutations of each module, and the undetected mutations."""
    modules = Counter(one.fault.module for one in verdicts)
    noticed = Counter(one.fault.module for one in verdicts if one.is_noticed)
    for module, count in sorted(modules.items()):
        print(f"{noticed[module]:4} of {count:4}  {module}")
    for one in verdicts:
        if not one.is_noticed:
            print(f"  {one}")
    print(
        f"{package}: {100 * noticed.total() / max(modules.total(), 1):.1f} % of {modules.total()} are noticed",
        flush=True,
    )


def document(found: Mapping[str, Sequence[Verdict]], seed: int) -> dict[str, Any]:
    """Return the result as a JSON document: the counts of each package, and every mutation."""

    def share(verdicts: Iterable[Verdict]) -> dict[str, int]:
        return {"noticed": sum(one.is_noticed for one in verdicts), "faults": sum(1 for _ in verdicts)}

    return {
        "schema": "graphport/mutate/1",
        "seed": seed,
        "packages": {package: share(list(verdicts)) for package, verdicts in found.items()},
        "faults": [asdict(one) for verdicts in found.values() for one in verdicts],
    }


# The process that runs the tests


def judged(folders: tuple[str, ...], faults: Sequence[Fault], jobs: int) -> list[Verdict]:
    """Return the verdicts of mutations whose tests are in `folders`."""
    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "faults.json").write_text(json.dumps([asdict(fault) for fault in faults]))
        command = [sys.executable, __file__, "--worker", place, str(jobs), *folders]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # noqa: S603  our own script
        answers = work / "verdicts.json"
        if not answers.exists():
            sys.exit(f"the tests of {', '.join(folders)} do not run:\n{done.stdout.decode(errors='replace')[-3000:]}")
        verdicts = [Verdict(Fault(**one.pop("fault")), **one) for one in json.loads(answers.read_text())]
        return [confirmed(one, work) for one in verdicts]


def confirmed(one: Verdict, work: Path) -> Verdict:
    """Confirm that a mutation is undetected in a new process, which never imported the original module."""
    if one.verdict not in ("unnoticed", "not applied"):
        return one
    names = json.loads((work / f"{one.fault.module.replace('/', '.')}.{one.fault.number}.json").read_text())
    command = [sys.executable, __file__, "--one", one.fault.module, str(one.fault.number)]
    budget = _SLOWEST + 10 * names["seconds"] + 60
    try:
        text = "\n".join(names["tests"])
        options: dict[str, Any] = {"input": text, "text": True, "timeout": budget, "capture_output": True}
        done = subprocess.run(command, check=False, **options)  # noqa: S603  our own script
        one.verdict = "failed" if done.returncode else "unnoticed"
    except subprocess.TimeoutExpired:
        one.verdict = "endless"
    return one


def run_one(module: str, number: int, names: list[str]) -> int:
    """Run tests in this process, which has not imported `module` yet, with a mutation in it."""
    import pytest

    limit_memory()
    tree, _, _ = faulty((SOURCE / module).read_text("utf-8"), number)
    install({SOURCE / module: tree})
    return int(pytest.main([*OPTIONS, *names]))


def limit_memory() -> None:
    """Limit the address space, so that a mutation that allocates too much fails."""
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from syntax trees."""

    def __init__(self, trees: Mapping[Path, ast.Module]) -> None:
        self.trees = trees

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:  # noqa: ARG002  required by the protocol
        if not fullname.startswith("graphport"):
            return None
        found = importlib.machinery.PathFinder.find_spec(fullname, path)  # pyright: ignore[reportArgumentType]
        if found is None or found.origin is None or Path(found.origin) not in self.trees:
            return None
        places = found.submodule_search_locations
        return importlib.util.spec_from_file_location(
            fullname, found.origin, loader=self, submodule_search_locations=places
        )  # pyright: ignore[reportArgumentType]

    def create_module(self, spec: object) -> None:
        """Use the default module creation."""

    def exec_module(self, module: Any) -> None:
        exec(compile(self.trees[Path(module.__file__)], module.__file__, "exec"), module.__dict__)  # noqa: S102  our own code


def install(trees: Mapping[Path, ast.Module]) -> None:
    """Import these modules from syntax trees from now on."""
    sys.meta_path.insert(0, _Finder(trees))


def counted(text: str, first: int) -> tuple[ast.Module, int]:
    """Return the tree of a module that sets `HITS[first + n]` before statement n, and the number of statements."""
    tree = ast.parse(text)
    every = statements(tree)
    places = {node: first + place for place, node in enumerate(every)}

    def marked(body: list[ast.stmt]) -> list[ast.stmt]:
        found: list[ast.stmt] = []
        for node in body:
            is_early = isinstance(node, ast.ImportFrom) and node.module == "__future__"
            if node in places and not is_early:
                mark = ast.parse(f"{HITS}[{places[node]}] = 1").body[0]
                found += [ast.copy_location(inner, node) for inner in ast.walk(mark) if isinstance(inner, ast.stmt)]
            found.append(node)
        return found

    for node in list(ast.walk(tree)):
        for name, content in ast.iter_fields(node):
            if isinstance(content, list) and content and isinstance(content[0], ast.stmt):
                setattr(node, name, marked(content))
    return ast.fix_missing_locations(tree), len(every)


class Worker:
    """Replaces pytest's loop over the collected tests."""

    def __init__(self, work: Path, jobs: int) -> None:
        self.work, self.jobs = work, jobs
        self.faults = [Fault(**one) for one in json.loads((work / "faults.json").read_text())]
        self.first: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        trees: dict[Path, ast.Module] = {}
        total = 0
        for module in dict.fromkeys(fault.module for fault in self.faults):
            self.first[module] = total
            trees[SOURCE / module], self.sizes[module] = counted((SOURCE / module).read_text("utf-8"), total)
            total += self.sizes[module]
        self.hits = bytearray(total)
        setattr(builtins, HITS, self.hits)
        install(trees)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Record the statements that each test executes, then run the mutations."""
        items = session.items
        for module in self.first:  # modules imported later would have no functions to replace
            importlib.import_module(
                ".".join(("graphport", *Path(module).with_suffix("").parts)).removesuffix(".__init__")
            )
        reached = self._in_child(lambda: self._traced(items))
        verdicts = [self._prepared(fault, reached) for fault in self.faults]
        functions = functions_of(self.first)
        gc.freeze()
        waiting = [index for index, one in enumerate(verdicts) if one.verdict == "" and self.faults[index].in_function]
        running: dict[int, tuple[int, float]] = {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                index = waiting.pop(0)
                chosen = self._chosen(self.faults[index], reached)
                process = os.fork()
                if not process:
                    self._try(self.faults[index], functions, [items[place] for place in chosen])
                seconds = sum(reached[place][1] for place in chosen)
                running[process] = index, time.monotonic() + _SLOWEST + 10 * seconds
            for process, (index, deadline) in list(running.items()):
                ended, status = os.waitpid(process, os.WNOHANG)
                if ended:
                    code = os.waitstatus_to_exitcode(status)
                    verdicts[index].verdict = {0: "unnoticed", _NOT_APPLIED: "not applied"}.get(code, "failed")
                    del running[process]
                elif time.monotonic() > deadline:
                    os.killpg(process, signal.SIGKILL)
                    os.waitpid(process, 0)
                    verdicts[index].verdict = "endless"
                    del running[process]
            time.sleep(0.005)
        self._write(verdicts, items, reached)
        return True

    def _prepared(self, fault: Fault, reached: list[tuple[list[int], float]]) -> Verdict:
        _, before, after = faulty((SOURCE / fault.module).read_text("utf-8"), fault.number)
        count = len(self._chosen(fault, reached))
        verdict = "" if count and fault.in_function else "not applied" if count else "not reached"
        return Verdict(fault, before, after, verdict, count)

    def _chosen(self, fault: Fault, reached: list[tuple[list[int], float]]) -> list[int]:
        """Return the indices of tests that execute a mutation (its module, if at module level), fastest first."""
        first = self.first[fault.module]
        wanted = {first + fault.statement} if fault.in_function else set(range(first, first + self.sizes[fault.module]))
        found = [place for place, (places, _) in enumerate(reached) if not wanted.isdisjoint(places)]
        if not found and not fault.in_function:  # a module of tables only: its readers are unknown
            found = [place for place, (_, seconds) in enumerate(reached) if seconds >= 0]
        return sorted(found, key=lambda place: reached[place][1])

    def _in_child(self, work: Callable[[], Any]) -> Any:
        """Return the result of `work` in a child process, so that its changes are discarded."""
        path = self.work / "answer.json"
        process = os.fork()
        if not process:
            path.write_text(json.dumps(work()))
            os._exit(0)
        os.waitpid(process, 0)
        return json.loads(path.read_text())

    def _traced(self, items: Sequence[pytest.Item]) -> list[tuple[list[int], float]]:
        """Return for each test its executed statements and its seconds; none and -1 if it fails unmutated."""
        found: list[tuple[list[int], float]] = []
        for item, following in zip(items, [*items[1:], None], strict=True):
            self.hits[:] = bytes(len(self.hits))
            began = time.perf_counter()
            passed = _passes(item, following)
            seconds = time.perf_counter() - began if passed else -1.0
            found.append(([place for place, hit in enumerate(self.hits) if hit] if passed else [], seconds))
        return found

    def _try(self, fault: Fault, functions: Mapping[str, list[FunctionType]], items: Sequence[pytest.Item]) -> None:
        """Run tests with a mutation applied; ends this process, with 1 if one fails."""
        os.setpgid(0, 0)
        limit_memory()
        path = SOURCE / fault.module
        tree, _, _ = faulty(path.read_text("utf-8"), fault.number)
        codes = {(each.co_qualname, each.co_firstlineno): each for each in _codes(compile(tree, str(path), "exec"))}
        try:
            for function in functions[fault.module]:
                function.__code__ = codes[function.__code__.co_qualname, function.__code__.co_firstlineno]
        except (KeyError, ValueError):  # the mutated code has other free variables
            os._exit(_NOT_APPLIED)
        for item, following in zip(items, [*items[1:], None], strict=True):
            if not _passes(item, following):
                os._exit(1)
        os._exit(0)

    def _write(
        self, verdicts: list[Verdict], items: Sequence[pytest.Item], reached: list[tuple[list[int], float]]
    ) -> None:
        for one in verdicts:
            chosen = self._chosen(one.fault, reached)
            names = {"tests": [items[place].nodeid for place in chosen], "seconds": sum(reached[x][1] for x in chosen)}
            name = f"{one.fault.module.replace('/', '.')}.{one.fault.number}.json"
            (self.work / name).write_text(json.dumps(names))
        (self.work / "verdicts.json").write_text(json.dumps([asdict(one) for one in verdicts]))


def functions_of(modules: Iterable[str]) -> dict[str, list[FunctionType]]:
    """Return the functions of each module that exist in memory."""
    gc.unfreeze()  # gc.get_objects omits frozen objects, and the tests freeze their imports
    found: dict[str, list[FunctionType]] = {module: [] for module in modules}
    names = {str(SOURCE / module): module for module in found}
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename in names:
            found[names[each.__code__.co_filename]].append(each)
    return found


def _codes(code: CodeType) -> list[CodeType]:
    found = [code]
    for inner in found:
        found += [each for each in inner.co_consts if isinstance(each, CodeType)]
    return found


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    from _pytest.runner import runtestprotocol

    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def work(arguments: list[str]) -> int:
    """Run the process that `judged` starts."""
    import pytest

    place, jobs, *folders = arguments
    return int(pytest.main([*OPTIONS, *folders], plugins=[Worker(Path(place), int(jobs))]))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--worker", *rest]:
            sys.exit(work(rest))
        case ["--one", name, index]:
            sys.exit(run_one(name, int(index), sys.stdin.read().split("\n")))
        case _:
            sys.exit(main())
