"""The commands, one a file; `main.py` lists them."""
