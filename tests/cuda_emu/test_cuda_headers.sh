#!/usr/bin/env bash
# The headers that stand in for NVIDIA's libraries' (tests/cuda_emu/fake, cudnn_api.h) against their own, where nvcc is: every constant has the same value, every function takes the same types, and what
# is handed over by address has the same size. A name that the real header lacks, or has otherwise, is a compiler's error here.
set -u
cd "$KILN_ROOT" || exit 2
nvcc=$(command -v nvcc) || { echo "skip cuda_headers: no nvcc, so no headers to compare with"; exit 0; }
real=$(dirname "$(dirname "$(realpath "$nvcc")")")/include
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
say() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi; }

# compare HEADER OWN TYPES FUNCTIONS: a program that prints each constant and size, once with each header; and both headers' functions, which must agree
compare() {
    header=$1 fake=$2
    constants=$(grep -v '^ \*\|^/\*' "$fake" | grep -o '\b[A-Za-z0-9_]* = [0-9]' | sed 's/ = .*//' | sort -u)
    {
        echo '#include HEADER'
        echo '#include <stdio.h>'
        echo 'int main(void) {'
        for c in $constants; do echo "printf(\"$c %d\\n\", (int)$c);"; done
        for t in $3; do echo "printf(\"$t %zu\\n\", sizeof($t));"; done
        echo 'return 0; }'
    } >"$work/values.c"
    cc -w -DHEADER="\"$PWD/$fake\"" -Itests/cuda_emu/fake "$work/values.c" -o "$work/fake" && cc -w -DHEADER="<$header>" -isystem "$real" "$work/values.c" -o "$work/real" || return 1
    "$work/fake" >"$work/fake.txt" && "$work/real" >"$work/real.txt" && diff "$work/fake.txt" "$work/real.txt" || return 1
    # a function's type, spelt by the compiler: the declarations of the fake header behind the real one's
    { echo "#include <$header>"; tr '\n' ' ' <"$fake" | grep -o "$4(\?[A-Za-z]*([^;{}]*);" | sed 's/^/extern /'; } >"$work/functions.c"
    echo "# $header: $(wc -l <"$work/fake.txt") constants and sizes, $(($(wc -l <"$work/functions.c") - 1)) functions"
    [ "$(wc -l <"$work/functions.c")" -gt "${5:-5}" ] && cc -fsyntax-only -isystem "$real" "$work/functions.c"
}
compare cublasLt.h tests/cuda_emu/fake/cublasLt.h 'cublasLtMatmulAlgo_t cublasLtMatmulHeuristicResult_t cudaDataType_t' '\(size_t\|cublasStatus_t\) cublasLt[A-Za-z]*'
say cublaslt_is_the_librarys_own $?
compare cuda.h tests/cuda_emu/fake/cuda.h 'CUtensorMap CUresult' 'CUresult cuTensorMap[A-Za-z]*' 1
say the_driver_is_its_own $?
if [ -e "$real/cudnn.h" ]; then
    compare cudnn.h engine/backend/cuda/cudnn_api.h 'cudnnConvolutionFwdAlgoPerf_t cudnnStatus_t cudnnDataType_t' '\(size_t\|const char \*\|cudnnStatus_t\) \?cudnn[A-Za-z]*[0-9]\?[A-Za-z]*\(_v7\)\?'
    say cudnn_is_the_librarys_own $?
else
    echo "skip cudnn_is_the_librarys_own: no cudnn.h"
fi
exit $status
