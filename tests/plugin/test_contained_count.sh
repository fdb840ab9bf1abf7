# test_contained_count.sh - after a crash no work that took long is done again: with a cache, without one and in a sweep a node of another's plugin runs
# once, whoever uses what it made.
. "$KILN_ROOT/tests/cli/head.sh"
umask 022
ulimit -c 0
unset KILN_PLUGIN_PATH KILN_CACHE
export XDG_CACHE_HOME="$work/xdg" TMPDIR="$work/tmp" KILN_TEST_COUNT="$work/count"
mkdir "$work/plugins" "$work/tmp"
gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -Iinclude tests/plugin/hostile/counted.c -o "$work/plugins/counted.so" || exit 2
cat >"$work/flow.yaml" <<'Y'
kiln: 1
params: {width: 16}
nodes:
  counted: {class_type: Counted}
  crash: {class_type: Crashing, inputs: {INT: [counted, 0]}}
  blank: {class_type: EmptyImage, inputs: {width: "${width}", height: 16, batch_size: [counted, 0], color: 5}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
Y
draw() { # NAME STATUS PICTURES OPTION...
    local name=$1 code=$2 pictures=$3; shift 3
    rm -rf "$work/out" "$work/count" "$work/cache"
    "$kiln" run "$work/flow.yaml" --plugins "$work/plugins" --out "$work/out" --jobs 1 "$@" >"$work/stdout" 2>"$work/log"; same "${name}_fails" $? "$code"
    check "${name}_names_it" grep -q 'plugin org.example.counted: \(crashed with\|was ended by\) SIGABRT' "$work/log"
    same "${name}_keeps_the_pictures" "$(find "$work/out" -name '*.png' | wc -l)" "$pictures"
    same "${name}_computes_once" "$(wc -c <"$work/count")" 1
    same "${name}_leaves_nothing" "$(find "$work/tmp" -mindepth 1 | wc -l)" 0
}
draw kept 3 7 --cache "$work/cache"
draw without_a_cache 3 7 --no-cache
draw a_sweep 1 14 --no-cache --over width=16,24
exit $status
