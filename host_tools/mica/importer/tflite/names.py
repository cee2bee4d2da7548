"""Short names for tensors: TensorFlow's tell the whole history of one.

model/batch_normalization/FusedBatchNormV3;model/conv2d/BiasAdd;model/conv2d/Conv2D1   =>   conv2d/Conv2D1
serving_default_input_1:0                                                              =>   input_1
"""

from mica.format.names import clean

LONGEST = 40
# Steps of TensorFlow's way to a variable, which say nothing about the layer.
IDLE = ("ReadVariableOp", "resource", "BiasAdd", "read")


class Names:
    """Hands out names, each once."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def short(self, name: str, fallback: str) -> str:
        return self.unique(shortened(name) or fallback)

    def unique(self, base: str) -> str:
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}.{k}"
        self.taken.add(name)
        return name


def shortened(name: str) -> str:
    """The layer and the operator, from the text behind the last ';' of a name."""
    last = clean(name.rsplit(";", 1)[-1]).removeprefix("serving_default_").removesuffix(":0").strip("/ ")
    parts = [p for p in last.split("/") if p.rstrip("0123456789") not in IDLE] or [last]
    return "/".join(parts[-2:])[-LONGEST:].strip()
