# models: embedding
# heap: 100000
# A head that fills the heap can be saved: teaching leaves the memory that this takes.
import gc
import vfs

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
vfs.umount("/full")
