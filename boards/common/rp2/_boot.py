# In the place of the port's own: mounts the file system, formatted if there is none, and then the right half of the
# ROMFS window at /rom. Its names are those of the REPL, so none stays.
import vfs
import machine, rp2  # noqa: F401 - at hand at the REPL, as with the port's

from mica import slots

flash = rp2.Flash()
try:
    fs = vfs.VfsLfs2(flash, progsize=256)  # the chip writes whole pages
except Exception:
    vfs.VfsLfs2.mkfs(flash, progsize=256)
    fs = vfs.VfsLfs2(flash, progsize=256)
vfs.mount(fs, "/")
slots.boot_board()
del vfs, fs, flash, slots
