# test_sweep_memory.sh - a sweep takes no memory for the rows that are behind it: thousands need what 300 do, in a dry run and in one that draws.
. "$KILN_ROOT/tests/cli/head.sh"
case $KILN_BUILD in *-address | *-thread | *coverage*) echo "skip memory: a sanitizer keeps what is freed"; exit 0 ;; esac
cat >"$work/flow.yaml" <<'Y'
params: {color: 1}
nodes:
  other: {class_type: EmptyImage, inputs: {width: 16, height: 16, batch_size: 1, color: "${color}"}}
  save: {class_type: SaveImage, inputs: {images: [other, 0], filename_prefix: p}}
Y
# peak ROWS OPTION...: the most memory that the sweep had, or nothing if it failed
peak() {
    local rows=$1; shift
    rm -rf "$work/out"
    python3 - "$kiln" run "$work/flow.yaml" --no-cache --out "$work/out" --over "color=1..$rows" "$@" <<'P' 2>"$work/log"
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if done.returncode == 0: print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
P
}
compare() { # NAME ROWS OPTION: a row that is kept is some 50 kB
    local few many
    few=$(peak 300 "$3") many=$(peak "$2" "$3")
    echo "# $1: $few kB with 300 rows, $many with $2"
    check "$1_runs" [ "${few:-0}" -gt 0 ]
    check "$1_keeps_no_rows" [ "${many:-999999}" -lt $((${few:-0} + 8000)) ]
}
compare dry_run 3000 --dry-run
compare drawn 900 -q
exit $status
