"""A pytest plugin that runs the collected tests once for every mutant, each time in a process forked for it.

Everything is imported and collected once. A mutant takes a fork, the exchange of a function's code, and the tests that
execute the changed statement, the fastest first, until one fails.
"""

import gc
import json
import os
import pickle
import resource
import signal
import sys
import tempfile
import time
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import hypothesis
import pytest

from .mutants import Mutant, mutants

ROOT = Path(__file__).parents[2]
# Seconds after which a child must be waiting for something that never comes; those at work have a limit of their own.
LONGEST = 180


def module_name(file: Path) -> str:
    """The name under which a file is imported; a package's is its folder's."""
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("mutation")
    group.addoption("--mutate", action="append", help="A file to mutate; may be given several times.")
    group.addoption("--mutants", help="File with the keys of the mutants to try, one a line; else all.")
    group.addoption("--mutation-results", help="File to append a line of JSON to for each mutant.")
    group.addoption("--mutation-tests", help="What the tests are called in those lines.")
    group.addoption("--mutation-jobs", type=int, default=1, help="Mutants tried at the same time.")
    group.addoption("--budget", type=float, default=1e9, help="Seconds of tests for a mutant, the fastest first.")


def pytest_configure(config: Any) -> None:
    # The first failure is enough: nobody reads the example, so it need not be made smaller.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    ours = hypothesis.settings()
    hypothesis.settings.register_profile("mutation", ours, phases=phases, database=None, derandomize=True)
    hypothesis.settings.load_profile("mutation")


def pytest_runtestloop(session: pytest.Session) -> bool:
    options = session.config.option
    files = [Path(file).resolve() for file in options.mutate]
    wanted = set(Path(options.mutants).read_text().split()) if options.mutants else None
    for file in files:  # some are imported only when a test asks for them
        import_module(module_name(file))
    if "torch" in sys.modules:  # seconds, which PyTorch would spend in every child that builds an optimiser
        import_module("torch._dynamo")
    tried = [m for file in files for m in mutants(file, ROOT) if wanted is None or m.key in wanted]
    terminal: Any = session.config.pluginmanager.getplugin("terminalreporter")
    covered, seconds = _in_child(lambda: _traced(session, {str(file) for file in files}))
    failed = [item for item, spent in seconds.items() if spent < 0]
    if failed:
        raise pytest.UsageError(f"without any fault these tests fail: {', '.join(failed)}")
    terminal.write_line(f"{len(seconds)} tests in {sum(seconds.values()):.0f} s, {len(tried)} mutants")
    items = {item.nodeid: item for item in session.items}
    functions = _functions({str(file) for file in files})
    gc.freeze()  # nothing of what is here is looked through again in every child
    children: dict[int, tuple[Mutant, float]] = {}
    with open(options.mutation_results, "a", encoding="utf-8") as results:

        def record(mutant: Mutant, status: str, spent: float = 0.0) -> None:
            about = {name: getattr(mutant, name) for name in ("key", "file", "function", "line", "text")}
            how = {"tests": options.mutation_tests, "budget": options.budget}
            found = {**about, "status": status, "seconds": round(spent, 2), **how}
            results.write(json.dumps(found, ensure_ascii=False) + "\n")
            results.flush()

        for mutant in tried:
            tests = {t for line in mutant.lines for t in covered.get((mutant.file, line), ())}
            if not tests:
                record(mutant, "uncovered")
                continue
            ordered = sorted(tests, key=seconds.__getitem__)
            spent = list(accumulate(seconds[test] for test in ordered))
            ordered = ordered[: 1 + sum(total <= options.budget for total in spent[1:])]
            while len(children) >= options.mutation_jobs:
                _wait(children, record)
            pid = os.fork()
            if pid == 0:
                limit = int(10 + 10 * sum(seconds[test] for test in ordered))
                resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
                _child(lambda m=mutant, o=ordered: _killed(session, m, functions, [items[test] for test in o]))
            children[pid] = mutant, time.monotonic()
        while children:
            _wait(children, record)
    return True


