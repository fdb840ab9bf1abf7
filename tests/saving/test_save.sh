# test_save.sh - models that are saved and loaded again draw the same bytes: with a LoRA in them, merged, averaged, SDXL's two encoders and
# the refiner's one; names, markers and metadata are those of single files; what cannot be saved is said; a full disk leaves nothing.
. "$KILN_ROOT/tests/cli/head.sh"
export XDG_CACHE_HOME="$work/cache"
. "$KILN_ROOT/tests/models/single_model.sh"
compare="$KILN_ROOT/tests/saving/compare_tensors.py"
m="$work/m"
mkdir -p "$m/checkpoints" "$m/loras"
for each in shapes-sd1 shapes-xl shapes-xl-refiner; do ln -s "$PWD/workflows/models/$each" "$m/checkpoints/$each"; done
for each in tiny-sd1 tiny-sd2-text; do ln -s "$PWD/tests/golden/$each" "$m/checkpoints/$each"; done
ln -s "$PWD/workflows/models/loras/shapes-night.safetensors" "$m/loras/"
ln -s "$work/saved/checkpoints" "$m/checkpoints/saved"
mkdir -p "$work/saved/checkpoints"

# picture MODEL CLIP VAE: nodes that draw
picture() {
    cat <<END
  positive: {class_type: CLIPTextEncode, inputs: {clip: $2, text: a red circle}}
  negative: {class_type: CLIPTextEncode, inputs: {clip: $2, text: blue}}
  empty: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  sampler:
    class_type: KSampler
    inputs: {model: $1, positive: [positive, 0], negative: [negative, 0], latent_image: [empty, 0], seed: 3, steps: 2, cfg: 3.0, sampler_name: euler, scheduler: normal}
  decode: {class_type: VAEDecode, inputs: {samples: [sampler, 0], vae: $3}}
  picture: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: p}}
END
}
run() { local out=$1; shift; "$kiln" run "$@" --models "$m" --no-cache --precision f32 --out "$work/$out" >"$work/stdout" 2>"$work/log"; }

# round NAME "NODES" MODEL CLIP VAE [INPUTS OF CheckpointSave]: it draws; saved and loaded again it draws the same
round() {
    { echo "nodes:"; echo "$2"; picture "$3" "$4" "$5"
      echo "  save: {class_type: CheckpointSave, inputs: {model: $3, clip: $4, vae: $5, filename_prefix: checkpoints/$1${6:+, $6}}}"; } >"$work/one.yaml"
    { echo "nodes:"; echo "  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: saved/$1_00001_.safetensors}}"
      picture "[model, 0]" "[model, 1]" "[model, 2]"; } >"$work/two.yaml"
    rm -rf "$work/a" "$work/b"
    run saved "$work/one.yaml" && mkdir "$work/a" && mv "$work"/saved/p_*.png "$work/a/" && run b "$work/two.yaml"
    if [ ! -s "$work/b/p_00001_.png" ]; then bad "$1_draws_the_same" "$(tail -n 2 "$work/log")"; return; fi
    same "$1_draws_the_same" "$(pixels "$work/b/p_00001_.png")" "$(pixels "$work/a/p_00001_.png")"
    if grep -q warning "$work/log"; then bad "$1_loads_quietly" "$(grep warning "$work/log")"; else ok "$1_loads_quietly"; fi
}
sd1="  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}"
lora="$sd1
  lora: {class_type: LoraLoader, inputs: {model: [model, MODEL], clip: [model, CLIP], lora_name: shapes-night.safetensors, strength_model: 0.8, strength_clip: 0.7}}"
round lora "$lora" "[lora, 0]" "[lora, 1]" "[model, 2]"
round merged "$lora
  mixed: {class_type: ModelMergeSimple, inputs: {model1: [model, MODEL], model2: [lora, MODEL], ratio: 0.3}}
  text: {class_type: CLIPMergeSimple, inputs: {clip1: [model, CLIP], clip2: [lora, CLIP], ratio: 0.3}}" "[mixed, 0]" "[text, 0]" "[model, 2]"
round xl "  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-xl}}" "[model, 0]" "[model, 1]" "[model, 2]"
round refiner "  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-xl-refiner}}" "[model, 0]" "[model, 1]" "[model, 2]"
round v_pred "$sd1
  v: {class_type: ModelSamplingDiscrete, inputs: {model: [model, MODEL], sampling: v_prediction, zsnr: true}}" "[v, 0]" "[model, 1]" "[model, 2]"
