#!/bin/sh
# publish.sh FOLDER ASSETS [SIGNERS]: check a folder of scripts/release by its signature and sums, and copy into ASSETS the
# files that people take. SIGNERS: the public keys that may sign, .github/allowed_signers if it is not given.
# A release on GitHub has no folders, so the native modules travel as one archive.
set -eu
signers=$(realpath "${3:-$(dirname "$0")/allowed_signers}")
mkdir "$2"
assets=$(cd "$2" && pwd)
cd "$1"
ssh-keygen -Y verify -q -f "$signers" -I mica -n mica -s SHA256SUMS.sig <SHA256SUMS
sha256sum --check --strict --quiet SHA256SUMS
find . -maxdepth 1 -type f ! -name index.html ! -name '*.json' ! -name install.py -exec cp {} "$assets" \;
cp pure/*.whl sbom.json manifest.json "$assets"
tar -czf "$assets/mica-mip.tar.gz" install.py ./*.json package file mica ./*/_mica.mpy
{
    echo "How to install: host_tools/docs/install.md. SHA-256:"
    (cd "$assets" && sha256sum -- *.whl *.uf2)
} >"$assets.notes"
mv "$assets.notes" "$assets/NOTES.txt"
