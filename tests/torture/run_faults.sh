# run_faults.sh - faults in the middle of whole runs: tests/torture/run_faults.sh EVERY FOLDER
# A small workflow of images runs with the shim in front of libc, the k-th open, read, write, fsync, rename, ... or allocation failing,
# for k = 1, 1 + EVERY, ... until none is left (EVERY 1: all of them); and with every allocation from the k-th on failing. After each:
# the process ended by itself, with a word when it did not succeed; every picture that is there is whole and right, no unfinished file
# is; the store verifies and keeps no orphan after gc; and the same run without a fault gives the right picture.
build="${KILN_BUILD:-build/release}"
build="$PWD/${build#"$PWD"/}"
kiln=$build/kiln shim=$build/tests/torture/shim.so
every=$1 work=$2
mkdir -p "$work" || exit 2
work=$(realpath "$work")
cp "$shim" "$work.shim.so" && shim="$work.shim.so" # a list of names to preload is cut at blanks, which the clone's may have
cat >"$work/w.yaml" <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 48, height: 32, batch_size: 1, color: 3368601}}
  large: {class_type: ImageScale, inputs: {image: [blank, 0], upscale_method: lanczos, width: 160, height: 120, crop: disabled}}
  save: {class_type: SaveImage, inputs: {images: [large, 0], filename_prefix: p}}
Y
export KILN_CACHE=
"$kiln" run "$work/w.yaml" --no-cache -q --out "$work/ref" >/dev/null || exit 2
right=$work/ref/p_00001_.png
status=0

# run LOG [NAME=VALUE ...]: the workflow, on a fresh or a kept store
run() {
    log=$1
    shift
    timeout 30 env "$@" "$kiln" run "$work/w.yaml" --cache "$work/store" --jobs 1 -q --out "$work/out" >"$log.out" 2>"$log"
}

# What a run of exit status $1 may leave; prints what is wrong.
judge() {
    [ "$1" -lt 124 ] || { echo "ended by signal or hung (status $1)"; return; }
    [ "$1" -eq 0 ] || [ -s "$work/log" ] || { echo "status $1 without a word"; return; }
    left=$(find "$work/out" -type f ! -name 'p_0000?_.png' 2>/dev/null | head -n 1)
    [ -z "$left" ] || { echo "an unfinished file: $left"; return; }
    for picture in "$work"/out/*.png; do
        [ -e "$picture" ] || continue
        cmp -s "$picture" "$right" || { echo "a wrong picture"; return; }
    done
    [ "$1" -ne 0 ] || [ -e "$work/out/p_00001_.png" ] || { echo "status 0 without a picture"; return; }
    if [ -e "$work/store" ]; then
        "$kiln" cache verify --cache "$work/store" >"$work/verify" 2>&1 || { echo "the store does not verify: $(tail -n 1 "$work/verify")"; return; }
    fi
    rm -rf "$work/out"
    run "$work/after" || { echo "afterwards it fails: $(head -n 1 "$work/after")"; return; }
    cmp -s "$work/out/p_00001_.png" "$right" || { echo "afterwards another picture"; return; }
    [ ! -d "$work/store/values" ] || find "$work/store/values" -type f -exec touch -d '2 hours ago' {} + # younger files may be about to be named
    "$kiln" cache gc --cache "$work/store" >/dev/null 2>&1 || { echo "gc fails"; return; }
    "$kiln" cache stat --cache "$work/store" 2>&1 | grep -q '^orphans   0, ' || echo "after gc there are orphans"
}

# faults NAME KIND [MORE ...]: with a store that is fresh, and one that has the results
faults() {
    name=$1 kind=$2
    shift 2
    for kept in fresh warm; do
        ran=0 struck=0 bad=0 k=1
        while [ $k -le 100000 ]; do
            rm -rf "$work/out" "$work/store"
            [ $kept = fresh ] || { run "$work/before" && rm -rf "$work/out"; }
            run "$work/log" LD_PRELOAD="$shim" SHIM_FOLDER="$work" SHIM_KIND="$kind" SHIM_AT=$k SHIM_LOG="$work/count" "$@"
            code=$? fired=$(cut -d ' ' -f 2 "$work/count" 2>/dev/null)
            rm -f "$work/count"
            wrong=$(judge $code)
            ran=$((ran + 1))
            [ -z "$wrong" ] || { bad=$((bad + 1)); [ $bad -gt 3 ] || echo "  $name, $kept store, call $k: $wrong"; }
            [ "${fired:-1}" -gt 0 ] || break
            struck=$((struck + 1)) k=$((k + every))
        done
        if [ $bad -eq 0 ] && [ $struck -gt 0 ]; then echo "ok run_${name}_${kept} ($struck faults)"; else echo "FAIL run_${name}_${kept} ($bad of $ran)"; status=1; fi
    done
}

for kind in eio enospc short eintr; do faults $kind $kind; done
every=$((every * 8)) # there are many allocations
[ "$1" -gt 1 ] || every=1
faults alloc alloc
faults alloc_from_then_on alloc SHIM_FROM=1
exit $status
