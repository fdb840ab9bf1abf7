# test_sweep.sh - sweeps as their users meet them: rows, what they share, manifest, going on after a kill, failing rows, the sheet.
# Most of it on a workflow without a model; the last part draws with shapes-sd1 at two steps.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
expect_in=log
cat >"$work/flow.yaml" <<'Y'
kiln: 1
params: {width: 16, prefix: k}
nodes:
  empty: {class_type: EmptyImage, inputs: {width: "${width}", height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: "${prefix}"}}
Y
flow() { "$kiln" run "$work/flow.yaml" --no-cache "$@"; }

# ---- rows and the manifest
expect sweep_runs_all_rows 0 "6 done" flow --over width=16..48..16 --over prefix=a,b --out "$work/a"
check sweep_files [ "$(cat "$work/stdout" | wc -l)" = 6 ]
check sweep_manifest_has_a_line_a_row [ "$(grep -c '"status": "done"' "$work/a/manifest.jsonl")" = 6 ]
check sweep_manifest_names_settings grep -q '"settings": {"width": "32", "prefix": "b"}' "$work/a/manifest.jsonl"
check sweep_shares_what_rows_have_in_common grep -q '9 nodes ran, 3 were shared' "$work/log"
expect sweep_again_does_nothing 0 "6 done before" flow --over width=16..48..16 --over prefix=a,b --out "$work/a"
check sweep_again_wrote_nothing [ ! -s "$work/stdout" ]
rm "$work/a/b_00002_.png"
expect sweep_runs_what_is_missing 0 "1 done, 5 done before" flow --over width=16..48..16 --over prefix=a,b --out "$work/a"
expect sweep_again_option 0 "6 done;" flow --over width=16..48..16 --over prefix=a,b --out "$work/a" --again
expect sweep_more_rows_run_only_those 0 "2 done, 6 done before" flow --over width=16..64..16 --over prefix=a,b --out "$work/a"
expect sweep_over_several_batches 0 "150 done" flow --over width=16..165 --out "$work/many"
check sweep_several_batches_files [ "$(ls "$work"/many/*.png | wc -l)" = 150 ]
"$kiln" inspect "$work/many/k_00150_.png" >/dev/null 2>&1
expect sweep_a_picture_carries_its_own_row 0 "" "$kiln" run "$(ls "$work"/many/*.png | tail -n 1)" --out "$work/back" --no-cache
flow --over width=20,24 --out "$work/ev" --events "$work/events" >/dev/null 2>"$work/log"
check sweep_events_carry_rows grep -q '"event": "row_done", .*"row": 2, "label": "width=24", "status": "done"' "$work/events"
check sweep_node_events_carry_rows grep -q '"event": "node_done".*"row": 1' "$work/events"

# ---- rows of a file, rows of the head
printf '\357\273\277width,prefix\r\n16,"c, d"\r\n24,e\r\n' >"$work/rows.csv"
expect sweep_over_file 0 "2 done" flow --over-file "$work/rows.csv" --out "$work/csv"
check sweep_over_file_quotes [ -s "$work/csv/c, d_00001_.png" ]
printf 'one\ntwo\n' >"$work/lines"
expect sweep_lines_of_a_file 0 "2 done" flow --over "prefix=@$work/lines" --out "$work/lines.out"
sed 's/^params/matrix: {width: [16, 32], prefix: [m, n]}\nparams/' "$work/flow.yaml" >"$work/matrix.yaml"
expect sweep_matrix 0 "4 done" "$kiln" run "$work/matrix.yaml" --no-cache --out "$work/m"
expect sweep_matrix_over_replaces 0 "2 done" "$kiln" run "$work/matrix.yaml" --no-cache --over width=64 --out "$work/m2"

expect sweep_check_reads_every_row 0 "" "$kiln" check "$work/matrix.yaml"
check sweep_check_counts_rows grep -q '4 rows, no faults' "$work/stdout"
sed -i 's/32/0/' "$work/matrix.yaml"
expect sweep_check_names_the_row 2 "[row 3: width=0 prefix=m]" "$kiln" check "$work/matrix.yaml"
sed -i 's/^matrix:.*/matrix: 5/' "$work/matrix.yaml"
expect sweep_check_says_what_a_matrix_is 2 "matrix.yaml:2:9: \`matrix\`" "$kiln" check "$work/matrix.yaml"

# ---- what is wrong is said before anything runs
expect sweep_fault_names_the_row 2 "[row 3: width=0]" flow --over width=16,20,0 --out "$work/x"
check sweep_fault_writes_nothing [ -z "$(ls "$work"/x/*.png 2>/dev/null)" ]
expect sweep_unknown_name 2 "did you mean 'width'" flow --over widht=1,2 --out "$work/x"
expect sweep_too_many_rows 2 "100000 rows" flow --over width=1..1000 --over prefix=1..1000 --out "$work/x"
expect sweep_reversed_range 2 "negative step" flow --over width=9..1 --out "$work/x"
expect sweep_no_csv 2 "nowhere.csv" flow --over-file "$work/nowhere.csv" --out "$work/x"
expect sweep_sheet_without_sweep 2 "belong to a sweep" flow --sheet "$work/s.png" --out "$work/x"
expect sweep_explain_is_refused 2 "one row" flow --over width=16,32 --explain --out "$work/x"
mkdir "$work/dry.c"
"$kiln" run "$work/flow.yaml" --over width=24,40,24 --over prefix=a,b --dry-run --out "$work/dry" --cache "$work/dry.c" >"$work/dry.txt" 2>&1
check sweep_dry_run_counts_what_is_shared_once grep -qE '^6 rows: [0-9]+ to run, 0 from the cache' "$work/dry.txt"
check sweep_dry_run_makes_no_file [ ! -e "$work/dry" ]
planned=$(sed -nE 's/^6 rows: ([0-9]+) to run.*/\1/p' "$work/dry.txt")
"$kiln" run "$work/flow.yaml" --over width=24,40,24 --over prefix=a,b --out "$work/dry" --cache "$work/dry.c" --events "$work/dry.events" >/dev/null 2>&1
check sweep_dry_run_says_what_then_runs [ "$(grep '"node_done"' "$work/dry.events" | grep -c '"from": "computed"')" = "$planned" ]
"$kiln" run "$work/flow.yaml" --over width=24,40,24,56 --over prefix=a,b --dry-run --out "$work/dry" --cache "$work/dry.c" >"$work/dry.txt" 2>&1
check sweep_dry_run_knows_the_manifest grep -qE '^6 of 8 rows were done before' "$work/dry.txt"
expect sweep_strange_manifest 2 "no manifest" flow --over width=16,32 --out "$work/x" --manifest "$work/csv/e_00001_.png"

