# test_video.sh - a stranger brings a video model (video/): latents of five dimensions, a timestep a frame, a flow of its own whose levels follow from the
# video's size, an autoencoder that is causal in time. Built against an installed kiln and nothing else, and held against torch: f32, 1e-5 of the largest
# value; tiles against ComfyUI's.
here="$KILN_ROOT/tests/strangers/video" input="$KILN_ROOT/tests/strangers/video"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build video.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/video.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?

begin() {
    cat <<END
kiln: 1
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: toy.safetensors}}
  vae: {class_type: VAELoader, inputs: {vae_name: toy.safetensors}}
  yes: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: positive}}
  other: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: other}}
  no: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: negative}}
  frames: {class_type: TestImage, inputs: {file: goldens.safetensors, name: frames}}
  mask: {class_type: TestMask, inputs: {file: goldens.safetensors, name: mask}}
  pixel_mask: {class_type: TestMask, inputs: {file: goldens.safetensors, name: pixel_mask}}
  empty: {class_type: ExampleEmptyVideo, inputs: {width: 28, height: 20, length: 9}}
  encoded: {class_type: VAEEncode, inputs: {pixels: [frames, 0], vae: [vae, 0]}}
END
}
sample() { # NAME LATENT SEED [POSITIVE]
    echo "  $1: {class_type: KSampler, inputs: {model: [model, 0], positive: [${4:-yes}, 0], negative: [no, 0], latent_image: [$2, 0], seed: $3, steps: 6, cfg: 3.0, sampler_name: euler, scheduler: simple}}"
}
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [${2:-$1}, 0], file: goldens.safetensors, name: golden.$1}}"; }
all_cases() {
    sample plain empty 5; golden plain
    echo "  two: {class_type: ExampleEmptyVideo, inputs: {width: 16, height: 16, length: 5, batch_size: 2}}"; sample batch two 6; golden batch
    cat <<END
  weaker: {class_type: ConditioningSetAreaStrength, inputs: {conditioning: [other, 0], strength: 0.5}}
  both: {class_type: ConditioningCombine, inputs: {conditioning_1: [yes, 0], conditioning_2: [weaker, 0]}}
  kept: {class_type: SetLatentNoiseMask, inputs: {samples: [encoded, 0], mask: [mask, 0]}}
  kept_frames: {class_type: SetLatentNoiseMask, inputs: {samples: [encoded, 0], mask: [pixel_mask, 0]}}
  drawn: {class_type: VAEEncode, inputs: {pixels: [frames, 0], vae: [vae, 0], from: sample, seed: 9}}
  images: {class_type: VAEDecode, inputs: {samples: [plain, 0], vae: [vae, 0]}}
  video: {class_type: ExampleMakeVideo, inputs: {images: [images, 0], frame_rate: 12.5}}
  back: {class_type: ExampleVideoFrames, inputs: {video: [video, 0]}}
  decoded: {class_type: ImageScale, inputs: {image: [back, 0], upscale_method: nearest-exact, width: 7, height: 5, crop: disabled}}
  large: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: large}}
  tiles: {class_type: VAEDecodeTiled, inputs: {samples: [large, 0], vae: [vae, 0], tile_size: 64, overlap: 32, temporal_size: 8, temporal_overlap: 4}}
  tiled: {class_type: ImageScale, inputs: {image: [tiles, 0], upscale_method: nearest-exact, width: 16, height: 18, crop: disabled}}
  small: {class_type: TestImage, inputs: {file: goldens.safetensors, name: small_pixels}}
  pixels: {class_type: ImageScale, inputs: {image: [small, 0], upscale_method: nearest-exact, width: 144, height: 32, crop: disabled}}
  tiled_encode: {class_type: VAEEncodeTiled, inputs: {pixels: [pixels, 0], vae: [vae, 0], tile_size: 128, overlap: 32, temporal_size: 8, temporal_overlap: 4}}
END
    sample combined empty 5 both; golden combined
    golden encoded; golden drawn; golden decoded; golden tiled; golden tiled_encode
    sample masked kept 7; golden masked
    sample masked_frames kept_frames 7; golden masked_frames
}
{ begin; all_cases; } >"$work/all.yaml"
run all "$work/all.yaml" --no-cache; verdict runs $?
for name in plain batch combined encoded drawn masked masked_frames decoded tiled tiled_encode; do as_golden $name all; done
grep -q 'VAEEncode: of 10 frames the first 9 are encoded' "$work/all.txt"; verdict frames_that_are_over_are_named $?
! grep -q 'is not used by any network' "$work/all.txt"; verdict every_weight_is_asked_for $?

# ---- looked at without running, and taken up again after a kill
{ begin; sample long kept 7; echo "  kept: {class_type: SetLatentNoiseMask, inputs: {samples: [encoded, 0], mask: [mask, 0]}}"; echo "  dump: {class_type: TestDump, inputs: {samples: [long, 0]}}"; } | sed 's/steps: 6/steps: 300/' >"$work/long.yaml"
run dry "$work/all.yaml" --no-cache --dry-run && ! grep -q '^golden golden' "$work/dry.txt"; verdict a_dry_run_runs_nothing $?
run explained "$work/all.yaml" --no-cache --explain && grep -q 'vae decode' "$work/explained.txt"; verdict is_explained $?
resumes_after_a_kill "$work/long.yaml"; verdict killed_it_goes_on $?

# ---- on a device, where there is an emulated one
emu=$(realpath "$KILN_ROOT/$KILN_BUILD/emu/kiln-cuda-emu.so" 2>/dev/null)
if [ -e "$emu" ]; then
    KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT="$work/report" run device "$work/all.yaml" --no-cache --device cuda && grep -q '^faults 0 kernel_faults 0 ' "$work/report"
    verdict runs_on_the_emulated_device $?
    for name in plain masked combined decoded tiled; do as_golden "${name}_on_the_device" device $name; done
fi

# ---- bad use
with() { begin; cat; }
with >"$work/flat.yaml" <<END
  flat: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
$(sample x flat 1)
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END
refused a_picture_is_no_video "$work/flat.yaml" 1 "node 'x' \(KSampler\): the latent has 4 dimensions, this model wants 5 \(\[N,T,H,W,C\], a video\)"
with >"$work/wrong_vae.yaml" <<END
  flat: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  x: {class_type: VAEDecode, inputs: {samples: [flat, 0], vae: [vae, 0]}}
  show: {class_type: SaveImage, inputs: {images: [x, 0]}}
END
refused nor_for_its_autoencoder "$work/wrong_vae.yaml" 1 "node 'x' \(VAEDecode\): the latent has 4 dimensions, this VAE decodes 5"
with >"$work/no_rate.yaml" <<END
  video: {class_type: ExampleMakeVideo, inputs: {images: [frames, 0], frame_rate: 0}}
  back: {class_type: ExampleVideoFrames, inputs: {video: [video, 0]}}
  show: {class_type: SaveImage, inputs: {images: [back, 0]}}
END
refused a_video_has_a_rate "$work/no_rate.yaml" 1 "node 'video' \(ExampleMakeVideo\): plugin org.example.video: output 'video': VIDEO.frame_rate is missing; it has to be a number"
with >"$work/edges.yaml" <<END
  x: {class_type: VAEEncodeTiled, inputs: {pixels: [frames, 0], vae: [vae, 0], tile_size: 64, overlap: 64}}
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END
refused tiles_larger_than_their_overlap "$work/edges.yaml" 1 "node 'x' \(VAEEncodeTiled\): tile_size 64 with overlap 64: half a tile has to be larger than the overlap"
exit $status
