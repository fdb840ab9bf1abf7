# test_silent_half.sh - a node of another's plugin that gives no sign of life is named when half of --node-timeout has gone by, not before, and ended at
# the limit. The seconds that it says it has waited are read; nothing here is timed.
. "$KILN_ROOT/tests/cli/head.sh"
umask 022
ulimit -c 0
unset KILN_PLUGIN_PATH KILN_CACHE KILN_TEST_ENDING
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
mkdir "$work/plugins"
gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -Iinclude tests/plugin/hostile/ending.c -o "$work/plugins/ending.so" -lpthread || exit 2
cat >"$work/flow.yaml" <<'Y'
kiln: 1
nodes:
  asleep: {class_type: Ending, inputs: {way: hang}}
Y
"$kiln" run "$work/flow.yaml" --plugins "$work/plugins" --out "$work/out" --node-timeout 6 >"$work/stdout" 2>"$work/log"; same it_fails $? 1
said=$(sed -nE "s/.*node 'asleep' \(Ending\) of plugin org.example.ending has given no sign of life for ([0-9]+) s; it is ended after 6 s.*/\1/p" "$work/log")
same it_is_named_once "$(wc -w <<<"$said")" 1
check not_before_half_of_the_limit [ "${said:-0}" -ge 3 ]
check and_ended_at_the_limit grep -q 'gave no sign of life for 6 s in its run() and was ended' "$work/log"
exit $status
