"""The build beyond pyproject.toml: the optional C engine, and the project's folders that travel in the wheel.

boards/, firmware/, usermod_c/ and host_tools/web/ become mica/_data/...
in a wheel (read through mica.resources), because `mica build` and `mica web` need them outside a checkout too.
"""

import os
import re
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "host_tools"))

from mica.toolchain import stubs  # noqa: E402
from mica.toolchain.source_lists import listed  # noqa: E402

DATA = ("boards", "firmware", "usermod_c", "host_tools/web")
# No debug information, which Python's own flags ask for (four fifths of the file).
SMALL = ("-g0", "-fno-asynchronous-unwind-tables", "-ffunction-sections")


class BuildWithData(build_py):
    """Writes the runtime's stubs and copies the data folders; an editable install reads them where they are."""

    def run(self) -> None:
        super().run()
        stubs.write(ROOT / "firmware")
        if self.editable_mode:
            return
        for name in DATA:
            target = Path(self.build_lib) / "mica" / "_data" / name
            shutil.rmtree(target, ignore_errors=True)
            pages = () if name == "host_tools/web" else ("*.md",)  # one travels with the engine of the web
            ignored = shutil.ignore_patterns("__pycache__", ".*", "*.o", "*.so", *pages)
            shutil.copytree(ROOT / name, target, ignore=ignored)


class BuildEngine(build_ext):
    """Exports the functions that ctypes calls, and no entry for Python."""

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return ext.export_symbols

    def build_extension(self, ext: Extension) -> None:
        """Build the library. On Linux all else is hidden, so the linker drops what no exported function reaches."""
        if sys.platform == "linux":
            exports = Path(self.build_temp) / "exports.map"
            exports.parent.mkdir(parents=True, exist_ok=True)
            exports.write_text(f"{{ global: {'; '.join(ext.export_symbols)}; local: *; }};\n", encoding="utf-8")
            ext.extra_link_args += [f"-Wl,--version-script={exports}", "-Wl,--gc-sections"]
        super().build_extension(ext)


def engine() -> list[Extension]:
    """Return the engine, a shared library that ctypes opens; without a C compiler numpy takes its place."""
    engine_list = ROOT / "usermod_c" / "sources.txt"
    if not engine_list.exists():
        return []
    calls = ROOT / "host_tools" / "mica" / "engine" / "native.py"
    kernels = ROOT / "usermod_c" / "kernels" / "isa" / "x86"
    files = (*listed(engine_list), *listed(kernels / "sources.txt"))
    sources = [Path(os.path.relpath(path, ROOT)).as_posix() for path in files]
    return [
        Extension(
            "mica.engine._engine",
            sources=sources,
            export_symbols=[
                *re.findall(r'^    "(mica_\w+)":', calls.read_text(encoding="utf-8"), re.M),
                "mica_x86_limit",
            ],
            depends=[str(path.relative_to(ROOT)) for path in (ROOT / "usermod_c").rglob("*.h")],
            include_dirs=["usermod_c/include", "usermod_c/kernels", "usermod_c/kernels/isa/x86"],
            extra_compile_args=["-O2", "-ftree-vectorize", "-std=c99", "-Werror=implicit-function-declaration", *SMALL],
            extra_link_args=["-Wl,-s"] if sys.platform == "linux" else [],
            py_limited_api=True,
            optional=True,
        )
    ]


# One wheel for every Python from 3.11: the engine knows nothing of Python, and nothing else is compiled.
setup(
    ext_modules=engine(),
    cmdclass={"build_ext": BuildEngine, "build_py": BuildWithData},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
