"""The ports of MicroPython, as far as reading a board.toml, linking and predicting need to know them;
toolchain/ports builds for each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Port:
    """One port. Its emulated boards run in QEMU unless a field says otherwise."""

    name: str
    flasher: str = "none"  # how its real boards are written: uf2 (a drive) or esptool
    program: bool = False  # its boards are a program of this computer, at a terminal: without a serial port
    virtual_pico: bool = False  # its emulated boards are the virtual Pico: their flash stays, and they count cycles
    heap_is_rest: bool = False  # all RAM that MicroPython and the arena leave is heap
    stock: bool = (
        False  # its boards keep their MicroPython, into which mica comes as a native module: it builds no firmware
    )


PORTS = {
    port.name: port
    for port in (
        Port("unix", program=True),
        Port("qemu"),
        Port("rp2", flasher="uf2", virtual_pico=True, heap_is_rest=True),
        Port("esp32", flasher="esptool"),
    )
}

# Of the boards of boards/stock.toml, whichever port of MicroPython they have.
STOCK = Port("stock", stock=True)
