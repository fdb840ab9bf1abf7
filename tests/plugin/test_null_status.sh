# test_null_status.sh - a node that gets NULL from an ability and says KILN_ERR_INVALID for it: what was reported first counts, so that
# check-plugin's failing allocations find KILN_ERR_NOMEM, and a run says the first message.
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
gcc -std=c11 -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/null_status.c" -o null.so || exit 2
chmod go-w . null.so
python3 - <<'P'
import json, struct
text = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
open("tiny.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(4))
open("cut.safetensors", "wb").write(struct.pack("<Q", 999) + text)
P
"$kiln" check-plugin null.so --set file="$work/tiny.safetensors" --sets 20 >report.txt 2>&1; [ $? -eq 0 ] && ! grep -q 'no-memory' report.txt; verdict no_memory_is_kept $?
grep -q 'contract yes, behaviour yes, quality yes$' report.txt; verdict the_badge_names_nothing $?
"$kiln" plugin check null.so --set file="$work/tiny.safetensors" --sets 20 >report.txt 2>&1; [ $? -eq 0 ] && grep -q '1 tried, 0 not checked' report.txt; verdict plugin_check_hands_on $?
"$kiln" plugin check null.so --sets 20 --json >report.txt 2>&1; grep -q '"untried": \["NullStatus"\]' report.txt && python3 -c 'import json; [json.loads(l) for l in open("report.txt")]'; verdict json_of_the_untried $?
cat >null.yaml <<'Y'
kiln: 1
nodes:
  there: {class_type: LoadImage, inputs: {image: there.png}}
  save: {class_type: SaveImage, inputs: {images: [there, 0]}}
  count: {class_type: NullStatus, inputs: {file: tiny.safetensors}}
  show: {class_type: PreviewAny, inputs: {source: [count, 0]}}
Y
"$kiln" check-plugin null.so --sets 20 >report.txt 2>&1; [ $? -eq 1 ] && grep -q "FAIL unfit .*no file 'there.png' for input.*its input files' with --input" report.txt; verdict an_input_file_that_is_missing $?
mkdir pictures && cp "$KILN_ROOT"/docs/images/"$(ls "$KILN_ROOT/docs/images" | grep -m1 'png$')" pictures/there.png
"$kiln" check-plugin null.so --sets 20 --input "$work/pictures" >report.txt 2>&1; [ $? -eq 0 ] && grep -q 'again .*(NullStatus): called again' report.txt; verdict its_folder_has_models_too $?
grep -q 'quality yes$' report.txt; verdict what_a_workflow_ran_was_tried $?
"$kiln" plugin check null.so --sets 20 --input "$work/pictures" >report.txt 2>&1; verdict plugin_check_takes_input $?
cat >w.yaml <<'Y'
kiln: 1
nodes:
  count: {class_type: NullStatus, inputs: {file: cut.safetensors}}
  show: {class_type: PreviewAny, inputs: {source: [count, 0]}}
Y
"$kiln" run w.yaml --plugins . --models . --no-cache >report.txt 2>&1; [ $? -ne 0 ] && grep -q "node 'count' (NullStatus): .*cut.safetensors" report.txt; verdict a_run_says_the_first_message $?
exit $status
