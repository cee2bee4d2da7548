# models: labelled unscored places
# The output that holds scores, beside one that holds the number of a class: top() finds it, and so does a Supervisor.
import mica

m = mica.Model(labelled)
print(m.predict([[1, 5, 2]]))
print(m.top(), m.top(2), m.top(1, 1), m.top(1, "scores"))
fails(m.top, 1, 0)
fails(m.top, 1, "label")
fails(m.top, "3")
print(m.top(2, m.predict([[1, 5, 2]])[1]) == m.top(2), m.top(1, [0.25, 0.5, 0.125]))
s = mica.Supervisor(labelled)
print(s.predict([[3, 1, 2]]), s.top(2))
fails(s.top, 1, 0)

# None of them holds scores.
m = mica.Model(unscored)
print(m.predict([[1, 5, 2]]), m.top(1, 1))
fails(m.top)
m = mica.Model(places)
m.predict([[0] * 15])
fails(m.top)
try:
    m.predict([[0] * 15], [1])
except TypeError:  # whose words are each port's own
    print("TypeError")
