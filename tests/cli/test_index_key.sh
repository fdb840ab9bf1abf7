# test_index_key.sh - a model given as an index of shards: its key is of the shards too, and of the settings that lie with them.
. "$KILN_ROOT/tests/cli/head.sh"
export KILN_MODELS="$PWD/workflows/models"

unet=workflows/models/shapes-sd1/unet
cp $unet/diffusion_pytorch_model.safetensors "$work/part.safetensors"
cp $unet/config.json "$work/config.json"
{
    printf '{"metadata":{},"weight_map":{'
    head -c 200000 "$work/part.safetensors" | tail -c +9 | grep -aoE '"[a-z][A-Za-z0-9_.]*":\{"dtype"' | sed 's/:{"dtype"$/:"part.safetensors"/' | paste -sd, | tr -d '\n'
    printf '}}'
} >"$work/x.safetensors.index.json"
cat >"$work/flow.yaml" <<YAML
kiln: 1
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  unet: {class_type: UNETLoader, inputs: {unet_name: $work/x.safetensors.index.json}}
  prompt: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64, batch_size: 1}}
  sampler:
    class_type: KSampler
    inputs: {model: [unet, MODEL], positive: [prompt, 0], negative: [prompt, 0], latent_image: [empty, 0], seed: 1, steps: 1, cfg: 1.0, sampler_name: euler, scheduler: normal, denoise: 1.0}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, LATENT], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, IMAGE], filename_prefix: p}}
YAML
draw() { "$kiln" run "$work/flow.yaml" -q --cache "$work/cache" --out "$work/out" --events "$work/events" >"$work/stdout" 2>"$work/log"; }
sampled() { grep '"node": *"sampler"' "$work/events" | grep -q '"cached": *false\|"from": *"computed"'; }

draw && sampled; verdict index_draws $?
draw && ! sampled; verdict index_is_known_again $?
dd if="$work/part.safetensors" of="$work/part.safetensors" bs=1M skip=9 seek=3 count=2 conv=notrunc status=none
draw && sampled; verdict index_another_shard_is_another_model $?
printf ' ' >>"$work/config.json"
draw && sampled; verdict index_other_settings_are_another_model $?
exit $status
