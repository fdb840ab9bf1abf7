# test_torture.sh - the short form of `make torture`: the store under a sample of every fault, at places further and further apart.
cd "$KILN_ROOT" || exit 2
shim="$PWD/$KILN_BUILD/tests/torture/shim.so"
if [ ! -e "$shim" ]; then echo "skip torture: built under a sanitizer, which stands in the shim's place"; exit 0; fi
work=$(mktemp -d /dev/shm/kiln-torture-XXXXXX 2>/dev/null || mktemp -d) || exit 2
trap 'rm -rf "$work" "$preload"' EXIT
preload=$(mktemp -d) && cp "$shim" "$preload/" && shim="$preload/shim.so" # a list of names to preload is cut at blanks
"$KILN_BUILD/tests/torture/torture" "$shim" "$work" short
result=$?
# The tester tested: when no fsync counts, a power cut takes what was acknowledged, and that must be found.
for scenario in put_small put_large state_first; do
    if SHIM_LIE=1 "$KILN_BUILD/tests/torture/torture" "$shim" "$work" full $scenario | grep -q 'acknowledged is gone'; then echo "ok planted_bug_is_found_in_$scenario"; else echo "FAIL planted_bug_is_found_in_$scenario"; result=1; fi
done
bash tests/torture/crowd.sh 4 10 "$work/crowd" | tee "$work/log"
bash tests/torture/run_faults.sh 29 "$work/runs" | tee -a "$work/log"
[ $result -eq 0 ] && ! grep -q "^FAIL" "$work/log"
