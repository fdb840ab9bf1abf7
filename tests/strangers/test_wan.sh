# test_wan.sh - a stranger brings Wan 2.1 (wan/): a UMT5 text encoder with its tokenizer, a transformer over latents of five dimensions, a second attention to
# a picture's tokens, an autoencoder that is causal in time and goes through a video in parts. Built against an installed kiln and nothing else, and held
# against diffusers and transformers: f32 1e-5 of the largest value, bf16 2e-2.
here="$KILN_ROOT/tests/strangers/wan" input="$KILN_ROOT/tests/strangers/wan"
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build wan.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/wan.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?
"$kiln" check-plugin "$work/plugins/wan.so" >"$work/check.txt" 2>&1; result=$?; [ $result -eq 0 ] || tail -n 5 "$work/check.txt"; verdict check_plugin_passes $result

# ---- what is computed
begin() {
    cat <<END
kiln: 1
nodes:
  clip: {class_type: CLIPLoader, inputs: {clip_name: umt5.safetensors, type: wan}}
  model: {class_type: UNETLoader, inputs: {unet_name: wan.safetensors}}
  vae: {class_type: VAELoader, inputs: {vae_name: wan.safetensors}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: "a small red fox runs through deep snow under the old pine trees, and the low sun is behind it"}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: "blurred,  still\n picture"}}
  empty: {class_type: ExampleWanEmptyVideo, inputs: {width: 48, height: 32, length: 9}}
  small: {class_type: TestImage, inputs: {file: goldens.safetensors, name: pixels}}
  pixels: {class_type: ImageScale, inputs: {image: [small, 0], upscale_method: nearest-exact, width: 48, height: 32, crop: disabled}}
END
}
sample() { # NAME MODEL LATENT SEED STEPS CFG [POSITIVE NEGATIVE]
    echo "  $1: {class_type: KSampler, inputs: {model: [$2, 0], positive: ${7:-[yes, 0]}, negative: ${8:-[no, 0]}, latent_image: $3, seed: $4, steps: $5, cfg: $6, sampler_name: euler, scheduler: simple}}"
}
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [${2:-$1}, 0], file: goldens.safetensors, name: golden.$1}}"; }
few_pixels() { echo "  $1: {class_type: ImageScale, inputs: {image: [$2, 0], upscale_method: nearest-exact, width: 12, height: 8, crop: disabled}}"; }
text_cases() {
    echo "  long: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: \"$(printf 'fox snow %.0s' $(seq 300))\"}}"
    golden tokens yes; golden long
}
sampling_cases() {
    sample one model "[empty, 0]" 5 1 1.0; golden one
    sample whole model "[empty, 0]" 5 4 5.0; golden whole
    echo "  with_lora: {class_type: LoraLoaderModelOnly, inputs: {model: [model, 0], lora_name: wan.safetensors, strength_model: 0.8}}"; sample lora with_lora "[empty, 0]" 5 1 1.0; golden lora
    echo "  shift: {class_type: ModelSamplingSD3, inputs: {model: [model, 0], shift: 3.0}}"; sample shifted shift "[empty, 0]" 5 4 5.0; golden shifted
    echo "  two: {class_type: ExampleWanEmptyVideo, inputs: {width: 32, height: 32, length: 5, batch_size: 2}}"; sample batch model "[two, 0]" 6 3 5.0; golden batch
    echo "  frames: {class_type: VAEDecode, inputs: {samples: [whole, 0], vae: [vae, 0]}}"; few_pixels video frames; golden video
}
video_cases() {
    echo "  encoded: {class_type: VAEEncode, inputs: {pixels: [pixels, 0], vae: [vae, 0]}}"; golden encoded
    echo "  images: {class_type: VAEDecode, inputs: {samples: [encoded, 0], vae: [vae, 0]}}"; few_pixels decoded images; golden decoded
    echo "  trip: {class_type: TestRoundTrip, inputs: {pixels: [pixels, 0], vae: [vae, 0]}}"
    echo "  bytes_trip: {class_type: TestBytes, inputs: {name: trip, value: [trip, 0]}}"
    echo "  bytes_to_there: {class_type: TestBytes, inputs: {name: to_there, value: [encoded, 0]}}"
    echo "  bytes_from_there: {class_type: TestBytes, inputs: {name: from_there, value: [images, 0]}}"
    for cells in 0 1 2; do # all at once, and in parts
        echo "  vae_$cells: {class_type: ExampleWanParts, inputs: {vae: [vae, 0], cells: $cells}}"
        echo "  to_$cells: {class_type: VAEEncode, inputs: {pixels: [pixels, 0], vae: [vae_$cells, 0]}}"
        echo "  from_$cells: {class_type: VAEDecode, inputs: {samples: [encoded, 0], vae: [vae_$cells, 0]}}"
        echo "  bytes_to_$cells: {class_type: TestBytes, inputs: {name: to_$cells, value: [to_$cells, 0]}}"
        echo "  bytes_from_$cells: {class_type: TestBytes, inputs: {name: from_$cells, value: [from_$cells, 0]}}"
    done
}
# what is given: the first frame, encoded before grey ones, and what CLIP sees in a picture
image_cases() {
    cat <<END
  i2v_model: {class_type: UNETLoader, inputs: {unet_name: wan_i2v.safetensors}}
  clip_vision: {class_type: CLIPVisionLoader, inputs: {clip_name: tiny}}
  face: {class_type: TestImage, inputs: {file: goldens.safetensors, name: face}}
  seen: {class_type: CLIPVisionEncode, inputs: {clip_vision: [clip_vision, 0], image: [face, 0]}}
  start: {class_type: ImageFromBatch, inputs: {image: [pixels, 0], batch_index: 0, length: 1}}
  with: {class_type: ExampleWanImageToVideo, inputs: {positive: [yes, 0], negative: [no, 0], vae: [vae, 0], start_image: [start, 0], length: 9, clip_vision_output: [seen, 0]}}
  with_two: {class_type: ExampleWanImageToVideo, inputs: {positive: [yes, 0], negative: [no, 0], vae: [vae, 0], start_image: [start, 0], length: 9, clip_vision_output: [seen, 0], batch_size: 2}}
END
    sample i2v i2v_model "[with, 2]" 7 4 5.0 "[with, 0]" "[with, 1]"; golden i2v
    sample i2v_two i2v_model "[with_two, 2]" 8 2 1.0 "[with_two, 0]" "[with_two, 1]"; golden i2v_two
}
{ begin; text_cases; sampling_cases; video_cases; image_cases; } >"$work/all.yaml"
run all "$work/all.yaml" --no-cache; verdict runs $?
for name in tokens long one whole lora shifted batch video encoded decoded i2v i2v_two; do as_golden $name all; done
! grep -q 'is not used by any network' "$work/all.txt"; verdict every_weight_is_asked_for $?
same() { cmp "$work/all/$1_00001_.f32" "$work/all/$2_00001_.f32"; }
same from_0 from_1 && same from_0 from_2 && same from_0 from_there; verdict decoded_in_parts_it_is_the_same $?
same from_there trip; verdict a_node_encodes_and_decodes_as_vaes_nodes_do $?
same to_0 to_1 && same to_0 to_2 && same to_0 to_there; verdict encoded_in_parts_it_is_the_same $?

