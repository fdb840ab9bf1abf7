# test_check_sampling_edges.sh - `kiln check-plugin` of samplers at the edge of what they may do: 64 numbers kept, a long sampling that fails with a
# sentence or without one; of a sampler that takes the process with it only what was checked before it counts as passed.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
umask 022
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -Iinclude "$@" tests/plugin/hostile/edge_sampling.c -o "$work/$name.so" -lm || exit 2; }
about() { awk -v head="sampler edge_$1" '/^(sampler|schedule|node|plugin|file) / { on = $0 == head } on' "$work/report.txt"; }

name=edges; compile
"$kiln" check-plugin "$work/edges.so" >"$work/report.txt" 2>&1; same it_fails $? 1
same many_numbers_are_kept "$(about many_numbers | grep FAIL | grep -cv law-of-flows)" 0
check many_numbers_were_tried grep -q '^sampler edge_many_numbers' "$work/report.txt"
same a_sentence_is_enough "$(about refuses_long | grep -c 'FAIL message')" 0
about silent_when_long >"$work/log"
check without_one_it_is_named grep -q 'FAIL message .*without a message on data with noise on it' "$work/log"
check on_flows_too grep -q "FAIL message .*without a message on a flow's data" "$work/log"

name=gone; compile -DONLY=GONE
"$kiln" check-plugin "$work/gone.so" >"$work/log" 2>&1; same it_fails_too $? 1
check its_crash_is_named grep -q 'FAIL crash .*SIGABRT' "$work/log"
# its table, open(), the floating-point mode and that there was something to try
same what_was_lost_did_not_pass "$(sed -nE 's/.*: ([0-9]+) checks? passed, ([0-9]+) failed; 1 tried.*/\1 \2/p' "$work/log")" "4 1"
exit $status
