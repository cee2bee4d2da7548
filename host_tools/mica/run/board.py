"""A model on a board: sends it, feeds it, reads it back. The board's half is `firmware/mica/remote.py`, which defines
the lines that go over the wire. It lies in the board's flash, if an equal file is there, else in its RAM."""

import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mica.boards import emulated_board
from mica.boards.isa import isas
from mica.custom import NO_CUSTOM, CustomOps
from mica.errors import MicaError
from mica.file import codec
from mica.file.codec import DTYPE_NUMPY
from mica.format import schema
from mica.link import answers, on_board
from mica.link.answers import Answer, ask, number, one_of
from mica.link.board import ANSWER_BYTES, SILENCE, BoardError, Exchange, Link, PutProgress, Say
from mica.link.diagnosis import check_board, out_of_memory
from mica.link.emulator import is_rp2350
from mica.link.functions import Function, Symbols
from mica.link.qemu import INSTRUCTIONS_A_SECOND
from mica.link.targets import open_board
from mica.link.virtual_pico import BLOCKS_ON_BOARD, CYCLES_ON_BOARD, INSTRUCTIONS_ON_BOARD, WAITS_ON_BOARD, VirtualPico
from mica.printable import printable
from mica.run.runner import Inputs, Runner, Times

_ROM_NAME = "model.mica"
EVALUATE_BYTES = 16 * 1024  # inputs sent to the board at once: fits any board's heap beside a model


