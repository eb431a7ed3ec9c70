"""Record the op types that each rule emits while the tests run: `src/graphport/ops/emitted.json`.

python tools/emitted.py                      run all tests except the conformance suites and write the record
python tools/emitted.py PYTEST ARGUMENTS     run selected tests and add to the record of the existing rules
python tools/emitted.py -m conformance       the same for the conformance suites, the only tests of many rules
python tools/emitted.py --merge FOLDER       add the results that runs with `-p tools.emitted` wrote to FOLDER

Without arguments, the records of all rules that ran are replaced. The record of another rule is preserved while the
rule and its test exist: the conformance suites did not run.

The pytest plugin (`EMITTED=FOLDER pytest -p tools.emitted`) wraps the lookup of rules: while a rule runs, the op types
of the nodes that its builder creates are recorded under its dialect and op type, with the running test. A rule that
returns None is not recorded. The results of several processes are merged at the end.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).parent.parent
DATA = ROOT / "src" / "graphport" / "ops" / "emitted.json"
LOWER, LIFT = "lower", "lift"

Key = tuple[str, str, str]
"""`lower`, a dialect and its op type; or `lift` (export), a dialect and a canonical operator."""


class Seen(NamedTuple):
    """Op types that one rule emits: in at least one run, in every run, and a test that shows it."""

    some: frozenset[str]
    every: frozenset[str]
    test: str

    def joined(self, key: Key, other: Seen) -> Seen:
        """Merge with the record of another run or process."""
        return Seen(self.some | other.some, self.every & other.every, _nearest(key, self.test, other.test))


class Recorder:
    """Records the op types that rules emit while they run."""

    def __init__(self) -> None:
        self.seen: dict[Key, Seen] = {}
        self._running: list[tuple[Key, set[str]]] = []

    def note(self, op_type: str, dialect: str) -> None:
        """Record a created node for the running rule and for the rules of the same kind that called it."""
        for key, emitted in reversed(self._running):
            if key[0] != self._running[-1][0][0]:
                return
            if dialect == ("" if key[0] == LOWER else self._running[-1][0][1]):
                emitted.add(op_type)

    def apart(self, infer: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `infer`, which runs on a body: nodes inside a body do not count for the operator that contains it."""

        @functools.wraps(infer)
        def watched(*arguments: Any, **named: Any) -> Any:
            running, self._running = self._running, []
            try:
                return infer(*arguments, **named)
            finally:
                self._running = running

        return watched

    def wrapped(self, key: Key, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap `rule` so that its nodes are recorded; rules defined by tests are returned unchanged."""
        if not _is_ours(rule):
            return rule

        @functools.wraps(rule, updated=())
        def watched(*arguments: Any, **named: Any) -> Any:
            emitted = set[str]()
            self._running.append((key, emitted))
            try:
                answer = rule(*arguments, **named)
            finally:
                self._running.pop()
            if answer is not None:
                test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
                found = Seen(frozenset(emitted), frozenset(emitted), test)
                self.seen[key] = found.joined(key, self.seen[key]) if key in self.seen else found
            return answer

        vars(watched)["__signature__"] = inspect.signature(rule, follow_wrapped=False)
        return watched


def _is_ours(rule: Any) -> bool:
    """Return whether the package defines the rule. Tests register rules, some of them for existing op types."""
    pending = [rule]
    while pending:
        part = pending.pop()
        if isinstance(part, functools.partial):
            pending += [part.func, *part.args]
        elif getattr(part, "__module__", "").partition(".")[0] == "tests":
            return False
        else:
            pending += [inner for name in ("function", "__wrapped__") if callable(inner := getattr(part, name, None))]
    return True


def _nearest(key: Key, *tests: str) -> str:
    """Return the most obvious test: in the folder of the dialect if possible, then the first by name."""
    return min(tests, key=lambda test: (f"/{key[1].replace('.', '_')}/" not in test, test))


def watch(recorder: Recorder, put: Callable[[Any, str, Any], None]) -> None:
    """Let the recorder wrap the lookup of rules; `put` sets an attribute of a module or a class."""
    from graphport.ops import registry
    from graphport.ops.builder import Builder
    from graphport.ops.infer import Inference

    lowering, export_rules, make = registry.lowering, registry.export_rules, Builder._node  # pyright: ignore[reportPrivateUsage]

    def watched_lowering(dialect: str, op_type: str, opset: int | None = None) -> Callable[..., Any] | None:
        rule = lowering(dialect, op_type, opset)
        return None if rule is None else recorder.wrapped((LOWER, dialect, op_type), rule)

    def watched_export_rules(dialect: str, op_def: Any) -> list[Callable[..., Any]]:
        return [recorder.wrapped((LIFT, dialect, op_def.name), rule) for rule in export_rules(dialect, op_def)]

    def watched_node(self: Builder, op_type: str, dialect: str, *rest: Any) -> Any:
        recorder.note(op_type, dialect)
        return make(self, op_type, dialect, *rest)

    put(registry, "lowering", watched_lowering)
    put(registry, "export_rules", watched_export_rules)
    put(Builder, "_node", watched_node)
    put(Inference, "graph", recorder.apart(Inference.graph))


def pytest_configure() -> None:
    """Start recording."""
    recorder = Recorder()
    vars(sys.modules[__name__])["RECORDER"] = recorder
    watch(recorder, setattr)


def pytest_sessionfinish() -> None:
    """Write the records to the folder of the environment variable EMITTED."""
    recorder: Recorder = vars(sys.modules[__name__])["RECORDER"]
    folder = Path(os.environ["EMITTED"])
    rows = [[*key, sorted(found.some), sorted(found.every), found.test] for key, found in recorder.seen.items()]
    (folder / f"{os.getpid()}.json").write_text(json.dumps(rows), encoding="utf-8")


def merged(folder: Path, known: Mapping[str, Any], *, is_whole: bool = False) -> dict[str, Any]:
    """Merge the records of all processes: `{"lower": {dialect: {op_type: row}}, "lift": {dialect: {operator: row}}}`.

    The rows of `known`, a document of this form, are included for existing rules; if `is_whole`, only for rules that no
    process recorded and whose test exists.

    A row has `emits`, `always` (op types that every run emits) and `test`. An op type without a test that shares its
    rule function with a tested op type has a copy of that row, with `like`.
    """
    seen = {} if is_whole else dict(_rows(known))
    for path in sorted(folder.glob("*.json")):
        for kind, dialect, op_type, some, every, test in json.loads(path.read_text(encoding="utf-8")):
            key, found = (kind, dialect, op_type), Seen(frozenset(some), frozenset(every), test)
            seen[key] = found.joined(key, seen[key]) if key in seen else found
    if is_whole:
        seen = {key: found for key, found in _rows(known) if (ROOT / found.test).is_file()} | seen
    # Remove deleted rules and op types that only a test defines.
    seen = {key: found for key, found in seen.items() if _is_there(*key)}
    document: dict[str, Any] = {LOWER: {}, LIFT: {}}
    twins = _twins(seen)
    for kind, dialect, op_type in sorted({*seen, *_rules()}):
        key = (kind, dialect, op_type)
        like = "" if key in seen else twins.get((kind, dialect, _rules()[key]), "")
        if key in seen or like:
            found = seen[(kind, dialect, like or op_type)]
            row = {"emits": sorted(found.some), "always": sorted(found.every), "test": found.test}
            document[kind].setdefault(dialect, {})[op_type] = row | ({"like": like} if like else {})
    return document


def _rows(document: Mapping[str, Any]) -> Iterator[tuple[Key, Seen]]:
    """Yield the rows of a document, except rows with `like`."""
    for kind, dialects in document.items():
        for dialect, words in dialects.items():
            for op_type, row in words.items():
                if "like" not in row:
                    yield (kind, dialect, op_type), Seen(frozenset(row["emits"]), frozenset(row["always"]), row["test"])


def _is_there(kind: str, dialect: str, op_type: str) -> bool:
    """Return whether a rule exists for an op type or operator."""
    from graphport.ops import registry
    from graphport.ops.declare import OPSET

    if kind == LOWER:
        return (kind, dialect, op_type) in _rules() or registry.lowering(dialect, op_type, OPSET) is not None
    op_def = registry.op_defs().get(op_type)
    return (kind, dialect, op_type) in _rules() or (op_def is not None and bool(registry.export_rules(dialect, op_def)))


@functools.cache
def _rules() -> dict[Key, tuple[int, ...]]:
    """Return the identities of the functions of every rule."""
    from graphport.ops import registry
    from graphport.ops.declare import EXPORT_RULES, IMPORT_RULES

    for dialect in registry.dialects():
        registry.load(dialect)
        registry.load(dialect.replace("_", "."))
    return {
        (kind, *name): tuple(id(_function(rule.function)) for rule in rules)
        for kind, table in ((LOWER, IMPORT_RULES), (LIFT, EXPORT_RULES))
        for name, rules in table.items()
    }


def _function(rule: Any) -> Any:
    while inner := getattr(rule, "function", None) or getattr(rule, "__wrapped__", None):
        rule = inner
    return rule


def _twins(seen: Mapping[Key, Seen]) -> dict[tuple[str, str, tuple[int, ...]], str]:
    """Return the first tested op type of each dialect by the functions of its rule."""
    twins: dict[tuple[str, str, tuple[int, ...]], str] = {}
    for key, functions in _rules().items():
        if key in seen:
            twins.setdefault((*key[:2], functions), key[2])
    return twins


def text_of(document: dict[str, Any]) -> str:
    """Return the document as JSON with one line for each rule."""
    lines = ["{"]
    for kind, dialects in document.items():
        lines.append(f' "{kind}": {{')
        for dialect, words in dialects.items():
            lines.append(f'  "{dialect}": {{')
            rows = [f"   {json.dumps(op_type)}: {json.dumps(row)}" for op_type, row in words.items()]
            lines += [f"{row}," for row in rows[:-1]] + rows[-1:]
            lines.append("  }" if dialect == list(dialects)[-1] else "  },")
        lines.append(" }" if kind == list(document)[-1] else " },")
    return "\n".join([*lines, "}", ""])


def _known() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else {}


def main(arguments: list[str]) -> int:
    """Run the tests or merge existing results, and write the record."""
    if arguments[:1] == ["--merge"] and len(arguments) == 2:
        DATA.write_text(text_of(merged(Path(arguments[1]), _known())), encoding="utf-8")
        return 0
    if any(argument in ("-h", "--help") for argument in arguments):
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.emitted", "-m", "not conformance"]
        environment = {**os.environ, "EMITTED": folder}
        status = subprocess.run([*command, *(arguments or ["-n", "auto"])], cwd=ROOT, env=environment, check=False)  # noqa: S603  our own interpreter
        DATA.write_text(text_of(merged(Path(folder), _known(), is_whole=not arguments)), encoding="utf-8")
    return status.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
