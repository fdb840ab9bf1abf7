# test_mamba2.sh - a stranger brings a Mamba-2 (language/): its recurrence is an op of its own, its states are kiln's. Built against an installed kiln and
# nothing else, and held against transformers: f32 1e-5 of the largest logit, bf16 2e-2, greedy text token by token.
family=mamba2
. "$KILN_ROOT/tests/strangers/language/language.sh"

"$kiln" check-plugin "$work/plugins/language.so" >"$work/check.txt" 2>&1; verdict check_plugin $?
grep -A 1 '^op org.example.ssd-scan' "$work/check.txt" | grep -q 'ok   op  *5 examples, against its reference'; verdict its_op_was_tried $?

# the op's CUDA half compiles, and the plugin loads with it
if nvcc=$(command -v nvcc); then
    home=$(dirname "$(dirname "$(realpath "$nvcc")")")
    mkdir "$work/cuda" && "$nvcc" -std=c++17 -O2 --Werror all-warnings -Xcompiler -Wall,-Wextra,-fPIC -c "$here/ssd_scan.cu" -o "$work/cuda/ssd_scan.o" &&
        build ../cuda/language.so -DSSD_SCAN_CUDA "$here"/*.c "$work/cuda/ssd_scan.o" -L"$home/lib64" -lcudart_static -lstdc++ -lpthread -ldl -lrt &&
        "$kiln" check-plugin "$work/cuda/language.so" >"$work/check_cuda.txt" 2>&1
    verdict its_cuda_source_compiles $?
else
    echo "skip its_cuda_source_compiles: no nvcc"
fi

# and computes what the reference does, where kernels can be run on the host
emu=$(realpath "$KILN_ROOT/$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
case $KILN_BUILD in *-address | *-undefined | *-thread) emu= ;; esac # what it needs is not linked into a plain program
if [ -e "$emu" ]; then
    emulated="$work/emulated" shim="$KILN_ROOT/tests/cuda_emu"
    mkdir "$emulated" && sed -f "$here/ssd_scan.sed" "$here/ssd_scan.cu" >"$emulated/scan.cpp" &&
        c++ -std=c++17 -O1 -Wall -Wextra -Werror -I"$shim" -I"$shim/fake" -I"$here" -c "$emulated/scan.cpp" -o "$emulated/scan.o" &&
        cc -std=c11 -O1 -Wall -Wextra -Wshadow -Wconversion -Werror -DSSD_SCAN_CUDA $(pkg-config --cflags kiln) -c "$here/ssd_scan.c" -o "$emulated/op.o" &&
        cc -std=c11 -O1 -Wall -Wextra -Wshadow -Wconversion -Werror $(pkg-config --cflags kiln) -c "$KILN_ROOT/tests/strangers/goldens/try_cuda.c" -o "$emulated/try.o" &&
        c++ "$emulated"/*.o "$emu" -Wl,-rpath,"$(dirname "$emu")" -o "$emulated/try" -lm && "$emulated/try"
    verdict its_cuda_source_is_right $?
    # the plugin with its cuda(), as kiln check-plugin tries it; and with a mistake in the kernel
    with_kernel() { # NAME SED
        mkdir -p "$emulated/$1" && sed -f "$here/ssd_scan_stream.sed" "$here/ssd_scan.cu" | sed "$2" >"$emulated/$1/scan.cpp" &&
            c++ -std=c++17 -O1 -fPIC -I"$shim" -I"$shim/fake" -I"$here" -c "$emulated/$1/scan.cpp" -o "$emulated/$1/scan.o" &&
            (cd "$emulated/$1" && cc -std=c11 -O1 -fPIC -DSSD_SCAN_CUDA $(pkg-config --cflags kiln jansson) -c "$here"/*.c) &&
            c++ -shared "$emulated/$1"/*.o "$emu" -Wl,-rpath,"$(dirname "$emu")" -o "$emulated/$1/language.so" -lm -ljansson && chmod go-w "$emulated/$1/language.so" &&
            KILN_CUDA_LIBRARY=$emu "$kiln" check-plugin "$emulated/$1/language.so" --device cuda >"$work/$1.txt" 2>&1
    }
    with_kernel whole '' && grep -q 'against its reference, also on cuda' "$work/whole.txt"; result=$?
    [ $result -eq 0 ] || cat "$work/whole.txt"
    verdict its_cuda_is_tried_by_check_plugin $result
    with_kernel broken 's/sum += s.c\[/sum -= s.c[/'; grep -q 'FAIL device f32' "$work/broken.txt"; verdict a_wrong_cuda_is_told $?
else
    echo "skip its_cuda_source_is_right: there is no emulation of CUDA"
fi
exit $status
