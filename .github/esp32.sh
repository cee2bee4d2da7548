#!/bin/bash
# Builds the firmware of an ESP32 board into a folder, with the ESP-IDF that IDF_PATH names.
#   .github/esp32.sh BOARD FOLDER
set -euo pipefail
board=${1:?which board?} folder=${2:?into which folder?}
root=$(cd "$(dirname "$0")/.." && pwd)
python3 -m venv "$root/.venv-esp32"
"$root/.venv-esp32/bin/python" -m pip install --quiet --disable-pip-version-check "$root"
mkdir -p "$folder"
"$root/.venv-esp32/bin/mica" build --board "$board" -o "$folder/$board.bin"
