"""Lays a native module that was linked at fixed addresses out for MicroPython's mpy_ld.py, and packs its messages.

    fixed.elf: one block of code and constants, the messages, the variables -> image.bin and image.S -> image.o ->
    mpy_ld.py

mpy_ld.py takes code that does not know where it lies, which on a Cortex-M0+ costs 4 bytes and an instruction more for
each address and a table of them beside. Here the code is linked as for a fixed address, and every address in it becomes
a relocation of data, which the loader of MicroPython carries out: image.S is the block with those in it.

Messages (see `texts` of main) are packed: a byte from 0x80 on stands for two others, a table of which lies at
mica_text_pairs. Executed by the Makefile of natmod.py, as a file: `native_image.py fixed.elf texts.json image.S`.
"""

import itertools
import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

# Where the linker puts what. Nothing is that far apart in a module, so an address tells whose it is.
BLOCK, TEXTS, VARIABLES = 0, 0x10000000, 0x20000000

SCRIPT = f"""\
SECTIONS
{{
    .texts {TEXTS:#x} : {{ *(.rodata*.str1.1) }}
    .block {BLOCK:#x} : {{ *(.text .text.* .rodata .rodata.* .data.rel.ro .data.rel.ro.*) }}
    .bss {VARIABLES:#x} (NOLOAD) : {{ *(.bss .bss.* COMMON) }}
    /DISCARD/ : {{ *(.ARM.exidx* .ARM.extab*) }}
}}
"""

S = TypeVar("S", bound=Section)

CODES = 128  # of two bytes each
_ALLOC = 2  # SHF_ALLOC
_ABS32 = 2  # R_ARM_ABS32
_IN_BLOCK = (3, 10, 30, 102, 103)  # R_ARM_ that say how far it is: REL32, THM_CALL, THM_JUMP24, THM_JUMP11, THM_JUMP8


def pack(texts: Collection[bytes]) -> tuple[dict[bytes, bytes], list[tuple[int, int]]]:
    """Each text packed, and the two bytes of each code from 0x80 on: the commonest pair first, again and again."""
    order = sorted(texts)
    packed = [list(text) for text in order]
    pairs: list[tuple[int, int]] = []
    while len(pairs) < CODES:
        counts = Counter(pair for text in packed for pair in itertools.pairwise(text))
        if not counts:
            break
        pair, n = min(counts.items(), key=lambda item: (-item[1], item[0]))
        if n < 4:  # 2 bytes of table
            break
        code = 0x80 + len(pairs)
        pairs.append(pair)
        packed = [_replaced(text, pair, code) for text in packed]
    return dict(zip(order, map(bytes, packed), strict=True)), pairs


def _replaced(text: Sequence[int], pair: tuple[int, int], code: int) -> list[int]:
    out: list[int] = []
    i = 0
    while i < len(text):
        both = i + 1 < len(text) and (text[i], text[i + 1]) == pair
        out.append(code if both else text[i])
        i += 2 if both else 1
    return out


def unpack(text: bytes, pairs: Sequence[tuple[int, int]]) -> bytes:
    """Undo pack(): return the text that it was given."""
    out = bytearray()
    todo = list(reversed(text))
    while todo:
        byte = todo.pop()
        if byte < 0x80:
            out.append(byte)
        else:
            todo.extend(reversed(pairs[byte - 0x80]))
    return bytes(out)


def _section(elf: ELFFile, name: str, kind: type[S]) -> S:
    found = elf.get_section_by_name(name)
    if not isinstance(found, kind):
        raise ValueError(f"no section is called {name}")
    return found


