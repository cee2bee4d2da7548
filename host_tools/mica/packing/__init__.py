"""Integer graph + plan -> the bytes of a .mica file."""
