# Sound and motion to events while memory runs out or Ctrl-C comes: no event is lost, none comes twice, none is another.
# Runs behind board_scenarios.py, and adds to its SCENARIOS.
import struct

import mica.audio as audio
import mica.motion as motion
import mica.wav as wav

listener = mica.Model(hearing, arena=mica.Arena(1024))
watcher = mica.Model(moving, arena=mica.Arena(1024))
ROWS = 120


def noise(n):
    """Noise of full int16 range, and for a while silence."""
    state, found = 1, []
    for i in range(n):
        state = state * 1103515245 + 12345 & 0x3FFFFFFF
        found.append(0 if n // 3 < i < n // 2 else (state >> 8 & 0xFFFF) - 32768)
    return found


samples = noise(1200)
with open("noise.wav", "wb") as f:
    head = struct.pack("<IHHIIHH", 16, 1, 1, 16000, 32000, 2, 16)
    f.write(b"RIFF" + struct.pack("<I", 36 + 2 * len(samples)) + b"WAVEfmt " + head)
    f.write(
        b"data"
        + struct.pack("<I", 2 * len(samples))
        + struct.pack(f"<{len(samples)}h", *samples)
        + b"behind the samples"
    )
rows = noise(6 * ROWS)


class Sensor:
    rate = 500  # so that a reading never waits
    axes = 6

    def __init__(self):
        self.at = 0

    def read(self, buffer, at, most):
        if self.at == ROWS:
            raise StopIteration
        n = min(most, 7, ROWS - self.at)
        for i in range(6 * n):
            buffer[6 * at + i] = rows[6 * self.at + i]
        self.at += n
        return n


def events_of(source):
    return audio.listen(listener, source, threshold=-4.0, mean=2, dead_ms=4, block=48)


def watched(source):
    found = motion.watch(watcher, source, threshold=-4.0, mean=2, dead_ms=20)
    found._ring._every = 0
    return found


def events_left(events):
    found = [e for e in box if e is not None]
    while True:
        try:
            found.append(next(events))
        except StopIteration:
            return found


for i in range(4):
    box[i] = None
all_events = events_left(events_of(wav.Wav("noise.wav")))
all_watched = events_left(watched(Sensor()))
assert len(all_events) > 8 and len(all_watched) > 8


def listen_wav():
    source = wav.Wav("noise.wav")
    events = events_of(source)

    def body():
        # Nothing can come between an event and its place.
        box[0] = next(events)
        box[1] = next(events)
        box[2] = next(events)
        box[3] = next(events)

    def after(failed):
        found = events_left(events)
        source.close()
        if found != all_events:
            return f"other events: {len(found)}, not {len(all_events)}"
        if events.scores != scores_at_the_end:
            return "other scores"

    return body, after


last = events_of(wav.Wav("noise.wav"))
events_left(last)
scores_at_the_end = last.scores


def listen_slices():
    source = wav.Wav("noise.wav")
    events = events_of(source)

    async def some():
        box[0] = await events.__anext__()
        box[1] = await events.__anext__()

    def body():
        asyncio.run(some())

    def after(failed):
        asyncio.new_event_loop()
        listener.stop()
        found = events_left(events)
        source.close()
        if found != all_events:
            return f"other events: {len(found)}, not {len(all_events)}"

    return body, after


def watch_rows():
    events = watched(Sensor())

    def body():
        box[0] = next(events)
        box[1] = next(events)
        box[2] = next(events)

    def after(failed):
        found = events_left(events)
        lost = [e for e in found if e.problem is not None]
        # A reading that was broken off may have lost rows: it says so, once.
        if lost and (not failed or len(lost) > 1 or "overrun" not in lost[0].problem):
            return f"problems: {lost}"
        if not lost and found != all_watched:
            return f"other events: {len(found)}, not {len(all_watched)}"

    return body, after


SCENARIOS += (listen_wav, listen_slices, watch_rows)
