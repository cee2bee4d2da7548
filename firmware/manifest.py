# Frozen into every firmware: the runtime package. A board's manifest includes this one after its port's own.
# With fallback=False the kernels in MicroPython stay out; stubs="DIR" has DIR/mica/NAME.py in the place of some
# modules; with extras="fleet" the package mica_fleet comes in. install.py is for boards whose firmware has no engine.
import os

options.defaults(fallback=True, extras="", stubs="")
stubs = sorted(os.listdir(options.stubs + "/mica")) if options.stubs else []
files = sorted(name for name in os.listdir("mica") if name.endswith(".py") and name not in ["install.py", *stubs])
if options.fallback:
    files += sorted("fallback/" + name for name in os.listdir("mica/fallback") if name.endswith(".py"))
package("mica", files=files)
if stubs:
    package("mica", files=stubs, base_path=options.stubs)
for name in filter(None, options.extras.split(",")):
    package("mica_" + name)
