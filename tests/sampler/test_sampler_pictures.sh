#!/usr/bin/env bash
# Every sampler draws what the prompt says: one workflow with a KSampler for each, 20 steps, Karras levels, judged from the pixels.
# Whoever gets the first prompt wrong is given a second: the model itself gets about nine of ten such prompts right
# (docs/models/shapes.md), and stochastic samplers draw another picture each. Left out: lcm, which wants a model made for it.
# scripts/judge-samplers has the whole score.
set -u
cd "$KILN_ROOT" || exit 2
kiln=$KILN_BUILD/kiln judge=$KILN_BUILD/tests/judge/judge
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
samplers=$("$kiln" samplers | awk 'NR > 1 && $1 != "lcm" { print $1 }')
[ "$(echo "$samplers" | wc -l)" -ge 43 ] || { echo "FAIL the_list_of_samplers"; exit 1; }

# workflow PROMPT SEED NAME ...: one model, a KSampler for each name
workflow() {
    prompt=$1 seed=$2
    shift 2
    cat <<Y
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: "$prompt"}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ""}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128, batch_size: 1}}
Y
    for name in "$@"; do
        cfg=4.0
        case $name in *cfg_pp) cfg=1.5 ;; esac
        cat <<Y
  $name: {class_type: KSampler, inputs: {model: [model, MODEL], seed: $seed, steps: 20, cfg: $cfg, sampler_name: $name, scheduler: karras, positive: [positive, CONDITIONING], negative: [negative, CONDITIONING], latent_image: [empty, LATENT], denoise: 1.0}}
  $name.decode: {class_type: VAEDecode, inputs: {samples: [$name, LATENT], vae: [model, VAE]}}
  $name.save: {class_type: SaveImage, inputs: {images: [$name.decode, IMAGE], filename_prefix: $name}}
Y
    done
}

# wrong PROMPT SEED NAME ...: draws, and prints the names that drew something else
wrong() {
    prompt=$1 seed=$2
    shift 2
    workflow "$prompt" "$seed" "$@" >"$work/$seed.yaml"
    "$kiln" run "$work/$seed.yaml" --quiet --no-cache --out "$work/$seed" >/dev/null 2>"$work/errors.txt" || { echo "a_run_that_failed"; cat "$work/errors.txt" >&2; return; }
    for name in "$@"; do "$judge" "$work/$seed/${name}_00001_.png" "$prompt" >>"$work/$name.txt" 2>&1 || echo "$name"; done
}

again=$(wrong "a red circle" 1 $samplers)
still=
[ -z "$again" ] || still=$(wrong "a large blue square" 2 $again)
for name in $samplers; do
    case " $(echo $still) " in
    *" $name "* | *" a_run_that_failed "*) echo "FAIL $name"; cat "$work/$name.txt" 2>/dev/null; status=1 ;;
    *) echo "ok $name" ;;
    esac
done
echo "# a second prompt was needed by: ${again:-nobody}"
exit $status
