# test_check_fixture.sh - `kiln check-plugin --fixture`: a model family on a small file of its own: every tensor is asked for, each once,
# and bf16 gives what f32 gives.
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
python3 - <<'P'
import json, random, struct
random.seed(1)
shape = {"bad.in.weight": [8, 4], "bad.in.bias": [8], "bad.gate.weight": [8, 4], "bad.out.weight": [4, 8]}
def write(path, shape):
    header, data = {}, b""
    for name, dim in shape.items():
        n = 1
        for d in dim: n *= d
        header[name] = {"dtype": "F32", "shape": dim, "data_offsets": [len(data), len(data) + 4 * n]}
        data += struct.pack("<%df" % n, *(random.gauss(0, 0.5) for _ in range(n)))
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
write("tiny.safetensors", shape)
write("more.safetensors", dict(shape, **{"bad.norm.weight": [8], "bad.norm.position_ids": [1, 8]}))
write("other.safetensors", {"a.b": [2]})
P
check() { # BAD [OPTIONS...]: what it says, in report.txt
    [ -e "bad$1.so" ] || gcc -std=c11 -DBAD="$1" -O1 -w -fPIC -shared -I"$KILN_ROOT/include" "$KILN_ROOT/tests/plugin/hostile/bad_fixture.c" -o "bad$1.so" -lm || exit 2
    "$kiln" check-plugin "bad$1.so" "${@:2}" >report.txt 2>&1 </dev/null
}
finds() { # BAD NAME WORDS
    check "$1" --fixture tiny.safetensors; [ $? -eq "${4:-1}" ] && grep -q -- "$3" report.txt; verdict "$2" $?
}
check 0 --fixture tiny.safetensors && grep -q 'ok   bf16 .*in bf16 its result is 0.00[0-9]* of its size away from that in f32' report.txt && grep -q ' 0 failed; 1 tried, 0 not checked' report.txt; verdict good $?
finds 1 a_tensor_nobody_asks_for "FAIL unasked .*asks for none of 1 tensors of tiny.safetensors: 'bad.in.bias'"
grep -q 'contract yes, behaviour no' report.txt; verdict it_is_behaviour $?
finds 2 asked_for_twice "FAIL asked-twice .*asks 2 times for 'bad.gate.weight' in one recording; keep its kiln_t" 0
grep -q 'behaviour yes, quality no' report.txt; verdict it_is_quality $?
finds 3 a_shape_that_the_file_has_not "FAIL record .*tiny.safetensors: .*bad.out.weight"
finds 4 what_bf16_cannot_hold 'FAIL bf16 .*in bf16 its result is .* of its size away from that in f32, and 0.2 is much; say in `precisions`'
finds 5 what_no_float_can_hold 'FAIL finite .*makes a NaN or infinity of finite inputs in f32'
finds 7 a_prediction_of_another_shape "FAIL record .*tiny.safetensors: .*record() of 'bad' gives \[1,4,2,4,2,4\], and a prediction has \[1,8,8,4\]"
check 6 --fixture tiny.safetensors; [ $? -eq 0 ] && ! grep -q 'bf16' report.txt; verdict a_family_that_says_so $?
check 0 --fixture more.safetensors; [ $? -eq 1 ] && grep -q "asks for none of 1 tensors of more.safetensors: 'bad.norm.weight'" report.txt; verdict buffers_are_needless $?
check 0 --fixture other.safetensors; grep -q 'not checked: bad: on its own weights: it takes none of the files for its own; give a small file with --fixture' report.txt; verdict a_file_of_others $?
check 0; grep -q 'not checked: bad: on its own weights: there are none; give a small file with --fixture' report.txt; verdict no_file $?
grep -q 'badge: .*quality yes (bad was not tried: give it weights with --fixture, or a workflow that loads them with --workflow)$' report.txt; verdict the_badge_says_it $?
check 0 --json; grep -q '"event": "checked".*"untried": \["bad"\]' report.txt; verdict json_says_it $?
check 0 --fixture tiny.safetensors; grep -q 'quality yes$' report.txt; verdict a_badge_of_all $?
cp tiny.safetensors bad0.safetensors; check 0; [ $? -eq 0 ] && grep -q 'ok   bf16' report.txt; verdict one_beside_it $?
check 0 --fixture nowhere.safetensors; [ $? -eq 2 ] && grep -q -- '--fixture nowhere.safetensors: No such file or directory' report.txt; verdict a_file_that_is_not_there $?
head -c 20 tiny.safetensors >cut.safetensors; check 0 --fixture cut.safetensors; [ $? -eq 1 ] && grep -q 'FAIL fixture .*cut.safetensors' report.txt; verdict a_file_that_is_damaged $?
exit $status
