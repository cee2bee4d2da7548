# Prints lines "mica:<key> <value>" about the board; what a firmware does not have stays away.
def _mica_probe():
    import gc
    import os
    import sys

    def say(key, *values):
        print("mica:" + key, *values)

    gc.collect()
    say("heap", gc.mem_free(), gc.mem_alloc())
    say("micropython", ".".join([str(v) for v in sys.implementation.version[:3]]))
    say("machine", getattr(sys.implementation, "_machine", sys.platform))
    say("build", getattr(sys.implementation, "_build", ""))
    try:
        import machine

        clock = machine.freq()
        say("clock", clock if isinstance(clock, int) else clock[0])
    except (ImportError, AttributeError):
        pass
    try:
        import _mica

        i = _mica.info()
        say("engine", ".".join([str(v) for v in i.format]), i.isa, i.arena_bytes, ",".join(i.kernels) or "-")
    except ImportError:
        pass
    try:
        import mica

        say("mica", getattr(mica, "__version__", "?"))
        if getattr(mica, "__path__", "").startswith(".frozen"):
            for folder in sys.path:
                try:
                    if folder and "_mica.mpy" in os.listdir(folder):
                        say("unused", folder)
                except (AttributeError, OSError):  # .frozen is no folder
                    pass
    except ImportError as error:
        say("nomica", error)
    try:
        import vfs

        # Of an RP2 a block device that is memory, too.
        say("romfs", len(memoryview(vfs.rom_ioctl(2, 0))))
    except (ImportError, AttributeError, OSError, TypeError):
        pass
    for folder in ("/rom", os.getcwd()):
        try:
            for entry in os.ilistdir(folder):
                if entry[0].endswith(".mica"):
                    path = folder.rstrip("/") + "/" + entry[0]
                    size = entry[3] if len(entry) > 3 else 0
                    say("model", size, "".join(["%02x" % b for b in path.encode()]))
        except (AttributeError, OSError):
            pass
