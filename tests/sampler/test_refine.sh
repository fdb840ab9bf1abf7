# test_refine.sh - base and refiner, masks by level and two passes as workflow files, on the small models: the same pictures by every way.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"

# The refiner is the same network read as one that predicts v, so that it draws something else.
cat >"$work/refine.yaml" <<'Y'
params: {step: 3, sampler: euler}
nodes:
  base: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  v: {class_type: ModelSamplingDiscrete, inputs: {model: [base, MODEL], sampling: v_prediction}}
  cat: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: a cat}}
  dog: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: a dog}}
  none: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: ""}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 72, height: 56}}
  stage1:
    class_type: KSamplerAdvanced
    inputs: {model: [base, MODEL], positive: [cat, CONDITIONING], negative: [none, CONDITIONING], latent_image: [empty, LATENT], noise_seed: 5, steps: 5, cfg: 3,
      sampler_name: "${sampler}", scheduler: normal, end_at_step: "${step}", return_with_leftover_noise: enable}
  stage2:
    class_type: KSamplerAdvanced
    inputs: {model: [v, MODEL], positive: [dog, CONDITIONING], negative: [none, CONDITIONING], latent_image: [stage1, LATENT], noise_seed: 5, steps: 5, cfg: 3,
      sampler_name: "${sampler}", scheduler: normal, start_at_step: "${step}", add_noise: disable}
  levels: {class_type: BasicScheduler, inputs: {model: [base, MODEL], scheduler: normal, steps: 5}}
  both: {class_type: ModelRangeAtStep, inputs: {model: [base, MODEL], other: [v, MODEL], sigmas: [levels, SIGMAS], start_at_step: "${step}"}}
  of_base: {class_type: ConditioningSetModelRange, inputs: {conditioning: [cat, CONDITIONING], model_range: base}}
  of_refiner: {class_type: ConditioningSetModelRange, inputs: {conditioning: [dog, CONDITIONING], model_range: refiner}}
  text: {class_type: ConditioningCombine, inputs: {conditioning_1: [of_base, CONDITIONING], conditioning_2: [of_refiner, CONDITIONING]}}
  noise: {class_type: RandomNoise, inputs: {noise_seed: 5}}
  guider: {class_type: CFGGuider, inputs: {model: [both, MODEL], positive: [text, CONDITIONING], negative: [none, CONDITIONING], cfg: 3}}
  how: {class_type: KSamplerSelect, inputs: {sampler_name: "${sampler}"}}
  at_once:
    class_type: SamplerCustomAdvanced
    inputs: {noise: [noise, NOISE], guider: [guider, GUIDER], sampler: [how, SAMPLER], sigmas: [levels, SIGMAS], latent_image: [empty, LATENT]}
  picture1: {class_type: VAEDecode, inputs: {samples: [stage2, LATENT], vae: [base, VAE]}}
  picture2: {class_type: VAEDecode, inputs: {samples: [at_once, output], vae: [base, VAE]}}
  save1: {class_type: SaveImage, inputs: {images: [picture1, IMAGE], filename_prefix: stages}}
  save2: {class_type: SaveImage, inputs: {images: [picture2, IMAGE], filename_prefix: at_once}}
Y
last=
for step in 1 3; do
    rm -rf "$work/out"
    "$kiln" run "$work/refine.yaml" --models tests/golden -q --set step=$step --precision f32 --out "$work/out" >/dev/null 2>"$work/log"
    one=$(echo "$work"/out/stages*.png) two=$(echo "$work"/out/at_once*.png)
    if [ -s "$one" ] && [ -s "$two" ] && [ "$(pixels "$one")" = "$(pixels "$two")" ] && [ "$(pixels "$one")" != "$last" ]; then ok "M13_one_sampling_is_two_stages_at_$step"
    else bad "M13_one_sampling_is_two_stages_at_$step" "they differ: $(head -n 3 "$work/log")"; fi
    [ -s "$one" ] && last=$(pixels "$one")
