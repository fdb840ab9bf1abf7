#!/usr/bin/env bash
# test_corpus.sh - what the fuzzers have found that brought a branch of its own (corpus.tar.xz; scripts/fuzz --keep), through each one's checks.
set -u
cd "$KILN_ROOT" || exit 2
command -v xz >/dev/null || { echo "skip corpus: xz is not installed"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -xJf tests/fuzz/corpus.tar.xz -C "$work" || { echo "FAIL corpus_is_unpacked"; exit 1; }
status=0
for source in tests/fuzz/fuzz_*.c; do
    name=${source#tests/fuzz/fuzz_} name=${name%.c}
    if KILN_FUZZ_CORPUS=$work "$KILN_BUILD/tests/fuzz/test_fuzz_$name" >"$work/said" 2>&1 && grep -q '^ok ' "$work/said"; then
        echo "ok corpus_of_$name"
    else
        tail -n 12 "$work/said"
        echo "FAIL corpus_of_$name"
        status=1
    fi
done
exit $status
