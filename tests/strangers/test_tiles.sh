# test_tiles.sh - a stranger drives samplings itself (tiles/): a guider over three conditionings, and a loop of its own in tiles. Built against an
# installed kiln and nothing else, on kiln's own UNet of SD1, and held against torch and diffusers: f32, 1e-5 of the largest value.
here="$KILN_ROOT/tests/strangers/control" # its tiny UNet
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
tiles="$KILN_ROOT/tests/strangers/tiles"
build tiles.so "$tiles/tiles.c" && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/tiles.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?

begin() {
    cat <<END
kiln: 1
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: tiny}}
  full: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: full}}
  image: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: image}}
  empty: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: none}}
  start: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: start}}
  given: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: given}}
  keep: {class_type: TestMask, inputs: {file: goldens.safetensors, name: keep}}
  steps: {class_type: ManualSigmas, inputs: {sigmas: "12.0, 4.0, 2.0, 1.0, 0.3, 0.0"}}
END
}
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [$1, 0], file: goldens.safetensors, name: golden.$1}}"; }
tiled() { # NAME INPUTS
    echo "  $1: {class_type: ExampleTiledSampler, inputs: {model: [model, 0], positive: [full, 0], negative: [empty, 0], sigmas: [steps, 0], latent_image: [given, 0], $2}}"
}
three_way() {
    cat <<END
  none: {class_type: DisableNoise}
  euler: {class_type: KSamplerSelect, inputs: {sampler_name: euler}}
  guider: {class_type: ExampleThreeWayGuider, inputs: {model: [model, 0], full: [full, 0], image: [image, 0], none: [empty, 0], text: 5.0, image_scale: 1.5}}
  three_way: {class_type: SamplerCustomAdvanced, inputs: {noise: [none, 0], guider: [guider, 0], sampler: [euler, 0], sigmas: [steps, 0], latent_image: [start, 0]}}
END
}
all="most: 1.2, smooth: 0.4, churn: 0.1, seed: 11, keep: [keep, 0]"
{
    begin; three_way; golden three_way
    tiled whole "tile: 64, seed: 7"; golden whole
    tiled tiles "seed: 7"; golden tiles
    tiled all "$all"; golden all
} >"$work/all.yaml"
input="$tiles"
run all "$work/all.yaml" --no-cache; verdict runs $?
for name in three_way whole tiles all; do as_golden $name all; done

# ---- looked at without running, and taken up again after a kill
{ begin; tiled whole "tile: 64, seed: 7"; tiled all "$all"; echo "  dump: {class_type: TestDump, inputs: {samples: [all, 0]}}"; } >"$work/dump.yaml"
run dry "$work/dump.yaml" --no-cache --dry-run && ! [ -e "$work/dry/samples_00001_.f32" ]; verdict a_dry_run_runs_nothing $?
run explained "$work/dump.yaml" --no-cache --explain && grep -q '^all ' "$work/explained.txt"; verdict is_explained $?
long() {
    begin
    echo '  large: {class_type: EmptyLatentImage, inputs: {width: 384, height: 384, batch_size: 1}}'
    echo '  levels: {class_type: BasicScheduler, inputs: {model: [model, 0], scheduler: normal, steps: 30, denoise: 1.0}}'
    echo "  long: {class_type: ExampleTiledSampler, inputs: {model: [model, 0], positive: [full, 0], negative: [empty, 0], sigmas: [levels, 0], latent_image: [large, 0], tile: 16, overlap: 4, churn: 0.1, smooth: 0.3, seed: 3}}"
    echo '  dump: {class_type: TestDump, inputs: {samples: [long, 0]}}'
}
long >"$work/long.yaml"
input="$tiles" resumes_after_a_kill "$work/long.yaml"; verdict resumes_after_a_kill $?

# ---- bad use
{ begin; tiled all "keep: [image_mask, 0]"; echo '  picture: {class_type: EmptyImage, inputs: {width: 8, height: 8, batch_size: 1}}'; echo '  image_mask: {class_type: ImageToMask, inputs: {image: [picture, 0], channel: red}}'; echo "  dump: {class_type: TestDump, inputs: {samples: [all, 0]}}"; } >"$work/keep.yaml"
run keep "$work/keep.yaml" --no-cache; [ $? -ne 0 ] && grep -q "'all' (ExampleTiledSampler).*keep is a mask of 8x8, the latent has 14x9 cells" "$work/keep.txt"; verdict a_mask_of_another_size_is_refused $?
exit $status
