# test_interrupted.sh - Ctrl-C on a terminal says what was kept and the exact command that goes on, which does; what failed is told once, what it keeps from running in
# one line; several results and one name; embeddings among the models.
. "$KILN_ROOT/tests/cli/head.sh"
export KILN_CONFIG=off
kiln_on_path="$(dirname "$kiln")"
if command -v python3 >/dev/null; then
    press() { # WORD COMMAND...: Ctrl-C once the word is on the screen
        env PATH="$kiln_on_path:$PATH" TERM=xterm python3 tests/cli/on_terminal.py --interrupt "$1" "$work/screen" "${@:2}"
    }
    expect a_run 130 "" press "it/s" "$kiln" run workflows/txt2img.yaml --cache "$work/kept" --save-state 0.1 --set steps=3000 --set "prompt=a red 'circle'" --out "$work/out" --jobs 1
    tr -d '\r' <"$work/screen" >"$work/lines"
    check says_what_is_kept grep -qE 'kiln: interrupted; [0-9]+ of 7 nodes were finished; that is kept, and this goes on from there:' "$work/lines"
    again=$(sed -n '/^kiln: interrupted; /{n;s/^  //p}' "$work/lines")
    same the_exact_command "$again" "kiln run workflows/txt2img.yaml --cache $work/kept --save-state 0.1 --set steps=3000 --set 'prompt=a red '\\''circle'\\''' --out $work/out --jobs 1"
    PATH="$kiln_on_path:$PATH" bash -c "$again --dry-run" >"$work/stdout" 2>"$work/log"; verdict it_is_a_command $?
    check and_it_goes_on grep -qE 'resume|goes on|from step|cached|in the cache' "$work/stdout"
    expect without_a_cache 130 "" press "it/s" "$kiln" run workflows/txt2img.yaml --no-cache --set steps=3000 --out "$work/out"
    check says_that_nothing_is_kept grep -q 'nodes were finished; nothing of it was kept (--no-cache)' "$work/screen"
    check nothing_has_failed bash -c "! grep -q 'failed' '$work/screen'"
    expect with_a_random_seed 130 "" press "it/s" "$kiln" run workflows/txt2img.yaml --cache "$work/kept" --set steps=3000 --set seed=random --out "$work/out"
    check the_seed_is_said grep -qE '^kiln: random seed: seed=[0-9]+' <(tr -d '\r' <"$work/screen" | sed 's/.*\x1b\[K//')
    check and_where_it_goes grep -q 'this goes on from there, with the seed above in the place of `random`:' "$work/screen"
    env PATH="$kiln_on_path:$PATH" TERM=dumb python3 tests/cli/on_terminal.py --interrupt "step" "$work/screen" "$kiln" run workflows/txt2img.yaml --no-cache --set steps=9000 --out "$work/out" >"$work/stdout" 2>"$work/log"
    check a_dumb_terminal_gets_no_codes bash -c "grep -q 'stopping within the step' '$work/screen' && ! grep -q \$'\033' '$work/screen'"
    expect a_sweep 130 "" press "1/3 rows" "$kiln" run workflows/txt2img.yaml --no-cache --over steps=1,3000,2999 --jobs 1 --out "$work/rows"
    tr -d '\r' <"$work/screen" >"$work/lines"
    check rows_that_are_done grep -q 'kiln: interrupted; 1 of 3 rows are done; that is kept, and this goes on from there:' "$work/lines"
    check with_its_command grep -qxF "  kiln run workflows/txt2img.yaml --no-cache --over steps=1,3000,2999 --jobs 1 --out $work/rows" "$work/lines"
else
    echo "skip terminals: no python3"
fi

# ---- failures
mkdir "$work/in"
"$kiln" run workflows/txt2img.yaml --set steps=1 --no-cache -q -o "$work/in/good.png" >/dev/null 2>&1
head -c 600 "$work/in/good.png" >"$work/in/broken.png"
{
    echo 'nodes:'
    echo '  load: {class_type: LoadImage, inputs: {image: good.png}}'
    echo '  n0: {class_type: ImageScaleBy, inputs: {image: [load, 0], upscale_method: lanczos, scale_by: 0.5}}'
    for i in $(seq 8); do echo "  n$i: {class_type: ImageScaleBy, inputs: {image: [n$((i - 1)), 0], upscale_method: bilinear, scale_by: 1}}"; done
    echo '  save: {class_type: SaveImage, inputs: {images: [n8, 0], filename_prefix: x}}'
} >"$work/chain.yaml"
chain() { "$kiln" run "$work/chain.yaml" --input "$work/in" --no-cache "$@"; }
expect a_failed_node 1 "node 'load' (LoadImage)" chain --set load.image=broken.png --out "$work/f"
same is_told_once "$(grep -c "node 'load'" "$work/log")" 1
same skipped_in_one_line "$(grep -c '^kiln: skipped,' "$work/log")" 1
check with_names_and_a_count grep -qE "^kiln: skipped, because what they need failed: 'n0', .* and [0-9]+ more" "$work/log"
expect a_failed_row 3 "row 2 (load.image=broken.png): node 'load'" chain --over load.image=good.png,broken.png --out "$work/f"
same of_a_sweep_too "$(grep -c "node 'load'" "$work/log")" 1
same and_its_skipped_nodes_not_at_all "$(grep -c "n[0-8]'" "$work/log")" 0

# ---- -o and several results
cat >"$work/two.yaml" <<'Y'
nodes:
  a: {class_type: EmptyImage, inputs: {width: 16, height: 16}}
  b: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: b}}
  c: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: c}}
Y
expect several_nodes 2 "-o two.png: several nodes write results ('b' and 'c'), and this is one file; name a folder with --out" "$kiln" run "$work/two.yaml" -o "$work/new/two.png"
check before_anything_is_written [ ! -e "$work/new/two.png" ]
printf 'nodes:\n  a: {class_type: EmptyImage, inputs: {width: 16, height: 16, batch_size: 3}}\n  b: {class_type: SaveImage, inputs: {images: [a, 0]}}\n' >"$work/batch.yaml"
expect a_batch 0 "-o b.png: there is more than one result; those after the first are called b_00001_.png" "$kiln" run "$work/batch.yaml" --no-cache -o "$work/new/b.png"
same all_are_kept "$(cd "$work/new" && echo *)" "b.png b_00001_.png b_00002_.png"
same said_once "$(grep -c 'more than one result' "$work/log")" 1

# ---- models
expect embeddings_are_models 0 "embedding: 2 tokens of 96" "$kiln" models --kind embeddings
exit $status
