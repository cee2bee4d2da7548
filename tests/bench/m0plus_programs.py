"""Runs small programs on the virtual Pico's core: m0plus_programs.py LIBRARY, cases on stdin, JSON.

A case has `code` (halfwords, put at CODE, with `bkpt` as the last), `registers` (r0 to r12, then the stack), and `data`
(hexadecimal, put at DATA). Prints for each the registers, NZCV, cycles, memory at DATA and why it has stopped.
"""

import json
import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts" / "bench" / "bare"))

import pico
from core import XPSR, Core, R

CODE, DATA, THUMB = 0x20010000, 0x20020000, 1 << 24
MOST = 1_000_000  # cycles of one


class Cases(pico.Bare):
    def breakpoint(self, core: Core, code: int) -> None:
        self.stop("end", "end")

    def case(self, code: list[int], registers: list[int], data: str) -> dict[str, object]:
        core, uc, memory = self.first, self.first.uc, bytes.fromhex(data)
        uc.mem_write(CODE, struct.pack(f"<{len(code)}H", *code))
        uc.mem_write(DATA, memory)
        for register, value in zip(R, registers, strict=False):
            uc.reg_write(register, value)
        uc.reg_write(XPSR, THUMB)
        core.begin(registers[13], CODE)
        uc.ctl_flush_tb()
        self.stopped, begun, core.state.last = None, core.state.cycles, None
        self.run(MOST)
        return {
            "registers": [uc.reg_read(r) & 0xFFFFFFFF for r in R[:14]],
            "flags": f"{uc.reg_read(XPSR) >> 28:04b}",
            "cycles": core.state.cycles - begun,
            "memory": bytes(uc.mem_read(DATA, len(memory))).hex(),
            "stopped": str(self.stopped),
        }


if __name__ == "__main__":
    cases = Cases(sys.argv[1], [(pico.FLASH, bytes(1 << 16))], None, False)
    print(json.dumps([cases.case(**case) for case in json.load(sys.stdin)]))
