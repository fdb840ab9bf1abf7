# test_shown_text.sh - what an output node says (PreviewAny, SaveText) is printed to standard error with its node, line by line, in a sweep with
# its row; not under -q; standard output has paths alone.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else cat paths err; echo "FAIL $1"; status=1; fi
}
cat >w.yaml <<'Y'
kiln: 1
params:
  words: {default: "one line"}
nodes:
  text: {class_type: PrimitiveStringMultiline, inputs: {value: "${words}"}}
  look: {class_type: PreviewAny, inputs: {source: [text, 0]}}
Y
run() { "$kiln" run w.yaml --no-cache "$@" >paths 2>err; }
run && grep -qx 'look (PreviewAny): one line' err && [ ! -s paths ]; verdict one_line $?
run --set words=$'first\nsecond\e[31m' && grep -qx 'look (PreviewAny):' err && grep -qx '    first' err && grep -q '^    second' err && ! grep -q $'\e' err; verdict two_lines_and_no_escapes $?
run -q && [ ! -s err ] && [ ! -s paths ]; verdict quiet $?
run -v && [ "$(grep -c 'one line' err)" -eq 1 ]; verdict once_with_v $?
run --over words=a,b && grep -q '^row 1 (words=a), look (PreviewAny): a$' err && grep -q '^row 2 (words=b), look (PreviewAny): b$' err; verdict rows $?
run --set words="$(seq 1 300)" && grep -qx '    100' err && ! grep -qx '    101' err && grep -q '\.\.\. and more; SaveText writes all of it' err; verdict long_text $?
"$kiln" run w.yaml --cache c >paths 2>err; "$kiln" run w.yaml --cache c >paths 2>err; grep -qx 'look (PreviewAny): one line' err; verdict again_from_the_cache $?
sed 's/PreviewAny, inputs: {source/SaveText, inputs: {text/' w.yaml >s.yaml; "$kiln" run s.yaml --no-cache >paths 2>err; grep -qx 'look (SaveText): one line' err && grep -q '\.txt$' paths; verdict a_saved_text $?
exit $status
