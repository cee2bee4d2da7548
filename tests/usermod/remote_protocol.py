# models: small two many
# The lines that the host tools read.
from binascii import hexlify

from mica import remote



def show(*args):
    # What differs from board to board stays out: bytes of RAM, and the board's description.
    line = " ".join(str(a) for a in args)
    fields = line.split()
    if fields[0] == "mica:model":
        fields[6] = "RAM" if int(fields[6]) > int(fields[5]) else "?"
    elif fields[0] == "mica:info":
        fields[2:4] = ["ISA", "ARENA" if int(fields[3]) > 0 else "?"]
    print(" ".join(fields))


remote.print = show
remote.info()
remote.load(small)
remote.run(small_x)
print(str(hexlify(small_y), "ascii"))
remote.layer_hashes(small_x)
remote.layer_bytes(0, small_x)
remote.layer_bytes(4, small_x)
remote.evaluate(small_x + bytes(64) + small_x)
clock = iter(range(0, 100000, 7))  # each reading is 7 later, and wraps
bench_lines = []
remote.print = lambda *args: bench_lines.append(args)
remote.bench(lambda: next(clock) & 0xFF, 0xFF, 2, small_x)
remote.print = show
print([line[2] for line in bench_lines[:5]], bench_lines[5], bench_lines[6][1] > 0)
remote.evaluate(b"")
remote.load(two)
remote.run(bytes([1, 2, 3, 4, 5, 6]), bytes([10, 20, 30]))
remote.layer_hashes(bytes(6), bytes(3))
remote.evaluate(bytes([1, 2, 3, 4, 5, 6, 10, 20, 30, 0, 0, 0, 0, 0, 0, 2, 4, 6]))
for f, args in (
    (remote.run, (bytes(6),)),
    (remote.run, (bytes(6), bytes(4))),
    (remote.evaluate, (bytes(10),)),
    (remote.load, (b"nothing",)),
):
    try:
        f(*args)
    except ValueError:
        print("ValueError")
remote.unload()
