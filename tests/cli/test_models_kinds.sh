# test_models_kinds.sh - `kiln models` of files that lie in no folder of a kind: a whole checkpoint is one of checkpoints, a part has no kind; paths of an
# installed kiln have no "..".
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT
export XDG_CACHE_HOME="$work/cache"
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else cat "$work/said.txt"; echo "FAIL $1"; status=1; fi
}
. "$KILN_ROOT/tests/cli/installed.sh"
install_kiln "$work/usr" || exit 2
kiln="$work/usr/bin/kiln"
cd "$work" && mkdir models || exit 2
cp -r "$KILN_ROOT/tests/golden/tiny-sd1" models/whole && cp "$KILN_ROOT/tests/golden/tiny-dit.safetensors" models/part.safetensors || exit 2
"$kiln" models --models models >said.txt 2>&1; grep -q '^checkpoints  *whole ' said.txt; verdict a_whole_one $?
grep -q '^-  *part.safetensors ' said.txt; verdict a_part $?
! grep -q '/\.\./' said.txt && grep -q "looked in $work/usr/share/kiln/workflows/models" said.txt; verdict no_dots $?
"$kiln" models --models models --kind checkpoints >said.txt 2>&1; grep -q '^checkpoints  *whole ' said.txt && ! grep -q part said.txt; verdict only_checkpoints $?
exit $status
