# test_costs_only_keeping.sh - whatever is wrong with the cache's folder, `kiln run` makes its pictures, says once what is wrong and that nothing is kept, and
# `kiln cache` says the same and fails. With a sweep and a dry run too. What is wrong with one value costs that value.
. "$KILN_ROOT/tests/cli/head.sh"
trap 'kill $holder 2>/dev/null; rm -rf "$work"' EXIT
unset KILN_CACHE
export XDG_CACHE_HOME="$work/xdg" HOME="$work"
chmod 755 "$work"
status=0 holder=
cat >"$work/w.yaml" <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 160, height: 120, batch_size: 1, color: 3368601}}
  large: {class_type: ImageScaleBy, inputs: {image: [blank, 0], upscale_method: lanczos, scale_by: 1.5}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
Y
"$kiln" run "$work/w.yaml" --no-cache -q --out "$work/ref" >/dev/null || exit 2
right=$work/ref/p_00001_.png

# goes_on NAME FOLDER WORDS [COMMAND-IN-FRONT ...]: a run with that cache
goes_on() {
    local name=$1 folder=$2 words=$3 code
    shift 3
    rm -rf "$work/out" && mkdir -m 777 "$work/out"
    timeout 60 "$@" "$kiln" run "$work/w.yaml" --cache "$folder" --out "$work/out" >"$work/stdout" 2>"$work/log"
    code=$?
    if [ $code -ne 0 ]; then bad "$name" "status $code: $(tail -n 1 "$work/log")"; return; fi
    if ! cmp -s "$work/out/p_00001_.png" "$right"; then bad "$name" "another picture, or none"; return; fi
    if [ -n "$words" ] && ! grep -qF -- "$words" "$work/log"; then bad "$name" "did not say '$words': $(cat "$work/log")"; return; fi
    if [ -n "$words" ] && [ "$(grep -c 'kiln: warning' "$work/log")" -ne 1 ]; then bad "$name" "not told once: $(cat "$work/log")"; return; fi
    if grep -q 'not an error' "$work/log"; then bad "$name" "$(cat "$work/log")"; return; fi
    ok "$name"
}
# unkept: goes_on for a cache that cannot be had at all, and `kiln cache` with the same words
unkept() {
    local name=$1 folder=$2 words=$3 code
    goes_on "$@"
    grep -qF 'The run goes on, and its results are not kept' "$work/log" || bad "$name" "did not say what that costs: $(cat "$work/log")"
    shift 3
    "$@" "$kiln" cache stat --cache "$folder" >"$work/stdout" 2>"$work/log"
    code=$?
    if [ $code -eq 0 ] || [ $code -ge 124 ] || ! grep -q '^kiln: error: ' "$work/log"; then bad "${name}_cache_command" "status $code: $(cat "$work/log")"
    else ok "${name}_cache_command"; fi
}

: >"$work/file"
mkfifo "$work/fifo"
unkept a_file_for_a_folder "$work/file" "$work/file"
unkept a_fifo_for_a_folder "$work/fifo" "$work/fifo"
unkept below_a_file "$work/file/cache" "Not a directory"
unkept where_nothing_can_be_made /proc/kiln-cache "/proc/kiln-cache"
mkdir "$work/closed_mount"
front=(unshare -m sh -c 'mount -t tmpfs -o ro none "$0" && exec "$@"' "$work/closed_mount")
if "${front[@]}" true 2>/dev/null; then unkept a_read_only_mount "$work/closed_mount/cache" "Read-only file system" "${front[@]}"
else echo "skip a_read_only_mount: no mounts here"; fi
mkdir -m 777 "$work/everybodys"
goes_on a_folder_of_everybody "$work/everybodys" 'chmod go-w'
if [ -z "$(ls "$work/everybodys")" ]; then ok nothing_is_put_there; else bad nothing_is_put_there "$(ls "$work/everybodys")"; fi
# As somebody whom permissions hold.
as=() mine=$work/mine
mkdir -m 755 "$mine"
if [ "$(id -u)" -eq 0 ]; then
    as=(setpriv --reuid 65534 --regid 65534 --clear-groups env XDG_CACHE_HOME="$mine/xdg" HOME="$mine")
    chown 65534:65534 "$mine"
fi
if "${as[@]}" "$kiln" --version >/dev/null 2>&1; then
    mkdir -m 555 "$work/closed"
    unkept no_permission_to_make_it "$work/closed/cache" "Permission denied" "${as[@]}"
    "${as[@]}" "$kiln" run "$work/w.yaml" --cache "$mine/c" -q --out "$mine/out" >/dev/null || bad as_another "the run failed"
    "${as[@]}" chmod 0 "$mine/c/claims"
    unkept claims_are_unreadable "$mine/c" "$mine/c/claims: cannot be opened: Permission denied" "${as[@]}"
    "${as[@]}" chmod 600 "$mine/c/claims" && "${as[@]}" chmod 0 "$mine/c/index.sqlite"
    unkept the_index_is_unreadable "$mine/c" "$mine/c/index.sqlite cannot be opened" "${as[@]}"
else
    echo "skip permissions: there is no other user to be"
fi

fresh() { rm -rf "$work/c" && "$kiln" run "$work/w.yaml" --cache "$work/c" -q --out "$work/first" >/dev/null || bad fresh "the run failed"; }
for kind in folder fifo link; do
    fresh
    rm "$work/c/claims"
    case $kind in folder) mkdir "$work/c/claims" ;; fifo) mkfifo "$work/c/claims" ;; link) ln -s /dev/null "$work/c/claims" ;; esac
    unkept "claims_is_a_$kind" "$work/c" "$work/c/claims is a"
