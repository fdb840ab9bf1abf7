#!/usr/bin/env bash
# measure-edges.sh OUT [COUNT [OPTION...]] - how well workflows/controlnet.yaml follows edges: COUNT (100) scenes of tests/judge/scenes that
# nothing was trained on, each drawn anew along its edges with its own caption. Prints for each how much the things of the scene and of what
# was drawn overlap (judge --overlap: intersection over union), and the mean. OPTIONs go to `kiln run`.
cd "$(dirname "$0")/../.." || exit 2
out=${1:?usage: measure-edges.sh OUT [COUNT [OPTION...]]} count=${2:-100}
shift; shift
build=${KILN_BUILD:-build/release} scenes=$PWD/tests/judge/scenes
rm -rf "$out" && mkdir -p "$out" && out=$(cd "$out" && pwd) || exit 2
awk -F'\t' -v n="$count" -v h="$scenes" 'BEGIN { print "image,prompt" } NR <= n { print h "/" $1 ".png," $2 }' "$scenes/captions.txt" >"$out/rows.csv"
"$build/kiln" run workflows/controlnet.yaml --over-file "$out/rows.csv" --out "$out/drawn" --quiet "$@" >/dev/null || exit 1
# The pictures of a sweep's rows, in the order of the rows.
in_order() { python3 -c 'import json, sys
rows = sorted((json.loads(line) for line in open(sys.argv[1] + "/manifest.jsonl")), key=lambda r: r["row"])
print("\n".join(sys.argv[1] + "/" + r["files"][0] for r in rows))' "$1"; }
in_order "$out/drawn" >"$out/drawn.txt"
i=0
while read -r drawn; do
    "$build/tests/judge/judge" --overlap "$(printf '%s/%03d.png' "$scenes" $i)" "$drawn" || exit 1
    i=$((i + 1))
done <"$out/drawn.txt" | awk '{ print; sum += $1; good += $1 >= 0.8 } END { printf "%d pictures along edges: mean overlap %.4f, %d at 0.8 or more\n", NR, sum / NR, good; exit NR == 0 }'
