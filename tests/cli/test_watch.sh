# test_watch.sh - kiln run --watch: runs again for a change of the workflow, an included file, an input picture, a plugin; many writes are one change, a
# rename is one, a fault ends nothing, Ctrl-C and SIGTERM end it.
. "$KILN_ROOT/tests/cli/head.sh"
umask 022
export XDG_CACHE_HOME="$work/cache" HOME="$work/home" XDG_DATA_HOME="$work/data"
unset KILN_PLUGIN_PATH KILN_INPUT KILN_MODELS
mkdir "$work/home" "$work/plugins" "$work/input"
sed 's/"ImageGain"/"WatchedGain"/' plugins/template/image_gain.c >"$work/gain.c"
include="$PWD/include"
cd "$work" || exit 2
build() { gcc -std=c11 -O1 -w -fPIC -shared -I"$include" gain.c -o new.so && mv new.so plugins/gain.so; }
build || exit 2
dot() { printf 'nodes:\n  a: {class_type: EmptyImage, inputs: {width: 8, height: 8, color: %s}}\n  s: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: p}}\n' "$1" >dot.yaml; }
dot 1 && "$kiln" run dot.yaml --no-cache -q --out made >/dev/null && cp made/p_00001_.png input/pic.png || exit 2
cat >flow.yaml <<'Y'
params: {gain: 1}
nodes:
  load: {class_type: LoadImage, inputs: {image: pic.png}}
  gain: {class_type: WatchedGain, inputs: {image: [load, 0], gain: "${gain}"}}
  save: {class_type: SaveImage, inputs: {images: [gain, 0], filename_prefix: w}}
Y
"$kiln" run flow.yaml --watch --plugins plugins --input input --no-cache --out out >paths 2>log &
pid=$!
trap 'kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT
# runs N: it has run so often, and waits; a moment later it still has
runs() {
    local i
    for i in $(seq 600); do [ "$(grep -c '^kiln: watching' log)" -ge "$1" ] && break; sleep 0.05; done
    sleep "${2:-0.5}"
    [ "$(grep -c '^kiln: watching' log)" -eq "$1" ] || { tail -n 5 log; echo "it has run $(grep -c '^kiln: watching' log) times, wanted $1"; return 1; }
}
pictures() { [ "$(find out -name '*.png' | wc -l)" -eq "$1" ]; }
check runs_at_once runs 1
check and_draws pictures 1
sed -i 's/gain: 1}/gain: 2}/' flow.yaml
check a_changed_workflow runs 2
check says_which grep -q '^kiln: flow.yaml has changed; running again' log
check draws_again pictures 2
touch unrelated.txt; cat flow.yaml >/dev/null; check another_file_and_reading_are_none runs 2 1
for i in $(seq 20); do printf '# %s\n' "$i" >>flow.yaml; done; check many_writes_are_one_change runs 3 1
cp flow.yaml next && sed -i 's/gain: 2}/gain: 3}/' next && mv next flow.yaml; check a_rename_is_a_change runs 4
dot 255 && "$kiln" run dot.yaml --no-cache -q --out made >/dev/null && cp made/p_00002_.png input/pic.png; check a_changed_picture runs 5
check says_which_picture grep -q 'input/pic.png has changed' log
sed -i 's/v < 1 ? v : 1/v < 1 ? 1 - v : 0/' gain.c && build; check a_plugin_that_was_built_anew runs 6
check says_which_plugin grep -q 'plugins/gain.so has changed' log
pixels_of() { pixels "out/w_0000${1}_.png"; }
check the_new_plugin_was_used [ "$(pixels_of 6)" != "$(pixels_of 5)" ]
cp flow.yaml good && echo '  wrong: {class_type: Nowhere}' >>flow.yaml; check a_fault_ends_nothing runs 7
check the_fault_is_said grep -q "Nowhere" log
cp good flow.yaml; check and_it_goes_on runs 8
check with_a_picture pictures 7
sed -i 's/pic.png/later.png/' flow.yaml; check a_picture_that_is_missing runs 9
cp input/pic.png input/later.png; check and_comes runs 10
check and_is_drawn pictures 8
rm input/later.png; check a_picture_that_goes runs 11
cp input/pic.png input/later.png; check and_comes_back runs 12
kill -0 "$pid"; verdict it_still_watches $?
kill -INT "$pid"; wait "$pid"; same ends_by_ctrl_c $? 130
# SIGTERM while it runs: the run is told, and ends too
sed 's/inputs: {ckpt_name/inputs: {ckpt_name/' "$KILN_ROOT/workflows/txt2img.yaml" >slow.yaml
setsid "$kiln" run slow.yaml --watch --set steps=10000 --no-cache --out out2 >/dev/null 2>log2 &
pid=$!
for _ in $(seq 200); do pgrep -P "$pid" >/dev/null && [ -s log2 ] && break; sleep 0.05; done; sleep 1
child=$(pgrep -P "$pid"); kill -TERM "$pid"; wait "$pid"; same ends_by_sigterm $? 130
sleep 0.2; ! kill -0 "$child" 2>/dev/null; verdict the_run_is_gone $?
setsid "$kiln" run slow.yaml --watch --set steps=10000 --no-cache --out out2 >/dev/null 2>log2 &
pid=$!
for _ in $(seq 200); do pgrep -P "$pid" >/dev/null && [ -s log2 ] && break; sleep 0.05; done; sleep 1
kill -INT "$pid"; wait "$pid"; same a_run_is_ended_by_its_watcher $? 130
# The one who watches is killed: the run does not stay behind
"$kiln" run slow.yaml --watch --set steps=10000 --no-cache --out out3 >/dev/null 2>log2 &
pid=$!
for _ in $(seq 200); do child=$(pgrep -P "$pid") && [ -s log2 ] && break; sleep 0.05; done; sleep 1
child=$(pgrep -P "$pid"); kill -KILL "$pid"; wait "$pid" 2>/dev/null
for _ in $(seq 100); do kill -0 "$child" 2>/dev/null || break; sleep 0.1; done; ! kill -0 "$child" 2>/dev/null; verdict no_run_stays_behind $?
expect from_standard_input 2 "standard input cannot be read again; name a file" "$kiln" run - --watch
expect without_a_file 2 "name one workflow file" "$kiln" run --watch
exit $status
