# test_check_made.sh - `kiln check-plugin` on what made-up inputs alone do not show: objects that one node makes for another, their stored form,
# parameters drawn at random, threads, settings, workflows; what it could not try, and plugins of which it could try nothing.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln" hostile="$KILN_ROOT/tests/plugin/hostile"
cd "$work" || exit 2
yes() { echo "ok $1"; }
no() { echo "FAIL $1"; status=1; }
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$@" -lm || exit 2; }

ways=( # WAY|what the report has to say
    '1|crash .*SIGABRT' '2|message .*with speed=[0-9.]* size=[0-9]* exact=true' "3|pure .*declared PURE" "4|round-trip .*output 'plan' comes back from its plain data as something else"
    "5|round-trip .*does not come back" '6|threads .*with three threads than with one' '7|memory .*past the end' '9|references .*kept a reference'
    '10|nothing .*could be tried'
)
for row in "${ways[@]}"; do
    n=${row%%|*}
    compile -DBAD="$n" "$hostile/bad_made.c" -o "made$n.so"
    "$kiln" check-plugin "made$n.so" --sets 300 >report.txt 2>&1
    result=$?
    if [ $result -eq 1 ] && grep -q "FAIL ${row#*|}" report.txt; then yes "way_$n"; else cat report.txt; no "way_$n ($result)"; fi
done
grep -q "not checked: BadUse: its input 'plan' takes a MODEL, which only a workflow can bring" report.txt && yes lists_what_is_left || no lists_what_is_left
compile -DBAD=11 "$hostile/bad_made.c" -o made11.so
"$kiln" check-plugin made11.so --sets 20 >report.txt 2>&1
grep -q "not checked: BadUse: its input 'plan' takes a BAD_PLAN, and what should make one failed: node 'BadMake' (BadMake): there is no plan for today" report.txt && ! grep -q 'KILN_ERR_NOMEM' report.txt && yes the_maker_failed ||
    { cat report.txt; no the_maker_failed; }
compile -DBAD=0 "$hostile/bad_made.c" -o made0.so
"$kiln" check-plugin made0.so >report.txt 2>&1
[ $? -eq 0 ] && grep -q 'node BadUse' report.txt && grep -q '2 tried, 0 not checked' report.txt && yes good || { cat report.txt; no good; }

# ---- model families
families=('1|detect .*which is nobody' '2|score .*150' '3|same .*the next time' '4|crash .*SIGFPE' '5|message .*without a message' '6|crash .*SIGABRT')
for row in "${families[@]}"; do
    n=${row%%|*}
    compile -DBAD="$n" "$hostile/bad_family.c" -o "family$n.so"
    "$kiln" check-plugin "family$n.so" >report.txt 2>&1
    result=$?
    if [ $result -eq 1 ] && grep -q "FAIL ${row#*|}" report.txt; then yes "family_$n"; else cat report.txt; no "family_$n ($result)"; fi
done
compile -DBAD=0 "$hostile/bad_family.c" -o family0.so
"$kiln" check-plugin family0.so >report.txt 2>&1
[ $? -eq 0 ] && grep -q 'not checked: bad: on its own weights' report.txt && yes good_family || { cat report.txt; no good_family; }

# settings
"$kiln" check-plugin made1.so --set speed=42 --sets 1 >report.txt 2>&1
[ $? -eq 1 ] && grep -q SIGABRT report.txt && yes set_finds_it || { cat report.txt; no set_finds_it; }
for bad in '--set speed' '--set =3' '--sets 0' '--sets many'; do
    "$kiln" check-plugin made0.so $bad >report.txt 2>&1
    [ $? -eq 2 ] && grep -q -- "${bad%% *}" report.txt && yes "refuses $bad" || { cat report.txt; no "refuses $bad"; }
done

# a workflow that is given, and one that lies beside the plugin
printf 'kiln: 1\nnodes:\n  plan: {class_type: BadMake, inputs: {speed: 30}}\n  draw: {class_type: BadUse, inputs: {plan: [plan, 0]}}\n' >made0.yaml
printf '  save: {class_type: SaveImage, inputs: {images: [draw, 0], filename_prefix: drawn}}\n' >>made0.yaml
"$kiln" check-plugin made0.so >report.txt 2>&1
[ $? -eq 0 ] && grep -q 'workflow .*/made0.yaml' report.txt && yes workflow_beside || { cat report.txt; no workflow_beside; }
"$kiln" check-plugin made6.so --workflow made0.yaml --sets 1 >report.txt 2>&1
[ $? -eq 1 ] && grep -q "threads .*'drawn_00001_.png' has other bytes" report.txt && yes workflow_finds_threads || { cat report.txt; no workflow_finds_threads; }
sed 's/speed: 30/speed: 42/' made0.yaml >crash.yaml
"$kiln" check-plugin made1.so --workflow crash.yaml --sets 1 >report.txt 2>&1
[ $? -eq 1 ] && sed -n '/^workflow/,$p' report.txt | grep -q 'SIGABRT' && yes workflow_crashes || { cat report.txt; no workflow_crashes; }
"$kiln" check-plugin made0.so --workflow nowhere.yaml >report.txt 2>&1
[ $? -eq 1 ] && grep -q "nowhere.yaml" report.txt && yes workflow_missing || { cat report.txt; no workflow_missing; }
[ -z "$(find "$work" -name 'kiln-check-*')" ] && yes nothing_is_left || no nothing_is_left
exit $status
