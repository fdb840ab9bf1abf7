#!/usr/bin/env bash
# A batch of masks on a conditioning, on the emulated CUDA device: each of two pictures has its own mask, as on the processor within 1/255, and the
# masks matter. The guesses are blended on the device too.
set -u
cd "$KILN_ROOT" || exit 2
kiln=$KILN_BUILD/kiln
emu=$(realpath "$KILN_BUILD/emu/kiln-cuda-emu.so")
[ -e "$emu" ] || { echo "skip mask_batch: no emulation in this build"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
say() { if [ "$2" = 0 ]; then echo "ok $1"; else echo "FAIL $1"; status=1; fi; }

workflow() { # MASK
    cat <<END
kiln: 1
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a red circle}}
  there: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: a green star}}
  left: {class_type: SolidMask, inputs: {value: 1.0, width: 32, height: 64}}
  none: {class_type: SolidMask, inputs: {value: 0.0, width: 64, height: 64}}
  first: {class_type: MaskComposite, inputs: {destination: [none, 0], source: [left, 0], x: 0, y: 0, operation: add}}
  second: {class_type: InvertMask, inputs: {mask: [first, 0]}}
  first_image: {class_type: MaskToImage, inputs: {mask: [first, 0]}}
  second_image: {class_type: MaskToImage, inputs: {mask: [second, 0]}}
  pair_image: {class_type: ImageBatch, inputs: {image1: [first_image, 0], image2: [second_image, 0]}}
  pair: {class_type: ImageToMask, inputs: {image: [pair_image, 0], channel: red}}
  masked: {class_type: ConditioningSetMask, inputs: {conditioning: [there, 0], mask: [$1, 0], strength: 3.0, set_cond_area: default}}
  both: {class_type: ConditioningCombine, inputs: {conditioning_1: [yes, 0], conditioning_2: [masked, 0]}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64, batch_size: 2}}
  sampler:
    class_type: KSampler
    inputs: {model: [model, MODEL], positive: [both, 0], negative: [yes, 0], latent_image: [empty, 0], seed: 3,
             steps: 2, cfg: 2.0, sampler_name: euler, scheduler: simple}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: [model, VAE]}}
  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
draw() { # NAME MASK ARG ...
    workflow "$2" >"$work/$1.yaml"
    "$kiln" run "$work/$1.yaml" --quiet --no-cache --models tests/golden --precision f32 --out "$work/$1" "${@:3}" \
        >"$work/$1.out" 2>"$work/$1.err" || { cat "$work/$1.err"; return 1; }
}
far() { KILN_CUDA_LIBRARY=$emu KILN_EMU_REPORT=$work/$1.report draw "$@" --device cuda; }
same() { awk -v d="$(differ "$1" "$2")" 'BEGIN { exit !(d != "" && d == 0) }'; }
differ() { "$KILN_BUILD/tests/judge/judge" --difference "$work/$1" "$work/$2"; }

draw near pair --device cpu && far pair pair && far first first && far second second
say both_devices_draw $?
grep -q '^faults 0 kernel_faults 0 library_faults 0 ' "$work/pair.report"
say nothing_that_a_device_forbids $?
for k in 1 2; do
    d=$(differ "near/p_0000${k}_.png" "pair/p_0000${k}_.png")
    awk -v d="$d" 'BEGIN { exit !(d != "" && d <= 1) }'
    say "picture_${k}_is_the_processors" $?
done
same pair/p_00001_.png first/p_00001_.png
say the_first_picture_has_the_first_mask $?
same pair/p_00002_.png second/p_00002_.png
say the_second_picture_has_the_second_mask $?
d=$(differ first/p_00002_.png second/p_00002_.png)
echo "# mean difference of a picture with the one and the other mask: $d of 255"
awk -v d="$d" 'BEGIN { exit !(d > 1) }'
say the_masks_matter $?
exit $status
