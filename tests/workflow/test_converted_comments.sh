# test_converted_comments.sh - titles in what `kiln convert` writes: the comment over a node is one line whatever the title has in it, and the title itself
# comes back as it was.
. "$KILN_ROOT/tests/cli/head.sh"
cat >"$work/flow.json" <<'J'
{"1": {"class_type": "EmptyImage", "_meta": {"title": "first\nline\u0007\u007fend\u001f"}, "inputs": {"width": 16, "height": 16, "batch_size": 1, "color": 5}},
 "2": {"class_type": "ImageInvert", "_meta": {"title": "Kept: # as ~it is \u00e9"}, "inputs": {"image": ["1", 0]}},
 "3": {"class_type": "SaveImage", "_meta": {"title": "\r\n  save:\n    class_type: Nothing"}, "inputs": {"images": ["2", 0], "filename_prefix": "p"}}}
J
"$kiln" convert "$work/flow.json" -o "$work/flow.yaml" >"$work/stdout" 2>"$work/log"; verdict it_is_converted $?
same controls_are_blanks "$(grep -c '^  # first line  end $' "$work/flow.yaml")" 1
same others_stay "$(grep -c '^  # Kept: # as ~it is é$' "$work/flow.yaml")" 1
same no_line_is_broken "$(grep -c '^  #' "$work/flow.yaml")" 3
same no_control_is_left "$(LC_ALL=C grep -c $'[\x01-\x08\x0b-\x1f\x7f]' "$work/flow.yaml")" 0
check it_is_the_same_workflow "$kiln" check "$work/flow.yaml"
"$kiln" convert "$work/flow.yaml" -o "$work/back.json" 2>"$work/log"; verdict and_back $?
python3 - "$work/flow.json" "$work/back.json" >"$work/log" 2>&1 <<'P'
import json, sys
a, b = (json.load(open(p)) for p in sys.argv[1:])
assert {k: n["_meta"]["title"] for k, n in a.items()} == {k: n["_meta"]["title"] for k, n in b.items()}, b
P
verdict titles_come_back $?
exit $status
