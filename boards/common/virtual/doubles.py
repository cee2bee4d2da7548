"""The coprocessor for double precision, by the SDK's sequences of instructions (RP2350 datasheet, 3.6.2).

It keeps both operands as they are; an answer is computed when it is read.
So what a sequence computes with the mantissas in between does not matter, and reads as 0.
Numbers are rounded to nearest; denormal ones are 0.
"""

import numpy as np

ENGAGED, ROUNDS = 1, 2  # bits of the state that a program may save
X, Y = 0, 1
FROM_INT, FROM_UNSIGNED, FROM_DOUBLE = 7, 6, 8
RESULTS = "ASMDQG"  # add, subtract, multiply, divide, square root, the operand itself


def _number(bits: int, kind: type) -> np.float64:
    value = kind(np.frombuffer(bits.to_bytes(np.dtype(kind).itemsize, "little"), kind)[0])
    return np.float64(0.0) * np.sign(value) if 0 < abs(value) < np.finfo(kind).tiny else np.float64(value)


def _bits(value: np.float64, kind: type) -> int:
    with np.errstate(all="ignore"):
        rounded = kind(value)
        if 0 < abs(rounded) < np.finfo(kind).tiny:
            rounded = kind(0.0) * np.sign(rounded)
    return int.from_bytes(rounded.tobytes(), "little")


class Doubles:
    def __init__(self) -> None:
        self.operands = [np.float64(0), np.float64(0)]
        self.state = 0

    def write(self, op: int, register: int, word: int) -> bool:
        """MCRR of 64 bits; False: not modelled."""
        if (op, register) in ((0, 0), (0, 1)):  # saved operands
            self.operands[register] = _number(word, np.float64)
        elif (op, register) == (0, 2):
            self.state = word & 0xFF
        elif (op, register) in ((1, 0), (1, 1), (FROM_DOUBLE, 0)):
            self.operands[register] = _number(word, np.float64)
        elif (op, register) == (1, 2):
            self.operands = [_number(word >> 32 * k & 0xFFFFFFFF, np.float32) for k in (X, Y)]
        elif op in (FROM_INT, FROM_UNSIGNED):
            low = word & 0xFFFFFFFF
            self.operands = [np.float64(low - (low >> 31 << 32) if op == FROM_INT else low), np.float64(0)]
        elif op not in (2, 3, 4, 5):  # mantissas on their way
            return False
        if op:
            self.state |= ENGAGED
        return True

    def operate(self, op: int, register: int, what: int) -> bool:
        """CDP: only how an integer is rounded matters here."""
        if (op, register, what) == (0, 0, 0):
            self.state = 0
        elif (op, register) == (8, 0) and what in (2, 3):
            self.state = self.state & ~ROUNDS | (ROUNDS if what == 3 else 0)
        return True

    def read(self, register: int, what: int, peek: bool) -> int | None:
        """MRC: flags of a comparison, integers, and results in single precision."""
        x, y = self.operands
        found: int | None = None
        if register == 0 and what == 1:
            flags = (x < y, x == y, x >= y, bool(np.isnan(x) or np.isnan(y)))
            found = sum(1 << 31 - k for k, flag in enumerate(flags) if flag)
            if peek:  # asked whether a program is amid a sequence
                return self.state & ENGAGED and 1 << 31
        elif register == 2 and what < len(RESULTS):
            found = _bits(self.result(RESULTS[what]), np.float32)
        elif register == 3 and what < 2:
            whole = np.rint(x) if self.state & ROUNDS else np.trunc(x)
            least, most = ((-(1 << 31), (1 << 31) - 1), (0, (1 << 32) - 1))[what]
            found = 0 if np.isnan(x) else int(min(max(whole, least), most)) & 0xFFFFFFFF
        self.state &= ~ENGAGED
        return found

    def read_pair(self, op: int, register: int, peek: bool) -> int | None:
        """MRRC: results in double precision, the state, and mantissas."""
        if register == 0 and op & 1 and op >> 1 < len(RESULTS):
            self.state &= ~ENGAGED if not peek else -1
            return _bits(self.result(RESULTS[op >> 1]), np.float64)
        if register in (8, 9):
            return _bits(self.operands[register - 8], np.float64)
        if register == 10:
            state = self.state
            self.state &= ~ENGAGED if not peek else -1
            return state
        return 0 if register in (1, 4, 5) else None

    def result(self, which: str) -> np.float64:
        x, y = self.operands
        with np.errstate(all="ignore"):
            if which == "A":
                return x + y
            if which == "S":
                return x - y
            if which == "M":
                return x * y
            if which == "D":
                return x / y
            return np.sqrt(x) if which == "Q" else x
