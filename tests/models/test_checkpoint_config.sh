# test_checkpoint_config.sh - CheckpointLoader is CheckpointLoaderSimple with what a configuration's parameterization and layer_idx say (ModelSamplingDiscrete,
# CLIPSetLastLayer), byte by byte; configurations of other models and broken ones are refused before anything is drawn.
. "$KILN_ROOT/tests/cli/head.sh"
mkdir -p "$work/models/configs"
config() { # NAME [PARAMETERIZATION LINE] [TEXT ENCODER'S PARAMS]
    cat >"$work/models/configs/$1.yaml" <<END
model:
  base_learning_rate: 1.0e-04
  target: ldm.models.diffusion.ddpm.LatentDiffusion
  params:
    ${2:-linear_start: 0.00085}
    timesteps: 1000
    unet_config:
      target: ldm.modules.diffusionmodules.openaimodel.UNetModel
      params: {in_channels: 4, attention_resolutions: [ 4, 2, 1 ]}
    first_stage_config:
      target: ldm.models.autoencoder.AutoencoderKL
    cond_stage_config:
      target: ldm.modules.encoders.modules.FrozenCLIPEmbedder
      ${3:-}
END
}
draw() { # NAME LOADER [NODES] [MODEL] [CLIP]
    cat >"$work/$1.yaml" <<END
kiln: 1
nodes:
  load: $2
$3  yes: {class_type: CLIPTextEncode, inputs: {clip: ${5:-[load, CLIP]}, text: a red circle}}
  no: {class_type: CLIPTextEncode, inputs: {clip: ${5:-[load, CLIP]}, text: ""}}
  size: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  draw: {class_type: KSampler, inputs: {model: ${4:-[load, MODEL]}, positive: [yes, 0], negative: [no, 0], latent_image: [size, 0], seed: 3, steps: 2, cfg: 3.0}}
  picture: {class_type: VAEDecode, inputs: {samples: [draw, 0], vae: [load, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [picture, 0], filename_prefix: $1}}
END
    "$kiln" run "$work/$1.yaml" --models "$work/models:tests/golden" --no-cache --out "$work/out" >"$work/log" 2>&1
}
pixels() { python3 -I -c 'import sys, zlib, struct
d = open(sys.argv[1], "rb").read(); at, z = 8, b""
while at < len(d):
    n, kind = struct.unpack(">I4s", d[at:at + 8]); z += d[at + 8:at + 8 + n] if kind == b"IDAT" else b""; at += 12 + n
print(zlib.crc32(zlib.decompress(z)))' "$work/out/$1_00001_.png"; }
with() { echo "{class_type: CheckpointLoader, inputs: {config_name: $1.yaml, ckpt_name: tiny-sd1}}"; }
simple='{class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}'
config plain; config v 'parameterization: "v"'; config skip '' 'params: {layer: hidden, layer_idx: -2}'; config both 'parameterization: v' 'params: {layer_idx: -2}'; config eps 'parameterization: eps' 'params:'
draw a "$simple" && draw b "$(with plain)" && draw eps "$(with eps)"; verdict a_configuration_that_says_nothing_more $?
same it_is_the_simple_loader "$(pixels b) $(pixels eps)" "$(pixels a) $(pixels a)"
as_v='  v: {class_type: ModelSamplingDiscrete, inputs: {model: [load, MODEL], sampling: v_prediction, zsnr: false}}
' skip='  skip: {class_type: CLIPSetLastLayer, inputs: {clip: [load, CLIP], stop_at_clip_layer: -2}}
'
draw v1 "$simple" "$as_v" '[v, 0]' && draw v2 "$(with v)"; verdict a_network_that_predicts_v $?
same as_ModelSamplingDiscrete_says "$(pixels v2)" "$(pixels v1)"
draw s1 "$simple" "$skip" '' '[skip, 0]' && draw s2 "$(with skip)"; verdict an_earlier_layer $?
same as_CLIPSetLastLayer_says "$(pixels s2)" "$(pixels s1)"
draw w1 "$simple" "$as_v$skip" '[v, 0]' '[skip, 0]' && draw w2 "$(with both)"; verdict both_of_them $?
same as_both_nodes_say "$(pixels w2)" "$(pixels w1)"
check these_are_four_pictures [ "$(for n in a v1 s1 w1; do pixels $n; done | sort -u | wc -l)" -eq 4 ]

# ---- refused, by check as well
refused() { # NAME SENTENCE
    draw bad "$(with bad)" && { echo "FAIL $1"; status=1; return; }
    check "$1" grep -qF -- "$2" "$work/log"
    "$kiln" check "$work/bad.yaml" --models "$work/models:tests/golden" >"$work/log" 2>&1
    check "$1_before_a_run" grep -qF -- "$2" "$work/log"
}
config bad 'parameterization: x0'; refused another_parameterization "parameterization is 'x0'; eps and v are known"
config bad '' 'params: {layer_idx: 2}'; refused a_layer_that_is_none "layer_idx is '2'; a whole number from -24 to -1 is wanted"
config bad; sed -i 's/FrozenCLIPEmbedder/FrozenT5Embedder/' "$work/models/configs/bad.yaml"; refused another_text_encoder "cond_stage_config's target is 'ldm.modules.encoders.modules.FrozenT5Embedder', which is none of SD1's and SD2's"
config bad; sed -i 's/ddpm.LatentDiffusion/upscaling.LatentUpscaleDiffusion/' "$work/models/configs/bad.yaml"; refused another_model "model's target is 'ldm.models.diffusion.upscaling.LatentUpscaleDiffusion'"
echo 'data: {}' >"$work/models/configs/bad.yaml"; refused no_model "no 'model': this is no configuration of a checkpoint, such as v1-inference.yaml"
echo 'model: {params: {timesteps: 1}}' >"$work/models/configs/bad.yaml"; refused no_text_encoder "no 'model.params.cond_stage_config'"
printf 'model: [\n' >"$work/models/configs/bad.yaml"; refused no_yaml "bad.yaml:2:1: "
head -c 1100000 /dev/zero | tr '\0' '#' >"$work/models/configs/bad.yaml"; refused a_large_file "larger than 1 MiB"
config bad '' 'params: {layer_idx: -9}'; draw bad "$(with bad)"; check a_layer_beyond_the_encoder grep -qF "layer_idx is -9, and the text encoder 'l' has" "$work/log"
draw bad "$(with nowhere)"; check a_missing_configuration grep -q "nowhere.yaml" "$work/log"
exit "$status"