round edm "$sd1
  v: {class_type: ModelSamplingContinuousEDM, inputs: {model: [model, MODEL], sampling: v_prediction, sigma_max: 100.0, sigma_min: 0.25}}" "[v, 0]" "[model, 1]" "[model, 2]"

# what inspect says of the networks is what it said of the folder
about() { "$kiln" inspect "$1" | sed -n '/^[a-z ]*:/,$p' | grep -v '^  parameters\|^metadata' | sed '/^  clip_/d; /^  [a-z_.]*: /d'; }
same the_same_by_inspect "$(about "$m/checkpoints/saved/xl_00001_.safetensors" | head -n 20)" "$(about "$m/checkpoints/shapes-xl" | head -n 20)"
names() { python3 "$compare" --names "$1" | cut -d' ' -f1; }
same markers_of_v_prediction "$(names "$m/checkpoints/saved/v_pred_00001_.safetensors" | grep -cx 'v_pred\|ztsnr')" 2
same markers_of_edm "$(names "$m/checkpoints/saved/edm_00001_.safetensors" | grep -cx 'edm_vpred.sigma_max\|edm_vpred.sigma_min')" 2
same no_markers_without "$(names "$m/checkpoints/saved/xl_00001_.safetensors" | grep -c '^[ve][_d]')" 0
same sdxl_is_told "$(python3 "$compare" --metadata "$m/checkpoints/saved/xl_00001_.safetensors" | tr ' ' '\n' | grep -c 'modelspec.architecture\|modelspec.sai_model_spec\|modelspec.predict_key')" 3

# ---- a file of the original names comes back tensor by tensor; averages are in the place of the last weights
make_single "$m/checkpoints/whole.safetensors"
python3 "$KILN_ROOT/tests/models/edit_tensors.py" "$m/checkpoints/whole.safetensors" "$m/checkpoints/ema.safetensors" ema
python3 "$KILN_ROOT/tests/models/edit_tensors.py" "$m/checkpoints/whole.safetensors" "$m/checkpoints/averaged.safetensors" averaged
again() { # NAME FILE EMA [DTYPE]
    cat >"$work/again.yaml" <<END
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: $2, ema: $3}}
  save: {class_type: CheckpointSave, inputs: {model: [model, 0], clip: [model, 1], vae: [model, 2], filename_prefix: checkpoints/$1, dtype: ${4:-default}}}
END
    run saved "$work/again.yaml"
}
again whole whole.safetensors false
check the_same_tensors python3 "$compare" "$m/checkpoints/whole.safetensors" "$work/saved/checkpoints/whole_00001_.safetensors"
again ema ema.safetensors true
check averages_are_saved python3 "$compare" "$m/checkpoints/averaged.safetensors" "$work/saved/checkpoints/ema_00001_.safetensors"
again half whole.safetensors false bf16
same a_type_by_choice "$(python3 "$compare" --names "$work/saved/checkpoints/half_00001_.safetensors" | cut -d' ' -f2 | sort -u)" BF16
again whole whole.safetensors false
check the_next_number test -s "$work/saved/checkpoints/whole_00002_.safetensors"
check the_same_bytes cmp "$work/saved/checkpoints/whole_00001_.safetensors" "$work/saved/checkpoints/whole_00002_.safetensors"
same released_sizes_need_no_config "$(python3 "$compare" --metadata "$work/saved/checkpoints/whole_00001_.safetensors")" "${single_texts:-format modelspec.predict_key modelspec.prediction_type modelspec.title}"

# ---- parts by themselves
cat >"$work/parts.yaml" <<'END'
nodes:
  xl: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-xl}}
  sd2: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd2-text}}
  sd1: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  one: {class_type: CLIPSave, inputs: {clip: [xl, CLIP]}}
  two: {class_type: CLIPSave, inputs: {clip: [sd2, CLIP]}}
  three: {class_type: VAESave, inputs: {vae: [xl, VAE]}}
  four: {class_type: ModelSave, inputs: {model: [xl, MODEL]}}
  five: {class_type: CheckpointSave, inputs: {model: [sd1, MODEL], clip: [sd2, CLIP], vae: [sd1, VAE], filename_prefix: checkpoints/sd2}}
