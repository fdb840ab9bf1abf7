#!/usr/bin/env bash
# measure-scenes.sh controlnet|sdxl-controlnet|ip-adapter OUT [COUNT [OPTION...]] - how well a workflow follows pictures: COUNT (100) scenes of
# tests/judge/scenes that nothing was trained on.
#   controlnet, sdxl-controlnet   each is drawn anew along its edges with its own caption; how much the things of both overlap (judge --overlap:
#                 intersection over union), and the mean
#   ip-adapter    each is seen and drawn anew without a word; whether what was drawn shows the scene's caption
# OPTIONs go to `kiln run`.
cd "$(dirname "$0")/../.." || exit 2
usage="usage: measure-scenes.sh controlnet|sdxl-controlnet|ip-adapter OUT [COUNT [OPTION...]]"
workflow=${1:?$usage} out=${2:?$usage} count=${3:-100}
case $workflow in controlnet|sdxl-controlnet|ip-adapter) ;; *) echo "$usage" >&2; exit 2 ;; esac
shift "$(($# < 3 ? $# : 3))"
build=${KILN_BUILD:-build/release} scenes=$PWD/tests/judge/scenes
if [ -n "$(ls -A "$out" 2>/dev/null)" ]; then echo "measure-scenes: $out is not empty; name a new folder" >&2; exit 2; fi
mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
head -n "$count" "$scenes/captions.txt" >"$out/captions.txt"
awk -F'\t' -v h="$scenes" -v said="$workflow" 'BEGIN { print "image,prompt" } { print h "/" $1 ".png," (said != "ip-adapter" ? $2 : "\"\"") }' "$out/captions.txt" >"$out/rows.csv"
"$build/kiln" run "workflows/$workflow.yaml" --over-file "$out/rows.csv" --out "$out/drawn" --quiet "$@" >/dev/null || exit 1
# The pictures in the order of the rows.
python3 -c 'import json, sys
rows = sorted((json.loads(line) for line in open(sys.argv[1] + "/manifest.jsonl")), key=lambda r: r["row"])
print("\n".join(sys.argv[1] + "/" + r["files"][0] for r in rows))' "$out/drawn" >"$out/drawn.txt" || exit 1
if [ "$workflow" = ip-adapter ]; then
    paste "$out/drawn.txt" <(cut -f 2 "$out/captions.txt") >"$out/list.tsv"
    exec "$build/tests/judge/judge" --list "$out/list.tsv" --at-least 0
fi
i=0
while read -r drawn; do
    "$build/tests/judge/judge" --overlap "$(printf '%s/%03d.png' "$scenes" $i)" "$drawn" || exit 1
    i=$((i + 1))
done <"$out/drawn.txt" | tee "$out/overlaps.txt"
[ "$(wc -l <"$out/overlaps.txt")" -eq "$(wc -l <"$out/drawn.txt")" ] || exit 1
sort -n "$out/overlaps.txt" | awk '{ all[NR] = $1; sum += $1; good += $1 >= 0.8 } END { if (!NR) exit 1
    printf "%d pictures along edges: mean overlap %.4f, median %.4f, least %.4f, %d at 0.8 or more\n", NR, sum / NR, (all[int((NR + 1) / 2)] + all[int(NR / 2) + 1]) / 2, all[1], good }'
