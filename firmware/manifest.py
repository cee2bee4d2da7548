# Frozen into every firmware: the runtime package. A board's manifest includes this one after its port's own.
# With fallback=False the kernels in MicroPython stay out; with extras="fleet" the package mica_fleet comes in.
import os

options.defaults(fallback=True, extras="")
files = sorted(name for name in os.listdir("mica") if name.endswith(".py"))
if options.fallback:
    files += sorted("fallback/" + name for name in os.listdir("mica/fallback") if name.endswith(".py"))
package("mica", files=files)
for name in filter(None, options.extras.split(",")):
    package("mica_" + name)
