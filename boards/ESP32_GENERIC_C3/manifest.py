include("../common/esp32/manifest.py")
