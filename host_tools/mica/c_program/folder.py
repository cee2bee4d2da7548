"""The folder that `mica cc` writes: the engine, the model as constants, and the files of several build systems."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import mica
from mica.c_program.sources import LOADER, TOKENISER, Engine
from mica.c_program.steps import Loaded
from mica.c_program.structs import Structs
from mica.engine import native
from mica.errors import MicaError
from mica.file.codec import decode, without_golden
from mica.file.model_file import ModelFile, TensorRecord
from mica.kernels import CUSTOM
from mica.resources import data_dir
from mica.toolchain.contents import model_contents
from mica.toolchain.notices import own_licence

TEMPLATES = Path(__file__).with_name("templates")
SCRATCH = 16384  # bytes, at most: as of the user module (MICA_SCRATCH_BYTES)
_C_TYPE = {"int8": "int8_t", "uint8": "uint8_t", "int16": "int16_t", "int32": "int32_t", "float32": "float"}
# Of C and C++, and names that the folder itself has.
_TAKEN = """
asm auto bool break case catch char class const continue default delete do double else enum explicit export extern false
float for friend goto if inline int long main mica mutable namespace new operator private protected public register
return short signed sizeof static struct switch template this throw true try typedef typename union
unsigned using virtual
void volatile while
"""


@dataclass(frozen=True)
class Memory:
    """Bytes that a program takes for its model."""

    arena: int
    scratch: int
    state: int
    constants: int
    golden: int

    @property
    def ram(self) -> int:
        return self.arena + self.scratch + self.state


class Program:
    """A model as C; `name` begins the names of its functions, and of its header."""

    def __init__(self, data: bytes, name: str, cores: Sequence[str], checked: bool = False, url: str = "") -> None:
        engine = native.find()
        if engine is None:
            raise MicaError("mica cc needs mica's C engine", todo="install a C compiler, then mica again")
        self.model, self.name, self.upper = decode(data), name, name.upper()
        self._names = {"name": name, "NAME": name.upper(), "version": mica.__version__, "url": url}
        refuse(self.model)
        usermod = data_dir("usermod_c")
        self._loaded = Loaded(engine, data, self.model, Structs(usermod), name)
        self.vectors = self._loaded.vectors()
        functions = (LOADER if checked else ()) + (TOKENISER if self.model.tokens else ())
        self.engine = Engine(usermod, model_contents([self.model]).kernels or (), cores, functions, name)
        self._constants = without_golden(data) if checked else self.model.data
        # The engine takes no section at 0.
        self._pieces = b"\0\0\0\0" + self._loaded.section("TOKENS") if self.model.tokens else b""
        self.checked = checked
        self.memory = Memory(
            arena=self.model.arena_bytes or 0,
            scratch=max(self.model.scratch_min, min(self.model.scratch_want, SCRATCH)),
            state=self.model.state_bytes or 0,
            constants=len(self._constants) + (len(self._pieces) if not checked else 0),
            golden=sum(x.nbytes for g in self.vectors for x in g.inputs),
        )

    def mlperf(self) -> str:
        """Return the example that speaks MLPerf Tiny's protocol. Raises MicaError for other kinds of models."""
        ends = [self.model.tensors[i] for i in (*self.model.inputs, *self.model.outputs)]
        if [t.dtype for t in ends] != ["int8", "int8"] or self.model.fed is not None:
            raise MicaError("--example mlperf: the model needs one input and one output, both int8")
        picture = len(ends[0].dims) == 4 and ends[0].dims[3] == 3  # whose bytes come without a sign
        return self._filled("mlperf.c.in", {"sign": "128" if picture else "0"})

    def files(self) -> dict[str, str]:
        """Return the texts of all files by their paths."""
        files = {f"src/mica/{path}": text for path, text in self.engine.texts()}
        files |= {
            f"src/{self.name}.h": self._header(),
            f"src/{self.name}.c": self._checked() if self.checked else self._source(),
            f"src/{self.name}_golden.c": self._golden(),
            "LICENSE": own_licence(),
        }
        sources = sorted(path for path in files if path.endswith((".c", ".S")))
        names = {"makes": " \\\n    ".join(sources), "builds": "\n    ".join(sources)}
        for template in sorted(path for path in (TEMPLATES / "folder").rglob("*.in")):
            path = template.relative_to(TEMPLATES / "folder").with_suffix("").as_posix().replace("name", self.name)
            files[path] = self._filled(f"folder/{template.relative_to(TEMPLATES / 'folder')}", names)
        return files

    def _filled(self, template: str, names: dict[str, str]) -> str:
        """Return a template with its @names@ filled in."""
        known = self._names | names
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        return re.sub(r"@(\w+)@", lambda found: known[found[1]], text)

    # ---- the header

    def _header(self) -> str:
        m, memory, up = self.model, self.memory, self.upper
        lines = [
            f"#define {up}_RAM_BYTES {memory.ram}u  // arena {memory.arena}, scratch {memory.scratch}, "
            f"states {memory.state}",
            f"#define {up}_CONSTANT_BYTES {memory.constants}u",
            f"#define {up}_GOLDEN_CRC {self.golden_crc:#010x}u",
        ]
        for what, tensors in (("INPUT", m.inputs), ("OUTPUT", m.outputs)):
            for k, i in enumerate(tensors):
                lines += self._numbers(f"{up}_{what}{k or ''}", m.tensors[i])
        if "labels" in m.metadata:
            words = [c_string(label) for label in m.metadata["labels"].split("\n")]
            lines += [f"#define {up}_LABEL_COUNT {len(words)}", f"#define {up}_LABELS {{ {', '.join(words)} }}"]
        if (rate := m.metadata.get("sample_rate", "")).isdigit():
            lines.append(f"#define {up}_SAMPLE_RATE {rate}")
        functions = [
            line for k, i in enumerate(m.inputs) if k != m.fed for line in self._place("input", k, m.tensors[i])
        ]
        functions += [line for k, i in enumerate(m.outputs) for line in self._place("output", k, m.tensors[i])]
        more = {"numbers": "\n".join(lines), "functions": "\n".join(functions), "fed": self._feeding("fed.h.in")}
        more |= {
            "text": self._text(".h.in"),
            "trust": self._filled("checks.h.in" if self.checked else "trusts.h.in", {}),
        }
        return self._filled("header.h.in", more)

    @staticmethod
    def _numbers(prefix: str, t: TensorRecord) -> list[str]:
        count = int(np.prod(t.dims))
        lines = [f"#define {prefix}_COUNT {count}u  // {t.dtype} {list(t.dims)}: {one_line(t.name)}"]
        if t.dtype not in ("float32", "int32"):
            scale = f"{np.float32(t.scale):.9g}"
            lines.append(f"#define {prefix}_SCALE {scale}{'' if set(scale) & set('.e') else '.0'}f")
            lines.append(f"#define {prefix}_ZERO_POINT {f'({t.zero_point})' if t.zero_point < 0 else t.zero_point}")
        return lines

    def _place(self, what: str, k: int, t: TensorRecord) -> list[str]:
        const, kind = ("const " if what == "output" else ""), _C_TYPE[t.dtype]
        return [
            f"static inline {const}{kind} *{self.name}_{what}{k or ''}(void) {{",
            f"    return ({const}{kind} *)(void *)({self.name}_{t.space} + {t.offset});",
            "}",
        ]

    # ---- the sources

    def _source(self) -> str:
        constants, statements = self._loaded.code()
        resets = [
            f"memset({self.name}_state + {t.offset}, {t.zero_point & 255}, {t.bytes});"
            for t in self.model.tensors
            if t.space == "state"
        ]
        used = any(f"{self.name}_constants" in text for text in (*constants, *statements))
        names = {
            "constants": self._constant_array() if used else "",
            "fed": self._feeding("fed.c.in"),
            "text": self._text(".c.in", "vocabulary.c.in"),
            "steps": "\n\n".join(constants),
            "run": "\n    ".join(statements),
            "reset": "\n    ".join(resets),
        }
        return self._filled("source.c.in", names | self._sizes())

    def _checked(self) -> str:
        m = self.model
        names = {"steps": str(len(m.steps)), "tensors": str(len(m.tensors)), "strips": str(int(bool(m.strips)))}
        names |= {"constants": self._constant_array(), "fed": self._feeding("fed_checked.c.in")}
        names["text"] = self._text(".c.in", "loaded.c.in")
        return self._filled("checked.c.in", names | self._sizes())

    def _constant_array(self) -> str:
        return filled_array(f"static const unsigned char {self.name}_constants", self._constants)

    def _sizes(self) -> dict[str, str]:
        m, state = self.memory, f"{self.name}_state"
        names = {"arena": str(max(m.arena + m.scratch, 1)), "scratch": str(m.scratch), "scratch_at": str(m.arena)}
        names |= {"state": state if m.state else "NULL", "state_bytes": str(m.state)}
        return names | {"state_array": f"unsigned char {state}[{m.state}] ALIGNED;\n" if m.state else ""}

    def _feeding(self, template: str) -> str:
        """Return a text about the input that is fed; "" where there is none."""
        if self.model.fed is None:
            return ""
        t = self.model.tensors[self.model.inputs[self.model.fed]]
        return self._filled(template, {"row": str(t.bytes // t.dims[1]), "zero": str(t.zero_point & 255)})

    def _text(self, suffix: str, *before: str) -> str:
        """Return the functions that make tokens of a text, or their declarations; "" where the model has none."""
        t = self.model.tokens
        if t is None:
            return ""
        size, writes = int(np.prod(self.model.tensors[self.model.inputs[t.token]].dims)), list[str]()
        for k, i in enumerate(self.model.inputs):
            value = "0" if k == t.position else "i < used" if k == t.length else "token"
            kind = _C_TYPE[self.model.tensors[i].dtype]
            writes.append(f"{self.name}_input{k or ''}()[i] = ({kind})({value});")
        names = {"size": str(size), "writes": "\n        ".join(writes), "bytes": str(len(self._pieces) - 4)}
        names["pieces"] = filled_array("static const unsigned char pieces", self._pieces)
        parts = [*before, f"text{suffix}", *([f"text_inputs{suffix}"] if t.has("CLASSES") else [])]
        return "".join(self._filled(part, names) for part in parts) + ("\n" if suffix == ".h.in" else "")

    def _golden(self) -> str:
        m, at, moves = self.model, 0, list[str]()
        vectors = b"".join(np.ascontiguousarray(x).tobytes() for g in self.vectors for x in g.inputs)
        for k, i in enumerate(m.inputs):
            size, to = m.tensors[i].bytes, f"{self.name}_input{k or ''}()"
            if k == m.fed:
                moves += [f"const unsigned char *rows = x + {at};", f"{self.name}_set_feed(feed, &rows);"]
            else:
                moves.append(f"memcpy({to}, x + {at}, {size});")
            at += size
        sums = [
            f"crc = sum(crc, (const unsigned char *){self.name}_output{k or ''}(), {m.tensors[i].bytes});"
            for k, i in enumerate(m.outputs)
        ]
        array = filled_array("static const unsigned char golden", vectors)
        names = {"golden": array, "count": str(len(self.vectors)), "bytes": str(at)}
        names |= {"moves": "\n        ".join(moves), "sums": "\n        ".join(sums)}
        names |= {"feed": self._feeding("fed_golden.c.in"), "end": self._feeding("fed_end.c.in")}
        return self._filled("golden.c.in", names)

    @property
    def golden_crc(self) -> int:
        """The CRC-32 of all outputs of the golden vectors."""
        crc = 0
        for g in self.vectors:
            for y in g.outputs:
                crc = zlib.crc32(np.ascontiguousarray(y).tobytes(), crc)
        return crc


def refuse(model: ModelFile) -> None:
    """Raise MicaError for what only MicroPython can do."""
    for step in model.steps:
        if step.kernel == CUSTOM.name:
            raise MicaError(f"{step.name}: a custom operator runs in MicroPython only", todo="cut the model before it")


def identifier(stem: str) -> str:
    """Return a name for functions, from that of a file."""
    name = re.sub(r"\W", "_", stem, flags=re.A).lower()
    return name if name[:1].isalpha() and name not in _TAKEN.split() else f"model_{name}"


def one_line(text: str) -> str:
    """Return a text that continues no comment on the next line, as a backslash or a trigraph would at its end."""
    return text.replace("\\", "/").replace("?", ".")


def c_string(text: str) -> str:
    """Return a literal of C. Bytes that are not plain ASCII are octal; so are question marks, for trigraphs."""
    plain = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode())
    return f'"{plain}"'


def filled_array(name: str, data: bytes) -> str:
    """Return a constant array of bytes."""
    rows = (data[i : i + 24] for i in range(0, len(data) or 1, 24))
    lines = "".join("    " + ", ".join(map(str, row or b"\0")) + ",\n" for row in rows)
    return f"{name}[] __attribute__((aligned(16))) = {{\n{lines}}};\n"
