from _mica import Arena as Arena
from _mica import Quantised as Quantised
from _mica import cores as cores
from _mica import info as info

from . import analog as analog
from . import audio as audio
from . import boxes as boxes
from . import camera as camera
from . import hooks as hooks
from . import kernels as kernels
from . import motion as motion
from . import operators as operators
from . import pictures as pictures
from . import remote as remote
from . import remote_push as remote_push
from . import slots as slots
from . import wav as wav
from .layer import Layer as Layer
from .model import Model as Model
from .model import register as register
from .supervisor import Supervisor as Supervisor
from .text import complete as complete
from .text import generate as generate

__version__: str
