# A streaming model: it is given a picture row by row and keeps the seven rows before (mica pack --window x:2=1).
# boards: UNIX MPS2_AN385
import mica

picture = """
    . . 5 9 9 1 . .
    . . 9 f 9 f 5 .
    . 3 f 2 . b 8 .
    . 4 c . . 8 8 .
    . 5 8 . . 9 8 .
    . 4 b . 1 c 7 .
    . 2 e 5 a c . .
    . . 6 d 9 . . .
"""
rows = [[0 if c == "." else (int(c, 16) + 1) / 16 for c in row.split()] for row in picture.split("\n")[1:9]]

m = mica.Model("digits_rows.mica")
print("a run takes", m.input_shape[0])
for row in rows:
    p = m.predict([row])[0]
print("it is", p.index(max(p)), "with", m.ram, "bytes of RAM")
m.reset()  # all rows are forgotten
print("after one row:", max(m.predict([rows[0]])[0]) < max(p))
#: a run takes (1, 1, 1, 8)
#: it is 0 with ... bytes of RAM
#: after one row: True
