"""A board at a serial port, spoken to through MicroPython's raw REPL."""

import binascii
import contextlib
import math
import os
import secrets
import select
import time
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from mpremote.transport import TransportError
from mpremote.transport_serial import SerialTransport

from mica.errors import MicaError
from mica.link import frames, on_board
from mica.link.board import ANSWER_BYTES, SILENCE, BoardError, Link, PutProgress, board_exception, check_name
from mica.link.ports import check_port, explain_failure

_T = TypeVar("_T")

_PROMPT = b"raw REPL; CTRL-B to exit\r\n>"
_ANSWER = 3.0  # seconds for a REPL to answer that is there and idle
_PAUSE = 20.0  # seconds that a board which is reading a program may pause
_SENDING = 300.0  # seconds for a board to take a program
_MANY = 10  # times a wait for words that keep coming, without those that are waited for

# A piece fits into the receive buffer of every port we know (ESP32 260 bytes, rp2 512), so none can be lost even
# when the board is slow to read.
_PIECE = 256

_PATIENCE = 3.0  # seconds that a board waits for the next piece before it gives up


class _Port:
    """A serial port with pushback: SerialTransport reads single bytes, we read what is there."""

    def __init__(self, port: Any, is_socket: bool) -> None:
        self._port = port
        self._pending = b""
        self.deadline = math.inf  # for what mpremote reads while it sends a program
        self._socket: int | None = port.fileno() if is_socket and os.name == "posix" else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    @property
    def fd(self) -> int:
        """Descriptor that mpremote's console gives to select(); pyserial has one for serial ports only."""
        return self._port.fd if self._socket is None else self._socket

    def inWaiting(self) -> int:
        return len(self._pending) or self._port.in_waiting

    def read(self, size: int = 1) -> bytes:
        """`size` bytes, or fewer when they are too long in coming.

        mpremote reads the board's leave to send more with it. The port's own time-out is for other waits, and an
        emulated board on a busy computer needs longer.
        """
        if time.monotonic() > self.deadline:
            raise OSError("it does not take the program")
        data, self._pending = self._pending[:size], self._pending[size:]
        end = time.monotonic() + _PAUSE
        while len(data) < size and time.monotonic() < end:
            data += self._port.read(size - len(data))
        return data

    def read_some(self) -> bytes:
        """Return the bytes that have come, else wait for the next ones; b"" after the port's time-out."""
        if self._pending:
            data, self._pending = self._pending, b""
            return data
        if self._socket is None:
            return bytes(self._port.read(max(1, self._port.in_waiting)))
        # Of a socket pyserial knows only whether there is something, and would read byte by byte.
        if not select.select([self._socket], [], [], self._port.timeout)[0]:
            return b""
        data = os.read(self._socket, 65536)
        if not data:
            raise OSError("the other side has closed it")
        return data

    def push_back(self, data: bytes) -> None:
        self._pending = data + self._pending


