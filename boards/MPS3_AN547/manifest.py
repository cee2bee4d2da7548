include("../common/qemu/manifest.py")