# ---- the same file under diffusers' names, bf16
cat >"$work/names.yaml" <<END
$(begin)
  other_vae: {class_type: VAELoader, inputs: {vae_name: wan_diffusers.safetensors}}
  encoded: {class_type: VAEEncode, inputs: {pixels: [pixels, 0], vae: [other_vae, 0]}}
  images: {class_type: VAEDecode, inputs: {samples: [encoded, 0], vae: [other_vae, 0]}}
  bytes_to: {class_type: TestBytes, inputs: {name: to_there, value: [encoded, 0]}}
  bytes_from: {class_type: TestBytes, inputs: {name: from_there, value: [images, 0]}}
END
run names "$work/names.yaml" --no-cache && cmp "$work/all/to_there_00001_.f32" "$work/names/to_there_00001_.f32" && cmp "$work/all/from_there_00001_.f32" "$work/names/from_there_00001_.f32"
verdict diffusers_names_are_the_same_autoencoder $?
! grep -q 'is not used by any network' "$work/names.txt"; verdict and_none_of_them_is_left_over $?

# ---- saved under the release's names and opened again
printf 'kiln: 1\nnodes:\n  i2v_model: {class_type: UNETLoader, inputs: {unet_name: wan_i2v.safetensors}}\n  vae: {class_type: VAELoader, inputs: {vae_name: wan_diffusers.safetensors}}\n' >"$work/save.yaml"
echo '  save_model: {class_type: ModelSave, inputs: {model: [i2v_model, 0], filename_prefix: diffusion_models/wan}}
  save_vae: {class_type: VAESave, inputs: {vae: [vae, 0], filename_prefix: vae/wan}}' >>"$work/save.yaml"
