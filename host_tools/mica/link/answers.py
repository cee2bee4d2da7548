"""What a board prints for the host: lines that begin with `mica:`."""

from collections.abc import Iterator

from mica.errors import MicaError


class Answer:
    """The lines of a call that are meant for the host, by their first word."""

    def __init__(self, output: str, target: str) -> None:
        self.target = target
        self.output = output
        self.lines = [line[5:].split() for line in output.splitlines() if line.startswith("mica:")]

    def all(self, kind: str) -> Iterator[list[str]]:
        return (words[1:] for words in self.lines if words[0] == kind)

    def one(self, kind: str) -> list[str]:
        found = list(self.all(kind))
        if len(found) != 1:
            said = self.output.strip().splitlines()
            raise MicaError(f"{self.target}: gave no answer '{kind}'" + (f"; it said: {said[-1]}" if said else ""))
        return found[0]
