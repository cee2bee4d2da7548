"""Measures the links to a fleet's boards: a request of any size for a model that no board has is answered at once."""

import queue
import secrets
import time

from mica.errors import MicaError
from mica_fleet.mqtt_link import Listener
from mica_fleet.reports import State, parse_state
from mica_fleet.site import Site
from mica_fleet.wire import Answer, Key, Request, decode_answer

_LISTEN_SECONDS = 0.5  # for what is retained
_SIZE = 16384
_TIMES = 5  # the shortest counts: a board may be at work
_ANSWER_SECONDS = 10.0


def link_speeds(site: Site) -> dict[str, tuple[float, float]]:
    """Measure for each board that is up: bytes a second towards it, and seconds of a message beside its bytes.
    Raises MicaError."""
    states: dict[str, State] = {}
    answers: queue.SimpleQueue[tuple[str, Answer]] = queue.SimpleQueue()

    def on_message(board: str, what: str, payload: bytes) -> None:
        if what == "state" and payload:
            states[board] = parse_state(payload)
        elif what == "out":
            answers.put((board, decode_answer(payload)))

    listener = Listener(site, on_message)
    try:
        time.sleep(_LISTEN_SECONDS)
        up = {board: s for board, s in states.items() if s.up}
        if not up:
            raise MicaError(f"no board of {site.fleet} is up", todo="give the speed of a link, as --link-rate 200K")
        return {board: _speed(listener, answers, board, state) for board, state in sorted(up.items())}
    finally:
        listener.close()


def _speed(
    listener: Listener, answers: queue.SimpleQueue[tuple[str, Answer]], board: str, state: State
) -> tuple[float, float]:
    job = secrets.randbits(31)
    model = next(crc for crc in range(1 << 32) if crc not in state.models.values())
    size = min(_SIZE, state.largest or _SIZE)
    shortest: dict[int, float] = {}
    for n in range(2 * _TIMES):
        some = size if n % 2 else 0
        key = Key(job, n)
        begun = time.monotonic()
        listener.send(board, "run", Request(key, model, 1, bytes(some)).encode())
        end = begun + _ANSWER_SECONDS
        while True:
            try:
                by, answer = answers.get(timeout=max(0.0, end - time.monotonic()))
                if (by, answer.key) == (board, key):
                    break
            except queue.Empty:
                raise MicaError(f"{board} does not answer within {_ANSWER_SECONDS:.0f} s") from None
        took = time.monotonic() - begun
        shortest[some] = min(shortest.get(some, took), took)
    return size / max(shortest[size] - shortest[0], 1e-6), shortest[0] / 2
