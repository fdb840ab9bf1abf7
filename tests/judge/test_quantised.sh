#!/usr/bin/env bash
# test_quantised.sh - the shipped model with its networks in Q8_0 draws what it draws with the given weights: of some prompts the judge finds none lost, and each
# LoRA over them draws on its ground. With networks in Q8_0, Q5_0 and Q4_0 a picture is as near to that of the given f16 weights as docs/quantised.md says. A picture from quantised weights has the same bytes for any number of threads and under any memory budget.
set -u
cd "$KILN_ROOT" || exit 2
build=$KILN_BUILD
case $build in /*) ;; *) build=$KILN_ROOT/$build ;; esac
here=tests/judge status=0
folder=$(mktemp -d) || exit 2
trap 'rm -rf "$folder"' EXIT
verdict() { if [ "$2" -eq 0 ]; then echo "ok $1"; else sed 's/^/  /' "$folder/log" | tail -n 20 | cut -c 1-300; echo "FAIL $1"; status=1; fi; }

# ---- prompts
# quantised NAME TYPE: the UNet and the text encoder in blocks
quantised() {
    model=$folder/models/shapes-$1
    mkdir -p "$folder/models" && cp -R workflows/models/shapes-sd1 "$model" && rm "$model"/unet/*.safetensors "$model"/text_encoder/*.safetensors || exit 2
    for part in unet/diffusion_pytorch_model text_encoder/model; do
        "$build/kiln" quantize "workflows/models/shapes-sd1/${part%/*}" "$model/$part.safetensors" --type "$2" >"$folder/log" 2>&1 || verdict "${part%/*}_is_quantised_in_$2" 1
    done
}
quantised q8 q8_0; quantised q4k q4_k; quantised q4 q4_0
grep -v '^#' "$here/prompts-24.txt" | sed -n '1~4p' >"$folder/prompts"
draw() { AT_LEAST=0 bash "$here/measure.sh" "$folder/prompts" "$folder/$1" --no-cache "${@:2}" >"$folder/log" 2>&1 && sed -n 's/^right  [^ ]*  \(".*"\): .*/\1/p' "$folder/log" >"$folder/$1.right"; }
draw given && [ -s "$folder/given.right" ]; verdict the_given_weights_draw $?
draw q8 --models "$folder/models" --set model.ckpt_name=shapes-q8 && ! grep -vxFf "$folder/q8.right" "$folder/given.right" >>"$folder/log"; verdict no_prompt_is_lost_in_q8_0 $?
# How far the picture is, of 255: the mean difference and the root of the mean square, of each picture. The bounds are twice what the farthest of the 24 prompts of
# prompts-24.txt had, in bf16 (integer products) and in f32 (widened): 0.63 and 2.7, 0.99 and 4.0, 3.5 and 11.4. Rows of this model are no blocks of 256, so that Q4_K stores Q5_0.
near() {
    paste "$folder/given/list.tsv" "$folder/$1/list.tsv" | while IFS=$'\t' read -r a _ b _; do
        echo "$("$build/tests/judge/judge" --difference "$a" "$b") $("$build/tests/judge/judge" --rms "$a" "$b")"
    done >"$folder/log"
    awk -v mean="$2" -v rms="$3" '{ far += $1 > mean || $2 > rms; other += $1 > 0 } END { exit far || NR != 6 || other != 6 }' "$folder/log"
}
near q8 1.3 5.5; verdict pictures_of_q8_0_are_near $?
draw q4k --models "$folder/models" --set model.ckpt_name=shapes-q4k && near q4k 2 8; verdict pictures_of_q4_k_are_near $?
draw q4 --models "$folder/models" --set model.ckpt_name=shapes-q4 && near q4 7 23; verdict pictures_of_q4_0_are_near $?
# LoRAs over codes: a plain one, a LoKr and a DoRA each draw on their ground, as they do over the given weights
for row in shapes-night:black shapes-sand-lokr:beige shapes-fog-dora:gray; do
    drawn=$("$build/kiln" run workflows/lora.yaml --models "$folder/models:workflows/models" --set model.ckpt_name=shapes-q8 --set "night.lora_name=${row%:*}.safetensors" --no-cache --quiet --out "$folder/lora" 2>"$folder/log") &&
        "$build/tests/judge/judge" "$drawn" "a red circle above a blue square on a ${row#*:} background" >>"$folder/log"; verdict "${row%:*}_over_q8_0" $?
done

# ---- the same bytes
. tests/models/single_model.sh
cd "$folder" || exit 2
make_single whole.safetensors || exit 2
"$build/kiln" quantize whole.safetensors models/q8.gguf --type q8_0 >log 2>&1 && "$build/kiln" quantize whole.safetensors models/q4.gguf --type q4_k >log 2>&1; verdict both_are_written $?
picture() {
    "$build/kiln" run "$KILN_ROOT/workflows/txt2img.yaml" --models models --set "model.ckpt_name=$1.gguf" --set steps=2 --set empty.width=32 --set empty.height=32 --precision "$2" --no-cache \
        --out "$folder/$3" "${@:4}" >log 2>&1
}
made_ready() { sed -n 's/.*; \([0-9.]*\) MB of weights were made ready.*/\1/p' log; }
for type in q8 q4; do
    for precision in f32 bf16; do
        of=$type-$precision
        picture $type $precision $of-one -j 1 && picture $type $precision $of-three -j 3 && cmp $of-one/*.png $of-three/*.png >>log; verdict ${type}_${precision}_any_threads $?
        picture $type $precision $of-large -j 3 --memory 200M; large=$(made_ready)
        for budget in 5M 6M 7M 8M 9M 10M 11M 12M 13M 14M; do # the first that decodes the picture at once: else its last bits are others
            rm -rf "$of-least"; picture $type $precision $of-least -j 3 --memory $budget && ! grep -q 'does not fit into the memory' log && break
        done
        cmp $of-one/*.png $of-least/*.png >>log && awk -v a="$(made_ready)" -v b="$large" 'BEGIN { exit !(a > b) }'; verdict ${type}_${precision}_streamed_through_$budget $?
    done
done
exit $status