run saved "$work/save.yaml" --no-cache; verdict is_saved $?
listed() { "$kiln" inspect --tensors "$1" --plugins "$work/plugins" | grep -E '(encoder|decoder|conv[12])\.' | sort; } # type, shape, name
listed "$work/saved/vae/wan_00001_.safetensors" >"$work/saved_names"; listed "$here/models/vae/wan.safetensors" >"$work/release_names"
[ -s "$work/release_names" ] && cmp "$work/saved_names" "$work/release_names"; verdict under_the_names_and_shapes_of_the_release $?
mkdir -p "$work/again"; cp -r "$here/models/." "$work/again"; cp "$work/saved/vae/wan_00001_.safetensors" "$work/again/vae/wan.safetensors"
cp "$work/saved/diffusion_models/wan_00001_.safetensors" "$work/again/diffusion_models/wan_i2v.safetensors"
{ begin; video_cases; image_cases; } | grep -vE '(to|from)_[012]|i2v:|i2v_two' >"$work/again.yaml"
{ echo "  encoded_again: {class_type: TestGolden, inputs: {value: [encoded, 0], file: goldens.safetensors, name: golden.encoded}}"; sample i2v i2v_model "[with, 2]" 7 4 5.0 "[with, 0]" "[with, 1]"; golden i2v; } >>"$work/again.yaml"
models="$work/again" run again "$work/again.yaml" --no-cache; as_golden i2v_again again i2v; as_golden encoded_again again encoded
"$kiln" run "$work/all.yaml" --no-cache --precision bf16 --plugins "$work/plugins" --models "$here/models" --input "$here" --out "$work/bf16" >"$work/bf16.txt" 2>&1
for name in tokens one whole batch video encoded decoded i2v; do
    error=$(sed -n "s/^golden golden\.$name //p" "$work/bf16.txt")
    awk -v e="${error:-none}" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= 2e-2) }'; result=$?
    echo "# ${name}_bf16: ${error:-not compared}"; verdict "${name}_bf16" $result
done

# ---- looked at without running, the same bytes for any number of threads, taken up again after a kill
cat >"$work/many.yaml" <<END
$(begin)
  many: {class_type: ExampleWanEmptyVideo, inputs: {width: 48, height: 32, length: 81}}
  at_once: {class_type: ExampleWanParts, inputs: {vae: [vae, 0], cells: 0}}
  one: {class_type: ExampleWanParts, inputs: {vae: [vae, 0], cells: 1}}
  whole: {class_type: VAEDecode, inputs: {samples: [many, 0], vae: [at_once, 0]}}
  parts: {class_type: VAEDecode, inputs: {samples: [many, 0], vae: [one, 0]}}
  a: {class_type: TestBytes, inputs: {name: a, value: [whole, 0]}}
  b: {class_type: TestBytes, inputs: {name: b, value: [parts, 0]}}
END
run dry "$work/all.yaml" --no-cache --dry-run && ! grep -q '^golden golden' "$work/dry.txt"; verdict a_dry_run_runs_nothing $?
run explained "$work/many.yaml" --no-cache --explain
activations() { awk -v n="$1" '$1 == n { print $6 * ($7 == "MB" ? 1000 : 1) }' "$work/explained.txt"; } # kB
echo "# activations of 81 frames: $(activations whole) kB at once, $(activations parts) kB in parts"
awk -v whole="$(activations whole)" -v parts="$(activations parts)" 'BEGIN { exit !(parts > 0 && whole > 5 * parts) }'; verdict parts_take_less_memory $?
cat >"$work/less.yaml" <<END
kiln: 1
nodes:
  vae: {class_type: VAELoader, inputs: {vae_name: wan.safetensors}}
  many: {class_type: ExampleWanEmptyVideo, inputs: {width: 96, height: 64, length: 33}}
  eight: {class_type: ExampleWanParts, inputs: {vae: [vae, 0], cells: 8}}
  frames: {class_type: VAEDecode, inputs: {samples: [many, 0], vae: [eight, 0]}}
  bytes: {class_type: TestBytes, inputs: {name: frames, value: [frames, 0]}}
