# The format of .mica files that the board's engine reads.
import _mica

print("mica:engine", ".".join([str(v) for v in _mica.info().format]))
