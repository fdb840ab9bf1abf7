#!/usr/bin/env bash
# Whole runs in odd surroundings: locales, missing or strange HOME, XDG_CACHE_HOME and TMPDIR, few file descriptors, a small stack, closed or full
# standard streams, other time zones, folders and working directories. Each gives the right picture, or a word and a status; never a crash.
set -u
cd "$KILN_ROOT" || exit 2
kiln=$(realpath "$KILN_BUILD/kiln")
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
cat >"$work/w.yaml" <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 48, height: 32, batch_size: 1, color: 3368601}}
  large: {class_type: ImageScaleBy, inputs: {image: [blank, 0], upscale_method: lanczos, scale_by: 2.5}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
Y
unset KILN_CACHE
export XDG_CACHE_HOME=$work/cache
"$kiln" run "$work/w.yaml" --no-cache -q --out "$work/ref" >/dev/null || exit 2
status=0 cells=0

# cell NAME COMMAND ...: the command ends with the right picture in $work/out, with and without kept results
cell() {
    name=$1
    shift
    wrong=
    for store in cold warm; do
        rm -rf "$work/out"
        "$@" >"$work/stdout" 2>"$work/stderr"
        code=$?
        [ $code -eq 0 ] || wrong="status $code: $(head -n 1 "$work/stderr")"
        cmp -s "$work/out/p_00001_.png" "$work/ref/p_00001_.png" || wrong="${wrong:-another picture}"
        cells=$((cells + 1))
    done
    rm -rf "$work/cache"
    if [ -z "$wrong" ]; then echo "ok $name"; else echo "FAIL $name: $wrong"; status=1; fi
}
run="$kiln run $work/w.yaml -q --out $work/out"

installed=$(locale -a 2>/dev/null)
for name in C C.UTF-8 POSIX de_DE.UTF-8 tr_TR.UTF-8 xx_XX; do
    case $name in de_* | tr_*) echo "$installed" | grep -qi "^${name%.*}" || { echo "skip locale_$name: not installed"; continue; } ;; esac
    cell "locale_$name" env LC_ALL=$name LANG=$name $run
done
cell no_home env -u HOME $run
cell no_home_no_cache_folder env -u HOME -u XDG_CACHE_HOME $run
cell strange_home env -u XDG_CACHE_HOME HOME=/nonexistent $run
cell empty_cache_folder env XDG_CACHE_HOME= HOME="$work/home" $run
cell relative_cache_folder env XDG_CACHE_HOME=relative HOME="$work/home" $run
if [ -e relative ]; then echo "FAIL a relative XDG_CACHE_HOME was taken"; rm -rf relative; status=1; else echo "ok relative_cache_folder_is_not_taken"; fi
cell no_tmpdir env TMPDIR=/nonexistent $run
cell empty_environment env -i $run
cell time_zone env TZ=Pacific/Kiritimati $run
cell bad_time_zone env TZ=:/nonexistent $run
cell few_descriptors bash -c "ulimit -n 32; exec $run"
plugins=("$KILN_BUILD"/plugins/*.so) # each holds a descriptor (engine/plugin/loader.c)
cell very_few_descriptors bash -c "ulimit -n $((9 + ${#plugins[@]})); exec $run"
cell small_stack bash -c "ulimit -s 256; exec $run"
cell no_core_no_locks bash -c "ulimit -c 0 -l 0; exec $run"
cell stdin_closed bash -c "exec $run <&-"
cell stdout_closed bash -c "exec $run >&-"
cell stderr_closed bash -c "exec $run 2>&-"
cell all_closed bash -c "exec $run <&- >&- 2>&-"
cell masked bash -c "umask 077; exec $run"
cell open_mask bash -c "umask 000; exec $run"
cell from_root bash -c "cd / && exec $run"
cell from_a_folder_that_is_gone bash -c "mkdir -p $work/gone && cd $work/gone && rmdir $work/gone; exec $run"
echo "# $cells cells"

# What is printed and cannot be is an error, not silence.
mkdir "$work/store"
for command in "nodes" "samplers" "plugins" "run $work/w.yaml --explain" "cache stat --cache $work/store" "help" "--version"; do
    "$kiln" $command >/dev/full 2>"$work/stderr"
    code=$?
    name=full_$(echo "$command" | cut -d ' ' -f 1)
    "$kiln" $command >"$work/stdout" 2>/dev/null
    if [ ! -s "$work/stdout" ]; then echo "ok $name (it prints nothing)"
    elif [ $code -ne 0 ] && [ $code -lt 124 ] && [ -s "$work/stderr" ]; then echo "ok $name"
    else echo "FAIL $name: status $code, said: $(head -n 1 "$work/stderr")"; status=1; fi
done
exit $status
