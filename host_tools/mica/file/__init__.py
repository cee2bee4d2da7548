"""A .mica file in memory: `codec` reads and writes it, `check` says what a step may be."""
