#!/usr/bin/env python3
"""Put mistakes into a copy of this tree, one at a time, and run the smallest set of tests that should see each.

The mistakes are those of tests/mutants/named.py and some more that a seed places in runtime, kernels, slots and push: a
comparison, a constant, a statement left out. Ends with exit code 1 where one survives that
tests/mutants/equivalent.json does not show to change nothing.
What was decided stays in the cache: the next call goes on from there, until a file, a mistake or a test changes.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "format"))

import c_build  # noqa: E402
import placing  # noqa: E402
from named import NAMED, SETS  # noqa: E402

from mica.toolchain.cache import cache_dir  # noqa: E402

KINDS = ("killed", "equivalent", "survived", "timeout", "not run")
TEST_SECONDS = 1800  # of one set of tests; a mistake that makes them hang is no proof that they see it
# With a mistake they may take so many times what they took without, and FIRST_SECONDS: firmware may have to be built.
SLOWER, FIRST_SECONDS = 5, 300
STOP_SECONDS = 20  # for tests that are stopped to end what they have started
SEED, PLACED = 1, 30


@dataclass(frozen=True)
class Mutant:
    """A mistake: the file, its text with the mistake in it, and the tests (a key of SETS)."""

    name: str
    file: str
    line: int
    before: str  # the line as it is
    after: str  # and with the mistake
    text: str
    tests: str


def mutant(name: str, file: str, original: str, text: str, tests: str) -> Mutant:
    old, new = original.splitlines(), text.splitlines()
    line = next(i for i, (a, b) in enumerate(zip([*old, ""], [*new, ""], strict=False)) if a != b)
    return Mutant(name, file, line + 1, old[line].strip(), new[line].strip(), text, tests)


def named_mutants() -> Iterator[Mutant]:
    """Mutants of named.py. Raises ValueError if the code has changed so that one has no place."""
    for m in NAMED:
        text = (ROOT / m.file).read_text(encoding="utf-8")
        if text.count(m.before) != 1:
            raise ValueError(
                f"mutant {m.name}: {text.count(m.before)} places in {m.file} for {m.before!r}; write it again"
            )
        yield mutant(m.name, m.file, text, text.replace(m.before, m.after), m.tests)


def placed_mutants(seed: int, count: int) -> Iterator[Mutant]:
    """Mutants that the seed places. One that warns, or compiles to the same code, is replaced by the next."""
    made = 0
    for place in placing.places(ROOT, seed, count):
        text = (ROOT / place.file).read_text(encoding="utf-8")
        changed = place.apply(text)
        if made < count and _alive(place.file, text, changed):
            made += 1
            yield mutant(f"seed{seed}-{made:02}-{place.kind}", place.file, text, changed, place.tests)


def _alive(file: str, text: str, changed: str) -> bool:
    if file.endswith(".py"):
        try:
            compile(changed, file, "exec")
        except SyntaxError:
            return False
        return True
    if file.endswith(".h"):
        return True
    build = next((b for b in c_build.BUILDS if f"isa/{b.isa}/" in file), c_build.BUILDS[0])
    code = [_code(build, file, source) for source in (text, changed)]
    return code[1] is not None and code[0] != code[1]


def _code(build: c_build.Build, file: str, text: str) -> bytes | None:
    """Assembly of a file's text, None where it does not compile with the warnings that boards take for errors."""
    include = [*build.include, f"-I{ROOT / 'usermod_c' / 'runtime'}", f"-I{(ROOT / file).parent}"]
    strict = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror")
    command = [c_build.gcc(), "-S", *strict, *build.flags, *include, "-x", "c", "-", "-o", "-"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


def digest_of(root: Path, tests: str, *more: str) -> str:
    """Hash of a set of tests and of its files."""
    digest = hashlib.sha256(repr((SETS[tests], more)).encode())
    paths = [root / word for word in SETS[tests] if word.startswith("tests/")]
    for path in sorted({p.parent if p.is_file() else p for p in paths}):
        for file in sorted(path.glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _hear_ctrl_c() -> None:
    """nohup and background shells have it ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _stop(program: subprocess.Popen[bytes]) -> None:
    """Ctrl-C first: a build that pytest has started is in a session of its own, and only pytest can end it."""
    os.killpg(program.pid, signal.SIGINT)
    try:
        program.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)  # with the boards that it started
        program.wait()


class Copy:
    """A copy of the tree, kept in the cache so that firmware is not built from nothing each time."""

    def __init__(self) -> None:
        self.root = self._own()
        listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, capture_output=True, check=True, text=True).stdout.split("\0")
        expected = {name for name in names if name and (ROOT / name).is_file()}
        for name in expected:
            self.write(name, (ROOT / name).read_bytes(), (ROOT / name).stat().st_mode)
        for folder in ("firmware", "host_tools", "scripts", "tests", "usermod_c", "boards"):
            for path in (self.root / folder).rglob("*"):
                here = path.relative_to(self.root).as_posix()
                if path.suffix in (".py", ".c", ".h", ".S", ".exp", ".toml") and here not in expected:
                    path.unlink()

    def _own(self) -> Path:
        """The first folder that no other process works in; ours until this one ends."""
        folder = cache_dir() / "mutants"
        folder.mkdir(parents=True, exist_ok=True)
        for number in itertools.count():
            self._lock = (folder / f"{number}.lock").open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                self._lock.close()
        return folder / str(number)

    def write(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Leaves a file alone that is so already: builds go by the time of a change."""
        path = self.root / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            path.chmod(mode)

    def run(self, tests: str, build_engine: bool, seconds: float) -> tuple[str, str]:
        """passed, failed or timeout, and the first line that says why."""
        env = os.environ | {"PYTHONPATH": str(self.root / "host_tools"), "PYTHONDONTWRITEBYTECODE": "1"}
        engine = self.root / "host_tools" / "mica" / "engine"
        if build_engine or not list(engine.glob("*.so")):
            for old in engine.glob("*.so"):
                old.unlink()
            code, said = self._call([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], env, seconds)
            if not list(engine.glob("*.so")):
                return ("timeout", "building the engine") if code is None else ("failed", f"no engine: {said[-200:]}")
        pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--no-header", *SETS[tests]]
        code, said = self._call(pytest, env, seconds)
        if code is None:
            return "timeout", f"more than {seconds:.0f} s"
        if code < 0:  # a mistake in the engine, which runs in the tests' own process
            return "failed", f"the tests ended by signal {-code}"
        why = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if code not in (0, 1, 2) or (code != 0 and not why):
            raise RuntimeError(f"pytest {tests}: exit code {code}\n{said[-2000:]}")
        return ("passed", said.splitlines()[-1]) if code == 0 else ("failed", why[0][:160])

    def _call(self, command: list[str], env: dict[str, str], seconds: float) -> tuple[int | None, str]:
        with tempfile.TemporaryFile("w+", errors="replace") as out:
            program = subprocess.Popen(
                command,
                cwd=self.root,
                env=env,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_hear_ctrl_c,
            )
            code: int | None = None
            try:
                code = program.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
            finally:
                if program.poll() is None:
                    _stop(program)
            out.seek(0)
            return code, out.read()


class Results:
    """Verdicts so far, one JSON object a line, in the cache."""

    def __init__(self) -> None:
        self.path = cache_dir() / "mutants" / "results.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        self.known = {r["key"]: r for r in map(json.loads, lines)}

    def add(self, key: str, verdict: str, why: str, seconds: float) -> None:
        self.known[key] = {"key": key, "verdict": verdict, "why": why, "seconds": round(seconds, 1)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.known[key]) + "\n")


def equivalents() -> dict[tuple[str, str, str], str]:
    """File, line and changed line of mutants that change nothing, and the reason."""
    listed = json.loads((ROOT / "tests" / "mutants" / "equivalent.json").read_text(encoding="utf-8"))
    return {(e["file"], e["before"], e["after"]): e["reason"] for e in listed}


def decide(m: Mutant, copy: Copy, results: Results, end: float) -> tuple[str, str]:
    """A mutant's verdict and the reason. Its tests have to pass without it, or they prove nothing."""
    reason = equivalents().get((m.file, m.before, m.after))
    if reason is not None:
        return "equivalent", reason
    original = (copy.root / m.file).read_text(encoding="utf-8")
    tree = hashlib.sha256()
    for path in sorted(p for f in ("usermod_c", "firmware", "host_tools") for p in (copy.root / f).rglob("*.[chSp]*")):
        if path.suffix in (".py", ".c", ".h", ".S"):
            tree.update(path.read_bytes())
    sound = digest_of(copy.root, m.tests, "sound", tree.hexdigest())
    key = digest_of(copy.root, m.tests, m.file, original, m.text)
    if key in results.known:
        return results.known[key]["verdict"], results.known[key]["why"]
    in_c = m.file.startswith("usermod_c/") and "/binding/" not in m.file
    if sound not in results.known:
        if time.monotonic() > end:
            return "not run", "no time left"
        begun = time.monotonic()
        said, why = copy.run(m.tests, True, _seconds(TEST_SECONDS, end))
        if said == "timeout" and time.monotonic() >= end:
            return "not run", "no time left"
        if said != "passed":
            raise RuntimeError(f"the tests '{m.tests}' fail without a mistake ({said}): {why}")
        results.add(sound, "sound", why, time.monotonic() - begun)
    if time.monotonic() > end:
        return "not run", "no time left"
    begun = time.monotonic()
    most = min(TEST_SECONDS, FIRST_SECONDS + SLOWER * results.known[sound]["seconds"])
    try:
        copy.write(m.file, m.text.encode())
        said, why = copy.run(m.tests, in_c, _seconds(most, end))
    finally:
        copy.write(m.file, original.encode())
        if in_c:  # made with the mistake in it
            for engine in (copy.root / "host_tools" / "mica" / "engine").glob("*.so"):
                engine.unlink()
    if said == "timeout" and time.monotonic() >= end:
        return "not run", "no time left"
    verdict = {"passed": "survived", "failed": "killed", "timeout": "timeout"}[said]
    if verdict != "timeout":
        results.add(key, verdict, why, time.monotonic() - begun)
    return verdict, why


def _seconds(most: float, end: float) -> float:
    """Seconds that a set of tests may take within the time that is left."""
    return min(most, max(1.0, end - time.monotonic()))


def run(mutants: list[Mutant], jobs: int, minutes: float, say: object = print) -> list[dict[str, object]]:
    """A record of each mutant, in their order. When the minutes are over,
    tests that still run are stopped and decide nothing."""
    end = time.monotonic() + 60 * minutes
    results = Results()
    copies: queue.Queue[Copy] = queue.Queue()
    for _ in range(min(jobs, len(mutants))):
        copies.put(Copy())

    def one(m: Mutant) -> dict[str, object]:
        copy = copies.get()
        try:
            verdict, why = decide(m, copy, results, end)
        finally:
            copies.put(copy)
        if callable(say):
            say(f"{verdict:10} {m.name}: {m.file}:{m.line}: {m.before} -> {m.after} [{m.tests}] {why}")
        facts = {"name": m.name, "file": m.file, "line": m.line, "before": m.before, "after": m.after}
        return {**facts, "tests": m.tests, "verdict": verdict, "why": why}

    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        return list(pool.map(one, mutants))


def counts(records: list[dict[str, object]]) -> dict[str, int]:
    found = Counter(str(r["verdict"]) for r in records)
    return {"mutants": len(records)} | {kind: found[kind] for kind in KINDS}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", metavar="TEXT", help="those with TEXT in their name or file")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the placed ones (default {SEED})")
    parser.add_argument(
        "--placed", type=int, default=PLACED, metavar="N", help=f"how many are placed (default {PLACED})"
    )
    parser.add_argument("--jobs", type=int, default=1, help="copies that are tried side by side (default 1)")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after that time; what is not decided is not run"
    )
    parser.add_argument("--list", action="store_true", help="only say which there are")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    args = parser.parse_args()
    every = [*named_mutants(), *placed_mutants(args.seed, args.placed)]
    chosen = [m for m in every if args.only in m.name or args.only in m.file]
    if not chosen:
        parser.error(f"--only: no mutant has '{args.only}' in its name or file; --list shows them")
    if args.list:
        for m in chosen:
            print(f"{m.name}: {m.file}:{m.line}: {m.before} -> {m.after} [{m.tests}]")
        return 0
    records = run(chosen, args.jobs, args.minutes, lambda line: print(line, file=sys.stderr, flush=True))
    total = counts(records)
    if args.json:
        print(json.dumps({"seed": args.seed, "counts": total, "mutants": records}))
    else:
        print(", ".join(f"{n} {kind}" for kind, n in total.items()))
    return 1 if total["survived"] or total["timeout"] else 0


if __name__ == "__main__":
    sys.exit(main())
