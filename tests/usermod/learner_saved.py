# models: embedding narrow7 small
# heap: 100000
# What a head has saved, on littlefs: power cut at places of erase and program, full flash, damaged files,
# another model's, another version.
import gc
import os
import struct
import vfs
from binascii import crc32

import mica
from mica import heads, learn

every = 701  # bytes between two cuts; tests/faults/test_power_cuts.py takes others
BLOCK, COUNT = 512, 24
# What a device without power returns. A number above 0 from ioctl comes back from littlefs as a count of bytes written:
# of a write of 4 bytes 5 were, -1 are left, and MicroPython never ends. Of reads and writes it makes such a number -22.
FAILED = -5


class Flash:
    """NOR flash that loses power after so many bytes: nothing happens from then on.
    Its erase leaves anything where it was cut."""

    def __init__(self, data):
        self.data = data
        self.left = 1 << 29
        self.seed = 1

    def some(self):
        self.seed = (self.seed * 4093 + 12289) & 0xFFFFF
        return self.seed >> 8 & 255

    def spend(self, n):
        done = min(n, self.left)
        self.left -= done
        return done

    # MicroPython closes files that are garbage with the heap locked: without power nothing may allocate.
    def readblocks(self, block, buffer, offset=0):
        if not self.left:
            return FAILED
        at = block * BLOCK + offset
        buffer[:] = memoryview(self.data)[at : at + len(buffer)]

    def writeblocks(self, block, buffer, offset):
        if not self.left:
            return FAILED
        at = block * BLOCK + offset
        done = self.spend(len(buffer))
        self.data[at : at + done] = memoryview(buffer)[:done]
        if done < len(buffer):
            self.data[at + done] &= buffer[done] | self.some()
            return FAILED

    def ioctl(self, op, arg):
        if op == 4:
            return COUNT
        if op == 5:
            return BLOCK
        if op == 6:
            if not self.left:
                return FAILED
            done = self.spend(BLOCK)
            at = arg * BLOCK
            for i in range(done, BLOCK, 7):
                self.data[at + i] |= self.some()
            self.data[at : at + done] = b"\xff" * done
            if done < BLOCK:
                return FAILED
        return 0


def littlefs(flash):
    return vfs.VfsLfs2(flash, readsize=16, progsize=16, lookahead=16)


def head(kind="prototype"):
    return mica.Learner(m, kind, "/cut/learnt", keep=None if kind == "prototype" else 2)


def teach(h, n, label):
    for i in range(len(x)):
        x[i] = (n * 37 + i * 53) & 255
    h.teach(inputs, label)


def cuts(kind, saves):
    """Cut the power in each of so many saves; return the number of cuts."""
    old, n = None, 0
    data = bytearray(b"\xff" * (BLOCK * COUNT))
    vfs.VfsLfs2.mkfs(Flash(data), readsize=16, progsize=16, lookahead=16)
    for save in range(saves):
        at, whole = save * 131 % every, False
        while not whole:
            flash = Flash(bytearray(data))
            flash.seed = at + 1
            vfs.mount(littlefs(flash), "/cut")
            h = head(kind)
            teach(h, save, "ab"[save & 1])
            new = h.state()
            flash.left = at
            try:
                h.save()
                whole = True
            except OSError:
                n += 1
            try:
                vfs.umount("/cut")
            except OSError:
                pass
            flash.left = 0
            vfs.mount(littlefs(Flash(bytearray(flash.data))), "/cut")
            h = head(kind)
            found = h.state() if h.labels else None
            if found != new and (whole or found != old):
                print("lost", kind, save, at, h)
            teach(h, 99, "more")
            h.save()
            if head(kind).state() != h.state():
                print("cannot be saved again", kind, save, at)
            vfs.umount("/cut")
            if not whole:
                at += every
        flash = Flash(data)
        vfs.mount(littlefs(flash), "/cut")
        h = head(kind)
        teach(h, save, "ab"[save & 1])
        h.save()
        old = h.state()
        vfs.umount("/cut")
    return n


