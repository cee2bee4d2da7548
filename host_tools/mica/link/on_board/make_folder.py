def _mica_make_folder(path):
    import os

    try:
        os.mkdir(path)
    except OSError as e:
        if e.errno != 17:  # it is there
            raise
