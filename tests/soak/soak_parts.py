"""Parts of `scripts/soak`: a function for each of PARTS. They run side by side until the time is over.

To add a part, write a function that counts its trials in Found as it goes, and a row of PARTS.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TFLITE_FILES = 1000  # damaged .tflite files of a process
LARGEST = ("edges", "largest per mille of the time")  # figures that are not summed
LONGEST = 600  # seconds of sound for the virtual Pico, and of outages, in one go
FOLDERS = (".", "format", "usermod", "host", "robustness", "faults", "fleet", "mutants", "nets")
sys.path[:0] = [str(ROOT / "tests" / name) for name in FOLDERS]

import c_build  # noqa: E402
import fuzzing  # noqa: E402
import injecting  # noqa: E402
import mutants  # noqa: E402
import troubling  # noqa: E402

from mica.toolchain.cache import cache_dir  # noqa: E402


@dataclass(frozen=True)
class Settings:
    """`seconds` from now; `seed` of random numbers; `jobs` processes for the fuzzers; names of `boards` to trouble."""

    seconds: float
    seed: int
    jobs: int
    boards: tuple[str, ...]


@dataclass
class Found:
    """Counts of trials, by a name for people; and each problem, with all that is known of it."""

    figures: dict[str, dict[str, int]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, name: str, tried: dict[str, int]) -> None:
        sums = self.figures.setdefault(name, {})
        for what, n in tried.items():
            sums[what] = max(sums.get(what, 0), n) if what in LARGEST else sums.get(what, 0) + n


def fuzz(s: Settings, found: Found) -> None:
    """Damaged files through the loader and the engine on this computer: builds of 64 and 32 bits, ref and c32,
    with all that a sanitizer sees; and files that change under a running model."""
    kinds = [(build, False) for build in c_build.BUILDS] + [
        (build, True) for build in (c_build.BUILDS[0], c_build.BUILDS[-1])
    ]
    kinds = list(dict.fromkeys(kinds))
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(s.jobs) as pool:
        programs = {}
        for build, changed in kinds:
            folder = Path(name) / f"{build.name} {changed}"
            folder.mkdir()
            programs[build, changed] = fuzzing.make(folder, build, changed)
        each = max(1, int(s.seconds / len(kinds)))
        end = time.monotonic() + s.seconds

        def one(i: int) -> None:
            # No two processes write to one corpus; each begins with another build.
            for k in range(len(kinds)):
                build, changed = kinds[(i + k) % len(kinds)]
                title = f"files on this computer, {build.name}" + (", rewritten under the model" if changed else "")
                mine = cache_dir() / "fuzz" / title.replace(",", "").replace(" ", "-") / str(i)
                seconds = min(each, int(end - time.monotonic()) + 1)
                if seconds < 1:
                    return
                outcome = fuzzing.run(
                    programs[build, changed], mine, seed=s.seed + i, seconds=seconds, corpus=str(mine)
                )
                f = outcome.figures
                tried = (
                    {"inputs": f["inputs"], "inferences": f["loaded"], "kept": f["kept"], "edges": f["edges"]}
                    if f
                    else {}
                )
                found.add(title, tried | {"crashes": int(not f)})
                if not f:
                    found.problems.append(f"{title}, {outcome.found}:\n{outcome.report[:4000]}")
                    return

        list(pool.map(one, range(s.jobs)))


def boards(s: Settings, found: Found) -> None:
    """Boards in trouble, in rounds: damaged files, odd calls, also in mid-run, Ctrl-C, soft resets."""
    end, seed = time.monotonic() + s.seconds, s.seed
    while s.boards and time.monotonic() < end:
        for name in s.boards:
            try:
                found.add(name, {"rounds": 1} | troubling.one_round(name, seed) | {"crashes": 0})
            except AssertionError as e:
                found.add(name, {"crashes": 1})
                found.problems.append(str(e))
                return
        seed += 1


TWO_CORES = {"RPI_PICO@emu": "two cores of a virtual Pico", "RPI_PICO2@emu": "two cores of a virtual Pico 2"}


def cores(s: Settings, found: Found) -> None:
    """Two cores of a virtual Pico and of a Pico 2: sessions of runs between timers, threads, files,
    Ctrl-C and soft resets."""

    def of(target: str) -> None:
        title, seed = TWO_CORES[target], s.seed
        with troubling.board_with_digits(target) as board:
            end = time.monotonic() + s.seconds  # the firmware may have to be built
            while time.monotonic() < end:
                try:
                    found.add(title, {"sessions": 1} | troubling.cores(board, seed, 100) | {"crashes": 0})
                except AssertionError as e:
                    found.add(title, {"crashes": 1})
                    found.problems.append(str(e))
                    return
                seed += 1

    with ThreadPoolExecutor(len(TWO_CORES)) as pool:
        list(pool.map(of, TWO_CORES))


def memory(s: Settings, found: Found) -> None:
    """Allocations that fail, and Ctrl-C, in MicroPython's unix port: in each scenario in turn,
    other places in each round."""
    seed = s.seed
    with injecting.board() as board:
        names = injecting.scenarios(board)
        end = time.monotonic() + s.seconds  # to build that firmware can take longer than a short soak
        while time.monotonic() < end:
            for name in names:
                if time.monotonic() >= end:
                    break
                try:
                    tried = {"scenarios": 1} | injecting.inject(board, name, 500, seed)
                except AssertionError as e:
                    found.add("memory and Ctrl-C", {"crashes": 1})
                    found.problems.append(str(e))
                    return
                found.add("memory and Ctrl-C", tried | {"crashes": 0})
            seed += 1


def mutation(s: Settings, found: Found) -> None:
    """Mistakes in a copy of this tree, that the tests should see (scripts/mutants), as many as there is time for.
    One that was decided before is counted, not tried again."""
    chosen = [*mutants.named_mutants(), *mutants.placed_mutants(mutants.SEED, mutants.PLACED)]
    records = mutants.run(chosen, 1, s.seconds / 60, lambda line: print(line, file=sys.stderr, flush=True))
    found.add("mistakes in a copy of the tree", mutants.counts(records))
    for r in records:
        if r["verdict"] in ("survived", "timeout"):
            found.problems.append(
                f"mutant {r['verdict']}: {r['name']}, {r['file']}:{r['line']}: {r['before']} -> {r['after']}"
            )


def tflite(s: Settings, found: Found) -> None:
    """Damaged .tflite files through `pack`, in processes of their own, which limit their memory."""
    name = "damaged .tflite files"
    end, seed = time.monotonic() + s.seconds, s.seed
    program = [sys.executable, str(ROOT / "tests" / "host" / "damaged_tflite.py"), str(TFLITE_FILES)]
    while time.monotonic() < end:
        done = subprocess.run([*program, str(seed)], capture_output=True, text=True, check=False)
        if done.returncode:
            found.add(name, {"crashes": 1})
            found.problems.append(done.stderr[-4000:])
            return
        found.add(name, json.loads(done.stdout) | {"crashes": 0})
        seed += 1


def strips(s: Settings, found: Found) -> None:
    """Models in strips: damaged orders through loader and host check, one verdict;
    and random networks that have to give the same bytes at five limits each."""
    import test_corrupt
    import test_order
    import test_strips

    end, seed = time.monotonic() + s.seconds, s.seed
    with tempfile.TemporaryDirectory() as name:
        drivers = [test_corrupt.build(Path(name), b) for b in c_build.BUILDS]
        while time.monotonic() < end:
            try:
                found.add("damaged orders", {"files": 500, "crashes": 0})
                test_corrupt.compare(drivers, test_order.damaged(seed, 500))
                net = test_strips.compiled(test_strips.Chain(seed), Path(name), seed)
                plans = test_strips.check_limits(net, seed, 5)
                found.add("networks by rows", {"networks": 1, "limits": 5, "plans with strips": plans, "crashes": 0})
            except AssertionError as e:
                found.add("damaged orders", {"crashes": 1})
                found.problems.append(f"strips, seed {seed}: {str(e)[:4000]}")
                return
            seed += 1


def steps(s: Settings, found: Found) -> None:
    """Files whose steps have other parameters than the compiler gave them: one verdict,
    and the same bytes in whole steps, in ranges of rows, on two cores and in every build."""
    import test_changed_steps
    import test_corrupt

    end, seed = time.monotonic() + s.seconds, s.seed
    with tempfile.TemporaryDirectory() as name:
        drivers = [test_corrupt.build(Path(name), b) for b in c_build.BUILDS]
        while time.monotonic() < end:
            try:
                statuses = test_corrupt.compare(drivers, test_changed_steps.changed(seed, 1000), share=1)
            except AssertionError as e:
                found.add("changed steps", {"crashes": 1})
                found.problems.append(f"steps, seed {seed}: {str(e)[:4000]}")
                return
            found.add("changed steps", {"files": 1000, "inferences": statuses[test_corrupt.OK], "crashes": 0})
            seed += 1


def fleet(s: Settings, found: Found) -> None:
    """Hostile messages to the agent of a fleet's board, 20,000 to a life of it,
    and to the host: every whole request has its answer, no other has one, and nothing that is not signed is taken.
    And random orders of events through the dispatcher, each request answered once."""
    import disorder
    import hostile

    end, seed = time.monotonic() + s.seconds, s.seed
    with tempfile.TemporaryDirectory() as name:
        path = _digits(Path(name))
        while time.monotonic() < end:
            try:
                disorder.orders(5000, seed)
                found.add("orders of events in a fleet", {"orders": 5000, "crashes": 0})
                found.add(
                    "hostile messages to a fleet", hostile.one_round(path.read_bytes(), seed, 20_000) | {"crashes": 0}
                )
            except (AssertionError, subprocess.TimeoutExpired) as e:
                found.add("hostile messages to a fleet", {"crashes": 1})
                found.problems.append(str(e)[:4000])
                return
            seed += 1


def outages(s: Settings, found: Found) -> None:
    """A fleet with all faults at once, up to ten minutes in one go: boards, broker and coordinator are killed,
    boards hang, links are cut and damaged. No answer is lost, none is wrong."""
    import outages as all_faults

    _rounds(s, found, "a fleet in outages", all_faults.one_round, LONGEST)


def chaos(s: Settings, found: Found) -> None:
    """A fleet whose MQTT packets are delayed, cut, stalled, doubled, reordered and dropped, five minutes in one go,
    with kills of boards, broker and coordinator. No answer is lost, wrong or handed out twice,
    and the coordinator never ends by itself."""
    import chaos as packets

    _rounds(s, found, "a fleet in chaos", packets.one_round, 300)


def crowd(s: Settings, found: Found) -> None:
    """2,000 half requests, four bodies of the largest size and a flooding board: a good client's median is at most
    twice as long, 150 MB."""
    import crowd as clients

    with tempfile.TemporaryDirectory() as name:
        path = _digits(Path(name))
        end = time.monotonic() + s.seconds
        while time.monotonic() < end:
            tried = clients.main(path, 10.0)
            found.add("a crowd at the gateway", {"rounds": 1, "crashes": 0})
            if (problem := clients.problem(tried)) is not None:
                found.problems.append(f"crowd: {problem}")


def _rounds(
    s: Settings, found: Found, title: str, one_round: Callable[[Path, int, float], dict[str, int]], longest: float
) -> None:
    end, seed = time.monotonic() + s.seconds, s.seed
    with tempfile.TemporaryDirectory() as name:
        path = _digits(Path(name))
        while (left := end - time.monotonic()) > 0:
            try:
                found.add(title, one_round(path, seed, min(longest, left)) | {"crashes": 0})
            except AssertionError as e:
                found.add(title, {"crashes": 1})
                found.problems.append(f"{title}, seed {seed}: {str(e)[:4000]}")
                return
            seed += 1


def _digits(folder: Path) -> Path:
    path = folder / "digits.mica"
    model = ROOT / "host_tools" / "mica" / "demo" / "digits.onnx"
    pack = [sys.executable, "-m", "mica", "pack", str(model), "--plain", "-o", str(path)]
    subprocess.run(pack, check=True, capture_output=True, cwd=ROOT / "host_tools")
    return path


def microphone(s: Settings, found: Found) -> None:
    """The wake word at the virtual Pico's microphone, up to ten minutes of the board's time in one go: no sample is
    lost, and the board finds the events that this computer finds. Whole windows by PIO and DMA, and new rows (--stream)
    by machine.I2S, take turns. Without ../shared there is no wake word, and nothing is tried."""
    import numpy as np
    from microphone import DMA, I2S, by_host, hear
    from tones import marvin

    title, models = "wake word at the virtual Pico's microphone", ROOT.parent / "shared" / "models" / "tflite"
    end, seed = time.monotonic() + s.seconds, s.seed
    if not models.is_dir():
        found.add(title, {"skipped: ../shared/models is missing": 1})
        return
    ten = marvin(models / "sww_easy10s.wav")
    with tempfile.TemporaryDirectory() as name:
        labels, front_end = Path(name) / "labels.txt", "logmel:mlperf-wakeword"
        labels.write_text("marvin\nsilence\nother\n")
        ways = {"whole": (DMA, f"{front_end},before=yes", "--window"), "rows": (I2S, front_end, "--stream")}
        for way, (_, sound_words, state) in ways.items():
            words = [
                "--frontend",
                sound_words,
                state,
                "input_1:1=1",
                "--labels",
                str(labels),
                "-o",
                f"{name}/{way}.mica",
            ]
            pack = [sys.executable, "-m", "mica", "pack", str(models / "sww_int8.tflite"), *words]
            subprocess.run(pack, check=True, capture_output=True, cwd=ROOT / "host_tools")
        while (left := end - time.monotonic()) > 0:
            way = list(ways)[seed % 2]
            path, title = Path(name) / f"{way}.mica", f"wake word at the virtual Pico's microphone, {way}"
            seconds = min(LONGEST, max(10, left / 3))  # of the board's time, which goes by more slowly than ours
            shift = int(np.random.default_rng(seed).integers(len(ten)))
            sound = np.tile(np.roll(ten, shift), LONGEST // 10)[: round(16000 * seconds)]
            try:
                listened = hear(path, sound, "marvin", 0.95, 3, seconds, ways[way][0], slice_ms=30)
                overruns = [p for p in listened.problems if "overrun" in p]
                assert not overruns, overruns[0]
                # The program may have ended before it fetched the events of the last frames.
                said = [e for e in by_host(path, sound, "marvin", 0.95, 3) if e[1] <= listened.samples // 16 - 200]
                assert listened.events[: len(said)] == said, f"found {listened.events}, not {said}"
            except AssertionError as e:
                found.add(title, {"crashes": 1})
                found.problems.append(f"microphone, {way}, seed {seed}: {e}")
                return
            tried = {
                "samples": listened.samples,
                "words": len(listened.events),
                LARGEST[1]: round(1000 * listened.used),
            }
            found.add(title, tried | {"crashes": 0})
            seed += 1


PARTS: dict[str, Callable[[Settings, Found], None]] = {
    "fuzz": fuzz,
    "boards": boards,
    "cores": cores,
    "memory": memory,
    "mutants": mutation,
    "tflite": tflite,
    "strips": strips,
    "steps": steps,
    "fleet": fleet,
    "outages": outages,
    "chaos": chaos,
    "crowd": crowd,
    "microphone": microphone,
}