END
run saved "$work/parts.yaml"
same files_of_parts "$(cd "$work/saved" && find clip vae diffusion_models -type f | sort | tr '\n' ' ')" \
    "clip/ComfyUI_clip_g_00001_.safetensors clip/ComfyUI_clip_h_00001_.safetensors clip/ComfyUI_clip_l_00001_.safetensors diffusion_models/ComfyUI_00001_.safetensors vae/ComfyUI_vae_00001_.safetensors "
for each in clip vae diffusion_models; do ln -s "$work/saved/$each" "$m/$each"; done
cat >"$work/load.yaml" <<END
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: ComfyUI_00001_.safetensors}}
  clip: {class_type: DualCLIPLoader, inputs: {clip_name1: ComfyUI_clip_g_00001_.safetensors, clip_name2: ComfyUI_clip_l_00001_.safetensors, type: sdxl}}
  vae: {class_type: VAELoader, inputs: {vae_name: ComfyUI_vae_00001_.safetensors}}
$(picture "[model, 0]" "[clip, 0]" "[vae, 0]")
END
cat >"$work/whole.yaml" <<END
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-xl}}
$(picture "[model, 0]" "[model, 1]" "[model, 2]")
END
run c "$work/load.yaml"; run d "$work/whole.yaml"
same parts_draw_the_same "$(pixels "$work/c/p_00001_.png")" "$(pixels "$work/d/p_00001_.png")"
cat >"$work/sd2.yaml" <<'END'
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: saved/sd2_00001_.safetensors}}
  alone: {class_type: CLIPLoader, inputs: {clip_name: ComfyUI_clip_h_00001_.safetensors, type: stable_diffusion}}
  one: {class_type: CLIPSave, inputs: {clip: [model, CLIP], filename_prefix: clip/again}}
  two: {class_type: CLIPSave, inputs: {clip: [alone, CLIP], filename_prefix: clip/alone}}
END
run saved "$work/sd2.yaml"
check sd2_out_of_a_checkpoint python3 "$compare" "$work/saved/clip/ComfyUI_clip_h_00001_.safetensors" "$work/saved/clip/again_clip_h_00001_.safetensors"
check sd2_alone python3 "$compare" "$work/saved/clip/ComfyUI_clip_h_00001_.safetensors" "$work/saved/clip/alone_clip_h_00001_.safetensors"
layers() { "$kiln" inspect "$1" | grep 'encoder h'; }
same sd2_reads_the_same_layer "$(layers "$work/saved/checkpoints/sd2_00001_.safetensors")" "$(layers tests/golden/tiny-sd2-text)"

# ---- TAESD: both halves with their scale in one file, as VAESave's and in a checkpoint; the same pixels from each
for each in taesdxl taesd3; do
    ln -s "$PWD/tests/golden/tiny-vaes/$each" "$work/saved/vae/$each"
    channels=4; [ "$each" = taesd3 ] && channels=16
    tae() { # NAME "MODEL NODES": encodes and decodes
        cat >"$work/tae.yaml" <<END
nodes:
$2
  image: {class_type: LoadImage, inputs: {image: $PWD/workflows/pictures/shapes.png}}
  small: {class_type: ImageScale, inputs: {image: [image, 0], upscale_method: bilinear, width: 64, height: 48, crop: disabled}}
  encode: {class_type: VAEEncode, inputs: {pixels: [small, 0], vae: [vae, VAE]}}
  decode: {class_type: VAEDecode, inputs: {samples: [encode, 0], vae: [vae, VAE]}}
  picture: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: $1}}
