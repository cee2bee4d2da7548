# models: embedding
# heap: 110000
# A head that fills the heap can be saved: teaching leaves the memory that this takes.
import gc
import vfs
from binascii import crc32

import mica
from mica import learn

BLOCK, COUNT = 512, 128
flash = bytearray(b"\xff" * (BLOCK * COUNT))


class Flash:
    def readblocks(self, block, buffer, offset=0):
        at = block * BLOCK + offset
        buffer[:] = memoryview(flash)[at : at + len(buffer)]

    def writeblocks(self, block, buffer, offset):
        at = block * BLOCK + offset
        memoryview(flash)[at : at + len(buffer)] = buffer

    def ioctl(self, op, arg):
        if op == 6:
            memoryview(flash)[arg * BLOCK : (arg + 1) * BLOCK] = b"\xff" * BLOCK
        return COUNT if op == 4 else BLOCK if op == 5 else 0


vfs.VfsLfs2.mkfs(Flash())
vfs.mount(Flash(), "/full")
m = mica.Model(embedding)
x = bytearray(64)
inputs = [mica.Quantised(x)]
enough = learn.SAVING
for room in (0, enough):
    learn.SAVING = room
    h = mica.Learner(m, "softmax", "/full/learnt", fresh=True)
    for n in range(3):
        x[n] = 99
        h.teach(inputs, "abc"[n])
    h.predict(inputs)
    h.save()
    h.teach(inputs, "d")
    h.fit()
    state = h.state()
    gc.collect()
    rest, size = [], 4096
    while size >= 16:
        try:
            rest.append(bytearray(size))
        except MemoryError:
            size //= 2
    for n in range(2):
        try:
            h.save()
            print("saved")
        except MemoryError:
            print("no room")
    rest = h = None
    gc.collect()
    h = mica.Learner(m, "softmax", "/full/learnt")
    print(h.state() == state, h.labels)
    h = None

# Each of 64 labels once, again and again until memory ends: saved, loaded, and right.
learn.SAVING = enough
h = mica.Learner(m, "softmax", "/full/many", fresh=True)


def checksum(h):
    crc = 0
    for part in h._parts():
        crc = crc32(part, crc)
    return crc


def example(k, n):
    for i in range(64):
        x[i] = (k * (i + 3) * 29 + i * 53 + n) & 255


gc.collect()
rest = []
while gc.mem_free() > 48000:  # 64 labels of 20 examples take more
    rest.append(bytearray((gc.mem_free() - 47000) // 4))
taught = n = 0
try:
    while True:
        for k in range(64):
            example(k, n)
            h.teach(inputs, "label %d" % k)
            taught += 1
        n += 1
except MemoryError:
    pass
h.save()
rest = None
print(64 < taught < 64 * 20 or taught, len(h.labels), sum(h.counts) == taught or h.counts)
crc = checksum(h)
h = None
gc.collect()
h = mica.Learner(m, "softmax", "/full/many")
print(checksum(h) == crc, len(h.labels))
right = 0
for k in range(64):
    example(k, 1)
    right += h.closest(inputs)[0] == "label %d" % k
print(right)
h = None
vfs.umount("/full")
