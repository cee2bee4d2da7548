// Stands in for ESP-IDF's: a chip with two cores, unless -DCONFIG_FREERTOS_UNICORE=1.
