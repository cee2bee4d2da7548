#!/bin/sh
# publish.sh FOLDER ASSETS: check a folder of scripts/release by its sums, and copy into ASSETS the files that people take.
# A release on GitHub has no folders, so the native modules travel as one archive.
set -eu
mkdir "$2"
assets=$(cd "$2" && pwd)
cd "$1"
sha256sum --check --strict --quiet SHA256SUMS
find . -maxdepth 1 -type f ! -name index.html ! -name '*.json' ! -name install.py -exec cp {} "$assets" \;
cp pure/*.whl sbom.json manifest.json "$assets"
tar -czf "$assets/mica-mip.tar.gz" install.py ./*.json package file mica ./*/_mica.mpy
{
    echo "How to install: host_tools/docs/install.md. SHA-256:"
    (cd "$assets" && sha256sum -- *.whl *.uf2)
} >"$assets.notes"
mv "$assets.notes" "$assets/NOTES.txt"
