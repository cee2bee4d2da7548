"""Advice after a MemoryError of a model. Imported only after such an error."""

import gc

_SPARE = 4096  # bytes beside a model's tensors
_FRESH = 24 * 1024  # bytes that a board uses before a model is loaded, at most


def largest() -> int:
    """Return the bytes of the largest free piece of the heap: MicroPython does not say, so allocations are tried."""
    gc.collect()
    low, high = 0, gc.mem_free()
    while high - low > 32:
        middle = (low + high) // 2
        try:
            bytearray(middle)
            low = middle
        except MemoryError:
            high = middle
    gc.collect()
    return low


def _asked(text):
    """Return the number before the last "bytes" of a message."""
    words = text.replace(",", " ").replace(";", " ").split()
    for i in range(len(words) - 1, 0, -1):
        if words[i] == "bytes" and words[i - 1].isdigit():
            return int(words[i - 1])
    return 0


def _window():
    """Return whether the board keeps models in flash that it reads in place."""
    try:
        import vfs

        return not isinstance(vfs.rom_ioctl(2, 0), int)
    except (ImportError, AttributeError, OSError):
        return False


def explained(error: MemoryError, copy: int = 0) -> MemoryError:
    """Return the MemoryError with the free memory and advice that helps here. copy: bytes of the file in RAM."""
    text = str(error)
    asked, piece = _asked(text), largest()
    free, used = gc.mem_free(), gc.mem_alloc()
    flash = copy or "copy of the file" in text
    if asked <= free:
        todo = "soft-reset the board (Ctrl-D) and load the model before all else: then the heap is one piece"
    elif flash and asked <= free + (copy or asked) and _window():
        todo = "mica push puts the file into flash, where it is read without a copy"
    elif used - copy > _FRESH and asked < free + used - copy - _FRESH:
        todo = f"{used} are in use: deinit() models that are no longer needed, or soft-reset the board (Ctrl-D)"
    elif flash:
        todo = "the model is too large for this board's RAM: mica fit says what fits"
    else:
        todo = f"pack the model for less RAM: mica pack --ram {max(piece - _SPARE, 0)}"
    return MemoryError(f"{text}; {free} bytes of the heap are free, the largest piece has {piece}. Try: {todo}")
