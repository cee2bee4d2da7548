# Where the time goes: a table, bars, and a file for ui.perfetto.dev.
# boards: UNIX MPS2_AN385
import json

import mica

m = mica.Model("digits.mica")
p = m.profile(3)
print(p)
p.chart(30)
p.save("digits.json")
print(len(json.load(open("digits.json"))["traceEvents"]), "events")
#:        us  share  MMAC/s  in      layer
#: ...%...C       0 conv2d_s8 /conv1/Conv
#: ...%...C...
#: ...%...C...
#: ...%...C...
#: ...%...C...
#: ...%...C...
#: ...%...C...
#: ...%...C...
#: ...%...C...
#: ...%       -  Python  between layers
#: ... 100.0%...in all, best of 3
#: ...%
#: ...%
#: ...%
#: ...%
#: ...%
#: ...%
#: ...%
#: ...%
#: ...%
#: 9 events
