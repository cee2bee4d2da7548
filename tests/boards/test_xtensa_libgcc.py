"""The arithmetic that is missing in Debian's libgcc for the lx106, compared with this computer's own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from mica.resources import data_dir

DRIVER = Path(__file__).with_name("xtensa_libgcc_driver.c")


def test_equal_to_the_hosts_arithmetic(tmp_path: Path) -> None:
    source = data_dir("boards") / "common" / "qemu" / "xtensa_libgcc.c"
    names = sorted(set(re.findall(r"\b__(\w*[sd][fi]\w*)\(", source.read_text(encoding="utf-8"))))
    assert len(names) == 20
    renamed = [f"-D__{name}=ours_{name}" for name in names]
    objects = [str(tmp_path / "ours.o"), str(tmp_path / "driver.o")]
    # The warnings about functions without prototypes aside: the compiler, not a header, calls these.
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["gcc", *strict, *renamed, "-c", source, "-o", objects[0]], check=True)
    subprocess.run(["gcc", *strict, "-ffp-contract=off", "-c", DRIVER, "-o", objects[1]], check=True)
    program = tmp_path / "compare"
    subprocess.run(["gcc", *objects, "-o", program], check=True)
    result = subprocess.run([program], capture_output=True, text=True, check=False)
    assert result.stdout == "equal\n"
