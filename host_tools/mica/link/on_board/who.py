# Which Python this is, and on what machine.
import os
import sys

print(sys.implementation.name, getattr(sys.implementation, "_machine", None) or os.uname().machine)
