include("../common/rp2/manifest.py")
