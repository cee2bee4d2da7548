"""A head that learns on a frozen network's embeddings: what mica.Learner does on a board, to the same bytes.

head = Head("softmax", width=64, model=digest(data))
head.teach(embedding, "yes")    # int8 [width]
head.predict(embedding)         # ("yes", 0.97), or None for something unknown
Path("head.learnt").write_bytes(head.state())
"""

from __future__ import annotations

from mica.learn.head import Head
from mica.learn.state import KINDS, digest

__all__ = ["KINDS", "Head", "digest"]
