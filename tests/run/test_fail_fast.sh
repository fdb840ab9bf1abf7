# test_fail_fast.sh - a sweep of several batches with a row that fails: without --fail-fast every other row is done, with it no later batch is begun.
. "$KILN_ROOT/tests/cli/head.sh"
expect_in=log
cat >"$work/flow.yaml" <<'Y'
kiln: 1
params: {file: good.png, width: 8}
nodes:
  load: {class_type: LoadImage, inputs: {image: "${file}"}}
  scaled: {class_type: ImageScale, inputs: {image: [load, 0], upscale_method: nearest-exact, width: "${width}", height: 8, crop: disabled}}
  save: {class_type: SaveImage, inputs: {images: [scaled, 0]}}
Y
cat >"$work/good.yaml" <<'Y'
nodes:
  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}
  save: {class_type: SaveImage, inputs: {images: [empty, 0]}}
Y
"$kiln" run "$work/good.yaml" --no-cache --out "$work/made" >"$work/log" 2>&1; verdict a_picture_is_made $?
cp "$(ls "$work"/made/*.png)" "$work/good.png"; head -c 60 "$work/good.png" >"$work/broken.png"
# 100 rows, two batches; the first fails
for i in $(seq 100); do [ "$i" = 1 ] && echo "broken.png,$i" || echo "good.png,$i"; done | { echo file,width; cat; } >"$work/rows.csv"
flow() { "$kiln" run "$work/flow.yaml" --no-cache --jobs 1 --over-file "$work/rows.csv" "$@"; }
expect all_others_are_done 3 "99 done" flow --out "$work/all"
same all_other_files "$(ls "$work"/all/*.png | wc -l)" 99
expect fail_fast_ends 1 "left" flow --out "$work/fast" --fail-fast
same no_later_batch_is_begun "$(ls "$work/fast" | grep -c png)" 0
check the_last_row_is_left test -z "$(grep '"row": 100,' "$work/fast/manifest.jsonl")"
# mended, the next run does what is left
cp "$work/good.png" "$work/broken.png"
expect the_next_run_does_all_of_it 0 "100 done" flow --out "$work/fast"
same all_files "$(ls "$work"/fast/*.png | wc -l)" 100
exit $status
