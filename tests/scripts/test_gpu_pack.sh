#!/usr/bin/env bash
# scripts/gpu-pack, and scripts/gpu-check --prebuilt with what it made: unpacked elsewhere, in an empty environment whose PATH has no compiler, no make,
# no git and no package manager; its three calls over the emulation. KILN_TEST_FULL=1: all of their steps (tests/scripts/test_gpu_check.sh has them, too).
set -u
cd "$KILN_ROOT" || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
check() { # NAME COMMAND ...
    local name=$1
    shift
    if "$@"; then echo "ok $name"; else tail -n 12 "$work/said" 2>/dev/null | sed 's/^/  /'; echo "FAIL $name"; status=1; fi
}
says() { grep -qE -- "$1" "$work/said"; }
ends() { # WANTED COMMAND ...: runs it, keeps what it says
    local wanted=$1 code
    shift
    "$@" >"$work/said" 2>&1 </dev/null
    code=$?
    [ "$code" = "$wanted" ] || echo "exit status $code, not $wanted" >>"$work/said"
    [ "$code" = "$wanted" ]
}

# ---- arguments -----------------------------------------------------------------------------------------------------------------------------------------
check gpu_pack_refuses_what_it_does_not_know ends 2 scripts/gpu-pack --foo
check gpu_pack_shows_its_usage_then says 'scripts/gpu-pack \[--out FOLDER\]'
check gpu_pack_wants_a_folder ends 2 scripts/gpu-pack --out
check gpu_pack_explains_itself ends 0 scripts/gpu-pack --help
mkdir "$work/mine"
echo kept >"$work/mine/file"
check gpu_pack_overwrites_nothing_of_others ends 1 scripts/gpu-pack --rehearsal --out "$work/mine"
check gpu_pack_says_why says 'was not made by gpu-pack; name another with --out'
check gpu_pack_left_it test "$(cat "$work/mine/file")" = kept
check gpu_check_wants_a_pack ends 2 scripts/gpu-check --prebuilt "$work/mine"
check gpu_check_says_what_a_pack_is says 'is no folder that scripts/gpu-pack made'
check gpu_check_knows_three_calls ends 2 scripts/gpu-check --call D
check gpu_check_names_them says 'call D: it is A, B or C'

if [ "$KILN_BUILD" != build/release ] || [ ! -e "$KILN_BUILD/emu/kiln-cuda-emu.so" ]; then
    echo "skip gpu_pack_rehearsal: it wants the usual build"
    exit $status
fi

# ---- ops of full-size models, whose weights are zeros on no disk; here on the processor -----------------------------------------------------------------
check bench_ops_sd15 ends 0 scripts/bench_ops --families sd15 --word timestep
check bench_ops_row says '^\| timestep_embedding 2 -> 2x320 \| 1 \| [0-9.]+ \|'
check bench_ops_takes_no_disk test "$(du -sm build/bench/shapes | cut -f 1)" -lt 20
check bench_ops_without_a_floor ends 1 env KILN_BUILD=build/nowhere scripts/bench_ops --families sd15
check bench_ops_says_what_is_missing says 'library_floor is not there'
# A library that has no bf16 for this processor, and one that has nothing.
mkdir -p "$work/floors/tests/bench"
ln -s "$KILN_ROOT/$KILN_BUILD/plugins" "$work/floors/plugins"
ln -s "$KILN_ROOT/$KILN_BUILD/tests/bench/op_times" "$KILN_ROOT/$KILN_BUILD/tests/bench/random_model" "$work/floors/tests/bench/"
printf '#!/bin/sh\nwhile read -r layer; do [ "$1" = bf16 ] || [ "$NOTHING" ] || printf "5\\t%%s\\n" "$layer"; done\n' >"$work/floors/tests/bench/library_floor"
chmod +x "$work/floors/tests/bench/library_floor"
check bench_ops_floors_in_f32 ends 0 env KILN_BUILD="$work/floors" scripts/bench_ops --families sd15 --parts unet --word "linear 2x320"
check bench_ops_says_in_which_precision says 'best dense product of one call in f32: [0-9]+ GFLOP/s'
check bench_ops_has_no_floor ends 1 env NOTHING=1 KILN_BUILD="$work/floors" scripts/bench_ops --families sd15 --parts unet --word "linear 2x320"
check bench_ops_says_there_is_none says 'times none of these layers'
check bench_ops_unknown_family ends 2 scripts/bench_ops --families sd9

