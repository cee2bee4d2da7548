"""Texts to labels, by a model packed with `--tokens` that takes a whole text: mica.classify(m, "text")."""


def classify(model: Model, text: str, k: int = 1) -> list[tuple[str | int, float]]:
    """Return the k largest scores of a text, [(label, score), ...], as m.top(k) does.

    Unknown words become the unknown token, and a text that is too long loses its end. Raises ValueError for a model
    that does not classify texts, or for a character that cannot be spelled where there is no unknown token.
    """
    m = model._m
    facts = m.tokens()
    if facts.padding is None:
        raise ValueError("classify: this model writes text; mica.generate() asks for it")
    if not isinstance(text, str):
        raise TypeError("classify: the text is a str")
    size = 1
    for d in m.tensor(m.inputs[facts.token]).shape:
        size *= d
    row = m.encode(text)
    if facts.begin is not None:
        row.insert(0, facts.begin)
    if facts.end is not None:
        del row[size - 1 :]
        row.append(facts.end)
    del row[size:]
    n = len(row)
    row += [facts.padding] * (size - n)
    inputs = [row] * len(m.inputs)
    if facts.position is not None:
        inputs[facts.position] = bytes(size)
    if facts.length is not None:
        inputs[facts.length] = b"\1" * n + bytes(size - n)
    m.begin()
    try:
        model._write(inputs)
        for step in model._steps:
            step()
        return model.top(k)
    finally:
        m.end()
