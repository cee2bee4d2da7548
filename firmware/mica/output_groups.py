"""Outputs that are parts of one array, as the file's metadata `joins` says: each part has a scale of its own.

A line for each array that predict() returns: how many outputs are its parts, the axis along which they lie one behind
the other, and its name. Files that need this module say so in their header; other files never load it.
"""


class OutputGroup:
    """One array: its name, shape, and outputs `first` to `first + parts` of the model."""

    def __init__(self, m: _mica.Model, name: str, first: int, parts: int, axis: int) -> None:
        shapes = [m.tensor(m.outputs[i]).shape for i in range(first, first + parts)]
        shape = shapes[0]
        for s in shapes:
            if len(s) != len(shape) or s[:axis] != shape[:axis] or s[axis + 1 :] != shape[axis + 1 :]:
                raise ValueError("output groups: parts of " + name + " that do not fit; pack the model again")
        self.name = name
        self.first = first
        self.parts = parts
        self.rows: int = _size(shape[:axis])  # runs of each part that lie between those of the others
        self.runs: list[int] = [_size(s[axis:]) for s in shapes]
        if parts > 1:
            shape = shape[:axis] + (sum([s[axis] for s in shapes]),) + shape[axis + 1 :]
        self.shape: tuple[int, ...] = shape

    def read(self, m: _mica.Model) -> Any:
        """Return the array of the last run, a flat list of floats."""
        parts = [m.read(self.first + k) for k in range(self.parts)]
        y = parts[0]
        if self.parts == 1:
            return y
        if self.rows == 1:
            for part in parts[1:]:
                y.extend(part)
            return y
        y = []
        for row in range(self.rows):
            for part, n in zip(parts, self.runs):
                y.extend(part[row * n : (row + 1) * n])
        return y

    def read_into(self, m: _mica.Model, y: Any) -> None:
        """Write the array into a buffer of floats."""
        if self.parts == 1:
            m.read_into(self.first, y)
            return
        runs = self.runs
        width = sum(runs)
        if len(y) != width * self.rows or not isinstance(y[0], float):
            raise ValueError(
                f"{self.name} has parts with scales of their own: {width * self.rows} floats are expected; its "
                "integers are output(i)"
            )
        view = memoryview(y)
        at = 0
        for k in range(self.parts):
            n = runs[k]
            if self.rows == 1:
                m.read_into(self.first + k, view[at : at + n])
            else:
                part = m.read(self.first + k)
                for j in range(len(part)):
                    view[j // n * width + at + j % n] = part[j]
            at += n

    def top(self, m: _mica.Model, k: int, largest: Callable[[Any, int], list[int]]) -> list[tuple[int, float]]:
        """Return [(place, value), ...] of the k largest; largest(y, k) finds those of one part."""
        found = []
        width = sum(self.runs)
        at = 0
        for part in range(self.parts):
            n = self.runs[part]
            t = m.tensor(m.outputs[self.first + part])
            y = m.output(self.first + part)
            whole = t.dtype == "f"
            for j in largest(y, k):
                value = y[j] if whole else (y[j] - t.zero_point) * t.scale
                found.append((-value, j // n * width + at + j % n))
            at += n
        found.sort()
        return [(place, -value) for value, place in found[:k]]


def _size(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def read(m: _mica.Model, text: str) -> list[OutputGroup]:
    """Return the arrays of a model. Raises ValueError where they are not those of its outputs."""
    groups = []
    at = 0
    for line in text.split("\n"):
        words = line.split(" ", 2)
        try:
            parts = int(words[0])
            axis = int(words[1])
            name = words[2]
        except (ValueError, IndexError):
            parts = 0
        if not 1 <= parts <= len(m.outputs) - at or axis < 0:
            raise ValueError("output groups: '" + line + "' is no number of parts, axis and name; pack the model again")
        if parts > 1 and axis >= len(m.tensor(m.outputs[at]).shape):
            raise ValueError("output groups: no axis " + str(axis) + " in " + name + "; pack the model again")
        groups.append(OutputGroup(m, name, at, parts, axis))
        at += parts
    if at != len(m.outputs):
        raise ValueError("output groups: some outputs belong to no array; pack the model again")
    return groups
