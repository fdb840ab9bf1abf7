# test_sag_small.sh - SelfAttentionGuidance on latents that its blur of 9 cells does not fit: where either side has 4 cells or fewer it changes nothing, as
# in ComfyUI; with 5 it does.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
cat >"$work/flow.yaml" <<'Y'
kiln: 1
params: {width: 64, height: 64, by: sag}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  sag: {class_type: SelfAttentionGuidance, inputs: {model: [model, MODEL], scale: 2.0}}
  none: {class_type: SelfAttentionGuidance, inputs: {model: [model, MODEL], scale: 0.0}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: blue}}
  latent: {class_type: EmptyLatentImage, inputs: {width: "${width}", height: "${height}", batch_size: 1}}
  with: {class_type: KSampler, inputs: {model: [sag, 0], positive: [positive, 0], negative: [negative, 0], latent_image: [latent, 0], seed: 3, steps: 2, cfg: 2.0, sampler_name: euler, scheduler: normal}}
  without: {class_type: KSampler, inputs: {model: [model, MODEL], positive: [positive, 0], negative: [negative, 0], latent_image: [latent, 0], seed: 3, steps: 2, cfg: 2.0, sampler_name: euler, scheduler: normal}}
  one: {class_type: VAEDecode, inputs: {samples: [with, 0], vae: [model, VAE]}}
  other: {class_type: VAEDecode, inputs: {samples: [without, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [one, 0], filename_prefix: with}}
  keep: {class_type: SaveImage, inputs: {images: [other, 0], filename_prefix: without}}
Y
sed -i '/^  none:/d; s/, by: sag//' "$work/flow.yaml"
draw() { rm -rf "$work/out"; "$kiln" run "$work/flow.yaml" --models tests/golden --no-cache --precision f32 --out "$work/out" --set "width=$1" --set "height=$2" >"$work/stdout" 2>"$work/log"; verdict "drawn_$1_$2" $?; }
for size in "128 32" "32 128" "32 32"; do
    # shellcheck disable=SC2086
    draw $size
    same "nothing_at_${size/ /_by_}" "$(pixels "$work/out/with_00001_.png")" "$(pixels "$work/out/without_00001_.png")"
done
for size in "128 40" "40 128"; do
    # shellcheck disable=SC2086
    draw $size
    check "guided_at_${size/ /_by_}" [ "$(pixels "$work/out/with_00001_.png")" != "$(pixels "$work/out/without_00001_.png")" ]
done
exit $status
