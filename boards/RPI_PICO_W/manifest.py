include("../common/rp2/manifest.py")
include("../../firmware/network.py")
