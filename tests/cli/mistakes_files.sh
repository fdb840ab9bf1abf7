# shellcheck shell=bash
# mistakes_files.sh - Files with a mistake in each, from flow.yaml.
flow() { cat <<'Y'
params: {prompt: a red circle, seed: 1}
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  positive: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: "${prompt}"}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 128, height: 128}}
  sampler:
    class_type: KSampler
    inputs: {model: [model, MODEL], positive: [positive, 0], negative: [positive, 0], latent_image: [empty, 0], seed: "${seed}", steps: 4, cfg: 4.0, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: k}}
Y
}
flow >flow.yaml
edit() { flow | sed "$2" >"$1.yaml"; cmp -s flow.yaml "$1.yaml" && echo "the edit of $1 changes nothing"; }
edit braces 's/"${prompt}"/${prompt}/'
edit colon 's/prompt: a red circle/prompt: a cat: asleep/'
edit twice 's/seed: 1}/seed: 1, seed: 2}/'
edit notype 's/class_type: VAEDecode, //'
edit type 's/VAEDecode/VaeDecode/'
edit wire 's/\[decode, 0\]/[decoder, 0]/'
edit output 's/\[model, VAE\]/[model, vaes]/'
edit value 's/\[sampler, 0\]/sampler/'
edit cycle 's/latent_image: \[empty, 0\]/latent_image: [sampler, 0]/'
edit missing 's/clip: \[model, CLIP\], //'
edit quoted 's/steps: 4/steps: "4"/'
edit yes 's/scheduler: normal/scheduler: true/'
edit reference 's/"${prompt}"/"${promt}"/'
edit key 's/^params:/parameters:/'
edit text-wire 's/\[positive, 0\], negative/[model, VAE], negative/'
printf 'nodes:\n\tmodel: {class_type: A}\n' >tab.yaml
: >empty.yaml
echo 'a picture of a cat' >text.txt
echo '{"1": {"class_type": "EmptyImage", "inputs": {},}' >broken.json
printf 'params: {image: a.png}\nnodes:\n  load: {class_type: LoadImage, inputs: {image: "${image}"}}\n  save: {class_type: SaveImage, inputs: {images: [load, 0]}}\n' >image.yaml
printf '\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0\x3a\x7e\x9b\x55\0\0\0\0IEND\xae\x42\x60\x82' >plain.png
printf '\xff\xd8\xff\xe0 not much of a JPEG' >cat.jpg
mkdir -p pic
printf 'not much of a model' >model.safetensors
ln -s nowhere dangling.yaml
mkdir -p bad/checkpoints bad/embeddings
printf 'not much of a model' >bad/checkpoints/broken.safetensors
printf '\x80\x02}q\0.' >bad/embeddings/gem.pt
