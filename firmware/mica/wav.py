"""Files of sound: Wav("yes.wav").readinto(buffer) gives their samples, int16 of one channel.

What is no .wav file of one channel and 16 bits raises ValueError, which says what it is.
"""

from struct import unpack


class Wav:
    """An open file, read from its first sample on; `rate` is samples a second, `samples` how many there are."""

    def __init__(self, path: str) -> None:
        self._file = open(path, "rb")
        try:
            self._begin(path)
        except Exception:
            self._file.close()
            raise

    def _begin(self, path):
        f = self._file
        head = f.read(12)
        if len(head) < 12 or head[:4] != b"RIFF" or head[8:] != b"WAVE":
            raise ValueError(f"{path}: no .wav file")
        self.rate = 0
        while True:
            chunk = f.read(8)
            if len(chunk) < 8:
                raise ValueError(f"{path}: ends before its samples")
            n = unpack("<I", chunk[4:])[0]
            if chunk[:4] == b"data":
                break
            if chunk[:4] == b"fmt " and n >= 16:
                form = f.read(16)
                if len(form) < 16:
                    continue  # which ends here
                kind, channels, self.rate, _, _, bits = unpack("<HHIIHH", form)
                if channels != 1 or bits != 16 or kind not in (1, 0xFFFE):
                    raise ValueError(f"{path}: {channels} channels of {bits} bits; one channel of 16 bits is expected")
                n -= 16
            f.seek(n + (n & 1), 1)
        if not self.rate:
            raise ValueError(f"{path}: says no rate")
        self.samples: int = n // 2
        self._at = f.seek(0, 1)
        self._end = self._at + self.samples * 2

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer and return how many bytes that were, 0 at the end."""
        view = memoryview(buffer)
        each = len(bytes(view[:1]))
        self._file.seek(self._at)  # a reading that was broken off is done again
        n = self._file.readinto(view[: (self._end - self._at) // each]) or 0
        self._at += n
        return n

    def close(self) -> None:
        self._file.close()
