#!/usr/bin/env bash
# What nvcc makes of the kernels that most of a step's time is in: nothing is spilled to memory, so many blocks fit a chip's registers, and tensor cores multiply. Instructions are looked at where
# nvdisasm is (CUDA's own, or NVIDIA's package for pip); without it that part is skipped. KILN_TEST_FULL=1: all rows; else the two that compile quickest.
set -u
cd "$KILN_ROOT" || exit 2
command -v nvcc >/dev/null || { echo "skip cuda_registers: no nvcc"; exit 0; }
case $KILN_BUILD in *-address | *-undefined | *-thread) echo "skip cuda_registers: a sanitizer's build has no CUDA library"; exit 0 ;; esac
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi; }
disassembler=$(command -v nvdisasm || true)

# kernels FILE CHIP NAME REGISTERS COUNT: each of the COUNT instances of NAME has at most so many registers, and no stack
kernels() {
    nvcc -std=c++17 -O3 -Iinclude -Iengine -cubin -arch="$2" -Xptxas -v "engine/backend/cuda/$1.cu" -o "$work/$1.cubin" >"$work/$1.txt" 2>&1 || { tail -n 5 "$work/$1.txt"; return 1; }
    awk -v name="$3" -v most="$4" -v wanted="$5" '
        /Compiling entry function/ { kernel = index($0, name) ? $0 : "" }
        kernel && /bytes stack frame/ { n++; if ($1 + 0 > 0 || !/ 0 bytes spill stores, 0 bytes spill loads/) { print "  spills: " kernel; wrong = 1 } }
        kernel && match($0, /Used [0-9]+ registers/) { used = substr($0, RSTART + 5, RLENGTH - 15) + 0; if (used > top) top = used; if (used > most) { print "  " used " registers: " kernel; wrong = 1 } }
        END { print "# " name ": " n " kernels, at most " top " registers"; exit wrong || n != wanted }' "$work/$1.txt"
}
# instructions FILE PATTERN COUNT: at least so many in the file's code
instructions() {
    n=$("$disassembler" -c "$work/$1.cubin" | grep -c "$2")
    echo "# $1: $n of $2"
    [ "$n" -ge "$3" ]
}
# loop FILE KERNEL MOST: the longest loop with a product in it has at most so many instructions, those of its seldom paths among them
loop() {
    n=$("$disassembler" -c "$work/$1.cubin" | awk -v kernel="$2" '
        /^\.text\./ { here = index($0, kernel); n = 0; delete at }
        !here { next }
        match($0, /^\.L_x_[0-9]+:/) { at[substr($0, 1, RLENGTH - 1)] = n; next }
        /^ *\/\*[0-9a-f]+\*\/ +[^ ]/ {
            product[n++] = /MMA/
            if (/BRA/ && match($0, /`\(\.L_x_[0-9]+\)/)) {
                from = substr($0, RSTART + 2, RLENGTH - 3)
                if (from in at) { some = 0; for (i = at[from]; i < n; i++) some += product[i]; if (some && n - at[from] > most) most = n - at[from] }
            }
        }
        END { print most + 0 }')
    echo "# $2: a loop of $n instructions"
    [ "$n" -gt 0 ] && [ "$n" -le "$3" ]
}

# a block of 288 threads in 65,536 registers, with the four products of a step in each of six kernels
kernels gemm_wgmma sm_90a gemm_wgmma 224 6
say gemm_wgmma_keeps_its_sums_in_registers $?
# two blocks of 128 threads a processor, at the widest head
kernels attention_mma sm_90 attention_mma 248 14
say attention_mma_keeps_its_scores_in_registers $?
if [ -n "${KILN_TEST_FULL:-}" ]; then
    kernels gemm_mma sm_90 gemm_mma 128 4 # two blocks of 256 threads
    say gemm_mma_keeps_two_blocks_a_processor $?
    kernels attention_wide sm_90 attention_wide 255 8
    say attention_wide_does_not_spill $?
fi
if [ -n "$disassembler" ]; then
    instructions gemm_wgmma 'HGMMA.64x[0-9]*x16.F32' 24 && instructions gemm_wgmma 'UTMALDG.[24]D' 18
    say gemm_wgmma_multiplies_tiles_that_the_copy_engine_brings $?
    instructions attention_mma 'HMMA.16816.F32' 100
    say attention_mma_multiplies_on_tensor_cores $?
    # 64 keys for 16 queries; some 800 of them are for masks and edges
    loop attention_mma attention_mmaILi1ELi48E 1400
    say attention_mma_has_a_short_loop $?
    if [ -n "${KILN_TEST_FULL:-}" ]; then
        loop gemm_mma gemm_mmaILi1ELi128E 280 # 32 products; some 60 are for another tap
        say gemm_mma_has_a_short_loop $?
    fi
else
    echo "skip cuda_instructions: no nvdisasm"
fi
exit $status
