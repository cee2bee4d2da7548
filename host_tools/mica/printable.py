"""Text of somebody else's, from an ONNX file, a .mica file or a board, made fit for a terminal."""


def printable(text: str) -> str:
    """The text in one line for people: what would break the line, move the cursor or cannot be written becomes '?'."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def printable_lines(text: str) -> str:
    """The same of a text of many lines."""
    return "\n".join(printable(line) for line in text.split("\n"))
