"""Files that go into a board's flash: ROMFS images and UF2."""
