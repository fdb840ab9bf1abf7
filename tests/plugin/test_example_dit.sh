# test_example_dit.sh - plugins/examples/dit.c, the model family that docs/writing-a-model.md walks through: built against an installed kiln and nothing
# else, held against diffusers (scripts/golden/dit.py), its places hooked, and each mistake that the page names made and told.
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
verdict() { # NAME RESULT: a status of 0 is a pass
    if [ "$2" -eq 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi
}
unset KILN_PLUGIN_PATH KILN_MODELS KILN_INPUT KILN_MEMORY
. "$KILN_ROOT/tests/cli/installed.sh"
install_kiln "$work/usr"; verdict install $?
[ -x "$work/usr/bin/kiln" ] || exit 1
export PKG_CONFIG_PATH="$work/usr/lib/pkgconfig" XDG_CACHE_HOME="$work/cache"
kiln="$work/usr/bin/kiln" page="$KILN_ROOT/docs/writing-a-model.md"
cp -r "$KILN_ROOT/plugins/examples" "$work/mine" && mkdir "$work/plugins" "$work/models" "$work/given"
cp "$KILN_ROOT"/tests/golden/tiny-dit.safetensors "$work/models/" && cp -r "$KILN_ROOT/tests/golden/tiny-sd1" "$work/models/"
cp "$KILN_ROOT"/tests/golden/dit.safetensors "$work/given/" && cp "$KILN_ROOT/tests/plugin/dit/dit_probe.c" "$work/mine/"
cd "$work" || exit 2

# ---- built as anybody builds it
make -s -C mine dit.so dit_probe.so CFLAGS='-O2 -Wall -Wextra -Wshadow -Wconversion -Werror' && mv mine/dit.so mine/dit_probe.so plugins/; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d plugins/dit.so | grep NEEDED | grep -vE 'libc\.|libm\.')" ]; verdict links_nothing_of_kilns $?
"$kiln" nodes DiTLabel --plugins plugins >said.txt 2>&1 && "$kiln" check-plugin plugins/dit.so >>said.txt 2>&1; verdict check_plugin_finds_nothing $?

# ---- workflows
begin() { # [MODEL]
    cat <<END
kiln: 1
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: ${1:-tiny-dit.safetensors}}}
  yes: {class_type: DiTLabel, inputs: {model: [model, MODEL], label: 3}}
  no: {class_type: DiTLabel, inputs: {model: [model, MODEL]}}
END
}
# draw NAME MODEL POSITIVE NEGATIVE [PICTURES WIDTH HEIGHT]
draw() {
    cat <<END
  $1_empty: {class_type: EmptyLatentImage, inputs: {width: ${6:-64}, height: ${7:-64}, batch_size: ${5:-1}}}
  $1: {class_type: KSampler, inputs: {model: [$2, MODEL], positive: [$3, 0], negative: [$4, 0], latent_image: [$1_empty, 0], seed: 7, steps: 5, cfg: 4.0,
       sampler_name: euler, scheduler: simple, denoise: 1.0}}
END
}
golden() { echo "  golden_$2: {class_type: TestGolden, inputs: {samples: [$1, 0], file: dit.safetensors, name: $2}}"; }
hook() { echo "  $1: {class_type: TestHook, inputs: {model: [model, MODEL], place: \"$2\"}}"; }
run() { # WORKFLOW ARG...: what is said goes to said.txt
    local file=$1; shift
    "$kiln" run "$file" --precision "${precision:-f32}" --plugins plugins --models models --input given --no-cache --out out "$@" >said.txt 2>&1
}

# ---- against diffusers
{
    begin; hook less block.1
    echo '  one: {class_type: TestEvaluate, inputs: {model: [model, MODEL], file: dit.safetensors}}'
    draw sampled model yes no 2; golden sampled sampled
    draw left_out less yes no; golden left_out left_out
} >goldens.yaml
run goldens.yaml; result=$?; [ $result -eq 0 ] || cat said.txt
verdict draws $result
cp said.txt goldens.txt
for name in one corner sampled left_out; do
    error=$(sed -n "s/^golden $name //p" goldens.txt)
    echo "# $name: ${error:-not compared}, by the largest value"
    awk -v e="${error:-none}" 'BEGIN { exit !(e != "none" && e !~ /nan/ && e + 0 <= 1e-5) }'; verdict "${name}_is_diffusers" $?
