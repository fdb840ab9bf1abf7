# test_svd.sh - a stranger brings Stable Video Diffusion (svd/): frames in the batch, a decoder that sees them all, guidance that grows from frame to frame.
# Built against an installed kiln and nothing else, and held against diffusers and transformers: f32 1e-5 of the largest value, bf16 2e-2.
here="$KILN_ROOT/tests/strangers/svd" input="$KILN_ROOT/tests/strangers/svd"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
goldens="$KILN_ROOT/tests/strangers/goldens"
build svd.so "$here"/*.c && build goldens.so "$goldens/golden_nodes.c" && build single.so "$goldens/single_file.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/svd.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?
"$kiln" check-plugin "$work/plugins/svd.so" >"$work/checked.txt" 2>&1; result=$?; [ $result -eq 0 ] || tail -n 5 "$work/checked.txt"; verdict check_plugin_finds_nothing $result

begin() { # [CHECKPOINT]
    cat <<END
kiln: 1
nodes:
  ckpt: {class_type: ExampleImageOnlyCheckpointLoader, inputs: {ckpt_name: ${1:-tiny}}}
  picture: {class_type: TestImage, inputs: {file: goldens.safetensors, name: picture}}
  cond: {class_type: ExampleSVD_img2vid_Conditioning, inputs: {clip_vision: [ckpt, 1], init_image: [picture, 0], vae: [ckpt, 2], width: 32, height: 24, video_frames: 4}}
  grown: {class_type: ExampleVideoLinearCFGGuidance, inputs: {model: [ckpt, 0], min_cfg: 1.0}}
END
}
sample() { # NAME STEPS [MODEL] [CONDITIONING] [SEED] [CFG] [LATENT]
    echo "  $1: {class_type: KSampler, inputs: {model: [${3:-grown}, 0], positive: [${4:-cond}, 0], negative: [${4:-cond}, 1], latent_image: ${7:-[${4:-cond}, 2]}, seed: ${5:-5}, steps: $2, cfg: ${6:-3.0}, sampler_name: euler, scheduler: karras}}"
}
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [${2:-$1}, 0], file: goldens.safetensors, name: golden.$1}}"; }
all_cases() {
    begin
    echo '  embeds: {class_type: CLIPVisionEncode, inputs: {clip_vision: [ckpt, 1], image: [picture, 0], crop: center}}'; golden embeds
    echo '  rows: {class_type: ImageCrop, inputs: {image: [picture, 0], width: 32, height: 24, x: 0, y: 4}}'
    echo '  latent: {class_type: VAEEncode, inputs: {pixels: [rows, 0], vae: [ckpt, 2]}}'; golden latent
    sample one 1 grown cond 5 1.5; golden one
    sample whole 5; golden whole
    sample even 5 ckpt; golden even
    echo '  shaken_cond: {class_type: ExampleSVD_img2vid_Conditioning, inputs: {clip_vision: [ckpt, 1], init_image: [picture, 0], vae: [ckpt, 2], width: 32, height: 24, video_frames: 3, motion_bucket_id: 40, fps: 12, augmentation_level: 0.1, seed: 9}}'
    echo '  steep: {class_type: ExampleVideoLinearCFGGuidance, inputs: {model: [ckpt, 0], min_cfg: 1.5}}'
    sample shaken 2 steep shaken_cond 8 2.5; golden shaken
    echo '  frames: {class_type: VAEDecode, inputs: {samples: [whole, 0], vae: [ckpt, 2]}}'; golden frames
    echo '  by_three: {class_type: ExampleSVDChunks, inputs: {vae: [ckpt, 2], decode_chunk_size: 3}}'
    echo '  chunks: {class_type: VAEDecode, inputs: {samples: [whole, 0], vae: [by_three, 0]}}'; golden chunks
}
all_cases >"$work/all.yaml"
run all "$work/all.yaml" --no-cache; verdict runs $?
for name in embeds latent one whole even shaken frames chunks; do as_golden $name all; done
! grep -q 'is not used by any network' "$work/all.txt"; verdict every_weight_is_asked_for $?

# in bf16, frames of golden latents; a guidance of 8 on what was shaken multiplies roundings: 1.5e-2 to 2.1e-2, by a processor's level
{ all_cases | sed 's/samples: \[whole, 0\]/samples: [given, 0]/'; echo '  given: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: golden.whole}}'; } >"$work/bf16.yaml"
"$kiln" run "$work/bf16.yaml" --no-cache --precision bf16 --plugins "$work/plugins" --models "$here/models" --input "$here" --out "$work/bf16" >"$work/bf16.txt" 2>&1
for name in embeds latent one whole even shaken frames chunks; do
    error=$(sed -n "s/^golden golden\.$name //p" "$work/bf16.txt")
    bound=2e-2; [ $name != shaken ] || bound=2.5e-2
    awk -v e="${error:-none}" -v bound=$bound 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= bound) }'; result=$?
    echo "# ${name}_bf16: ${error:-not compared}"; verdict "${name}_bf16" $result
done

# a single file under the release's names, which a list has (names.txt); heads that are not 64 wide stand in its metadata
cat "$here/names.txt" - >"$work/names.txt" <<END
= unet_config {"num_attention_heads": [2, 4], "norm_num_groups": 8}
= vae_config {"norm_num_groups": 8}
= num_attention_heads 2
= hidden_act gelu
END
printf 'kiln: 1\nnodes:\n  write: {class_type: TestSingleFile, inputs: {folder: tiny, names: names.txt}}\n' >"$work/write.yaml"
input="$work" run written "$work/write.yaml" --no-cache; verdict a_single_file_is_written $?
mkdir -p "$work/models/checkpoints"; mv "$work/written/single_00001_.safetensors" "$work/models/checkpoints/single.safetensors"; ln -s "$here/models/checkpoints/tiny" "$work/models/checkpoints/tiny"
models="$work/models"
{ begin single.safetensors; sample single 2; golden single; } >"$work/single.yaml"
run single "$work/single.yaml" --no-cache; as_golden released_names single single
! grep -q 'is not used by any network' "$work/single.txt"; verdict every_weight_of_the_file_is_asked_for $?
"$kiln" inspect --plugins "$work/plugins" "$work/models/checkpoints/single.safetensors" >"$work/inspect.txt" 2>&1 && grep -q "^denoiser: Stable Video Diffusion (family example-svd)" "$work/inspect.txt" && [ "$(grep -c 'complete$' "$work/inspect.txt")" -eq 3 ] && ! grep -q 'left over' "$work/inspect.txt"; verdict inspect_knows_it $?
unset models

# kiln's own node for attentions across frames finds them by their names
for factor in 1.0 0.5; do
    { begin; echo "  model: {class_type: UNetTemporalAttentionMultiply, inputs: {model: [ckpt, 0], self_structural: 1.0, self_temporal: $factor, cross_structural: 1.0, cross_temporal: 1.0}}"; sample some 1 model; echo '  dump: {class_type: TestDump, inputs: {samples: [some, 0]}}'; } >"$work/factor.yaml"
    run "factor_$factor" "$work/factor.yaml" --no-cache
done
[ -e "$work/factor_0.5/samples_00001_.f32" ] && ! cmp -s "$work/factor_0.5/samples_00001_.f32" "$work/factor_1.0/samples_00001_.f32"; verdict attentions_across_frames_have_names $?

# looked at without running, the same bytes for any number of threads, taken up again after a kill
run dry "$work/all.yaml" --no-cache --dry-run && ! grep -q '^golden golden' "$work/dry.txt"; verdict a_dry_run_runs_nothing $?
run explained "$work/all.yaml" --no-cache --explain && grep -qE '^whole +KSampler +[0-9a-f]+ +[0-9.]+ [kM]B' "$work/explained.txt"; verdict is_explained $?
{ begin; sample whole 5; echo '  dump: {class_type: TestDump, inputs: {samples: [whole, 0]}}'; } >"$work/dump.yaml"
run one_thread "$work/dump.yaml" --no-cache --threads 1; run four_threads "$work/dump.yaml" --no-cache --threads 4
cmp "$work/one_thread/samples_00001_.f32" "$work/four_threads/samples_00001_.f32"; verdict the_same_bytes_for_any_threads $?
{ begin; sample long 40; echo '  dump: {class_type: TestDump, inputs: {samples: [long, 0]}}'; } >"$work/long.yaml"
resumes_after_a_kill "$work/long.yaml"; verdict killed_it_goes_on $?

# frames see one another: where they do not fit they are not taken apart, which would make other pictures
{ begin; echo '  given: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: golden.whole}}'; echo '  frames: {class_type: VAEDecode, inputs: {samples: [given, 0], vae: [ckpt, 2]}}'; golden frames; } >"$work/frames.yaml"
! run small "$work/frames.yaml" --no-cache --memory 6M && grep -q "'vae decode' needs .* at least" "$work/small.txt" && ! grep -q '^golden' "$work/small.txt"; verdict frames_are_not_taken_apart $?

# on a device, where there is an emulated one
{ begin; sample one 1 grown cond 5 1.5; golden one; echo '  given: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: golden.whole}}'; echo '  frames: {class_type: VAEDecode, inputs: {samples: [given, 0], vae: [ckpt, 2]}}'; golden frames; } >"$work/device.yaml"
on_device device "$work/device.yaml" && for name in one frames; do as_golden "${name}_on_the_device" device $name; done

# bad use
{ begin; echo '  short: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: short}}'; sample one 1 grown cond 5 3.0 '[short, 0]'; golden one; } >"$work/short.yaml"
refused a_latent_of_other_frames "$work/short.yaml" 1 "node 'one' \(KSampler\): .*the conditioning is for a video of 4 frames, and the latent has 3; take the latent that the conditioning's node gives"
{ begin | sed 's/name: picture}/name: pictures}/'; sample one 1; golden one; } >"$work/two.yaml"
refused two_pictures "$work/two.yaml" 1 "node 'cond/noised' \(ExampleSVDAugment\): init_image has 2 pictures, and one begins a video"
{ begin | sed 's/video_frames: 4/video_frames: 0/'; sample one 1; golden one; } >"$work/none.yaml"
refused no_frames "$work/none.yaml" 2 "video_frames.*0.*1 to 4096"
{ begin; echo '  other: {class_type: VAELoader, inputs: {vae_name: other}}'; echo '  chunked: {class_type: ExampleSVDChunks, inputs: {vae: [other, 0]}}'
  echo '  x: {class_type: VAEDecode, inputs: {samples: [cond, 2], vae: [chunked, 0]}}'; echo '  show: {class_type: SaveImage, inputs: {images: [x, 0]}}'; } >"$work/other.yaml"
mkdir -p "$work/models/vae"; ln -s "$KILN_ROOT/tests/golden/tiny-sd1/vae" "$work/models/vae/other"
models="$work/models" refused a_vae_of_another_family "$work/other.yaml" 1 "node 'chunked' \(ExampleSVDChunks\): this VAE decodes each frame for itself; it is no Stable Video Diffusion's"
ln -s "$KILN_ROOT/tests/golden/tiny-sd1" "$work/models/checkpoints/sd1"
{ begin sd1; sample one 1; golden one; } >"$work/sd1.yaml"
models="$work/models" refused a_checkpoint_of_another_family "$work/sd1.yaml" 1 "node 'ckpt' \(ExampleImageOnlyCheckpointLoader\): .*no loaded plugin knows a vision encoder in it"
{ begin; echo '  x: {class_type: VAEDecodeTiled, inputs: {samples: [cond, 2], vae: [ckpt, 2], tile_size: 64, overlap: 16}}'; echo '  show: {class_type: SaveImage, inputs: {images: [x, 0]}}'; } >"$work/tiles.yaml"
refused tiles_which_go_frame_by_frame "$work/tiles.yaml" 1 "node 'x' \(VAEDecodeTiled\): "
exit $status
