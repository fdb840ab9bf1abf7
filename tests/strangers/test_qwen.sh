# test_qwen.sh - a stranger brings Qwen-Image-Edit (qwen/): a vision tower with windows, a language model as text encoder with places on three axes and a
# chat template, a transformer that draws from reference latents, an autoencoder. Built against an installed kiln and nothing else, and held against diffusers
# and transformers: f32 1e-5 of the largest value, bf16 2e-2.
here="$KILN_ROOT/tests/strangers/qwen" input="$KILN_ROOT/tests/strangers/qwen"
models="$here/models:$KILN_ROOT/tests/strangers/flux/models:$KILN_ROOT/tests/golden" # of others: files that are none of ours
. "$KILN_ROOT/tests/strangers/goldens/goldens.sh"
build qwen.so "$here"/*.c && build goldens.so "$KILN_ROOT/tests/strangers/goldens/golden_nodes.c"; verdict builds_against_the_installed_headers $?
[ -z "$(readelf -d "$work/plugins/qwen.so" | grep NEEDED | grep -vE 'libc\.|libm\.|libjansson\.')" ]; verdict links_nothing_of_kilns $?
"$kiln" check-plugin "$work/plugins/qwen.so" >"$work/check.txt" 2>&1; verdict check_plugin $?

begin() { # [FILES]: the models as folders, or with ".safetensors" as the single files that ComfyUI reads
    cat <<END
kiln: 1
nodes:
  model: {class_type: UNETLoader, inputs: {unet_name: qwen$1}}
  clip: {class_type: CLIPLoader, inputs: {clip_name: qwen$1, type: qwen_image}}
  vae: {class_type: VAELoader, inputs: {vae_name: qwen$1}}
  picture: {class_type: TestImage, inputs: {file: goldens.safetensors, name: picture}}
  empty: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: empty}}
  two: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: two}}
  yes: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: "a red square on grass"}}
  no: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: " "}}
  other: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: "a whole sentence about two blue circles"}}
  change: {class_type: ExampleTextEncodeQwenImageEdit, inputs: {clip: [clip, 0], vae: [vae, 0], image: [picture, 0], prompt: "make it blue", side: 96}}
  keep: {class_type: ExampleTextEncodeQwenImageEdit, inputs: {clip: [clip, 0], vae: [vae, 0], image: [picture, 0], prompt: " ", side: 96}}
END
}
sample() { # NAME LATENT SEED STEPS POSITIVE NEGATIVE CFG [MODEL]
    echo "  $1: {class_type: KSampler, inputs: {model: [${8:-model}, 0], positive: [$5, 0], negative: [$6, 0], latent_image: [$2, 0], seed: $3, steps: $4, cfg: $7, sampler_name: euler, scheduler: simple}}"
}
golden() { echo "  golden_$1: {class_type: TestGolden, inputs: {value: [${2:-$1}, ${3:-0}], file: goldens.safetensors, name: golden.$1}}"; } # NAME [NODE [OUTPUT]]
cases="text skipped edit_text seen seen_small encoded decoded one whole longer batch edited apart true_cfg result"
all_cases() { # [FILES]
    begin "$1"
    cat <<END
  text: {class_type: ExampleConditioningTokens, inputs: {conditioning: [yes, 0]}}
  earlier: {class_type: CLIPSetLastLayer, inputs: {clip: [clip, 0], stop_at_clip_layer: -2}}
  earlier_text: {class_type: CLIPTextEncode, inputs: {clip: [earlier, 0], text: "a red square on grass"}}
  skipped: {class_type: ExampleConditioningTokens, inputs: {conditioning: [earlier_text, 0]}}
  edit_text: {class_type: ExampleConditioningTokens, inputs: {conditioning: [change, 0]}}
  large: {class_type: ExampleQwenScale, inputs: {image: [picture, 0], side: 96}}
  seen: {class_type: ExampleQwenSee, inputs: {clip: [clip, 0], image: [large, 0]}}
  seen_small: {class_type: ExampleQwenSee, inputs: {clip: [clip, 0], image: [picture, 0]}}
  encoded: {class_type: VAEEncode, inputs: {pixels: [large, 0], vae: [vae, 0]}}
  latent: {class_type: TestLatent, inputs: {file: goldens.safetensors, name: latent}}
  decoded: {class_type: VAEDecode, inputs: {samples: [latent, 0], vae: [vae, 0]}}
  rescaled: {class_type: ExampleQwenTrueCFG, inputs: {model: [model, 0]}}
  result: {class_type: VAEDecode, inputs: {samples: [edited, 0], vae: [vae, 0]}}
END
    sample one empty 5 1 yes yes 1.0
    sample whole empty 5 5 yes no 3.0
    sample longer empty 5 5 other no 3.0
    sample batch two 6 4 yes no 3.0
    sample edited empty 7 5 change keep 3.0
    sample apart empty 7 3 change no 3.0
    sample true_cfg empty 7 5 change keep 3.0 rescaled
    for name in $cases; do golden "$name"; done
}
all_cases >"$work/all.yaml"
run all "$work/all.yaml" --no-cache; verdict runs $?
for name in $cases; do as_golden $name all; done
! grep -q 'is not used by any network' "$work/all.txt"; verdict every_weight_is_asked_for $?

# the node for edits, without a picture, is an encoder of prompts
{
    begin
    echo '  plain: {class_type: ExampleTextEncodeQwenImageEdit, inputs: {clip: [clip, 0], vae: [vae, 0], prompt: "a red square on grass"}}'
    echo '  text: {class_type: ExampleConditioningTokens, inputs: {conditioning: [plain, 0]}}'
    golden text
} >"$work/alone.yaml"
run alone "$work/alone.yaml" --no-cache; as_golden text_without_a_picture alone text

# two pictures to draw from
two_references() {
    begin
    cat <<END
  small: {class_type: ExampleQwenScale, inputs: {image: [picture, 0], side: 64}}
  second: {class_type: VAEEncode, inputs: {pixels: [small, 0], vae: [vae, 0]}}
  both: {class_type: ExampleReferenceLatent, inputs: {conditioning: [change, 0], latent: [second, 0]}}
END
    sample references empty 7 3 both both 1.0; golden references
}
two_references >"$work/references.yaml"
run references "$work/references.yaml" --no-cache; as_golden references references

# the names of the single files that ComfyUI reads; the transformer's is 2511's, which shows its references at t = 0
all_cases .safetensors | sed 's/name: golden.edited}/name: golden.edited_clean}/' >"$work/single.yaml"
run single "$work/single.yaml" --no-cache; verdict single_files_run $?
for name in text edit_text encoded decoded whole edited_clean; do as_golden "${name}_of_single_files" single $name; done
! grep -q 'is not used by any network' "$work/single.txt"; verdict every_weight_of_single_files_is_asked_for $?

# a batch of prompts of unequal lengths: both in one evaluation, each as it is alone, which the goldens above say; with unequal pictures one after the other
attentions() { { begin; "$@"; } >"$work/count.yaml"; run count "$work/count.yaml" --no-cache --trace "$work/count.trace" && grep -c '"name": "attention".*"denoiser/' "$work/count.trace"; }
[ "$(attentions eval 'sample longer empty 5 5 other no 3.0; golden longer')" -eq 10 ]; verdict unequal_prompts_are_one_batch $?
[ "$(attentions eval 'sample apart empty 7 3 change no 3.0; golden apart')" -eq 12 ]; verdict unequal_references_are_apart $?

# hooks see the joint attention whole: its streams, and which keys are padding
build watch.so "$KILN_ROOT/tests/strangers/goldens/watch_attention.c"; verdict a_hook_builds $?
{
    begin
    echo '  plain: {class_type: TestWatchAttention, inputs: {model: [model, 0]}}'
    echo '  drawing: {class_type: TestWatchAttention, inputs: {model: [model, 0], reference: "yes"}}'
    sample longer empty 5 5 other no 3.0 plain; sample edited empty 7 5 change keep 3.0 drawing
    golden longer; golden edited
} >"$work/watched.yaml"
run watched "$work/watched.yaml" --no-cache; for name in longer edited; do as_golden "${name}_by_a_hook" watched $name; done

# sizes of pictures by transformers' rule
cat >"$work/sizes.c" <<END
#include "qwen.h"
#include <inttypes.h>
int main(void)
{
    int64_t h, w, to_h, to_w;
    while (scanf("%" SCNd64 " %" SCNd64 "%*[^\n]", &h, &w) == 2 && qwen_smart_resize(h, w, &to_h, &to_w))
        printf("%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 "\n", h, w, to_h, to_w);
    return qwen_smart_resize(1, 201, &to_h, &to_w);
}
END
# shellcheck disable=SC2046
cc -std=c11 $(pkg-config --cflags kiln) -I"$here" -ffunction-sections -fdata-sections -Wl,--gc-sections "$work/sizes.c" "$here/qwen_vision.c" -o "$work/sizes" -lm &&
    "$work/sizes" <"$here/sizes.txt" >"$work/sizes.txt" && cmp "$work/sizes.txt" "$here/sizes.txt"
verdict pictures_get_the_sizes_of_smart_resize $?

# in bf16
"$kiln" run "$work/all.yaml" --no-cache --precision bf16 --plugins "$work/plugins" --models "$models" --input "$here" --out "$work/bf16" >"$work/bf16.txt" 2>&1
for name in text edit_text seen encoded decoded one whole longer edited apart result; do
    error=$(sed -n "s/^golden golden\.$name //p" "$work/bf16.txt")
    awk -v e="${error:-none}" 'BEGIN { exit !(e != "none" && e != "nan" && e + 0 <= 2e-2) }'; result=$?
    echo "# ${name}_bf16: ${error:-not compared}"; verdict "${name}_bf16" $result
done

# looked at without running, the same bytes for any number of threads, taken up again after a kill
run dry "$work/all.yaml" --no-cache --dry-run && ! grep -q '^golden golden' "$work/dry.txt"; verdict a_dry_run_runs_nothing $?
run explained "$work/all.yaml" --no-cache --explain && grep -qE '^change/seen +ExampleQwenSee +[0-9a-f]+ +[0-9.]+ [kM]B +[0-9.]+ [kM]B +[0-9.]+' "$work/explained.txt" &&
    grep -qE '^change/text +ExampleQwenEncode +[0-9a-f]+ +[0-9.]+ [kM]B +[0-9.]+ [kM]B +[0-9.]+' "$work/explained.txt" && ! grep -q 'nodes* could not be estimated' <(grep -v TestGolden "$work/explained.txt" | grep '^[a-z].*?')
verdict is_explained $?
edit() { begin; sample edited empty 7 "$1" change keep 3.0; echo '  dump: {class_type: TestDump, inputs: {samples: [edited, 0]}}'; }
edit 5 >"$work/dump.yaml"
run one_thread "$work/dump.yaml" --no-cache --threads 1; run four_threads "$work/dump.yaml" --no-cache --threads 4
cmp "$work/one_thread/samples_00001_.f32" "$work/four_threads/samples_00001_.f32"; verdict the_same_bytes_for_any_threads $?
in_the_least_memory "$work/dump.yaml" samples_00001_.f32 "$work/one_thread/samples_00001_.f32"; verdict the_same_bytes_in_the_least_memory $?
edit 400 >"$work/long.yaml"
resumes_after_a_kill "$work/long.yaml"; verdict killed_it_goes_on $?

# on a device, where there is an emulated one
grep -vE '^  (golden_)?(one|whole|batch|apart|true_cfg|result|encoded|skipped|seen_small):' "$work/all.yaml" >"$work/some.yaml"
on_device device "$work/some.yaml" && for name in text edit_text seen decoded longer edited; do as_golden "${name}_on_the_device" device $name; done

# bad use
begins() { begin | sed -n '1,/^nodes/p'; begin | grep -E "^  ($1):"; }
ends() { sample drawn empty 1 2 "${1:-yes}" "${1:-yes}" 1.0; echo '  dump: {class_type: TestDump, inputs: {samples: [drawn, 0]}}'; }
{ begins 'model|clip|empty'; echo '  yes: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: "Picture 1: <|vision_start|><|image_pad|><|vision_end|> is red"}}'; ends; } >"$work/bad.yaml"
refused a_place_without_a_picture "$work/bad.yaml" 1 "node 'yes' \(CLIPTextEncode\): the prompt has a place for a picture \(<\|image_pad\|>\) and there is none; wire one to ExampleTextEncodeQwenImageEdit's image"
{ begins 'model|clip|vae|picture|empty'; begin | grep '^  change' | sed 's/make it blue/and <|image_pad|> too/'; ends change; } >"$work/bad.yaml"
refused two_places_for_one_picture "$work/bad.yaml" 1 "node 'change/text' \(ExampleQwenEncode\).*: the prompt has 1 places for pictures .*beside the template's"
{ begins 'model|clip|empty'; echo "  yes: {class_type: CLIPTextEncode, inputs: {clip: [clip, 0], text: \"$(printf '7 %.0s' $(seq 1200))\"}}"; ends; } >"$work/bad.yaml"
refused too_long_a_prompt "$work/bad.yaml" 1 "node 'yes' \(CLIPTextEncode\): the prompt is [0-9]+ tokens long with the template's end, and Qwen-Image takes 1024; shorten it"
{ begins 'model|vae|picture|empty'; echo '  sd: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}'; begin | grep '^  change' | sed 's/clip: \[clip, 0\]/clip: [sd, CLIP]/'; ends change; } >"$work/bad.yaml"
refused a_clip_that_sees_nothing "$work/bad.yaml" 1 "node 'change/seen' \(ExampleQwenSee\).*: this CLIP is a CLIP.*, which sees no pictures; Qwen-Image-Edit wants the Qwen2.5-VL it came with"
{ begins 'model|empty'; echo '  sd: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}'; echo '  yes: {class_type: CLIPTextEncode, inputs: {clip: [sd, CLIP], text: a}}'; ends; } >"$work/bad.yaml"
refused tokens_of_another_encoder "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): positive: its tokens are 32 wide but .* wants 48; encode the text with the CLIP of the model's own checkpoint"
{ begins 'clip|yes|empty' | sed 's/clip_name: qwen/clip_name: t5.safetensors/'; echo '  model: {class_type: UNETLoader, inputs: {unet_name: qwen}}'; ends; } >"$work/bad.yaml"
refused a_file_of_another_encoder "$work/bad.yaml" 1 "node 'clip' \(CLIPLoader\): .*t5.safetensors: no loaded plugin knows a text encoder of type 'qwen_image' in it"
{ begins 'clip|yes|empty'; echo '  model: {class_type: UNETLoader, inputs: {unet_name: flux.safetensors}}'; ends; } >"$work/bad.yaml"
refused a_file_of_another_transformer "$work/bad.yaml" 1 "node 'model' \(UNETLoader\): .*flux.safetensors: no loaded plugin knows a denoiser in it"
{ begins 'model|clip|vae|picture|empty'; begin | grep '^  change' | sed 's/image: \[picture, 0\]/image: [pair, 0]/'; echo '  pair: {class_type: RepeatImageBatch, inputs: {image: [picture, 0], amount: 2}}'; ends change; } >"$work/bad.yaml"
refused two_pictures_for_one_place "$work/bad.yaml" 1 "node 'change/seen' \(ExampleQwenSee\).*: 2 pictures; the prompt's template has a place for one"
{
    begins 'model|clip|yes|empty|vae|picture'; ends odd
    echo '  encoded: {class_type: VAEEncode, inputs: {pixels: [picture, 0], vae: [vae, 0]}}'
    echo '  odd: {class_type: ExampleReferenceLatent, inputs: {conditioning: [yes, 0], latent: [encoded, 0]}}'
} >"$work/bad.yaml"
refused half_a_patch "$work/bad.yaml" 1 "node 'drawn' \(KSampler\): .*a reference latent of 5x3 cells, and the model takes patches of 2x2; scale the picture to multiples of 16 pixels"
exit $status
