"""hooks.c and Unicorn as Python sees them: the structures that they share, and a core's turn.

Unicorn (GPL-2.0) is a package of its own that the user installs; nothing of it is here.
"""

import ctypes
from collections.abc import Callable

import numpy as np
import unicorn
from facts import Facts
from unicorn import arm_const
from unicorn.unicorn_py3 import unicorn as binding

PAGE, CHUNK = 4096, 65536  # Unicorn knows about a thousand places: flash is cut into pages only where code is
NOW = 0  # of State.until
GOES_ON, SLEEPS_FOR_EVENT, INVALID, EXCEPTION = range(4)  # why a turn has ended; hooks.c has them too
BLOCK = np.dtype([("instructions", "<u8"), ("cycles", "<u8"), ("sum", "<u4"), ("size", "<u2"), ("each", "V26")])
PRIMASK, BASEPRI, FAULTMASK = (arm_const.UC_ARM_REG_PRIMASK, arm_const.UC_ARM_REG_BASEPRI,
                               arm_const.UC_ARM_REG_FAULTMASK)

Read = Callable[[int, int], int]  # address, bytes
Write = Callable[[int, int, int], None]  # address, bytes, value
_READ = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint)
_WRITE = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_uint, ctypes.c_uint64)


def _fields(kind: type, names: str) -> tuple[tuple[str, type], ...]:
    """Return fields of one kind, as ctypes wants them of a structure."""
    return tuple((name, kind) for name in names.split())


class _Unicorn(ctypes.Structure):
    _fields_ = (*_fields(ctypes.c_void_p, "stop start read"), ("numbers", ctypes.c_int * 5))


class _Memory(ctypes.Structure):
    _fields_ = (*_fields(ctypes.c_uint32, "base size changes"), *_fields(ctypes.c_void_p, "bytes blocks"))


class State(ctypes.Structure):
    """Half of a core that hooks.c works with."""

    cycles: int
    waits: int
    pc: int
    _fields_ = (
        *_fields(ctypes.c_void_p, "uc unicorn memories other"),
        *_fields(ctypes.c_int64, "cycles instructions limit until"),
        *_fields(ctypes.c_uint32, "number pc why exception event masked"),
        ("masks", ctypes.c_uint32 * 3),
        ("next", ctypes.c_uint32),
        ("last", ctypes.c_void_p),
        *_fields(ctypes.c_uint32, "error address"),
        *_fields(ctypes.c_void_p, "flash pages"),
        *_fields(ctypes.c_int64, "ahead waits"),
        ("wrote", ctypes.c_uint32),
        *_fields(ctypes.c_void_p, "table costs"),
        *_fields(ctypes.c_uint32, "first_free rom_bytes"),
        ("divider", ctypes.c_uint32 * 7),
    )


class _Data(ctypes.Structure):
    _fields_ = (("core", ctypes.c_void_p), *_fields(ctypes.c_uint32, "address cached"))


class _Registers(ctypes.Structure):
    _fields_ = (
        ("core", ctypes.c_void_p),
        ("base", ctypes.c_uint64),
        ("read", _READ),
        ("write", _WRITE),
        ("memory", ctypes.c_void_p),
        *_fields(ctypes.c_uint64, "start end"),
        ("has_number", ctypes.c_uint32),
        *_fields(ctypes.c_int32, "reading writing"),
    )


