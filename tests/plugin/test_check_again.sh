# test_check_again.sh - `kiln check-plugin --workflow` calls the plugin's nodes again with the inputs that they got in the run, a model among
# them: the same bytes where it is PURE, and an end when it is cancelled.
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
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  look: {class_type: BadAgain, inputs: {model: [model, MODEL]}}
  show: {class_type: BadShow, inputs: {INT: [look, 0]}}
  blank: {class_type: EmptyImage, inputs: {width: 64, height: 64, batch_size: 1, color: 1}}
  save: {class_type: SaveImage, inputs: {images: [blank, 0], filename_prefix: p}}
Y
check() { # BAD: what it says, in report.txt
    gcc -std=c11 -DBAD="$1" -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_again.c" -o "bad$1.so" -lm || exit 2
    "$kiln" check-plugin "bad$1.so" --workflow w.yaml --models "$KILN_ROOT/workflows/models" >report.txt 2>&1 </dev/null
}
finds() { # BAD NAME WORDS
    check "$1"; [ $? -eq 1 ] && grep -q -- "$3" report.txt; verdict "$2" $?
}
check 0; [ $? -eq 0 ] && grep -q "ok   again .*node 'look' (BadAgain): called again with the inputs of the workflow: once, and cancelled 3 times" report.txt; verdict good $?
grep -q "not checked: BadAgain: its input 'model' takes a MODEL, which only a workflow can bring" report.txt; verdict it_needs_the_workflow $?
finds 1 other_bytes "FAIL pure .*node 'look' (BadAgain) is declared PURE but made other bytes when it was called again with the inputs of the workflow"
finds 2 a_failure "FAIL same .*node 'look' (BadAgain) succeeded in the workflow, and failed when it was called again with the same inputs: .*it was here before"
finds 3 deaf_to_cancel "FAIL cancel .*node 'look' (BadAgain) ended with .* instead of KILN_CANCELLED when the workflow was cancelled at its look number 1"
case $KILN_BUILD in *-address | *-thread) ;; *) finds 4 a_crash 'FAIL workflow .*BadAgain.*crashed with SIGABRT' ;; esac
exit $status
