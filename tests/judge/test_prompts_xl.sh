#!/usr/bin/env bash
# shapes-xl draws what prompts it never saw in training ask for, and its refiner lowers the colour error (docs/models/shapes-xl.md): every
# eighth of prompts-200.txt, through the shipped workflows. The page has the scores of all; here the limits leave room for another
# processor's rounding: three pictures of 25 may be wrong, and the error must fall by a tenth.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
build=${KILN_BUILD:-build/release}
case $build in /*) ;; *) build=$root/$build ;; esac
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
grep -v '^#' "$here/prompts-200.txt" | awk 'NR % 8 == 1' >"$folder/prompts.txt"

measure() { # NAME WORKFLOW
    AT_LEAST=22 WORKFLOW=$root/workflows/$2 bash "$here/measure.sh" "$folder/prompts.txt" "$folder/$1" || { echo "FAIL prompts $1"; return; }
    echo "ok prompts $1"
}
error_of() { "$build/tests/judge/judge" --colour-error "$folder/$1/list.tsv" | awk 'END { print $NF }'; }

measure base sdxl.yaml
measure refined sdxl-base-refiner.yaml
base=$(error_of base) refined=$(error_of refined)
echo "colour error $base, refined $refined"
if awk -v b="$base" -v r="$refined" 'BEGIN { exit !(r > 0 && r <= 0.9 * b) }'; then echo "ok refiner"; else echo "FAIL refiner"; fi
