"""Which boards the tests run on. What every board must do is tested on EVERY; all else on DEEP, to keep the run short."""

from mica.boards import all_boards

QEMU = [board.name for board in all_boards() if board.port.name == "qemu"]
DEEP = ["UNIX", "MPS2_AN385"]
# What only a board's timer, UART and addresses decide: these two have the MPS2_AN385's, with another core.
OWN_FILES = [name for name in QEMU if name not in ("MPS2_AN386", "MPS2_AN500")]
PICO = "RPI_PICO@emu"
EVERY = ["UNIX", *QEMU, PICO]

# On the newest MicroPython that Debian has, too. What differs between releases is what the binding and the board files are
# compiled against, so the user module's scripts run on DEEP (a 64-bit and a 32-bit build), and one board of each other
# compiler and port starts and answers with the digits; the rest are the same port and compiler with another -mcpu.
ALSO_ON_NEWEST = ["QEMU_M0", "VIRT_RV32", "XTENSA_SIM", PICO]
