# In the place of the port's own: ends what DMA still does for the program before a soft reset, mounts the file system, formatted
# if there is none, and then the right half of the ROMFS window at /rom. Its names are those of the REPL, so none stays.
import vfs
import machine, rp2  # noqa: F401 - at hand at the REPL, as with the port's

from mica import slots


def end_dma():
    """MicroPython takes rp2.DMA's channels back while they run: they would go on writing into what is another program's heap now."""
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
