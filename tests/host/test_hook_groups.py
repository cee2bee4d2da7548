"""Groups of operators that hooks are chosen by: every kernel of the format is in exactly one."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from mica.kernels import KERNELS

HOOKS = Path(__file__).resolve().parent.parent.parent / "firmware" / "mica" / "hooks.py"


def test_every_kernel_is_in_one_group() -> None:
    assigned = {
        ast.unparse(node.targets[0]): node.value
        for node in ast.parse(HOOKS.read_text()).body
        if isinstance(node, ast.Assign)
    }
    groups = ast.literal_eval(assigned["GROUPS"])
    count = Counter(name for group in groups for name in group[1:])
    assert {name for name, n in count.items() if n > 1} == set()
    assert set(count) == {kernel.name for kernel in KERNELS}
    # Where an operator has a group's name, it is one of the group.
    for group in groups:
        assert group[0] + "_s8" not in set(count) - set(group[1:])
