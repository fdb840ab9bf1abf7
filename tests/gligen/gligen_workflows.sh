# shellcheck shell=bash
# gligen_workflows.sh - for tests of GLIGEN's nodes: workflows over the tiny UNet and GLIGEN of tests/golden/gligen. Sourced after head.sh.
mkdir -p "$work/plugins" "$work/models/gligen"
golden_plugin() {
    cc -std=c11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Iinclude -shared tests/strangers/goldens/golden_nodes.c -o "$work/plugins/goldens.so" -lm &&
        chmod go-w "$work/plugins" "$work/plugins/goldens.so"
}
# run NAME ARG...: $work/NAME.yaml into $work/NAME, what is said into $work/log and $work/NAME.txt
run() {
    local name=$1; shift
    "$kiln" run "$work/$name.yaml" --precision f32 --plugins "$work/plugins" --models "tests/golden/gligen/models:$work/models" --input tests/golden --out "$work/$name" \
        "$@" >"$work/$name.txt" 2>&1
    local got=$?
    cp "$work/$name.txt" "$work/log"
    return $got
}
begin() {
    cat <<END
kiln: 1
nodes:
  unet: {class_type: UNETLoader, inputs: {unet_name: ${unet:-tiny}}}
  clip: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: "${checkpoint:-$PWD/tests/golden/tiny-sd1}"}}
  gligen: {class_type: GLIGENLoader, inputs: {gligen_name: ${gligen:-tiny.safetensors}}}
  yes: {class_type: TestConditioning, inputs: {file: gligen.safetensors, name: positive}}
  no: {class_type: TestConditioning, inputs: {file: gligen.safetensors, name: negative}}
  x: {class_type: TestLatent, inputs: {file: gligen.safetensors, name: x}}
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  way: {class_type: ManualSigmas, inputs: {sigmas: "12.0, 2.0, 1.0, 0.3, 0.0"}}
  step: {class_type: ManualSigmas, inputs: {sigmas: "5.0, 0.0"}}
END
}
box() { # NAME CONDITIONING TEXT WIDTH HEIGHT X Y [GLIGEN]
    echo "  $1: {class_type: GLIGENTextBoxApply, inputs: {conditioning_to: [$2, 0], clip: [clip, 1], gligen_textbox_model: [${8:-gligen}, 0], text: \"$3\", width: $4, height: $5, x: $6, y: $7}}"
}
cat_box() { box "$1" "$2" "a red circle" 40 24 8 16; }
dog_box() { box "$1" "$2" "a large blue square, on green" 16 64 64 0; }
sample() { # NAME POSITIVE [NEGATIVE [LEVELS]]
    cat <<END
  ${1}_guider: {class_type: CFGGuider, inputs: {model: [${model:-unet}, 0], positive: [$2, 0], negative: [${3:-no}, 0], cfg: 3.0}}
  ${1}_latent: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [${1}_guider, 0], sampler: [euler, 0], sigmas: [${4:-step}, 0], latent_image: [x, 0]}}
END
}
compare() { echo "  ${1}_golden: {class_type: TestGolden, inputs: {value: [${1}_latent, 0], file: gligen.safetensors, name: golden.${2:-$1}}}"; } # NAME [GOLDEN]
dump() { echo "  ${1}_dump: {class_type: TestDump, inputs: {samples: [${1}_latent, 0]}}"; }
# as_golden RUN GOLDEN TIMES: that run held so many results against this golden, all within 1e-5 of it
as_golden() {
    sed -n "s/^golden golden\.$2 //p" "$work/$1.txt" | sed "s/^/# $1 $2: /"
    same "$1_$2_as_diffusers" "$(sed -n "s/^golden golden\.$2 //p" "$work/$1.txt" | awk '$1 != "nan" && $1 + 0 <= 1e-5 { n++ } END { print n + 0 }')" "$3"
}
latent_of() { cksum <"$work/$1/samples_00001_.f32"; }
# rename FROM TO SED: a .safetensors file with other names
rename() {
    python3 -I - "$@" <<'END'
import json, re, struct, sys
source, target, rules = sys.argv[1:4]
data = open(source, "rb").read()
n = struct.unpack("<Q", data[:8])[0]
header = json.loads(data[8 : 8 + n])
for rule in rules.split(";"):
    pattern, to = rule.split("=>")
    header = {new: v for k, v in header.items() if (new := re.sub(pattern, to, k)) != "-"}
kept, body = {}, b""
for k, v in header.items():
    if k == "__metadata__":
        continue
    a, b = v["data_offsets"]
    kept[k] = {**v, "data_offsets": [len(body), len(body) + b - a]}
    body += data[8 + n + a : 8 + n + b]
text = json.dumps(kept).encode()
text += b" " * (-len(text) % 8)
open(target, "wb").write(struct.pack("<Q", len(text)) + text + body)
END
}