done

# ---- "Compare with the original": one step of euler from a level to 0 is one evaluation
cat >level.py <<'P'
import json, math, struct, sys
def load(path):
    d = open(path, "rb").read(); n = struct.unpack("<Q", d[:8])[0]; h = json.loads(d[8:8 + n])
    return lambda k: (h[k]["shape"], struct.unpack("<%d%s" % ((h[k]["data_offsets"][1] - h[k]["data_offsets"][0]) // (8 if h[k]["dtype"] == "I64" else 4),
        "q" if h[k]["dtype"] == "I64" else "f"), d[8 + n + h[k]["data_offsets"][0]:8 + n + h[k]["data_offsets"][1]]))
def planes(numbers, h, w): return [numbers[(y * w + x) * 4 + c] for c in range(4) for y in range(h) for x in range(w)]
g = load("given/dit.safetensors")
t, label, scale, product, sigma = g("t")[1][1], g("labels")[1][1], 0.18215, 1.0, []
for i in range(1000):
    product *= 1 - (0.0001 + (0.02 - 0.0001) * i / 999)
    sigma.append(math.sqrt((1 - product) / product))
j = min(int(t), 998)
s = math.exp(math.log(sigma[j]) + (t - j) * (math.log(sigma[j + 1]) - math.log(sigma[j])))
(_, h, w, _), x = g("corner.x")
x = planes(x[h * w * 4:], h, w)
latent = [v * math.sqrt(1 + s * s) / scale for v in x]
if sys.argv[1] == "write":
    head = json.dumps({"latent_tensor": {"dtype": "F32", "shape": [1, 4, h, w], "data_offsets": [0, 16 * h * w]},
                       "latent_format_version_0": {"dtype": "F32", "shape": [0], "data_offsets": [16 * h * w, 16 * h * w]}}).encode()
    open("given/x.latent", "wb").write(struct.pack("<Q", len(head)) + head + struct.pack("<%df" % len(latent), *latent))
    print("--set levels.sigmas=%r,0 --set yes.label=%d" % (s, -1 if label == 10 else label))
else:
    result, want = load(sys.argv[2])("latent_tensor")[1], planes(g("corner")[1][h * w * 4:], h, w)
    off = math.sqrt(sum((scale * (a - b) / s - e) ** 2 for a, b, e in zip(latent, result, want)) / sum(e * e for e in want))
    print("apart by %.3g" % off)
    sys.exit(off > 1e-5) # what the page says; measured 4e-7
P
{
    begin
    sed -n '/^## 12\./,/^## Mistakes/s/^      \(\(x\|noise\|guider\|how\|levels\|draw\|save\): {.*\)/  \1/p' "$page" | sed 's/\[text, 0\]/[yes, 0]/'
} >compare.yaml
run compare.yaml $(python3 level.py write); result=$?; [ $result -eq 0 ] || cat said.txt
python3 level.py compare "$(ls out/result*.latent | head -n 1)" && [ $result -eq 0 ]; verdict the_pages_comparison $?

# ---- the places it lists are those it calls, in that order
{ begin; hook says ""; echo '  listed: {class_type: TestPlaces, inputs: {model: [model, MODEL]}}'; draw x says yes yes; golden x left_out; } >places.yaml
run places.yaml
spoken() { grep -o "$1 block[a-z0-9.]*" said.txt | sed 's/^[a-z]* //'; } # a line of the run's own may stand before it
[ "$(spoken listed | wc -l)" -eq 10 ] && cmp -s <(spoken listed) <(spoken place); verdict places_are_where_hooks_act $?

