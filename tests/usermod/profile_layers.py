# models: small two
# Times of layers: a table, bars, a trace.
import json

import mica

m = mica.Model(small)
p = m.profile(3, [mica.Quantised(small_x)])
print(len(p.us), p.runs, p.total >= 0, p.overhead >= 0, all(us >= 0 for us in p.us))
lines = repr(p).split("\n")
print(len(lines), lines[0])
for line in lines[1:]:
    print(line.split()[-3:])
p.us[0], p.us[1], p.us[2], p.us[3], p.us[4], p.total = 400, 200, 100, 0, 300, 1250
print(p)
p.chart(20)
text = []
p.trace(text.append)
trace = json.loads("".join(text))
events = trace["traceEvents"]
print(len(events), [(e["name"], e["ts"], e["dur"], e["args"]["macs"], e["args"]["in"]) for e in events])
print({(e["ph"], e["pid"], e["tid"]) for e in events})
print(bytes(m.output()) == small_y)
with m.hook("conv*"):
    print(len(m.profile(1).us))
for runs in (0, -1, 10001, 1 << 70):
    try:
        m.profile(runs)
    except ValueError as e:
        print(e)
print(m.arena.busy)