done
fresh
rm -f "$work/c/index.sqlite-journal"
mkfifo "$work/c/index.sqlite-journal"
goes_on a_fifo_for_a_journal "$work/c" "has something else than a file for a journal"
goes_on and_the_next_finds_the_new_one "$work/c" ""
fresh
value=$(find "$work/c/values" -type f | head -n 1)
[ -n "$value" ] || bad a_value "there is none"
find "$work/c/values" -type f | while read -r f; do rm "$f" && mkfifo "$f"; done
goes_on a_fifo_for_a_value "$work/c" "is a FIFO, where a file belongs"
goes_on and_then_the_value_is_there "$work/c" ""
if [ -f "$value" ]; then ok the_value_is_a_file_again; else bad the_value_is_a_file_again "$(ls -l "$value")"; fi

if command -v python3 >/dev/null; then
    fresh
    hold="import sqlite3, sys, time; c = sqlite3.connect(sys.argv[1]); c.execute('BEGIN EXCLUSIVE'); print(1, flush=True); time.sleep(60)"
    python3 -c "$hold" "$work/c/index.sqlite" >"$work/locked" 2>&1 &
    holder=$!
    until [ -s "$work/locked" ]; do sleep 0.05; done
    goes_on a_locked_index "$work/c" "another process holds its lock"
    grep -qF 'its results are not kept' "$work/log" && ok a_locked_index_is_told || bad a_locked_index_is_told "$(cat "$work/log")"
    kill $holder
    wait $holder 2>/dev/null
    goes_on and_free_again "$work/c" ""
else
    echo "skip a_locked_index: no python3 here"
fi

# The environment's folder, a sweep, a dry run.
KILN_CACHE=$work/file "$kiln" run "$work/w.yaml" --out "$work/env" >/dev/null 2>"$work/log" &&
    cmp -s "$work/env/p_00001_.png" "$right" && grep -q 'not kept' "$work/log" && ok named_by_the_environment ||
    bad named_by_the_environment "$(cat "$work/log")"
"$kiln" run "$work/w.yaml" --over blank.color=1..3 --cache "$work/file" --out "$work/sweep" >/dev/null 2>"$work/log" &&
    [ "$(ls "$work"/sweep/*.png | wc -l)" -eq 3 ] && [ "$(grep -c 'not kept' "$work/log")" -eq 1 ] && ok a_sweep ||
    bad a_sweep "$(cat "$work/log")"
"$kiln" run "$work/w.yaml" --dry-run --cache "$work/file" >"$work/stdout" 2>"$work/log" && grep -q '^large ' "$work/stdout" && ok a_dry_run ||
    bad a_dry_run "$(cat "$work/log")"
# What is remembered of plugins lies in the default cache's folder.
mkdir -p "$work/other/kiln" && mkfifo "$work/other/kiln/probe"
XDG_CACHE_HOME="$work/other" timeout 60 "$kiln" nodes >/dev/null 2>"$work/log" && ok a_fifo_for_what_is_known_of_plugins ||
    bad a_fifo_for_what_is_known_of_plugins "status $?: $(cat "$work/log")"
exit $status
