# Replaces the port's _boot.py. Ends DMA transfers that a program before a soft reset has left, mounts the file system
# (formatted if there is none), then the right half of the ROMFS window at /rom. The REPL sees its names, so none stays.
import vfs
import machine, rp2  # noqa: F401 - for the REPL, as the port does

from mica import slots


def end_dma():
    """Stop all DMA channels. MicroPython frees them while they run: they would go on writing into the next heap."""
    channels = []
    try:
        while True:
            channels.append(rp2.DMA())
    except OSError:
        pass
    for channel in channels:
        channel.ctrl = channel.pack_ctrl(enable=False)
        channel.active(0)
        channel.close()


end_dma()
flash = rp2.Flash()
try:
    fs = vfs.VfsLfs2(flash, progsize=256)  # the chip writes whole pages
except Exception:
    vfs.VfsLfs2.mkfs(flash, progsize=256)
    fs = vfs.VfsLfs2(flash, progsize=256)
vfs.mount(fs, "/")
slots.boot_board()
del vfs, fs, flash, slots, end_dma