# ---- the pack ------------------------------------------------------------------------------------------------------------------------------------------
check gpu_pack_rehearsal ends 0 scripts/gpu-pack --rehearsal --out "$work/here/pack"
check gpu_pack_says_its_size says 'pack.tar.xz: [0-9]+ MB, unpacked [0-9]+ MiB'
mkdir -p "$work/there/bin"
check gpu_pack_unpacks tar -C "$work/there" -xf "$work/here/pack.tar.xz"
rm -rf "$work/here"
check gpu_pack_has_no_debug_information test -z "$(find "$work/there/pack/build" -type f -exec readelf -S {} + 2>/dev/null | grep -o '\.debug_info' | head -n 1)"
check gpu_pack_says_what_it_is grep -q '^commit ' "$work/there/pack/gpu-pack.txt"

# ---- three calls of it, with nothing else at hand ------------------------------------------------------------------------------------------------------
for tool in bash sh env cat cp mv rm mkdir chmod ls sed awk grep sort head tail tr cut wc paste tee date sleep timeout dirname basename realpath mktemp sha256sum nproc test; do
    ln -s "$(type -P "$tool")" "$work/there/bin/$tool"
done
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$work/there/bin/python3"
calls() { # A|B|C [ARG ...]
    local call=$1
    shift
    rm -f "$work/table.md"
    (cd "$work/there" && ends 0 env -i PATH="$work/there/bin" HOME="$work/there" KILN_TEST_OPS=upsample pack/scripts/gpu-check --prebuilt pack --rehearse --call "$call" --out "$work/table.md" "$@")
}
rows() { # NUMBER PATTERN: so many rows that are ok
    [ "$(grep -cE "^\\| .*($2).* \\| ok \\| [0-9]+ \\|" "$work/table.md")" = "$1" ]
}
check gpu_pack_call_A calls A
check gpu_pack_call_A_rows rows 5 'kiln starts|every op|each op of|driver counts|memcheck'
check gpu_pack_call_A_has_no_others test "$(grep -cE '\| (ok|FAILED|left-out) \|' "$work/table.md")" = 5
check gpu_pack_ways_agree grep -qE '\| [1-9][0-9]* ops, 0 differ \|' "$work/table.md"
check gpu_pack_table_of_ops grep -qE '^\| linear 2x.* \| [0-9]+ \| [0-9.]+ \| [0-9.]+ \| (mma|library): [a-z]+ \|' "$work/table.md"
check gpu_pack_table_as_data python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d[0]["ops"][0]["ways"]["mma"]["us"] > 0' "$work/table-ops-tiny.json"
check gpu_pack_names_its_commit grep -qE '^# gpu-check, call A, .*commit [0-9a-f]+.*chip none: a rehearsal' "$work/table.md"
if [ -n "${KILN_TEST_FULL:-}" ]; then
    check gpu_pack_call_B calls B
    check gpu_pack_call_B_rows rows 7 'kiln starts|budgets of|the link|without torch|speed of SDXL|ways of making|against residency'
    check gpu_pack_call_C calls C
    check gpu_pack_call_C_rows rows 7 'kiln starts|through the judge|equal runs|speed and goals|racecheck|initcheck'
    check gpu_pack_without_torch grep -qE '^\| parity with diffusers; its speed \| left-out ' "$work/table.md"
else
    check gpu_pack_call_B calls B --only link
    check gpu_pack_call_B_rows rows 2 'kiln starts|the link'
    check gpu_pack_call_C calls C --only equal
    check gpu_pack_call_C_rows rows 2 'kiln starts|equal runs'
fi
check gpu_pack_equal_runs grep -q '1 different of 3' "$work/table.md"
exit $status