END
        run saved "$work/tae.yaml"
    }
    tae "$each-a" "  vae: {class_type: VAELoader, inputs: {vae_name: $each}}
  sd1: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  alone: {class_type: VAESave, inputs: {vae: [vae, VAE], filename_prefix: vae/plain-$each}}
  whole: {class_type: CheckpointSave, inputs: {model: [sd1, MODEL], clip: [sd1, CLIP], vae: [vae, VAE], filename_prefix: checkpoints/with-$each}}"
    mv "$work/saved/vae/plain-${each}_00001_.safetensors" "$work/saved/vae/small-$channels.safetensors" # a name that says nothing
    check "${each}_draws" test -s "$work/saved/$each-a_00001_.png"
    tae "$each-b" "  vae: {class_type: VAELoader, inputs: {vae_name: small-$channels.safetensors}}"
    same "${each}_alone_is_the_same" "$(pixels "$work/saved/$each-b_00001_.png")" "$(pixels "$work/saved/$each-a_00001_.png")"
    tae "$each-c" "  vae: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: saved/with-${each}_00001_.safetensors}}"
    same "${each}_in_a_checkpoint_is_the_same" "$(pixels "$work/saved/$each-c_00001_.png")" "$(pixels "$work/saved/$each-a_00001_.png")"
    same "${each}_names" "$(names "$work/saved/vae/small-$channels.safetensors" | grep -c '^taesd_decoder.1.weight$\|^taesd_decoder.19.bias$\|^taesd_encoder.0.weight$\|^vae_scale$\|^vae_shift$')" 5
done

# ---- a family from outside says how it is saved, and one that does not is refused
mkdir -p "$work/plugins"
cc -std=c11 -O1 -fPIC -fvisibility=hidden -Iinclude -shared plugins/examples/dit.c -o "$work/plugins/dit.so" -lm && chmod go-w "$work/plugins" "$work/plugins/dit.so"
ln -s "$PWD/tests/golden/tiny-dit.safetensors" "$work/saved/diffusion_models/tiny-dit.safetensors"
printf 'nodes:\n  model: {class_type: UNETLoader, inputs: {unet_name: tiny-dit.safetensors}}\n  save: {class_type: ModelSave, inputs: {model: [model, MODEL], filename_prefix: dit}}\n' >"$work/dit.yaml"
run saved "$work/dit.yaml" --plugins "$work/plugins"; verdict a_family_from_outside_is_saved $?
check with_the_same_tensors python3 "$compare" tests/golden/tiny-dit.safetensors "$work/saved/dit_00001_.safetensors"
same and_its_heads "$("$kiln" inspect "$work/saved/dit_00001_.safetensors" --plugins "$work/plugins" | grep -c '^denoiser: .*complete')" 1
sed 's/ d->denoiser.save = save;/ (void)save;/' plugins/examples/dit.c >"$work/silent.c"
cc -std=c11 -O1 -fPIC -fvisibility=hidden -Iinclude -shared "$work/silent.c" -o "$work/plugins/dit.so" -lm && chmod go-w "$work/plugins/dit.so"
expect_in="log"
expect one_that_says_nothing_is_refused 1 "a denoiser of the family 'example-dit/" "$kiln" run "$work/dit.yaml" --models "$m" --plugins "$work/plugins" --out "$work/no"

# ---- what cannot be saved, and what is said
cat >"$work/odd.yaml" <<'END'
nodes:
  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: shapes-sd1}}
  odd: {class_type: ModelSamplingDiscrete, inputs: {model: [model, MODEL], sampling: x0}}
  free: {class_type: FreeU, inputs: {model: [odd, MODEL]}}
  save: {class_type: ModelSave, inputs: {model: [free, MODEL], filename_prefix: odd}}
END
expect_in="log"
expect sampling_that_has_no_place 0 "has no place in the file; what is saved counts as it did when it was loaded" "$kiln" run "$work/odd.yaml" --models "$m" --out "$work/odd"
expect hooks_are_not_saved 0 "what nodes do to this MODEL beside them" "$kiln" run "$work/odd.yaml" --models "$m" --out "$work/odd"
expect a_name_that_leads_outside 2 "holds '..'" "$kiln" run "$work/odd.yaml" --models "$m" --out "$work/odd" --set save.filename_prefix=../x
mkdir -p "$work/full"
(ulimit -f 2000; trap '' XFSZ; "$kiln" run "$work/parts.yaml" --models "$m" --out "$work/full" >"$work/stdout" 2>"$work/log"); [ $? -eq 3 ] && grep -q 'cannot write diffusion_models/ComfyUI: File too large' "$work/log" && [ ! -e "$work/full/diffusion_models/ComfyUI_00001_.safetensors" ] && [ -z "$(find "$work/full" -name '.kiln*')" ]
verdict a_full_disk_leaves_nothing $?
expect estimates_write_nothing 0 "" "$kiln" run "$work/parts.yaml" --models "$m" --out "$work/none" --dry-run
check nothing_was_written test ! -e "$work/none/clip"
exit $status
