# test_mamba2.sh - a stranger brings a Mamba-2 (language/): its recurrence is an op of its own, its states are kiln's. Built against an installed kiln and
# nothing else, and held against transformers: f32 1e-5 of the largest logit, bf16 2e-2, greedy text token by token.
family=mamba2
. "$KILN_ROOT/tests/strangers/language/language.sh"

"$kiln" check-plugin "$work/plugins/language.so" >"$work/check.txt" 2>&1; verdict check_plugin $?
grep -A 1 '^op org.example.ssd-scan' "$work/check.txt" | grep -q 'ok   op  *5 examples, against its reference'; verdict its_op_was_tried $?

# the op's CUDA half compiles, and the plugin loads with it; it is run by check-plugin where there is a device
if nvcc=$(command -v nvcc); then
    home=$(dirname "$(dirname "$(realpath "$nvcc")")")
    mkdir "$work/cuda" && "$nvcc" -std=c++17 -O2 --Werror all-warnings -Xcompiler -Wall,-Wextra,-fPIC -c "$here/ssd_scan.cu" -o "$work/cuda/ssd_scan.o" &&
        build ../cuda/language.so -DSSD_SCAN_CUDA "$here"/*.c "$work/cuda/ssd_scan.o" -L"$home/lib64" -lcudart_static -lstdc++ -lpthread -ldl -lrt &&
        "$kiln" check-plugin "$work/cuda/language.so" >"$work/check_cuda.txt" 2>&1
    verdict its_cuda_source_compiles $?
else
    echo "skip its_cuda_source_compiles: no nvcc"
fi
exit $status
