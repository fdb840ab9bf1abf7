#!/usr/bin/env bash
# The op contract on the emulated CUDA device: tests of tests/plugin that go through kiln.ops/1, with the same demands as on the processor.
set -u
cd "$KILN_ROOT" || exit 2
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip cuda_contract: no emulation in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for name in test_operands test_states test_paged_cache test_saturate test_custom_op test_buckets test_products_torch test_ops_torch; do
    KILN_TEST_BACKEND=cuda KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/$name.report timeout -k 5 600 "$KILN_BUILD/tests/plugin/$name" >"$work/$name.out" 2>&1
    code=$?
    if [ $code = 0 ] && grep -q '^ok' "$work/$name.out" && grep -q '^faults 0 kernel_faults 0 ' "$work/$name.report"; then
        echo "ok ${name}_on_the_device"
    else
        grep -v '^ok' "$work/$name.out" | head -n 8
        cat "$work/$name.report"
        echo "FAIL ${name}_on_the_device"
        status=1
    fi
done
# one captured graph serves the steps of a generation: where tokens go is a number on the device
if grep -q ' launches [1-9]' "$work/test_paged_cache.report"; then
    echo "ok steps_of_a_cache_are_one_graph"
else
    echo "FAIL steps_of_a_cache_are_one_graph"
    status=1
fi
exit $status