# ---- smaller than it was trained, areas, another precision, without computing
{ begin; draw small model yes no 1 32 48; echo '  part: {class_type: ConditioningSetAreaPercentage, inputs: {conditioning: [yes, 0], width: 0.5, height: 0.75, x: 0.5, y: 0, strength: 1}}
  both: {class_type: ConditioningCombine, inputs: {conditioning_1: [no, 0], conditioning_2: [part, 0]}}'; draw area model both no; } >small.yaml
printf '  dump: {class_type: VAELoader, inputs: {vae_name: tiny-sd1}}\n  s: {class_type: VAEDecode, inputs: {samples: [small, 0], vae: [dump, 0]}}\n  a: {class_type: VAEDecode, inputs: {samples: [area, 0], vae: [dump, 0]}}\n' >>small.yaml
printf '  save_s: {class_type: SaveImage, inputs: {images: [s, 0], filename_prefix: s}}\n  save_a: {class_type: SaveImage, inputs: {images: [a, 0], filename_prefix: a}}\n' >>small.yaml
run small.yaml && [ -s out/s_00001_.png ] && [ -s out/a_00001_.png ]; result=$?; [ $result -eq 0 ] || cat said.txt
verdict smaller_pictures_and_areas $result
precision=bf16 run small.yaml; verdict draws_in_bf16 $?
"$kiln" run mine/dit.yaml --plugins plugins --models models --explain --out out >said.txt 2>&1 && grep -qE '^draw +KSampler +[0-9a-f]+ +[0-9.]+ kB' said.txt; result=$?; [ $result -eq 0 ] || cat said.txt
verdict an_estimate_knows_it $result

# ---- DiT-S/2 as it was released: the names and shapes, with holes for numbers. The paper counts 6.06 G multiply-adds an evaluation.
python3 - <<'P'
import json, math, struct
D, t = 384, {"x_embedder.proj": [384, 4, 2, 2], "t_embedder.mlp.0": [384, 256], "t_embedder.mlp.2": [384, 384]}
t |= {"final_layer.linear": [32, D], "final_layer.adaLN_modulation.1": [2 * D, D]}
for i in range(12):
    t |= {f"blocks.{i}.{n}": s for n, s in {"attn.qkv": [3 * D, D], "attn.proj": [D, D], "mlp.fc1": [4 * D, D],
                                            "mlp.fc2": [D, 4 * D], "adaLN_modulation.1": [6 * D, D]}.items()}
t = {f"{k}.{part}": s if part == "weight" else s[:1] for k, s in t.items() for part in ("weight", "bias")}
t |= {"pos_embed": [1, 256, D], "y_embedder.embedding_table.weight": [1001, D]}
head, at = {}, 0
for k in sorted(t):
    size = 4 * math.prod(t[k])
    head[k] = {"dtype": "F32", "shape": t[k], "data_offsets": [at, at + size]}
    at += size
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
with open("models/DiT-S-2.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + at)
P
"$kiln" run mine/dit.yaml --plugins plugins --models models --set model=DiT-S-2.safetensors --set size=256 --set label=207 --set steps=1 --explain --out out >said.txt 2>&1
giga=$(awk '$1 == "draw" { print $NF }' said.txt)
awk -v g="${giga:-0}" 'BEGIN { exit !(g > 4 * 6.00 && g < 4 * 6.12) }'; result=$?; [ $result -eq 0 ] || cat said.txt
echo "# DiT-S/2: $giga GFLOP in two evaluations"; verdict the_released_one_costs_what_the_paper_says $result

# ---- mistakes. Each sentence is on the page, so far as it does not speak of the case.
told() { # NAME WORDS [STATUS]: said.txt has the words, and so has the page
    grep -qF "$2" said.txt; result=$?; [ $result -eq 0 ] || cat said.txt
    tr '\n' ' ' <"$page" | grep -qF "$2" || { echo "  the page does not have: $2"; result=1; }
    [ "${told_status:-1}" -ne 0 ] || { echo "  the run succeeded"; result=1; }
    verdict "told_$1" $result
}
try() { run "$@"; told_status=$?; }
# other PYTHON: a copy of the model, models/other.safetensors, with `t` (names -> [dtype, shape, bytes]) and `meta` changed
other() {
    python3 - "$1" <<'P'
import json, struct, sys
raw = open("models/tiny-dit.safetensors", "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
head = json.loads(raw[8:8 + n])
meta = head.pop("__metadata__")
t = {k: [v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]] for k, v in head.items()}
exec(sys.argv[1])
head, at = {"__metadata__": meta}, 0
for k, (dtype, shape, data) in sorted(t.items()):
    head[k] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
    at += len(data)
text = json.dumps(head).encode()
text += b" " * (-len(text) % 8)
open("models/other.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + b"".join(v[2] for _, v in sorted(t.items())))
P
    begin other.safetensors >other.yaml; echo '  listed: {class_type: TestPlaces, inputs: {model: [model, MODEL]}}' >>other.yaml
}
other 'del t["blocks.1.mlp.fc2.bias"]'; try other.yaml; told a_tensor_that_is_missing "no tensor 'blocks.1.mlp.fc2.bias'"
other 't["blocks.1.mlp.fc2.weight"][1].reverse()'; try other.yaml; told a_tensor_of_another_shape "tensor 'blocks.1.mlp.fc2.weight' is [96,24], this model wants [24,96]"
other 't["extra"] = ["F16", [2], b"1234"]'; try other.yaml; told_status=1; told a_tensor_that_nobody_asks_for "tensor 'extra' is not used by any network"
other 'del meta["num_heads"]'; try other.yaml; told a_fact_that_is_in_no_shape 'write "num_heads" into its __metadata__'
other 'del t["final_layer.linear.weight"]'; try other.yaml; told a_model_that_no_family_knows "no loaded plugin knows a denoiser in it"
other 't["x_embedder.proj.weight"][1] = [24, 8, 2, 1]'; try other.yaml; told a_network_it_cannot_be "4 channels in"

{ begin; draw x model yes no 1 72 64; golden x left_out; } >wrong.yaml; try wrong.yaml; told a_latent_that_does_not_fit "make width and height multiples of"
{ begin; draw x model yes no 1 64 128; golden x left_out; } >wrong.yaml; try wrong.yaml; told a_latent_that_is_too_large "make width and height multiples of"
{ begin; echo '  clip: {class_type: CLIPLoader, inputs: {clip_name: tiny-sd1, type: stable_diffusion}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: a circle}}'; draw x model text no; golden x left_out; } >wrong.yaml
try wrong.yaml; told a_conditioning_without_the_input "this model wants 'class'"
{ begin; echo '  unet: {class_type: UNETLoader, inputs: {unet_name: tiny-sd1}}'; draw x unet yes no; golden x left_out; } >wrong.yaml
try wrong.yaml; told a_conditioning_of_another_family "the conditioning has no tokens"
{ begin; hook wrong 'middle.*'; draw x wrong yes no; golden x left_out; } >wrong.yaml; try wrong.yaml; told a_hook_at_no_place "a place that this model does not have"
{ begin; echo '  far: {class_type: DiTLabel, inputs: {model: [model, MODEL], label: 10}}'; draw x model far no; golden x left_out; } >wrong.yaml
try wrong.yaml; told a_class_it_does_not_know "label is 10, and this model knows classes 0 to 9"

# ---- mistakes in the code itself
variant() { # SED: dit.c with a mistake, as plugins/dit.so
    sed "$1" mine/dit.c >mine/wrong.c && ! cmp -s mine/dit.c mine/wrong.c && make -s -C mine wrong.so && mv mine/wrong.so plugins/dit.so
}
variant 's/label >= rows - 1/label >= INT64_MAX/' && sed -i 's/label: 10/label: 11/' wrong.yaml && try wrong.yaml; told an_id_outside_the_table "token id 11 is outside the table of 11"
{ begin; draw x model yes no; golden x left_out; } >right.yaml
variant 's/in->n_input, "class")/in->n_input, "klass")/' && try right.yaml; told an_input_that_is_misspelt "operand 1 is missing"
variant 's/return s->o->reshape(s->p, x, 4, KILN_DIMS(s->n, s->rows \* d->patch.*/return x;/' && try right.yaml; told a_prediction_of_another_shape "record() of 'example-dit' gives [1,4,2,4,2,4], and a prediction has [1,8,8,4]"
variant 's/s->cols == d->side) return whole;/s->cols == d->side) return s->o->reshape(s->p, whole, 3, dim);/' && try right.yaml
[ $told_status -eq 0 ]; verdict a_weight_may_be_reshaped $?
exit $status
