# Loads a model, and has it check its golden vectors.
def _mica_try_model(path):
    import binascii

    import mica

    m = mica.Model(path)
    bad = m.selftest() if m._m.info.n_golden else None
    print("mica:selftest", "none" if not m._m.info.n_golden else "bad" if bad else "passed")
    if bad:
        print("mica:layer", bad.index, str(binascii.hexlify(bad.name.encode()), "ascii"))
