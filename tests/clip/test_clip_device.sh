# test_clip_device.sh - a CLIP loader's device: what a run on another device does not follow is said, and only then.
# shellcheck source=tests/cli/head.sh
. "$KILN_ROOT/tests/cli/head.sh"
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip clip_device: no emulation in this build"; exit 0; }
# draw CHOICE DEVICE
draw() {
    cat >"$work/$1.yaml" <<YAML
nodes:
  unet: {class_type: UNETLoader, inputs: {unet_name: shapes-sd1, weight_dtype: default}}
  clip: {class_type: CLIPLoader, inputs: {clip_name: shapes-sd1, type: stable_diffusion, device: $1}}
  vae: {class_type: VAELoader, inputs: {vae_name: shapes-sd1}}
  text: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: a red circle}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sample: {class_type: KSampler, inputs: {model: [unet, 0], positive: [text, 0], negative: [text, 0], latent_image: [empty, 0], seed: 1, steps: 1, cfg: 1, sampler_name: euler, scheduler: normal}}
  decode: {class_type: VAEDecode, inputs: {samples: [sample, 0], vae: [vae, 0]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: x}}
YAML
    KILN_CUDA_LIBRARY=$emu "$kiln" run "$work/$1.yaml" --models workflows/models --no-cache --device "$2" --out "$work/out"
}
said() { grep -c "device 'cpu' is not followed" "$work/log"; }

expect_in="log"
expect the_run_goes_on 0 "device 'cpu' is not followed" draw cpu cuda
same it_is_said_once "$(said)" 1
expect nothing_else_was_wished 0 "" draw default cuda
same it_is_not_said "$(said)" 0
expect the_processor_it_is 0 "" draw cpu cpu
same nothing_is_to_be_said "$(said)" 0
exit $status
