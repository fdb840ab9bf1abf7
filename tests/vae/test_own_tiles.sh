# test_own_tiles.sh - a budget that a whole picture does not fit into: --explain, --dry-run and the run say the same tiles, the budget holds,
# and neither the picture nor what is made of it is kept, so that a run with more memory draws it whole.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/big.yaml" <<'YAML'
nodes:
  vae: {class_type: VAELoader, inputs: {vae_name: shapes-sd1}}
  noise: {class_type: EmptyLatentImage, inputs: {width: 576, height: 512, batch_size: 1}}
  whole: {class_type: VAEDecode, inputs: {samples: [noise, 0], vae: [vae, 0]}}
  half: {class_type: ImageScale, inputs: {image: [whole, 0], upscale_method: area, width: 288, height: 256, crop: disabled}}
  save: {class_type: SaveImage, inputs: {images: [half, 0], filename_prefix: x}}
YAML
fresh() { "$kiln" run "$work/big.yaml" --models workflows/models --precision f32 --out "$work/out" "$@"; }
run() { fresh --cache "$work/cache" "$@"; }
tiles() { sed -n 's/.*in tiles of \([0-9]*\)x.*/\1/p' "$work/log"; }

expect explain_needs_nothing_without_a_budget 0 "is the least that works" run --explain
same no_tiles_without_a_budget "$(tiles)" ""
whole=$(sed -n 's/^memory: \([0-9.]*\) MB holds.*/\1/p' "$work/stdout")
least=$(sed -n 's/.*; \([0-9.]*\) MB is the least that works.*/\1/p' "$work/stdout")
budget=$(awk -v l="${least:-0}" 'BEGIN { printf "%dM", l * 0.8 }')
echo "# whole $whole MB, least $least MB, budget $budget"

expect explain_says_the_tiles 0 "node 'whole' (VAEDecode): a picture of 576x512 pixels does not fit into the memory there is; it is decoded in tiles of" run --explain --memory "$budget"
explained=$(tiles)
check explain_has_a_size [ -n "$explained" ]
check explain_is_no_longer_too_small grep -q "with a budget of" "$work/stdout"
expect dry_run_says_the_tiles 0 "so the result is not kept" run --dry-run --memory "$budget"
same dry_run_says_the_same "$(tiles)" "$explained"
expect the_run_keeps_the_budget 0 "memory budget" run --memory "$budget"
same the_run_says_the_same "$(tiles)" "$explained"
cp "$work/out/x_00001_.png" "$work/tiled.png"
"$kiln" cache ls --json --cache "$work/cache" >"$work/kept" 2>/dev/null
check the_latent_is_kept grep -q EmptyLatentImage "$work/kept"
check the_tiles_are_not_kept sh -c "! grep -q VAEDecode '$work/kept'"
check nor_what_is_made_of_them sh -c "! grep -q ImageScale '$work/kept'"

# ---- more memory: whole, and kept; then a budget takes what is kept
expect a_run_without_a_budget 0 "" run
same it_needs_no_tiles "$(tiles)" ""
cp "$work/out/x_00002_.png" "$work/whole.png"
check it_is_another_picture sh -c "[ '$(pixels "$work/whole.png")' != '$(pixels "$work/tiled.png")' ]"
"$kiln" cache ls --json --cache "$work/cache" >"$work/kept" 2>/dev/null
check the_whole_is_kept grep -q VAEDecode "$work/kept"
expect a_budget_takes_what_is_kept 0 "" run --memory "$budget"
same and_needs_no_tiles "$(tiles)" ""
same it_is_the_whole_picture "$(pixels "$work/out/x_00003_.png")" "$(pixels "$work/whole.png")"

# ---- far too small: the least is that of the smallest tiles, and it works
expect too_small 1 "is too small for this workflow" fresh --no-cache --memory 1M
needed=$(sed -n 's/.*give --memory \([0-9]*M\) or more.*/\1/p' "$work/log")
check the_least_is_less_than_the_whole [ "${needed%M}" -lt "${least%.*}" ]
expect the_least_works 0 "in tiles of 256x256 pixels" fresh --no-cache --memory "$((${needed%M} + 2))M" # and the scaled picture
exit $status
