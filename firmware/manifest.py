# Frozen into every firmware: the runtime package. A board's manifest includes this one after its port's own.
# With fallback=False the kernels in MicroPython stay out.
import os

options.defaults(fallback=True)
files = None
if not options.fallback:
    files = sorted(name for name in os.listdir("mica") if name.endswith(".py"))
package("mica", files=files)
