"""The .mica file: `schema` defines its bytes, `codec` reads and writes them, `check` says what a step may be."""