def lay_out(elf: ELFFile, messages: Collection[bytes]) -> tuple[bytes, str]:
    """The block, and the assembly that puts it together with its relocations.
    Raises ValueError for what cannot be placed."""
    block = bytearray(_section(elf, ".block", Section).data())
    texts = _section(elf, ".texts", Section).data()
    bss_bytes = _section(elf, ".bss", Section)["sh_size"]
    table = _section(elf, ".symtab", SymbolTableSection)
    for s in elf.iter_sections():
        if s["sh_flags"] & _ALLOC and s["sh_size"] and s.name not in (".block", ".texts", ".bss"):
            raise ValueError(f"section {s.name}: no variable may begin with a value")
    places = _places(elf, table)
    values = {at: int.from_bytes(block[at : at + 4], "little") for at in places}
    used = {  # where a text that something points to begins
        v: texts[v - TEXTS : texts.index(0, v - TEXTS)]
        for at, v in values.items()
        if not places[at] and TEXTS <= v < TEXTS + len(texts)
    }
    packed, pairs = pack({text for text in used.values() if text in messages})
    at_pairs = next(s for s in table.iter_symbols() if s.name == "mica_text_pairs")["st_value"] - BLOCK
    for i, pair in enumerate(pairs):
        block[at_pairs + 2 * i : at_pairs + 2 * i + 2] = bytes(pair)
    lies, strings = joined({packed.get(text, text) for text in used.values()})
    begin = len(block)
    block += strings

    lines = ['.section .data.rel.ro.image, "aw"', ".balign 4", "image:"]
    done = 0
    for at, value in sorted(values.items()):
        if places[at]:
            what = f"{places[at]} + {value}"
        elif value in used:
            what = f"image + {begin + lies[packed.get(used[value], used[value])]}"
        elif value < TEXTS:
            what = f"image + {value - BLOCK}"
        elif VARIABLES <= value <= VARIABLES + bss_bytes:
            what = f"variables + {value - VARIABLES}"
        else:
            raise ValueError(f"an address at {at:#x} leads nowhere: {value:#x}")
        if at > done:
            lines.append(f'.incbin "image.bin", {done}, {at - done}')
        lines.append(f".word {what}")
        done = at + 4
    if done < len(block):
        lines.append(f'.incbin "image.bin", {done}, {len(block) - done}')
    lines += ['.section .bss.variables, "aw", %nobits', ".balign 4", "variables:", f".space {bss_bytes}"]
    return bytes(block), "\n".join([*lines, *_exported(table)]) + "\n"


def _places(elf: ELFFile, table: SymbolTableSection) -> dict[int, str]:
    """Places in the block that hold addresses, each with its external symbol; "" for one of the module's own."""
    block = next(i for i, s in enumerate(elf.iter_sections()) if s.name == ".block")
    places: dict[int, str] = {}
    for r in _section(elf, ".rel.block", RelocationSection).iter_relocations():
        symbol, kind = table.get_symbol(r["r_info_sym"]), r["r_info_type"]
        external = symbol["st_shndx"] == "SHN_UNDEF"
        if external and not (kind == _ABS32 and symbol.name.startswith("mp_type_")):
            raise ValueError(f"undefined symbol: {symbol.name}")
        if kind == _ABS32:
            places[r["r_offset"] - BLOCK] = symbol.name if external else ""
        elif kind not in _IN_BLOCK:
            raise ValueError(f"relocation {kind} of {symbol.name}")
        elif symbol["st_shndx"] != block:
            raise ValueError(f"{symbol.name} is outside of the code")
    return places


def _exported(table: SymbolTableSection) -> Iterator[str]:
    """Assembly that says where the functions and variables lie that MicroPython's linker is to find."""
    for symbol in table.iter_symbols():
        if symbol.name.startswith("mp_native_at_"):
            where = symbol["st_value"]
            yield f".global {symbol.name}"
            if where >= VARIABLES:
                yield f".set {symbol.name}, variables + {where - VARIABLES}"
            else:
                yield from (f".thumb_set {symbol.name}, image + {where & ~1}", f".type {symbol.name}, %function")


def joined(texts: Collection[bytes]) -> tuple[Mapping[bytes, int], bytes]:
    """Join texts, each once; return where each begins, and the whole. A text that ends another one lies inside it."""
    lies: dict[bytes, int] = {}
    out = bytearray()
    backwards = sorted(texts, key=lambda text: text[::-1], reverse=True)
    last = b""
    for text in backwards:
        if out and last.endswith(text):
            lies[text] = lies[last] + len(last) - len(text)
            continue
        lies[text] = len(out)
        out += text + b"\0"
        last = text
    return lies, bytes(out)


def main(elf: str, texts: str, to: str) -> int:
    """texts: a JSON list of the messages, which are read by what unpacks them."""
    messages = {text.encode() for text in json.loads(Path(texts).read_text(encoding="utf-8"))}
    with Path(elf).open("rb") as f:
        try:
            block, assembly = lay_out(ELFFile(f), messages)
        except ValueError as e:
            print(f"{elf}: error: {e}", file=sys.stderr)
            return 1
    Path(to).with_suffix(".bin").write_bytes(block)
    Path(to).write_text(assembly, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
