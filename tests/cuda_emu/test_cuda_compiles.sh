#!/usr/bin/env bash
# The kernels compile without a warning for the oldest chip and the newest: nvcc's and the host compiler's warnings are errors (NVCC_FLAGS), so an object that
# says it was made for both (Makefile: FILE.cu.arch) is the proof, and the usual build, which continuous integration runs, makes them for both. What a
# build with another CUDA_ARCH left out is compiled here, beside it.
set -u
cd "$KILN_ROOT" || exit 2
command -v nvcc >/dev/null || { echo "skip cuda_compiles: no nvcc"; exit 0; }
[ -e "$KILN_BUILD/backends/kiln-cuda.so" ] || { echo "skip cuda_compiles: this build (a sanitizer's) has no CUDA library"; exit 0; }
status=0
for chip in 75 90; do
    missing=() beside=$KILN_BUILD/cuda-$chip
    for source in engine/backend/cuda/*.cu; do
        object=$source.o
        made=$KILN_BUILD/$source.arch
        [ -e "$made" ] && [ "$made" -nt "$source" ] && grep -qw "$chip" "$made" || missing+=("$beside/$object")
    done
    if [ ${#missing[@]} -eq 0 ]; then
        echo "ok compiles_for_sm_$chip"
    elif make --no-print-directory B="$beside" CUDA_ARCH="$chip" "${missing[@]}" >"$KILN_BUILD/cuda-$chip.log" 2>&1; then
        echo "ok compiles_for_sm_$chip"
    else
        tail -n 12 "$KILN_BUILD/cuda-$chip.log"
        echo "FAIL compiles_for_sm_$chip"
        status=1
    fi
done
# The build's own rule makes a warning an error: a file that is not wrong but careless does not pass.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
read -ra flags < <(make --no-print-directory -n V=1 B="$work/b" CUDA_ARCH=75 "$work/b/engine/backend/cuda/lookup.cu.o" | sed -n 's/^[^ ]*nvcc \(.*\) -MMD.*/\1/p')
printf 'static __global__ void careless(int *x) { int unused = 1; x[0] = 2; }\nvoid run(int *x) { careless<<<1, 1>>>(x); }\n' >"$work/careless.cu"
if [ ${#flags[@]} -eq 0 ]; then
    echo "FAIL a_warning_is_an_error: the Makefile's command was not found"
    status=1
elif nvcc "${flags[@]}" -c "$work/careless.cu" -o "$work/careless.o" >"$work/log" 2>&1 || ! grep -q unused "$work/log"; then
    echo "FAIL a_warning_is_an_error"
    status=1
else
    echo "ok a_warning_is_an_error"
fi
exit $status
