# test_check_estimate.sh - `kiln check-plugin` also estimates the workflow (--dry-run): a node that reads a tensor's data there crashes, one
# that leaves an output out is found. `kiln plugin check` takes the options of check-plugin.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
export XDG_CACHE_HOME="$work/cache" TMPDIR="$work"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else tail -n 12 report.txt; echo "FAIL $1"; status=1; fi
}
cat >w.yaml <<'Y'
kiln: 1
nodes:
  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, batch_size: 1, color: 1}}
  look: {class_type: BadEstimate, inputs: {image: [blank, 0]}}
  show: {class_type: BadShowEstimate, inputs: {INT: [look, 0]}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
Y
check() { # BAD: what it says, in report.txt
    gcc -std=c11 -DBAD="$1" -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_estimate.c" -o "bad$1.so" -lm || exit 2
    "$kiln" check-plugin "bad$1.so" --workflow w.yaml >report.txt 2>&1 </dev/null
}
check 0; verdict good $?
case $KILN_BUILD in *-address | *-thread) echo "skip a_crash: a sanitizer ends the process in its own way" ;;
*) check 1; [ $? -eq 1 ] && grep -q 'FAIL workflow .*in an estimate (--dry-run), where tensors have no data: .*BadEstimate.*crashed with SIGSEGV' report.txt; verdict a_crash $? ;; esac
check 2; [ $? -eq 1 ] && grep -q "FAIL workflow .*in an estimate .*did not set output 'INT'" report.txt; verdict an_output_left_out $?
"$kiln" plugin check bad2.so --workflow w.yaml >report.txt 2>&1; [ $? -eq 1 ] && grep -q "did not set output 'INT'" report.txt; verdict plugin_check_takes_a_workflow $?
"$kiln" plugin check bad0.so --workflow none.yaml >report.txt 2>&1; [ $? -ne 0 ] && grep -q 'none.yaml' report.txt; verdict a_workflow_that_is_not_there $?
sed 's/image: \[blank/picture: [blank/' w.yaml >unfit.yaml
"$kiln" check-plugin bad0.so --workflow unfit.yaml >report.txt 2>&1
[ $? -eq 1 ] && grep -q "FAIL unfit .*the workflow cannot be run: .*BadEstimate.*; mend it, name another with --workflow" report.txt && grep -q 'contract yes, behaviour no' report.txt; verdict a_workflow_that_does_not_fit $?
exit $status
