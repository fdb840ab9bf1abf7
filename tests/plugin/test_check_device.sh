# test_check_device.sh - `kiln check-plugin --device` samples with each sampler on a device and on the host: those that are right on the host alone are
# named with the step and how far apart; kiln's own are the same on an emulated CUDA device.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
umask 022
emu=$(realpath -m "$KILN_BUILD/emu/kiln-cuda-emu.so")
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -Iinclude "$@" -lm || exit 2; }
about() { awk -v head="sampler device_$1" '/^(sampler|schedule|node|plugin|file) / { on = $0 == head } on' "$work/report.txt" >"$work/log"; }
says() { about "$1"; check "$2" grep -Eq "$3" "$work/log"; } # SAMPLER TEST PATTERN

compile tests/plugin/hostile/bad_device.c -o "$work/bad_device.so"
"$kiln" check-plugin "$work/bad_device.so" >"$work/report.txt" 2>&1; same the_host_alone_finds_nothing $? 0
same no_device_is_said "$(grep -c 'not checked: device equals host: no device was asked for' "$work/report.txt")" 7

"$kiln" check-plugin "$work/bad_device.so" --device reference >"$work/report.txt" 2>&1; same found_on_another_backend $? 1
says good a_good_one_is_the_same 'ok   device +12 steps on reference and on the host, never further apart than [0-9.]+e-0[6-9] of'
says once what_is_kept_on_the_host 'FAIL device +after step 6 x on reference is [0-9.]+ of its size away from x on the host'
says again a_crash_there 'FAIL crash +on reference it crashed with SIGSEGV after 3 steps, and on the host it did not'
says fails a_failure_there 'FAIL device +on reference, and not on the host, it failed after 2 steps: .*has been used before'
says keeps copies_each_step 'FAIL device-link +brought 24 latents to the host or back in 12 steps'

if [ -e "$emu" ]; then
    KILN_CUDA_LIBRARY=$emu "$kiln" check-plugin "$work/bad_device.so" --device cuda >"$work/report.txt" 2>&1; same found_on_a_device $? 1
    says reads memory_that_is_read 'FAIL device +after step 5 x on cuda is [0-9.]+ of its size away'
    says writes memory_that_is_written 'FAIL device +after step 0 x on cuda is [0-9.]+ of its size away'
    says good a_good_one_there 'ok   device +12 steps on cuda and on the host'
    KILN_CUDA_LIBRARY=$emu "$kiln" check-plugin "$work/bad_device.so" --device cuda --json >"$work/report.json" 2>&1
    check levels grep -q '"name": "device_reads", "level": "behaviour", "test": "device"' "$work/report.json"
    compile plugins/examples/midpoint.c -o "$work/midpoint.so"
    KILN_CUDA_LIBRARY=$emu "$kiln" check-plugin "$work/midpoint.so" --device cuda >"$work/log" 2>&1; same the_example $? 0
    check its_line grep -q 'ok   device ' "$work/log"
    KILN_CUDA_LIBRARY=$emu "$kiln" check-plugin "$KILN_BUILD/plugins/kiln-sampler.so" --device cuda >"$work/log" 2>&1
    for kind in sampler guider; do # a line each, below its own
        same each_of_kilns_own_${kind}s "$(grep -c "^$kind " "$work/log")" "$(awk -v k="$kind" '/^[a-z]+ /{ at = $1 } /ok   device / && at == k' "$work/log" | wc -l)"
        check and_there_are_some_${kind}s grep -q "^$kind " "$work/log"
    done
else
    echo "skip found_on_a_device: no emulation in this build"
fi
exit $status
