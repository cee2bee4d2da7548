"""`python -m mica` is the command `mica`."""

import sys

from mica.cli.main import main

sys.exit(main())
