# test_ending.sh - a node that ends the process is named and never passes for success, also where the plugin is trusted and runs in
# kiln's own process (test_contained.sh is about the others).
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
ulimit -c 0
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
gcc -std=c11 -D_GNU_SOURCE -O0 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/ending.c" -o ending.so || exit 2
case $KILN_BUILD in *-address | *-thread) ours=0 ;; *) ours=1 ;; esac # the sanitizers tell of crashes themselves

# tries WAY STATUS MESSAGE
tries() {
    printf 'nodes:\n  last words: { class_type: Ending, inputs: { way: %s } }\n' "$1" >w.yaml
    "$kiln" run w.yaml --plugins "$work" --trust all --out out >run.txt 2>&1
    local result=$?
    if [ $result -eq "$2" ] && grep -q "kiln: error: node 'last words' (Ending) of plugin org.example.ending $3" run.txt; then echo "ok $1"
    else cat run.txt; echo "FAIL $1 (status $result)"; status=1; fi
}
tries exit 1 'ended the process with exit(0); a plugin must never exit'
tries quick_exit 1 'ended the process with quick_exit(); a plugin must never exit'
if [ $ours -eq 1 ]; then
    tries segv 139 'crashed with SIGSEGV'
    tries abort 134 'crashed with SIGABRT'
    tries stack 139 'crashed with SIGSEGV'
    tries thread 139 'crashed with SIGSEGV'
fi
exit $status
