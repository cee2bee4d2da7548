# Advice of a MemoryError, with a heap of which the free bytes and the largest piece are known: only what helps is said.
import gc
from mica import memory

def say(text, copy=0, window=True, free=60000, used=20000, piece=50000):
    memory._window = lambda: window
    memory.largest = lambda: piece
    class G:
        mem_free = staticmethod(lambda: free)
        mem_alloc = staticmethod(lambda: used)
    memory.gc = G
    print(str(memory.explained(MemoryError(text), copy)).split("Try: ")[1])
say("x.mica: a copy of the file takes 55000 bytes")
say("x.mica: a copy of the file takes 90000 bytes")
say("x.mica: a copy of the file takes 90000 bytes", window=False)
say("x.mica: a copy of the file takes 90000 bytes", window=False, used=150000)
say("its tensors and scratch take 70000 bytes, more than the static arena's 16384", copy=40000)
say("its tensors and scratch take 170000 bytes, more than the static arena's 16384", copy=40000)
say("its tensors and scratch take 70000 bytes, more than the static arena's 16384")