class Memory:
    """Bytes that both cores have at `bases`, of which code is counted at the first; `data` is writable."""

    def __init__(self, bases: tuple[int, ...], data: ctypes.Array[ctypes.c_char], *, changes: bool) -> None:
        self.bases, self.data, self.changes = bases, data, changes
        self.size = len(data)
        self.address = ctypes.addressof(data)
        self.blocks = np.zeros(self.size // 2, BLOCK)

    def read(self, address: int, size: int) -> bytes:
        at = address - self.bases[0]
        return self.data[at : at + size]

    def spent(self, kind: np.dtype) -> np.ndarray:
        """Return the costs since the last call of each block that has run."""
        at = np.flatnonzero(self.blocks["instructions"])
        found = np.zeros(len(at), kind)
        found["address"] = self.bases[0] + 2 * at
        for name in ("instructions", "cycles"):
            found[name] = self.blocks[name][at]
            self.blocks[name][at] = 0
        return found


class Native:
    """The library of hooks.c, with the table of Unicorn's functions that it needs, for one chip's memories."""

    def __init__(self, library: str, facts: Facts, memories: list[Memory]) -> None:
        """memories: flash, RAM, and a boot ROM whose code is counted."""
        self.hooks, self.facts = ctypes.CDLL(library), facts
        # Costs of functions of the boot ROM, where they begin, bytes of the ROM.
        self.free: tuple[int, int, int] = (0, 0, 0)
        self.memories = memories
        self.flash: int | None = None  # the address of flash.c's memory; None: flash never waits
        lib = binding.uclib
        self._unicorn = _Unicorn(*(self.address(f) for f in (lib.uc_emu_stop, lib.uc_emu_start, lib.uc_reg_read)))
        self._unicorn.numbers[:] = [PRIMASK, BASEPRI, FAULTMASK, arm_const.UC_ARM_REG_PC, arm_const.UC_ARM_REG_LR]
        self._memories = (_Memory * (len(memories) + 1))()
        for there, m in zip(self._memories, memories, strict=False):
            there.base, there.size, there.changes = m.bases[0], m.size, m.changes
            there.bytes, there.blocks = m.address, m.blocks.ctypes.data

    @staticmethod
    def address(function: object) -> int:
        return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


class Processor:
    """One Unicorn with hooks.c around it: runs code, and knows nothing of exceptions and peripherals."""

    def __init__(self, native: Native, number: int) -> None:
        self.native = native
        # With UC_MODE_MCLASS it takes a Cortex-M33, whatever model is asked for.
        self.uc = uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB)
        uc.ctl_set_cpu_model(native.facts.cpu)
        self.state = State(uc._uch, ctypes.addressof(native._unicorn), ctypes.addressof(native._memories))
        self.state.number = number
        self.state.table = native.address(getattr(native.hooks, native.facts.table))
        self.state.costs, self.state.first_free, self.state.rom_bytes = native.free
        self._kept: list[object] = []
        for m in native.memories[:2]:
            if native.flash is not None and m is native.memories[0]:
                self._map_flash(m)
                continue
            rights = unicorn.UC_PROT_ALL if m.changes else unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC
            for base in m.bases:
                uc.mem_map_ptr(base, m.size, rights, ctypes.c_void_p(m.address))
        for kind, hook in (
            (unicorn.UC_HOOK_BLOCK, "mica_block"),
            (unicorn.UC_HOOK_INSN_INVALID, "mica_invalid"),
            (unicorn.UC_HOOK_INTR, "mica_exception"),
            (unicorn.UC_HOOK_MEM_INVALID, "mica_no_memory"),
        ):
            handle = ctypes.c_size_t()
            function = ctypes.c_void_p(native.address(getattr(native.hooks, hook)))
            here = (ctypes.byref(self.state), ctypes.c_uint64(1), ctypes.c_uint64(0))
            if binding.uclib.uc_hook_add(uc._uch, ctypes.byref(handle), ctypes.c_int(kind), function, *here):
                raise RuntimeError(f"Unicorn refuses {hook}")

    def _map_flash(self, m: Memory) -> None:
        """All of it is registers, which see each load; a page that code runs from becomes memory,
        whose blocks are looked up as they begin."""
        self.state.flash = self.native.flash
        self.flash = m
        self.code_pages = (ctypes.c_uint8 * (m.size // PAGE))()
        self.state.pages = ctypes.addressof(self.code_pages)
        for at in range(m.bases[0], m.bases[0] + m.size, CHUNK):
            self._map_data(at, CHUNK, True)
        for base in m.bases[1:]:
            self._map_data(base, m.size, False)

    def _map_data(self, base: int, size: int, cached: bool) -> None:
        data = _Data(ctypes.addressof(self.state), base, cached)
        self._kept.append(data)
        self._map(base, size, "mica_flash_read", "mica_flash_write", ctypes.byref(data))

    def code_in(self, address: int) -> bool:
        """Make a page of flash memory, that code is to run from; False: it is none, or is memory already."""
        at = address - self.flash.bases[0] if self.native.flash is not None else -1
        if not 0 <= at < self.flash.size or self.code_pages[at // PAGE]:
            return False
        page, chunk = address & -PAGE, address & -CHUNK
        if any(self.code_pages[at // CHUNK * (CHUNK // PAGE) :][: CHUNK // PAGE]):
            self.uc.mem_unmap(page, PAGE)
        else:
            self.uc.mem_unmap(chunk, CHUNK)
            for other in range(chunk, chunk + CHUNK, PAGE):
                if other != page:
                    self._map_data(other, PAGE, True)
        self.code_pages[at // PAGE] = 1
        rights = unicorn.UC_PROT_READ | unicorn.UC_PROT_EXEC
        self.uc.mem_map_ptr(page, PAGE, rights, ctypes.c_void_p(self.flash.address + at // PAGE * PAGE))
        return True

    def _map(self, base: int, size: int, read: str, write: str, mine: object) -> None:
        functions = [ctypes.c_void_p(self.native.address(getattr(self.native.hooks, name))) for name in (read, write)]
        where = (ctypes.c_uint64(base), ctypes.c_size_t(size))
        if binding.uclib.uc_mmio_map(self.uc._uch, *where, functions[0], mine, functions[1], mine):
            raise RuntimeError(f"Unicorn refuses registers at {base:#x}")

    def map_registers(
        self,
        base: int,
        size: int,
        read: Read,
        write: Write,
        *,
        has_number: bool = False,
        cycles: tuple[int, int] = (0, 0),
        memory: ctypes.Array[ctypes.c_char] | None = None,
        told: tuple[int, int] = (0, 0),
    ) -> None:
        """Answer `size` bytes at `base` by read and write. With `memory` they are it;
        `write` is called for those in `told`.

        cycles: what reading and writing takes beyond a load and a store.
        """
        at = ctypes.addressof(memory) if memory is not None else None
        state = ctypes.addressof(self.state)
        r = _Registers(state, base, _READ(read), _WRITE(write), at, *told, has_number, *cycles)
        self._kept += [r, memory]
        self._map(base, size, "mica_read", "mica_write", ctypes.byref(r))

    def run(self, limit: int, second: "Processor | None" = None, quantum: int = 0, io: tuple[int, int, int] = (0, 0,
        0)) -> None:
        """Run this one, or both in turns of `quantum` cycles. io: of pio.c, its memory, its time at cycle 0,
        cycles between two looks."""
        states = (ctypes.byref(self.state), ctypes.byref(second.state) if second else None)
        memory, begun, each = io
        times = (ctypes.c_int64(limit), ctypes.c_int64(quantum), ctypes.c_void_p(memory), ctypes.c_int64(begun),
                 ctypes.c_int64(each))
        self.native.hooks.mica_run(*states, *times)

    def meets(self, other: "Processor | None") -> None:
        """SEV of this one is an event of the other's, too."""
        self.state.other = None if other is None else ctypes.addressof(other.state)

    def forget_code(self, begin: int, end: int) -> None:
        self.uc.ctl_remove_cache(begin, end)
