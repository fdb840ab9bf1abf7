# test_own_tiles.sh - a budget that a whole picture does not fit into: --explain, --dry-run and the run say the same stripes, the budget holds,
# the picture has the same bytes, and it and what is made of it are kept, so that a run with more memory takes them. Where the disk has no room the
# run ends with a sentence, and nothing is left behind.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/big.yaml" <<'YAML'
nodes:
  vae: {class_type: VAELoader, inputs: {vae_name: shapes-sd1}}
  noise: {class_type: EmptyLatentImage, inputs: {width: 576, height: 512, batch_size: 1}}
  whole: {class_type: VAEDecode, inputs: {samples: [noise, 0], vae: [vae, 0]}}
  again: {class_type: VAEEncode, inputs: {pixels: [whole, 0], vae: [vae, 0]}}
  once_more: {class_type: VAEDecode, inputs: {samples: [again, 0], vae: [vae, 0]}}
  half: {class_type: ImageScale, inputs: {image: [once_more, 0], upscale_method: area, width: 288, height: 256, crop: disabled}}
  save: {class_type: SaveImage, inputs: {images: [half, 0], filename_prefix: x}}
YAML
fresh() { "$kiln" run "$work/big.yaml" --models workflows/models --precision f32 --out "$work/out" "$@"; }
run() { fresh --cache "$work/cache" "$@"; }
how() { sed -n 's/.*it is [a-z]*coded \(in [a-z]* of [0-9]*\|layer by layer\).*/\1/p' "$work/log" | tr '\n' ','; }
files() { find "$1" -type f -name '.kiln*' 2>/dev/null | wc -l; }

expect explain_needs_nothing_without_a_budget 0 "is the least that works" run --explain
same whole_without_a_budget "$(how)" ""
whole=$(sed -n 's/^memory: \([0-9.]*\) MB holds.*/\1/p' "$work/stdout")
least=$(sed -n 's/.*; \([0-9.]*\) MB is the least that works.*/\1/p' "$work/stdout")
budget=$(awk -v l="${least:-0}" 'BEGIN { printf "%dM", l + 2 }') lower=$(awk -v l="${least:-0}" 'BEGIN { printf "%dM", l - 1 }')
echo "# whole $whole MB, least $least MB, budget $budget"

check the_least_is_that_of_stripes awk -v l="${least:-0}" -v w="${whole:-0}" 'BEGIN { exit !(l > 0 && l < w / 4) }'
expect less_than_the_least_is_refused 1 "needs $least MB at least" run --memory "$lower"
same the_same_under_a_budget "$(run --explain --memory "$budget" 2>/dev/null | sed -n 's/.*; \([0-9.]*\) MB is the least that works.*/\1/p')" "$least"
expect explain_says_the_stripes 0 "node 'whole' (VAEDecode): a picture of 576x512 pixels does not fit into the memory there is; it is decoded in stripes of" run --explain --memory "$budget"
explained=$(how)
check explain_says_how [ -n "$explained" ]
check explain_is_no_longer_too_small grep -q "with a budget of" "$work/stdout"
expect dry_run_says_the_stripes 0 "with the same bytes" run --dry-run --memory "$budget"
same dry_run_says_the_same "$(how)" "$explained"
expect the_run_keeps_the_budget 0 "memory budget" run --memory "$budget"
same the_run_says_the_same "$(how)" "$explained"
check nothing_is_left_behind [ "$(files "$work")" = 0 ]
cp "$work/out/x_00001_.png" "$work/striped.png"
"$kiln" cache ls --json --cache "$work/cache" >"$work/kept" 2>/dev/null
check the_latent_is_kept grep -q EmptyLatentImage "$work/kept"
check the_stripes_are_kept grep -q VAEDecode "$work/kept"
check and_what_is_made_of_them grep -q ImageScale "$work/kept"

# ---- more memory: whole, the same bytes; and what was kept is taken
expect a_run_without_a_budget 0 "" fresh --no-cache
same it_is_whole "$(how)" ""
same the_stripes_were_the_same_picture "$(pixels "$work/striped.png")" "$(pixels "$work/out/x_00002_.png")"
expect what_is_kept_is_taken 0 "from the cache" run
same and_needs_no_stripes "$(how)" ""
same it_is_the_same_picture "$(pixels "$work/out/x_00003_.png")" "$(pixels "$work/striped.png")"

# ---- no room on the disk
mkdir "$work/tmp"
expect no_room 1 "cannot put" sh -c "ulimit -f 2000; TMPDIR='$work/tmp' exec '$kiln' run '$work/big.yaml' --models workflows/models --precision f32 --out '$work/out' --no-cache --memory $budget"
check no_room_names_folder_and_remedy grep -q "$work/tmp: File too large.*TMPDIR, or give more --memory" "$work/log"
check no_room_leaves_nothing [ "$(files "$work")" = 0 ]

# ---- far too small: the least is that of the lowest stripes, or of the smallest tiles, and it works
expect too_small 1 "is too small for this workflow" fresh --no-cache --memory 1M
needed=$(sed -n 's/.*give --memory \([0-9]*M\) or more.*/\1/p' "$work/log")
same the_least_is_what_was_explained "$needed" "$((${least%.*} + 1))M"
expect the_least_works 0 "decoded in" fresh --no-cache --memory "$((${needed%M} + 3))M" # and the scaled picture
exit $status