# ---- a failing row
cp "$work/csv/e_00001_.png" "$work/good.png"; head -c 60 "$work/good.png" >"$work/broken.png"; cp "$work/many/k_00009_.png" "$work/other.png"
cat >"$work/load.yaml" <<'Y'
nodes:
  load: {class_type: LoadImage, inputs: {image: good.png}}
  save: {class_type: SaveImage, inputs: {images: [load, 0]}}
Y
expect sweep_failing_row_is_partly_done 3 "row 2 (load.image=broken.png): node 'load' (LoadImage)" "$kiln" run "$work/load.yaml" --no-cache --over load.image=good.png,broken.png,other.png --out "$work/f" --sheet "$work/f.png"
check sweep_failing_row_siblings_done [ "$(ls "$work"/f/*.png | wc -l)" = 2 ]
check sweep_failing_row_in_the_manifest grep -q '"row": 2,.*"status": "failed".*"error": "node' "$work/f/manifest.jsonl"
check sweep_failing_row_sheet [ -s "$work/f.png" ]
expect sweep_sheet_as_a_jpeg 3 "" "$kiln" run "$work/load.yaml" --no-cache --over load.image=good.png,broken.png,other.png --out "$work/f" --again --sheet "$work/f.jpg"
check it_is_a_jpeg [ "$(head -c 2 "$work/f.jpg" | od -An -tx1 | tr -d ' ')" = ffd8 ]
expect sweep_failed_rows_are_tried_again 3 "2 done before" "$kiln" run "$work/load.yaml" --no-cache --over load.image=good.png,broken.png,other.png --out "$work/f"
expect sweep_all_rows_failed 1 "" "$kiln" run "$work/load.yaml" --no-cache --over load.image=broken.png --out "$work/f2"
expect sweep_fail_fast 3 "left" "$kiln" run "$work/load.yaml" --no-cache --fail-fast --jobs 1 --over load.image=good.png,broken.png,other.png --out "$work/f3"

# ---- killed, and run again: what was done is not done twice, what is there in the end is all of it
draw() { "$kiln" run workflows/txt2img.yaml --models workflows/models --set steps=2 --no-cache --threads 2 "$@"; }
"$kiln" run workflows/txt2img.yaml --models workflows/models --set steps=2 --no-cache --threads 2 --over seed=1..5 --out "$work/k" >/dev/null 2>"$work/log" & pid=$! # not by way of a function: the kill must meet kiln
for i in $(seq 1200); do [ -s "$work/k/manifest.jsonl" ] && break; sleep 0.05; done
kill -9 $pid 2>/dev/null; wait $pid 2>/dev/null
before=$(grep -c '"done"' "$work/k/manifest.jsonl")
expect sweep_goes_on_after_a_kill 0 "$before done before" draw --over seed=1..5 --out "$work/k" --sheet "$work/k.png" --events "$work/k.events"
check sweep_after_a_kill_every_row_once [ "$(grep -o '"sampler": [0-9]*' "$work/k/manifest.jsonl" | sort | uniq -c | awk '$1 == 1' | wc -l)" = 5 ]
draw --set seed=4 --out "$work/one" -q >/dev/null 2>"$work/log"
row4=$(grep '"row": 4,' "$work/k/manifest.jsonl" | sed 's/.*"files": \["\([^"]*\)".*/\1/')
check sweep_row_is_the_picture_of_a_single_run cmp "$work/one/kiln_00001_.png" "$work/k/$row4"
check sweep_something_was_done_before_the_kill [ "$before" -ge 1 ]
cat >"$work/decode.yaml" <<'Y'
params: {prefix: k}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 16, height: 16}}
  decode: {class_type: VAEDecode, inputs: {samples: [empty, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: "${prefix}"}}
Y
expect sweep_of_two_batches_with_a_model 0 "65 done" "$kiln" run "$work/decode.yaml" --models workflows/models --no-cache --over prefix=1..65 --out "$work/d" --events "$work/d.events"
check sweep_loads_the_model_once [ "$(grep '"CheckpointLoaderSimple"' "$work/d.events" | grep -c '"from": "computed"\|kept from earlier rows')" = 3 ] # computed, then computed by taking what was kept
expect sweep_over_a_workflow_with_a_part 0 "2 done" "$kiln" run workflows/refined.yaml --models workflows/models --no-cache --set steps=2 --over refine/sampler.steps=2,3 --out "$work/refined"
exit $status
