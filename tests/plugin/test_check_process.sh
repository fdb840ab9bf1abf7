# test_check_process.sh - `kiln check-plugin` finds what a node leaves changed in its process, and PURE nodes that make other bytes in another one.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 12 report.txt; echo "FAIL $1"; status=1; fi
}
check() { # BAD [OPTIONS...]: what it says, in report.txt
    [ -e "bad$1.so" ] || gcc -std=c11 -D_GNU_SOURCE -DBAD="$1" -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_process.c" -o "bad$1.so" -lpthread -lm || exit 2
    "$kiln" check-plugin "bad$1.so" "${@:2}" >report.txt 2>said.txt </dev/null
}
elsewhere='FAIL pure .*is declared PURE but made other bytes in another process at the defaults'
finds() { # BAD NAME WORDS
    check "$1"; [ $? -eq 1 ] && grep -q -- "$3" report.txt; verdict "$2" $?
}
check 0 && grep -q '1 tried, 0 not checked' report.txt && grep -q 'contract yes, behaviour yes, quality yes' report.txt; verdict good $?
finds 1 a_process_id "$elsewhere"
if [ "$(cat /proc/sys/kernel/randomize_va_space 2>/dev/null)" != 0 ]; then finds 2 an_address "$elsewhere"; else echo "skip an_address: addresses are not drawn here"; fi
finds 3 what_the_first_call_left "$elsewhere"
finds 4 who_pretends_to_be_that_process "$elsewhere"
grep -q 'contract yes, behaviour no' report.txt; verdict it_is_behaviour $?
touch here.txt
surroundings='FAIL pure .*is declared PURE but made other bytes with another environment: what it makes depends on the working folder'
finds 5 a_variable_that_is_not_set "$surroundings.*or on a variable (.*BAD_GAIN"
BAD_GAIN=3 finds 5 a_variable_that_is_set "$surroundings.*or on a variable (.*BAD_GAIN"
finds 6 the_home_folder "$surroundings"
finds 7 the_working_folder "$surroundings"
finds 8 the_clock "$surroundings\|$elsewhere"
finds 9 the_time_zone "$surroundings"
finds 10 the_umask "$surroundings"
finds 22 a_file_of_the_working_folder 'FAIL pure .*is declared PURE but failed with another environment: it wants the working folder, HOME'
blamed='FAIL process .*at the defaults it'
finds 11 umask "$blamed changed the umask from 022 to 000; it was put back. Use fchmod() on the file"
grep -q 'contract no, behaviour yes' report.txt; verdict it_is_contract $?
finds 12 chdir "$blamed changed the working folder of the process; it was put back"
finds 13 setenv "$blamed changed the environment (BAD_PROCESS); it was put back"
finds 14 printf "$blamed wrote to standard output, which is for the paths of results"
check 14 --json; ! grep -q 'not a finding' report.txt && grep -q 'not a finding' said.txt && grep -q '"test": "process"' report.txt; verdict what_it_prints_is_in_no_report $?
finds 15 thread "$blamed left 1 thread running; join them before the call ends"
finds 16 handler "$blamed changed what SIGTERM does; it was put back"
finds 17 mask "$blamed changed the signal mask of its thread; it was put back"
finds 18 close "$blamed closed or replaced standard input (descriptor 0); it was put back"
if locale -a 2>/dev/null | grep -qi '^C\.utf'; then finds 19 locale "$blamed changed the locale to .*; it was put back"; else echo "skip locale: there is no C.UTF-8 here"; fi
finds 20 limit "$blamed changed the limit on the size of files; it was put back"
finds 21 close_all 'FAIL \(process\|crash\|exit\|time\)'
check 11; grep -q 'FAIL process .*in its first call it changed the umask' report.txt; verdict the_first_call_counts $?
# ---- calls that go on, and that do not come back
finds 23 late 'FAIL late .*used its kiln_ctx after the call had ended'
case $KILN_BUILD in
*-address | *-thread) echo "skip sleeps: a sanitizer's build allows a second" ;;
*) finds 24 sleeps 'FAIL progress .*waited [0-9]* ms without calling progress() at the defaults; at most 100' ;;
esac
check 25 --call-timeout 1; [ $? -eq 1 ] && grep -q 'FAIL time .*a call did not come back within 1 s (--call-timeout)' report.txt; verdict a_call_that_does_not_come_back $?
check 25 --call-timeout 0; [ $? -eq 2 ] && grep -q -- '--call-timeout 0: a whole number of seconds from 1 to 120' said.txt; verdict a_limit_of_nothing $?
exit $status
