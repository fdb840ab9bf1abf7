#!/usr/bin/env bash
# The kernels compile without a warning for the oldest chip: nvcc's and the host compiler's warnings are errors (NVCC_FLAGS). By itself a build makes them for
# the chips that are here only, so they are compiled beside it: as far as PTX, which is where warnings come from. KILN_TEST_FULL=1: whole objects, for the oldest
# and the newest chip, as tests/scripts/test_gpu_check.sh makes them for the newest.
set -u
cd "$KILN_ROOT" || exit 2
command -v nvcc >/dev/null || { echo "skip cuda_compiles: no nvcc"; exit 0; }
case $KILN_BUILD in *-address | *-undefined | *-thread) echo "skip cuda_compiles: a sanitizer's build has no CUDA library"; exit 0 ;; esac
status=0
unset MAKEFLAGS MFLAGS MAKELEVEL
work=$(mktemp -d)
mkdir -p "$work/engine/backend/cuda"
trap 'rm -rf "$work"' EXIT
read -ra flags < <(KILN_BUILD="$work/b" make --no-print-directory -n V=1 CUDA_ARCH=75 "$work/b/engine/backend/cuda/embedding.cu.o" | sed -n 's/^[^ ]*nvcc \(.*\) -MMD.*/\1/p')
if [ ${#flags[@]} -eq 0 ]; then
    echo "FAIL compiles: the Makefile's command was not found"
    exit 1
fi
if [ -n "${KILN_TEST_FULL:-}" ]; then
    beside=$KILN_BUILD/cuda-compiles objects=() chips="75 90"
    for source in engine/backend/cuda/*.cu; do objects+=("$beside/$source.o"); done
    KILN_BUILD="$beside" make --no-print-directory -j"$(nproc)" CUDA_ARCH="$chips" "${objects[@]}" >"$work/log" 2>&1
else
    chips=75
    printf '%s\n' engine/backend/cuda/*.cu | xargs -P "$(nproc)" -I{} nvcc "${flags[@]//code=sm_/code=compute_}" -ptx {} -o "$work/{}.ptx" >"$work/log" 2>&1
fi
if [ $? -eq 0 ]; then
    echo "ok compiles_for_sm_${chips// /_and_sm_}"
else
    tail -n 12 "$work/log"
    echo "FAIL compiles_for_sm_${chips// /_and_sm_}"
    status=1
fi
# The build's own rule makes a warning an error: a file that is not wrong but careless does not pass.
printf 'static __global__ void careless(int *x) { int unused = 1; x[0] = 2; }\nvoid run(int *x) { careless<<<1, 1>>>(x); }\n' >"$work/careless.cu"
if nvcc "${flags[@]}" -c "$work/careless.cu" -o "$work/careless.o" >"$work/log" 2>&1 || ! grep -q unused "$work/log"; then
    echo "FAIL a_warning_is_an_error"
    status=1
else
    echo "ok a_warning_is_an_error"
fi
exit $status
