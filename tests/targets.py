"""Which boards the tests run on. What every board must do is tested on EVERY; all else on DEEP, to keep the run short."""

from mica.boards import all_boards

QEMU = [board.name for board in all_boards() if board.port == "qemu"]
DEEP = ["UNIX", "MPS2_AN385"]
PICO = "RPI_PICO@emu"
EVERY = ["UNIX", *QEMU, PICO]