def change(k, at, value, right=True):
    with open("/cut/learnt.%d" % k, "rb") as f:
        data = bytearray(f.read())
    data[at] = value
    if right:
        struct.pack_into("<I", data, 4, crc32(memoryview(data)[8:]))
    with open("/cut/learnt.%d" % k, "wb") as f:
        f.write(data)


if hasattr(vfs, "VfsLfs2"):
    for width, model in ((7, narrow7), (64, embedding)):  # 7 numbers fill no whole word
        m = mica.Model(model)
        x = bytearray(width)
        inputs = [mica.Quantised(x)]
        for kind in heads.KINDS:
            number = cuts(kind, 1 + width // 64)
            gc.collect()
            print(width, kind, number > 0)

    flash = Flash(bytearray(b"\xff" * (BLOCK * COUNT)))
    vfs.VfsLfs2.mkfs(flash, readsize=16, progsize=16, lookahead=16)
    vfs.mount(littlefs(flash), "/cut")
    h = head()
    teach(h, 1, "one")
    h.save()
    teach(h, 2, "two")
    # A full flash.
    n = 0
    try:
        while True:
            with open("/cut/filled%d" % n, "wb") as f:
                f.write(bytes(BLOCK))
            n += 1
    except OSError as e:
        print("full", e.errno)
    for i in range(4):
        teach(h, i, "label %d" % i)
    try:
        h.save()
    except OSError as e:
        print("OSError", e.errno, e.args[1])
    print(head().labels)
    for name in os.listdir("/cut"):
        if name.startswith("filled"):
            os.remove("/cut/" + name)
    h.save()
    print(len(head().labels), sorted(os.listdir("/cut")))

    # The newer file is damaged, then both.
    change(1, 60, 77, False)
    print(head().labels)
    change(0, 60, 77, False)
    fails(head)
    # Lengths beyond both files: power ends one write at a time.
    change(0, 11, 1, False)
    change(1, 11, 1, False)
    fails(head)
    print(mica.Learner(m, path="/cut/learnt", fresh=True).labels)
    learn.store("/cut/learnt", h.state())
    print(len(head().labels))
    fails(learn.store, "/cut/learnt", h.state()[:-1])
    try:
        learn.store("/cut/nowhere/learnt", h.state())
    except OSError as e:
        print("OSError", e.errno, e.args[1])
    os.remove("/cut/learnt.1")
    # Another model, kind, version; numbers that no head has.
    fails(mica.Learner, mica.Model(small), path="/cut/learnt")
    fails(head, "softmax")
    print(mica.Learner(m, path="/cut/learnt", keep=5)._numbers[2])
    # Labels begin at 100, behind weights.
    fields = (16, 3), (16, 1), (17, 1), (17, 9), (18, 255), (18, 3), (20, 1), (28, 63), (35, 255), (32, 0)
    for at, value in fields + ((100, 200), (101, 7), (104, 0), (105, 1)):
        with open("/cut/learnt.0", "rb") as f:
            before = f.read()
        change(0, at, value)
        try:
            print(at, value, head())
        except ValueError as e:
            print(at, value, e)
        with open("/cut/learnt.0", "wb") as f:
            f.write(before)
    # Any byte, under a right checksum: an exception, or a head that works.
    seed, there = 1, 0
    for i in range(300):
        seed = (seed * 4093 + 12289) & 0xFFFFF
        data = bytearray(before)
        data[8 + (seed >> 4) % (len(data) - 8)] = seed & 255
        data[8 + (seed >> 9) % 80] ^= 1 << (seed & 7)
        struct.pack_into("<I", data, 4, crc32(memoryview(data)[8:]))
        try:
            h.restore(data)
        except ValueError:
            continue
        there += 1
        teach(h, i, "new")
        h.predict(inputs)
    print("fuzzed", there > 20)
    h = head()
    mica.Learner(m, path="/cut/learnt", loose=8).save()
    print(head() is not h, head().labels == h.labels)
    vfs.umount("/cut")
else:
    print("SKIP")
