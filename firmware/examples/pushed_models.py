# What is at /rom: the half of the ROMFS that `mica push` wrote last, or the one before where the last was rejected.
# boards: UNIX MPS2_AN385
import mica

status = mica.slots.status()
if status is None:
    print("at /rom: nothing, this board has no ROMFS; mica push writes files")
else:
    mounted, halves = status
    notes = [f"half {i}: {state} {reason}" for i, (state, sequence, size, reason) in enumerate(halves)]
    print("at /rom:", mounted, notes)
#: at /rom: ...
