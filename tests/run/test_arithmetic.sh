#!/bin/bash
# test_arithmetic.sh - the digest of what computes results, which is in their keys: it changes with a kernel and with nothing else, and the command has
# the one of these sources.
. "${BASH_SOURCE%/*}/../cli/head.sh"
tree="$work/tree"
mkdir -p "$tree/include"
cp -R Makefile "$tree" && cp -R include/kiln "$tree/include" && cp -R engine "$tree" && chmod -R u+w "$tree"
digest() { (cd "$tree" && make -s NVCC= KILN_BUILD="$work/build" "$work/build/arithmetic" && cat "$work/build/arithmetic") 2>>"$work/log"; }

own=$(digest)
check it_is_a_digest grep -Eqx '[0-9a-f]{16}' <<<"$own"
same the_build_has_it "$(cat "$KILN_BUILD/arithmetic")" "$own"
check keys_have_it grep -qF " $own" "$kiln"
echo "/* else */" >>"$tree/engine/cli/main.c"
same of_the_command_it_is_not "$(digest)" "$own"
for file in engine/backend/cpu/reduce.c engine/backend/cpu/kernels_short.h engine/backend/cuda/vector_ops.cu engine/graph/plan.c engine/weights/scaled.c include/kiln/ops.h; do
    before=$(digest)
    echo "/* else */" >>"$tree/$file"
    after=$(digest)
    check "of_${file//[\/.]/_}" test -n "$after" -a "$after" != "$before"
done
exit $status
