# test_check_sets.sh - `kiln check-plugin --sets 10000` finds a fault of one in some thousand values, which 100 sets do not, and says how many
# sets it tried. A node that waits is ended by the clock, and what was not tried is listed.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 12 report.txt; echo "FAIL $1"; status=1; fi
}
check() { # BAD OPTION...: what it says, in report.txt
    local bad=$1
    shift
    [ -e "bad$bad.so" ] || gcc -std=c11 -D_GNU_SOURCE -DBAD="$bad" -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_sets.c" -o "bad$bad.so" || exit 2
    "$kiln" check-plugin "bad$bad.so" "$@" >report.txt 2>&1 </dev/null
}
check 0 --sets 10000 --sets-seconds 60; [ $? -eq 0 ] && grep -q 'ok   sets .*10000 parameter sets asked, all tried in' report.txt; verdict all_of_ten_thousand $?
check 1 --sets 10000 --sets-seconds 60; [ $? -eq 1 ] && grep -q "FAIL output .*did not set output 'INT' with n=1234" report.txt; verdict a_fault_of_one_value $?
check 1 --sets 100 --sets-seconds 60; verdict a_hundred_sets_do_not_find_it $?
check 2 --sets 10000 --sets-seconds 1; [ $? -eq 0 ] && grep -Eq 'not checked: BadSets: [0-9]+ of 10000 parameter sets: [0-9]+ were tried in [0-9.]+ s' report.txt; verdict what_was_not_tried_is_said $?
check 0 --sets-seconds 0; [ $? -eq 2 ] && grep -q 'sets-seconds 0: a whole number of seconds from 1 to 3600' report.txt; verdict no_time_is_refused $?
exit $status
