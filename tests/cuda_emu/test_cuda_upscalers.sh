#!/usr/bin/env bash
# Every kind of upscaler on the emulated CUDA device, against spandrel's pictures.
set -u
cd "$KILN_ROOT" || exit 2
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip cuda_upscalers: no emulation in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
KILN_TEST_BACKEND=cuda KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report timeout -k 5 600 "$KILN_BUILD/tests/upscaler/test_upscalers" \
    test_every_kind >"$work/out" 2>&1
code=$?
[ $code = 0 ] || grep -v '^ok' "$work/out" | head -n 5
if [ $code = 0 ] && grep -q '^ok' "$work/out" && grep -q '^faults 0 kernel_faults 0 ' "$work/report"; then echo "ok upscalers_on_the_device"; else echo "FAIL upscalers_on_the_device"; exit 1; fi
