# An ESP32's partition table. Raises ImportError elsewhere.
import esp32

for t in (esp32.Partition.TYPE_APP, esp32.Partition.TYPE_DATA):
    for p in esp32.Partition.find(t):
        print("mica:partition", *p.info()[:4], p.info()[4])