class _RawRepl(SerialTransport):
    """mpremote's transport with reads by the block, time-outs that hold on every port, and no printing."""

    # The port's own time-out, seconds: how often a wait looks at the clock.
    TICK = 0.2

    def __init__(self, port: str) -> None:
        super().__init__(port, timeout=self.TICK)
        self.serial: Any = _Port(self.serial, port.startswith("socket://"))
        self._asked = 0  # how often for a prompt since the last that came

    def read_until(
        self,
        min_num_bytes: int,
        ending: bytes,
        timeout: float | None = 10,
        data_consumer: Callable[[bytes], object] | None = None,
        timeout_overall: float | None = None,
    ) -> bytes:
        """Read up to and with `ending`; what is returned lacks it if there was too long a silence, or too much came.

        With a consumer, it gets the data without the ending (one byte), and only the ending is returned.
        """
        if timeout_overall is None and timeout is not None and data_consumer is None:
            timeout_overall = _MANY * timeout
        data = b""
        begun = last_byte = time.monotonic()
        while True:
            new = self.serial.read_some()
            now = time.monotonic()
            if new:
                last_byte = now
                start = max(0, len(data) - len(ending) + 1)
                data += new
                at = data.find(ending, start)
                if at >= 0:
                    self.serial.push_back(data[at + len(ending) :])
                    data = data[: at + len(ending)]
                    if data_consumer is None:
                        return data
                    if at:
                        data_consumer(data[:at])
                    return ending
                if data_consumer is not None:
                    data_consumer(data)
                    data = b""
                elif len(data) > ANSWER_BYTES:
                    return data
            elif timeout is not None and now - last_byte >= timeout:
                return data
            if timeout_overall is not None and now - begun >= timeout_overall:
                return data

    def send_program(self, code: str) -> None:
        """Have the board run a program. Raises OSError or TransportError."""
        self.serial.deadline = time.monotonic() + _SENDING
        self.exec_raw_no_follow(code)
        self.serial.deadline = math.inf

    def read_byte(self, timeout: float) -> bytes:
        """The next byte, or b"" after `timeout` seconds."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            data: bytes = self.serial.read_some()
            if data:
                self.serial.push_back(data[1:])
                return data[:1]
        return b""

    def raw_repl(self) -> bool:
        """Enter the raw REPL, interrupting what runs; False when nothing answers."""
        self.serial.write(b"\r\x03\x03")
        end = time.monotonic() + _ANSWER
        while self.serial.read_some() and time.monotonic() < end:
            pass  # what the program had printed, and its KeyboardInterrupt
        self.serial.write(b"\r\x01")
        self.in_raw_repl = self._prompted(_ANSWER, 2 * _ANSWER)
        return self.in_raw_repl

    def _prompted(self, silence: float, seconds: float) -> bool:
        """True if the prompt comes that was just asked for."""
        self._asked += 1
        if not self.read_until(1, _PROMPT, timeout=silence, timeout_overall=seconds).endswith(_PROMPT):
            return False
        if self._asked > 1 and not self._caught_up():
            return False
        self._asked = 0
        self.serial.push_back(b">")  # exec_raw_no_follow wants to see the prompt
        return True

    def _caught_up(self) -> bool:
        """Skip what a slow board still answers to earlier questions: a word that it never said comes last."""
        word = secrets.token_hex(8).encode()
        self.serial.write(b"print('" + word + b"')\x04")
        ending = word + b"\r\n\x04\x04>"
        return self.read_until(1, ending, timeout=_ANSWER).endswith(ending)

    def finish_piece(self) -> bool:
        """Get a board out of a transfer whose sender has died: fill the piece it waits for, then let it give up.

        Returns whether it was in one.
        """
        for _ in range(_PIECE):
            self.serial.write(b"\x03")
            time.sleep(0.002)
            if self.serial.inWaiting() and b"+" in self.serial.read_some():
                break
        else:
            if not self._asks_for_more(_ANSWER / 2):
                return False
        if self._given_up():
            return True
        # What was still on its way to a slow board has begun the next piece. How many bytes that one lacks is found by
        # halves, with time for each answer.
        least, most = 1, _PIECE
        while least < most:
            middle = (least + most) // 2
            self.serial.write(b"\x03" * middle)
            if self._asks_for_more(_ANSWER / 2):
                least, most = _PIECE - middle + least, _PIECE
            else:
                least, most = 1, most - middle
        self.serial.write(b"\x03" * most)
        return self._given_up()

    def _asks_for_more(self, seconds: float) -> bool:
        """True if the board asks for the next piece in this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if b"+" in self.serial.read_some():
                return True
        return False

    def _given_up(self) -> bool:
        """True if the program on the board ends, as it does when no next piece comes."""
        seconds = _ANSWER + _PATIENCE
        return self.read_until(1, b"\x04>", timeout=seconds, timeout_overall=seconds).endswith(b"\x04>")

    def restart(self) -> bool:
        """Soft-reset from within the raw REPL."""
        self.serial.write(b"\x04")
        return self._prompted(2 * _ANSWER, 2 * _MANY * _ANSWER)


