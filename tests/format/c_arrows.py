"""Arrows between files of C, and circles among them."""

Arrows = dict[str, set[str]]  # file -> those that it needs


def circles(arrows: Arrows) -> list[set[str]]:
    """Groups of files of which each reaches the others."""
    reach = {a: set(b) for a, b in arrows.items()}
    for via in reach:
        for a in reach:
            if via in reach[a]:
                reach[a] |= reach[via]
    found = {frozenset({b for b in reach[a] if a in reach[b]} | {a}) for a in reach if a in reach[a]}
    return [set(c) for c in found]