class BoardRunner(Runner):
    """A model loaded on a board. `ahead`: two, so that the next sample is there when one ends.
    Raises MicaError where the board, its firmware or its memory does not do."""

    ahead = 2

    def __init__(
        self,
        data: bytes,
        target: str,
        say: Say | None = None,
        progress: Callable[[int, int], None] | None = None,
        *,
        icount: bool = False,
        custom: CustomOps = NO_CUSTOM,
    ) -> None:
        super().__init__(data, target)
        self._exchange: Exchange | None = None
        self._framed = True  # whether the board takes frames, as far as it is known
        self.facts = emulated_board(target)
        self.icount = icount
        rom_files = {_ROM_NAME: codec.without_golden(data)}
        self.board = open_board(target, icount=icount, rom_files=rom_files, progress=say or (lambda message: None))
        placed: Placed | None = None
        try:
            check_board(self.board, data)
            self.board.exec("from mica import remote")
            if custom.board_source:
                self.board.exec(custom.board_source)
            placed = place(self.board, data, "_data", progress, say)
            # The model keeps what it needs of the buffer alive; the name would keep a second copy.
            answer = self._call(f"remote.load({placed.source})", "_data = None")
            *_, self.ram, copied = answer.one("model", *[number] * 6, one_of("0", "1"))
            self.copied = copied == "1"  # whether the file lies in RAM as well
        except BoardError as e:
            full = e.exception == "MemoryError"
            error = out_of_memory_of(self.board, data, placed) if full else e.at(target)
            self.board.close()
            raise error from None
        except BaseException:
            self.board.close()
            raise

    def close(self) -> None:
        self.board.close()

    def _call(self, *lines: str, expected: int = 0, steps: int = 0) -> Answer:
        """expected: bytes that come in hexadecimal; steps: each may take as long as a board may be silent."""
        limit = ANSWER_BYTES + 3 * expected
        return ask(self.board, "\n".join(lines), limit=limit, total=SILENCE * max(10, steps + 1))

    def _damaged(self) -> BoardError:
        return BoardError(f"{self.target}: its answer was damaged on the way", todo="try again")

    def _send(self, arrays: Sequence[np.ndarray], name: str = "_x") -> None:
        self.board.put(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays), name)

    def _arguments(self, inputs: Inputs) -> str:
        """Sends one sample; the argument list that names its inputs on the board."""
        self._send(inputs)
        parts, at = [], 0
        for a in inputs:
            parts.append(f"memoryview(_x)[{at}:{at + a.nbytes}]")
            at += a.nbytes
        return ", ".join(parts)

    def run(self, samples: Sequence[Inputs]) -> list[list[np.ndarray]]:
        size = sum(int(a.nbytes) for a in samples[0]) if len(samples) else 1
        per_call = max(1, EVALUATE_BYTES // size)
        results: list[list[np.ndarray]] = []
        for at in range(0, len(samples), per_call):
            batch = samples[at : at + per_call]
            self._send([a for inputs in batch for a in inputs])
            sizes = [self.model.tensors[t].bytes for t in self.model.outputs]
            answer = self._call("remote.evaluate(_x)", expected=len(batch) * sum(sizes), steps=len(batch))
            rows = [row for (row,) in answer.all("y", answers.data)]
            count, crc = answer.one("end", number, answers.crc32)
            if (
                count != len(batch)
                or [len(row) for row in rows] != [sum(sizes)] * len(batch)
                or crc != binascii.crc32(b"".join(rows))
            ):
                raise self._damaged()
            results += [self._split(row) for row in rows]
        return results

    def begin(self, inputs: Inputs) -> None:
        frames = self._frames()
        if frames is None:
            super().begin(inputs)
        else:
            frames.begin(b"".join(np.ascontiguousarray(a).tobytes() for a in inputs))

    def finish(self) -> list[np.ndarray]:
        if self._begun or self._exchange is None:
            return super().finish()
        return self._split(self._exchange.finish())

    def _frames(self) -> Exchange | None:
        """A program on the board that takes one sample after the other;
        None for boards without, and models whose answers depend on what ran before."""
        if self._exchange is not None and self._exchange.open:
            return self._exchange
        if self.model.state_bytes or not self._framed:
            return None
        sizes = [sum(self.model.tensors[t].bytes for t in ids) for ids in (self.model.inputs, self.model.outputs)]
        self._exchange = self.board.exchange("remote.model", *sizes)
        self._framed = self._exchange is not None
        return self._exchange

    def _split(self, row: bytes) -> list[np.ndarray]:
        outputs, at = [], 0
        for tensor_id in self.model.outputs:
            t = self.model.tensors[tensor_id]
            outputs.append(np.frombuffer(row[at : at + t.bytes], DTYPE_NUMPY[t.dtype]).reshape(t.dims))
            at += t.bytes
        return outputs

    def reset(self) -> None:
        self._call("remote.model.reset()")

    def layer_hashes(self, inputs: Inputs) -> list[int]:
        n = len(self.model.steps)
        answer = self._call(f"remote.layer_hashes({self._arguments(inputs)})", steps=n)
        found = answer.all("layer", number, answers.crc32)
        if [i for i, _ in found] != list(range(n)):
            raise self._damaged()
        return [crc for _, crc in found]

    def layer_output(self, inputs: Inputs, step: int) -> np.ndarray:
        t = self.model.tensors[self.model.steps[step].outputs[0]]
        answer = self._call(f"remote.layer_bytes({step}, {self._arguments(inputs)})", expected=t.bytes, steps=step + 1)
        data = b"".join(part for (part,) in answer.all("hex", answers.data))
        size, crc = answer.one("end", number, answers.crc32)
        if not len(data) == size == t.bytes or binascii.crc32(data) != crc:
            raise self._damaged()
        return np.frombuffer(data, DTYPE_NUMPY[t.dtype])

    def hold(self, weights: int | str) -> None:
        self._call("from mica.weights import hold", f"hold(remote.model._m, {weights!r})")

    def bench(self, inputs: Inputs, runs: int) -> Times:
        unit, read, mask, each = self._counter()
        steps, where, total, heap = self._measure(read, mask, runs, inputs)
        times = Times(unit, total * each, [n * each for n in steps], heap, where)
        if unit == "cycles":
            waits, _, waited, _ = self._measure(f"lambda: machine.mem32[{WAITS_ON_BOARD}]", 0xFFFFFFFF, runs, inputs)
            times = replace(times, waits=[*waits, waited])
        if is_rp2350(self.facts):  # where cycles are an estimate, and instructions are not
            read = f"lambda: machine.mem32[{INSTRUCTIONS_ON_BOARD}]"
            steps, _, total, _ = self._measure(read, 0xFFFFFFFF, 1, inputs)
            times = replace(times, instructions=[*steps, total])
        return times

    def _measure(
        self, read: str, mask: int, runs: int, inputs: Inputs
    ) -> tuple[Sequence[int], Sequence[str], int, int]:
        """Return of each step its ticks and its language, the ticks of a run, and bytes of free heap."""
        answer = self._call(
            "import machine, time" if "machine" in read else "import time",
            f"remote.bench({read}, {mask:#x}, {runs}, {self._arguments(inputs)})",
        )
        lines = answer.all("step", number, number, one_of("C", "Python"))
        if [i for i, _, _ in lines] != list(range(len(self.model.steps))):
            raise self._damaged()
        _, ticks, where = zip(*lines, strict=True) if lines else ((), (), ())
        return ticks, where, answer.one("total", number)[0], answer.one("heap", number)[0]

    def functions(self, inputs: Inputs) -> list[Function]:
        emulator = getattr(self.board, "emulator", None)
        if not isinstance(emulator, VirtualPico) or self.facts is None or not is_rp2350(self.facts):
            return super().functions(inputs)
        fill = f"remote._fill(remote.model._m, [{self._arguments(inputs)}])"
        mark = f"m[{BLOCKS_ON_BOARD}] = 0"
        once = f"def once(m, run):\n {mark}\n run()\n {mark}"
        # The first run makes what the others find.
        self._call(
            "import gc, machine",
            once,
            fill,
            "remote.model.run()",
            fill,
            "gc.collect()",
            "once(machine.mem32, remote.model.run)",
        )
        return Symbols(emulator.elf, isas()[self.facts.isa]).costs(emulator.blocks())

    def _counter(self) -> tuple[str, str, int, float]:
        """The best counter there is: its unit, how the board reads it, its mask, and units in a tick."""
        if self.facts is not None and self.facts.port.virtual_pico:
            return "cycles", f"lambda: machine.mem32[{CYCLES_ON_BOARD + 4}]", 0xFFFFFFFF, 1
        if self.icount and self.facts is not None and self.facts.clock:
            return "instructions", "time.ticks_cpu", 0x3FFFFFFF, INSTRUCTIONS_A_SECOND / self.facts.clock
        return "seconds", "time.ticks_us", 0x3FFFFFFF, 1e-6


_HEAD = schema.record_bytes(schema.HEADER)


@dataclass(frozen=True)
class Placed:
    """source: the expression that mica.Model takes on the board. copied: whether RAM holds the file's bytes."""

    source: str
    copied: bool


def place(board: Link, data: bytes, name: str, progress: PutProgress | None = None, say: Say | None = None) -> Placed:
    """Find the model on the board by its checksum, else send it as the variable `name`. Raises BoardError."""
    lean = codec.without_golden(data)
    answer = ask(board, on_board.call("find_model", data[:_HEAD], lean[:_HEAD]))
    for (path,) in answer.all("found", answers.name)[:1]:
        if say is not None and not board.rom_files:
            say(f"{board.name} has this model: its own copy {printable(path)} is used")
        return Placed(repr(path), not path.startswith("/rom/"))
    board.put(lean, name, progress)
    return Placed(name, True)


def out_of_memory_of(board: Link, data: bytes, placed: Placed | None) -> MicaError:
    """The error for the user after a MemoryError, raised as the model was sent (placed is None then) or loaded."""
    model = codec.decode(data)
    size = len(codec.without_golden(data)) if placed is None or placed.copied else 0
    return out_of_memory(board, (model.arena_bytes or 0) + model.scratch_min, size)
