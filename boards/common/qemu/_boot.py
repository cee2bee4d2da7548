# Mounts the RAM disk at '/', and what is in the ROMFS window at /rom.
# Runs at power-on, when the memory is empty, and after each soft reset, when the files of before are still there.
import vfs
import _board


class RAMDisk:
    BLOCK_BYTES = 4096

    def __init__(self, memory):
        self.memory = memory

    def readblocks(self, block, buf, offset=0):
        start = block * self.BLOCK_BYTES + offset
        buf[:] = self.memory[start : start + len(buf)]

    def writeblocks(self, block, buf, offset=0):
        start = block * self.BLOCK_BYTES + offset
        self.memory[start : start + len(buf)] = buf

    def ioctl(self, op, arg):
        if op == 4:  # number of blocks
            return len(self.memory) // self.BLOCK_BYTES
        if op == 5:  # bytes in a block
            return self.BLOCK_BYTES
        return 0  # sync, erase and the rest have nothing to do


disk = RAMDisk(_board.ramdisk())
try:
    fs = vfs.VfsLfs2(disk)
except OSError:
    vfs.VfsLfs2.mkfs(disk)
    fs = vfs.VfsLfs2(disk)
vfs.mount(fs, "/")

from mica import slots

slots.boot_board()
del disk, fs, slots, RAMDisk, vfs, _board