class SerialBoard(Link):
    """A board at a port. The port is locked while it is open, against other mica and mpremote processes."""

    def __init__(self, port: str, *, name: str = "", reset: bool = True) -> None:
        self.name = name or port
        self.port = port
        self._repl: _RawRepl | None = None
        self._exchange: _Exchange | None = None
        check_port(port)
        try:
            repl = _RawRepl(port)
        except (TransportError, OSError, ValueError) as error:
            raise explain_failure(port, error) from None
        self._repl = repl
        try:
            self._connect(repl, reset)
        except BaseException:
            self.close()
            raise

    def _connect(self, repl: _RawRepl, reset: bool) -> None:
        try:
            answered = repl.raw_repl()
            if not answered:
                # It was in a transfer that another program left; or it was just being switched on, and what had come
                # before its UART was set up is lost.
                repl.finish_piece()
                answered = repl.raw_repl() or repl.raw_repl()
            if answered and reset:
                answered = repl.restart()
        except OSError as error:
            raise BoardError(f"{self.name}: the connection broke: {error}") from None
        if not answered:
            raise BoardError(
                f"no MicroPython answers at {self.name}",
                todo="is it flashed, and is this its port? Press reset and try again",
            )

    def _open_repl(self) -> _RawRepl:
        """With nothing running on the board."""
        if self._repl is None:
            raise BoardError(f"{self.name} is closed")
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end()
        return self._repl

    def exchange(self, model: str, size: int, answer_size: int) -> "_Exchange | None":
        repl = self._open_repl()
        with self._guarded():
            repl.send_program(on_board.call("frames", on_board.Expression(model), size, frames.ROOM))
            self._exchange = _Exchange(self, repl, frames.Exchange(repl.serial, self.name, size, answer_size))
            try:
                self._exchange.ready()
            except BoardError as error:
                if error.exception in ("AttributeError", "ImportError", "MemoryError"):
                    return None  # an older firmware, or one without the room
                raise
        return self._exchange

    def exec_follow(self, code: str, on_data: Callable[[bytes], object], timeout: float | None = SILENCE) -> None:
        repl = self._open_repl()
        lines = _LineEnds(on_data)
        with self._guarded():
            repl.send_program(code)
            if repl.read_until(1, b"\x04", timeout=timeout, data_consumer=lines.feed) != b"\x04":
                self._give_up(f"was silent for {timeout:g} s")
            error = self._rest()
        lines.end()
        if error:
            raise board_exception(error.decode(errors="replace"))

    def put(self, data: bytes, name: str, progress: PutProgress | None = None) -> None:
        check_name(name)
        repl = self._open_repl()
        view = memoryview(data)
        with self._guarded():
            repl.send_program(on_board.call("put", len(data), _PIECE, int(_PATIENCE * 1000), into=name))
            for start in range(0, len(data), _PIECE):
                answer = repl.read_byte(_ANSWER)
                if answer != b"+":
                    # Out of memory, most likely: this is the end of the output, and the exception follows.
                    repl.serial.push_back(answer)
                    break
                repl.serial.write(view[start : start + _PIECE])
                if progress:
                    progress(min(start + _PIECE, len(data)), len(data))
            answer = self._rest()
            error = self._rest()
        if error:
            raise board_exception(error.decode(errors="replace"))
        if answer.strip() != b"%d" % binascii.crc32(data):
            raise BoardError(f"{self.name}: {len(data)} bytes were damaged on their way", todo="try again")

    def soft_reset(self) -> None:
        with self._guarded():
            if not self._open_repl().restart():
                raise BoardError(f"{self.name} does not come back from a soft reset", todo="press its reset button")

    def friendly_repl(self) -> "_RawRepl":
        """Leave the raw REPL and hand over mpremote's transport, for a person to type."""
        repl = self._open_repl()
        repl.exit_raw_repl()
        return repl

    def close(self) -> None:
        repl, exchange = self._repl, self._exchange
        if exchange is not None:
            with contextlib.suppress(OSError, MicaError):
                self._open_repl()
        self._repl = None
        if repl is not None:
            with contextlib.suppress(OSError):
                if repl.in_raw_repl:
                    repl.exit_raw_repl()
            with contextlib.suppress(OSError):
                repl.close()

    def _alive(self) -> contextlib.AbstractContextManager[None]:
        """Around what is asked of the board: an emulator says so when it has ended."""
        return contextlib.nullcontext()

    def _rest(self) -> bytes:
        """Read up to the next end mark; return the bytes before it: our result, or an exception."""
        data = self._open_repl().read_until(1, b"\x04", timeout=2 * _ANSWER)
        if not data.endswith(b"\x04"):
            self._give_up(f"sent {len(data):,} bytes that do not end" if data else f"was silent for {2 * _ANSWER:g} s")
        return data[:-1]

    def _give_up(self, why: str) -> NoReturn:
        """Interrupt the program on the board and raise."""
        repl = self._open_repl()
        if repl.raw_repl():
            raise BoardError(f"{self.name} {why}; its program was interrupted")
        raise BoardError(f"{self.name} {why} and does not react", todo="press its reset button")

    @contextlib.contextmanager
    def _guarded(self) -> Any:
        """Turn what can go wrong on the line into BoardError; stop the board's program if ours is stopped."""
        try:
            yield
        except BoardError:
            raise
        except TransportError as error:
            raise BoardError(f"{self.name}: {error}") from None
        except OSError as error:
            raise BoardError(f"{self.name}: the connection broke ({error})", todo="was it unplugged?") from None
        except BaseException:  # Ctrl-C here, or a consumer of output that has had enough
            with contextlib.suppress(Exception):
                self._open_repl().raw_repl()
            raise


