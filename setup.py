"""The build beyond pyproject.toml: the optional C engine, and the project's folders that travel in the wheel.

boards/, firmware/, usermod_c/ and host_tools/web/ become mica/_data/... in a wheel (read through mica.resources), because
`mica build` and `mica web` need them outside a checkout too.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "host_tools"))

from mica.toolchain import stubs  # noqa: E402
from mica.toolchain.source_lists import listed  # noqa: E402

DATA = ("boards", "firmware", "usermod_c", "host_tools/web")
# No debug information, which Python's own flags ask for (four fifths of the file), no symbols but the module's entry, no unused functions.
SMALL = ("-g0", "-fvisibility=hidden", "-fno-asynchronous-unwind-tables", "-ffunction-sections", "-fdata-sections")


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


def engine() -> list[Extension]:
    """The engine as a CPython extension; without a C compiler it is left out and numpy takes its place."""
    binding = ROOT / "host_tools" / "mica" / "engine" / "_engine.c"
    engine_list = ROOT / "usermod_c" / "sources.txt"
    if not binding.exists() or not engine_list.exists():
        return []
    kernels = ROOT / "usermod_c" / "kernels" / "isa" / "x86"
    files = (*listed(engine_list), *listed(kernels / "sources.txt"))
    sources = [Path(os.path.relpath(path, ROOT)).as_posix() for path in files]
    return [
        Extension(
            "mica.engine._engine",
            sources=[
                "host_tools/mica/engine/_engine.c",
                "host_tools/mica/engine/_kernels.c",
                *sources,
            ],
            depends=[str(path.relative_to(ROOT)) for path in (ROOT / "usermod_c").rglob("*.h")],
            include_dirs=["usermod_c/include", "usermod_c/kernels", "usermod_c/kernels/isa/x86"],
            extra_compile_args=["-O2", "-ftree-vectorize", "-std=c99", "-Werror=implicit-function-declaration", *SMALL],
            extra_link_args=["-Wl,-s,--gc-sections"] if sys.platform == "linux" else [],
            define_macros=[("Py_LIMITED_API", "0x030B0000")],
            py_limited_api=True,
            optional=True,
        )
    ]


# One wheel for every Python from 3.11: the engine keeps to the stable ABI, and nothing else is compiled.
setup(
    ext_modules=engine(),
    cmdclass={"build_py": BuildWithData},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
