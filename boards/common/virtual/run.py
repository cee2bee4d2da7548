"""Runs a virtual Pico or Pico 2: python run.py ROM|rp2350 LIBRARY FLASH PORT [SENSORS [waits|ideal]]

Its USB serial port is at 127.0.0.1:PORT (0: any that is free), for one program at a time. Lines on stdout tell
what happens: `port 4711` first, `idle` when the board waits for input, `sensor ...`, `reset`, or why it has ended.
SENSORS is that of sensors.py. Asked for

    cycles        -> cycles <executed since power-on> <nanoseconds of the board's time> <CPU seconds of ours spent
                  executing>
    blocks FILE   -> blocks <how many>; FILE gets the costs of blocks of code (numpy,
                  chip.SPENT) between the last two times that
                     the board wrote to chip.py's COSTS_OF_BLOCKS

It ends when stdin does, so nothing is left behind by whoever has started it.
"""

import json
import math
import mmap
import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

import numpy as np
from rp2040 import Rp2040
from rp2350 import Rp2350
from sensors import Sensors

SLICE = 300_000  # cycles between two looks at the outside world
HELD = 64 * 1024  # bytes that wait in one direction, before the other side has to
NAP = 1e6  # nanoseconds of sleep that are worth a real one
RP2350 = "rp2350"  # in place of a boot ROM
LATE = 0.25  # seconds in which the last program may still be going


def say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


def fail(kind: str, message: str) -> NoReturn:
    say(f"{kind} {message}")
    sys.exit(0 if kind == "bootsel" else 1)


class Port:
    """The board's serial port on TCP."""

    def __init__(self, number: int) -> None:
        self.server = socket.socket()
        self.server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self.server.bind(("127.0.0.1", number))
            self.server.listen(4)
        except (OSError, OverflowError) as error:
            fail("error", f"port {number} is taken by another program" if isinstance(error, OSError) else str(error))
        self.number = self.server.getsockname()[1]
        self.client: socket.socket | None = None
        self.outgoing = bytearray()
        self.knocking: list[tuple[float, socket.socket]] = []

    @property
    def blocked(self) -> bool:
        """The program on our side does not read: the board's time stands still."""
        return len(self.outgoing) > HELD

    def write(self, data: bytes) -> None:
        if self.client is not None:
            self.outgoing += data

    def drop(self) -> None:
        if self.client is not None:
            self.client.close()
        self.client = None
        self.outgoing.clear()


class Runner:
    def __init__(self, rom: str, library: str, flash: str, port: int, wired: str = "{}", memory: str = "waits") -> None:
        with open(flash, "r+b") as file:
            self.flash = mmap.mmap(file.fileno(), 0)
        self.port = Port(port)
        sensors = Sensors(json.loads(wired), lambda text: say(f"sensor {text}"))
        rest = library, self.flash, self.port.write, sensors, memory == "ideal"
        self.chip = Rp2350(*rest) if rom == RP2350 else Rp2040(Path(rom).read_bytes(), *rest)
        self.questions = b""
        self.debt = 0.0  # nanoseconds of sleep that were skipped so far
        self.busy = 0.0  # seconds spent executing
        self.started = False

    def forever(self) -> NoReturn:
        say(f"port {self.port.number}")
        wait = 0.0
        while True:
            begun = time.perf_counter()
            self.look_outside(wait)
            if wait > 0:
                self.chip.clock.skip(min((time.perf_counter() - begun) * 1e9, self.chip.clock.idle_nanos))
            wait = math.inf if self.port.blocked else self.turn()

    def turn(self) -> float:
        """Execute for a while; return how many seconds of real time it then sleeps.
        One that computes takes its time."""
        begun = time.process_time()
        asleep = self.chip.run(SLICE)
        self.busy += time.process_time() - begun
        if self.chip.stopped is not None:
            self.flush()
            fail(self.chip.stopped.kind, str(self.chip.stopped))
        if self.chip.reset_asked:
            self.flush()
            say("reset")
            self.port.drop()  # as when the board vanishes from the bus
            self.chip.power_on()
        if not asleep:
            return 0.0
        idle = self.chip.clock.idle_nanos
        if not self.started and self.chip.usb.ready and idle == math.inf:
            self.started = True
            say("idle")
        if idle + self.debt >= NAP:
            sleep, self.debt = idle + self.debt, 0.0
            return sleep / 1e9
        self.debt += idle
        self.chip.clock.skip(idle)
        return 0.0

    # --- the outside

    def look_outside(self, wait: float) -> None:
        """Wait until something happens there, for at most so many seconds; then let it in."""
        port = self.port
        reads: list[socket.socket | int] = [0, port.server]
        if port.client is not None and len(self.chip.usb.queue) <= HELD:
            reads.append(port.client)
        writes = [port.client] if port.client is not None and port.outgoing else []
        if port.knocking:
            wait = min(wait, LATE)
        ready, writable, _ = select.select(reads, writes, [], None if wait == math.inf else wait)
        if 0 in ready:
            self.read_questions()
        if writable:
            self.flush()
        if port.client in ready:
            self.read_client()
        if port.server in ready:
            port.knocking.append((time.monotonic() + LATE, port.server.accept()[0]))
        self.answer_the_door()

    def answer_the_door(self) -> None:
        """One program at a time; the last may have gone, though its end has not come yet."""
        port = self.port
        while port.knocking and (port.client is None or port.knocking[0][0] <= time.monotonic()):
            _, caller = port.knocking.pop(0)
            if port.client is not None:
                caller.sendall(b"another program has this port open\r\n")
                caller.close()
                continue
            caller.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            caller.setblocking(False)
            port.client = caller
            self.chip.usb.set_dtr(True)

    def read_client(self) -> None:
        assert self.port.client is not None
        try:
            data = self.port.client.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self.chip.usb.send(data)
        else:
            self.port.drop()
            self.chip.usb.set_dtr(False)

    def flush(self) -> None:
        port = self.port
        if port.client is not None and port.outgoing:
            try:
                del port.outgoing[: port.client.send(port.outgoing)]
            except BlockingIOError:
                pass
            except OSError:
                port.drop()
                self.chip.usb.set_dtr(False)

    def read_questions(self) -> None:
        data = os.read(0, 4096)
        if not data:
            sys.exit(0)
        *lines, self.questions = (self.questions + data).split(b"\n")
        for line in lines:
            words = line.decode(errors="replace").split(" ", 1)
            if words[0] == "cycles":
                chip = self.chip
                say(f"cycles {chip.cycles} {round(chip.clock.nanos)} {self.busy:.6f}")
            elif words[0] == "blocks" and len(words) == 2:
                np.save(words[1], self.chip.spent)
                say(f"blocks {len(self.chip.spent)}")
            else:
                say(f"error unknown question {line.decode(errors='replace')}")


if __name__ == "__main__":
    Runner(*sys.argv[1:4], int(sys.argv[4]), *sys.argv[5:]).forever()
