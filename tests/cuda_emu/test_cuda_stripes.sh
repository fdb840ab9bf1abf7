#!/usr/bin/env bash
# An autoencoder in stripes of rows on the emulated CUDA device: made-up ones with every op that goes by rows and with ops that do not, against the
# whole picture there. In full: all of tests/vae/test_vae_stripes.c but what is measured in bytes of the host's memory.
set -u
cd "$KILN_ROOT" || exit 2
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip cuda_stripes: no emulation in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cases="test_made_up"
[ -z "${KILN_TEST_FULL:-}" ] || cases="test_made_up test_shapes test_variance test_kinds"
# shellcheck disable=SC2086
KILN_TEST_BACKEND=cuda KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/report timeout -k 5 600 "$KILN_BUILD/tests/vae/test_vae_stripes" $cases >"$work/out" 2>&1
code=$?
[ $code = 0 ] || grep -v '^ok' "$work/out" | head -n 5
if [ $code = 0 ] && grep -q '^ok' "$work/out" && grep -q '^faults 0 kernel_faults 0 ' "$work/report"; then echo "ok stripes_on_the_device"; else echo "FAIL stripes_on_the_device"; exit 1; fi
