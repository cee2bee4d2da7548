"""Front ends, which make features of sound: their words, their place in a graph, and those that a graph brings."""
