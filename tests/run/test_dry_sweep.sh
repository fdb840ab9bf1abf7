# test_dry_sweep.sh - what --dry-run says of a sweep that takes several batches: a node that rows have in common counts once, for the first row that has
# it, and the sums of the rows are the total; what is in the cache is said so.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/flow.yaml" <<'Y'
params: {color: 1}
nodes:
  same: {class_type: EmptyImage, inputs: {width: 16, height: 16, batch_size: 1, color: 5}}
  other: {class_type: EmptyImage, inputs: {width: 16, height: 16, batch_size: 1, color: "${color}"}}
  both: {class_type: ImageBatch, inputs: {image1: [same, 0], image2: [other, 0]}}
  save: {class_type: SaveImage, inputs: {images: [both, 0], filename_prefix: p}}
Y
dry() { "$kiln" run "$work/flow.yaml" --cache "$work/cache" --out "$work/out" --dry-run "$@" >"$work/stdout" 2>"$work/log"; }
sums() { awk '$1 + 0 > 0 && $4 ~ /^color=/ { run += $2; kept += $3; n++ } END { print n, run, kept }' "$work/stdout"; }

dry --over color=6..135; verdict a_sweep_of_three_batches $?
check the_total_counts_once grep -q '^130 rows: 391 to run, 0 from the cache' "$work/stdout"
same rows_add_up "$(sums)" "130 391 0"
same the_first_row_has_it "$(awk '$1 == 1 || $1 == 2 || $1 == 65 { print $2 }' "$work/stdout" | paste -sd' ')" "4 3 3"
dry --over color=6..135 --json; verdict as_json $?
check json_counts_once grep -q '"rows": 130, "run": 391, "cached": 0' "$work/stdout"

"$kiln" run "$work/flow.yaml" --cache "$work/cache" --out "$work/out" --set color=6 -q >/dev/null 2>"$work/log"; verdict one_row_is_drawn $?
dry --over color=6..135; verdict again $?
kept=$(sed -nE 's/^130 rows: ([0-9]+) to run, ([0-9]+) from the cache.*/\1 \2/p' "$work/stdout")
same what_is_kept_is_not_run "$((${kept% *} < 391))$((${kept#* } > 0))" 11
same and_rows_add_up "$(sums)" "130 $kept"
exit $status