def _wait(children: dict[int, tuple[Mutant, float]], record: Any) -> None:
    """Record the child that ends next; one that waits for ever is ended."""
    pid = 0
    while not pid:
        time.sleep(0.01)
        pid, status = os.waitpid(-1, os.WNOHANG)
        for child, (_, start) in children.items():
            if not pid and time.monotonic() - start > LONGEST:
                os.killpg(child, signal.SIGXCPU)  # with the processes that its tests have started
    mutant, start = children.pop(pid)
    code = os.waitstatus_to_exitcode(status)
    found = {0: "survived", 3: "not applied", -signal.SIGXCPU: "timeout"}.get(code, "killed")
    record(mutant, found, time.monotonic() - start)


def _child(work: Any) -> None:
    os.setpgid(0, 0)
    code = 2
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        code = work()
    finally:
        os._exit(code)


def _killed(session: Any, mutant: Mutant, functions: dict, items: list) -> int:
    """0 where the mutant survives the tests, 1 where one fails."""
    if not _apply(mutant, functions):
        return 3
    return next((1 for _, failed in _run(session, items) if failed), 0)


def _run(session: Any, items: list) -> Any:
    """Run tests; gives each with whether it failed."""
    manager = session.config.pluginmanager
    manager.unregister(name="terminalreporter")
    failures: list[Any] = []

    class Watch:
        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.failed:
                failures.append(report)

    manager.register(Watch())
    for item, after in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        yield item, bool(failures)
        failures.clear()


def _traced(session: Any, files: set[str]) -> tuple[dict, dict]:
    """The tests by the line of a file that they execute, and the seconds that each takes; -1 for one that fails."""
    covered: dict[tuple[str, int], set[str]] = {}
    lines: set[tuple[str, int]] = set()
    own, read, seconds = os.getpid(), 0, {}
    with tempfile.TemporaryFile("ab+") as forked:

        def trace(frame: Any, event: str, _: Any) -> Any:
            file, line = frame.f_code.co_filename, frame.f_lineno
            if file not in files:
                return None
            if (file, line) not in lines:
                lines.add((file, line))
                if os.getpid() != own:  # a process that the test has forked, whose memory is its own
                    os.write(forked.fileno(), f"{line} {file}\n".encode())
            return trace

        sys.settrace(trace)
        start = time.process_time()
        for item, failed in _run(session, session.items):
            seconds[item.nodeid] = -1.0 if failed else time.process_time() - start
            text = os.pread(forked.fileno(), 1 << 24, read)
            read += len(text)
            lines |= {(file, int(line)) for line, file in (row.split(" ", 1) for row in text.decode().splitlines())}
            for file, line in lines:
                covered.setdefault((str(Path(file).relative_to(ROOT)), line), set()).add(item.nodeid)
            lines.clear()
            start = time.process_time()
            sys.settrace(trace)
        sys.settrace(None)
    return covered, seconds


def _in_child(work: Any) -> Any:
    """What a function gives that runs in a process of its own, so that this one stays as it is."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)

        def send() -> int:
            with os.fdopen(writer, "wb") as pipe:
                pickle.dump(work(), pipe)
            return 0

        _child(send)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return pickle.loads(data)


def _functions(files: set[str]) -> dict[tuple[str, str, int], list[FunctionType]]:
    """The functions of some files, wherever they are kept, by file, name and first line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename in files:
            code = thing.__code__
            found.setdefault((code.co_filename, code.co_name, code.co_firstlineno), []).append(thing)
    return found


def _apply(mutant: Mutant, functions: dict[tuple[str, str, int], list[FunctionType]]) -> bool:
    """Exchange the code of the functions around the fault."""
    filename = str(ROOT / mutant.file)
    waiting: list[CodeType] = [mutant.compiled(filename)]
    applied = False
    while waiting:
        inner = [constant for constant in waiting.pop().co_consts if isinstance(constant, CodeType)]
        waiting += inner
        for code in inner:
            if (code.co_name, code.co_firstlineno) in mutant.chain:
                for function in functions.get((filename, code.co_name, code.co_firstlineno), ()):
                    if function.__code__.co_freevars == code.co_freevars:
                        function.__code__ = code
                        applied = True
    return applied
