#!/usr/bin/env bash
# Draws the masked half of every picture of a folder with `kiln run` and lets the judge look at the results.
#   tests/judge/measure-inpaint.sh PICTURES OUT [kiln run option ...]
# PICTURES is what `python3 -m shapes.measure_inpaint pictures PICTURES` (in scripts) made: NNN.png, prompts.txt (seed<tab>prompt)
# and boxes.txt (left, top, width, height of what is masked). The judge's last line is the score.
# WORKFLOW: another workflow with the parameters image, prompt, seed, x, y, width and height.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${KILN_BUILD:-build/release}
[ $# -ge 2 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
pictures=$(realpath "$1") out=$2; shift 2
mkdir -p "$out" && : >"$out/list.tsv" || exit 2
number=0
while IFS=$'\t' read -r seed prompt && read -r x y width height <&3; do
    image=$(printf '%s/%03d.png' "$pictures" $number)
    path=$("$build/kiln" run "${WORKFLOW:-workflows/inpaint.yaml}" --quiet --set "image=$image" --set "prompt=$prompt" --set "seed=$seed" \
        --set "x=$x" --set "y=$y" --set "width=$width" --set "height=$height" --out "$out" "$@" </dev/null | tail -n 1)
    [ -s "$path" ] || { echo "measure-inpaint: no picture for \"$prompt\" ($image)" >&2; exit 1; }
    printf '%s\t%s\n' "$path" "$prompt" >>"$out/list.tsv"
    number=$((number + 1))
done <"$pictures/prompts.txt" 3<"$pictures/boxes.txt"
"$build/tests/judge/judge" --list "$out/list.tsv" --at-least "${AT_LEAST:-0}" | tee "$out/report.txt"
exit "${PIPESTATUS[0]}"