done
if "$kiln" run "$work/refine.yaml" --models tests/golden -q --set step=6 --out "$work/out" >/dev/null 2>"$work/log"; then bad too_many_steps "it was accepted"
elif grep -qF "start_at_step is 6, and sigmas has 5 steps" "$work/log"; then ok too_many_steps
else bad too_many_steps "$(head -n 2 "$work/log")"; fi
sed 's/model_range: refiner/model_range: refinre/' "$work/refine.yaml" >"$work/typo.yaml"
if "$kiln" run "$work/typo.yaml" --models tests/golden -q --out "$work/out" >/dev/null 2>"$work/log"; then bad a_range_that_is_not_there "it was accepted"
elif grep -qF "the model's range 'refinre', and the ranges are 'base', 'refiner'" "$work/log"; then ok a_range_that_is_not_there
else bad a_range_that_is_not_there "$(head -n 2 "$work/log")"; fi
{
    sed 's/latent_image: \[empty, LATENT\]/latent_image: [masked, LATENT]/' "$work/refine.yaml"
    echo "  half: {class_type: SolidMask, inputs: {value: 0.5, width: 8, height: 8}}"
    echo "  masked: {class_type: SetLatentNoiseMask, inputs: {samples: [empty, LATENT], mask: [half, MASK]}}"
} >"$work/masked.yaml"
rm -rf "$work/out"
"$kiln" run "$work/masked.yaml" --models tests/golden --out "$work/out" >/dev/null 2>"$work/log"
[ "$(grep -c "what is outside the mask keeps that noise" "$work/log")" = 1 ] && ok noise_that_a_mask_keeps_is_said || bad noise_that_a_mask_keeps_is_said "$(head -n 5 "$work/log")"

# ---- inpainting on a model of four channels: each way draws, and the pictures differ
cat >"$work/inpaint.yaml" <<'Y'
nodes:
  base: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  cat: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: a cat}}
  none: {class_type: CLIPTextEncode, inputs: {clip: [base, CLIP], text: ""}}
  grey: {class_type: EmptyImage, inputs: {width: 75, height: 61, color: 4219391}}
  padded: {class_type: ImagePadForOutpaint, inputs: {image: [grey, IMAGE], left: 0, top: 0, right: 24, bottom: 8, feathering: 20}}
  given: {class_type: InpaintModelConditioning, inputs: {positive: [cat, CONDITIONING], negative: [none, CONDITIONING], vae: [base, VAE], pixels: [padded, IMAGE], mask: [padded, MASK]}}
  soft: {class_type: DifferentialDiffusion, inputs: {model: [base, MODEL]}}
Y
for way in base soft; do
    cat >>"$work/inpaint.yaml" <<Y
  s_$way: {class_type: KSampler, inputs: {model: [$way, MODEL], positive: [given, positive], negative: [given, negative], latent_image: [given, latent], seed: 1, steps: 3, cfg: 2, sampler_name: euler, scheduler: simple}}
  d_$way: {class_type: VAEDecode, inputs: {samples: [s_$way, LATENT], vae: [base, VAE]}}
  o_$way: {class_type: SaveImage, inputs: {images: [d_$way, IMAGE], filename_prefix: $way}}
Y
done
rm -rf "$work/out"
"$kiln" run "$work/inpaint.yaml" --models tests/golden --out "$work/out" >/dev/null 2>"$work/log"
plain=$(echo "$work"/out/base*.png) soft=$(echo "$work"/out/soft*.png)
if [ -s "$plain" ] && [ -s "$soft" ] && [ "$(pixels "$plain")" != "$(pixels "$soft")" ]; then ok a_rule_for_masks_has_an_effect
else bad a_rule_for_masks_has_an_effect "$(head -n 3 "$work/log")"; fi
grep -q "concat_latent_image" "$work/log" && ok keys_that_no_network_reads_are_said || bad keys_that_no_network_reads_are_said "$(head -n 5 "$work/log")"
exit $status
