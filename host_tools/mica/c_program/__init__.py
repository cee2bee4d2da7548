"""A model as a C program: the folder that `mica cc` writes."""