END
for memory in 60M 12M; do run "memory_$memory" "$work/less.yaml" --no-cache --memory $memory; done
! grep -q 'does not fit' "$work/memory_60M.txt" && grep -q "node 'frames' (VAEDecode): a video of 96x64 pixels does not fit .* decoded in parts of 4 frames" "$work/memory_12M.txt"; verdict shorter_parts_where_memory_is_short $?
cmp "$work/memory_60M/frames_00001_.f32" "$work/memory_12M/frames_00001_.f32"; verdict of_the_same_bytes $?
! run memory_5M "$work/less.yaml" --no-cache --memory 5M && grep -qE "'vae decode( later)?' needs [0-9.]+ MB at least" "$work/memory_5M.txt" && [ "$(sed -n 's/.* needs \([0-9]*\)[0-9.]* MB at least.*/\1/p' "$work/memory_5M.txt" | head -n 1)" -lt 12 ]; verdict and_says_what_the_shortest_need $?
{ begin; sample whole model "[empty, 0]" 5 4 5.0; echo '  dump: {class_type: TestDump, inputs: {samples: [whole, 0]}}'
  sample latents model "[empty, 0]" 6 1 1.0; echo '  frames: {class_type: VAEDecode, inputs: {samples: [latents, 0], vae: [vae, 0]}}'
  echo '  bytes: {class_type: TestBytes, inputs: {name: frames, value: [frames, 0]}}'; } >"$work/dump.yaml"
run one_thread "$work/dump.yaml" --no-cache --threads 1; run four_threads "$work/dump.yaml" --no-cache --threads 4
cmp "$work/one_thread/samples_00001_.f32" "$work/four_threads/samples_00001_.f32" && cmp "$work/one_thread/frames_00001_.f32" "$work/four_threads/frames_00001_.f32"
verdict the_same_bytes_for_any_threads $?
{ begin; sample long model "[empty, 0]" 5 300 1.0; echo '  dump: {class_type: TestDump, inputs: {samples: [long, 0]}}'; } >"$work/long.yaml"
resumes_after_a_kill "$work/long.yaml"; verdict killed_it_goes_on $?

# ---- on a device, where there is an emulated one
{ begin; echo "  short: {class_type: ExampleWanEmptyVideo, inputs: {width: 32, height: 32, length: 5, batch_size: 2}}"; golden tokens yes
  sample one model "[empty, 0]" 5 1 1.0; golden one
  echo "  encoded: {class_type: VAEEncode, inputs: {pixels: [pixels, 0], vae: [vae, 0]}}"; golden encoded
  echo "  images: {class_type: VAEDecode, inputs: {samples: [encoded, 0], vae: [vae, 0]}}"; few_pixels decoded images; golden decoded; } >"$work/device.yaml"
on_device device "$work/device.yaml" && for name in tokens one encoded decoded; do as_golden "${name}_on_the_device" device $name; done

# ---- bad use
asked() { # NAME WORDS STATUS <LINES: a workflow with these nodes is refused with these words; 2: before anything runs
    { begin; cat; } >"$work/$1.yaml"
    refused "$1" "$work/$1.yaml" "$3" "$2"
}
asked a_number_of_frames_that_no_video_has "node 'x' \(ExampleWanEmptyVideo\): .*length is 10, and a video of Wan has 4 n \+ 1 frames; make it 9 or 13" 2 <<END
  x: {class_type: ExampleWanEmptyVideo, inputs: {width: 48, height: 32, length: 10}}
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END
asked sizes_that_do_not_divide "node 'x' \(ExampleWanEmptyVideo\): .*width and height are 40x32; .* make them multiples of 16" 2 <<END
  x: {class_type: ExampleWanEmptyVideo, inputs: {width: 40, height: 32, length: 9}}
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END
asked half_a_patch "node 'x' \(KSampler\): the model takes latents in patches of 2x2 cells" 1 <<END
  narrow: {class_type: ImageScale, inputs: {image: [small, 0], upscale_method: nearest-exact, width: 40, height: 32, crop: disabled}}
  cells: {class_type: VAEEncode, inputs: {pixels: [narrow, 0], vae: [vae, 0]}}
$(sample x model "[cells, 0]" 1 1 1.0)
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END
asked a_picture_is_no_video "node 'x' \(KSampler\): the latent has 4 dimensions, this model wants 5 \(\[N,T,H,W,C\], a video\)" 1 <<END
  flat: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
$(sample x model "[flat, 0]" 1 1 1.0)
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END
asked frames_that_make_no_cell "node 'x' \(ExampleWanImageToVideo\): .*length is 12, and a video of Wan has 4 n \+ 1 frames; make it 9 or 13" 1 <<END
  x: {class_type: ExampleWanImageToVideo, inputs: {positive: [yes, 0], negative: [no, 0], vae: [vae, 0], start_image: [pixels, 0], length: 12}}
  dump: {class_type: TestDump, inputs: {samples: [x, 2]}}
END
asked a_picture_that_is_missing "node 'x' \(KSampler\): .*this model wants 'vision' .* put a node that sets it before the sampler" 1 <<END
  i2v_model: {class_type: UNETLoader, inputs: {unet_name: wan_i2v.safetensors}}
$(sample x i2v_model "[empty, 0]" 1 1 1.0)
  dump: {class_type: TestDump, inputs: {samples: [x, 0]}}
