"""A step that no engine computes by itself: an operator of the user's own.
It is in no firmware, and in no list of kernels."""

import json
from typing import Any

from mica.format.schema import MAX_KERNEL_ID
from mica.kernels.base import Kernel, Tensor, Tensors
from mica.kernels.integers import Blobs, Params
from mica.kernels.rules import ANY_LENGTH, Broken


def custom_definition(definition: bytes) -> tuple[str, dict[str, Any]]:
    """Name and attributes of a custom operator. Raises ValueError if the bytes are not in their format."""
    found = json.loads(definition)
    sound = isinstance(found, dict) and isinstance(found.get("op"), str) and isinstance(found.get("attributes"), dict)
    if not sound:
        raise ValueError("expected an object with op and attributes")
    return found["op"], found["attributes"]


def _custom_constants(x: Tensors, y: Tensor, p: Params, blobs: Blobs) -> None:
    try:
        custom_definition(blobs["definition"].tobytes())
    except ValueError as e:
        raise Broken(f"the definition of a custom operator: {e}") from None


CUSTOM = Kernel(
    id=MAX_KERNEL_ID,
    name="custom_s8",
    n_inputs=4,
    blobs=(("definition", "u8"),),
    params=(),
    doc=(
        "An operator of the user's own. definition: JSON in UTF-8, an object with the strings `op`, its name, and "
        "`attributes`, an object. On a board y is what the function registered under that name makes of the inputs, "
        "one to four, of any shape; a board without such a function refuses the file."
    ),
    min_inputs=1,
    rules=lambda x, y, p: {"definition": (ANY_LENGTH,)},
    constants=_custom_constants,
)
