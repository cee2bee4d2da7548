#!/bin/bash
# The step of the action `mica`: packs MODEL, asks whether it fits BOARD, compares each layer on TARGET, writes a table of sizes.
#
# Reads MODEL, CALIB, BOARD, TARGET and OPTIONS (words of `mica pack`); writes what GitHub names by GITHUB_OUTPUT and
# GITHUB_STEP_SUMMARY, where they are set. MICA names the command, where it is installed already.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ -z "${MICA-}" ]; then
    venv=$(mktemp -d)/venv
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$here/../../.."
    MICA=$venv/bin/mica
fi
packed=${MODEL%.*}.mica
read -ra options <<<"${OPTIONS-}"
[ -z "${CALIB-}" ] || options+=(--calib "$CALIB")
facts=$("$MICA" pack "$MODEL" -o "$packed" --json "${options[@]}")
fit=$("$MICA" fit "$packed" --board "$BOARD" --json)
verified="not asked for"
if [ -n "${TARGET-}" ]; then
    "$MICA" verify "$packed" --on "$TARGET"
    verified="every layer the same on $TARGET"
fi
summary=${RUNNER_TEMP:-$(mktemp -d)}/mica.md
FACTS=$facts FIT=$fit VERIFIED=$verified python3 - >"$summary" <<'END'
import json
import os

facts, fit = json.loads(os.environ["FACTS"]), json.loads(os.environ["FIT"])
time = fit["time"] or {}
clock = "" if time.get("milliseconds") is None else f", {time['milliseconds']:.3g} ms"
rows = {
    "file": f"{facts['size']:,} bytes",
    "tensors": f"{facts['arena_bytes']:,} bytes",
    "scratch": f"{facts['scratch_want']:,} bytes",
    "time on " + fit["board"]: f"{time['total']:,} {time['unit']}{clock}" if time else "never measured",
    "verified": os.environ["VERIFIED"],
}
print(f"### {os.path.basename(facts['file'])}\n\n| | |\n| --- | --- |")
print("\n".join(f"| {name} | {value} |" for name, value in rows.items()))
END
cat "$summary" >>"${GITHUB_STEP_SUMMARY:-/dev/stdout}"
printf 'file=%s\nsummary=%s\n' "$packed" "$summary" >>"${GITHUB_OUTPUT:-/dev/null}"