END

# files of other families; fake NAME TENSOR:N,.. ...: a file of f32 zeros
mkdir -p "$work/other/diffusion_models" "$work/other/text_encoders" "$work/other/vae"
fake() {
    local file=$1 header='{' at=0 n tensor; shift
    for tensor; do
        n=$((4 * $(sed 's/,/*/g' <<<"${tensor#*:}")))
        header+="\"${tensor%:*}\":{\"dtype\":\"F32\",\"shape\":[${tensor#*:}],\"data_offsets\":[$at,$((at + n))]},"; at=$((at + n))
    done
    header="${header%,}}"; while [ $((${#header} % 8)) -ne 0 ]; do header+=' '; done
    { printf "$(printf '\\x%02x\\x%02x\\0\\0\\0\\0\\0\\0' $((${#header} % 256)) $((${#header} / 256)))"; printf '%s' "$header"; head -c $at /dev/zero; } >"$work/other/$file"
}
wan="head.modulation:1,2,8 blocks.0.self_attn.norm_q.weight:8 time_projection.1.weight:48,8"
fake diffusion_models/vace.safetensors $wan patch_embedding.weight:8,16,1,2,2 vace_patch_embedding.weight:8,96,1,2,2
fake diffusion_models/five.safetensors $wan patch_embedding.weight:8,48,1,2,2
t5="shared.weight:8,8 encoder.final_layer_norm.weight:8 encoder.block.0.layer.0.SelfAttention.q.weight:8,8 encoder.block.0.layer.1.DenseReluDense.wi_0.weight:8,8"
bias=layer.0.SelfAttention.relative_attention_bias.weight
fake text_encoders/t5.safetensors $t5 encoder.block.0.$bias:32,2
fake text_encoders/no_words.safetensors $t5 encoder.block.0.$bias:32,2 encoder.block.1.$bias:32,2
cp "$here/models/vae/wan.safetensors" "$work/other/diffusion_models/vae.safetensors"
ln -s "$KILN_ROOT/tests/golden/tiny-sd1/vae" "$work/other/vae/sd1"
models="$work/other"
other() { # NAME LOADER INPUT FILE WORDS
    printf 'kiln: 1\nnodes:\n  x: {class_type: %s, inputs: {%s: %s}}\n  y: {class_type: %s}\n' "$2" "$3" "$4" "$6" >"$work/$1.yaml"
    refused "$1" "$work/$1.yaml" 1 "$5"
}
of_model="KSampler, inputs: {model: [x, 0], positive: [z, 0], negative: [z, 0], latent_image: [e, 0], seed: 1}}
  e: {class_type: ExampleWanEmptyVideo, inputs: {width: 16, height: 16, length: 1}}
  z: {class_type: TestConditioning, inputs: {file: goldens.safetensors, name: golden.tokens}}
  dump: {class_type: TestDump, inputs: {samples: [y, 0]}"
of_clip="CLIPTextEncode, inputs: {clip: [x, 0], text: fox}}
  dump: {class_type: TestBytes, inputs: {name: x, value: [y, 0]}"
other a_model_of_the_house_that_is_another UNETLoader unet_name vace.safetensors "vace.safetensors.*this is a Wan, but it is VACE's, .*; Wan 2.1's T2V and I2V are supported" "$of_model"
other more_channels_than_it_takes UNETLoader unet_name five.safetensors "five.safetensors.*this Wan takes 48 channels; 16 \(T2V\) and 36 \(I2V" "$of_model"
other an_autoencoder_is_no_model UNETLoader unet_name vae.safetensors "vae.safetensors.*no loaded plugin knows a denoiser in it" "$of_model"
other a_t5_is_no_umt5 CLIPLoader clip_name t5.safetensors "t5.safetensors.*no loaded plugin knows a text encoder in it" "$of_clip"
other words_are_missing CLIPLoader clip_name no_words.safetensors "no_words.safetensors.*this UMT5 has no tokenizer: a tensor 'spiece_model' .* is expected" "$of_clip"
of_parts="ExampleWanParts, inputs: {vae: [x, 0]}}
  e: {class_type: EmptyLatentImage, inputs: {width: 64, height: 64}}
  d: {class_type: VAEDecode, inputs: {samples: [e, 0], vae: [y, 0]}}
  dump: {class_type: TestBytes, inputs: {name: x, value: [d, 0]}"
other a_vae_of_another_family VAELoader vae_name sd1 "node 'y' \(ExampleWanParts\): this VAE is of the family '[^']*', and no Wan's" "$of_parts"
exit $status
