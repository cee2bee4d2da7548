# Reads a handwritten digit: 8x8 grey values in, a probability for each class out.
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
x = [0 if c == "." else (int(c, 16) + 1) / 16 for c in picture.split()]

m = mica.Model("digits.mica")  # in the current folder, or in /rom
p = m.predict([x])[0]
print(m)
print("it is", m.labels[p.index(max(p))])
#: <mica.Model digits: 9 layers, ... bytes, 1x1x8x8 -> 1x10>
#: it is 0
