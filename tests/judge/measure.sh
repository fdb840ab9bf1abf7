#!/usr/bin/env bash
# Draws every prompt of a list with `kiln run` and lets the judge look at the pictures.
#   tests/judge/measure.sh PROMPTS OUT [kiln run option ...]      PROMPTS: lines of seed<tab>prompt
#   WORKFLOW=workflows/sdxl.yaml tests/judge/measure.sh ...       another workflow with the parameters prompt and seed
# Prints the judge's lines, the last of which is the score. OUT keeps the pictures, list.tsv and report.txt.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${KILN_BUILD:-build/release}
[ $# -ge 2 ] || { sed -n '2,5p' "$0" >&2; exit 2; }
prompts=$1 out=$2; shift 2
mkdir -p "$out" && : >"$out/list.tsv" || exit 2
while IFS=$'\t' read -r seed prompt; do
    case $seed in ''|'#'*) continue ;; esac
    path=$("$build/kiln" run "${WORKFLOW:-workflows/txt2img.yaml}" --quiet --set "prompt=$prompt" --set "seed=$seed" --out "$out" "$@" </dev/null | tail -n 1)
    [ -s "$path" ] || { echo "measure: no picture for \"$prompt\" (seed $seed)" >&2; exit 1; }
    printf '%s\t%s\n' "$path" "$prompt" >>"$out/list.tsv"
done <"$prompts"
"$build/tests/judge/judge" --list "$out/list.tsv" --at-least "${AT_LEAST:-0}" | tee "$out/report.txt"
exit "${PIPESTATUS[0]}"
