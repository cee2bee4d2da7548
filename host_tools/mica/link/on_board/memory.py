# Bytes of the heap that are free, and of its largest free piece, which MicroPython does not say: allocations are tried.
# Then the bytes of the static arena, and of the window for models in flash.
def _mica_memory():
    import gc

    gc.collect()
    free = high = gc.mem_free()
    low = arena = window = 0
    while high - low > 32:
        middle = (low + high) // 2
        try:
            bytearray(middle)
            low = middle
        except MemoryError:
            high = middle
    try:
        import _mica
        import vfs

        arena = _mica.info().arena_bytes
        window = len(memoryview(vfs.rom_ioctl(2, 0)))
    except (ImportError, AttributeError, OSError, TypeError, MemoryError):
        pass
    print("mica:memory", free, low, arena, window)
