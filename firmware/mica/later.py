"""Stand-ins for the modules of mica, and for names in them, until they are used: a program pays no RAM for the rest."""

import sys

boots = False  # slots.boot() has looked at the halves of /rom on this board
homes = {}  # by id of what stands for it: a module, or a module and a name in it


class Later:
    """Stands for a module, or a name in one, until its first use.
    dir(), help() and TAB look at every name of mica: they find this, and import nothing."""

    def _get(self):
        home, _, name = homes[id(self)].partition(".")
        value = __import__("mica." + home, None, None, (home,))
        if name:
            value = getattr(value, name)
            setattr(sys.modules["mica"], name, value)
        return value

    def __getattr__(self, name):
        return getattr(self._get(), name)

    def __setattr__(self, name, value):
        setattr(self._get(), name, value)

    def __call__(self, *args, **kwargs):
        return self._get()(*args, **kwargs)

    def __dir__(self):
        return dir(self._get())

    def __repr__(self):
        return f"<mica.{homes[id(self)]}, imported when it is first used>"


def later(home: str) -> Any:
    """Return what stands for a module of mica, or for "MODULE.NAME"."""
    value = Later()
    homes[id(value)] = home
    return value
