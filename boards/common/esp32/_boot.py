# In the place of the port's own: mounts the file system, formatted if there is none, and then the right half of the
# partition "romfs" at /rom. Its names are those of the REPL: those of the port's own stay.
import gc
import vfs
from flashbdev import bdev

from mica import slots

if bdev:
    try:
        vfs.mount(bdev, "/")
    except OSError:
        import inisetup

        inisetup.setup()
        del inisetup
slots.boot_board()
gc.collect()
del slots
