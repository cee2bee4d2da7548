"""The bytes of a .mica file: `schema` defines them; names, words, values and layouts of weights are checked here."""
