# The version of mica on the board. Raises ImportError where it has none.
import mica

print("mica:version", getattr(mica, "__version__", "?"))
