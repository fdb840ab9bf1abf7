# test_example_op.sh - the op of plugins/examples/trails.c, built as a stranger builds it: kiln check-plugin finds nothing wrong with it,
# and finds each mistake that is put into it; what a workflow draws with it is what the formula says.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
export XDG_CACHE_HOME="$work/cache"
unset KILN_PLUGIN_PATH
kiln="$KILN_ROOT/$KILN_BUILD/kiln"
cd "$work" || exit 2
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else cat said.txt; echo "FAIL $1"; status=1; fi; }
compile() { gcc -std=c11 -D_GNU_SOURCE -O1 -w -ffp-contract=off -fPIC -shared -I"$KILN_ROOT/include" "$1" -o "$2" -lm && chmod go-w "$2"; }

mkdir good && compile "$KILN_ROOT/plugins/examples/trails.c" good/trails.so || exit 2
"$kiln" check-plugin good/trails.so >said.txt 2>&1
verdict nothing_is_wrong_with_it $?
grep -q 'op org.example.decay' said.txt && grep -q 'op org.example.shoulder' said.txt; verdict its_ops_were_tried $?

# mistake NAME SED WORDS: the same op with a mistake, and what is said of it
mkdir bad
mistake() {
    sed "$2" "$KILN_ROOT/plugins/examples/trails.c" >bad.c && ! cmp -s bad.c "$KILN_ROOT/plugins/examples/trails.c" && compile bad.c bad/trails.so || { echo "FAIL $1: no such line"; status=1; return; }
    "$kiln" check-plugin bad/trails.so >said.txt 2>&1
    [ $? = 1 ] && grep -q -- "$3" said.txt
    verdict "told_$1" $?
}
mistake a_wrong_sum 's/= decay \* sum\[k\] + x/= decay * sum[k] + 1.001f * x/' 'FAIL f32 .*the reference says'
mistake a_store_past_the_end 's/memcpy(last + n \* d\[2\], sum, (size_t)d\[2\] \* sizeof/memcpy(last + n * d[2], sum, (size_t)(d[2] + 1) * sizeof/' 'it wrote beyond its results'
mistake an_operand_that_is_changed 's/if (last) last\[n \* d\[2\] + k\] = (float)sum;/((float *)x)[0] = 7;/' 'it changed an operand'
mistake tiles_that_share_a_sum 's/float decay = ((const decay_attributes \*)c->attributes)->decay;/static float decay; decay = decay == 0.5f ? 0.25f : 0.5f;/' 'FAIL'
mistake a_count_on_alignment 's/^\( *\)float decay = ((const decay_attributes \*)c->attributes)->decay;/\1float decay = (size_t)c->in[0].data % 16 ? 0 : ((const decay_attributes *)c->attributes)->decay;/' 'FAIL views .*begin one number further on'
mistake a_crash_without_its_attributes 's/if (c->attribute_bytes != sizeof(decay_attributes)).*/if (((const decay_attributes *)0)->decay > c->attribute_bytes) return 0;/' 'crashed with SIG'
mistake an_expression_that_is_another 's/a < 0.5 ? a : 1 - 0.25/a < 0.5 ? a : 1 - 0.26/' 'FAIL f32 .*the reference says'
mistake a_workspace_that_is_too_small 's/memset(sum, 0, (size_t)d\[2\] \* sizeof \*sum)/memset(sum, 0, ((size_t)d[2] + 1) * sizeof *sum)/' 'it wrote beyond the bytes that workspace() says'
mistake a_type_that_it_does_not_read 's/\.types = 1u << KILN_F32,/.types = 1u << KILN_F32 | 1u << KILN_F16,/' 'FAIL f16 .*it wrote beyond its results'
mistake no_examples 's/KILN_ARRAY(example, shoulder_examples),//' 'it has none, so nothing of it can be tried'
mistake a_name_that_is_taken 's/"org.example.shoulder"/"org.example.decay"/' "op 'org.example.decay' is already registered"

# on another backend than the processor's
"$kiln" check-plugin good/trails.so --device reference >said.txt 2>&1 && grep -q 'also on reference' said.txt; verdict tried_on_another_backend $?
"$kiln" check-plugin good/trails.so --device toaster >said.txt 2>&1; [ $? = 2 ] && grep -q 'toaster' said.txt; verdict told_no_such_device $?

# ---- in a workflow: a white column leaves a trail
cat >t.yaml <<'Y'
nodes:
  white: {class_type: EmptyImage, inputs: {width: 2, height: 4, batch_size: 1, color: 16777215}}
  wide: {class_type: ImagePadForOutpaint, inputs: {image: [white, 0], left: 3, top: 0, right: 11, bottom: 0, feathering: 0}}
  dark: {class_type: EmptyImage, inputs: {width: 16, height: 4, batch_size: 1, color: 0}}
  only: {class_type: ImageCompositeMasked, inputs: {destination: [dark, 0], source: [white, 0], x: 3, y: 0, resize_source: false}}
  trails: {class_type: ExampleTrails, inputs: {image: [only, 0], decay: 0.5}}
  save: {class_type: SaveImage, inputs: {images: [trails, 0], filename_prefix: t}}
Y
sed -i '/  wide:/d' t.yaml
"$kiln" run t.yaml --plugins good --out out --no-cache -q >said.txt 2>&1; verdict it_runs $?
python3 - out/t_00001_.png >said.txt 2>&1 <<'P'
import struct, sys, zlib
raw = open(sys.argv[1], "rb").read()
at, data = 8, b""
while at < len(raw):
    n, kind = struct.unpack(">I4s", raw[at:at + 8])
    if kind == b"IDAT": data += raw[at + 8:at + 8 + n]
    if kind == b"IHDR": w, h = struct.unpack(">II", raw[at + 8:at + 16])
    at += 12 + n
data = zlib.decompress(data)
stride = 1 + 3 * w
row, line = bytearray(3 * w), None
for y in range(h):
    kind, cur = data[y * stride], bytearray(data[y * stride + 1:(y + 1) * stride])
    for i in range(3 * w):
        a, b, c = (cur[i - 3] if i > 2 else 0), row[i], (row[i - 3] if i > 2 else 0)
        p = a + b - c
        pick = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
        cur[i] = (cur[i] + (0, a, b, (a + b) // 2, pick)[kind]) & 255
    row = cur
s, wanted = 0.0, []
for x in range(w):
    s = 0.5 * s + (1.0 if 3 <= x < 5 else 0.0)
    wanted.append(round(255 * (s if s < 0.5 else 1 - 0.25 / s)))
got = list(row[0::3])
print(got, wanted)
sys.exit(max(abs(g - v) for g, v in zip(got, wanted)) > 1 or w != 16)
P
verdict its_picture_is_the_formula $?
exit $status
