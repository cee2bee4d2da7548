include("../../../boards/UNIX/manifest.py")
