"""A request and its answer, and the bytes that they are between machines. Little-endian.

    request  u8 version, u8 flags, u16 deadline, u32 model, u32 job, u32 seq, u16 attempt, u16 stage,
             u32 crc32   + inputs
    answer   u8 version, u8 status, u16 free, u32 model, u32 job, u32 seq, u16 attempt, u16 stage, u32 boot,
             u32 microseconds, u32 crc32   + outputs

`model` is the CRC-32 of the .mica file. `deadline` is in units of 10 ms from the request's arrival, 0 for none: a board
that wakes up late drops what nobody waits for. `free` is how many more requests the board's queue takes.
`boot` is a random number that the board draws when it starts.
The CRC-32 is of the header before it and of all that follows it. Inputs and outputs lie as in the model's tensors, one
after the other; a status other than OK has a text (UTF-8) in place of outputs.
Links to boards at a cable hand requests on within one process, and have frames of their own (link/frames.py);
these bytes are for links by MQTT.
"""

import enum
import struct
import zlib
from dataclasses import dataclass
from typing import NamedTuple

from mica.errors import MicaError

VERSION = 1
_REQUEST = struct.Struct("<BBHIIIHHI")
_ANSWER = struct.Struct("<BBHIIIHHIII")
ANSWER_BYTES = _ANSWER.size
LARGEST_MESSAGE = 65_536  # bytes that a broker takes: an answer, a report, a push's want


class Status(enum.IntEnum):
    OK = 0
    BUSY = 1  # the queue is full
    NO_MODEL = 2  # the board has not the model that the request names
    BAD_REQUEST = 3  # inputs of another size, or a damaged message
    FAILED = 4  # the run raised an exception


class Key(NamedTuple):
    """Identity of a request, the same each time that it is asked: its first right answer counts."""

    job: int
    seq: int
    stage: int = 0


@dataclass(frozen=True)
class Request:
    key: Key
    model: int
    attempt: int
    inputs: bytes
    deadline: int = 0  # units of 10 ms

    def encode(self) -> bytes:
        k = self.key
        head = _REQUEST.pack(VERSION, 0, self.deadline, self.model, k.job, k.seq, self.attempt, k.stage, 0)[:-4]
        return head + struct.pack("<I", zlib.crc32(self.inputs, zlib.crc32(head))) + self.inputs


@dataclass(frozen=True)
class Answer:
    """`data` are the outputs, or a text where `status` is not OK."""

    key: Key
    model: int
    attempt: int
    status: Status
    boot: int
    microseconds: int
    data: bytes
    free: int = 0

    def encode(self) -> bytes:
        k = self.key
        fields = (self.free, self.model, k.job, k.seq, self.attempt, k.stage, self.boot, self.microseconds, 0)
        head = _ANSWER.pack(VERSION, self.status, *fields)[:-4]
        return head + struct.pack("<I", zlib.crc32(self.data, zlib.crc32(head))) + self.data


def decode_answer(message: bytes) -> Answer:
    """Raises MicaError where the message is cut short, damaged or of another version."""
    if len(message) < ANSWER_BYTES:
        raise MicaError(f"a fleet answer of {len(message)} bytes; its header alone has {ANSWER_BYTES}")
    version, status, free, model, job, seq, attempt, stage, boot, us, crc = _ANSWER.unpack_from(message)
    if version != VERSION:
        raise MicaError(f"a fleet answer of version {version}; this mica speaks {VERSION}")
    data = bytes(message[ANSWER_BYTES:])
    if zlib.crc32(data, zlib.crc32(message[: ANSWER_BYTES - 4])) != crc:
        raise MicaError("a fleet answer was damaged on its way: its CRC-32 differs")
    if status not in set(Status):
        raise MicaError(f"an answer of unknown status {status}")
    return Answer(Key(job, seq, stage), model, attempt, Status(status), boot, us, data, free)