class _Exchange:
    """Frames over the board's line (frames.py), with the raw REPL before and after."""

    def __init__(self, board: SerialBoard, repl: _RawRepl, inner: frames.Exchange) -> None:
        self._board, self._repl, self._inner = board, repl, inner
        self.open = True

    def begin(self, inputs: bytes) -> None:
        self._do(lambda: self._inner.begin(inputs))

    def finish(self) -> bytes:
        return self._do(self._inner.finish)

    def ready(self) -> None:
        self._do(self._inner.ready)

    def end(self) -> None:
        """Back to the prompt."""
        self.open = False
        try:
            self._inner.end()
            end = self._repl.read_until(1, b"\x04", timeout=_ANSWER) + self._repl.read_until(
                1, b"\x04", timeout=_ANSWER
            )
            if end.endswith(b"\x04"):
                return
        except OSError as error:
            raise BoardError(f"{self._board.name}: the connection broke ({error})", todo="was it unplugged?") from None
        if not self._repl.raw_repl():
            raise BoardError(f"{self._board.name} does not react", todo="press its reset button")

    def _do(self, what: Callable[[], _T]) -> _T:
        if not self.open:
            raise BoardError(f"{self._board.name}: the program that takes requests has ended")
        with self._board._alive(), self._board._guarded():
            try:
                return what()
            except BaseException as error:
                self.open, self._board._exchange = False, None
                if self._inner.ended:
                    if text := self._board._rest():
                        raise board_exception(text.decode(errors="replace")) from None
                elif isinstance(error, BoardError) and not self._repl.raw_repl():
                    raise error.then("and it does not react: press its reset button") from None
                raise


class _LineEnds:
    """Turns a board's "\\r\\n" into "\\n", also when it is cut in two."""

    def __init__(self, on_data: Callable[[bytes], object]) -> None:
        self._on_data = on_data
        self._held = b""

    def feed(self, data: bytes) -> None:
        data = self._held + data
        self._held = b"\r" if data.endswith(b"\r") else b""
        data = data[: len(data) - len(self._held)].replace(b"\r\n", b"\n")
        if data:
            self._on_data(data)

    def end(self) -> None:
        if self._held:
            self._on_data(self._held)
            self._held = b""
