# shellcheck shell=bash
# control_workflows.sh - for tests of the control nodes: workflows over the tiny UNet, ControlNet, T2I-Adapter and goldens of
# tests/strangers/control, which diffusers made. Sourced after head.sh.
proof="$PWD/tests/strangers/control"
mkdir -p "$work/plugins" "$work/models/controlnet"
test_plugin() { # SOURCE NAME
    cc -std=c11 -O1 -fPIC -fvisibility=hidden -ffp-contract=off -Iinclude -shared "$1" -o "$work/plugins/$2.so" -lm && chmod go-w "$work/plugins" "$work/plugins/$2.so"
}
golden_plugin() { test_plugin tests/strangers/goldens/golden_nodes.c goldens; }
# run NAME ARG...: $work/NAME.yaml into $work/NAME, what is said into $work/log and $work/NAME.txt
run() {
    local name=$1; shift
    "$kiln" run "$work/$name.yaml" --precision f32 --plugins "$work/plugins" --models "$proof/models:$work/models" --input "$proof:$proof/input:$work" \
        --out "$work/$name" "$@" >"$work/$name.txt" 2>&1
    local got=$?
    cp "$work/$name.txt" "$work/log"
    return $got
}
# as_golden NAME RUN [TOLERANCE]: that run held its result against the golden, and was within 1e-5 of it
as_golden() {
    local error; error=$(sed -n "s/^golden golden\.$1 //p" "$work/$2.txt" | head -n 1)
    echo "# $2 $1: ${error:-not compared}"
    awk -v e="${error:-none}" -v t="${3:-1e-5}" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= t) }'
    verdict "$2_$1_as_diffusers" $?
}
begin() { # [FURTHER LINE]: params, models, hints, conditionings, latents and levels; unused ones are warned of, which is all
    cat <<END
kiln: 1
params:
  strength: {default: 0.8, help: of the control}
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: tiny}}
  net: {class_type: ControlNetLoader, inputs: {control_net_name: tiny}}
  adapter: {class_type: ControlNetLoader, inputs: {control_net_name: adapter}}
  dots: {class_type: LoadImage, inputs: {image: dots.png}}
  bars: {class_type: LoadImage, inputs: {image: bars.png}}
  odd: {class_type: LoadImage, inputs: {image: odd.png}}
  pair: {class_type: ImageBatch, inputs: {image1: [dots, IMAGE], image2: [bars, IMAGE]}}
  yes: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: positive}}
  no: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: negative}}
  x: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x}}
  x2: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x2}}
  x_odd: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: x_odd}}
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  steps: {class_type: ManualSigmas, inputs: {sigmas: "12.0, 4.0, 2.0, 1.0, 0.3, 0.0"}}
  step: {class_type: ManualSigmas, inputs: {sigmas: "5.0, 0.0"}}
END
}
apply() { # NAME CONDITIONINGS NET IMAGE STRENGTH [START END]: CONDITIONINGS is the node that gives both, or "POSITIVE NEGATIVE"
    local yes no; read -r yes no <<<"$2"
    echo "  $1: {class_type: ControlNetApplyAdvanced, inputs: {positive: [$yes, 0], negative: [${no:-$yes}, $([ -n "$no" ] && echo 0 || echo 1)], control_net: [$3, 0], image: [$4, 0], strength: $5, start_percent: ${6:-0}, end_percent: ${7:-1}}}"
}
sample() { # NAME POSITIVE NEGATIVE [LEVELS [LATENT [MODEL]]]: each an output such as "yes, 0"
    cat <<END
  ${1}_guider: {class_type: CFGGuider, inputs: {model: [${6:-model}, 0], positive: [$2], negative: [$3], cfg: 3.0}}
  ${1}_latent: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [${1}_guider, 0], sampler: [euler, 0], sigmas: [${4:-steps}, 0], latent_image: [${5:-x}, 0]}}
END
}
compare() { echo "  ${1}_golden: {class_type: TestGolden, inputs: {value: [${1}_latent, 0], file: goldens.safetensors, name: golden.${2:-$1}}}"; }
dump() { echo "  ${1}_dump: {class_type: TestDump, inputs: {samples: [${1}_latent, 0]}}"; }
both() { sample "$1" "on_$1, 0" "on_$1, 1" "${@:2}"; }
# latent_of NAME: the checksum of the one latent that a workflow of this name, with its own nodes on standard input, gives
latent_of() { workflow "$1"; run "$1" --no-cache && cksum <"$work/$1/samples_00001_.f32"; }
workflow() { { begin; cat; } >"$work/$1.yaml"; } # NAME, with its own nodes on standard input
